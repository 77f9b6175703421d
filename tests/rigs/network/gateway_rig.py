"""A robot in its own ROS 2 domain, the gateway, and the runtime in a domain of its own: all as processes."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.rigs.machine.processes import ROOT, Command, running, toml
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain
from tests.rigs.network.ros2_peer import ROS_PYTHON, ros_environment

LIMIT_S = 90.0
"""For what takes seconds on a machine with time."""
SERVER = """<?xml version="1.0" encoding="UTF-8" ?>
<dds xmlns="http://www.eprosima.com/XMLSchemas/fastRTPS_Profiles"><profiles>
 <participant profile_name="server" is_default_profile="true"><rtps>
  <prefix>44.53.00.5f.45.50.52.4f.53.49.4d.41</prefix>
  <builtin>
   <discovery_config><discoveryProtocol>SERVER</discoveryProtocol></discovery_config>
   <metatrafficUnicastLocatorList>
    <locator><udpv4><address>127.0.0.1</address><port>{port}</port></udpv4></locator>
   </metatrafficUnicastLocatorList>
  </builtin></rtps></participant>
</profiles></dds>
"""
SERVICE = "diagnostic_msgs/srv/AddDiagnostics"


def free_port() -> int:
    """Return a UDP port that nobody has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ros_path(actions: Path) -> str:
    """Return the import path of the gateway's node and of the compiled messages."""
    return f"{ROOT / 'ros2' / 'onboard_gateway'}:{actions}"


