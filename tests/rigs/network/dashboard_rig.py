"""A dashboard over real HTTP before a real runtime on the wire, whose world is `runtime_bench.Bench`."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onboard.assembly.inbox import dds_inputs_of
from onboard.commands.operator.dashboard.command import _listening
from onboard.commands.operator.dashboard.feed import Feed
from onboard.commands.operator.dashboard.metrics import Webhook
from onboard.commands.operator.dashboard.orders import Orders
from onboard.commands.operator.dashboard.recordings import Recordings
from onboard.commands.operator.dashboard.server import Robot
from onboard.commands.operator.dashboard.server import Server as HttpServer
from onboard.commands.operator.dashboard.stop import Stop
from onboard.config.config import Config, DdsSection, MapSection
from onboard.counters import Counters
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.robot_link import DdsOutputs
from onboard.drivers.dds.ros_convert import pose_from_ros
from onboard.navigation.ekf import OUTLIERS_TO_RESTART
from onboard.perception.building.occupancy_grid import OccupancyGrid, write_grid
from onboard.recording.planned_path import PlannedPath
from onboard.recording.scene import Scene
from onboard.service.publisher import Publisher
from onboard.service.viewers import Viewers
from onboard.state import TickRecord
from onboard.values.messages import Inputs, Pose, Twist
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain
from tests.rigs.runtime_bench import MOUNTS, NEAR_MM, Bench, plain_config

BUILDING = OccupancyGrid(0.5, Pose(-10.0, -10.0, 0.0), np.pad(np.zeros((38, 38), np.int8), 1, constant_values=100))
"""A room of 20 m."""
TOKEN = "a-token-of-the-tests"


class Straight(PlannedPath):
    """The puppet's plan: straight to the goal."""

    def _planned(self, pose: Pose, goal: Any, memory: Any, map_from_start: Any) -> list[tuple[float, float]]:
        return [(pose.x_m, pose.y_m), goal]


class LiveRobot:
    """A bench in real time: goals, stop, pause and cancel are from the wire, and it publishes as `onboard run` does."""

    def __init__(self, domain: int, **sections: Any) -> None:
        _warm_up(**sections)
        self.bench = Bench(dds=DdsSection(domain=domain), listeners=(self,), **sections)
        self.config = self.bench.config
        self._wire = Wire(self.config.dds)
        self._inputs = dds_inputs_of(self.config, self._wire)
        self._initial = self._wire.reader("initialpose")
        self._publisher = Publisher(DdsOutputs(self._wire, MOUNTS, self.config.robot.name, 10.0))
        self._viewers = Viewers(self._wire, Scene(self.config, building=BUILDING, planned=Straight(self.config, None)))
        self.bench.alter = self._with_orders
        self.sent: list[tuple[float, Twist]] = []
        self._fixes: list[Pose] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def tick(self, record: TickRecord, counters: Counters) -> None:
        self.sent.append((time.monotonic(), record.command))
        self._publisher.publish(record, counters, list, None)
        self._viewers.tick(record, counters)

    @property
    def command(self) -> Twist:
        return self.sent[-1][1]

    @property
    def moves(self) -> bool:
        return self.command.v_mps > 0.0

    def localise(self, pose: Pose) -> None:
        """Let fixes of the next ticks say so: as many as start a filter anew that believes in another place."""
        self._fixes += [pose] * OUTLIERS_TO_RESTART

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self._viewers.close()
        self._wire.close()

    def _with_orders(self, inputs: Inputs) -> Inputs:
        heard = self._inputs.take(inputs.now_ns)
        if self._fixes:
            self.bench.fix(self._fixes.pop(0), np.diag([1e-3, 1e-3, 1e-4]))
        for message in self._initial.take():  # as a localisation does
            self.localise(pose_from_ros(message.sample.pose.pose))
        return replace(
            inputs, goals=heard.goals, cancel=heard.cancel, pause=heard.pause, e_stop=heard.e_stop, battery=0.8
        )

    def _run(self) -> None:
        while not self._ended.wait(1.0 / self.config.rates.control_hz):
            self.bench.tick()


def _warm_up(**sections: Any) -> None:
    """Compile what a drive needs, as `onboard run` does before its first tick."""
    bench = Bench(**sections)
    for pressed in (False, True, False):
        bench.e_stop = pressed
        bench.ticks(5)
        bench.ask()
        bench.seconds(3.0)
    bench.wall("front", NEAR_MM)
    bench.seconds(15.0)


class Server:
    """A dashboard that listens. `ask` returns status and body of a request, JSON as a value."""

    def __init__(self, config: Config, folder: Path, token: str | None, webhook: str | None, port: int) -> None:
        self._held = contextlib.ExitStack()
        wire = self._held.enter_context(contextlib.closing(Wire(config.dds)))
        hook = Webhook(webhook, config.robot.name) if webhook else None
        notify = hook.note if hook else lambda status: None
        self.feed = self._held.enter_context(contextlib.closing(Feed(config, wire, notify)))
        self.stop = self._held.enter_context(contextlib.closing(Stop(config, wire, folder / ".stop")))
        recordings = self._held.enter_context(contextlib.closing(Recordings(folder)))
        self.robot = Robot(config, self.feed, self.stop, Orders(config, wire, self.feed, self.stop), recordings, token)
        self._socket = _listening("127.0.0.1", port)
        self.port = self._socket.getsockname()[1]
        self._server = HttpServer(self.robot, ["127.0.0.1"])
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)
        self._thread.start()
        until(lambda: self._server.started)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=100.0)
        try:
            text = body if isinstance(body, (str, bytes)) or body is None else json.dumps(body)
            connection.request(method, path, text, {name.replace("_", "-"): value for name, value in headers.items()})
            reply = connection.getresponse()
            data = reply.read()
            kind = reply.getheader("content-type", "")
            return reply.status, json.loads(data) if "json" in kind else data
        finally:
            connection.close()

    def order(self, name: str, body: Any = None, token: str = TOKEN) -> tuple[int, Any]:
        return self.ask("POST", f"/api/{name}", body if body is not None else {}, Authorization=f"Bearer {token}")

    def never_read(self) -> socket.socket:
        """Return a browser that opens the stream and never reads it."""
        opened = socket.create_connection(("127.0.0.1", self.port))
        opened.sendall(b"GET /api/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        return opened

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(20.0)
        self._held.close()


@contextlib.contextmanager
def live_robot(**sections: Any) -> Iterator[LiveRobot]:
    robot = LiveRobot(free_domain(), **sections)
    with contextlib.closing(robot):
        yield robot


@contextlib.contextmanager
def serving(
    config: Config, folder: Path, token: str | None = TOKEN, webhook: str | None = None, port: int = 0
) -> Iterator[Server]:
    server = Server(config, folder, token, webhook, port)
    with contextlib.closing(server):
        yield server


def in_building(config: Config, folder: Path) -> Config:
    """Return the configuration with the map BUILDING in a folder, and two places."""
    write_grid(BUILDING, folder / "map.yaml", folder / "map.pgm")
    (folder / "places.toml").write_text("[dock]\nx_m = 2.0\ny_m = 0.0\n[hall]\nx_m = 2.0\ny_m = 4.0\nyaw_deg = 90.0\n")
    return config.model_copy(update={"map": MapSection(file=folder / "map.yaml")})


def lonely_config() -> Config:
    """Return a configuration on a domain without a runtime."""
    return plain_config(dds=DdsSection(domain=free_domain()))
