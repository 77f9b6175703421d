"""`onboard-hil demo`: starts the runtime and the simulated robot as two DDS processes, sends goals, returns results."""

from __future__ import annotations

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hil.drive.episodes import choose
from hil.live.child_process import Child, Interpreter
from hil.live.dashboard import Dashboard, View, preparing
from hil.live.demo_result import Files, by_load, result_of
from hil.live.goal_tour import Leg, tour
from hil.physics.collision_world import body_of
from hil.physics.free_space import Episode, free_space
from hil.physics.kernel_effects import load_robot_kernels
from hil.scene.walkers import CrowdOptions, requested_crowd
from onboard.assembly.assembly import check_files
from onboard.assembly.in_effect import ahead_mps, in_effect_text
from onboard.assembly.policies import require_engine
from onboard.assembly.robot import with_lasers
from onboard.config.config import Config, load_config
from onboard.config.pretrained import is_name
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_goal
from onboard.drivers.dds.topics import ros_topic
from onboard.navigation.mission import drives
from onboard.service.input_watch import WAITING, missing_in
from onboard.system.signals import Signals
from onboard.system.waiting import Waiting
from onboard.values.clock import NS_PER_S, wall_ns
from onboard.values.errors import OnboardError
from onboard.values.geometry import between
from onboard.values.messages import Pose

# ---- Configuration of the demo's runtime


def demo_config(given: Config, model: str | None, *, depth_noise: bool = True) -> Config:
    """Return the given configuration, changed for a simulated robot: its cameras and odometry come over DDS.

    model:       policy to use instead of the configured policy; None keeps the configured policy
    depth_noise: whether the simulated depth cameras add noise. Without noise an image may correctly stay unchanged, so
                 the check for unchanged images is off
    All paths in the result are absolute. A relative path is resolved against the working directory.
    """
    given = with_lasers(given)
    policy = given.policy if model is None else given.policy.driven_by(model)
    if not is_name(policy.model):
        policy = policy.model_copy(update={"model": str(Path(policy.model).resolve())})
    robot = {"mounts": given.robot.mounts.resolve(), "plant": given.robot.plant.resolve()}
    sources = {name: "none" for name, source in given.cameras.sources.items() if source == "none"}
    if given.cameras.source == "none":
        sources = {name: "dds" for name, source in given.cameras.sources.items() if source != "none"}
    source = "none" if given.cameras.source == "none" else "dds"
    cameras: dict[str, Any] = {"source": source, "sources": sources, "recordings": {}}
    cameras |= {} if given.cameras.color == "none" else {"color": "dds"}
    cameras |= {} if depth_noise else {"unchanged_m": 0.0}
    return given.model_copy(
        update={
            "robot": given.robot.model_copy(update=robot),
            "cameras": given.cameras.model_copy(update=cameras),
            "odometry": given.odometry.model_copy(update={"input": "dds"}),
            "policy": policy,
            "record": given.record.model_copy(update={"directory": given.record.directory.resolve()}),
        }
    )


class MissingError(OnboardError):
    """A part of the demo, or an input of its runtime, was not there in time; the message names it."""


MISSING_S = 60.0
"""Timeout for an input of the runtime, after runtime and base have been heard."""
START_S = 900.0
"""Timeout for the start. A start takes seconds, but the first start on a machine compiles kernels for some minutes."""
LOCALIZE_S = 4.0
"""Longest wait at rest for the first localisation fix, before the first goal."""
FRESH_NS, FRESH_SCANS = NS_PER_S // 2, 5
"""The images flow when the newest scan was younger than this, this many times in a row."""
LAST_LOOK_S = 1.2
"""Time after the end of a drive in which the diagnostics of its end come."""
POLL_S = 0.1
MOST_PAUSES = 20
"""A drive goes on so many times after this machine was too busy for it."""
DEMO_ROBOT = "demo"
NOBODY = CrowdOptions()


