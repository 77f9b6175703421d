"""The trial: a simulated base in a process of its own, and one runtime after another that is killed as it drives."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from hil.child import Child
from hil.demo import START_S
from hil.demo_config import as_toml, demo_config
from hil.kills.runtimes import Runtimes
from hil.kills.track import Kill, Row, judge
from hil.scenario import choose
from hil.world import Body
from onboard.config import Config
from onboard.drivers.ros_messages import odometry_from_ros, ros_goal
from onboard.drivers.wire import Wire
from onboard.errors import OnboardError
from onboard.geometry import between, distance
from onboard.messages import Pose
from onboard.scheduler import wall_ns

MAP, EPISODE = "gdc1", 3
"""A hall: 13.6 m, nearly straight."""
POLICY = "reactive"
NEAR_GOAL_M = 4.0
"""Nearer than this to one end of the hall, the next goal is the other."""
SETS_OFF_MPS, SETS_OFF_RADPS = 0.05, 0.2
LATEST_S = 4.0
"""The kill comes so long after the robot set off at the latest."""
ASK_AGAIN_S = 1.0
RUNTIME_S = 120.0
"""Patience for a runtime to be heard, and for the robot to set off."""
STOPS_S = 20.0
"""Patience for a base to come to rest."""
REST_ROWS = 10
"""It stands once so many messages say so."""
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Trial:
    """times: how often it is killed; heeds_liveliness: whether the base does more than its time-out asks of it"""

    config: Config
    folder: Path
    times: int
    seed: int = 1
    heeds_liveliness: bool = False


def run_trial(trial: Trial, tell: Callable[[int, Kill], None]) -> list[Kill]:
    """Kill a runtime so many times and return what the base did after each. `tell` hears of each at once.

    Raises OnboardError where a process cannot start, or the robot does not drive or does not stop.
    """
    config = _config(trial)
    started = trial.folder / "robot.toml"
    try:
        trial.folder.mkdir(parents=True, exist_ok=True)
        started.write_text(as_toml(config), encoding="utf-8")
    except OSError as error:
        raise OnboardError(f"{trial.folder}: cannot be written: {error.strerror}") from error
    runtimes = Runtimes(started, trial.folder / "run.log")
    rng = random.Random(trial.seed)
    kills = []
    with contextlib.closing(Wire(config.dds)) as wire, _base(trial, started) as base:
        hall = _Hall(wire, config, base)
        for number in range(trial.times):
            process = runtimes.start()
            try:
                hall.set_off(process)
                killed_ns = hall.watch_then_kill(process, rng.uniform(0.0, LATEST_S))
                kills.append(judge(hall.until_rest(), killed_ns))
            finally:
                process.kill()
                process.join()
            tell(number, kills[-1])
    return kills


def _config(trial: Trial) -> Config:
    """Return the configuration that is driven: on the simulated base, without a recording."""
    driven = demo_config(trial.config, POLICY, depth_noise=False)
    return driven.model_copy(update={"record": driven.record.model_copy(update={"enabled": False})})


@contextlib.contextmanager
def _base(trial: Trial, config: Path) -> Iterator[Child]:
    """Start the simulated robot, with wheels that do not slip, so that they tell the true way."""
    arguments = ["hil", "sim", "--map", MAP, "--episode", str(EPISODE), "--config", str(config), "--drift", "0"]
    arguments += ["--no-localization", "--no-depth-noise"]
    arguments += ["--heed-liveliness"] if trial.heeds_liveliness else []
    base = Child("the simulated robot", arguments, trial.folder / "sim.log")
    try:
        yield base
    finally:
        base.end()


class _Hall:
    """Our end of the wire: goals from one end of the hall to the other, and what the wheels say."""

    def __init__(self, wire: Wire, config: Config, base: Child) -> None:
        self._base = base
        self._odom_frame = config.dds.odom_frame
        self._odometry, self._states = wire.reader("odom"), wire.reader("state")
        self._goal = wire.writer("goal_pose")
        self._rows: list[Row] = []
        episode = choose(MAP, 0, EPISODE, Body(config.robot.footprint_radius_m, config.robot.height_m)).episode
        self._ends = (between(episode.start, Pose(*episode.goal_xy_m, 0.0)), Pose(0.0, 0.0, 0.0))
        self._end = self._ends[0]

    def set_off(self, runtime: ForkServerProcess) -> None:
        """Ask for a goal, again and again, until the robot moves."""
        self._states.take()
        self._wait(lambda: bool(self._states.take()), START_S, "the runtime was not heard", runtime)
        self._wait(lambda: bool(self._rows), START_S, "the base was not heard", runtime)
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

        self._wait(moves, RUNTIME_S, "the robot did not set off", runtime)

    def watch_then_kill(self, runtime: ForkServerProcess, after_s: float) -> int:
        """Let it drive for so long, kill it, and return when, wall time [ns]: just before."""
        end_s = time.monotonic() + after_s
        self._wait(lambda: time.monotonic() >= end_s, after_s + 1.0, "", runtime)
        killed_ns = wall_ns()
        runtime.kill()
        return killed_ns

    def until_rest(self) -> list[Row]:
        """Return all odometry of this drive, until the base stood."""
        killed = len(self._rows)

        def stood() -> bool:
            newest = self._rows[max(killed, len(self._rows) - REST_ROWS) :]
            return len(newest) == REST_ROWS and all(row.rests for row in newest)

        self._wait(stood, STOPS_S, "the base did not stop")
        return self._rows

    def _wait(
        self, condition: Callable[[], bool], limit_s: float, what: str, runtime: ForkServerProcess | None = None
    ) -> None:
        deadline_s = time.monotonic() + limit_s
        while not condition():
            self._odometry.wait(POLL_S)
            self._look()
            self._base.check()
            if runtime is not None and runtime.exitcode is not None:
                raise OnboardError(f"the runtime ended by itself, with code {runtime.exitcode}")
            if time.monotonic() > deadline_s:
                raise OnboardError(f"{what} within {limit_s:g} s")

    def _look(self) -> None:
        """Take the odometry that came."""
        for message in self._odometry.take():
            told = odometry_from_ros(message.sample, 0)
            if told.pose is not None:
                self._rows.append(Row(told.stamp_ns, told.pose, told.twist))
