"""Runtimes drive a simulated base in its own process, and each is killed during the drive."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hil.drive.episodes import choose
from hil.live.child_process import Child
from hil.live.demo import START_S, demo_config
from hil.live.demo_result import write_config
from hil.physics.collision_world import body_of
from hil.reliability.faults.run.processes import TooLateError
from onboard.config.config import Config
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import odometry_from_ros, ros_goal
from onboard.values.clock import wall_ns
from onboard.values.errors import OnboardError
from onboard.values.geometry import between, distance
from onboard.values.messages import Pose, Twist

# ---- Stopping distance by odometry and the base's own stamps

REST_MPS = 0.005
REST_RADPS = 0.01
"""Below both the base is at rest."""


@dataclass(frozen=True, slots=True)
class Row:
    """Odometry: stamp [ns] in the base's clock, pose in its odometry frame, twist."""

    stamp_ns: int
    pose: Pose
    twist: Twist

    @property
    def rests(self) -> bool:
        """Whether the base is at rest."""
        return abs(self.twist.v_mps) < REST_MPS and abs(self.twist.w_radps) < REST_RADPS


@dataclass(frozen=True, slots=True)
class Kill:
    """The motion of the base after one kill, from the last odometry before it to rest.

    v_mps, w_radps: twist of the base at the kill
    way_m:          path length [m]; at 30 Hz its first step lies partly before the kill
    turned_rad:     sum of the absolute turns
    time_s:         time to rest, by the base's stamps
    """

    v_mps: float
    w_radps: float
    way_m: float
    turned_rad: float
    time_s: float


def judge(rows: Sequence[Row], killed_ns: int) -> Kill:
    """Return the motion of the base after a kill. Raises ValueError without odometry before it."""
    before = [number for number, row in enumerate(rows) if row.stamp_ns <= killed_ns]
    if not before:
        raise ValueError("no odometry before the kill")
    rolling = rows[before[-1] :]
    pairs = list(itertools.pairwise(rolling))
    way_m = sum(distance(one.pose, two.pose) for one, two in pairs)
    turned = sum(abs(math.remainder(two.pose.yaw_rad - one.pose.yaw_rad, math.tau)) for one, two in pairs)
    moving = [row.stamp_ns for row in rolling if not row.rests]
    time_s = (max(moving) - rolling[0].stamp_ns) / 1e9 if moving else 0.0
    return Kill(rolling[0].twist.v_mps, rolling[0].twist.w_radps, way_m, turned, time_s)


MAP, EPISODE = "gdc1", 3
"""A hall: a nearly straight drive of 13.6 m."""
POLICY = "reactive"
NEAR_GOAL_M = 4.0
"""If the robot is nearer than this to one end of the hall, its next goal is the other end."""
SETS_OFF_MPS, SETS_OFF_RADPS = 0.05, 0.2
LATEST_S = 4.0
"""Maximum time from the start of motion to the kill."""
ASK_AGAIN_S = 1.0
SETS_OFF_S = 30.0
TRIES = 4
"""Timeout for the start of motion, and number of tries. A failed try (corner, busy machine) counts as no kill."""
STOPS_S = 20.0
"""Timeout for the base to come to rest."""
REST_ROWS = 10
"""The base stands after this many odometry messages at rest in a row."""
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Trial:
    """Options of a trial.

    times: number of kills
    stops_on_liveliness_lost: the base stops before its timeout if DDS reports the runtime as lost
    """

    config: Config
    folder: Path
    times: int
    seed: int = 1
    stops_on_liveliness_lost: bool = False


def run_trial(trial: Trial) -> list[Kill]:
    """Kill a runtime `times` times and return the motion of the base after each.

    Raises OnboardError if a process does not start, or the robot does not drive or does not stop.
    """
    config = _config(trial)
    started = trial.folder / "robot.toml"
    write_config(started, config)
    rng = random.Random(trial.seed)
    with contextlib.closing(Wire(config.dds)) as wire, contextlib.closing(_Hall(wire, trial, config, started)) as hall:
        return [_killed(hall, started, rng.uniform(0.0, LATEST_S)) for _ in range(trial.times)]


def _killed(hall: _Hall, config: Path, after_s: float) -> Kill:
    """Return the motion of the base after the kill of one runtime, `after_s` after the start of motion."""
    arguments = ["onboard", "run", "--config", str(config), "--no-status"]
    for _ in range(TRIES):
        runtime = Child("the runtime", arguments, config.with_name("run.log"))
        try:
            hall.set_off(runtime)
            killed_ns = hall.watch_then_kill(runtime, after_s)
        except TooLateError:
            hall.start_base()
            continue
        finally:
            runtime.end()
        return judge(hall.until_rest(), killed_ns)
    raise OnboardError(f"the robot did not start to move in {TRIES} tries of {SETS_OFF_S:g} s each")