LIMIT_S, SLACK = 100.0, 5.0
"""Least timeout of a goal, and how much longer than the shortest path at the allowed speed it may take."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the demo.

    policy:  None is the policy of the configuration
    limit_s: timeout of each goal; None: from the path and the speed that the cameras allow, at least LIMIT_S
    config:  None is the default robot
    kernels: file of kernels that set the pose of the base; None for the plain simulator
    full_size: render every pixel of large images (`hil/sensors/image_size.py`)
    """

    map_name: str = "lgrc1"
    seed: int = 4
    episode: int | None = None
    policy: str | None = None
    localization: bool = True
    drift: float = 1.0
    limit_s: float | None = None
    out: Path = Path("out/demo")
    config: Path | None = None
    crowd: CrowdOptions = NOBODY
    goals: int = 1
    kernels: Path | None = None
    full_size: bool = False


def run_demo(options: DemoOptions) -> dict[str, Any]:
    """Drive to the goals and return the result. Raises OnboardError if a process cannot start or ends too early."""
    with (
        Signals() as signals,
        contextlib.closing(Interpreter("hil.live.simulator")) as sim,
        contextlib.closing(Interpreter("onboard.commands.run")) as run,
    ):
        return _run_demo(options, sim, run, signals)


def _run_demo(options: DemoOptions, sim: Interpreter, run: Interpreter, signals: Signals) -> dict[str, Any]:
    """As `run_demo`, in the interpreters of the two processes, which import while the input is checked."""
    base = demo_config(_given(options.config), options.policy)
    check_files(base)
    load_robot_kernels(options.kernels)  # reports a wrong file here
    require_engine(base)
    body = body_of(base.robot)
    with preparing(f"map {options.map_name}"):
        scenario = choose(options.map_name, options.seed, options.episode, body)
        requested_crowd(options.crowd, scenario.world, scenario.episode, options.seed)  # reports a wrong option here
        space = free_space(scenario.world, body)
        episodes = tour(space, scenario.episode, options.goals, options.seed)
    files = Files(options.out.resolve(), scenario.label, base, ("sim", "run"), options.full_size)
    sys.stderr.write(f"{in_effect_text(base)}{files.sizes}")
    signals.check()
    with (
        contextlib.closing(Wire(base.dds)) as wire,
        _processes(files, options, (sim, run)) as children,
    ):
        link = DriveLink(wire, base, children, options.map_name)
        signals.check()
        legs = _drive(link, base, episodes, options)
    return result_of(space, body, files, legs, link.scans)


def _given(path: Path | None) -> Config:
    """Return the configuration from `path`. For None, return the default robot with the demo's name."""
    if path is not None:
        return load_config(path)
    default = load_config(None)
    return default.model_copy(update={"robot": default.robot.model_copy(update={"name": DEMO_ROBOT})})


@contextlib.contextmanager
def _processes(
    files: Files, options: DemoOptions, interpreters: tuple[Interpreter, Interpreter]
) -> Iterator[list[Child]]:
    """Start the simulated robot and the runtime. End the runtime first, so that the base receives its stop command."""
    sim = ["hil", "sim", "--map", options.map_name, "--seed", str(options.seed), "--config", str(files.config)]
    sim += ["--full-size"] if options.full_size else []
    sim += ["--drift", str(options.drift), "--json", str(files.result("sim"))]
    sim += [] if options.episode is None else ["--episode", str(options.episode)]
    sim += [] if options.localization else ["--no-localization"]
    sim += options.crowd.arguments()
    sim += [] if options.kernels is None else ["--kernels", str(options.kernels.resolve())]
    run = ["onboard", "run", "--config", str(files.config), "--json", str(files.result("run")), "--no-status"]
    children = [Child("the simulated robot", sim, files.log("sim"), interpreters[0])]
    try:
        children.append(Child("the runtime", run, files.log("run"), interpreters[1]))
        yield children
    finally:
        for child in reversed(children):
            child.end()


