"""A model of a few numbers behind the contract, made without PyTorch, and observations to feed it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onboard.policy.contract import ACTIONS, BINS, CONTRACT_VERSION
from onboard.policy.inference import blank_observation
from onboard.policy.manifest import Manifest, save_manifest, sha256_of
from onboard.values.messages import Observation

LAYERS, WIDTH = 2, 3
MEMORY = [LAYERS, 1, WIDTH]
SMALL_OPSET = 17


def write_model(path: Path, *, scan_bins: int = BINS) -> Path:
    """Write logits = sum of the scan at every action + its index / 100, memory_out = memory_in + 1; return the path."""
    scan = helper.make_tensor_value_info("scan", TensorProto.FLOAT, [1, 1, scan_bins])
    memory_in = helper.make_tensor_value_info("memory_in", TensorProto.FLOAT, MEMORY)
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, len(ACTIONS)])
    memory_out = helper.make_tensor_value_info("memory_out", TensorProto.FLOAT, MEMORY)
    constants = {
        "spread": np.ones((scan_bins, len(ACTIONS)), np.float32),
        "slope": np.arange(len(ACTIONS), dtype=np.float32)[None] / 100.0,
        "one": np.ones((1,), np.float32),
        "row": np.array([1, scan_bins], np.int64),
    }
    nodes = [
        helper.make_node("Cast", ["scan"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Reshape", ["floats", "row"], ["flat"]),
        helper.make_node("Gemm", ["flat", "spread", "slope"], ["logits"]),
        helper.make_node("Add", ["memory_in", "one"], ["memory_out"]),
    ]
    weights = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "small", [scan, memory_in], [logits, memory_out], weights)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", SMALL_OPSET)], ir_version=8)
    onnx.save(proto, path)
    return path


def manifest_table(model: Path, **changes: Any) -> dict[str, Any]:
    """Return what the manifest of `write_model`'s model says, with changes."""
    table: dict[str, Any] = {
        "contract_version": CONTRACT_VERSION,
        "sha256": sha256_of(model),
        "policy": "small",
        "inputs": [
            {"name": "scan", "shape": [1, 1, BINS], "dtype": "float32"},
            {"name": "memory_in", "shape": MEMORY, "dtype": "float32"},
        ],
        "outputs": [
            {"name": "logits", "shape": [1, len(ACTIONS)], "dtype": "float32"},
            {"name": "memory_out", "shape": MEMORY, "dtype": "float32"},
        ],
        "training_delay_ticks": 3,
        "control_hz": 30.0,
        "decision_hz": 3.0,
        "memory_shape": [LAYERS, WIDTH],
    }
    return table | changes


def small_policy_files(folder: Path, **changes: Any) -> Path:
    """Write the small model and its manifest; return the model's path."""
    model = write_model(folder / "small.onnx")
    save_manifest(model, Manifest.model_validate(manifest_table(model, **changes)))
    return model


def observation() -> Observation:
    """Return an observation in which nothing is near."""
    return blank_observation()
