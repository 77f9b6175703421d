"""The network policy for a robot without a colour camera: the output of its image encoder is computed once.

The contract allows decisions without an image. The network then gets `rgb.absent` in every decision, so the output of
its image encoder is constant. The encoder takes nine tenths of a decision's time. With that input as a constant of the
model, ONNX Runtime computes the encoder once when it loads the model.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from onboard.assembly.policies import REACTIVE, beside_fallback, check_timing, policy_maker
from onboard.config.config import Config
from onboard.config.plant_model import Plant
from onboard.config.pretrained import model_path
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.contract import INPUTS
from onboard.policy.manifest import Manifest, load_manifest
from onboard.policy.network_policy import NetworkPolicy
from onboard.values.errors import MissingExtraError
from onboard.values.interfaces import Policy

RGB = "rgb"


def policy_without_color(config: Config, plant: Plant) -> Policy:
    """Return the configured policy for inputs without an image. Its decisions equal those of the complete network.

    Raises ConfigError, EngineError, and MissingExtraError without `onnx`.
    """
    if config.policy.model == REACTIVE:
        return policy_maker(config, plant)()
    model = model_path(config.policy.model)
    manifest = load_manifest(model)
    if not isinstance(manifest, Manifest) or not any(entry.name == RGB for entry in manifest.inputs):
        return policy_maker(config, plant)()
    check_timing(config, manifest)
    with tempfile.TemporaryDirectory(prefix="onboard-soak-") as folder:
        shortened = Path(folder) / model.name
        shortened.write_bytes(_without_rgb(model, manifest))
        engine = OnnxEngine(shortened, threads=1)
    engine.warm_up()
    rest = tuple(entry for entry in manifest.inputs if entry.name != RGB)
    network = NetworkPolicy(engine, Manifest(**{**dict(manifest), "inputs": rest}))
    return beside_fallback(network, config, plant)


def _without_rgb(model: Path, manifest: Manifest) -> bytes:
    """Return the model with the absent image as a constant instead of the image input."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError as error:
        raise MissingExtraError("onnx", "train") from error
    proto = onnx.load(model)
    graph = proto.graph
    graph.input.remove(next(entry for entry in graph.input if entry.name == RGB))
    absent = np.full(INPUTS[RGB].type.shape, manifest.rgb.absent, np.float32)
    graph.initializer.append(numpy_helper.from_array(absent, RGB))
    content: bytes = proto.SerializeToString()
    return content