class RosProcess:
    """A process of the robot's ROS 2 that writes JSON lines; `said` keeps all of them."""

    def __init__(self, *arguments: str | Path, domain: int, actions: Path, **extra: str) -> None:
        self.said: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [str(ROS_PYTHON), *map(str, arguments)],
            env={**ros_environment(domain), "PYTHONPATH": ros_path(actions), **extra},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def tell(self, **order: Any) -> None:
        """Give an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def answer(self, key: str, value: Any = None, limit_s: float = LIMIT_S) -> dict[str, Any]:
        """Return the first line with a key (and value), and forget it."""
        found: list[dict[str, Any]] = []

        def came() -> bool:
            found[:] = [line for line in self.said if key in line and value in (None, line[key])]
            return bool(found)

        until(came, limit_s)
        self.said.remove(found[0])
        return found[0]

    def ask(self, key: str, **order: Any) -> dict[str, Any]:
        """Give an order and return the answer with a key."""
        self.tell(**order)
        return self.answer(key)

    def close(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()
        self._listener.join()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.said.append(json.loads(line))


@dataclass
class GatewayRig:
    """One robot with everything; parts can be killed and started again."""

    folder: Path
    actions: Path
    domain: int
    ros_domain: int
    namespace: str = ""
    server: bool = False
    robot: RosProcess = field(init=False)
    node: RosProcess = field(init=False)
    half: Command = field(init=False)
    runtime: Command = field(init=False)

    def __post_init__(self) -> None:
        self.socket = self.folder / "g.sock"
        tables: dict[str, dict[str, Any]] = {
            "robot": {"name": self.namespace or "robot"},
            "scan": {"topic": "scan", "laser": [0.0, 0.0, 0.0]},
            "cameras": {"color": "none"},
            "odometry": {"scan_matching": False, "imu": "imu", "imu_rpy_deg": [0.0, 0.0, 0.0]},
            "policy": {"model": "reactive"},
            "record": {"enabled": False},
            "dds": {"namespace": self.namespace, "remap": {"odom": "wheel/odom", "scan": "seen/scan"}},
        }
        self.config = toml(self.folder / "onboard.toml", **tables)
        self._stack = contextlib.ExitStack()
        self._environment: dict[str, str] = {}
        if self.server:
            self._start_server(free_port())

    def _start_server(self, port: int) -> None:
        """Start Fast DDS's Discovery Server by a profile, in a node that does nothing else."""
        profile = self.folder / "server.xml"
        profile.write_text(SERVER.format(port=port))
        self._environment = {"FASTDDS_DEFAULT_PROFILES_FILE": str(profile)}
        self._ros("-c", "import rclpy; rclpy.init(); rclpy.spin(rclpy.create_node('server'))")
        self._environment = {"ROS_DISCOVERY_SERVER": f"127.0.0.1:{port}"}

    def start_runtime(self) -> None:
        self.runtime = self._command("run", "--config", self.config)

    def start_half(self) -> None:
        self.half = self._command("gateway", "--socket", self.socket, "--config", self.config)

    def start_node(self) -> None:
        arguments = ["-m", "onboard_gateway.gateway", "--ros-args", "-p", f"socket:={self.socket}"]
        services = (("start", "to_navigation"), ("stop", "to_rest"))
        for moment, name in services:
            arguments += ["-p", f'{moment}_services:=["{name} {SERVICE} {{load_namespace: {moment}}}"]']
        arguments += ["-r", f"__ns:=/{self.namespace}"] if self.namespace else []
        self.node = self._ros(*arguments)

    def start_robot(self) -> None:
        self.robot = self._ros(ROOT / "tests" / "ros2" / "robot_node.py", f"/{self.namespace}")
        self.robot.answer("ready")

    def start_sender(self) -> RosProcess:
        """Return a node of the same ROS 2 that only sends commands."""
        other = self._ros(ROOT / "tests" / "ros2" / "robot_node.py", f"/{self.namespace}", "sender")
        other.answer("ready")
        return other

    def start(self) -> None:
        """Start everything; return when the runtime is ready and the gateway has called the service of its start."""
        self.start_robot()
        self.start_runtime()
        self.start_half()
        self.start_node()
        assert self.robot.answer("service", "to_navigation")["field"] == "start"
        self.runtime.wait_for("] ready")

    def go(self, number: int, *poses: tuple[float, float, float], frame: str = "odom") -> bool:
        """Send a goal by the action; return whether it was accepted."""
        self.robot.tell(op="go", id=number, poses=poses, frame=frame)
        return bool(self.robot.answer("accepted", number)["ok"])

    def result(self, number: int) -> dict[str, Any]:
        """Return the result of a goal."""
        return self.robot.answer("result", number)

    def pose(self) -> tuple[float, float, float]:
        """Return where the robot is."""
        x_m, y_m, yaw_rad = self.robot.ask("base", op="base")["base"]
        return x_m, y_m, yaw_rad

    def wait_until_it_drives(self) -> None:
        """Return when the base has moved."""
        x_m = self.pose()[0]
        until(lambda: abs(self._later()[0] - x_m) > 0.1, LIMIT_S)

    def wait_until_it_stands(self) -> None:
        """Return when the base is at one place."""
        until(lambda: self.pose() == self._later(), LIMIT_S)

    def _later(self) -> tuple[float, float, float]:
        """Return where the robot is a moment later."""
        threading.Event().wait(0.3)
        return self.pose()

    def close(self) -> None:
        self._stack.close()

    def _command(self, *arguments: str | Path) -> Command:
        return self._stack.enter_context(running("onboard", *arguments, folder=self.folder, domain=self.domain))

    def _ros(self, *arguments: str | Path) -> RosProcess:
        process = RosProcess(*arguments, domain=self.ros_domain, actions=self.actions, **self._environment)
        self._stack.callback(process.close)
        return process


@contextlib.contextmanager
def gateway_rig(
    folder: Path, actions: Path, namespace: str = "", ros_domain: int | None = None, server: bool = False
) -> Iterator[GatewayRig]:
    """Yield a rig; its processes end with it. server: the robot's nodes find each other by a Discovery Server only"""
    folder.mkdir(exist_ok=True)
    rig = GatewayRig(folder, actions, free_domain(), ros_domain or free_domain(), namespace, server)
    try:
        yield rig
    finally:
        rig.close()
