"""The runtime as it will run on the robot, on real parts: processes, DDS, a ROS 2 node, a RealSense recording."""

from __future__ import annotations

import contextlib
import math
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rosbags.highlevel import AnyReader, AnyReaderError

from hil.drive.episodes import load_episodes
from onboard.config.config import DdsSection
from onboard.drivers.dds.participant import Reader, Wire
from onboard.drivers.dds.ros_convert import ros_goal, ros_odometry
from onboard.values.clock import NS_PER_S, wall_ns
from onboard.values.messages import STOP, Pose
from tests.rigs.machine.processes import PATIENCE_S, Command, done, next_message, running, toml
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain
from tests.rigs.network.ros2_peer import ROS_PYTHON, Peer

OFFICE = Path(__file__).parents[3] / "data" / "realsense-recording" / "office_40f.db3"
MAP, EPISODE = "gdc1", 3
GOAL = Pose(*load_episodes(MAP).episodes[EPISODE].goal_xy_m, 0.0)
"""13.6 m, nearly straight."""
needs_ros = pytest.mark.skipif(
    ROS_PYTHON is None, reason="no ROS 2 here: `make test` prepares .venv-ros; or set ONBOARD_ROS_PYTHON"
)
TWIST, POSE, SCAN = "geometry_msgs/msg/Twist", "geometry_msgs/msg/PoseStamped", "sensor_msgs/msg/LaserScan"
TEXT, DIAGNOSTICS = "std_msgs/msg/String", "diagnostic_msgs/msg/DiagnosticArray"
MOVING_MPS = 0.3
SAY_AGAIN_S = 0.5
REST_MPS = 0.02
TIMEOUT_TICKS, BRAKING_TICKS, IN_FLIGHT = 15, 30, 3
"""Odometry comes at 30 Hz: the base's own time-out of 0.5 s, and a second to brake from 1 m/s."""
SAFE_AFTER_NS = 2 * NS_PER_S
"""Twice `FLUSH_S` of the recorder: the first commands are in the file, on a busy machine too."""


@dataclass(frozen=True, slots=True)
class Place:
    """A folder, a domain, and our end of its wire, beside the commands under test."""

    folder: Path
    domain: int
    wire: Wire

    def config(self, **tables: dict[str, Any]) -> Path:
        """Write a configuration that records into the folder."""
        return toml(self.folder / "onboard.toml", record={"directory": "recordings"}, **tables)

    def run(self, *arguments: str | Path, config: Path | None = None, **options: Any) -> Any:
        """Start `onboard run` here."""
        given = config or self.config()
        return running(
            "onboard", "run", "--config", given, *arguments, folder=self.folder, domain=self.domain, **options
        )

    def recordings(self) -> list[Path]:
        """Return the recordings so far, oldest first."""
        return sorted((self.folder / "recordings").glob("*.mcap"))


@contextlib.contextmanager
def place(folder: Path) -> Iterator[Place]:
    """Come up on a domain of its own."""
    domain = free_domain()
    with contextlib.closing(Wire(DdsSection(domain=domain))) as wire:
        yield Place(folder, domain, wire)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Place]:
    with place(tmp_path) as one:
        yield one


@contextlib.contextmanager
def simulated(folder: Path) -> Iterator[Place]:
    """A simulated robot at one end of a hall."""
    with (
        place(folder) as one,
        running("hil", "sim", "--map", MAP, "--episode", EPISODE, folder=one.folder, domain=one.domain) as sim,
    ):
        sim.wait_for("simulated robot")
        yield one


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with simulated(tmp_path_factory.mktemp("hall")) as one:
        yield one


# ---- a ROS 2 node tells the robot where to go, and listens -------------------------------------------------------


@pytest.fixture
def node(hall: Place) -> Iterator[Peer]:
    peer = Peer(hall.domain)
    yield peer
    peer.close()


def ros_pose(goal: Pose) -> dict[str, Any]:
    return {"header": {"frame_id": "map"}, "pose": {"position": {"x": goal.x_m, "y": goal.y_m}}}


def hear_until(
    node: Peer, topic: str, wanted: Any, qos: str = "default", say: Any = lambda: None
) -> list[dict[str, Any]]:
    """Return all that the node hears of a topic up to the first message that is wanted.

    `say` is called whenever nothing new is heard: what the node says once may be lost, as long as the runtime does not
    know it, however long the node has known the runtime.
    """
    received: list[dict[str, Any]] = []

    def arrived() -> bool:
        message = node.hear(topic, qos, SAY_AGAIN_S)
        if message is None:
            say()
            return False
        received.append(message["fields"])
        return bool(wanted(message["fields"]))

    until(arrived, PATIENCE_S)
    return received


def speed(command: dict[str, Any]) -> tuple[float, float]:
    return command["linear"]["x"], command["angular"]["z"]


