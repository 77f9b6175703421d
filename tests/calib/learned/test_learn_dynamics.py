"""The command `learn-dynamics`: from a log to a simulated base, and one line for bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from calib.__main__ import app
from calib.learned.collect import csv_text
from hil.physics.motion.motion_model import memory_of, motion_of
from onboard.config.plant_model import load_plant
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


BAD = [
    (["--model", "mlp", "--transform", "none"], "only a linear model is compared so"),
    (["--model", "mlp", "--max-length", "4096"], "the longest training stretch has 2519 steps"),
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
    for name in [one for one in sys.modules if one.startswith("calib.learned.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    done = learn(tmp_path, "--model", "mlp")
    assert done.exit_code != 0
    assert "onboard[train]" in str(done.exception)
