"""The network policy: argmax, memory, and refused inputs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.contract import BINS
from onboard.policy.manifest import Manifest, load_manifest, manifest_path, sha256_of
from onboard.policy.network_policy import NetworkPolicy, load_policy
from onboard.values.errors import EngineError
from onboard.values.messages import Scan
from tests.rigs.devices.small_model import manifest_table, observation, small_policy_files, write_model


def onnx(model: Path, manifest: Manifest) -> OnnxEngine:
    return OnnxEngine(model, threads=1)


class FixedEngine:
    """Returns fixed outputs, and records whether it was closed."""

    name = "fixed"

    def __init__(self, outputs: Mapping[str, np.ndarray]) -> None:
        self.outputs_given = outputs
        self.closed = False

    def warm_up(self) -> None:
        """Do nothing."""

    def run(self, tensors):
        return dict(self.outputs_given)

    def close(self) -> None:
        self.closed = True


def fixed(tmp_path, logits, memory=None, **changes) -> NetworkPolicy:
    model = small_policy_files(tmp_path, **changes)
    memory_out = np.zeros((2, 1, 3), np.float32) if memory is None else memory
    outputs = {"logits": np.asarray(logits, np.float32)[None], "memory_out": memory_out}
    return NetworkPolicy(FixedEngine(outputs), load_manifest(model))


def logits_with(values: dict[int, float]) -> np.ndarray:
    logits = np.full(28, -1.0, np.float32)
    for index, value in values.items():
        logits[index] = value
    return logits


#    logits above the rest    action
CHOICES = [({5: 1.0}, 5), ({5: 1.0, 20: 1.0}, 5), ({27: 0.0}, 27), ({}, 0)]


@pytest.mark.parametrize(("above", "action"), CHOICES)
def test_the_largest_logit_wins_and_the_lowest_index_of_equals(tmp_path, above, action):
    policy = fixed(tmp_path, logits_with(above))
    decision, _ = policy.decide(observation(), policy.initial_memory())
    assert decision.action == action
    assert decision.logits.shape == (28,)


def test_memory_is_passed_on_from_decision_to_decision(tmp_path):
    policy = load_policy(small_policy_files(tmp_path), onnx)
    memory = policy.initial_memory()
    assert memory.shape == (2, 3)
    for step in range(1, 4):
        decision, memory = policy.decide(observation(), memory)
        np.testing.assert_array_equal(memory, step)
        assert decision.action == 27
    policy.close()


NAN, INF = float("nan"), float("inf")
#    logits       memory  complaint
BROKEN = [
    ({3: NAN}, 0.0, "small: engine returned NaN in logits: 1 of 28 values"),
    ({3: INF}, 0.0, "small: engine returned infinity in logits: 1 of 28 values"),
    ({3: 1.0}, NAN, "small: engine returned NaN in memory_out: 6 of 6 values"),
]


@pytest.mark.parametrize(("above", "memory", "complaint"), BROKEN)
def test_outputs_that_are_not_finite_are_refused(tmp_path, above, memory, complaint):
    policy = fixed(tmp_path, logits_with(above), np.full((2, 1, 3), memory, np.float32))
    with pytest.raises(EngineError, match=complaint):
        policy.decide(observation(), policy.initial_memory())


def test_an_observation_with_nan_is_refused_by_the_tensors_name(tmp_path):
    policy = fixed(tmp_path, logits_with({}))
    ranges = np.ones(BINS, np.float32)
    ranges[7] = NAN
    with pytest.raises(EngineError, match="was given NaN in scan: 1 of 180"):
        policy.decide(replace(observation(), scan=Scan(0, ranges, np.ones(BINS, np.bool_))), policy.initial_memory())


def test_a_memory_of_another_policy_is_refused(tmp_path):
    policy = fixed(tmp_path, logits_with({}))
    with pytest.raises(EngineError, match=r"memory has shape \(2, 1024\), the manifest says \(2, 3\)"):
        policy.decide(observation(), np.zeros((2, 1024), np.float32))


#    manifest  in force
RESETS = [(None, 10.0), (4.0, 4.0)]


@pytest.mark.parametrize(("stated", "in_force"), RESETS)
def test_the_manifests_reset_goes_before_the_papers(tmp_path, stated, in_force):
    policy = load_policy(small_policy_files(tmp_path, memory_reset_s=stated), onnx)
    assert policy.memory_reset_s == in_force


def test_a_policy_without_memory_passes_it_by(tmp_path):
    model = write_model(tmp_path / "small.onnx")
    table = manifest_table(model, memory_shape=None)
    manifest = Manifest.model_validate(table | {"inputs": table["inputs"][:1], "outputs": table["outputs"][:1]})
    policy = NetworkPolicy(FixedEngine({"logits": logits_with({4: 1.0})[None]}), manifest)
    decision, memory = policy.decide(observation(), policy.initial_memory())
    assert (decision.action, memory.size) == (4, 0)


def test_a_model_with_other_tensors_is_refused_at_start_and_closed(tmp_path):
    model = small_policy_files(tmp_path)
    write_model(model, scan_bins=90)
    manifest_path(model).write_text(json.dumps(manifest_table(model, sha256=sha256_of(model))))
    engines = []

    def make(path: Path, manifest: Manifest) -> OnnxEngine:
        engines.append(OnnxEngine(path, threads=1))
        return engines[-1]

    complaint = r"small.onnx: input scan: expected float32\[1, 1, 180\], found float32\[1, 1, 90\]"
    with pytest.raises(EngineError, match=complaint):
        load_policy(model, make)
    with pytest.raises(EngineError, match="closed"):
        engines[0].warm_up()
