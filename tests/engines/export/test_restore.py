"""Weights that come back out of an exported model decide as those that went in."""

from __future__ import annotations

import json

import onnx
import pytest
import torch

from engines.export import export as exporting
from engines.export.export import TorchEngine, export
from engines.export.restore import initial_weights
from engines.network.network import TINY, PolicyNetwork, Variant, untrained
from engines.network.policy_checkpoint import save_policy
from onboard.policy.manifest import load_manifest, manifest_path, sha256_of
from onboard.policy.parity import compare
from onboard.values.errors import ConfigError, EngineError, InputError


def trained(variant: Variant) -> PolicyNetwork:
    """Return a network whose normalisations are not those of an untrained one."""
    network = untrained(5, TINY, variant)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                for values in (module.weight, module.running_var):
                    values.copy_(0.5 + torch.rand(values.shape, generator=generator))
                for values in (module.bias, module.running_mean):
                    values.copy_(torch.randn(values.shape, generator=generator))
    return network


#    variant                                                  stored as  largest difference of a logit
RESTORED = [
    (Variant(), "float32", 1e-4),
    (Variant(goal_from="pose"), "float16", 5e-3),
    (Variant(rgb=False, loc=False, goal_from="odom"), "float16", 5e-3),
    (Variant(rgb=False, scan=False, auxiliary=False), "float32", 1e-4),
]


@pytest.mark.parametrize(("variant", "weights", "most"), RESTORED)
def test_it_decides_as_before(tmp_path, monkeypatch, variant, weights, most):
    monkeypatch.setattr(exporting, "HALF_SEQUENCES", 1)
    network = trained(variant)
    manifest, _, _ = export(tmp_path / "a.onnx", network, "a", {"training": {"seed": 7}}, weights=weights, steps=2)
    back = initial_weights(str(tmp_path / "a.onnx"))
    assert (back.network.widths, back.network.variant) == (TINY, variant)
    assert back.meta == {"seed": 7, "weights": weights}
    assert back.origin == f"a, sha256 {manifest.sha256}"
    parity = compare(TorchEngine(back.network), TorchEngine(network), manifest, steps=5)
    assert parity.max_logit_difference < most < parity.logit_spread


def test_a_file_of_the_trainer_is_taken_too(tmp_path):
    save_policy(tmp_path / "a.pt", untrained(2, TINY), {"seed": 3})
    assert initial_weights(str(tmp_path / "a.pt")).meta == {"seed": 3}


def rewritten(model, change) -> None:
    """Change the table of a model's manifest."""
    table = json.loads(manifest_path(model).read_text())
    change(table)
    manifest_path(model).write_text(json.dumps(table))


def of_another_exporter(model) -> None:
    proto = onnx.load(model)
    next(weight for weight in proto.graph.initializer if weight.name == "network.actor.bias").name = "bias"
    onnx.save(proto, model)
    rewritten(model, lambda table: table.update(sha256=sha256_of(model)))


def stating(table: str, **values: object):
    """Return a change of what a manifest says of its network."""
    return lambda model: rewritten(model, lambda found: found["extra"][table].update(values))


#    what is done to model and manifest                                              the line says
REFUSED = [
    (lambda m: rewritten(m, lambda t: t["extra"].pop("widths")), "does not describe its network: 'widths'"),
    (lambda m: rewritten(m, lambda t: t["extra"]["widths"].update(colour=1)), "does not describe its network: "
                                                                              ".*colour"),
    (lambda m: rewritten(m, lambda t: t["extra"]["widths"].update(vector=9)), "not the model .*size mismatch"),
    (lambda m: rewritten(m, lambda t: t["extra"]["widths"].update(planes=2)), "not the model .*size mismatch|expected"),
    (lambda m: rewritten(m, lambda t: t["extra"]["widths"].update(memory_layers=1)), "2 recurrent layers, expected 1"),
    (of_another_exporter, r"not the model .*network\.actor\.bias"),
    (stating("widths", memory_layers="x"), r"widths\.memory_layers: expected whole numbers above 0 as 2, found 'x'"),
    (stating("widths", scan_channels=[4, 8]), r"widths\.scan_channels: .*, found \(4, 8\)"),
    (stating("variant", rgb="no"), r"variant\.rgb: expected a value as True, found 'no'"),
    (stating("variant", goal_from="banana"), "goal_from 'banana': must be one of"),
    (lambda m: rewritten(m, lambda t: t["extra"].update(widths=7)), "does not describe its network"),
    (lambda m: rewritten(m, lambda t: t["extra"].update(training=5)), "extra.training: expected a table, found 5"),
    (stating("variant", goal_from="pose"), "has rgb, scan, odom, loc, pose, .*, it lists rgb, scan, odom, loc, goal"),
    (stating("variant", goal_from="odom"), "its decisions differ from the network that its manifest states"),
]  # fmt: skip


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("restore") / "a.onnx"
    export(path, untrained(0, TINY), "a", {}, steps=1)
    return path


@pytest.mark.parametrize(("damage", "expected"), REFUSED)
def test_a_model_of_another_network_is_one_line(model, tmp_path, damage, expected):
    copy = tmp_path / "a.onnx"
    copy.write_bytes(model.read_bytes())
    manifest_path(copy).write_bytes(manifest_path(model).read_bytes())
    load_manifest(copy)
    damage(copy)
    with pytest.raises(InputError, match=rf"a\.onnx: .*{expected}") as caught:
        initial_weights(str(copy))
    assert "\n" not in str(caught.value)


def test_inputs_that_the_model_does_not_have_are_one_line(model, tmp_path):
    copy = tmp_path / "a.onnx"
    copy.write_bytes(model.read_bytes())
    manifest_path(copy).write_bytes(manifest_path(model).read_bytes())
    pose = {"name": "pose", "shape": [1, 5], "dtype": "float32"}
    rewritten(copy, lambda table: (table["inputs"].append(pose), table["extra"]["variant"].update(goal_from="pose")))
    with pytest.raises(EngineError, match=r"a\.onnx: input pose: expected .*, found none$"):
        initial_weights(str(copy))


@pytest.mark.parametrize(
    ("name", "expected"), [("onboard-v0", "no shipped policy has this name"), ("none.onnx", "none.onnx")]
)
def test_what_is_not_there_is_one_line(name, expected):
    with pytest.raises((InputError, ConfigError), match=expected):
        initial_weights(name)
