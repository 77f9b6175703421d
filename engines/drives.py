"""What a network is asked on real drives: the committed test episodes, driven by it in the fast loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from engines.export import TorchEngine, manifest_of
from engines.half import Listener
from engines.network import PolicyNetwork
from hil.episode_files import COMMITTED, EpisodeSet, load_episodes
from hil.fast import drive_fast
from hil.setting import Setting
from hil.textures import draw_look
from hil.world import Body
from onboard.config import DEFAULT_ROBOT, Config, load_config
from onboard.messages import Observation
from onboard.motion import load_plant
from onboard.mounts import load_mounts

TEST_MAPS = tuple(plan.map_name for plan in COMMITTED if plan.split == "test")
LONGEST_S = 100.0
NO_FILE = "0" * 64
"""Stands for the hash of a network that is in no file."""


def recorded_drives(
    network: PolicyNetwork,
    drives: int,
    extra: Mapping[str, Any],
    max_s: float = LONGEST_S,
    maps: tuple[str, ...] = TEST_MAPS,
) -> list[list[Observation]]:
    """Return the sequences of observations of so many drives, an equal number on each map in turn.

    extra: what its manifest says of the weights (`manifest_of`)
    Sequences end at goals and where the memory is reset. The same network gives the same ones. Raises InputError.
    """
    robot = load_config(DEFAULT_ROBOT / "onboard.toml")
    manifest = manifest_of(network, NO_FILE, "recorded", extra)
    listener = Listener(TorchEngine(network), manifest, robot.policy.memory_reset_s)
    for index, name in enumerate(maps):
        count = len(range(index, drives, len(maps)))
        if count:
            _drive(listener, load_episodes(name), robot, count, max_s)
    return listener.sequences


def _drive(listener: Listener, known: EpisodeSet, robot: Config, count: int, max_s: float) -> None:
    body = Body(robot.robot.footprint_radius_m, robot.robot.height_m)
    setting = Setting(known.world, load_plant(robot.robot.plant), body, load_mounts(robot.robot.mounts), robot)
    for number in range(count):
        episode = known.episodes[number % len(known.episodes)]
        drive_fast(replace(setting, look=draw_look(number)), episode, listener, number, max_s)
