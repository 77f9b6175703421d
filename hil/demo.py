"""`onboard-hil demo`: the runtime and the simulated robot as two processes over DDS, a goal, and what came of it."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hil.dashboard import Dashboard, View
from hil.picture import Drawing, save_picture
from hil.routes import free_space, shortest_path
from hil.scenario import Scenario, choose
from hil.world import Body
from onboard.config import DEFAULT_ROBOT, Config, DdsSection, load_config
from onboard.drivers.ros_messages import ros_goal
from onboard.drivers.wire import Wire
from onboard.errors import OnboardError
from onboard.geometry import between
from onboard.messages import Pose
from onboard.mission import DRIVING, State
from onboard.scheduler import wall_ns

TOLERANCE_M = 0.2
REST_MPS = 0.02
REST_RADPS = 0.05
START_S = 180.0
"""Starting takes seconds; the first time on a machine, compiling the kernels takes a minute or two."""
LOCALIZE_S = 4.0
"""Patience for the first fix, when there is localisation, and for filtering a few of them at rest."""
LAST_LOOK_S = 1.2
END_S = 15.0
GRACE_S = 60.0
"""By so much the children outlive the demo's own time limit at the most, should the demo be killed."""
POLL_S = 0.1
LOG_LINES = 12


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to drive, where, and where the results go."""

    map_name: str = "gdc1"
    seed: int = 1
    episode: int | None = None
    policy: str = "reactive"
    localization: bool = True
    drift: float = 1.0
    limit_s: float = 100.0
    out: Path = Path("out/demo")
    config: Path | None = None


def run_demo(options: DemoOptions) -> dict[str, Any]:
    """Drive once and return the result. Raises OnboardError when one of the processes cannot start or dies."""
    base = load_config(options.config or DEFAULT_ROBOT / "onboard.toml")
    body = Body(base.robot.footprint_radius_m, base.robot.height_m)
    scenario = choose(options.map_name, options.seed, options.episode, body)
    folder = options.out.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    started = _Files(folder, scenario.label)
    started.config.write_text(_configuration(base, options))
    section = load_config(started.config).dds
    with contextlib.closing(Wire(section)) as wire, _processes(started, options) as children:
        drive = _Drive(wire, section, scenario, options, children)
        state, time_s = drive.run()
    return _result(scenario, body, started, state, time_s)


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


class Child:
    """One of the two processes, with its log."""

    def __init__(self, name: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise OnboardError with the end of its log when it has ended."""
        if self._process.poll() is not None:
            tail = "\n".join(self._log.read_text(errors="replace").strip().splitlines()[-LOG_LINES:])
            raise OnboardError(f"{self.name} ended with code {self._process.returncode}:\n{tail}")

    def end(self) -> None:
        """Ask it to end, wait, and kill it if it does not."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGINT)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


@contextlib.contextmanager
def _processes(files: _Files, options: DemoOptions) -> Iterator[list[Child]]:
    """Start the simulated robot and the runtime; end the runtime first, so that the base hears its stop."""
    life = ["--for", str(START_S + options.limit_s + GRACE_S)]
    sim = ["hil", "sim", "--map", options.map_name, "--seed", str(options.seed), "--config", str(files.config)]
    sim += ["--drift", str(options.drift), "--json", str(files.sim), *life]
    sim += [] if options.episode is None else ["--episode", str(options.episode)]
    sim += [] if options.localization else ["--no-localization"]
    run = ["onboard", "run", "--config", str(files.config), "--json", str(files.run), "--no-status", *life]
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
        self, wire: Wire, section: DdsSection, scenario: Scenario, options: DemoOptions, children: list[Child]
    ) -> None:
        self._section = section
        self._episode = scenario.episode
        self._options = options
        self._children = children
        self._states = wire.reader("state")
        self._diagnostics = wire.reader("diagnostics")
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
        deadline_s = time.monotonic() + START_S
        while not self._view.state or "x_m" not in self._view.values:
            self._look(dashboard, 0.0)
            if time.monotonic() > deadline_s:
                raise OnboardError(f"the runtime was not heard within {START_S:g} s")
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
            for status in message.sample.status:
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


def _configuration(base: Config, options: DemoOptions) -> str:
    """Return the runtime's configuration file: the given robot, its cameras over DDS, the policy asked for."""
    model = options.policy if options.policy == "reactive" else str(Path(options.policy).resolve())
    return "\n".join(
        [
            "# Written by `onboard-hil demo`.",
            "[robot]",
            'name = "demo"',
            f"mounts = {json.dumps(str(base.robot.mounts.resolve()))}",
            f"plant = {json.dumps(str(base.robot.plant.resolve()))}",
            f"footprint_radius_m = {base.robot.footprint_radius_m}",
            f"height_m = {base.robot.height_m}",
            "[cameras]",
            'source = "dds"',
            'color = "dds"',
            "[policy]",
            f"model = {json.dumps(model)}",
            "[record]",
            f"directory = {json.dumps(str(Path('recordings').resolve()))}",
            "",
        ]
    )


def _result(scenario: Scenario, body: Body, files: _Files, state: str, time_s: float) -> dict[str, Any]:
    """Return the demo's result from what both processes wrote, and draw the picture."""
    sim, run = (json.loads(file.read_text()) for file in (files.sim, files.run))
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


def summary(result: dict[str, Any]) -> str:
    """Return the result as a person reads it."""
    outcome = "reached" if result["reached"] else f"NOT reached ({result['state']})"
    return (
        f"{outcome}: {result['distance_to_goal_m']:.2f} m from the goal after {result['time_s']:.1f} s and "
        f"{result['path_m']:.1f} m (shortest {result['shortest_path_m']:.1f} m), {result['contacts']} contacts\n"
        f"{result['decisions']} decisions, p50 {result['decision_ms']['p50']:.0f} ms, "
        f"p99 {result['decision_ms']['p99']:.0f} ms; {result['ticks']} ticks, {result['missed_slots']} slots missed\n"
        f"picture    {result['picture']}\nrecording  {result['recording']}\n"
    )