def _drive(link: DriveLink, config: Config, episodes: list[Episode], options: DemoOptions) -> list[Leg]:
    """Send the goals in order and return their results. After a failed goal, continue where the robot stands.

    A drive that ended because this machine is too busy goes on from there: the goal is sent again. Its limit is that of
    all its attempts together.
    """
    legs: list[Leg] = []
    with Dashboard(link.view) as dashboard:
        link.wait_until_received(dashboard)
        if options.localization:
            link.look_until(link.localized, LOCALIZE_S, dashboard)
        for number, episode in enumerate(episodes, 1):
            which = f" (goal {number} of {len(episodes)})" if len(episodes) > 1 else ""
            link.view.title = f"{options.map_name}: {episode.geodesic_m:.1f} m to go{which}"
            limit_s = options.limit_s or _enough_s(config, episode)
            link.driven_s = 0.0
            for _ in range(1 + MOST_PAUSES):
                goal = _goal_message(config, episodes[0], episode, options)
                link.driven_s += link.drive_to(goal, limit_s - link.driven_s, dashboard)
                if not by_load(link.view.state) or link.driven_s >= limit_s:
                    break
                link.wait_until_flowing(dashboard)
            legs.append(Leg(episode, link.view.state, link.driven_s, time.monotonic_ns()))
    return legs


def _enough_s(config: Config, episode: Episode) -> float:
    """Return the timeout of a goal for which none is given [s]."""
    return max(LIMIT_S, SLACK * episode.geodesic_m / ahead) if (ahead := ahead_mps(config)) > 0.0 else LIMIT_S


def _goal_message(config: Config, first: Episode, episode: Episode, options: DemoOptions) -> Any:
    """Return the goal in the map frame. Without localisation, return it in the odom frame (origin: the start)."""
    goal = Pose(*episode.goal_xy_m, 0.0)
    if options.localization:
        return ros_goal(wall_ns(), config.dds.map_frame, goal)
    return ros_goal(wall_ns(), config.dds.odom_frame, between(first.start, goal))


