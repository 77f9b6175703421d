"""Builds the configured policy and checks its requirements."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from onboard.config.config import Config, MapSection
from onboard.config.plant_model import Plant
from onboard.config.pretrained import model_path
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.policy.dwa.dynamic_window import ReactivePolicy
from onboard.policy.dwa.mapped import MapPolicy
from onboard.policy.dwa.subgoals import WithSubgoals
from onboard.policy.fallback import BLIND_DEG, WithFallback, blind_deg
from onboard.policy.manifest import ModelManifest, delay_complaint, load_manifest
from onboard.policy.network_policy import ModelEngine, load_policy
from onboard.values.errors import ConfigError
from onboard.values.interfaces import Policy

REACTIVE, MAPPED = WITHOUT_MODEL = ("reactive", "mapped")
"""The policies that need no network: `mapped` needs a map."""
THREADS = 1
"""Of ONNX Runtime. Two have a lower median latency of the full network, but wait for each other on a busy machine."""
ENGINE_CACHE = Path(".cache") / "onboard" / "engines"
"""Built TensorRT engines, in the home folder of the user that runs the policy."""


def policy_maker(config: Config, plant: Plant, building: OccupancyGrid | None = None) -> Callable[[], Policy]:
    """Return a function that builds the policy in the inference thread. Raises ConfigError at once.

    building: the map of `map.file`
    """
    if config.policy.model != MAPPED and config.map.subgoals and building is not None:
        without = config.model_copy(update={"map": MapSection()})
        half_width_m, make = config.robot.footprint.half_width_m, policy_maker(without, plant)
        return lambda: WithSubgoals(make(), building, half_width_m)
    if config.policy.model == REACTIVE:
        return functools.partial(_reactive, config, plant)
    if config.policy.model == MAPPED:
        if building is None:
            raise ConfigError("policy.model: mapped needs the map of the building: set map.file")
        return functools.partial(MapPolicy, plant, building, config.robot, config.rates, config.goal)
    model = model_path(config.policy.model)
    check_timing(config, load_manifest(model))
    engine = functools.partial(engine_of, config)
    network = functools.partial(load_policy, model, engine, config.limits)
    return lambda: beside_fallback(network(), config, plant)


def beside_fallback(network: Policy, config: Config, plant: Plant) -> Policy:
    """Return a network's policy with the configured fallback, or alone."""
    if config.policy.fallback == "none":
        return network
    return WithFallback(network, _reactive(config, plant), config.rates)


def _reactive(config: Config, plant: Plant) -> ReactivePolicy:
    return ReactivePolicy(plant, config.robot, config.rates, config.goal)


def check_fallback(config: Config, looks: npt.NDArray[np.bool_]) -> None:
    """Raise ConfigError if so much of the front is blind that the fallback would always drive.

    looks: (180,) bool, bins that the cameras of the policy's scan cover
    """
    policy, blind = config.policy, blind_deg(looks)
    if policy.name != policy.model and not config.scan.topic and blind > BLIND_DEG:
        raise ConfigError(
            f"policy.fallback: the cameras leave {blind:g} of the front 180 deg blind, more than "
            f"{BLIND_DEG:g}: {policy.fallback} would always drive"
        )


def require_engine(config: Config) -> None:
    """Raise MissingExtraError if a library of the configured policy is not installed."""
    if config.policy.model in WITHOUT_MODEL:
        return
    if config.policy.engine == "tensorrt":
        from onboard.drivers.engines.tensorrt_engine import require_libraries

        require_libraries()
        return
    from onboard.drivers.engines.onnx_engine import require_onnxruntime

    require_onnxruntime()


def check_model(config: Config) -> None:
    """Load the model of the policy as a run on ONNX Runtime does. Raises OnboardError for what does not fit.

    Without ONNX Runtime nothing is loaded. A TensorRT engine is checked when it is built (`onboard-engines check`).
    """
    network = config.policy.model not in WITHOUT_MODEL and config.policy.engine == "onnxruntime"
    if network and find_spec("onnxruntime") is not None:
        load_policy(model_path(config.policy.model), functools.partial(engine_of, config)).close()


def check_timing(config: Config, manifest: ModelManifest) -> None:
    """Raise ConfigError if the model's training rates or delay differ from the configuration."""
    rates = config.rates
    complaint = delay_complaint(manifest, rates.delay_ticks, rates.control_hz, rates.ticks_per_decision)
    if complaint:
        raise ConfigError(f"{config.policy.model}: {complaint}")


def engine_cache(home: Path | None = None) -> Path:
    """Return the folder of built engines in a home folder, without one in this user's."""
    return (home or Path.home()) / ENGINE_CACHE


def engine_of(config: Config, model: Path, manifest: ModelManifest) -> ModelEngine:
    """Return the configured engine of a model. Raises OnboardError."""
    if config.policy.engine == "tensorrt":
        from onboard.drivers.engines.tensorrt_engine import TensorRtEngine

        return TensorRtEngine(model, manifest, engine_cache())
    from onboard.drivers.engines.onnx_engine import OnnxEngine

    return OnnxEngine(model, THREADS)
