"""`onboard-engines encoder`: a whole small training, repeated, and refused."""

from __future__ import annotations

import json

import pytest
import torch
from typer.testing import CliRunner

from engines.__main__ import main
from engines.encoder import command as alone

CONFIG = """
[encoder]
batch = 2
phases = [{shrink = 4, epochs = 1.0}, {shrink = 1, epochs = 0.5}]
test_maps = ["apartment"]
test_count = 2
[encoder.views]
maps = ["depot"]
count = 4
"""


def run(*arguments: object):
    """Return click's result."""
    return CliRunner().invoke(main, ["encoder", *(str(argument) for argument in arguments)])


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "train.toml"
    file.write_text(CONFIG)
    return file


def test_a_training_leaves_weights_and_a_report_and_can_be_repeated(tmp_path, config):
    arguments = ("--out", tmp_path / "out", "--config", config, "--jobs", 1, "--tiny")
    first = run(*arguments)
    assert first.exit_code == 0, first.output
    for name in ("encoder.pt", "head.pt"):
        assert (tmp_path / "out" / name).stat().st_size > 0
    assert set(json.loads((tmp_path / "out" / "report.json").read_text())) == {"unseen", "unseen_plain", "known"}
    rows = [line.split()[:2] for line in first.stdout.splitlines()]
    assert ["unseen", "encoder"] in rows
    assert ["known", "median_of_bin"] in rows
    weights = (tmp_path / "out" / "encoder.pt").read_bytes()
    again = run(*arguments)
    assert again.exit_code == 0
    assert again.stdout == first.stdout
    assert (tmp_path / "out" / "encoder.pt").read_bytes() == weights


@pytest.mark.parametrize(
    ("device", "line"),
    [("banana", "--device banana: must be cpu or cuda"), ("cuda", "PyTorch finds no CUDA device here")],
)
def test_a_device_that_is_not_there_is_refused_in_one_line(tmp_path, monkeypatch, device, line):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = run("--out", tmp_path, "--device", device)
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert line in result.stderr


#   what ends it                                              exit code    line
ENDS = [
    (MemoryError(), 2, "error: out of memory: lower encoder.batch or --jobs"),
    (torch.OutOfMemoryError("CUDA out of memory"), 2, "error: out of memory: lower encoder.batch or --jobs"),
    (KeyboardInterrupt(), 130, "stopped; run the same command again to resume from the last checkpoint in out"),
]


@pytest.mark.parametrize(("error", "code", "line"), ENDS)
def test_what_ends_it_is_said_in_one_line(monkeypatch, error, code, line):
    def ended(*_):
        raise error

    monkeypatch.setattr(alone, "train_and_report", ended)
    result = run("--out", "out")
    assert (result.exit_code, result.stderr) == (code, line + "\n")


#    name                  arguments                                      complaint
REFUSED = [
    ("no such file", {}, "nowhere.toml: cannot be read"),
    ("unknown key", {"text": "[encoder]\nepochs = 3\n"}, "encoder.toml: unknown key epochs"),
    ("not a table", {"text": "encoder = 3\n"}, "encoder.toml: "),
    ("a test map", {"text": '[encoder.views]\nmaps = ["willow"]\n'}, "willow belongs to the test split"),
    ("no such map", {"text": '[encoder.views]\nmaps = ["atlantis"]\n'}, "map atlantis: no such map"),
    ("no end of chairs", {"text": "[encoder.views]\nfurniture = 1e9\n"}, "encoder.toml: views.furniture: "),
]


#    test_maps of the report     complaint
TEST_MAPS = [
    ("atlantis", "encoder.test_maps: map atlantis: no such map"),
    ("gdc1", "encoder.test_maps: gdc1 belongs to the train split, not to test: by its name it is in "),
]


@pytest.mark.parametrize(("place", "complaint"), TEST_MAPS)
def test_buildings_of_the_report_are_looked_at_before_anything_is_trained(tmp_path, config, place, complaint):
    config.write_text(CONFIG.replace('["apartment"]', f'["apartment", "{place}"]'))
    result = run("--out", tmp_path / "out", "--config", config, "--jobs", 1, "--tiny")
    (line,) = result.stderr.splitlines()
    assert result.exit_code == 2
    assert line.startswith(f"error: {complaint}")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("name", "given", "complaint"), REFUSED, ids=[row[0] for row in REFUSED])
def test_what_cannot_be_trained_is_refused_in_one_line(tmp_path, name, given, complaint):
    file = tmp_path / "nowhere.toml"
    if "text" in given:
        file = tmp_path / "encoder.toml"
        file.write_text(given["text"])
    result = run("--out", tmp_path / "out", "--config", file, "--jobs", 1, "--tiny")
    assert result.exit_code == 2
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert complaint in errors[0]


def test_a_map_is_looked_for_beside_the_configuration(tmp_path):
    (tmp_path / "recipes").mkdir()
    file = tmp_path / "recipes" / "encoder.toml"
    file.write_text('[encoder.views]\nmaps = ["room.yaml"]\n')
    result = run("--out", tmp_path / "out", "--config", file, "--jobs", 1, "--tiny")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert f"{tmp_path / 'recipes' / 'room.yaml'}: cannot be read" in result.stderr
