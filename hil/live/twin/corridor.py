"""Paper 4's task: a corridor with people who stand and people who walk at random, both in spawn areas.

The task is to pass the end of the corridor without a contact. Its agent sees three ranges and knows no goal; the model
`data/corridor.onnx` ships, and `examples/policies/corridor/train.py` trains it in `CorridorDrive`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hil.live.twin.scene import PERSON_MPS, Life, Site, SiteOptions, make_life, person_in_view
from hil.maps.load import load_map
from hil.physics.collision_world import Body, Simulation
from hil.physics.free_space import Episode
from hil.physics.simulated_base import STEP_S
from hil.scene.walkers import KINDS, Crowd, bodies_of, crowd_of, walk
from hil.sensors.camera import MAX_RANGE_M
from hil.sensors.direct_scan import cast_scan
from onboard.config.plant_model import Plant
from onboard.policy.contract import NO_ACTION
from onboard.values.errors import InputError
from onboard.values.messages import STOP, Motion, Observation, Pose, Scan, Twist

CORRIDOR = "corridor"
"""Name of the corridor as the twin's map."""
MAP = Path(__file__).parent / "data" / "corridor.json"
"""24 m x 3 m along x, with a corner at the origin."""
MODEL = Path(__file__).parent / "data" / "corridor.onnx"
END_X_M = 21.0
"""The task is done when the twin's centre is beyond this line."""
START, SPREAD = (1.5, 1.5, 0.0), (0.5, 0.5, 0.3)
"""Spawn area of the robot: x, y [m] and yaw [rad], and the largest deviation of each."""
GOAL_XY_M = (23.0, 1.5)
"""The runtime drives only towards a goal. This one is beyond the end."""
STANDING_X_M = ((4.5, 6.0), (10.0, 11.5), (15.5, 17.0))
WALKING_X_M = ((6.5, 9.5), (12.0, 15.0))
AREA_Y_M = (0.5, 2.5)
"""Spawn areas: one person stands in each of the first, and one walks between random points of each of the second."""
WAYPOINTS = 6
DECISION_TICKS, DELAY_TICKS = 10, 3
STILL_MPS, STILL_M = 1e-6, 1e-3


class Corridor(Site):
    """Makes the lives of the corridor. Every life draws the start and the people anew; life 0 does by the seed."""

    def __init__(self, options: SiteOptions, body: Body, plant: Plant) -> None:
        """Load the map. Raises InputError for options that the corridor does not have."""
        if options.episode is not None or options.areas is not None or options.crowd.pedestrians:
            raise InputError(f"map {CORRIDOR}: has its own start and people; remove --episode, --areas, --pedestrians")
        self._seed = options.seed
        self.label, self.first_world = f"{CORRIDOR}-seed{options.seed}", load_map(str(MAP))
        self._simulation = Simulation(self.first_world, plant, body)
        self.episode = self._episode(np.random.default_rng(options.seed))

    def life(self, number: int) -> Life:
        """Return life `number`, from 0; the same number gives the same life."""
        rng = np.random.default_rng(self._seed + number)
        return make_life(number, self._simulation, self._episode(rng), people(rng))

    def standing_m(self) -> list[tuple[float, float]]:
        """Return where people stand in the first life [m]."""
        crowd = self.life(0).crowd
        return [] if crowd is None else [(float(x), float(y)) for x, y in crowd.state[: len(STANDING_X_M), :2]]

    @staticmethod
    def _episode(rng: np.random.Generator) -> Episode:
        start = Pose(*(float(mean + rng.uniform(-most, most)) for mean, most in zip(START, SPREAD, strict=True)))
        return Episode(start, GOAL_XY_M, END_X_M - start.x_m)


def site_of(options: SiteOptions, body: Body, plant: Plant) -> Site:
    """Return the place of a twin. Raises InputError."""
    return (Corridor if options.map_name == CORRIDOR else Site)(options, body, plant)


def people(rng: np.random.Generator) -> Crowd:
    """Return one person for each spawn area: first those who stand, then those who walk."""
    kind = KINDS["pedestrian"]
    points = [np.column_stack([rng.uniform(*x_m, WAYPOINTS), rng.uniform(*AREA_Y_M, WAYPOINTS)])
              for x_m in (*STANDING_X_M, *WALKING_X_M)]  # fmt: skip
    standing = [np.array([way[0], way[0] + (STILL_M, 0.0)]) for way in points[: len(STANDING_X_M)]]
    speeds = rng.uniform(kind.slowest_mps, kind.fastest_mps, len(WALKING_X_M)).tolist()
    ways = [*standing, *points[len(standing) :]]
    return crowd_of([kind] * len(ways), [*[STILL_MPS] * len(standing), *speeds], ways)


class CorridorDrive:
    """One drive through a life at simulation speed: the plant and the people, without runtime, wire and real room."""

    set_point = STOP

    def __init__(self, life: Life, start: Pose | None = None) -> None:
        """Begin at rest. start: instead of the life's own. Raises InputError without room there."""
        self._life, self.crowd = life, life.crowd or people(np.random.default_rng(0))
        self.state = life.simulation.start(start or life.start)

    @property
    def touched(self) -> bool:
        """Whether the robot touched a wall or a person, or a person the robot."""
        return bool(self.state.contacts or self.state.bumps)

    @property
    def passed(self) -> bool:
        """Whether the robot is beyond the end of the corridor."""
        return self.state.pose.x_m >= END_X_M

    @property
    def clearance_m(self) -> float:
        """Return the distance from the robot to the nearest wall or person [m]."""
        return self._life.simulation.clearance_m(self.state, bodies_of(self.crowd))

    def observation(self) -> Observation:
        """Return what the runtime shows to a policy now: the twin's scan, and no goal."""
        still = Motion(Pose(0.0, 0.0, 0.0), STOP)
        ranges = cast_scan(self._life.world, self.state.pose, MAX_RANGE_M, bodies=bodies_of(self.crowd))
        scan = Scan(self.state.time_ns, ranges, np.ones(len(ranges), np.bool_))
        return Observation(scan.stamp_ns, None, scan, still, None, None, still, GOAL_XY_M, NO_ACTION)

    def decide(self, set_point: Twist) -> None:
        """Drive until the next decision. The set point acts `DELAY_TICKS` later, as with the runtime."""
        for tick in range(DECISION_TICKS):
            self.set_point = set_point if tick == DELAY_TICKS else self.set_point
            self.step(self.set_point)

    def step(self, command: Twist) -> None:
        """Drive one tick. A person in view limits the speed, and the turn with it, as the limits do (R18)."""
        pose, simulation = self.state.pose, self._life.simulation
        if abs(command.v_mps) > PERSON_MPS and person_in_view(self._life, pose, self.crowd):
            share = PERSON_MPS / abs(command.v_mps)
            command = Twist(share * command.v_mps, share * command.w_radps)
        self.crowd = walk(self.crowd, STEP_S, (pose.x_m, pose.y_m), simulation.body.radius_m)
        self.state = simulation.step(simulation.command(self.state, command), bodies=bodies_of(self.crowd))
