"""The quick tier of the tests holds the tests that it must hold (`.ci/test_times.py`)."""

from __future__ import annotations

import importlib.util
import re
from fnmatch import fnmatch

import pytest

from tests.rigs.machine.processes import ROOT

SPEC = importlib.util.spec_from_file_location("test_times", ROOT / ".ci" / "test_times.py")
assert SPEC is not None
assert SPEC.loader is not None
TIMES = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TIMES)
SLOW = (ROOT / "tests" / "slow_tests.txt").read_text(encoding="utf-8").splitlines()[1:]


@pytest.mark.parametrize("pattern", TIMES.ALWAYS)
def test_the_quick_tests_hold_it(pattern: str) -> None:
    file, _, test = pattern.partition("::")
    files = [path for path in ROOT.glob(file) if path.suffix == ".py"]
    assert files
    assert not test or f"def {test}(" in files[0].read_text(encoding="utf-8")
    assert not [
        line for line in SLOW if fnmatch(line, pattern) or line in {str(one.relative_to(ROOT)) for one in files}
    ]


def test_what_is_slow_is_there() -> None:
    for line in SLOW:
        file, _, test = line.partition("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not test or f"def {test.rpartition('::')[2]}(" in text, line


def test_the_files_that_the_makefile_names_are_there() -> None:
    named = re.findall(r"tests/[\w/]+\.py", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
