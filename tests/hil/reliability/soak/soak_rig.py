"""A small soak: a robot that drives by its scan to and fro in a room with a box in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hil.commands.judge.soak import RECORD
from hil.drive.sensing import without_cameras
from hil.live.target.goals import Place
from hil.physics.free_space import Episode
from hil.reliability.faults.run.simulated import changed
from hil.reliability.soak.drive import Robot, Soak
from hil.reliability.soak.episodes import Building
from onboard.assembly.policies import REACTIVE
from onboard.config.config import Config, PolicySection
from onboard.policy.dwa.policy import ReactivePolicy
from onboard.values.interfaces import Policy
from onboard.values.messages import Pose
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT

CORNERS = [(1.5, 1.5), (10.5, 5.5), (1.5, 5.5), (10.5, 1.5)]


def building() -> Building:
    """Return the room; its goals are its corners, one after another."""
    world = with_box(room(12.0, 7.0), (5.0, 7.0), (3.0, 4.0), (0.0, 1.5))
    ways = zip(CORNERS, [*CORNERS[1:], CORNERS[0]], strict=True)
    return Building("room", Place(world, tuple(Episode(Pose(*at, 0.5), to, 10.0) for at, to in ways)), None)


def config(**sections: dict[str, Any]) -> Config:
    """Return a robot's whose scans come ready-made; sections: what it has otherwise."""
    given = Config(policy=PolicySection(model=REACTIVE))
    return changed(changed(without_cameras(given), RECORD), sections)


def soak(folder: Path, seed: int = 1, given: Config | None = None, policy: Policy | None = None) -> Soak:
    """Return a soak in the room that records into a folder."""
    here = given or config()
    drives = policy or ReactivePolicy(PLANT, here.robot, here.rates, here.goal)
    return Soak(Robot(here, MOUNTS, PLANT, drives), [building()], folder, seed)


def silent(_: Soak) -> None:
    """Say nothing."""
