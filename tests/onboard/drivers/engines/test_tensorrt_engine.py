"""What of the TensorRT engine can be held to account without a GPU: cache key, precision, order of calls, refusals.

The calls themselves are checked against `tensorrt-stubs` (`pip install --no-deps tensorrt-stubs`); HARDWARE.md says
what has not run.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from engines.export import engine_check
from engines.export.engine_check import build_and_check, check_installed
from onboard.drivers.engines import tensorrt_build
from onboard.drivers.engines.tensorrt_build import EngineKey, build_engine, engine_path, may_be_half
from onboard.drivers.engines.tensorrt_engine import TensorRtEngine
from onboard.policy.contract import BINS
from onboard.policy.manifest import load_manifest
from onboard.policy.network_policy import load_policy
from onboard.values.errors import EngineError, MissingExtraError
from tests.rigs.devices.fake_tensorrt import (
    MEMORY,
    TENSORS,
    BuilderFlag,
    DataType,
    Kind,
    Layer,
    LayerType,
    Mode,
    Tensor,
    installed,
)
from tests.rigs.devices.small_model import small_policy_files

ROOT = Path(__file__).parents[4]


@pytest.fixture
def machine(monkeypatch):
    return installed(monkeypatch)


@pytest.fixture
def model(tmp_path):
    return small_policy_files(tmp_path)


@pytest.fixture
def engine(machine, model, tmp_path):
    return TensorRtEngine(model, load_manifest(model), tmp_path / "cache")


def inputs():
    return {"scan": np.full((1, 1, BINS), 0.5, np.float32), "memory_in": np.zeros(MEMORY, np.float32)}


KEY = EngineKey("Orin (nvgpu)", (8, 7), "10.3.0", ("/network/rgb/",), "a" * 64)
OTHER_KEYS = [
    {"device": "Orin NX"},
    {"compute_capability": (8, 9)},
    {"tensorrt": "10.4.0"},
    {"half_precision_nodes": ()},
    {"half_precision_nodes": ("/network/scan/",)},
    {"model_sha256": "b" * 64},
]


@pytest.mark.parametrize("change", OTHER_KEYS)
def test_whatever_shapes_an_engine_gives_it_another_file(change):
    cache = Path("cache")
    assert engine_path(cache, KEY) == engine_path(cache, replace(KEY))
    assert engine_path(cache, KEY) != engine_path(cache, replace(KEY, **change))


PREFIXES = ("/network/rgb/",)
#    layer name                          metadata                             half
NAMES = [
    ("/network/rgb/rgb.0/conv1/Conv", "", True),
    ("(Unnamed Layer* 7) [Shuffle]", "[ONNX Layer: /network/rgb/rgb.1/Gemm]", True),
    ("/network/gru/GRU", "[ONNX Layer: /network/gru/GRU]", False),
    ("(Unnamed Layer* 40) [Matrix Multiply]", "", False),
    ("/network/actor/Gemm", "fed by /network/rgb/rgb.1/Gemm", False),
    ("other/network/rgb/Conv", "", False),
]


@pytest.mark.parametrize(("name", "expected", "half"), NAMES)
def test_only_recognised_layers_may_be_half(name, expected, half):
    assert may_be_half(name, expected, PREFIXES) is half
    assert not may_be_half(name, expected, ())


def network_layers() -> dict[str, Layer]:
    """Return layers as TensorRT makes them of a convolution and a GRU."""
    shape = Tensor(DataType.INT32, is_shape_tensor=True)
    layers = [
        Layer("/network/rgb/conv1/Conv", LayerType.CONVOLUTION),
        Layer("/network/rgb/Relu", LayerType.ACTIVATION),
        Layer("/network/gru/GRU", LayerType.RECURRENCE),
        Layer("(Unnamed Layer* 9) [Matrix Multiply]", LayerType.MATRIX_MULTIPLY),
        Layer("gru.weight", LayerType.CONSTANT, inputs=[]),
        Layer("sizes", LayerType.SHUFFLE, outputs=[shape], inputs=[shape]),
        Layer("index", LayerType.SHUFFLE, outputs=[Tensor(DataType.INT64)]),
    ]
    return {layer.name: layer for layer in layers}


def test_the_gru_is_held_to_single_precision_and_the_image_encoder_is_not(machine, model, tmp_path):
    layers = network_layers()
    machine.layers = list(layers.values())
    build_engine(model, tmp_path / "a.engine", PREFIXES)
    held = {name for name, layer in layers.items() if layer.precision is DataType.FLOAT}
    assert held == {"/network/gru/GRU", "(Unnamed Layer* 9) [Matrix Multiply]"}
    assert all(layers[name].output_types == {0: DataType.FLOAT} for name in held)
    assert machine.flags == {BuilderFlag.FP16, BuilderFlag.OBEY_PRECISION_CONSTRAINTS}


def test_single_precision_is_true_single_precision(machine, model, tmp_path):
    build_engine(model, tmp_path / "a.engine", ())
    assert machine.flags == set()  # neither half nor TF32
    assert (tmp_path / "a.engine").read_bytes() == b"plan"


def test_prefixes_that_match_nothing_are_refused(machine, model, tmp_path):
    machine.layers = [Layer("conv", LayerType.CONVOLUTION)]
    with pytest.raises(EngineError, match=r"half_precision_nodes .*1 of 1 layers are outside"):
        build_engine(model, tmp_path / "a.engine", PREFIXES)


def test_tensorrt_11_is_told_apart(machine, model, tmp_path):
    machine.trt.__version__ = "11.0.0"
    machine.trt.BuilderFlag = type("BuilderFlag", (), {"TF32": 0})
    machine.trt.NetworkDefinitionCreationFlag = object()
    with pytest.raises(EngineError, match=r"TensorRT 11\.0\.0 takes precision from the model alone.*--no-fp16"):
        build_engine(model, tmp_path / "a.engine", PREFIXES)
    build_engine(model, tmp_path / "a.engine", ())


def test_what_the_parser_refuses_is_one_line(machine, model, tmp_path):
    machine.parse_errors = [(12, "no importer\nfor operator Foo"), (13, "more")]
    with pytest.raises(EngineError) as caught:
        build_engine(model, tmp_path / "a.engine", ())
    assert str(caught.value) == f"{model}: TensorRT cannot parse it: node 12: no importer for operator Foo"


def test_a_build_that_fails_leaves_no_file(machine, model, tmp_path):
    machine.plan = None
    with pytest.raises(EngineError, match="could not build an engine"):
        build_engine(model, tmp_path / "a.engine", ())
    assert not list(tmp_path.glob("*.engine*"))


def test_a_cache_that_cannot_be_written_is_refused(machine, model, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineError, match="the engine cannot be written"):
        build_engine(model, tmp_path / "file" / "a.engine", ())


def test_an_engine_is_built_once_and_then_taken_from_the_cache(machine, model, tmp_path):
    for _ in range(2):
        TensorRtEngine(model, load_manifest(model), tmp_path / "cache").close()
    assert machine.builds == 1


def test_a_damaged_engine_is_built_anew(machine, model, tmp_path):
    TensorRtEngine(model, load_manifest(model), tmp_path / "cache").close()
    [path] = (tmp_path / "cache").glob("*.engine")
    path.write_bytes(b"half a pl")
    TensorRtEngine(model, load_manifest(model), tmp_path / "cache").close()
    assert (machine.builds, path.read_bytes()) == (2, b"plan")


def test_a_run_copies_in_executes_copies_out_and_waits(machine, engine):
    machine.log.clear()
    outputs = engine.run(inputs())
    assert machine.log == ["in", "in", "execute", "out", "out", "synchronize"]
    np.testing.assert_allclose(outputs["logits"], np.full((1, 28), 90.0))
    np.testing.assert_array_equal(outputs["memory_out"], np.ones(MEMORY))


def test_outputs_are_copies_that_the_next_run_leaves_alone(machine, engine):
    first = engine.run(inputs())
    engine.run(inputs() | {"scan": np.zeros((1, 1, BINS), np.float32)})
    np.testing.assert_allclose(first["logits"], 90.0)


def test_it_fits_its_manifest_and_decides(machine, model, tmp_path):
    policy = load_policy(model, lambda path, manifest: TensorRtEngine(path, manifest, tmp_path / "cache"))
    assert policy.name == "small"
    assert machine.log.count("execute") > 1  # warmed
    policy.close()


def test_integers_of_8_6_are_converted(machine, model, tmp_path):
    machine.tensors["prev_action"] = ((1,), Kind.INT32, Mode.INPUT)
    engine = TensorRtEngine(model, load_manifest(model), tmp_path / "cache")
    assert engine.inputs["prev_action"].dtype == "int64"
    engine.run(inputs() | {"prev_action": np.array([28], np.int64)})
    assert machine.device_memory[machine.addresses["prev_action"]].tolist() == [28]
    assert machine.device_memory[machine.addresses["prev_action"]].dtype == np.int32


def test_another_thread_is_refused(engine):
    refusals: list[str] = []

    def call() -> None:
        try:
            engine.run(inputs())
        except EngineError as error:
            refusals.append(str(error))

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    assert refusals == ["the engine was called from a thread that did not create it"]


def test_closing_frees_everything_once_and_pops_the_context(machine, engine):
    engine.close()
    engine.close()
    assert machine.log.count("free") == len(TENSORS)
    assert machine.log[-2:] == ["pop", "detach"]
    with pytest.raises(EngineError, match="closed"):
        engine.run(inputs())


def test_a_start_that_fails_releases_the_context(machine, model, tmp_path):
    machine.parse_errors = [(0, "no")]
    with pytest.raises(EngineError, match="cannot parse"):
        TensorRtEngine(model, load_manifest(model), tmp_path / "cache")
    assert machine.log == ["push", "pop", "detach"]


def test_a_free_axis_is_refused(machine, model, tmp_path):
    machine.tensors["scan"] = ((-1, 1, BINS), Kind.FLOAT, Mode.INPUT)
    with pytest.raises(EngineError, match=r"tensor scan: expected fixed sizes"):
        TensorRtEngine(model, load_manifest(model), tmp_path / "cache")


def test_what_cuda_raises_is_an_engine_error(machine, engine):
    def fail(*_: object) -> None:
        raise machine.cuda.Error("launch failed")

    machine.cuda.memcpy_htod_async = fail
    with pytest.raises(EngineError, match="CUDA failed: launch failed"):
        engine.run(inputs())


def test_an_inference_that_does_not_start_is_an_engine_error(machine, engine):
    machine.starts = False
    with pytest.raises(EngineError, match="did not start"):
        engine.run(inputs())


def test_an_engine_that_decides_otherwise_is_not_installed(machine, model, tmp_path):
    """The fake's logits are all equal, the model's largest is the last; both count in their memory."""
    machine.layers = list(network_layers().values())
    cache = tmp_path / "cache"
    found = build_and_check(model, cache, fp16=True, recordings=(), random=2)
    assert (found.agrees, found.parity.agreement) == (False, 0.0)
    assert found.parity.steps == 60
    assert found.parity.max_memory_difference == 0.0
    assert found.engine == "tensorrt 10.3.0 on Orin (nvgpu)"
    assert 0.0 < found.decision_ms["p50"] <= found.decision_ms["p99"]
    assert machine.log[-1] == "detach"
    assert list(cache.rglob("*.engine")) == []
    with pytest.raises(EngineError, match=r"\.refused: tensorrt .* in 0 of 60 decisions"):
        TensorRtEngine(model, load_manifest(model), cache)


def test_an_engine_that_agrees_is_installed_and_checked_again(machine, monkeypatch, model, tmp_path):
    machine.layers = list(network_layers().values())
    cache = tmp_path / "cache"
    build_and_check(model, cache, fp16=True, recordings=(), random=1)
    (refused,) = cache.glob("*.refused")
    with pytest.raises(EngineError, match="no engine for tensorrt"):
        check_installed(model, cache, fp16=True, recordings=(), random=1)
    monkeypatch.setattr(engine_check, "RANDOM_AGREEMENT", 0.0)
    assert build_and_check(model, cache, fp16=True, recordings=(), random=1).agrees
    (installed,) = cache.rglob("*.engine")
    assert installed.parent == cache
    assert not refused.exists()
    TensorRtEngine(model, load_manifest(model), cache).close()
    monkeypatch.setattr(engine_check, "RANDOM_AGREEMENT", 0.5)
    assert not check_installed(model, cache, fp16=True, recordings=(), random=1).agrees
    assert not installed.exists()
    assert refused.exists()


def test_without_tensorrt_jetpack_and_the_extra_are_named(monkeypatch, model, tmp_path):
    monkeypatch.setattr(tensorrt_build, "HAS_TENSORRT", False)
    with pytest.raises(MissingExtraError, match=r"JetPack.*onboard\[jetson\]"):
        TensorRtEngine(model, load_manifest(model), tmp_path)


def repaired_stubs(folder: Path) -> Path:
    """Copy tensorrt-stubs to where mypy takes them from, without the lines of 10.13 that are not Python."""
    for file in metadata.files("tensorrt-stubs") or []:
        if file.suffix != ".pyi":
            continue
        text = Path(str(file.locate())).read_text(encoding="utf-8")
        text = re.sub(r"\bin: ", "in_: ", text)  # a keyword as a parameter
        text = re.sub(r"= <[^>\n]*>(?=[,)])", "= ...", text)  # a repr as a default
        text = text.replace("channel_axis: int) ->", "channel_axis: int = ...) ->")  # no default after defaults
        text = text.replace("import tensorrt_libs as tensorrt_libs\n", "")
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return folder


def has_stubs() -> bool:
    try:
        metadata.version("tensorrt-stubs")
    except metadata.PackageNotFoundError:
        return False
    return shutil.which("mypy", path=str(Path(sys.executable).parent)) is not None


@pytest.mark.skipif(not has_stubs(), reason="tensorrt-stubs is missing: pip install --no-deps tensorrt-stubs")
def test_every_call_is_one_that_tensorrt_10_has(tmp_path):
    """mypy against the stubs finds nothing in the drivers, and does find a misspelt call in a copy of them."""
    drivers = [ROOT / "onboard" / "drivers" / "engines" / name for name in ("tensorrt_build.py", "tensorrt_engine.py")]
    misspelt = tmp_path / "misspelt.py"
    misspelt.write_text(drivers[1].read_text().replace("execute_async_v3", "execute_async_v9"))
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", *drivers, misspelt],
        cwd=ROOT,
        env=os.environ | {"MYPYPATH": str(repaired_stubs(tmp_path / "stubs"))},
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in done.stdout.splitlines() if ".pyi:" not in line and ": error:" in line]
    assert len(ours) == 1, done.stdout[-2000:]
    assert "misspelt.py" in ours[0]
    assert 'no attribute "execute_async_v9"' in ours[0]


def no_context(machine):
    whole = machine._deserialize
    machine._deserialize = lambda plan: SimpleNamespace(
        **{**vars(whole(plan)), "create_execution_context": lambda: None}
    )


def no_address(machine):
    machine._set_address = lambda name, address: False


def no_engine(machine):
    machine.plan = b"of another version"


REFUSALS = [
    (no_engine, "does not load the engine that it has just built"),
    (no_context, "created no execution context"),
    (no_address, "tensor scan: TensorRT refused its address"),
]


@pytest.mark.parametrize(("refuse", "expected"), REFUSALS, ids=[row[0].__name__ for row in REFUSALS])
def test_what_tensorrt_refuses_ends_the_start_and_releases_the_context(machine, model, tmp_path, refuse, expected):
    refuse(machine)
    with pytest.raises(EngineError, match=expected):
        TensorRtEngine(model, load_manifest(model), tmp_path / "cache")
    assert machine.log[-2:] == ["pop", "detach"]
