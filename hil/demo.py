"""`onboard-hil demo`: the runtime and the simulated robot as two processes over DDS, a goal, and what came of it."""

from __future__ import annotations

import contextlib
import json
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hil.child import END_S, Child
from hil.crowd_file import CrowdOptions, asked_crowd
from hil.dashboard import Dashboard, View, preparing
from hil.demo_config import as_toml, demo_config
from hil.picture import Drawing, save_picture
from hil.routes import free_space, shortest_path
from hil.scenario import Scenario, choose
from hil.world import Body
from onboard.assembly import check_files, require_engine
from onboard.config import DEFAULT_ROBOT, Config, load_config
from onboard.drivers.ros_messages import ros_goal
from onboard.drivers.wire import Wire
from onboard.errors import OnboardError
from onboard.geometry import between
from onboard.messages import Pose
from onboard.mission import DRIVING, State
from onboard.scheduler import wall_ns
from onboard.signals import Signals

TOLERANCE_M = 0.2
REST_MPS = 0.02
REST_RADPS = 0.05
START_S = 900.0
"""Starting takes seconds; the first time on a machine, compiling the kernels takes a minute, on a slow one minutes."""
LOCALIZE_S = 4.0
"""Patience for the first fix, when there is localisation, and for filtering a few of them at rest."""
LAST_LOOK_S = 1.2
POLL_S = 0.1
DEMO_ROBOT = "demo"
NOBODY = CrowdOptions()


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to drive, where, and where the results go. `policy` None is the configuration's."""

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
    look_seed: int | None = None
    depth_noise: bool = True


def run_demo(options: DemoOptions) -> dict[str, Any]:
    """Drive once and return the result. Raises OnboardError when one of the processes cannot start or dies."""
    base = demo_config(_given(options.config), options.policy)
    check_files(base)
    require_engine(base)
    body = Body(base.robot.footprint_radius_m, base.robot.height_m)
    with preparing(f"map {options.map_name}"):
        scenario = choose(options.map_name, options.seed, options.episode, body)
        asked_crowd(options.crowd, scenario.world, scenario.episode, options.seed)  # so that a mistake is told here
    folder = options.out.resolve()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        started = _Files(folder, scenario.label)
        started.config.write_text(as_toml(base), encoding="utf-8")
    except OSError as error:
        raise OnboardError(f"{folder}: cannot be written: {error.strerror}") from error
    with Signals(), contextlib.closing(Wire(base.dds)) as wire, _processes(started, options) as children:
        state, time_s = _Drive(wire, base, scenario, options, children).run()
    return _result(scenario, body, started, state, time_s)


def _given(path: Path | None) -> Config:
    """Return the configuration that was given, or the default robot under the demo's name."""
    if path is not None:
        return load_config(path)
    default = load_config(DEFAULT_ROBOT / "onboard.toml")
    return default.model_copy(update={"robot": default.robot.model_copy(update={"name": DEMO_ROBOT})})


class _Files:
    """Where one demo keeps what it makes."""

    def __init__(self, folder: Path, label: str) -> None:
        self.config = folder / f"{label}.toml"
        self.sim = folder / f"{label}.sim.json"
        self.run = folder / f"{label}.run.json"
        self.sim_log = folder / f"{label}.sim.log"
        self.run_log = folder / f"{label}.run.log"
        self.picture = folder / f"{label}.png"
        for old in (self.sim, self.run, self.picture):
            old.unlink(missing_ok=True)


@contextlib.contextmanager
def _processes(files: _Files, options: DemoOptions) -> Iterator[list[Child]]:
    """Start the simulated robot and the runtime; end the runtime first, so that the base hears its stop."""
    sim = ["hil", "sim", "--map", options.map_name, "--seed", str(options.seed), "--config", str(files.config)]
    sim += ["--drift", str(options.drift), "--json", str(files.sim)]
    sim += [] if options.episode is None else ["--episode", str(options.episode)]
    sim += [] if options.localization else ["--no-localization"]
    sim += options.crowd.arguments()
    sim += [] if options.look_seed is None else ["--look-seed", str(options.look_seed)]
    sim += [] if options.depth_noise else ["--no-depth-noise"]
    run = ["onboard", "run", "--config", str(files.config), "--json", str(files.run), "--no-status"]
    children = [Child("the simulated robot", sim, files.sim_log)]
    try:
        children.append(Child("the runtime", run, files.run_log))
        yield children
    finally:
        for child in reversed(children):
            child.end()


