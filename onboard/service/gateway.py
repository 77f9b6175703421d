"""The runtime's half of the gateway: passes messages between the runtime's DDS domain and a ROS node on a Unix socket.

The other half, `ros2/onboard_gateway`, is a node in the robot's own ROS 2, with any middleware. A frame is one packet:
topic, a zero byte, source time [ns] (8 bytes, little endian), and the message as ROS serialises it. The first packet
that the node receives is a JSON text with the types and the names of the topics.

Without a node this half cancels any drive: the base hears no command then. A socket that is full drops a message;
nothing waits.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import stat
import struct
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import structlog

from onboard.config.config import DdsSection
from onboard.drivers.dds.participant import Reader, Wire, Writer, wait_for_any
from onboard.drivers.dds.ros_types import DiagnosticArray, Empty, from_cdr, ros_name, to_cdr
from onboard.drivers.dds.topics import Topic, topic, type_of
from onboard.values.errors import DriverError, InputError

log = structlog.get_logger()

TO_RUNTIME = (
    "odom", "amcl_pose", "initialpose", "e_stop", "obstacle", "speed_limit", "goal_pose", "goals", "cancel", "pause",
    "cmd_vel_teleop", "battery",
)  # fmt: skip
VIEWED = ("map", "path", "plan", "arc", "footprint", "markers")
FROM_RUNTIME = ("cmd_vel", "state", "drive", "diagnostics", "scan", "tf", *VIEWED)
TIME = struct.Struct("<q")
MOST_BYTES = 1 << 20
"""Of one message; the kernel's own limit may be lower."""
OWN_SCAN = "onboard/scan"
"""In the robot's ROS; there `scan` is often a lidar's."""
POLL_S = 0.2
DEFAULT_SOCKET = Path("/run/onboard/gateway.sock")
MODE = 0o660


