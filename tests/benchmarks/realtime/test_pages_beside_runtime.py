"""What ten open pages cost the runtime, in turn with none in the same drives; and how soon STOP is zero on the wire."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil
import pytest

from hil.drive.episodes import load_episodes
from hil.recordings.recording import TICK, open_recording
from onboard.config.config import load_config
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_goal
from onboard.values.clock import wall_ns
from onboard.values.messages import Pose
from tests.rigs.machine.processes import running, toml
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

MAP, EPISODE = "gdc1", 5
WINDOWS, WINDOW_S, STEER_S = 16, 5.0, 0.1
DELAY_MS = 100.0
"""A decision is to act so long after its tick sensed."""
DRIVING = ("navigating", "recovering")
PAGES, STOPS = 10, 40
TOKEN = "a-token-of-the-benchmarks"


class Driver:
    """Sends the robot to the goal and back, for ever."""

    def __init__(self, wire: Wire) -> None:
        known = load_episodes(MAP).episodes[EPISODE]
        self._ends = [Pose(*known.goal_xy_m, 0.0), known.start]
        self._goal, self._states = wire.writer("goal_pose"), wire.reader("state")
        self._drives, self._state = 0, "idle"

    def steer(self) -> None:
        """Give the next goal when the last is done."""
        for message in self._states.take():
            self._state = message.sample.data
        if not self._state.startswith(DRIVING):
            self._goal.write(ros_goal(wall_ns(), "map", self._ends[self._drives % 2]))
            self._drives, self._state = self._drives + 1, DRIVING[0]


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


def let_pass(driver: Driver) -> tuple[int, int]:
    """Let one window pass."""
    began_ns, pause = wall_ns(), threading.Event()
    while wall_ns() - began_ns < WINDOW_S * 1e9:
        driver.steer()
        pause.wait(STEER_S)
    return began_ns, wall_ns()


def read_figures(recordings: list[Path], windows: list[tuple[bool, int, int]]) -> dict[bool, Figures]:
    """Return the figures with (True) and without pages, from the runtime's own recording."""
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
                for open_pages in (kind for kind, began, ended in windows if began <= message.time_ns < ended):
                    figures = found[open_pages]
                    figures.late_ms.append((tick.start_ns - tick.deadline_ns) / 1e6)
                    figures.missed += tick.missed
                    if tick.acted and tick.action >= 0:
                        took_ms = (tick.sent_ns - sensed_ns[tick.acted]) / 1e6
                        figures.deviation_ms.append(abs(took_ms - DELAY_MS))
    return found


@contextlib.contextmanager
def pages(port: int, count: int) -> Iterator[None]:
    """Keep pages open that read all they get."""
    ended = threading.Event()

    def read() -> None:
        with socket.create_connection(("127.0.0.1", port)) as opened:
            opened.settimeout(0.5)
            opened.sendall(b"GET /api/live HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    opened.recv(1 << 16)

    readers = [threading.Thread(target=read) for _ in range(count)]
    for reader in readers:
        reader.start()
    yield
    ended.set()
    for reader in readers:
        reader.join()


class Stops:
    """Presses the page's stop while the robot drives, and watches the wire."""

    def __init__(self, wire: Wire, port: int) -> None:
        self._commands, self._port = wire.reader("cmd_vel"), port
        self._speed, self._zero_ns = 0.0, 0
        self.took_ms: list[float] = []

    def ask(self, order: str, body: object = None) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60.0)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        connection.request("POST", f"/api/{order}", json.dumps(body or {}), headers)
        assert connection.getresponse().status == 200
        connection.close()

    def press(self, goal: tuple[float, float]) -> None:
        self.ask("goal", {"x": goal[0], "y": goal[1], "frame": "map"})
        until(lambda: self._look() > 0.15, 60.0)
        pressed_ns = wall_ns()
        self.ask("stop")
        until(lambda: self._look() == 0.0 and self._zero_ns > pressed_ns, 60.0)
        self.took_ms.append((self._zero_ns - pressed_ns) / 1e6)

    def _look(self) -> float:
        for message in self._commands.take():
            self._speed = abs(message.sample.linear.x) + abs(message.sample.angular.z)
            if self._speed == 0.0:
                self._zero_ns = message.written_ns
        return self._speed


@pytest.mark.long
@pytest.mark.timeout(900)
def test_ten_pages_leave_the_tick_as_it_is_and_stop_is_soon_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONBOARD_TOKEN", TOKEN)
    path = toml(tmp_path / "onboard.toml", dds={"domain": free_domain()}, record={"directory": "recordings"})
    config = load_config(path)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve = ("dashboard", "--config", path, "--port", str(port), "--allow-control")
    windows, cpu = [], {False: 0.0, True: 0.0}
    with (
        running("hil", "sim", "--map", MAP, "--episode", str(EPISODE), "--config", path, folder=tmp_path) as sim,
        running("onboard", "run", "--config", path, folder=tmp_path) as runtime,
        running("onboard", *serve, folder=tmp_path) as dashboard,
        contextlib.closing(Wire(config.dds)) as wire,
    ):
        sim.wait_for("simulated robot")
        dashboard.wait_for("dashboard of")
        driver, localized = Driver(wire), wire.reader("amcl_pose")
        assert localized.wait(60.0)
        let_pass(driver)
        used = psutil.Process(dashboard.process.pid)
        for number in range(WINDOWS):
            with pages(port, PAGES * (number % 2)):
                before = sum(used.cpu_times()[:2])
                windows.append((bool(number % 2), *let_pass(driver)))
                cpu[bool(number % 2)] += sum(used.cpu_times()[:2]) - before
        stops = Stops(wire, port)
        for number in range(STOPS):
            end = driver._ends[number // 8 % 2]
            stops.press((end.x_m, end.y_m))
        dashboard.end()
        assert runtime.end() == 0
        sim.end()
    found = read_figures(sorted((tmp_path / "recordings").glob("*.mcap")), windows)
    late = {kind: np.percentile(found[kind].late_ms, [50, 99]) for kind in found}
    share = {kind: 100.0 * one / (WINDOWS / 2 * WINDOW_S) for kind, one in cpu.items()}
    with capsys.disabled():
        print(f"\n{found[False].line('no page')}\n{found[True].line(f'{PAGES} pages')}")
        print(f"ratio of lateness: p50 {late[True][0] / late[False][0]:.2f}, p99 {late[True][1] / late[False][1]:.2f}")
        print(f"dashboard: {share[False]:.1f} % of a core without a page, {share[True]:.1f} % with {PAGES}")
        took = np.percentile(stops.took_ms, [50, 99])
        print(f"{STOPS} stops: from the press to zero on the wire p50 {took[0]:.0f}, p99 {took[1]:.0f} ms")
    assert late[True][0] < 3.0 * late[False][0]
