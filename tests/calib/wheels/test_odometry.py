"""The truth of simulated wheels is found from fixes, tape measure, gyroscope and scans; what cannot tell is refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from calib.__main__ import app
from calib.wheels.fit import Reference, by_end, by_fixes, by_gyroscope
from calib.wheels.fit_verdict import Wheels, measured, result
from calib.wheels.runs import Floats, about_vertical
from calib.wheels.scan_match import by_scans
from onboard.values.errors import InputError
from onboard.values.messages import BINS, Scan
from tests.calib.wheels.simulated_wheels import TRACK_M, driven, factors_of, square, write_csv

TAPE_SD = (0.005, 0.005, 0.01)
#                mean radius, right over left, track
WHEELS = [
    pytest.param(factors_of(1.01, 1.0, 1.0), id="1 % scale"),
    pytest.param(factors_of(1.0, 1.0, 1.01), id="1 % track"),
    pytest.param(factors_of(1.0, 1.005, 1.0), id="0.5 % radii"),
    pytest.param(factors_of(0.985, 0.995, 1.03), id="all at once"),
]


def loops_with_fixes(factors: Floats, seed: int, laps: int = 2) -> list[Reference]:
    rng = np.random.default_rng(seed)
    runs = [driven(square(4.0, left=left, laps=laps), factors, rng, fix_s=1.5)[0] for left in (True, False)]
    return [by_fixes(run, 100) for run in runs]


def loops_by_tape(factors: Floats, seed: int, straight_m: float = 0.0) -> list[Reference]:
    """Return five squares each way, as UMBmark has them, and a straight way, each with its measured end."""
    rng = np.random.default_rng(seed)
    ways = [square(4.0, left=left) for left in (True, False) * 5]
    ways += [np.tile([0.4, 0.0], (round(straight_m / 0.4 * 30), 1))] * (4 if straight_m else 0)
    drives = []
    for way in ways:
        run, poses = driven(way, factors, rng)
        drives.append(by_end(run, poses[-1] + rng.normal(0.0, TAPE_SD), TAPE_SD))
    return drives


def off(wheels: Wheels, factors: Floats) -> Floats:
    """Return the errors of the factors, in their standard deviations."""
    return np.asarray((wheels.fitted.factors - factors) / wheels.fitted.sd)


@pytest.mark.parametrize("factors", WHEELS)
def test_wheels_are_found_from_localisation(factors: Floats) -> None:
    found = [measured(loops_with_fixes(factors, seed)) for seed in range(3)]
    assert all(one.verdict == "accepted" and not one.notes for one in found)
    errors = np.array([one.fitted.factors - factors for one in found])
    assert (np.abs(errors) < [0.005, 0.006, 0.003]).all()
    assert (np.abs([off(one, factors) for one in found]) < 4.0).all()


@pytest.mark.parametrize("factors", WHEELS)
def test_wheels_are_found_with_a_tape_measure(factors: Floats) -> None:
    wheels = measured(loops_by_tape(factors, 1, straight_m=6.0), TRACK_M)
    assert wheels.verdict == "accepted"
    assert (np.abs(wheels.fitted.factors - factors) < [0.003, 0.004, 0.002]).all()
    assert (np.abs(off(wheels, factors)) < 4.0).all()
    fitted = result(wheels, TRACK_M)
    assert fitted["track_ratio"] == pytest.approx(factors[0] / factors[1], abs=0.005)


def test_squares_alone_tell_the_turning_and_say_that_they_do_not_tell_the_speed() -> None:
    factors = factors_of(1.0, 1.005, 1.01)
    wheels = measured(loops_by_tape(factors, 2), TRACK_M)
    assert wheels.verdict == "accepted"
    assert "speed not measured" in wheels.notes[0]
    assert wheels.correction[0] == 1.0
    assert wheels.correction[1:] == pytest.approx(factors[1:], abs=0.004)
    assert result(wheels, TRACK_M)["speed"] is None


def test_umbmarks_error_is_the_centre_of_the_worse_direction() -> None:
    mark = measured(loops_by_tape(factors_of(1.0, 1.005, 1.01), 4)).umbmark
    worse = max(np.hypot(*mark["cw_m"]), np.hypot(*mark["ccw_m"]))
    assert mark["e_max_syst_m"] == pytest.approx(worse, abs=1e-3)
    perfect = measured(loops_by_tape(factors_of(1.0, 1.0, 1.0), 4)).umbmark
    assert perfect["e_max_syst_m"] < 0.3 * mark["e_max_syst_m"]


@pytest.mark.long
def test_standard_deviations_are_what_the_results_scatter_by() -> None:
    factors = factors_of(1.01, 1.002, 1.01)
    errors = np.array([off(measured(loops_with_fixes(factors, seed, laps=1)), factors) for seed in range(12)])
    assert (np.sqrt(np.mean(np.square(errors), axis=0)) < 1.6).all()
    assert (np.sqrt(np.mean(np.square(errors), axis=0)) > 0.5).all()


def test_a_gyroscope_tells_the_turning_through_its_bias() -> None:
    factors, rng = factors_of(1.0, 1.005, 1.02), np.random.default_rng(5)
    drives = []
    for left in (True, False):
        run, poses = driven(square(4.0, left=left, laps=2), factors, rng)
        turned = np.diff(poses[:, 2], prepend=0.0) + 0.01 / 30 + rng.normal(0.0, 1e-4, len(poses))
        drives.append(by_gyroscope(dataclasses.replace(run, imu_rad=turned), 150))
    wheels = measured(drives)
    assert wheels.verdict == "accepted"
    assert wheels.correction[0] == 1.0
    assert "the data do not determine it" in wheels.notes[0]
    assert wheels.correction[1:] == pytest.approx(factors[1:], abs=0.003)


@pytest.mark.parametrize("up", [(0.0, 0.0, 1.0), (0.0, 1.0, 0.0), (-0.6, 0.0, -0.8)])
def test_an_imu_may_be_mounted_in_any_way(up: tuple[float, float, float]) -> None:
    rng = np.random.default_rng(1)
    w_radps = rng.normal(0.0, 0.5, 200)
    forces = 9.81 * np.array(up) + rng.normal(0.0, 0.5, (200, 3))
    assert about_vertical(w_radps[:, None] * up, forces) == pytest.approx(w_radps, abs=0.02)


def test_a_gyroscope_that_does_not_follow_the_wheels_is_refused() -> None:
    rng = np.random.default_rng(5)
    run, _ = driven(square(4.0, left=True, laps=2), factors_of(1.0, 1.0, 1.0), rng)
    drifting = dataclasses.replace(run, imu_rad=rng.normal(0.0, 1e-3, len(run.t_s)))
    with pytest.raises(InputError, match="does not turn as the wheels do"):
        measured([by_gyroscope(drifting, 100)])


def seen_from(pose: Floats, walls: Floats, t_s: float, rng: np.random.Generator) -> tuple[float, Scan]:
    """Return the scan of straight walls, (n, 4) of their ends."""
    bearings = pose[2] + np.deg2rad(-180.0 + 360.0 / BINS * (np.arange(BINS) + 0.5))
    rays = np.column_stack([np.cos(bearings), np.sin(bearings)])
    ranges = np.full(BINS, np.inf)
    for x0, y0, x1, y1 in walls:
        along, apart = np.array([x1 - x0, y1 - y0]), np.array([x0, y0]) - pose[:2]
        cross = rays[:, 0] * along[1] - rays[:, 1] * along[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            far = (apart[0] * along[1] - apart[1] * along[0]) / cross
            part = (apart[0] * rays[:, 1] - apart[1] * rays[:, 0]) / cross
        ranges = np.where((far > 0.0) & (part >= 0.0) & (part <= 1.0) & (far < ranges), far, ranges)
    ranges = ranges + rng.normal(0.0, 0.01, BINS)
    return t_s, Scan(0, ranges.astype(np.float32), np.ones(BINS, np.bool_))


ROOM = np.array(
    [
        (-2, -3, 5, -3), (5, -3, 5, 4), (5, 4, -2, 4), (-2, 4, -2, -3), (1, 1, 2, 1), (2, 1, 2, 2), (2, 2, 1, 2),
        (1, 2, 1, 1), (-2, 0.5, -1.3, 0.5), (-1.3, 0.5, -1.3, 1.5), (3, -3, 3, -2.2), (3, -2.2, 4, -2.2),
    ]
)  # fmt: skip


def test_the_robots_own_scans_are_a_reference() -> None:
    factors, rng = factors_of(1.02, 1.005, 1.02), np.random.default_rng(6)
    drives = []
    for left in (True, False):
        run, poses = driven(square(2.5, left=left, laps=2), factors, rng)
        poses = poses if left else poses + np.array([0.0, 2.5, 0.0])
        scans = tuple(seen_from(poses[at], ROOM, run.t_s[at], rng) for at in range(0, len(poses), 4))
        drives.append(by_scans(dataclasses.replace(run, scans=scans)))
    wheels = measured(drives)
    assert wheels.verdict == "accepted", wheels
    assert (np.abs(wheels.fitted.factors - factors) < [0.006, 0.006, 0.004]).all()


# ---- what is refused


@pytest.mark.parametrize(
    ("ways", "reason"),
    [
        ([square(4.0, left=True, laps=3)], "turns to the right"),
        ([square(4.0, left=False, laps=3)], "turns to the left"),
        ([np.tile([0.4, 0.0], (1800, 1))], "turns to the left"),
        ([square(0.4, left=True), square(0.4, left=False)], "m driven"),
    ],
)
def test_too_little_is_refused_with_the_reason(ways: list[Floats], reason: str) -> None:
    rng = np.random.default_rng(7)
    drives = [by_fixes(driven(way, factors_of(1.0, 1.0, 1.0), rng, fix_s=1.0)[0], 100) for way in ways]
    wheels = measured(drives)
    assert wheels.verdict == "refused"
    assert reason in "; ".join(wheels.reasons)
    assert result(wheels)["correction"] is None


def test_less_than_a_whole_turn_is_doubtful_and_the_result_is_offered() -> None:
    rng, factors = np.random.default_rng(3), factors_of(1.01, 1.0, 1.02)
    ways = [square(4.0, left=left, laps=3)[: round(0.25 * 3 * len(square(4.0, left=left)))] for left in (True, False)]
    wheels = measured([by_fixes(driven(way, factors, rng, fix_s=1.0)[0], 100) for way in ways])
    assert wheels.verdict == "doubtful"
    assert "turns to the left, a full turn is better" in wheels.doubts[0]
    fitted = result(wheels)
    assert (fitted["accepted"], fitted["verdict"]) == (False, "doubtful")
    assert fitted["correction"] == pytest.approx(factors, abs=0.01)


@pytest.mark.parametrize(("factor", "fitted"), [(-1.0, "wrong sign"), (180.0 / np.pi, "degrees")])
def test_a_wrong_sign_or_unit_is_named(factor: float, fitted: str) -> None:
    (drive,) = loops_with_fixes(factors_of(1.0, 1.0, 1.0), 9)[:1]
    run = dataclasses.replace(drive.run, turn_rad=factor * drive.run.turn_rad)
    with pytest.raises(InputError, match=fitted):
        measured([by_fixes(run, 100)])


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize(("factor", "fitted"), [(-1.0, "wrong sign"), (180.0 / np.pi, "the gyroscope turns 57 times")])
def test_a_gyroscope_of_a_wrong_sign_or_unit_is_named(left: bool, factor: float, fitted: str) -> None:
    run, poses = driven(square(4.0, left=left), factors_of(1.0, 1.0, 1.0), np.random.default_rng(5))
    run = dataclasses.replace(run, imu_rad=factor * np.diff(poses[:, 2], prepend=0.0))
    with pytest.raises(InputError, match=fitted):
        measured([by_gyroscope(run, 100)])


# ---- the command


def rows(left: bool, factors: Floats, seed: int = 0) -> list[dict[str, object]]:
    run, _ = driven(square(4.0, left=left, laps=3), factors, np.random.default_rng(seed), fix_s=1.0)
    fixes = dict(zip(run.fixes.t_s.tolist(), run.fixes.poses.tolist(), strict=True))
    dt_s = np.diff(run.t_s, prepend=run.t_s[0] - 1 / 30)
    return [
        {
            "t_s": t_s, "v": way / dt, "w": turn / dt,
            **dict(zip(("x", "y", "yaw"), fixes.get(t_s, ("", "", "")), strict=True)),
        }
        for t_s, way, turn, dt in zip(run.t_s.tolist(), run.way_m, run.turn_rad, dt_s, strict=True)
    ]  # fmt: skip


def asked(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["odometry", *arguments])
    if isinstance(done.exception, InputError):
        return 2, str(done.exception)
    return done.exit_code, done.output


def test_the_command_prints_what_a_configuration_takes(tmp_path: Path) -> None:
    factors = factors_of(1.01, 1.0, 1.01)
    files = [str(write_csv(tmp_path / f"{left}.csv", rows(left, factors, left))) for left in (True, False)]
    code, text = asked(*files, "--json", "-")
    fitted = json.loads(text)
    assert code == 0
    assert fitted["correction"] == pytest.approx(factors, abs=0.006)
    code, text = asked(*files)
    assert text.splitlines()[-1].startswith("correction = [")
    assert asked(files[0])[0] == 1


def test_bad_tables_are_named(tmp_path: Path) -> None:
    good = rows(True, factors_of(1.0, 1.0, 1.0))
    wrong = {
        "line 3: w = nan is not finite": [{**good[0]}, {**good[1], "w": "nan"}, *good[2:]],
        "out of order": [good[0], good[2], good[1], *good[3:]],
        "no column v": [{key: value for key, value in row.items() if key != "v"} for row in good],
        "line 2: v = 'fast' is not a number": [{**good[0], "v": "fast"}, *good[1:]],
        "at least 2 with finite times needed": good[:1],
        "v reaches 400: this seems to be another unit": [{**row, "v": 1000.0 * float(str(row["v"]))} for row in good],
        "t_s, v and the reference are of different units": [{**row, "v": 20.0 * float(str(row["v"]))} for row in good],
    }
    for fitted, table in wrong.items():
        code, text = asked(str(write_csv(tmp_path / "bad.csv", table)))
        assert code == (1 if "units" in fitted else 2)
        assert fitted in text
        assert "bad.csv" in text or code == 1
    assert asked(str(tmp_path / "none.csv"))[0] == 2
    assert asked(str(write_csv(tmp_path / "good.csv", good)), "--end", "1,2")[0] == 2
    assert asked(str(tmp_path / "good.csv"), "--end", "0,0,0", "--end", "0,0,0")[0] == 2
    assert asked(str(tmp_path / "good.csv"), "--reference", "gyroscope")[0] == 2


@pytest.mark.long
@pytest.mark.parametrize("factors", WHEELS)
def test_twenty_seeds(factors: Floats) -> None:
    errors = np.array([off(measured(loops_with_fixes(factors, seed)), factors) for seed in range(20)])
    assert (np.abs(errors) < 4.0).all()
    assert (np.sqrt(np.mean(np.square(errors), axis=0)) < 1.5).all()


def test_a_gap_while_the_robot_moves_is_named_and_left_out(tmp_path: Path) -> None:
    """Without the 7 s of one lap and a half, the rest still tells the truth."""
    factors = factors_of(0.98, 1.0, 0.98 / 1.02)
    files = []
    for left in (True, False):
        kept = [row for row in rows(left, factors, 3) if not (left and 31.0 < float(str(row["t_s"])) < 38.0)]
        files.append(str(write_csv(tmp_path / f"{left}.csv", kept)))
    code, text = asked(*files)
    assert code == 0
    assert (
        "True.csv: no odometry from 31.00 to 38.00 s, a gap of 7.0 s while the robot moved; this drive is not used"
        in text
    )
    assert text.count("a gap of") == 1
    found = json.loads(asked(*files, "--json", "-")[1])
    assert found["verdict"] == "accepted"
    assert found["correction"] == pytest.approx(factors, abs=0.006)


def test_a_gap_that_nothing_bridges_is_refused(tmp_path: Path) -> None:
    kept = [row for row in rows(True, factors_of(1.0, 1.0, 1.0)) if not 31.0 < float(str(row["t_s"])) < 38.0]
    code, text = asked(str(write_csv(tmp_path / "drive.csv", kept)), "--end", "0,0,0")
    assert code == 2
    assert "a gap of 7.0 s while the robot moved; only localisation or a gyroscope bridges it" in text
