"""`onboard-hil demo`: starts the runtime and the simulated robot as two DDS processes, sends goals, returns results."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hil.drive.episodes import choose
from hil.live.child_process import Child
from hil.live.dashboard import Dashboard, View, preparing
from hil.live.demo_result import Files, result_of
from hil.live.goal_tour import Leg, tour
from hil.physics.collision_world import body_of
from hil.physics.free_space import Episode, free_space
from hil.scene.crowd_file import CrowdOptions, asked_crowd
from onboard.assembly.assembly import check_files
from onboard.assembly.policies import require_engine
from onboard.config.config import DEFAULT_ROBOT, Config, is_name, load_config
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_goal
from onboard.navigation.mission import DRIVING
from onboard.system.signals import Signals
from onboard.values.clock import wall_ns
from onboard.values.errors import OnboardError
from onboard.values.geometry import between
from onboard.values.messages import Pose

# ---- Configuration of the demo's runtime

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
HEAD = "# Written by `onboard-hil demo`: everything that is in effect.\n"


def demo_config(given: Config, model: str | None, *, depth_noise: bool = True) -> Config:
    """Return the given configuration, changed for a simulated robot: cameras and odometry come over DDS.

    model:       policy to use instead of the configured policy; None keeps the configured policy
    depth_noise: whether the simulated depth cameras add noise. Without noise an image may correctly stay unchanged, so
                 the check for unchanged images is off
    All paths in the result are absolute. A relative path is resolved against the working directory.
    """
    chosen = given.policy.model if model is None else model
    policy = {"model": chosen if is_name(chosen) else str(Path(chosen).resolve())}
    robot = {"mounts": given.robot.mounts.resolve(), "plant": given.robot.plant.resolve()}
    cameras: dict[str, Any] = {"source": "dds", "sources": {}, "recordings": {}, "color": "dds"}
    cameras |= {} if depth_noise else {"unchanged_m": 0.0}
    return given.model_copy(
        update={
            "robot": given.robot.model_copy(update=robot),
            "cameras": given.cameras.model_copy(update=cameras),
            "odometry": given.odometry.model_copy(update={"input": "dds"}),
            "policy": given.policy.model_copy(update=policy),
            "record": given.record.model_copy(update={"directory": given.record.directory.resolve()}),
        }
    )


def as_toml(config: Config, head: str = HEAD, stated_only: bool = False) -> str:
    """Return the TOML text from which `load_config` reads the same configuration. Values of None are omitted.

    stated_only: omit values that are equal to their defaults
    """
    values = config.model_dump(mode="json", exclude_defaults=stated_only)
    tables = [f"\n[{name}]\n{_rows(table)}" for name, table in values.items() if table]
    return head + "".join(tables)


def _rows(table: dict[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return json.dumps(value)


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    """Return a TOML basic string. TOML has the escapes of JSON and also escapes DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


START_S = 900.0
"""Timeout for the start. A start takes seconds, but the first start on a machine compiles kernels for some minutes."""
LOCALIZE_S = 4.0
"""Wait at rest before the first goal, so that the filter receives a few localisation fixes."""
LAST_LOOK_S = 1.2
POLL_S = 0.1
DEMO_ROBOT = "demo"
NOBODY = CrowdOptions()


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the demo.

    policy:  None is the policy of the configuration
    limit_s: timeout of each goal
    config:  None is the default robot
    """

    map_name: str = "gdc1"
    seed: int = 1
    episode: int | None = None
    policy: str | None = None
    localization: bool = True
    drift: float = 1.0
    limit_s: float = 100.0
    out: Path = Path("out/demo")
    config: Path | None = None
    crowd: CrowdOptions = NOBODY
    goals: int = 1


def run_demo(options: DemoOptions) -> dict[str, Any]:
    """Drive to the goals and return the result. Raises OnboardError if a process cannot start or ends too early."""
    base = demo_config(_given(options.config), options.policy)
    check_files(base)
    require_engine(base)
    body = body_of(base.robot)
    with preparing(f"map {options.map_name}"):
        scenario = choose(options.map_name, options.seed, options.episode, body)
        asked_crowd(options.crowd, scenario.world, scenario.episode, options.seed)  # reports a wrong option here
        space = free_space(scenario.world, body)
        episodes = tour(space, scenario.episode, options.goals, options.seed)
    folder = options.out.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        started = Files(folder, scenario.label)
        started.config.write_text(as_toml(base), encoding="utf-8")
    except OSError as error:
        raise OnboardError(f"{folder}: cannot be written: {error.strerror}") from error
    with Signals(), contextlib.closing(Wire(base.dds)) as wire, _processes(started, options) as children:
        legs = _Drive(wire, base, episodes, options, children).run()
    return result_of(space, body, started, legs)


def _given(path: Path | None) -> Config:
    """Return the configuration from `path`. For None, return the default robot with the demo's name."""
    if path is not None:
        return load_config(path)
    default = load_config(DEFAULT_ROBOT / "onboard.toml")
    return default.model_copy(update={"robot": default.robot.model_copy(update={"name": DEMO_ROBOT})})


