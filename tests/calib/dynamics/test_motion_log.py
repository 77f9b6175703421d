"""Logs that no fit should come from are refused, and nothing is written over a good file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from calib.__main__ import app
from calib.commands.gap import gap_of
from calib.dynamics.drift import path
from calib.dynamics.motion_log import read_logs
from calib.dynamics.plausibility import check_units, gaps
from calib.dynamics.response_model import KEYS
from hil.recordings.bags.drive import import_bag
from hil.recordings.bags.plan import ImportOptions
from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.plant_model import load_plant
from onboard.config.toml_text import as_toml
from onboard.values.errors import InputError
from tests.rigs.recordings.bag_rig import CAMERA_TOPICS, SPEED_MPS, drive, write_ros2
from tests.rigs.recordings.motion_logs import driven_plant, plant, simulated

OFFICE = Path(__file__).parents[2] / "data" / "replay" / "office.mcap"
BASE = plant((6.0, 0.7, 8.0, 0.9, 1.0, 2.5), (8.0, 0.6, 5.0, 1.0, 2.5, 12.0))
COLUMNS = ["t_s", "v_cmd", "w_cmd", "v", "w"]


def table() -> np.ndarray:
    (log,) = simulated(BASE, (0.2, 0.2), 0.01, logs=1)
    return np.column_stack([log.t_s, log.v_cmd, log.w_cmd, log.v, log.w])


def write(file: Path, rows: np.ndarray, columns: list[str] = COLUMNS) -> Path:
    np.savetxt(file, rows, "%.6g", ",", header=",".join(columns), comments="")
    return file


def with_column(number: int, change) -> np.ndarray:
    rows = table()
    rows[:, number] = change(rows[:, number])
    return rows


def with_value(row: int, column: int, value: float) -> np.ndarray:
    rows = table()
    rows[row, column] = value
    return rows


#    name                       rows                                                     named in the message
BAD = {
    "too few": (lambda: table()[:150], "150 rows"),
    "constant w_cmd": (lambda: with_column(2, lambda w: 0.0 * w + 0.5), "w_cmd"),
    "sign of w": (lambda: with_column(4, lambda w: -w), "sign"),
    "sign of v": (lambda: with_column(3, lambda v: -v), "sign"),
    "axes": (lambda: table()[:, [0, 1, 2, 4, 3]], "axes"),
    "another axis of the gyro": (lambda: with_column(4, lambda w: np.sin(np.arange(len(w)))), "w does not"),
    "w in degrees": (lambda: with_column(4, np.degrees), "degrees"),
    "w_cmd in degrees": (lambda: with_column(2, np.degrees), "degrees"),
    "both in degrees": (lambda: table() * np.array([1.0, 1.0, 57.3, 1.0, 57.3]), "degrees"),
    "v in mm/s": (lambda: with_column(3, lambda v: 1000.0 * v), "times v_cmd: v seems to be in mm/s"),
    "v in cm/s": (lambda: with_column(3, lambda v: 100.0 * v), "times v_cmd: v seems to be in cm/s"),
    **{
        f"{column} in {unit}": (
            lambda at=at, factor=factor: with_column(at, lambda v: factor * v),
            f"times {other}: {column} seems to be in {unit}",
        )
        for unit, factor in [("km/h", 3.6), ("mph", 2.23694), ("knots", 1.94384), ("ft/s", 3.28084), ("in/s", 39.3701)]
        for at, column, other in [(3, "v", "v_cmd"), (1, "v_cmd", "v")]
    },
    "w in rpm": (lambda: with_column(4, lambda w: 9.5493 * w), "times w_cmd: w seems to be in rpm"),
    "w in turns": (lambda: with_column(4, lambda w: w / (2 * np.pi)), "in turns a second"),
    "w_cmd in rpm": (lambda: with_column(2, lambda w: 9.5493 * w), "times w: w_cmd seems to be in rpm"),
    "v_cmd in mm/s": (lambda: with_column(1, lambda v: 1000.0 * v), "times v: v_cmd seems to be in mm/s"),
    "both in mm/s": (lambda: table() * np.array([1.0, 1e3, 1.0, 1e3, 1.0]), "v reaches"),
    "time backward": (lambda: with_value(50, 0, 0.1), "line 52"),
    "a gap": (lambda: with_column(0, lambda t: t + 20.0 * (np.arange(len(t)) >= 100)), "line 102: t_s jumps by 20"),
    "time in milliseconds": (lambda: table() * np.array([1e3, 1.0, 1.0, 1.0, 1.0]), "milliseconds"),
    "NaN": (lambda: with_value(60, 3, np.nan), "line 62: v"),
    "infinite": (lambda: with_value(60, 2, np.inf), "line 62: w_cmd"),
}  # fmt: skip


@pytest.mark.parametrize(("gap_s", "count"), [(0.0, 0), (0.05, 0), (0.3, 1), (1.9, 1)])
def test_a_gap_that_is_taken_is_named(gap_s, count, tmp_path):
    rows = with_column(0, lambda t: t + gap_s * (np.arange(len(t)) >= 100))
    lines = gaps(read_logs([write(tmp_path / "log.csv", rows)]).logs)
    assert len(lines) == count
    assert all("log.csv: 1 gaps, the longest" in line and "a column `log` part the file" in line for line in lines)


@pytest.mark.parametrize("name", BAD)
def test_bad_logs_are_refused_in_one_line_and_the_old_file_stays(name, tmp_path):
    rows, named = BAD[name]
    out = tmp_path / "plant.toml"
    out.write_bytes((DEFAULT_ROBOT / "plant.toml").read_bytes())
    done = CliRunner().invoke(app, ["dynamics", str(write(tmp_path / "log.csv", rows())), "-o", str(out)])
    assert isinstance(done.exception, InputError)
    message = str(done.exception)
    assert named in message
    assert "log.csv" in message
    assert "\n" not in message
    assert out.read_bytes() == (DEFAULT_ROBOT / "plant.toml").read_bytes()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["log.csv", "plant.toml"]


@pytest.mark.parametrize(
    "text", ["", "t_s,v_cmd,w_cmd,v,w\n", "t_s,v_cmd,w_cmd,v\n1,2,3,4\n", "t_s,v_cmd,w_cmd,v,w\n0,0,0,0\n", "\x00\xff"]
)
def test_files_that_are_no_logs_are_refused(text, tmp_path):
    file = tmp_path / "log.csv"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(InputError, match=r"log\.csv"):
        read_logs([file])


def test_a_path_in_millimetres_is_refused():
    (log,) = simulated(BASE, (0.2, 0.2), 0.01, logs=1)
    pose = path(log.t_s, log.v, log.w)
    check_units([replace(log, pose=pose)])
    for factor, ratio in ((1000.0, r"\d{3,4}\.?\d* times"), (0.001, r"0\.00\d+ times")):
        with pytest.raises(InputError, match=ratio + r" the integral of v: one is not in metres"):
            check_units([replace(log, pose=pose * [factor, factor, 1.0])])


#   units of v and v_cmd, and of w and w_cmd, in SI; what the pose shows
BOTH = [(2.23694, 1.0, "mph"), (3.6, 1.0, "km/h"), (1.94384, 1.0, "knots"), (3.28084, 1.0, "ft/s"),
        (1.0, 9.5493, "rpm"), (1.0, 0.1591549, "turns a second")]  # fmt: skip


@pytest.mark.parametrize(("speed", "turn", "unit"), BOTH)
def test_a_unit_of_speed_and_command_alike_is_found_by_the_pose(speed, turn, unit):
    (log,) = simulated(BASE, (0.2, 0.2), 0.01, logs=1)
    posed = replace(log, pose=path(log.t_s, log.v, log.w))
    check_units([posed])
    other = {"v": speed * log.v, "v_cmd": speed * log.v_cmd, "w": turn * log.w, "w_cmd": turn * log.w_cmd}
    with pytest.raises(InputError, match=unit):
        check_units([replace(posed, **other)])


def test_a_frame_off_the_axle_is_no_unit():
    (log,) = simulated(BASE, (0.2, 0.2), 0.01, logs=1)
    pose = path(log.t_s, log.v, log.w)
    ahead = 0.3 * np.column_stack([np.cos(pose[:, 2]), np.sin(pose[:, 2]), 0.0 * pose[:, 2]])
    check_units([replace(log, pose=pose + ahead)])


def test_the_result_is_json_and_a_plant_and_the_old_plant_is_kept(tmp_path):
    files = []
    for log in simulated(BASE, (0.2, 0.2), 0.01, logs=2):
        rows = np.column_stack([log.t_s, log.v_cmd, log.w_cmd, log.v, log.w])
        files.append(str(write(tmp_path / f"{log.name}.csv", rows)))
    out = tmp_path / "plant.toml"
    plant = load_plant(DEFAULT_ROBOT / "plant.toml")
    slower = plant.base.model_copy(update={"command_timeout_s": 0.8})
    before = as_toml(plant.model_copy(update={"base": slower}), "")
    out.write_text(before)
    done = CliRunner().invoke(app, ["dynamics", *files, "-o", str(out), "--json", str(tmp_path / "fit.json")])
    assert done.exit_code == 0, done.output
    result = json.loads((tmp_path / "fit.json").read_text())
    for name in ("linear", "angular"):
        assert set(result[name]) == set(KEYS)
        assert result["fits"]["refined"][name] == result[name]
        assert set(result["fits"]["paper"][name]) == set(result["fits"]["adjusted"][name]) == set(KEYS)
    assert set(result["rollout_rmse"]) == {"v", "w", "position_m_per_10s", "yaw_rad_per_10s"}
    assert load_plant(out).base.command_delay_s == pytest.approx(0.2, rel=0.06)
    assert load_plant(out).base.command_timeout_s == 0.8  # not measured
    assert "command_timeout_s 0.8 is kept" in done.output
    (kept,) = tmp_path.glob("plant.2*.toml")
    assert kept.read_text() == before


def test_logs_of_one_file_are_told_apart_by_their_column(tmp_path):
    rows = np.column_stack([np.repeat([1, 2], 20), np.tile(np.arange(20.0), 2), np.zeros((40, 4))])
    logs = read_logs([write(tmp_path / "two.csv", rows, ["log", *COLUMNS])]).logs
    assert [len(log.t_s) for log in logs] == [20, 20]


def test_a_recording_has_the_commands_and_the_odometry_of_its_ticks():
    (log,) = read_logs([OFFICE]).logs
    with open_recording(OFFICE) as recording:
        ticks = list(ticks_of(recording))
    messages = [one for tick in ticks for one in tick.inputs.odometry]
    assert np.array_equal(log.v, [message.twist.v_mps for message in messages])
    assert np.array_equal(log.w, [message.twist.w_radps for message in messages])
    at = 200
    sent = max((tick for tick in ticks if tick.sent_ns <= messages[at].arrival_ns), key=lambda tick: tick.sent_ns)
    assert (log.v_cmd[at], log.w_cmd[at]) == (sent.command.v_mps, sent.command.w_radps)
    assert log.pose is not None


def test_an_imported_bag_has_the_commands_that_drove_its_robot(tmp_path):
    imported = import_bag(
        [write_ros2(tmp_path / "bag", drive(4.0, CAMERA_TOPICS))],
        tmp_path / "drive.mcap",
        ImportOptions({}, policy="reactive"),
    )
    (log,) = read_logs([imported.file]).logs
    assert len(log.t_s) == 80
    assert np.all(log.v_cmd[5:] == SPEED_MPS)


# ---- Drift and gap


@pytest.mark.parametrize("delay_s", [0.0, 0.2])
def test_a_plant_has_no_gap_to_its_own_drive(delay_s):
    base = BASE.model_copy(update={"base": BASE.base.model_copy(update={"command_delay_s": delay_s})})
    (log,) = driven_plant(base, logs=1)
    gap = gap_of(log, base)
    assert gap.speeds[:, 0] == pytest.approx(log.v, abs=1e-6)
    assert max(away[:, 0].max() for away in gap.drifts.values()) < 1e-6
    slow = base.model_copy(update={"linear": base.linear.model_copy(update={"speed_max": 0.3})})
    assert gap_of(log, slow).drifts[10.0][:, 0].max() > 1.0


@pytest.mark.parametrize(("options", "words"), [([], "at least two"), (["--out", "plant.toml"], "--out: ")])
def test_one_log_cannot_be_held_out_and_no_plant_is_written(options, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log = str(write(tmp_path / "log.csv", table()))
    done = CliRunner().invoke(app, ["dynamics", log, "--held-out", "5", *options])
    assert isinstance(done.exception, InputError)
    assert words in str(done.exception)
    assert not (tmp_path / "plant.toml").exists()