def _config(trial: Trial) -> Config:
    """Return the configuration of the trial: simulated base, no recording."""
    driven = demo_config(trial.config, POLICY, depth_noise=False)
    return driven.model_copy(update={"record": driven.record.model_copy(update={"enabled": False})})


class _Hall:
    """The trial's DDS participant: sends goals at alternating ends of the hall and keeps the odometry."""

    def __init__(self, wire: Wire, trial: Trial, config: Config, file: Path) -> None:
        """Start the simulated robot. Raises OnboardError."""
        self._trial, self._file = trial, file
        self._odom_frame = config.dds.odom_frame
        self._odometry, self._states = wire.reader("odom"), wire.reader("state")
        self._goal = wire.writer("goal_pose")
        episode = choose(MAP, 0, EPISODE, body_of(config.robot)).episode
        self._ends = (between(episode.start, Pose(*episode.goal_xy_m, 0.0)), Pose(0.0, 0.0, 0.0))
        self._base: Child | None = None
        self.start_base()

    def start_base(self) -> None:
        """Start or restart the simulated robot, because it may stand in a corner.

        Its odometry has no drift, so that it gives the true path.
        """
        self.close()
        arguments = ["hil", "sim", "--map", MAP, "--episode", str(EPISODE), "--config", str(self._file)]
        arguments += ["--drift", "0", "--no-localization", "--no-depth-noise"]
        arguments += ["--stop-on-liveliness-lost"] if self._trial.stops_on_liveliness_lost else []
        self._base = Child("the simulated robot", arguments, self._trial.folder / "sim.log")
        self._odometry.take()
        self._rows: list[Row] = []
        self._end = self._ends[0]

    def close(self) -> None:
        """End the simulated robot. Safe to call twice."""
        if self._base is not None:
            self._base.end()
        self._base = None

    def set_off(self, runtime: Child) -> None:
        """Send a goal repeatedly until the robot moves. Raises TooLateError on timeout."""
        self._states.take()
        self._wait(lambda: bool(self._states.take()), START_S, "no message from the runtime was received", runtime)
        self._wait(lambda: bool(self._rows), START_S, "no message from the base was received", runtime)
        if distance(self._rows[-1].pose, self._end) < NEAR_GOAL_M:
            self._end = self._ends[self._ends.index(self._end) - 1]
        self._rows = self._rows[-1:]
        asked_s = 0.0

        def moves() -> bool:
            nonlocal asked_s
            if time.monotonic() - asked_s > ASK_AGAIN_S:
                asked_s = time.monotonic()
                self._goal.write(ros_goal(wall_ns(), self._odom_frame, self._end))
            twist = self._rows[-1].twist
            return abs(twist.v_mps) > SETS_OFF_MPS or abs(twist.w_radps) > SETS_OFF_RADPS

        self._wait(moves, SETS_OFF_S, "the robot did not start to move", runtime)

    def watch_then_kill(self, runtime: Child, after_s: float) -> int:
        """Let the robot drive for `after_s`, kill the runtime, and return the wall time just before the kill [ns]."""
        end_s = time.monotonic() + after_s
        while time.monotonic() < end_s:
            self._look(runtime)
        killed_ns = wall_ns()
        os.kill(runtime.pid, signal.SIGKILL)
        return killed_ns

    def until_rest(self) -> list[Row]:
        """Return all odometry of this drive until the base is at rest."""
        killed = len(self._rows)

        def stood() -> bool:
            newest = self._rows[max(killed, len(self._rows) - REST_ROWS) :]
            return len(newest) == REST_ROWS and all(row.rests for row in newest)

        self._wait(stood, STOPS_S, "the base did not stop")
        return self._rows

    def _wait(self, condition: Callable[[], bool], limit_s: float, what: str, runtime: Child | None = None) -> None:
        deadline_s = time.monotonic() + limit_s
        while not condition():
            self._look(runtime)
            if time.monotonic() > deadline_s:
                raise TooLateError(f"{what} within {limit_s:g} s")

    def _look(self, runtime: Child | None) -> None:
        """Wait up to `POLL_S` for odometry and keep it. Raises OnboardError if a process has ended."""
        self._odometry.wait(POLL_S)
        for message in self._odometry.take():
            odometry = odometry_from_ros(message.sample, 0)
            if odometry.pose is not None:
                self._rows.append(Row(odometry.stamp_ns, odometry.pose, odometry.twist))
        for child in filter(None, (self._base, runtime)):
            child.check()