class Gateway:
    """One robot's topics on a socket, for one node at a time."""

    def __init__(self, section: DdsSection, sensors: Collection[Topic], path: Path) -> None:
        """Open topics and socket. Raises ConfigError, DriverError, InputError for a path that cannot be used.

        sensors: topics of lasers, point clouds and the IMU
        """
        self._path, self._listening = path, _listen(path)
        self._wire = wire = Wire(section)
        self._writers: dict[str, Writer] = {name: wire.writer(_kept(topic(name))) for name in TO_RUNTIME}
        self._writers |= {row.name: wire.writer(row) for row in sensors}
        self._readers: dict[str, Reader] = {name: wire.reader(name) for name in FROM_RUNTIME}
        to_runtime = {name: ros_name(writer.kind) for name, writer in self._writers.items()}
        from_runtime = {name: type_of(section, name) for name in FROM_RUNTIME}
        frames = {"map": section.map_frame, "odom": section.odom_frame}
        hello: dict[str, object] = {"to_runtime": to_runtime, "from_runtime": from_runtime, "frames": frames}
        rows = (*map(topic, (*TO_RUNTIME, *FROM_RUNTIME)), *sensors)
        names = {row.name: section.remap.get(row.name, row.wire) for row in rows}
        if names["scan"] == topic("scan").wire:
            names["scan"] = OWN_SCAN
        hello["names"] = names
        hello["pressed"] = {"e_stop": section.e_stop_pressed, "obstacle": True}
        self._hello = json.dumps(hello).encode()
        self._peer: socket.socket | None = None
        self._map = b""
        self._dropped = 0
        self._ended = threading.Event()

    def run(self) -> None:
        """Pass messages until `stop`. Raises DriverError if the link to the runtime's domain is gone."""
        parts = ("cmd_vel",), tuple(name for name in self._readers if name != "cmd_vel")  # commands wait for nothing
        senders = [
            threading.Thread(target=self._send_all, args=(names,), name="to-ros", daemon=True) for names in parts
        ]
        for sender in senders:
            sender.start()
        log.info("gateway_listens", socket=str(self._path), domain=self._wire.domain)
        while all(sender.is_alive() for sender in senders) and not self._ended.is_set():
            peer = self._accepted()
            if peer is not None:
                self._serve(peer)
        if not self._ended.is_set():
            raise DriverError("dds: the link to the runtime's domain is gone")

    def stop(self) -> None:
        """End `run`; a signal handler may call this."""
        self._ended.set()

    def close(self) -> None:
        """Release socket and topics. Safe to call twice."""
        self._ended.set()
        self._listening.close()
        self._path.unlink(missing_ok=True)
        self._wire.close()

    def _accepted(self) -> socket.socket | None:
        if not select.select([self._listening], [], [], POLL_S)[0]:
            return None
        peer, _ = self._listening.accept()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, MOST_BYTES)
        peer.setblocking(False)
        peer.send(self._hello)
        return peer

    def _serve(self, peer: socket.socket) -> None:
        """Pass a node's messages to the runtime until it goes; a second node is refused meanwhile."""
        log.info("gateway_node_came")
        self._peer = peer
        if self._map:  # published once, at the runtime's start
            self._send("map", self._map)
        with contextlib.closing(peer), contextlib.suppress(ConnectionError):
            while not self._ended.is_set():
                ready, _, _ = select.select([peer, self._listening], [], [], POLL_S)
                if self._listening in ready:
                    self._listening.accept()[0].close()
                    log.warning("gateway_second_node", what="refused: another is connected")
                if peer in ready:
                    packet = peer.recv(MOST_BYTES)
                    if not packet:
                        break
                    self._pass_on(packet)
        self._peer = None
        log.warning("gateway_node_gone", what="any drive is cancelled")

    def _pass_on(self, packet: bytes) -> None:
        """Write one message into the runtime's domain; one that is not valid is dropped with a line."""
        name, zero, rest = packet.partition(b"\0")
        writer = self._writers.get(name.decode(errors="replace"))
        try:
            if writer is None or not zero or len(rest) < TIME.size:
                raise InputError(f"{name[:40]!r} is not a topic to the runtime")
            (written_ns,) = TIME.unpack_from(rest)
            writer.write(from_cdr(writer.kind, rest[TIME.size :]), written_ns if written_ns > 0 else None)
        except InputError as error:
            log.warning("gateway_message_dropped", topic=name.decode(errors="replace"), reason=str(error))

    def _send_all(self, names: Sequence[str]) -> None:
        """Send the runtime's messages on some topics to the node, until the end or an error of the link."""
        readers = {name: self._readers[name] for name in names}
        with contextlib.suppress(DriverError):
            while not self._ended.is_set():
                if wait_for_any(list(readers.values()), POLL_S):
                    for name, reader in readers.items():
                        for message in reader.take():
                            content = TIME.pack(message.written_ns) + to_cdr(message.sample)
                            self._map = content if name == "map" else self._map
                            self._send(name, content)
                            if name == "drive" and self._peer is None and _drives(message.sample):
                                self._writers["cancel"].write(Empty())

    def _send(self, name: str, content: bytes) -> None:
        peer = self._peer
        if peer is None:
            return
        try:
            peer.send(name.encode() + b"\0" + content)
        except OSError as error:  # full, too long, or gone: `_serve` finds the last
            self._dropped += 1
            if self._dropped & (self._dropped - 1) == 0:  # the first, second, fourth ...
                log.warning("gateway_dropped", topic=name, reason=error.strerror, count=self._dropped)


def _drives(report: DiagnosticArray) -> bool:
    """Return whether a report of `/onboard/drive` is of a robot that drives (`scene.drive_row`)."""
    return any(pair.key == "goals_left" and pair.value != "0" for row in report.status for pair in row.values)


def _kept(row: Topic) -> Topic:
    """Return a row whose writer keeps its last message for a runtime that starts later, if its reader asks for it."""
    return replace(row, quality=replace(row.quality, latched=True)) if row.quality.read_latched else row


def _listen(path: Path) -> socket.socket:
    """Return the socket that a node connects to. Raises InputError for a path that cannot be used."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        if path.exists():
            if not stat.S_ISSOCK(path.stat().st_mode):
                raise InputError(f"{path}: exists, and is not a socket")
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)) as probe:
                if probe.connect_ex(str(path)) == 0:
                    raise InputError(f"{path}: another `onboard gateway` is listening there")
            path.unlink()
        listening.bind(str(path))
        os.chmod(path, MODE)
        listening.listen(4)
    except OSError as error:
        listening.close()
        raise InputError(f"{path}: cannot listen: {error.strerror}; choose another with --socket") from error
    except InputError:
        listening.close()
        raise
    return listening
