"""`onboard foxglove`: a running robot in Foxglove, live, by the vendor's server, in a process of its own.

A topic is read only while a client subscribes to it. Commands are never read: the runtime would take that for a base
that listens. Images pass at most every `IMAGE_S`. A client that does not keep up loses messages beyond `BACKLOG`.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from typing import Annotated, Any

import typer

from onboard.commands.cli import ConfigOption
from onboard.config.config import Config, load_config
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.participant import Reader, Wire
from onboard.drivers.dds.ros_types import BY_ROS_NAME, from_cdr, to_cdr
from onboard.drivers.dds.topics import CAMERA, TOPICS, ros_topic, topic, type_of
from onboard.recording.ros_schema import message_type
from onboard.system.signals import Signals
from onboard.values.clock import wall_ns
from onboard.values.errors import DriverError, InputError, MissingExtraError

try:
    import foxglove as vendor
    from foxglove.websocket import Capability, ServerListener, WebSocketServer
except ImportError as error:
    raise MissingExtraError("foxglove-sdk", "foxglove") from error

UNREAD = ("cmd_vel", "cmd_vel_teleop", "used")
PUBLISHED = ("goal_pose", "pause", "cancel")
"""What a client may publish with `--allow-publish`."""
IMAGES = ("sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage")
PERIOD_S, IMAGE_S = 0.05, 0.2
BACKLOG = 32
LOOPBACK = ("127.0.0.1", "::1", "localhost")


class Bridge(ServerListener):
    """Joins the wire to Foxglove's server: a channel for each topic, a reader while somebody subscribes."""

    def __init__(self, config: Config, wire: Wire, publishing: bool) -> None:
        """Announce the topics. publishing: clients may send PUBLISHED. Raises ConfigError, DriverError."""
        self._config, self._wire = config, wire
        self._context = vendor.Context()
        self._channels: dict[str, vendor.Channel] = {}
        self._readers: dict[str, Reader] = {}
        self._kept: dict[str, bytes] = {}
        self._due_s: dict[str, float] = {}
        self._asked: set[str] = set()
        self._advertised: dict[tuple[int, int], str] = {}
        self._lock = threading.Lock()
        for name in names_of(config):
            kind = message_type(BY_ROS_NAME[type_of(config.dds, name)])
            schema = vendor.Schema(name=kind.name, encoding="ros2msg", data=kind.definition.encode())
            full = ros_topic(config.dds, name)
            self._channels[name] = vendor.Channel(full, schema=schema, message_encoding="cdr", context=self._context)
        self._writers = {ros_topic(config.dds, name): wire.writer(name) for name in PUBLISHED} if publishing else {}

    def serve(self, host: str, port: int) -> WebSocketServer:
        """Start the server. Raises InputError that names host and port."""
        allowed = [Capability.ClientPublish] if self._writers else []
        try:
            return vendor.start_server(
                name=f"onboard {self._config.robot.name}", host=host, port=port, capabilities=allowed,
                supported_encodings=["cdr"], server_listener=self, context=self._context,
                message_backlog_size=BACKLOG,
            )  # fmt: skip
        except (RuntimeError, OSError, ValueError) as error:
            raise InputError(f"--host {host} --port {port}: {error}; choose another with --port") from error

    def pass_on(self) -> None:
        """Pass on what has come for the subscribed topics. Raises DriverError when the link is gone."""
        with self._lock:
            asked, self._asked = self._asked, set()
        now_s = time.monotonic()
        for name, channel in self._channels.items():
            if not channel.has_sinks():
                if (unused := self._readers.pop(name, None)) is not None:
                    unused.close()
                continue
            if channel.topic() in asked and name in self._kept and name in self._readers:
                channel.log(self._kept[name], log_time=wall_ns())
            if now_s < self._due_s.get(name, 0.0):
                continue
            if name not in self._readers:
                self._readers[name] = self._wire.reader(name)
            self._pass(name, channel, now_s)

    def _pass(self, name: str, channel: vendor.Channel, now_s: float) -> None:
        row = topic(name)
        for message in self._readers[name].take():
            data = to_cdr(message.sample)
            channel.log(data, log_time=message.written_ns or wall_ns())
            if row.quality.latched:
                self._kept[name] = data
            if row.kind in IMAGES:
                self._due_s[name] = now_s + IMAGE_S

    # ---- called by threads of the server

    def on_subscribe(self, client: Any, channel: Any) -> None:
        """Note a new subscriber, who gets the last message of a latched topic."""
        with self._lock:
            self._asked.add(channel.topic)

    def on_client_advertise(self, client: Any, channel: Any) -> None:
        """Remember the topic that a client is going to publish on."""
        with self._lock:
            self._advertised[client.id, channel.id] = channel.topic

    def on_message_data(self, client: Any, client_channel_id: int, data: bytes) -> None:
        """Send a client's message on, if its topic is one of PUBLISHED; leave a damaged message out."""
        with self._lock:
            writer = self._writers.get(self._advertised.get((client.id, client_channel_id), ""))
        if writer is None:
            return
        try:
            writer.write(from_cdr(writer.kind, bytes(data)))
        except (InputError, DriverError) as error:
            sys.stderr.write(f"warning: a client's message was dropped: {error}\n")


def names_of(config: Config) -> list[str]:
    """Return our names of the topics that Foxglove is offered."""
    cameras = load_mounts(config.robot.mounts).depth
    names = (row.name.replace(CAMERA, camera) for row in TOPICS for camera in (cameras if CAMERA in row.name else [""]))
    return [name for name in names if name not in UNREAD]


def foxglove(
    config: ConfigOption = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 is every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free port.")] = 8765,
    allow_publish: Annotated[
        bool, typer.Option("--allow-publish", help="Accept goals, pause and cancel from every client.")
    ] = False,
) -> None:
    """Serve the running robot's topics to Foxglove, images only while a panel shows them."""
    loaded = load_config(config)
    with contextlib.closing(Wire(loaded.dds)) as wire, Signals() as signals:
        bridge = Bridge(loaded, wire, allow_publish)
        server = bridge.serve(host, port)
        ended = threading.Event()
        signals.stop_with(ended.set)
        if host not in LOOPBACK:
            moves = " and can move it" if allow_publish else ""
            sys.stderr.write(f"warning: anyone who can reach {host} sees the robot{moves}, without encryption\n")
        sys.stderr.write(f"foxglove of {loaded.robot.name}: open ws://{host}:{server.port}\n")
        try:
            while not ended.wait(PERIOD_S):
                bridge.pass_on()
        finally:
            server.stop()
