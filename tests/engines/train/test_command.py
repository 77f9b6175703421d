"""`onboard-engines train`: one command from a recipe to a policy, one line for what is wrong."""

from __future__ import annotations

import errno
import json
import re

import pytest
import torch
from typer.testing import CliRunner

from engines.__main__ import main
from engines.train import stages
from engines.train.batched.config import BatchedSection
from tests.rigs.train_rig import BATCHED

CHANGES = [part for key, value in BATCHED.items() for part in ("--set", f"{key}={json.dumps(value)}")]


def run(*arguments: str):
    return CliRunner().invoke(main, ["train", *CHANGES, *arguments])


#   arguments                                                    what the line says
WRONG = [
    (["--set", "batched.ratee=1"], "batched.ratee"),
    (["--set", "batched.rate=1.01"], "batched.rate: Input should be less than or equal to 1 (is 1.01)"),
    (["--set", "name.x=1"], "name.x: name is a value, not a table"),
    (["--set", "batched"], "--set batched: must be TABLE.KEY=VALUE"),
    (["--device", "abacus"], "--device abacus: must be cpu or cuda"),
    (["--plant", "no_such.toml"], "no_such.toml"),
    (["--map", "atlantis"], "atlantis"),
    (["--map", "depot", "atlantis"], "map atlantis: no such map"),
    (["atlantis"], "atlantis: unexpected argument: put --map before a map"),
    (["--config", "no_such_recipe.toml"], "no_such_recipe.toml"),
    (["--init", "onboard-v0"], "onboard-v0"),
    (["--set", "domain.drift_scale=[0,Infinity]"], "domain.drift_scale.1: Input should be less than or equal to 100"),
    (["--set", "driving.max_s=1e308"], "driving.max_s: Input should be less than or equal to 3600 (is 1e+308)"),
    (["--set", "places.furniture=1e9"], "places.furniture: Input should be less than or equal to 10 (is 1000000000.0)"),
    (["--seed", str(10**30)], "error: --seed: Input should be less than or equal to 9223372036854775807"),
    (["--seed", "-1"], "error: --seed: Input should be greater than or equal to 0 (is -1)"),
    (["--set", "seed=-1"], "error: --set seed: Input should be greater than or equal to 0 (is -1)"),
    (["--set", "foo.bar=3"], "error: --set foo.bar: unknown key foo"),
]


@pytest.mark.parametrize(("arguments", "line"), WRONG)
def test_what_is_wrong_is_said_in_one_line(tmp_path, arguments, line):
    result = run("--out", str(tmp_path / "run"), *arguments)
    assert result.exit_code == 2
    first_line = result.stderr.splitlines()[0]  # a file may have several mistakes
    assert first_line.startswith("error: ")
    assert line in first_line
    assert result.stdout == ""


def test_what_is_wrong_in_the_recipe_is_said_of_the_recipe(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[driving]\nmax_s = 0\n")
    for options in ([], ["--set", "batched.rate=0.1", "--seed", "3"]):
        result = run("--out", str(tmp_path / "run"), "--config", str(recipe), *options)
        assert result.stderr.startswith(f"error: {recipe}: driving.max_s: Input should be greater than or equal")


def test_several_maps_may_follow_one_option(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(stages, "train", lambda config, out, *_, **__: seen.append(config.places.maps) or out)
    assert run("--out", str(tmp_path), "--map", "depot", "gdc1", "--seed", "1").exit_code == 0
    assert run("--out", str(tmp_path), "--map", "depot", "--map", "gdc1").exit_code == 0
    assert seen == [("depot", "gdc1")] * 2


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory"),
        RuntimeError("[...] DefaultCPUAllocator: can't allocate memory"),
        RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be reported at some other call"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_out_of_memory_says_what_to_lower(tmp_path, monkeypatch, error):
    def full(*_, **__):
        raise error

    monkeypatch.setattr(stages, "train", full)
    result = run("--out", str(tmp_path))
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: out of memory: lower batched.lanes, ")
    keys = re.findall(r"batched\.([a-z_]+)", line)
    assert keys
    assert {*keys} <= {*BatchedSection.model_fields}


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), OSError(errno.EIO, "")])
def test_no_other_error_is_taken_for_want_of_memory(tmp_path, monkeypatch, error):
    def wrong(*_, **__):
        raise error

    monkeypatch.setattr(stages, "train", wrong)
    assert run("--out", str(tmp_path)).exception is error
