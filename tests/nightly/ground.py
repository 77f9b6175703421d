"""The simulated robot in one building after another, as the devices of one long-running runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hil.drive.robot import Senses, SimulatedRobot
from hil.drive.sensing import LIMITS_TOPIC, POLICY_TOPIC, Cameras, Caster, SimulatedInbox, seen_by_cameras
from hil.live.target.goals import GoalSequence, Place, choose_place
from hil.physics.collision_world import Body, body_of
from hil.scene.walkers import Crowd, make_crowd, walking_space
from hil.sensors.direct_scan import direct_scan
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Plant
from onboard.values.messages import GoalRequest, Inputs, Twist

TRACE_ROWS = 3000
"""Maximum rows of the true trace (ten a second); then it is cleared, so that a drive of hours needs no more memory."""


@dataclass(frozen=True, slots=True)
class Building:
    """A furnished building with goals and pedestrians."""

    name: str
    place: Place
    crowd: Crowd | None


def load_buildings(maps: Sequence[str], seed: int, pedestrians: int, body: Body) -> list[Building]:
    """Return buildings with furniture, goals and people by seed. Takes some seconds for each."""
    buildings = []
    for name in maps:
        place = choose_place(name, seed, body)
        start = place.episodes[0].start
        clear = [(start.x_m, start.y_m), *(episode.goal_xy_m for episode in place.episodes)]
        crowd = make_crowd(walking_space(place.world), seed, pedestrians, keep_clear=clear, near=clear)
        buildings.append(Building(name, place, crowd))
    return buildings


class Ground:
    """`interfaces.Inbox` and `Drive` of the simulated robot, which `put_down` moves from building to building.

    After a move the clock continues, the base's own pose restarts, and the localisation is in the new building's map.
    robot, building: valid after the first `put_down`; moves: number of calls of it
    """

    robot: SimulatedRobot
    building: Building

    def __init__(self, buildings: Sequence[Building], config: Config, mounts: Mounts, plant: Plant, seed: int) -> None:
        """Take the buildings. Call `put_down` before any other method."""
        self._buildings, self._mounts, self._plant, self._seed = buildings, mounts, plant, seed
        self._body = body_of(config.robot)
        sections = {POLICY_TOPIC: config.scan, LIMITS_TOPIC: config.own_scan}
        given = {topic: seen_by_cameras(section) for topic, section in sections.items() if section is not None}
        self._scans = [
            {topic: direct_scan(building.place.world, mounts, section, "fused") for topic, section in given.items()}
            for building in buildings
        ]
        self.moves = 0
        self._before_m, self._before_contacts = 0.0, 0

    def put_down(self, now_ns: int) -> None:
        """Move the robot to the start in the next building."""
        if self.moves:
            self._before_m += self.robot.state.path_m
            self._before_contacts += self.robot.state.contacts
        number = self.moves % len(self._buildings)
        self.building, scans = self._buildings[number], self._scans[number]
        self.moves += 1
        place, seed = self.building.place, self._seed + 1000 * self.moves
        senses, start = Senses(seed=seed, depth_noise=True), place.episodes[0].start
        self.robot = SimulatedRobot(
            place.world, self._plant, self._body, self._mounts, start, senses, self.building.crowd
        )
        self._inbox = SimulatedInbox(self.robot, now_ns, Caster(scans, Cameras(self.robot, color=False), seed))
        self.goals = GoalSequence(place)

    @property
    def path_m(self) -> float:
        """True path length so far, in all buildings [m]."""
        return self._before_m + self.robot.state.path_m

    @property
    def contacts(self) -> int:
        """Number of contacts so far, in all buildings."""
        return self._before_contacts + self.robot.state.contacts

    @property
    def last_sent(self) -> Twist | None:
        """The last command that reached the base."""
        return self._inbox.sent[-1] if self._inbox.sent else None

    def ask(self, request: GoalRequest) -> None:
        """Send a goal, which arrives in the next tick."""
        self._inbox.requests.append(request)

    def take(self, now_ns: int) -> Inputs:
        """Simulate until now and return the sensor inputs."""
        if len(self.robot.trace.rows) > TRACE_ROWS:
            self.robot.trace.rows.clear()
        return self._inbox.take(now_ns)

    def send(self, command: Twist) -> None:
        """Pass a command to the base."""
        self._inbox.send(command)
        del self._inbox.sent[:-1]

    def close(self) -> None:
        """Stop the base."""
        self._inbox.close()
