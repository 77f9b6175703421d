"""A model without a fitting manifest is refused with one line that names file and field."""

from __future__ import annotations

import json

import pytest

from onboard.policy.contract import BINS, TensorType
from onboard.policy.manifest import check_engine, delay_complaint, load_manifest, manifest_path, save_manifest
from onboard.values.errors import ConfigError, EngineError
from tests.rigs.devices.small_model import manifest_table, small_policy_files


@pytest.fixture
def model(tmp_path):
    """A model whose manifest fits."""
    return small_policy_files(tmp_path)


def rewrite(model, **changes):
    """Write the manifest with changes, without validation."""
    manifest_path(model).write_text(json.dumps(manifest_table(model, **changes)))


def refusal(model) -> str:
    """Return the error line of the refused manifest."""
    with pytest.raises(ConfigError) as caught:
        load_manifest(model)
    line = str(caught.value)
    assert "\n" not in line
    return line


def test_it_reads_back_what_was_written(model):
    manifest = load_manifest(model)
    save_manifest(model, manifest)
    assert load_manifest(model) == manifest
    assert manifest_path(model).name == "small.onnx.manifest.json"


def test_extra_is_free_for_other_policies(model):
    rewrite(model, extra={"lidar": {"bins": 720}})
    assert load_manifest(model).extra["lidar"] == {"bins": 720}


SCAN = {"name": "scan", "shape": [1, 1, BINS], "dtype": "float32"}
#    change                                                   the line names
REFUSED = [
    ({"contract_version": 3}, ["contract_version", "expected 1 or 2", "found 3"]),
    ({"sha256": "f" * 64}, ["sha256", "expected ffff", "small.onnx"]),
    ({"sha256": "short"}, ["sha256"]),
    ({"colour": 1}, ["unknown key colour"]),
    ({"policy": ""}, ["policy"]),
    ({"control_hz": 0}, ["control_hz"]),
    ({"training_delay_ticks": -1}, ["training_delay_ticks"]),
    ({"memory_reset_s": 0}, ["memory_reset_s"]),
    ({"weights": "int8"}, ["weights", "int8"]),
    ({"weights": "float16"}, ["weights: expected float16, found float32 of small.onnx"]),
    ({"rgb": {"std": [1.0, 0.0, 1.0]}}, ["rgb.std"]),
    ({"scan": {"max_range_m": "far"}}, ["scan.max_range_m", "far"]),
    ({"inputs": [SCAN | {"name": "lidar"}]}, ["inputs", "lidar", "scan"]),
    ({"inputs": [SCAN | {"shape": [1, 180]}]}, ["inputs.scan", "float32[1, 1, 180]", "float32[1, 180]"]),
    ({"inputs": [SCAN | {"dtype": "float16"}]}, ["inputs.scan", "float16[1, 1, 180]"]),
    ({"inputs": [SCAN, SCAN]}, ["inputs", "twice"]),
    ({"inputs": [SCAN]}, ["memory_in"]),
    ({"outputs": []}, ["logits"]),
    ({"memory_shape": [2, 4]}, ["inputs.memory_in", "float32[2, 1, 4]", "float32[2, 1, 3]"]),
    ({"memory_shape": None}, ["inputs.memory_in", "memory_shape"]),
]


@pytest.mark.parametrize(("change", "named"), REFUSED)
def test_a_manifest_that_does_not_fit_is_refused(model, change, named):
    rewrite(model, **change)
    line = refusal(model)
    assert manifest_path(model).name in line
    for part in named:
        assert part in line


def test_a_missing_manifest_is_refused(model):
    manifest_path(model).unlink()
    assert "a model needs its manifest" in refusal(model)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe\x00"])
def test_a_manifest_that_does_not_parse_is_refused(model, content):
    manifest_path(model).write_bytes(content)
    assert manifest_path(model).name in refusal(model)


def test_a_truncated_model_is_refused_by_its_hash(model):
    model.write_bytes(model.read_bytes()[:-10])
    assert "sha256" in refusal(model)


def test_a_missing_model_is_refused(model):
    model.unlink()
    assert "small.onnx: cannot be read" in refusal(model)


FITTING = {"scan": TensorType((1, 1, BINS), "float32"), "memory_in": TensorType((2, 1, 3), "float32")}
RETURNED = {"logits": TensorType((1, 28), "float32"), "memory_out": TensorType((2, 1, 3), "float32")}
#    inputs of the engine                                       outputs                       complaint
ENGINES = [
    ({"memory_in": FITTING["memory_in"]}, RETURNED, r"input scan: expected float32\[1, 1, 180\], found none"),
    (FITTING | {"scan": TensorType((1, 1, 360), "float32")}, RETURNED, r"input scan: .*found float32\[1, 1, 360\]"),
    (FITTING | {"scan": TensorType((1, 1, 180), "float16")}, RETURNED, r"input scan: .*found float16"),
    (FITTING | {"rgb": TensorType((1,), "float32")}, RETURNED, "input rgb: the model has this input"),
    (FITTING, RETURNED | {"logits": TensorType((1, 12), "float32")}, r"output logits: .*found float32\[1, 12\]"),
    (FITTING, {"logits": RETURNED["logits"]}, "output memory_out: .*found none"),
]


@pytest.mark.parametrize(("inputs", "outputs", "complaint"), ENGINES)
def test_an_engine_with_other_tensors_is_refused(model, inputs, outputs, complaint):
    with pytest.raises(EngineError, match=complaint):
        check_engine(model, load_manifest(model), inputs, outputs)


def test_an_engine_may_return_more_than_the_manifest_lists(model):
    check_engine(model, load_manifest(model), FITTING, RETURNED | {"value": TensorType((1, 1), "float32")})


#    delay  Hz    ticks a decision  complaint (the model: 3 ticks at 30 Hz, 3 decisions a second)
TIMINGS = [
    (3, 30.0, 10, None),
    (6, 60.0, 20, None),
    (0, 30.0, 10, "rates.delay_ticks"),
    (3, 60.0, 20, "rates.delay_ticks"),
    (3, 30.0, 5, "rates.ticks_per_decision"),
]


@pytest.mark.parametrize(("delay", "hz", "period", "complaint"), TIMINGS)
def test_timing_other_than_in_training_is_reported(model, delay, hz, period, complaint):
    line = delay_complaint(load_manifest(model), delay, hz, period)
    assert (line is None) if complaint is None else (line is not None and line.startswith(complaint))
