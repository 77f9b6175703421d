"""Drives that are drawn: by the policy that the report is about, and by no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from engines.report import plots
from engines.report.plots import PAD_PX, driver_of, save_trajectories
from hil.jobs.code_digest import file_digest
from onboard.config.pretrained import pretrained, pretrained_names
from tests.rigs.result_rows import evaluated, put, report

DRIVES = {"map": "depot", "set": "validation", "drives": [{"index": 0, "success": True, "path": [[1.0, 1.0, 0.0]] * 2}]}
NAMED, FILE = {"policy": "onboard-v1", "model": "b4"}, {"policy": "runs/fine.onnx", "model": "a0"}


def results(folder: Path, quoted: dict[str, Any], drove: dict[str, Any] | None) -> Path:
    """Write a result whose figures are quoted, and drives, into a folder, and return it."""
    put(folder / "evaluate" / "paper.json", evaluated(**quoted))
    if drove is not None:
        put(folder / "trajectories.json", {**drove, **DRIVES})
    return folder


#    whose figures are quoted   who drove                                      what is said
OTHERS = [
    (NAMED, {"policy": "reactive"}, "by reactive, the report is about onboard-v1 (digest b4)"),
    (NAMED, {"policy": "reactive", "model": None}, "by reactive, the report is about onboard-v1 (digest b4)"),
    (NAMED, {"policy": "onboard-v1", "model": "c5"}, "by onboard-v1 (digest c5), the report is about onboard-v1 (dig"),
    (FILE, {"policy": "fine.onnx", "model": "c5"}, "by fine.onnx (digest c5), the report is about fine.onnx (digest a"),
    (FILE, {"policy": "blind", "model": None}, "by blind, the report is about fine.onnx (digest a0)"),
    ({"policy": "blind", "model": None}, {"policy": "reactive", "model": None}, "by reactive, the report is about bli"),
    (NAMED, {}, "not what onboard-engines report --drive writes: KeyError('policy')"),
]


@pytest.mark.parametrize(("quoted", "drove", "expected"), OTHERS)
def test_drives_of_another_policy_are_refused_and_nothing_is_drawn(tmp_path, quoted, drove, expected):
    folder = results(tmp_path, quoted, drove)
    done = report(folder, "--pictures", tmp_path / "pictures")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert done.stderr.startswith(f"error: {folder / 'trajectories.json'}: {expected}")
    assert not (tmp_path / "pictures").exists()


#    whose figures are quoted   who drove
SAME = [
    (NAMED, {"policy": "onboard-v1"}),
    (NAMED, {"policy": "copy.onnx", "model": "b4"}),
    (NAMED, {"policy": "onboard-v1.onnx"}),
    (FILE, {"policy": "other.onnx"}),  # before its model was told: the name of a file is not that of a policy
    ({"model": "m"}, {"policy": "reactive"}),
    ({"policy": "blind", "model": None}, {"policy": "blind", "model": None}),
]


@pytest.mark.parametrize(("quoted", "drove"), SAME)
def test_drives_of_the_policy_are_drawn_and_so_are_those_that_nothing_contradicts(tmp_path, quoted, drove):
    folder = results(tmp_path, quoted, drove)
    assert report(folder, "--pictures", tmp_path / "pictures").exit_code == 0
    assert sorted(file.name for file in (tmp_path / "pictures").iterdir()) == ["actions.png", "trajectories.png"]


def test_another_policy_does_not_drive(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "drive_trajectories", lambda *_: pytest.fail("was driven"))
    done = report(results(tmp_path, NAMED, None), "--drive", "reactive")
    line = "error: --drive reactive: by reactive, the report is about onboard-v1 (digest b4)\n"
    assert (done.exit_code, done.stderr) == (2, line)
    assert not (tmp_path / "trajectories.json").exists()


def test_what_drove_before_is_replaced_by_the_policys_own_drives(tmp_path, monkeypatch):
    monkeypatch.setattr(plots, "drive_trajectories", lambda policy, _: {**driver_of(policy), **DRIVES})
    folder = results(tmp_path, {"policy": "blind", "model": None}, {"policy": "reactive", "model": None})
    assert report(folder, "--drive", "blind").exit_code == 0
    assert report(folder).exit_code == 0


def test_what_drives_is_told_by_its_name_and_the_digest_of_its_model():
    assert driver_of("reactive") == {"policy": "reactive", "model": None}
    name = pretrained_names()[0]
    digest = file_digest(pretrained(name))
    assert driver_of(name) == {"policy": name, "model": digest}
    assert driver_of(str(pretrained(name))) == {"policy": f"{name}.onnx", "model": digest}


def test_a_picture_says_who_drove(tmp_path):
    images = []
    for name in ("a", "b", "a-policy-of-a-very-long-name" * 9):
        save_trajectories({"policy": name, **DRIVES}, tmp_path / f"{name[:9]}.png")
        images.append(np.asarray(Image.open(tmp_path / f"{name[:9]}.png")))
    one, other, long = images
    assert (one[:-PAD_PX] == other[:-PAD_PX]).all()
    assert (one[-PAD_PX:] != other[-PAD_PX:]).any()
    assert (long[:, -PAD_PX // 2 :] == 255).all()
    assert long.shape[1] > one.shape[1]
