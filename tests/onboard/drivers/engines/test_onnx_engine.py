"""ONNX Runtime behind the engine's protocol: what it returns and how it refuses."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from onboard.drivers.engines import onnx_engine
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.contract import BINS
from onboard.values.errors import EngineError, MissingExtraError
from tests.rigs.devices.small_model import LAYERS, WIDTH, write_model


@pytest.fixture
def model(tmp_path):
    return write_model(tmp_path / "small.onnx")


@pytest.fixture
def engine(model):
    engine = OnnxEngine(model, threads=1)
    yield engine
    engine.close()


def inputs(**changes):
    given = {
        "scan": np.full((1, 1, BINS), 0.5, np.float32),
        "memory_in": np.full((LAYERS, 1, WIDTH), 2.0, np.float32),
    }
    return given | changes


def test_it_computes_the_model(engine):
    engine.warm_up()
    outputs = engine.run(inputs())
    np.testing.assert_allclose(outputs["logits"], 90.0 + np.arange(28)[None] / 100.0, rtol=1e-6)
    np.testing.assert_array_equal(outputs["memory_out"], np.full((LAYERS, 1, WIDTH), 3.0))


#    given                                                 complaint
WRONG = [
    (
        {"scan": np.zeros((1, 1, 90), np.float32)},
        r"input scan: expected float32\[1, 1, 180\], found float32\[1, 1, 90\]",
    ),
    ({"scan": np.zeros((1, 1, BINS))}, "input scan: .*found float64"),
    ({"odom": np.zeros((1, 5), np.float32)}, "input odom: the model has no such input"),
    ({"memory_in": None}, r"input memory_in: .*found none"),
]


@pytest.mark.parametrize(("change", "complaint"), WRONG)
def test_wrong_tensors_are_refused_by_name(engine, change, complaint):
    with pytest.raises(EngineError, match=complaint):
        engine.run({name: tensor for name, tensor in inputs(**change).items() if tensor is not None})


def truncated(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize("damage", [truncated, lambda _: b"", lambda _: b"not a model", lambda _: bytes(1000)])
def test_a_damaged_model_is_refused_with_one_line(model, damage):
    model.write_bytes(damage(model.read_bytes()))
    with pytest.raises(EngineError) as caught:
        OnnxEngine(model)
    assert str(caught.value).startswith(f"{model}: onnxruntime cannot load it: ")
    assert "\n" not in str(caught.value)


def test_a_missing_model_is_refused(tmp_path):
    with pytest.raises(EngineError, match=r"none\.onnx"):
        OnnxEngine(tmp_path / "none.onnx")


def test_a_model_with_a_free_axis_is_refused(model):
    proto = onnx.load(model)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(proto, model)
    with pytest.raises(EngineError, match=r"tensor scan: expected fixed sizes, found \['batch', 1, 180\]"):
        OnnxEngine(model)


def test_a_failure_inside_the_model_is_one_line(tmp_path):
    """An index out of the table fails when it runs, not when it loads."""
    index = helper.make_tensor_value_info("prev_action", TensorProto.INT64, [1])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1])
    table = helper.make_tensor("table", TensorProto.FLOAT, [2], [0.0, 1.0])
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "prev_action"], ["logits"])], "g", [index], [logits], [table]
    )
    path = tmp_path / "gather.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    engine = OnnxEngine(path)
    with pytest.raises(EngineError, match=r"onnxruntime failed: .*bounds"):
        engine.run({"prev_action": np.array([28], np.int64)})


def test_without_the_library_the_extra_is_named(model, monkeypatch):
    monkeypatch.setattr(onnx_engine, "onnxruntime", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'onboard\[cpu\]'"):
        OnnxEngine(model)
