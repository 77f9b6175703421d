"""A twin in a small room, for tests: its life, and the robot's messages."""

from __future__ import annotations

from math import inf

import numpy as np

from hil.live.twin.scene import Life, make_life
from hil.maps.world_grid import World
from hil.physics.collision_world import Body, Simulation
from hil.physics.free_space import Episode
from hil.scene.walkers import KINDS, Crowd, crowd_of
from onboard.config.config import Config
from onboard.config.plant_model import load_plant
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, OdometryMessage, Pose, Twist
from tests.rigs.rooms import room, with_box

PLANT = load_plant(Config().robot.plant)
BODY = Body()
TICK_NS = round(NS_PER_S / 30)
START = Pose(1.0, 2.0, 0.0)


def boxed() -> World:
    """Return a room of 10 m x 4 m with a box across half of it, 5 m from its left wall."""
    return with_box(room(10.0, 4.0), (5.0, 5.5), (0.0, 2.5), (0.0, 2.0))


def standing(*xy_m: tuple[float, float]) -> Crowd:
    """Return pedestrians who stand."""
    kind = KINDS["pedestrian"]
    ways = [np.array([[x, y], [x + 1e-3, y]]) for x, y in xy_m]
    return crowd_of([kind] * len(ways), [1e-6] * len(ways), ways)


def life(number: int = 0, start: Pose = START, crowd: Crowd | None = None, world: World | None = None) -> Life:
    episode = Episode(start, (9.0, 2.0), inf)
    return make_life(number, Simulation(world or boxed(), PLANT, BODY), episode, crowd)


def said(tick: int, pose: Pose, twist: Twist = STOP) -> OdometryMessage:
    """Return the robot's message of a tick."""
    return OdometryMessage(tick * TICK_NS, tick * TICK_NS, pose, twist)
