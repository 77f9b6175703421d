"""Each rule in the tables of `onboard/safety/limits.py` and `onboard/safety/recovery.py` has a test with its number."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest

from onboard.safety import limits, recovery

HERE = Path(__file__).parents[1]
LINE = re.compile(r"^ *R(\d+) ", re.MULTILINE)
NUMBER = re.compile(r"_r(\d+)(?=_)")

#   module     files with its tests
TABLES = [
    (limits, ["test_limits*.py", "test_keepout_zones*.py"]),
    (recovery, ["test_recovery*.py"]),
]


def required(module: ModuleType) -> list[int]:
    """Return the numbers of the table in a module's docstring, in their order."""
    return [int(number) for number in LINE.findall(module.__doc__ or "")]


def covered(patterns: list[str]) -> set[int]:
    """Return the numbers that the names of test functions carry."""
    trees = [ast.parse(path.read_text()) for pattern in patterns for path in HERE.glob(pattern)]
    tests = [node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {int(number) for test in tests if test.startswith("test_") for number in NUMBER.findall(test)}


@pytest.mark.parametrize(("module", "patterns"), TABLES, ids=["limits", "recovery"])
def test_the_table_is_numbered_without_a_gap(module: ModuleType, patterns: list[str]) -> None:
    numbers = required(module)
    assert len(numbers) > 10
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(("module", "patterns"), TABLES, ids=["limits", "recovery"])
def test_every_line_has_a_test_and_every_number_a_line(module: ModuleType, patterns: list[str]) -> None:
    assert covered(patterns) == set(required(module))