class _Drive:
    """The demo's own end of the wire: it sends the goal and watches."""

    def __init__(
        self, wire: Wire, config: Config, scenario: Scenario, options: DemoOptions, children: list[Child]
    ) -> None:
        self._section = config.dds
        self._robot = config.robot.name
        self._episode = scenario.episode
        self._options = options
        self._children = children
        self._states = wire.reader("state")
        self._diagnostics = wire.reader("diagnostics")
        self._odometry = wire.reader("odom")
        self._goal = wire.writer("goal_pose")
        self._view = View(f"{scenario.world.name}: {scenario.episode.geodesic_m:.1f} m to go")

    def run(self) -> tuple[str, float]:
        """Return the runtime's last state and the seconds that the drive took."""
        with Dashboard(self._view) as dashboard:
            self._wait_until_ready(dashboard)
            self._goal.write(self._goal_message())
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
            return self._view.state, elapsed_s

    def _show_the_end(self, dashboard: Dashboard, elapsed_s: float) -> None:
        """Wait for the diagnostics that follow the end, so that the last picture is the last state."""
        deadline_s = time.monotonic() + LAST_LOOK_S
        while time.monotonic() < deadline_s:
            self._look(dashboard, elapsed_s)

    def _wait_until_ready(self, dashboard: Dashboard) -> None:
        """Wait until both processes are heard, the base too: its building may take longer than the runtime's start."""
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
        """Wait a moment, take what came, and show it. Raises OnboardError when a process has ended."""
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

    def _goal_message(self) -> Any:
        """The goal in the map frame; without localisation in the odom frame, which begins at the start."""
        goal = Pose(*self._episode.goal_xy_m, 0.0)
        if self._options.localization:
            return ros_goal(wall_ns(), self._section.map_frame, goal)
        return ros_goal(wall_ns(), self._section.odom_frame, between(self._episode.start, goal))


def _result(scenario: Scenario, body: Body, files: _Files, state: str, time_s: float) -> dict[str, Any]:
    """Return the demo's result from what both processes wrote, and draw the picture."""
    sim, run = _told(files.sim), _told(files.run)
    goal, end = scenario.episode.goal_xy_m, Pose(*sim["pose"])
    distance_m = math.hypot(end.x_m - goal[0], end.y_m - goal[1])
    resting = abs(sim["twist"][0]) <= REST_MPS and abs(sim["twist"][1]) <= REST_RADPS
    start = (scenario.episode.start.x_m, scenario.episode.start.y_m)
    shortest = shortest_path(free_space(scenario.world, body), start, goal)
    drawing = Drawing(scenario.episode, np.array(sim["trace"])[:, 1:], end, shortest, sim["contact_points"], body)
    save_picture(scenario.world, drawing, files.picture)
    return {
        "reached": state == State.REACHED.value and resting and distance_m <= TOLERANCE_M,
        "state": state,
        "distance_to_goal_m": round(distance_m, 3),
        "time_s": round(time_s, 2),
        "path_m": round(sim["path_m"], 3),
        "shortest_path_m": round(scenario.episode.geodesic_m, 3),
        "contacts": sim["contacts"],
        "bumps": sim["bumps"],
        "ticks": run["ticks"],
        "missed_slots": run["missed_slots"],
        "decisions": run["decisions"],
        "deadline_misses": run["deadline_misses"],
        "over_budget": run["over_budget"],
        "decision_ms": {name: run["decision_ms"][name] for name in ("p50", "p99")},
        "delay_error_ms": {name: run["delay_error_ms"][name] for name in ("p50", "p99")},
        "commands_by_reason": run["commands_by_reason"],
        "policy": run["policy"],
        "recording": run["recording"],
        "picture": str(files.picture),
    }


def _told(file: Path) -> dict[str, Any]:
    """Return what a process wrote at its end. Raises OnboardError when it was killed before it could."""
    try:
        told: dict[str, Any] = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise OnboardError(
            f"{file}: not written: the process did not end within {END_S:g} s, see {file.with_suffix('.log').name}"
        ) from error
    return told


def summary(result: dict[str, Any]) -> str:
    """Return the result as a person reads it."""
    outcome = "reached" if result["reached"] else f"NOT reached ({result['state']})"
    return (
        f"{outcome}: {result['distance_to_goal_m']:.2f} m from the goal after {result['time_s']:.1f} s and "
        f"{result['path_m']:.1f} m (shortest {result['shortest_path_m']:.1f} m), {result['contacts']} contacts\n"
        f"{result['decisions']} decisions, p50 {result['decision_ms']['p50']:.0f} ms, "
        f"p99 {result['decision_ms']['p99']:.0f} ms; {result['ticks']} ticks, {result['missed_slots']} slots missed\n"
        f"picture    {result['picture']}\nrecording  {result['recording'] or 'none'}\n"
    )
