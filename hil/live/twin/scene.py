"""The virtual place of a twin: a furnished building with people. Every reset makes a new place."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hil.drive.episodes import MAX_M, MIN_M, choose
from hil.maps.cell_kernels import line_is_free
from hil.maps.load import load_map
from hil.maps.world_grid import World
from hil.physics.collision_world import GROUND_CLEARANCE_M, Body, Simulation
from hil.physics.contact import nearest_body
from hil.physics.free_space import Episode, free_space, pick_episode
from hil.scene.areas import load_areas, respawn
from hil.scene.walkers import Crowd, CrowdOptions, bodies_of, requested_crowd
from onboard.config.plant_model import Plant
from onboard.values.errors import InputError
from onboard.values.geometry import between
from onboard.values.messages import Pose

SPAWN_RADIUS_M = 1.5
"""Radius of the spawn area around the first start. Later starts are drawn in this area."""
TRIES = 1000
EYE_HEIGHT_M = 0.9
"""Height of the colour camera. Walls and furniture hide people at this height."""
VIEW_RAD = math.radians(90.0)
VIEW_M = 10.0
"""A person is in view within this angle and this distance, unless an object hides the person."""

PERSON_MPS = 0.5
"""Speed limit while a person is in view: half of the 1 m/s of paper 4."""


@dataclass(frozen=True, slots=True)
class SiteOptions:
    """Options of the site.

    episode: number of a committed episode of the map, with its furniture; None draws an episode by seed
    areas:   file of areas (`hil/scene/areas.py`) that get new objects at every reset; None is the whole map
    """

    map_name: str
    seed: int = 1
    episode: int | None = None
    areas: Path | None = None
    crowd: CrowdOptions = field(default_factory=CrowdOptions)


@dataclass(frozen=True, slots=True)
class Life:
    """The place between two resets.

    start:     start pose of the twin, in the map frame
    goal_xy_m: goal of its episode, in the map frame
    clear:     (rows, columns) bool, cells without an object at `EYE_HEIGHT_M`
    """

    number: int
    world: World
    simulation: Simulation
    start: Pose
    goal_xy_m: tuple[float, float]
    crowd: Crowd | None
    clear: npt.NDArray[np.bool_]


class Site:
    """Makes the lives. The first life is the chosen episode. Later lives draw new furniture, people and a new start.

    label:       name of the site in file names
    first_world: map of the first life, with its furniture
    episode:     episode of the first life
    """

    def __init__(self, options: SiteOptions, body: Body, plant: Plant) -> None:
        """Load the map. Raises InputError."""
        self._options, self._body, self._plant = options, body, plant
        self._areas = () if options.areas is None else load_areas(options.areas)
        if options.areas is None:
            scenario = choose(options.map_name, options.seed, options.episode, body)
            self.label, self.first_world, self.episode = scenario.label, scenario.world, scenario.episode
            return
        if options.episode is not None:
            raise InputError("--episode has furniture of its own, and cannot go with --areas")
        self.first_world = respawn(load_map(options.map_name), self._areas, options.seed)
        self.label = f"{self.first_world.name}-seed{options.seed}"
        rng = np.random.default_rng(options.seed)
        self.episode = pick_episode(free_space(self.first_world, body), rng, MIN_M, MAX_M)

    def life(self, number: int) -> Life:
        """Return life `number`, from 0; the same number gives the same life. Raises InputError without a free start."""
        options, episode, world = self._options, self.episode, self.first_world
        if number:
            world = respawn(load_map(options.map_name), self._areas, options.seed + number)
            episode = replace(episode, start=_spawned(world, self._body, episode, options.seed + number))
        crowd = requested_crowd(options.crowd, world, episode, options.seed + number)
        return make_life(number, Simulation(world, self._plant, self._body), episode, crowd)


def make_life(number: int, simulation: Simulation, episode: Episode, crowd: Crowd | None) -> Life:
    """Return a life at the start of `episode`. Raises InputError if the robot's body does not fit at the start."""
    simulation.start(episode.start)
    clear = ~simulation.world.overlapping(EYE_HEIGHT_M, EYE_HEIGHT_M)
    return Life(number, simulation.world, simulation, episode.start, episode.goal_xy_m, crowd, clear)


def _spawned(world: World, body: Body, episode: Episode, seed: int) -> Pose:
    """Return a free start pose in the spawn area. Raises InputError after `TRIES` draws without a free cell."""
    standing = free_space(world, body).standing
    rng = np.random.default_rng(seed)
    for _ in range(TRIES):
        radius_m, bearing = SPAWN_RADIUS_M * math.sqrt(rng.random()), 2.0 * math.pi * rng.random()
        xy = episode.start.x_m + radius_m * math.cos(bearing), episode.start.y_m + radius_m * math.sin(bearing)
        row, column = world.cell_of(xy)
        if 0 <= row < standing.shape[0] and 0 <= column < standing.shape[1] and standing[row, column]:
            x_m, y_m = world.centre_of((row, column))
            return Pose(x_m, y_m, math.pi * (2.0 * rng.random() - 1.0))
    raise InputError(f"map {world.name}: no room for a start within {SPAWN_RADIUS_M:g} m of the first")


def touches(life: Life, pose: Pose, crowd: Crowd | None) -> bool:
    """Return whether the robot's body at `pose` overlaps the building, furniture or a person."""
    if life.simulation.overlaps(pose):
        return True
    if crowd is None:
        return False
    body = life.simulation.body
    band = GROUND_CLEARANCE_M, body.height_m
    return bool(nearest_body(pose.x_m, pose.y_m, *band, body.radius_m, bodies_of(crowd)) < body.radius_m)


def person_in_view(life: Life, pose: Pose, crowd: Crowd | None) -> bool:
    """Return whether the forward camera can see a person. This uses the true positions, not an image."""
    if crowd is None:
        return False
    eye = life.world.cell_of((pose.x_m, pose.y_m))
    for row in bodies_of(crowd):
        at = between(pose, Pose(float(row[0]), float(row[1]), 0.0))
        near = math.hypot(at.x_m, at.y_m) <= VIEW_M and abs(math.atan2(at.y_m, at.x_m)) <= VIEW_RAD / 2.0
        if near and row[4] >= EYE_HEIGHT_M and line_is_free(life.clear, eye, life.world.cell_of((row[0], row[1]))):
            return True
    return False
