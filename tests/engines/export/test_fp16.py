"""Weights stored in half precision: half the file, the same decisions, and the very same numbers for TensorRT."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper
from typer.testing import CliRunner

from engines.__main__ import main as engines_main
from engines.export import export as exporting
from engines.export.agreement_drives import recorded_drives
from engines.export.export import TorchEngine, manifest_of, onnx_model
from engines.export.fp16 import HALVED_FROM, Agreement, Listener, compare_policies, halve
from engines.network.network import TINY, Variant, untrained
from engines.network.policy_checkpoint import MEMORY_RESET_S, save_policy
from onboard.drivers.engines import onnx_engine
from onboard.drivers.engines.onnx_engine import OnnxEngine, widened_model
from onboard.drivers.engines.tensorrt_engine import TensorRtEngine
from onboard.policy.inference import blank_observation
from onboard.policy.manifest import Manifest, load_manifest, save_manifest, sha256_of
from onboard.policy.network_policy import NetworkPolicy, load_policy
from onboard.policy.parity import compare, random_inputs, zero_memory
from onboard.values.errors import ConfigError, DisagreementError, EngineError, InputError
from onboard.values.messages import Motion, Pose, Twist
from tests.rigs.devices.fake_tensorrt import installed
from tests.rigs.devices.small_model import manifest_table, small_policy_files

SIGHTLESS = Variant(rgb=False, goal_from="pose")
"""Without the colour encoder, which takes most of the time."""


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A model with half weights and its manifest."""
    model = tmp_path_factory.mktemp("half") / "half.onnx"
    exporting.export(model, untrained(3, TINY, SIGHTLESS), "half", {}, weights="float16", steps=3)
    return model


def test_large_weights_are_halved_and_small_ones_are_not(half):
    stored = {weight.name: weight for weight in onnx.load(half).graph.initializer}
    for name, weight in stored.items():
        count = np.prod(weight.dims)
        wanted = TensorProto.FLOAT16 if name.endswith(".half") else TensorProto.FLOAT
        assert (weight.data_type == wanted) or weight.data_type == TensorProto.INT64, name
        assert name.endswith(".half") == (count >= HALVED_FROM), name
    assert load_manifest(half).weights == "float16"


def outputs(path, manifest, steps=5):
    """Return all outputs of a model over a sequence with its own memory."""
    engine, rng = OnnxEngine(path, threads=1), np.random.default_rng(2)
    memory, seen = zero_memory(manifest), []
    for _ in range(steps):
        found = engine.run({**random_inputs(manifest, rng), **memory})
        memory = {"memory_in": found["memory_out"]}
        seen.append(found)
    engine.close()
    return seen


def test_widened_it_gives_the_same_outputs_to_the_last_bit(half, tmp_path):
    wide = tmp_path / "wide.onnx"
    wide.write_bytes(widened_model(half))
    manifest = load_manifest(half)
    for mine, theirs in zip(outputs(wide, manifest), outputs(half, manifest), strict=True):
        for name in theirs:
            np.testing.assert_array_equal(mine[name], theirs[name])


@pytest.mark.parametrize("number", [1e5, float("inf"), float("nan")])
def test_numbers_beyond_half_precision_are_refused_by_the_weights_name(number):
    proto = onnx_model(untrained(3, TINY, SIGHTLESS))
    weight = next(weight for weight in proto.graph.initializer if weight.name == "network.odom.2.weight")
    large = np.zeros((HALVED_FROM,), np.float32)
    large[7] = number
    weight.CopyFrom(numpy_helper.from_array(large, weight.name))
    with pytest.raises(InputError, match=r"weight network\.odom\.2\.weight: found a number above 65504"):
        halve(proto)


@pytest.mark.parametrize(("content", "message"), [(b"junk", "not an ONNX model"), (None, "cannot be read")])
def test_what_cannot_be_widened_is_one_line(tmp_path, content, message):
    path = tmp_path / "a.onnx"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(EngineError, match=rf"a\.onnx: {message}"):
        widened_model(path)


# ---- a manifest that says otherwise --------------------------------------------------------------------------------


#    the file   the manifest
@pytest.mark.parametrize(("stored", "message"), [("float16", "float32"), ("float32", "float16")])
def test_a_manifest_that_states_other_weights_is_refused(tmp_path, stored, message):
    model = tmp_path / "a.onnx"
    network = untrained(0, TINY, SIGHTLESS)
    onnx.save(onnx_model(network, stored), model)
    save_manifest(model, manifest_of(network, sha256_of(model), "a", {}, message))
    with pytest.raises(ConfigError, match=rf"weights: expected {message}, found (float16, )?{stored[:5]}.* of a\.onnx"):
        load_manifest(model)


# ---- TensorRT ------------------------------------------------------------------------------------------------------


@pytest.fixture
def machine(monkeypatch):
    return installed(monkeypatch)


def test_tensorrt_is_given_widened_weights_under_the_hash_of_the_small_file(machine, tmp_path, monkeypatch):
    model = small_policy_files(tmp_path)
    proto = onnx.load(model)
    halve(proto)
    onnx.save(proto, model)
    save_manifest(model, Manifest.model_validate(manifest_table(model, weights="float16")))
    TensorRtEngine(model, load_manifest(model), tmp_path / "cache").close()
    parsed = onnx.load_from_string(machine.parsed)
    assert {weight.data_type for weight in parsed.graph.initializer} == {TensorProto.FLOAT, TensorProto.INT64}
    assert machine.parsed == widened_model(model)
    monkeypatch.setattr(onnx_engine, "HAS_ONNX", False)  # from the cache it needs onnx no more
    TensorRtEngine(model, load_manifest(model), tmp_path / "cache").close()
    assert machine.builds == 1


