"""Observations of a network's own drives: the committed test episodes in the fast loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from engines.export.export import TorchEngine, manifest_of
from engines.export.fp16 import Listener
from engines.network.network import PolicyNetwork
from hil.drive.episodes import COMMITTED, EpisodeSet, load_episodes
from hil.drive.fast.drive import drive_fast
from hil.drive.robot import TICK_HZ
from hil.drive.setting import Setting
from hil.maps.materials import draw_appearance
from hil.physics.collision_world import body_of
from onboard.config.config import Config, RatesSection, load_config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.policy.manifest import Manifest
from onboard.values.errors import ConfigError, InputError
from onboard.values.messages import Observation

TEST_MAPS = tuple(plan.map_name for plan in COMMITTED if plan.split == "test")
LONGEST_S = 100.0
NO_FILE = "0" * 64
"""Placeholder for the hash of a network without a file."""
WITHOUT = "--drives 0 compares on random sequences"


def recorded_drives(
    network: PolicyNetwork,
    drives: int,
    extra: Mapping[str, Any],
    max_s: float = LONGEST_S,
    maps: tuple[str, ...] = TEST_MAPS,
) -> list[list[Observation]]:
    """Return the observation sequences of `drives` drives, spread evenly over the maps.

    extra: origin and training of the weights (`manifest_of`)
    The robot is the robot of the training if `extra` states it, else the default robot. A sequence ends at a goal or a
    memory reset. The result is deterministic. Raises InputError, also for a robot that cannot be simulated.
    """
    manifest = manifest_of(network, NO_FILE, "recorded", extra)
    if drives == 0:
        return []
    robot = trained_robot(manifest)
    listener = Listener(TorchEngine(network), manifest)
    for index, name in enumerate(maps):
        count = len(range(index, drives, len(maps)))
        if count:
            _drive(listener, load_episodes(name), robot, count, max_s)
    return listener.sequences


def trained_robot(manifest: Manifest) -> Config:
    """Return the robot of a policy's training, with rates in ticks of the simulation.

    Raises InputError for rates that the simulation cannot have, and for missing or malformed files of the robot.
    """
    files = _stated_files(manifest)
    try:
        robot = load_config(Path(files["config"]) if files["config"] else None)
        plant = Path(files["plant"] or robot.robot.plant)
        load_plant(plant)
    except ConfigError as error:
        raise InputError(f"the robot of the training: {error}; {WITHOUT}") from error
    body = robot.robot.model_copy(update={"plant": plant})
    return robot.model_copy(update={"robot": body, "rates": _rates(manifest, robot.rates)})


def _stated_files(manifest: Manifest) -> dict[str, str | None]:
    """Return the files of the training's robot, None where the manifest states none. Raises InputError."""
    try:
        stated = manifest.extra.get("training", {}).get("config", {}).get("robot", {})
        files: dict[str, str | None] = {name: stated.get(name) for name in ("config", "plant")}
    except AttributeError as error:
        raise InputError(f"the robot of the training: training.config.robot: expected a table; {WITHOUT}") from error
    for name, file in files.items():
        if not isinstance(file, (str, type(None))):
            raise InputError(f"the robot of the training: training.config.robot.{name}: found {file!r}; {WITHOUT}")
    return files


def _rates(manifest: Manifest, others: RatesSection) -> RatesSection:
    """Return the rates of the training in ticks of the simulation. Raises InputError."""
    each = TICK_HZ / manifest.decision_hz, manifest.training_delay_ticks * TICK_HZ / manifest.control_hz
    ticks, delay = (round(number) for number in each)
    try:
        if not np.allclose(each, (ticks, delay)):
            raise ValueError("no whole number of ticks")
        values = {"control_hz": TICK_HZ, "ticks_per_decision": ticks, "delay_ticks": delay}
        return RatesSection.model_validate({**others.model_dump(), **values})
    except ValueError as error:
        raise InputError(
            f"trained with {manifest.decision_hz:g} decisions a second, applied after "
            f"{manifest.training_delay_ticks} ticks of 1/{manifest.control_hz:g} s, which the simulated robot of "
            f"{TICK_HZ} ticks a second cannot drive by; {WITHOUT}"
        ) from error


def _drive(listener: Listener, known: EpisodeSet, robot: Config, count: int, max_s: float) -> None:
    body = body_of(robot.robot)
    setting = Setting(known.world, load_plant(robot.robot.plant), body, load_mounts(robot.robot.mounts), robot)
    for number in range(count):
        episode = known.episodes[number % len(known.episodes)]
        drive_fast(replace(setting, look=draw_appearance(number)), episode, listener, number, max_s)
