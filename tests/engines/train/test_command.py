"""`onboard-engines train`: one command from a recipe to a policy, one line for what is wrong."""

from __future__ import annotations

import errno
import json
import re

import pytest
import torch
from typer.testing import CliRunner

from engines.__main__ import main
from engines.network.network import TINY, Variant, untrained
from engines.network.policy_checkpoint import load_policy_file, save_policy
from engines.train import stages
from engines.train.batched.config import BatchedSection
from engines.train.command import DEFAULT_CONFIG
from engines.train.config import TrainConfig
from tests.rigs.machine.processes import done
from tests.rigs.train_rig import SMALL

CHANGES = [part for key, value in SMALL.items() for part in ("--set", f"{key}={json.dumps(value)}")]
QUICK = [*CHANGES, "--set", "imitation.chapters=1", "--until", "imitation"]


def run(*arguments: str):
    return CliRunner().invoke(main, ["train", *arguments])


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Return the folder of a training that is done."""
    folder = tmp_path_factory.mktemp("training") / "run"
    first = run("--out", str(folder), *QUICK)
    assert first.exit_code == 0, first.output
    return folder


def test_it_makes_a_policy_that_the_export_reads_and_goes_on_without_work(out):
    made = load_policy_file(out / "policy.pt")
    assert made.meta["stages"] == ["imitation"]
    assert made.meta["training_delay_ticks"] == 3
    assert made.network.variant.goal_from == "pose"
    before = (out / "imitation.ckpt").read_bytes()
    assert run("--out", str(out), *QUICK).exit_code == 0
    assert (out / "imitation.ckpt").read_bytes() == before


#   arguments                                                    what the line says
WRONG = [
    (["--set", "imitation.ratee=1"], "imitation.ratee"),
    (["--set", "imitation.rate=1.01"], "imitation.rate: Input should be less than or equal to 1 (is 1.01)"),
    (
        ["--set", 'encoder.phases=[{"shrink": 1, "epochs": 1, "rate": 2}]'],
        "encoder.phases.0.rate: Input should be less",
    ),
    (["--set", "name.x=1"], "name.x: name is a value, not a table"),
    (["--set", "imitation"], "--set imitation: must be TABLE.KEY=VALUE"),
    (["--set", "network.goal_from=north"], "network.goal_from"),
    (["--set", 'network={"goal_from": "loc", "loc": false}'], "no input loc"),
    (["--until", "tomorrow"], "--until tomorrow: must be one of encoder, imitation, reinforce"),
    (["--device", "abacus"], "--device abacus: must be cpu or cuda"),
    (["--plant", "no_such.toml"], "no_such.toml"),
    (["--map", "atlantis"], "atlantis"),
    (["--map", "depot", "atlantis"], "map atlantis: no such map"),
    (["atlantis"], "atlantis: unexpected argument: put --map before a map"),
    (["--config", "no_such_recipe.toml"], "no_such_recipe.toml"),
    (["--init", "onboard-v0"], "onboard-v0"),
    (["--set", "domain.drift_scale=[0,Infinity]"], "domain.drift_scale.1: Input should be less than or equal to 100"),
    (["--set", "driving.max_s=1e308"], "driving.max_s: Input should be less than or equal to 3600 (is 1e+308)"),
    (["--set", "driving.lanes=1000000000"], "driving.lanes: Input should be less than or equal to 10000"),
    (["--set", "imitation.collectors=1000000000"], "imitation.collectors: Input should be less than or equal to 256"),
    (["--set", "places.furniture=1e9"], "places.furniture: Input should be less than or equal to 10 (is 1000000000.0)"),
    (["--seed", str(10**30)], "error: --seed: Input should be less than or equal to 9223372036854775807"),
    (["--seed", "-1"], "error: --seed: Input should be greater than or equal to 0 (is -1)"),
    (["--set", "seed=-1"], "error: --set seed: Input should be greater than or equal to 0 (is -1)"),
    (["--set", "foo.bar=3"], "error: --set foo.bar: unknown key foo"),
    (["--set", "imitation.chapters=0"], "error: --set imitation.chapters: Input should be greater than or equal to 1"),
    (["--set", "encoder.batch=7000"], "error: --set encoder.batch: encoder: batch 7000 must not be above"),
    (
        ["--set", "driving.decisions=9", "--set", "driving.lanes=0"],
        "error: --set driving.lanes: Input should be greater",
    ),
]


@pytest.mark.parametrize(("arguments", "line"), WRONG)
def test_what_is_wrong_is_said_in_one_line(tmp_path, arguments, line):
    result = run("--out", str(tmp_path / "run"), *QUICK, *arguments)
    assert result.exit_code == 2
    first_line = result.stderr.splitlines()[0]  # a file may have several mistakes
    assert first_line.startswith("error: ")
    assert line in first_line
    assert result.stdout == ""


def test_what_is_wrong_in_the_recipe_is_said_of_the_recipe(tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[imitation]\nchapters = 0\n")
    for options in ([], ["--set", "imitation.rounds=2", "--seed", "3"]):
        result = run("--out", str(tmp_path / "run"), "--config", str(recipe), *options)
        assert result.stderr.startswith(f"error: {recipe}: imitation.chapters: Input should be greater than or equal")


@pytest.mark.long
def test_a_policy_that_gives_no_numbers_is_said_in_one_line_by_its_collector(tmp_path):
    network = untrained(0, TINY, Variant(goal_from="pose"))
    with torch.no_grad():  # finite weights, whose products are not
        network.goal[0].bias.fill_(3e38)
        network.goal[2].weight.fill_(3e38)
    save_policy(tmp_path / "first.pt", network, {})
    begun = ("--init", tmp_path / "first.pt", "--config", DEFAULT_CONFIG, "--set", "imitation.collectors=1")
    command = done("engines", "train", "--out", tmp_path / "run", *QUICK, *begun, folder=tmp_path)
    *_, line = command.err.splitlines()
    assert command.process.returncode == 2
    assert line.startswith("error: a collector failed: the policy that drives gives logits that are not finite in ")
    assert command.out == ""


def test_several_maps_may_follow_one_option(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(stages, "train", lambda config, out, *_, **__: seen.append(config.places.maps) or out)
    assert run("--out", str(tmp_path), *QUICK, "--map", "depot", "gdc1", "--seed", "1").exit_code == 0
    assert run("--out", str(tmp_path), *QUICK, "--map", "depot", "--map", "gdc1").exit_code == 0
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
    result = run("--out", str(tmp_path), *QUICK)
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: out of memory: lower driving.lanes or ")
    for key in re.findall(r"[a-z]+\.[a-z_]+", line):
        table, name = key.split(".")
        section = BatchedSection if table == "batched" else type(getattr(TrainConfig(), table))
        assert name in section.model_fields
    assert {"encoder.batch", "imitation.batch", "reinforce.batch"} <= {*re.findall(r"[a-z]+\.batch", line)}


@pytest.mark.parametrize("error", [RuntimeError("mat1 and mat2 shapes cannot be multiplied"), OSError(errno.EIO, "")])
def test_no_other_error_is_taken_for_want_of_memory(tmp_path, monkeypatch, error):
    def wrong(*_, **__):
        raise error

    monkeypatch.setattr(stages, "train", wrong)
    assert run("--out", str(tmp_path), *QUICK).exception is error
