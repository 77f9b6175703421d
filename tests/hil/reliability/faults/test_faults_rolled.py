"""How far the base rolls under a fault: by hand, and in drives; and the table in Markdown that says so."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.reliability.faults.expectations import Run, Truth
from hil.reliability.faults.run.simulated import in_simulation
from hil.reliability.faults.verdict import StoppingDistance, Verdict, rolled
from onboard.values.clock import NS_PER_S
from tests.hil.reliability.faults.faults_rig import BY_NAME, site

TICK_NS = NS_PER_S // 30
ONSET, END = 5, 45


def run(ways_m: list[float], ended: str = "") -> Run:
    """Return a run whose base was so far along in each tick."""
    truth = [Truth(number * TICK_NS, way_m, 0.5) for number, way_m in enumerate(ways_m)]
    return Run([], ONSET * TICK_NS, END * TICK_NS, ended, truth=truth)


BEFORE = [0.02 * number for number in range(ONSET)]
#   what                                   ways                                                        rolled
WAYS = [
    ("stands at once",                     [*BEFORE, *[0.1] * 60],                                     (0.0, 0)),
    ("rolls for two ticks",                [*BEFORE, 0.1, 0.12, *[0.13] * 60],                         (0.03, 2)),
    ("less than a millimetre is standing", [*BEFORE, 0.1, 0.12, *[0.1295] * 3, *[0.13] * 60],          (0.0295, 2)),
    ("goes on after the fault",            [*BEFORE, *[0.1] * 40, *[0.1 + 0.02 * n for n in range(9)]], (0.0, 0)),
    ("drives on",                          [0.02 * number for number in range(60)],                    None),
    ("stands too late to tell",            [*BEFORE, *[0.1 + 0.02 * n for n in range(36)], *[0.8] * 9], None),
    ("what a base does with NaN",          [*BEFORE, *[math.nan] * 60],                                None),
    ("the truth is not known",             [],                                                         None),
]  # fmt: skip


@pytest.mark.parametrize(("what", "ways", "found"), WAYS, ids=[row[0] for row in WAYS])
def test_the_way_from_the_onset_until_it_stands(what: str, ways: list[float], found: tuple[float, int] | None) -> None:
    way = rolled(run(ways))
    assert way == (None if found is None else StoppingDistance(0.5, pytest.approx(found[0]), found[1]))


def test_of_a_run_that_ended_what_the_base_did_afterwards_counts() -> None:
    ways = [*BEFORE, *[0.1 + 0.02 * number for number in range(44)], *[1.0] * 30]
    assert rolled(run(ways)) is None
    way = rolled(run(ways, ended="DriverError"))
    assert way is not None
    assert way.ticks == 44


@pytest.fixture(scope="module")
def verdicts() -> dict[str, Verdict]:
    names = ["e_stop", "odometry_stopped", "scan_gone", "drive_lost", "speed_limit_nan"]
    return {name: in_simulation(BY_NAME[name], site()) for name in names}


def test_what_is_noticed_later_rolls_farther_by_just_so_much(verdicts: dict[str, Verdict]) -> None:
    """The base brakes the same each time, from 0.6 m/s; before it is told to, it goes on as it did."""
    pressed = verdicts["e_stop"].rolled
    assert pressed is not None
    assert pressed.from_mps == pytest.approx(0.6, abs=0.01)
    assert 0.03 < pressed.way_m < 0.15
    for name in ("odometry_stopped", "scan_gone"):
        late = verdicts[name]
        assert late.rolled is not None
        assert late.settled is not None
        assert late.rolled.way_m - pressed.way_m == pytest.approx(late.settled * 0.6 / 30.0, abs=0.01)
        assert late.rolled.ticks - pressed.ticks == late.settled


def test_who_ends_the_runtime_rolls_too_and_who_drives_on_does_not(verdicts: dict[str, Verdict]) -> None:
    lost = verdicts["drive_lost"].rolled
    assert lost is not None
    assert 0.03 < lost.way_m < 0.15
    assert verdicts["speed_limit_nan"].rolled is None


def test_the_command_writes_the_table(tmp_path: Path) -> None:
    file = tmp_path / "table.md"
    done = CliRunner().invoke(
        app, ["faults", "--sim", "--only", "e_stop", "--processes", "none", "--markdown", str(file)]
    )
    assert done.exit_code == 0, done.output
    (row,) = [line for line in file.read_text().splitlines() if line.startswith("| `e_stop` |")]
    assert float(row.split("|")[-2]) > 0.0
    bad = CliRunner().invoke(
        app, ["faults", "--sim", "--only", "e_stop", "--processes", "none", "--markdown", str(tmp_path)]
    )
    assert "cannot be written" in str(bad.exception)
