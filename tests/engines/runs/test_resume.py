"""A checkpoint that is not whole is refused in one line, and nothing of it is taken up."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engines.runs.torch_file import read_torch, write_torch
from engines.train.dagger import Imitation
from engines.train.ppo import Reinforce
from onboard.values.errors import InputError
from tests.rigs.train_rig import network_of, small

CPU = torch.device("cpu")
STAGES = {"imitation": Imitation, "reinforce": Reinforce}
CONFIG = small(
    imitation__chapters=2,
    reinforce__chapters=2,
    reinforce__rounds=2,
    reinforce__decisions=4,
    reinforce__critic_rounds=1,
    reinforce__critic_epochs=1,
    reinforce__batch=4,
    reinforce__collectors=0,
    reinforce__validate_drives=0,
    reinforce__choose_drives=0,
)
Content = dict[str, Any]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Callable[[str], Content]:
    """Return what a stage's checkpoint holds after a chapter."""
    folder = tmp_path_factory.mktemp("stages")
    for kind in STAGES.values():
        kind(CONFIG, network_of(CONFIG), folder, CPU).run(1)
    return lambda stage: read_torch(folder / f"{stage}.ckpt")


def without(*path: str | int) -> Callable[[Content], object]:
    """Return what takes an entry out of a checkpoint."""
    return lambda content: inner(content, path[:-1]).pop(path[-1])


def with_value(*path: str | int, value: object) -> Callable[[Content], object]:
    """Return what puts an entry into a checkpoint."""
    return lambda content: inner(content, path[:-1]).__setitem__(path[-1], value)


def nan_in(*path: str | int) -> Callable[[Content], object]:
    """Return what makes the first number of a tensor in a checkpoint none."""
    return lambda content: inner(content, path).view(-1).__setitem__(0, math.nan)


def inner(content: Any, path: tuple[str | int, ...]) -> Any:
    for name in path:
        content = content[name]
    return content


ADAM = ("learner", "optimizer")
GROUP = ("optimizer", "param_groups", 0)
#    stage         what is done to its checkpoint                                    what is said
DAMAGES = [
    ("imitation", without("network"), "network: expected a table, found NoneType"),
    ("imitation", without("network", "actor.bias"), r"network\.actor\.bias: is missing"),
    ("imitation", with_value("network", "rgb.0.bn1.bias", value=1), r"network\.rgb\.0\.bn1\.bias: unknown"),
    ("imitation", with_value("network", "actor.bias", value=torch.zeros(5)), "network: .*size mismatch for actor"),
    ("imitation", nan_in("network", "actor.bias"), r"network: actor\.bias: 1 of 28 numbers are not finite"),
    ("imitation", without("optimizer"), "optimizer: expected a table, found NoneType"),
    ("imitation", with_value("optimizer", value={}), "optimizer: 'param_groups'"),
    ("imitation", without("optimizer", "param_groups", 0, "params"), "optimizer: 'params'"),
    ("imitation", without(*GROUP, "lr"), "optimizer: 'lr'"),
    ("imitation", with_value(*GROUP, "lr", value=math.nan), r"groups\.0\.lr: expected a finite .*, found nan"),
    ("imitation", with_value(*GROUP, "lr", value=-0.1), r"groups\.0\.lr: expected .* 0 or more, found -0\.1"),
    ("imitation", with_value(*GROUP, "lr", value=True), r"groups\.0\.lr: expected a finite .*, found True"),
    ("imitation", with_value(*GROUP, "eps", value=math.inf), r"groups\.0\.eps: expected a finite .*, found inf"),
    ("imitation", with_value(*GROUP, "eps", value="x"), r"groups\.0\.eps: expected a finite .*, found 'x'"),
    ("imitation", with_value(*GROUP, "weight_decay", value=-1.0), r"groups\.0\.weight_decay: .*, found -1\.0"),
    ("imitation", with_value(*GROUP, "betas", value=(math.nan, 0.9)), r"betas\.0: .* and below 1, found nan"),
    ("imitation", with_value(*GROUP, "betas", value=(0.9, 1.0)), r"betas\.1: .* and below 1, found 1\.0"),
    ("imitation", with_value(*GROUP, "betas", value=(0.9,)), "optimizer: not enough values to unpack"),
    (
        "imitation",
        with_value("optimizer", "state", 0, "step", value=torch.tensor(-5.0)),
        r"optimizer\.state: step: expected a finite number, 0 or more, found -5\.0",
    ),
    ("imitation", without("optimizer", "state", 0, "exp_avg"), "optimizer: 'exp_avg'"),
    ("imitation", with_value("optimizer", "state", 0, "exp_avg", value=torch.zeros(3)), "exp_avg: expected shape"),
    ("imitation", nan_in("optimizer", "state", 0, "exp_avg_sq"), r"optimizer\.state: exp_avg_sq: 1 of .* not finite"),
    ("imitation", with_value("chapter", value=-1), "chapter: expected a whole number, 0 or more, found -1"),
    ("imitation", with_value("updates", value="many"), "updates: expected a whole number, 0 or more, found 'many'"),
    ("reinforce", without("learner"), "learner: expected a table, found NoneType"),
    ("reinforce", nan_in(*ADAM, "state", 0, "exp_avg"), r"learner\.optimizer\.state: exp_avg: 1 of .* not finite"),
    ("reinforce", with_value(*ADAM, "param_groups", 1, "lr", value=math.nan), r"groups\.1\.lr: .*, found nan"),
    ("reinforce", without("kept"), "kept: expected before, after or nothing, found None"),
]


@pytest.mark.parametrize(("stage", "spoil", "entry"), DAMAGES, ids=[f"{row[0]}-{row[2][:24]}" for row in DAMAGES])
def test_it_is_refused_in_one_line_that_names_the_entry(tmp_path, made, stage, spoil, entry):
    content = made(stage)
    spoil(content)
    write_torch(tmp_path / f"{stage}.ckpt", content)
    network = network_of(CONFIG)
    with pytest.raises(InputError, match=rf"{stage}\.ckpt: .*{entry}.*; use another --out, or remove it$") as refused:
        STAGES[stage](CONFIG, network, tmp_path, CPU)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("stage", STAGES)
def test_as_it_was_written_it_is_gone_on_with(tmp_path: Path, made, stage):
    write_torch(tmp_path / f"{stage}.ckpt", made(stage))
    network = network_of(CONFIG)
    trainer = STAGES[stage](CONFIG, network, tmp_path, CPU)
    assert trainer.chapter == 1
    assert all(torch.equal(network.state_dict()[name], value) for name, value in made(stage)["network"].items())
