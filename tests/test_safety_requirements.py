"""Every line of the requirement tables of `limits.py` and `recovery.py` has a test that carries its number."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from onboard import limits, recovery

HERE = Path(__file__).parent
LINE = re.compile(r"^ *R(\d+) ", re.MULTILINE)
NUMBER = re.compile(r"_r(\d+)(?=_)")

#   module     tests                                                 lines
TABLES = [
    (limits, ["test_limits.py", "test_limits_outside.py", "test_limits_edges.py"], 20),
    (recovery, ["test_recovery.py", "test_recovery_edges.py"], 13),
]


def required(module: ModuleType) -> list[int]:
    """Return the numbers of the table in a module's docstring, in their order."""
    return [int(number) for number in LINE.findall(module.__doc__ or "")]


def covered(names: list[str]) -> set[int]:
    """Return the numbers that the names of test functions carry."""
    trees = [ast.parse((HERE / name).read_text()) for name in names]
    tests = [node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {int(number) for test in tests if test.startswith("test_") for number in NUMBER.findall(test)}


@pytest.mark.parametrize(("module", "names", "lines"), TABLES, ids=["limits", "recovery"])
def test_the_table_is_numbered_without_a_gap(module: ModuleType, names: list[str], lines: int) -> None:
    assert required(module) == list(range(1, lines + 1))


@pytest.mark.parametrize(("module", "names", "lines"), TABLES, ids=["limits", "recovery"])
def test_every_line_has_a_test_and_every_number_a_line(module: ModuleType, names: list[str], lines: int) -> None:
    assert covered(names) == set(required(module))