@needs_ros
def test_a_ros_node_sends_the_robot_and_cancels(hall: Place, node: Peer) -> None:
    for topic, kind, qos in [
        ("/cmd_vel", TWIST, "default"),
        ("/scan", SCAN, "sensor"),
        ("/diagnostics", DIAGNOSTICS, "default"),
        ("/onboard/state", TEXT, "latched"),
    ]:
        node.subscribe(topic, kind, qos)
    send = partial(node.publish, "/goal_pose", POSE, ros_pose(GOAL))
    cancel = partial(node.publish, "/onboard/cancel", "std_msgs/msg/Empty")
    with hall.run() as runtime:
        runtime.wait_for("ready")
        localised = lambda array: any(row["message"] == "localized" for row in array["status"])  # noqa: E731
        hear_until(node, "/diagnostics", localised)

        states = hear_until(node, "/onboard/state", lambda state: state["data"] == "navigating", "latched", send)
        assert {state["data"] for state in states[:-1]} <= {"idle"}
        hear_until(node, "/cmd_vel", lambda command: speed(command)[0] > MOVING_MPS)
        scan = hear_until(node, "/scan", lambda scan: scan["header"]["frame_id"] == "base_link", "sensor")[-1]
        assert len(scan["ranges"]) == 180
        assert sum(math.isfinite(range_m) for range_m in scan["ranges"]) > 20

        hear_until(node, "/onboard/state", lambda state: state["data"] == "idle: cancelled", "latched", cancel)
        hear_until(node, "/cmd_vel", lambda command: speed(command) == (0.0, 0.0))
        rows = {row["name"]: row for row in hear_until(node, "/diagnostics", localised)[-1]["status"]}
        assert {"runtime", "policy", "command", "pose", "recorder", "camera front"} <= set(rows)
        assert runtime.end() == 0


# ---- whatever ends the runtime, the robot stops ------------------------------------------------------------------


@pytest.fixture(scope="module")
def stops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Another hall, in which the robot is stopped on its way again and again."""
    with simulated(tmp_path_factory.mktemp("stops")) as one:
        yield one


class Drive:
    """What a drive says on the wire."""

    def __init__(self, where: Place) -> None:
        wire = where.wire
        self.commands: Reader = wire.reader("cmd_vel")
        self.odometry: Reader = wire.reader("odom")
        self.diagnostics: Reader = wire.reader("diagnostics")
        self.states: Reader = wire.reader("state")
        self._goal = wire.writer("goal_pose")

    def begin(self, runtime: Command, goal: Pose = GOAL) -> None:
        """Return once the robot drives on its way to the goal."""
        runtime.wait_for("ready")
        next_message(self.diagnostics, lambda array: any(row.message == "localized" for row in array.status))
        self._goal.write(ros_goal(wall_ns(), "map", goal))
        next_message(self.odometry, lambda message: message.twist.twist.linear.x > MOVING_MPS)

    def last_command(self) -> tuple[float, float]:
        """Return the last command on the wire of a runtime that has ended."""
        until(lambda: not self.commands.writers(), PATIENCE_S)
        newest = self.commands.take()[-1].sample
        return newest.linear.x, newest.angular.z


#   how it ends        what is done                                                        exit code
ENDS = [
    ("SIGTERM", lambda runtime: runtime.interrupt(signal.SIGTERM), 0),
    pytest.param("SIGINT", lambda runtime: runtime.interrupt(signal.SIGINT), 0, marks=pytest.mark.long),
    pytest.param("exception", lambda runtime: (runtime.folder / "break").touch(), 1, marks=pytest.mark.long),
]
BREAKABLE = """
from pathlib import Path
from onboard.perception import scan_fusion
from onboard.__main__ import main
whole = scan_fusion.fuse
def fuse(*arguments):
    if Path("break").exists():
        raise RuntimeError("broken on purpose")
    return whole(*arguments)