class DriveLink:
    """DDS link of a demo: sends goals and follows the runtime.

    view:  newest known values
    driven_s: duration of earlier drives to the same goal, which the shown time includes
    scans: capture time (CLOCK_MONOTONIC [ns]) and fused scan, of every `POLL_S` of a drive
    """

    def __init__(self, wire: Wire, config: Config, children: list[Child], title: str) -> None:
        self.view = View(title)
        self.driven_s = 0.0
        self.scans: list[tuple[int, Any]] = []
        self._robot = config.robot.name
        self._children = children
        self._states, self._diagnostics = wire.reader("state"), wire.reader("diagnostics")
        self._odometry, self._newest_scan = wire.reader("odom"), wire.reader("scan")
        self._transforms, self._map_frame = wire.reader("tf"), config.dds.map_frame
        self._goal = wire.writer("goal_pose")
        self._localized = False
        self._section, self._missing = wire.section, ""
        self._scan: list[tuple[int, Any]] = []
        self._fresh_scans = 0

    def drive_to(
        self, goal: Any, limit_s: float, dashboard: Dashboard, done: Callable[[], bool] = lambda: False
    ) -> float:
        """Send a goal, wait until the drive ends, is `done` or the time is over, and return the duration [s].

        goal: geometry_msgs/PoseStamped
        """
        self._goal.write(goal)
        began_s = time.monotonic()
        began = False
        while (elapsed_s := time.monotonic() - began_s) < limit_s:
            self._poll_and_show(dashboard, elapsed_s)
            driving = drives(self.view.state)
            if done() or (began and not driving) or (not began and "goal refused" in self.view.state):
                break
            began = began or driving
            self.scans += self._scan if driving else []
        self.look_until(lambda: False, LAST_LOOK_S, dashboard, elapsed_s)
        return elapsed_s

    def localized(self) -> bool:
        """Return whether the runtime has taken a localisation fix."""
        return self._localized

    def wait_until_received(self, dashboard: Dashboard) -> None:
        """Wait for the runtime, the base and all inputs. The base loads its map and may compile kernels first.

        Raises MissingError, with what is missing, if a process is silent for `START_S` seconds or an input for
        `MISSING_S`.
        """
        base_received = False

        def process() -> str:
            nonlocal base_received
            base_received = base_received or bool(self._odometry.take())
            if base_received and "x_m" in self.view.values:
                return ""
            what = "/diagnostics of the runtime" if base_received else f"{ros_topic(self._section, 'odom')} of the base"
            return f"{what}: its process starts, and compiles the first time"

        self.wait_for(process, START_S, dashboard)
        self.wait_until_flowing(dashboard)

    def wait_until_flowing(self, dashboard: Dashboard) -> None:
        """Wait for new scans. Raises MissingError after `MISSING_S` seconds."""
        self._fresh_scans = 0
        self.wait_for(self._input, MISSING_S, dashboard)

    def wait_for(self, missing: Callable[[], str], limit_s: float, dashboard: Dashboard) -> None:
        """Read and show messages until nothing is missing. Raises MissingError after `limit_s` seconds."""
        waiting = Waiting(lambda line: setattr(self.view, "waiting", line))
        while what := missing():
            if waiting.note(what) > limit_s:
                raise MissingError(f"not received within {limit_s:g} s: {what}")
            self._poll_and_show(dashboard, 0.0)
        self.view.waiting = ""

    def _input(self) -> str:
        """Return the input of which the runtime has too little, in its own words; "" while scans flow."""
        if self._fresh_scans >= FRESH_SCANS:
            return ""
        return self._missing or f"{ros_topic(self._section, 'scan')} of the runtime, newer than 0.5 s"

    def look_until(
        self, ready: Callable[[], bool], limit_s: float, dashboard: Dashboard, elapsed_s: float = 0.0
    ) -> bool:
        """Read and show messages until `ready`. Return False if that takes `limit_s` seconds."""
        deadline_s = time.monotonic() + limit_s
        while not ready():
            if time.monotonic() > deadline_s:
                return False
            self._poll_and_show(dashboard, elapsed_s)
        return True

    def _poll_and_show(self, dashboard: Dashboard, elapsed_s: float) -> None:
        """Wait at most `POLL_S`, read all new messages, and show them. Raises OnboardError if a process has ended."""
        self.poll()
        self.view.elapsed_s = self.driven_s + elapsed_s
        dashboard.show()

    def poll(self) -> None:
        """Wait at most `POLL_S` and read all new messages. Raises OnboardError if a process has ended."""
        self._states.wait(POLL_S)
        for child in self._children:
            child.check()
        self._scan = [
            (time.monotonic_ns() - self._age_ns(message.sample), message.sample)
            for message in self._newest_scan.take()[-1:]
            if any(map(math.isfinite, message.sample.ranges)) and self._age_ns(message.sample) < FRESH_NS
        ]
        self._fresh_scans = self._fresh_scans + 1 if self._scan else 0
        self._localized = self._localized or any(
            transform.header.frame_id == self._map_frame
            for message in self._transforms.take()
            for transform in message.sample.transforms
        )
        states = [message.sample.data for message in self._states.take()]
        self.view.state = states[-1] if states else self.view.state
        for message in self._diagnostics.take():
            for status in (row for row in message.sample.status if row.hardware_id == self._robot):
                if status.name == WAITING:
                    self._missing = missing_in(status.message)
                self.view.values.update({pair.key: pair.value for pair in status.values})
                if status.name.endswith("command"):
                    self.view.reason = status.message

    @staticmethod
    def _age_ns(scan: Any) -> int:
        """Return the time since the capture of a sensor_msgs/LaserScan, whose stamp is wall time."""
        stamp = scan.header.stamp
        return wall_ns() - (int(stamp.sec) * NS_PER_S + int(stamp.nanosec))