# ---- agreement -----------------------------------------------------------------------------------------------------


def walked(count: int):
    """Return a recorded sequence in which the robot goes forward."""
    first = blank_observation()
    poses = [Motion(Pose(0.2 * step, 0.1 * step, 0.1 * step), Twist(0.6, 0.0)) for step in range(count)]
    return [replace(first, filtered=pose, odometry=pose, previous_action=step % 29) for step, pose in enumerate(poses)]


def test_a_model_agrees_with_itself_and_hardly_with_another(half, tmp_path):
    other = tmp_path / "other.onnx"
    exporting.export(other, untrained(4, TINY, SIGHTLESS), "other", {}, steps=3)
    sequences = [walked(20), walked(7)]
    one, same, different = (load_policy(path, lambda file, _: OnnxEngine(file, 1)) for path in (half, half, other))
    assert compare_policies(one, same, sequences) == Agreement(27, 27)
    assert compare_policies(one, different, sequences).fraction < 0.5
    assert str(Agreement(200, 199)) == "the same action in 199 of 200 decisions (99.50%)"
    assert Agreement(0, 0).fraction == 1.0


def test_each_sequence_begins_with_a_fresh_memory(half):
    network = untrained(3, TINY, SIGHTLESS)
    manifest = load_manifest(half)
    listener = Listener(TorchEngine(network), manifest)
    reference = NetworkPolicy(TorchEngine(network), manifest)
    for length in (3, 5):
        memory = listener.initial_memory()
        for observation in walked(length):
            _, memory = listener.decide(observation, memory)
    assert [len(sequence) for sequence in listener.sequences] == [3, 5]
    assert [asked.filtered for asked in listener.sequences[1]] == [asked.filtered for asked in walked(5)]
    assert compare_policies(reference, reference, listener.sequences).decisions == 8


def test_drives_are_recorded_and_cut_where_the_memory_is_reset():
    network = untrained(3, TINY, SIGHTLESS)
    sequences = recorded_drives(network, 2, {}, max_s=12.0, maps=("apartment", "willow"))
    lengths = [len(sequence) for sequence in sequences]
    assert len(lengths) == 4  # two drives of 12 s with a reset after 10 s
    assert all(length <= 31 for length in lengths)
    assert {observation.goal_xy_m for observation in sequences[0]} != {o.goal_xy_m for o in sequences[-1]}
    assert recorded_drives(network, 0, {}) == []
    often = recorded_drives(network, 1, {MEMORY_RESET_S: 3.0}, max_s=12.0, maps=("apartment",))
    assert max(len(sequence) for sequence in often) == 9  # as it was trained


def with_noise(monkeypatch) -> None:
    """Make halving so coarse that decisions change."""

    def coarse(proto) -> None:
        halve(proto)
        for weight in proto.graph.initializer:
            if weight.name.endswith(".half"):
                numbers = numpy_helper.to_array(weight)
                weight.CopyFrom(numpy_helper.from_array(np.sign(numbers).astype(np.float16), weight.name))

    monkeypatch.setattr(exporting, "halve", coarse)
    monkeypatch.setattr(exporting, "HALF_SEQUENCES", 1)


@pytest.mark.parametrize("recorded", [[], [walked(10)]], ids=["random", "recorded"])
def test_half_weights_that_decide_otherwise_are_not_written(tmp_path, monkeypatch, recorded):
    with_noise(monkeypatch)
    network, out = untrained(3, TINY, SIGHTLESS), tmp_path / "a.onnx"
    with pytest.raises(DisagreementError, match=r"a\.onnx: not written: .* the same action in .*, expected 99\.5%"):
        exporting.export(out, network, "a", {}, weights="float16", recorded=recorded, steps=10)
    assert list(tmp_path.iterdir()) == []


#    trained   asked for           drives that are compared
@pytest.mark.parametrize(
    ("trained", "asked", "drives"),
    [(False, ["--drives", "3"], 3), (True, [], 20), (True, ["--drives", "0"], 0), (False, [], 0)],
)
def test_the_command_judges_what_was_trained_by_drives_and_the_manifest_says_so(
    tmp_path, monkeypatch, trained, asked, drives
):
    monkeypatch.setattr(
        "engines.export.agreement_drives.recorded_drives", lambda network, drives, extra: [walked(4)] * drives
    )
    monkeypatch.setattr(exporting, "HALF_SEQUENCES", 1)
    out, arguments = tmp_path / "a.onnx", ["--tiny", "--weights", "fp16", "--json", "-", *asked]
    if trained:
        save_policy(tmp_path / "a.pt", untrained(3, TINY, SIGHTLESS), {})
        arguments += ["--checkpoint", str(tmp_path / "a.pt")]
    result = CliRunner().invoke(engines_main, ["export", "--out", str(out), *arguments])
    assert result.exit_code == 0, result.output
    count, reported = (4 * drives, f"{drives} drives") if drives else (30, "random sequences")
    message = f"the same action in {count} of {count} decisions (100.00%) of {reported}"
    assert json.loads(result.stdout)["agreement"] == message
    found = {"decisions": count, "same_action": count, "drives": drives}
    assert load_manifest(out).extra["agreement"] == found


@pytest.mark.long
def test_the_full_network_is_below_60_megabytes_and_decides_alike(tmp_path):
    out = tmp_path / "full.onnx"
    network = untrained(0)
    done = exporting.export(out, network, "full", {}, weights="float16")
    assert out.stat().st_size < 60e6
    assert done.agreement.fraction >= 0.995
    engine = OnnxEngine(out, threads=1)
    parity = compare(engine, TorchEngine(network), done.manifest, steps=30)
    assert parity.max_logit_difference < 0.02 * parity.logit_spread
    engine.close()