scan_fusion.fuse = fuse
main()
"""


@pytest.mark.parametrize(("name", "end", "code"), ENDS, ids=["SIGTERM", "SIGINT", "exception"])
def test_the_last_command_is_zero(stops: Place, name: str, end: Any, code: int) -> None:
    """A module that runs the command with one part that can break, so that the exception is like any other."""
    (stops.folder / "breakable.py").write_text(BREAKABLE)
    drive = Drive(stops)
    arguments = ["run", "--config", stops.config(), "--json", "result.json"]
    with running("breakable", *arguments, folder=stops.folder, domain=stops.domain) as runtime:
        drive.begin(runtime)
        end(runtime)
        assert runtime.wait() == code
    (stops.folder / "break").unlink(missing_ok=True)
    assert drive.last_command() == (0.0, 0.0)
    assert ("broken on purpose" in runtime.err) == (name == "exception")
    next_message(drive.odometry, lambda message: message.twist.twist.linear.x == 0.0)
    assert opens(stops.recordings()[-1])["/cmd_vel"] > 0


def opens(recording: Path) -> dict[str, int]:
    """Return the messages a topic of a recording, counted by rosbags."""
    with AnyReader([recording]) as reader:
        return {connection.topic: connection.msgcount for connection in reader.connections}


def last_stamp_ns(recording: Path, topic: str) -> int:
    """Return when the last message of a topic was recorded."""
    with AnyReader([recording]) as reader:
        wanted = [connection for connection in reader.connections if connection.topic == topic]
        return max(stamp_ns for _, stamp_ns, _ in reader.messages(connections=wanted))


def test_after_kill_9_the_base_stops_and_the_recording_is_there(stops: Place) -> None:
    drive = Drive(stops)
    with stops.run() as runtime:
        drive.begin(runtime)
        drives_ns = wall_ns()
        next_message(drive.commands, lambda command: wall_ns() - drives_ns > SAFE_AFTER_NS)
        drive.odometry.take()
        runtime.interrupt(signal.SIGKILL)
        killed_ns = wall_ns()
        ticks = 0
        while abs(next_message(drive.odometry).sample.twist.twist.linear.x) > REST_MPS:
            ticks += 1
    assert ticks <= TIMEOUT_TICKS + BRAKING_TICKS + IN_FLIGHT
    killed = stops.recordings()[-1]
    with pytest.raises(AnyReaderError):
        opens(killed)
    with stops.run("--for", "0.2") as runtime:
        assert runtime.wait() == 0
    assert "recording_repaired" in runtime.err
    assert opens(killed)["/cmd_vel"] > 0
    assert killed_ns - last_stamp_ns(killed, "/cmd_vel") < NS_PER_S
    again = done("onboard", "repair", killed, folder=stops.folder)
    assert again.out == f"{killed}: already complete, not changed\n"


# ---- a real RealSense recording, a goal from ROS 2 ---------------------------------------------------------------

OFFICE_MOUNT = {
    "width": 640,
    "height": 480,
    "fx": 384.0,
    "fy": 384.0,
    "cx": 320.0,
    "cy": 240.0,
    "translation_m": [0.2, 0.0, 0.63],
}
PITCH_RAD = math.radians(20.0)


def looking_down(pitch_rad: float) -> list[float]:
    """Return the rotation, x y z w, of an optical frame that looks ahead and down by an angle."""
    s, c = math.sin(pitch_rad / 2), math.cos(pitch_rad / 2)
    x, y, z, w = -0.5, 0.5, -0.5, 0.5  # of one that looks straight ahead; the pitch, about y, comes after it
    return [c * x + s * z, c * y + s * w, c * z - s * x, c * w - s * y]


def office(here: Place) -> Path:
    """Write the configuration of a robot whose only camera plays the recording."""
    toml(here.folder / "mounts.toml", **{"cameras.front": OFFICE_MOUNT | {"rotation_xyzw": looking_down(PITCH_RAD)}})
    cameras = {"source": "realsense", "recordings": {"front": OFFICE}, "color": "none"}
    return here.config(robot={"mounts": "mounts.toml"}, cameras=cameras)


def wheels_say(here: Place) -> None:
    """Say once that the robot stands."""
    here.wire.writer("odom").write(ros_odometry(wall_ns(), "odom", "base_link", Pose(0.0, 0.0, 0.0), STOP))


def ahead(distance_m: float) -> dict[str, Any]:
    return {"header": {"frame_id": "base_link"}, "pose": {"position": {"x": distance_m}}}


@needs_ros
def test_a_real_recording_drives_and_a_ros_node_hears_it(here: Place) -> None:
    pytest.importorskip("pyrealsense2", exc_type=ImportError)
    node = Peer(here.domain)
    node.subscribe("/cmd_vel", TWIST)
    node.subscribe("/scan", SCAN, "sensor")
    with here.run(config=office(here)) as runtime:
        runtime.wait_for("ready")
        node.publish("/goal_pose", POSE, ahead(3.0))
        scans, commands = [], []

        def drives() -> bool:
            wheels_say(here)
            if "goal_accepted" not in runtime.err:
                node.publish("/goal_pose", POSE, ahead(3.0))
            scans.extend(filter(None, [node.hear("/scan", "sensor", 0.01)]))
            commands.extend(filter(None, [node.hear("/cmd_vel", "default", 0.01)]))
            return any(speed(command["fields"]) != (0.0, 0.0) for command in commands)

        until(drives, PATIENCE_S)
        assert runtime.end() == 0
    node.close()
    seen = max(sum(math.isfinite(range_m) for range_m in scan["fields"]["ranges"]) for scan in scans)
    assert seen > 20  # of the 40 bins before an 80 degree wide camera
    recorded = opens(here.recordings()[-1])
    assert recorded["/front/depth/image"] > 0
    assert recorded["/cmd_vel"] > 0
