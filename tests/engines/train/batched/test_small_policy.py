"""The exported small policy decides as the trained one, and the runtime loads it."""

from __future__ import annotations

import onnx
import pytest
import torch

from engines.export.fp16 import halve
from engines.export.own_model import validate
from engines.train.batched import policy as small
from engines.train.batched.config import NetworkSection
from engines.train.batched.policy import SmallPolicy, policy_in
from engines.train.stages import MODEL
from hil.drive.fast.drive import drive_fast
from hil.drive.setting import Setting
from hil.evaluate.baselines.registry import make_policy
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from onboard.assembly.policies import check_model
from onboard.config.config import Config, PolicySection
from onboard.policy.manifest import load_manifest, save_manifest, sha256_of
from onboard.values.errors import DisagreementError, InputError
from onboard.values.messages import Pose
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT

EXTRA = {"training": {"seed": 3}, "decision_hz": 3.0, "training_delay_ticks": 3}


@pytest.fixture(scope="module")
def policy():
    torch.manual_seed(0)
    made = SmallPolicy()
    with torch.no_grad():  # logits that differ
        made.actor.weight.normal_(0.0, 0.3)
    return made


@pytest.fixture(scope="module")
def model(policy, tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / MODEL
    parity = small.export(policy, file, "test", EXTRA)
    assert parity.max_logit_difference < small.MOST_APART
    assert parity.agreement == 1.0
    return file


def test_the_model_is_small_and_its_manifest_says_how_it_was_made(model):
    manifest = load_manifest(model)
    assert (manifest.policy, manifest.training_delay_ticks, manifest.control_hz) == ("test", 3, 30.0)
    assert manifest.reset_s is None
    assert manifest.extra["training"] == {"seed": 3}
    assert manifest.extra["parameters"] < small.MOST_PARAMETERS
    assert model.stat().st_size < small.MOST_BYTES


def test_the_runtime_loads_it_and_drives_with_it(model):
    config = Config(policy=PolicySection(model=str(model)))
    check_model(config)
    assert not validate(model, config).wrong
    setting, episode = (
        Setting(room(7.0, 5.0), PLANT, Body(), MOUNTS, config),
        Episode(Pose(1.0, 2.0, 0.3), (5.5, 2.0), 5.0),
    )
    outcome = drive_fast(setting, episode, make_policy(str(model), setting, episode), 1, max_s=5.0)
    assert len(outcome.actions) >= 10


def test_a_model_gives_its_weights_back(policy, model):
    weights = small.policy_of(model).state_dict()
    own = {name: values for name, values in policy.state_dict().items() if not name.startswith("critic_")}
    assert {name for name, values in own.items() if not torch.equal(values, weights[name])} == set()
    assert len(own) > 15


@pytest.mark.parametrize("layers", [1, 2])
def test_the_papers_network_gives_its_weights_back_also_in_half_precision(tmp_path, layers):
    sizes = NetworkSection(channels=(4, 8, 8), scan=16, hidden=16, vector=8, action=4, memory=24, layers=layers)
    made = small.PaperPolicy(sizes)
    small.export(made, tmp_path / MODEL, "test", EXTRA)
    weights = small.policy_of(tmp_path / MODEL).state_dict()
    own = {name: values for name, values in made.state_dict().items() if not name.startswith("critic_")}
    assert {name for name, values in own.items() if not torch.equal(values, weights[name])} == set()
    proto, manifest = onnx.load(tmp_path / MODEL), load_manifest(tmp_path / MODEL)
    halve(proto)
    onnx.save(proto, tmp_path / MODEL)
    save_manifest(tmp_path / MODEL, manifest.model_copy(update={"sha256": sha256_of(tmp_path / MODEL)}))
    halved = small.policy_of(tmp_path / MODEL).state_dict()
    assert all(torch.allclose(values, halved[name], atol=1e-3) for name, values in own.items())


@pytest.mark.parametrize(
    ("limit", "error"), [("MOST_APART", DisagreementError), ("MOST_BYTES", InputError), ("MOST_PARAMETERS", InputError)]
)
def test_logits_that_differ_or_a_model_too_large_leave_the_old_files(policy, tmp_path, monkeypatch, limit, error):
    monkeypatch.setattr(small, limit, -1)
    with pytest.raises(error, match=MODEL):
        small.export(policy, tmp_path / MODEL, "test", EXTRA)
    assert not list(tmp_path.iterdir())


def wrong_shape(table):
    table["policy"]["actor.bias"] = torch.zeros(3)


def not_finite(table):
    table["policy"]["actor.bias"] = torch.full((28,), torch.nan)


def no_policy(table):
    del table["policy"]


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (wrong_shape, "not a checkpoint of the small policy: size mismatch for actor.bias"),
        (not_finite, "actor.bias: 28 of 28 numbers are not finite"),
        (no_policy, "not a checkpoint of the small policy"),
    ],
)
def test_another_checkpoint_is_refused_in_one_line(policy, tmp_path, spoil, line):
    table = {"policy": dict(policy.state_dict())}
    spoil(table)
    torch.save(table, tmp_path / "a.ckpt")
    with pytest.raises(InputError) as refused:
        policy_in(tmp_path / "a.ckpt")
    assert str(refused.value).startswith(f"{tmp_path / 'a.ckpt'}: {line}")
    assert "\n" not in str(refused.value)
