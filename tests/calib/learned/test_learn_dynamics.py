"""The command `learn-dynamics`: from a log to a simulated base, and one line for bad input."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from calib.__main__ import app
from calib.learned.collect import csv_text
from calib.learned.series import without_pauses
from hil.physics.motion.motion_model import memory_of, motion_of
from onboard.config.plant_model import BaseTable, load_plant
from onboard.config.toml_text import as_toml
from tests.calib.learned.small_drive import plant, slipping

QUICK = ["--max-length", "8", "--steps", "10", "--batch", "20"]


def learn(folder: Path, *words: str) -> Result:
    (folder / "plant.toml").write_text(as_toml(plant(), ""))
    (folder / "drive.csv").write_text(csv_text(slipping()))
    given = [str(folder / "drive.csv"), "--plant", str(folder / "plant.toml"), "-o", str(folder / "learned.npz")]
    return CliRunner().invoke(app, ["learn-dynamics", *given, *QUICK, *words])


def test_a_log_becomes_a_simulated_base(tmp_path) -> None:
    done = learn(tmp_path, "--model", "hybrid-dynamic", "--json", "-")
    assert done.exit_code == 0, done.output
    errors = json.loads(done.stdout)["rmse_m"]
    assert set(errors["learned"]) == set(errors["plant"]) == {"1", "8", "64", "512"}
    learned = load_plant(tmp_path / "learned.toml")
    assert learned.linear == plant().linear, "the policy's plant stays"
    assert len(memory_of(learned)) > 0
    assert motion_of(learned).kind >= 0
    assert (tmp_path / "learned.onnx").stat().st_size > 1000
    again = learn(tmp_path, "--model", "hybrid-dynamic", "--json", "-", "--resume")
    assert json.loads(again.stdout)["rmse_m"] == errors, "it was at its end"


def test_a_checkpoint_of_another_plant_is_refused(tmp_path) -> None:
    assert learn(tmp_path, "--model", "hybrid-dynamic").exit_code == 0
    (tmp_path / "other.toml").write_text(
        as_toml(plant().model_copy(update={"base": BaseTable(command_delay_s=0.2)}), "")
    )
    done = learn(tmp_path, "--model", "hybrid-dynamic", "--resume", "--plant", str(tmp_path / "other.toml"))
    assert "a checkpoint of another plant" in str(done.exception)


def test_what_is_for_comparison_names_no_plant(tmp_path) -> None:
    done = learn(tmp_path, "--model", "linear", "--transform", "none")
    assert done.stdout.endswith("written; for comparison only\n")
    assert not (tmp_path / "learned.toml").exists()


def test_rows_that_no_tick_fits_are_interpolated(tmp_path) -> None:
    log = slipping()
    slow = replace(log, t_s=log.t_s * 1.2)  # 50 Hz
    (tmp_path / "fifty.csv").write_text(csv_text(slow))
    words = [str(tmp_path / "fifty.csv"), "--model", "linear", "-o", str(tmp_path / "fifty.npz"), *QUICK]
    done = CliRunner().invoke(app, ["learn-dynamics", *words])
    assert done.exit_code == 0, done.output
    assert "note: rows every 0.02 s are interpolated to 0.01667 s" in done.stderr
    assert motion_of(load_plant(tmp_path / "fifty.toml")).kind >= 0


def test_a_pause_splits_a_log() -> None:
    log = slipping()
    kept = np.r_[0:1500, 2000:4000]
    columns = {name: getattr(log, name)[kept] for name in ("t_s", "v_cmd", "w_cmd", "v", "w", "pose")}
    parts = without_pauses([replace(log, **columns)])
    assert [len(part.t_s) for part in parts] == [1500, 2000]
    assert [len(part.t_s) for part in without_pauses([log])] == [4000]


BAD = [
    (["--model", "mlp", "--transform", "none"], "only for a linear model"),
    (["--model", "mlp", "--max-length", "4096"], "training and validation rows allow at most 279 steps"),
    (["--model", "mlp", "--resume"], "there is no such file"),
    (["--model", "mlp", "-o", "learned.pt"], "must end with .npz"),
]


@pytest.mark.parametrize(("words", "expected"), BAD)
def test_bad_input_is_one_line_and_writes_nothing(tmp_path, words, expected) -> None:
    done = learn(tmp_path, *words)
    assert done.exit_code != 0
    assert expected in str(done.exception)
    assert "\n" not in str(done.exception)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["drive.csv", "plant.toml"]


def test_a_log_without_pose_is_named(tmp_path) -> None:
    file = tmp_path / "wheels.csv"
    file.write_text("t_s,v_cmd,w_cmd,v,w\n" + "".join(f"{k / 60:.4f},0,0,0,0\n" for k in range(20)))
    done = CliRunner().invoke(app, ["learn-dynamics", str(file), "--model", "mlp", "-o", str(tmp_path / "a.npz")])
    assert "wheels.csv: no pose" in str(done.exception)


def test_without_pytorch_the_extra_is_named(tmp_path, monkeypatch) -> None:
    for name in [module for module in sys.modules if module.startswith("calib.learned.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    done = learn(tmp_path, "--model", "mlp")
    assert done.exit_code != 0
    assert "onboard[train]" in str(done.exception)