@contextlib.contextmanager
def _processes(files: Files, options: DemoOptions) -> Iterator[list[Child]]:
    """Start the simulated robot and the runtime. End the runtime first, so that the base receives its stop command."""
    sim = ["hil", "sim", "--map", options.map_name, "--seed", str(options.seed), "--config", str(files.config)]
    sim += ["--drift", str(options.drift), "--json", str(files.sim)]
    sim += [] if options.episode is None else ["--episode", str(options.episode)]
    sim += [] if options.localization else ["--no-localization"]
    sim += options.crowd.arguments()
    run = ["onboard", "run", "--config", str(files.config), "--json", str(files.run), "--no-status"]
    children = [Child("the simulated robot", sim, files.sim_log)]
    try:
        children.append(Child("the runtime", run, files.run_log))
        yield children
    finally:
        for child in reversed(children):
            child.end()


class _Drive:
    """DDS link of the demo: sends the goals and shows the progress."""

    def __init__(
        self, wire: Wire, config: Config, episodes: list[Episode], options: DemoOptions, children: list[Child]
    ) -> None:
        self._section = config.dds
        self._robot = config.robot.name
        self._episodes = episodes
        self._options = options
        self._children = children
        self._states = wire.reader("state")
        self._diagnostics = wire.reader("diagnostics")
        self._odometry = wire.reader("odom")
        self._goal = wire.writer("goal_pose")
        self._view = View(options.map_name)

    def run(self) -> list[Leg]:
        """Send the goals in order and return their results. After a failed goal, continue where the robot stands."""
        legs: list[Leg] = []
        with Dashboard(self._view) as dashboard:
            self._wait_until_ready(dashboard)
            for number, episode in enumerate(self._episodes, 1):
                which = f" (goal {number} of {len(self._episodes)})" if len(self._episodes) > 1 else ""
                self._view.title = f"{self._options.map_name}: {episode.geodesic_m:.1f} m to go{which}"
                legs.append(self._drive_to(episode, dashboard))
        return legs

    def _drive_to(self, episode: Episode, dashboard: Dashboard) -> Leg:
        """Send a goal, wait until the drive ends or the time is over, and return the result."""
        self._goal.write(self._goal_message(episode))
        began_s = time.monotonic()
        began = False
        while (elapsed_s := time.monotonic() - began_s) < self._options.limit_s:
            self._look(dashboard, elapsed_s)
            driving = self._view.state.startswith(tuple(state.value for state in DRIVING))
            began = began or driving
            if began and not driving:
                break
            if not began and "goal refused" in self._view.state:
                break
        self._show_the_end(dashboard, elapsed_s)
        return Leg(episode, self._view.state, elapsed_s, time.monotonic_ns())

    def _show_the_end(self, dashboard: Dashboard, elapsed_s: float) -> None:
        """Wait for the diagnostics after the end of the drive, so that the dashboard shows the final state."""
        deadline_s = time.monotonic() + LAST_LOOK_S
        while time.monotonic() < deadline_s:
            self._look(dashboard, elapsed_s)

    def _wait_until_ready(self, dashboard: Dashboard) -> None:
        """Wait for messages of the runtime and the base. The base loads its map and may start after the runtime.

        Raises OnboardError after `START_S` seconds.
        """
        deadline_s = time.monotonic() + START_S
        base_heard = False
        while not base_heard or not self._view.state or "x_m" not in self._view.values:
            self._look(dashboard, 0.0)
            base_heard = base_heard or bool(self._odometry.take())
            if time.monotonic() > deadline_s:
                raise OnboardError(f"the {'runtime' if base_heard else 'base'} was not heard within {START_S:g} s")
        settled_s = time.monotonic() + LOCALIZE_S
        while time.monotonic() < settled_s:
            self._look(dashboard, 0.0)

    def _look(self, dashboard: Dashboard, elapsed_s: float) -> None:
        """Wait at most `POLL_S`, read all new messages, and show them. Raises OnboardError if a process has ended."""
        self._states.wait(POLL_S)
        for child in self._children:
            child.check()
        states = [message.sample.data for message in self._states.take()]
        self._view.state = states[-1] if states else self._view.state
        for message in self._diagnostics.take():
            for status in (row for row in message.sample.status if row.hardware_id == self._robot):
                self._view.values.update({pair.key: pair.value for pair in status.values})
                if status.name.endswith("command"):
                    self._view.reason = status.message
        self._view.elapsed_s = elapsed_s
        dashboard.show()

    def _goal_message(self, episode: Episode) -> Any:
        """Return the goal in the map frame. Without localisation, return it in the odom frame (origin: the start)."""
        goal = Pose(*episode.goal_xy_m, 0.0)
        if self._options.localization:
            return ros_goal(wall_ns(), self._section.map_frame, goal)
        return ros_goal(wall_ns(), self._section.odom_frame, between(self._episodes[0].start, goal))
