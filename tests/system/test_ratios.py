"""The table of `make bench`: what counts as a regression, and what is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from onboard.config.toml_file import read_toml
from tests.benchmarks.conftest import ALLOWED, TRIES, Ratios, processor


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ratios.toml"
    path.write_text(f'["{processor()}"]\n"fusion: numpy" = 10.0\n"other" = 2.0\n\n["another"]\n"new" = 9.0\n')
    return path


def series(*values: float) -> Callable[[], float]:
    left = list(values)
    return lambda: left.pop(0)


#   case                                 measured          least  passes
ROWS = [
    ("as accepted",                      (10.0,),            1.0, True),
    ("a little slower",                  (8.1,),             1.0, True),
    ("a fifth slower, three times",      (7.9, 7.8, 7.9),    1.0, False),
    ("slow once, by other programs",     (5.0, 9.0),         1.0, True),
    ("below its own limit",              (9.0, 9.0, 9.0),    9.5, False),
]  # fmt: skip


@pytest.mark.parametrize(("case", "measured", "least", "passes"), ROWS)
def test_a_regression_fails_and_names_its_row(
    file: Path, case: str, measured: tuple[float, ...], least: float, passes: bool
) -> None:
    table = Ratios(file, compares=True)
    if passes:
        table.check("fusion: numpy", series(*measured), least)
    else:
        assert len(measured) == TRIES, case
        with pytest.raises(AssertionError, match=r"fusion: numpy: .*must be"):
            table.check("fusion: numpy", series(*measured), least)
    assert table.measured == {"fusion: numpy": max(measured)}


def test_beside_other_tests_only_the_limit_holds(file: Path) -> None:
    Ratios(file, compares=False).check("fusion: numpy", series(1.5), 1.0)


def test_what_is_accepted_replaces_its_rows_only(file: Path) -> None:
    table = Ratios(file, compares=False)
    table.check("fusion: numpy", series(12.345))
    table.check("new", series(3.0))
    table.check("waits for other programs", series(4.0), steady=False)
    table.save()
    tables = read_toml(file)
    assert tables[processor()] == {"fusion: numpy": 12.35, "new": 3.0, "other": 2.0}
    assert tables["another"] == {"new": 9.0}
    assert [line.split("  ")[-1] for line in table.lines()] == ["accepted 10.00", "new", "not compared"]
    with pytest.raises(AssertionError, match="new"):
        Ratios(file, compares=True).check("new", lambda: 0.99 * ALLOWED * 3.0)
