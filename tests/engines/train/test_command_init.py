"""A training begins with a policy that exists, if that is of its network."""

from __future__ import annotations

import json

import numpy as np
import onnx
import pytest
import torch
from onnx import numpy_helper

from engines.export.export import export
from engines.network.network import TINY, Variant, untrained
from engines.network.policy_checkpoint import load_policy_file, save_policy
from engines.train.command import DEFAULT_CONFIG, FINE_CONFIG, fine_config, initial_policy
from engines.train.config import load_train_config
from onboard.policy.manifest import manifest_path, sha256_of
from onboard.values.errors import InputError

BLIND = {"network.size": "tiny", "network.rgb": False}
VARIANT = Variant(rgb=False, goal_from="pose")


def test_a_file_of_the_trainer(tmp_path):
    network = untrained(3, TINY, VARIANT)
    save_policy(tmp_path / "a.pt", network, {})
    found = initial_policy(tmp_path / "a.pt", load_train_config(FINE_CONFIG, BLIND)).network
    assert (found.widths, found.variant) == (TINY, VARIANT)
    assert all(torch.equal(found.state_dict()[name], value) for name, value in network.state_dict().items())


def test_the_network_of_a_policy_chooses_the_recipe_that_fine_tunes_it(tmp_path):
    save_policy(tmp_path / "a.pt", untrained(3, TINY, VARIANT), {})
    assert fine_config("onboard-v1") == fine_config(str(tmp_path / "a.pt")) == FINE_CONFIG
    assert load_train_config(FINE_CONFIG).batched is None
    assert load_train_config(fine_config("onboard-s")).batched is not None


def test_an_exported_model_whose_auxiliary_head_is_learned_or_not(tmp_path):
    network = untrained(3, TINY, VARIANT)
    export(tmp_path / "a.onnx", network, "a", {}, steps=2)
    for auxiliary in (True, False):
        config = load_train_config(FINE_CONFIG, {**BLIND, "network.auxiliary": auxiliary})
        found = initial_policy(tmp_path / "a.onnx", config).network
        assert found.variant.auxiliary is auxiliary
        assert torch.equal(found.actor.weight, network.actor.weight)


def test_what_is_known_of_its_training_comes_with_it(tmp_path):
    network, config = untrained(3, TINY, VARIANT), load_train_config(FINE_CONFIG, BLIND)
    save_policy(tmp_path / "a.pt", network, {"seed": 5, "init": None})
    export(tmp_path / "a.onnx", network, "a", {"training": {"seed": 5, "init": None}}, steps=2, weights="float16")
    export(tmp_path / "b.onnx", network, "b", {}, steps=2)
    assert initial_policy(tmp_path / "a.pt", config).meta == {"seed": 5, "init": None}
    assert initial_policy(tmp_path / "a.onnx", config).meta == {"seed": 5, "init": None, "weights": "float16"}
    assert initial_policy(tmp_path / "b.onnx", config).meta == {}


#    what the recipe has          what is said of it
OTHERS = [
    ({"network.size": "small"}, "sizes.planes: the recipe has 64, this policy was made with 4"),
    ({"network.loc": False}, "network.loc: the recipe has False, this policy was made with True"),
    ({"network.goal_from": "odom"}, "network.goal_from: the recipe has odom, this policy was made with pose"),
    ({"network.rgb": True}, "network.rgb: the recipe has True, this policy was made with False"),
]


@pytest.mark.parametrize(("changes", "expected"), OTHERS)
def test_another_network_is_refused_in_one_line(tmp_path, changes, expected):
    save_policy(tmp_path / "a.pt", untrained(3, TINY, VARIANT), {})
    with pytest.raises(InputError) as refused:
        initial_policy(str(tmp_path / "a.pt"), load_train_config(FINE_CONFIG, {**BLIND, **changes}))
    assert str(refused.value) == f"--init {tmp_path / 'a.pt'}: {expected}"


def test_weights_that_are_not_finite_are_no_beginning(tmp_path):
    save_policy(tmp_path / "a.pt", untrained(3, TINY, VARIANT), {})
    content = torch.load(tmp_path / "a.pt", weights_only=True)
    content["state"]["critic.bias"][0] = torch.nan
    torch.save(content, tmp_path / "a.pt")
    torch.save(content["state"], tmp_path / "b.pt")
    export(tmp_path / "c.onnx", untrained(3, TINY, VARIANT), "c", {}, steps=2)
    onnx_with_nan(tmp_path / "c.onnx")
    for name in ("a.pt", "c.onnx"):
        with pytest.raises(
            InputError, match=rf"{name}: critic\.bias: 1 of 1 numbers are not finite; use another file$"
        ):
            initial_policy(tmp_path / name, load_train_config(FINE_CONFIG, BLIND))
    with pytest.raises(InputError, match=r"b\.pt: critic\.bias: 1 of 1 numbers are not finite; use another file$"):
        load_policy_file(tmp_path / "b.pt", TINY, VARIANT)


def onnx_with_nan(model):
    """Make the critic's bias in a model no number, and its manifest fit."""
    proto = onnx.load(model)
    (bias,) = (weight for weight in proto.graph.initializer if weight.name == "network.critic.bias")
    bias.CopyFrom(numpy_helper.from_array(np.array([np.nan], np.float32), bias.name))
    onnx.save(proto, model)
    manifest = json.loads(manifest_path(model).read_text())
    manifest_path(model).write_text(json.dumps({**manifest, "sha256": sha256_of(model)}))


def test_names_that_do_not_ship_and_models_without_a_network_are_refused(tmp_path):
    with pytest.raises(InputError, match="no shipped policy has this name"):
        initial_policy("onboard-v0", load_train_config(FINE_CONFIG, BLIND))
    export(tmp_path / "a.onnx", untrained(3, TINY, VARIANT), "a", {}, steps=2)
    manifest = json.loads(manifest_path(tmp_path / "a.onnx").read_text())
    manifest["extra"] = {}
    manifest_path(tmp_path / "a.onnx").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match="does not describe its network"):
        initial_policy(tmp_path / "a.onnx", load_train_config(FINE_CONFIG, BLIND))


def test_the_fine_recipe_adds_no_furniture_and_fits_the_shipped_recipe():
    fine, full = load_train_config(FINE_CONFIG), load_train_config(DEFAULT_CONFIG)
    assert (fine.places.furniture, fine.reinforce.chapters) == (0.0, 0)
    assert fine.network == full.network
    assert fine.imitation.rate < full.imitation.rate
    assert fine.imitation.chapters * fine.imitation.rounds < full.imitation.chapters * full.imitation.rounds
