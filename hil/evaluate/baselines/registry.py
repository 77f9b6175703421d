"""Policies of the evaluation by name: the baselines, pretrained policies, and .onnx files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from hil.maps.world_grid import World
from hil.physics.free_space import Episode
from onboard.assembly.policies import MAPPED, beside_fallback, check_fallback, check_timing
from onboard.assembly.robot import build_rigs
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.config.pretrained import FORMER, MODEL_SUFFIX, model_and_fallback, pretrained, pretrained_names
from onboard.perception.building.map_image import FREE, OCCUPIED
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.policy.contract import OWN_VERSION
from onboard.policy.manifest import load_manifest
from onboard.values.errors import InputError
from onboard.values.interfaces import Policy

if TYPE_CHECKING:
    from hil.drive.setting import Setting

MODEL_THREADS = 1
FORGETS_S = 10.0
"""Period after which `forgetful` loses its memory, as the paper's agent does (paper 1, section 5)."""


Maker = Callable[["Setting", Episode, "OccupancyGrid | None"], Policy]


def make_policy(name: str, setting: Setting, episode: Episode, known_map: OccupancyGrid | None = None) -> Policy:
    """Return the policy of a drive.

    name:      a name in `POLICIES`, the name of a pretrained policy, or the path of an .onnx file with its manifest;
               the last two may end in `+reactive`, their fallback (`onboard/policy/fallback.py`)
    known_map: the map of `planner` and `mapped`; None for the setting's true, furnished world
    Raises InputError for an unknown name, and the errors of `onboard.policy.network_policy.load_policy` for a model.
    """
    if name in POLICIES:
        return POLICIES[name](setting, episode, known_map)
    config = setting.config.model_copy(update={"policy": setting.config.policy.driven_by(name)})
    return beside_fallback(_network(model_of(name), setting), config, setting.plant)


def check_policy(name: str) -> None:
    """Raise InputError, ConfigError or MissingExtraError with a single line if `make_policy` would fail."""
    from onboard.drivers.engines.onnx_engine import require_onnxruntime

    if name in POLICIES:
        return
    model = model_of(name)
    if not model.is_file():
        raise InputError(f"policy {name}: no such file")
    load_manifest(model)
    require_onnxruntime()


def check_rates(name: str, config: Config) -> None:
    """Raise ConfigError for a model of version 2 that was made for other rates than the robot's.

    The paper's network may drive at other rates: that is an experiment (docs/evaluation.md).
    """
    if name in POLICIES:
        return
    manifest = load_manifest(model_of(name))
    if manifest.contract_version == OWN_VERSION:
        check_timing(config.model_copy(update={"policy": config.policy.driven_by(name)}), manifest)


def check_looks(name: str, config: Config, mounts: Mounts) -> None:
    """Raise ConfigError if the cameras see so little that a policy's fallback would always drive."""
    rig, _ = build_rigs(config, mounts)
    check_fallback(config.model_copy(update={"policy": config.policy.driven_by(name)}), rig.looks)


def model_of(name: str) -> Path:
    """Return the model file of a policy outside `POLICIES`, with or without a fallback.

    The policy is a pretrained one by name, or the path of an .onnx file.

    Raises InputError for other names, with a line that lists all names.
    """
    model, _ = model_and_fallback(name)
    if model in pretrained_names() or model in FORMER:
        return pretrained(model)
    if Path(model).suffix == MODEL_SUFFIX:
        return Path(model)
    known = ", ".join([*POLICIES, *pretrained_names()])
    raise InputError(
        f"policy {name}: must be one of {known}, or the path of an {MODEL_SUFFIX} file; +reactive may follow a model"
    )


def resolved(name: str) -> str:
    """Return a policy outside `POLICIES` with its model's absolute path."""
    model, (_, fallback) = model_of(name).resolve(), model_and_fallback(name)
    return str(model) if fallback == "none" else f"{model}+{fallback}"


def grid_seen(setting: Setting, world: World) -> OccupancyGrid:
    """Return a world's map, with the obstacles in the heights that the drive's sensor sees."""
    from hil.physics.collision_world import GROUND_CLEARANCE_M
    from hil.sensors.direct_scan import LIDAR_HEIGHT_M

    by_lidar = setting.scan == "lidar" or setting.config.scan.topic
    heights_m = (LIDAR_HEIGHT_M, LIDAR_HEIGHT_M) if by_lidar else (GROUND_CLEARANCE_M, setting.body.height_m)
    percent = np.where(world.overlapping(*heights_m), OCCUPIED, FREE).astype(np.int8)
    return OccupancyGrid(world.cell_m, world.map_from_grid, percent)


def _with_map(name: str, setting: Setting, episode: Episode, known_map: OccupancyGrid | None) -> Policy:
    from onboard.policy.dwa.mapped import MapPolicy

    config = setting.config
    grid = grid_seen(setting, setting.world) if known_map is None else known_map
    return MapPolicy(setting.plant, grid, config.robot, config.rates, config.goal, name)


def _reactive(setting: Setting, episode: Episode, known_map: OccupancyGrid | None) -> Policy:
    from onboard.policy.dwa.dynamic_window import ReactivePolicy

    config = setting.config
    return ReactivePolicy(setting.plant, config.robot, config.rates, config.goal)


def _forgetful(setting: Setting, episode: Episode, known_map: OccupancyGrid | None) -> Policy:
    policy = _reactive(setting, episode, known_map)
    policy.name, policy.memory_reset_s = "forgetful", FORGETS_S
    return policy


def _blind(setting: Setting, episode: Episode, known_map: OccupancyGrid | None) -> Policy:
    from hil.evaluate.baselines.blind import BlindPolicy

    config = setting.config
    return BlindPolicy(setting.plant, config.robot, config.rates, config.goal)


def _network(model: Path, setting: Setting) -> Policy:
    from onboard.drivers.engines.onnx_engine import OnnxEngine
    from onboard.policy.network_policy import load_policy

    return load_policy(model, lambda path, manifest: OnnxEngine(path, MODEL_THREADS), setting.config.limits)


PLANNER = "planner"
WITH_MAP = (PLANNER, MAPPED)
"""The same policy with two maps: what there is, and what a team has, the plan without furniture."""
POLICIES: dict[str, Maker] = {
    **{name: functools.partial(_with_map, name) for name in WITH_MAP},
    "reactive": _reactive,
    "forgetful": _forgetful,
    "blind": _blind,
}
