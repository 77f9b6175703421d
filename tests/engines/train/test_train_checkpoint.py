"""Files of a training: whole, of the right form, of the same configuration."""

from __future__ import annotations

import pytest
import torch

from engines.network import policy_checkpoint
from engines.network.network import TINY, Variant, untrained
from engines.runs import torch_file
from onboard.values.errors import InputError


def test_a_policy_comes_back_with_what_it_is(tmp_path):
    network, file = untrained(3, TINY, Variant(rgb=False, goal_from="pose")), tmp_path / "policy.pt"
    policy_checkpoint.save_policy(file, network, {"seed": 3})
    again, meta = policy_checkpoint.load_policy(file)
    assert (again.widths, again.variant, meta) == (network.widths, network.variant, {"seed": 3})
    assert all(
        torch.equal(parameter, other) for parameter, other in zip(network.parameters(), again.parameters(), strict=True)
    )
    assert [path.name for path in tmp_path.iterdir()] == ["policy.pt"]


def damaged(file):
    file.write_bytes(file.read_bytes()[:-200])


def of_another_form(file):
    torch.save({"format": "something"}, file)


def of_other_sizes(file):
    content = torch.load(file, weights_only=True)
    content["widths"]["memory"] = 8
    torch.save(content, file)


def of_no_width(file):
    content = torch.load(file, weights_only=True)
    content["widths"]["memory"] = 0
    torch.save(content, file)


def not_finite(file):
    content = torch.load(file, weights_only=True)
    content["state"]["actor.bias"][2:4] = float("nan")
    torch.save(content, file)


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (of_no_width, "not the weights that it says"),
        (not_finite, r"actor\.bias: 2 of 28 numbers are not finite; use another file"),
        (damaged, "truncated|cannot be read"),
        (of_another_form, "not an onboard-policy file of version 1"),
        (of_other_sizes, "not the weights that it says"),
        (lambda file: file.unlink(), "there is no such file"),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path, spoil, line):
    file = tmp_path / "policy.pt"
    policy_checkpoint.save_policy(file, untrained(0, TINY), {})
    spoil(file)
    with pytest.raises(InputError, match=line) as caught:
        policy_checkpoint.load_policy(file)
    assert str(file) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    file = tmp_path / "imitation.ckpt"
    assert policy_checkpoint.load_training(file, "a" * 64, "c") is None
    policy_checkpoint.save_training(file, "imitation", "a" * 64, "c", {})
    assert policy_checkpoint.load_training(file, "a" * 64, "c") is not None
    with pytest.raises(InputError, match=r"made with another configuration .*use another --out"):
        policy_checkpoint.load_training(file, "b" * 64, "c")
    with pytest.raises(InputError, match=r"began with other weights, .* \(digest c, these have d\); use another --out"):
        policy_checkpoint.load_training(file, "a" * 64, "d")


@pytest.mark.parametrize("name", ["actor.weight", "rgb.0.conv1.weight", "rgb.0.bn1.running_mean"])
def test_networks_are_told_apart_by_every_part_of_them(name):
    network, other = untrained(0, TINY), untrained(0, TINY)
    assert policy_checkpoint.digest_of(network) == policy_checkpoint.digest_of(other)
    with torch.no_grad():
        other.state_dict()[name].view(-1)[0] += 1.0
    assert policy_checkpoint.digest_of(network) != policy_checkpoint.digest_of(other)


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    file = tmp_path / "policy.pt"
    policy_checkpoint.save_policy(file, untrained(0, TINY), {"seed": 0})
    before = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch_file.os, "fsync", full)
    with pytest.raises(InputError, match="cannot be written: No space left on device"):
        policy_checkpoint.save_policy(file, untrained(1, TINY), {"seed": 1})
    assert file.read_bytes() == before


def test_a_policy_that_is_not_finite_leaves_the_old_file(tmp_path):
    file, network = tmp_path / "policy.pt", untrained(0, TINY)
    policy_checkpoint.save_policy(file, network, {})
    before = file.read_bytes()
    network.get_parameter("actor.bias").data[:2] = torch.inf
    with pytest.raises(InputError, match=r"policy\.pt: not written: actor\.bias: 2 of 28 numbers are not finite; "):
        policy_checkpoint.save_policy(file, network, {})
    assert file.read_bytes() == before
