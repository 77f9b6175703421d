"""What a live view costs the runtime beside it: windows with and without one, in turn, during the same drives."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rerun")


from hil.drive.episodes import load_episodes
from hil.recordings.recording import TICK, open_recording
from hil.view.dds_source import DdsSource, listen
from hil.view.queue import ScreenQueue, ViewCounts
from hil.view.rerun import Scene, screen_at
from hil.view.viewer_process import Outlet
from onboard.config.config import Config, load_config
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_goal
from onboard.values.clock import wall_ns
from onboard.values.messages import Pose
from tests.rigs.machine.processes import running, toml
from tests.rigs.network.loopback import free_domain

MAP, EPISODE = "gdc1", 5
WINDOWS, WINDOW_S, LOOK_S = 16, 5.0, 0.1
DELAY_MS = 100.0
"""A decision is to act so long after its tick sensed."""
DRIVING = ("navigating", "recovering")


class Driver:
    """Sends the robot to the goal and back, for ever."""

    def __init__(self, wire: Wire) -> None:
        known = load_episodes(MAP).episodes[EPISODE]
        self._ends = [Pose(*known.goal_xy_m, 0.0), known.start]
        self._goal, self._states = wire.writer("goal_pose"), wire.reader("state")
        self._drives, self._state = 0, "idle"

    def steer(self) -> bool:
        """Give the next goal when the last is done; return True, as of somebody who still looks."""
        for message in self._states.take():
            self._state = message.sample.data
        if not self._state.startswith(DRIVING):
            self._goal.write(ros_goal(wall_ns(), "map", self._ends[self._drives % 2]))
            self._drives, self._state = self._drives + 1, DRIVING[0]
        return True


@dataclass
class Figures:
    """Of the ticks in windows of one kind: lateness [ms], slots missed, deviation from sense-to-act delay [ms]."""

    late_ms: list[float] = field(default_factory=list)
    missed: int = 0
    deviation_ms: list[float] = field(default_factory=list)

    def line(self, name: str) -> str:
        """Return the figures for a person."""
        late, deviation = np.percentile(self.late_ms, [50, 99]), np.percentile(self.deviation_ms, [50, 99])
        return (
            f"{name}: {len(self.late_ms)} ticks, {self.missed} missed, late p50 {late[0]:.2f} p99 {late[1]:.2f} ms; "
            f"{len(self.deviation_ms)} decisions, off by p50 {deviation[0]:.2f} p99 {deviation[1]:.2f} ms"
        )


def look(config: Config, file: Path, driver: Driver) -> tuple[int, int, ViewCounts]:
    """Watch for one window; return its begin and end, and what was shown."""
    scene = Scene(config, load_mounts(config.robot.mounts))
    outlet = Outlet(file, browser=False, window=False)
    with screen_at(outlet, scene) as (screen, _), contextlib.closing(Wire(config.dds)) as wire:
        pump = ScreenQueue(screen)
        ears = DdsSource(wire, scene.mounts, images=True)
        began_ns = wall_ns()
        listen(ears, pump, threading.Event(), WINDOW_S, driver.steer)
        return began_ns, wall_ns(), pump.close()


def look_away(driver: Driver) -> tuple[int, int]:
    """Let one window pass."""
    began_ns, pause = wall_ns(), threading.Event()
    while wall_ns() - began_ns < WINDOW_S * 1e9:
        driver.steer()
        pause.wait(LOOK_S)
    return began_ns, wall_ns()


def read_figures(recordings: list[Path], windows: list[tuple[bool, int, int]]) -> dict[bool, Figures]:
    """Return the figures with (True) and without a view, from the runtime's own recording."""
    found: dict[bool, Figures] = defaultdict(Figures)
    sensed_ns: dict[int, int] = {}
    for file in recordings:
        with open_recording(file) as recording:
            for message in recording.read():
                if message.topic != TICK:
                    continue
                tick = message.sample
                if tick.sensed:
                    sensed_ns[tick.sensed] = tick.start_ns
                for viewed in (kind for kind, began, ended in windows if began <= message.time_ns < ended):
                    figures = found[viewed]
                    figures.late_ms.append((tick.start_ns - tick.deadline_ns) / 1e6)
                    figures.missed += tick.missed
                    if tick.acted and tick.action >= 0:
                        took_ms = (tick.sent_ns - sensed_ns[tick.acted]) / 1e6
                        figures.deviation_ms.append(abs(took_ms - DELAY_MS))
    return found


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_view_leaves_the_runtimes_times_as_they_are(tmp_path, capsys):
    domain = free_domain()
    path = toml(tmp_path / "onboard.toml", dds={"domain": domain}, record={"directory": "recordings"})
    config = load_config(path)
    site = ("--map", MAP, "--episode", str(EPISODE), "--config", path)
    windows, shown = [], []
    with (
        running("hil", "sim", *site, folder=tmp_path) as sim,
        running("onboard", "run", "--config", path, folder=tmp_path) as runtime,
        contextlib.closing(Wire(config.dds)) as wire,
    ):
        sim.wait_for("simulated robot")
        driver, localized = Driver(wire), wire.reader("amcl_pose")
        assert localized.wait(60.0)
        look_away(driver)
        for number in range(WINDOWS):
            if number % 2:
                began, ended, counts = look(config, tmp_path / "view.rrd", driver)
                shown.append(counts)
            else:
                began, ended = look_away(driver)
            windows.append((bool(number % 2), began, ended))
        assert runtime.end() == 0
        sim.end()
    found = read_figures(sorted((tmp_path / "recordings").glob("*.mcap")), windows)
    with capsys.disabled():
        print(f"\n{found[False].line('without')}\n{found[True].line('with a view')}")
        print(f"{sum(counts.shown for counts in shown)} messages shown")
    assert sum(len(counts.dropped) for counts in shown) == 0
    assert np.median(found[True].deviation_ms) < 3.0 * np.median(found[False].deviation_ms)
