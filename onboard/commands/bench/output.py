"""The outputs of a tick: a command to another process, and images to the disk.

Commands go over the loopback interface on a DDS domain of their own, so no base can hear them.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from onboard.commands.bench.computing import room
from onboard.commands.bench.rows import Row, duration_ms, quantiles, row
from onboard.config.config import Config, DdsSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.robot_link import DdsDrive
from onboard.drivers.dds.ros_convert import ros_image
from onboard.recording.recorder import Message, Recorder
from onboard.recording.retention import nearest
from onboard.recording.ros_schema import message_type
from onboard.values.clock import wall_ns
from onboard.values.errors import DriverError
from onboard.values.images import POLICY_HEIGHT, POLICY_WIDTH
from onboard.values.messages import STOP, Twist

DOMAIN = 101
"""DDS domain of the benchmark; the highest whose ports the kernel gives to no other program."""
COMMANDS, PERIOD_S = 300, 0.01
DATAGRAM = 64
"""Bytes of the peer's datagram, about those of a command on the wire."""
SILENCE_S, PATIENCE_S = 0.5, 60.0
"""The reader ends after this silence; and how long both wait for its start and for the first command [s]."""
RECORDED_S = 3


def own_domain() -> DdsSection:
    """Return the loopback interface and a domain without a robot."""
    return DdsSection(domain=DOMAIN)


def commands() -> Iterator[Row]:
    """Yield the latency of a command to a reader in another process, and of a datagram to the same process [ms].

    Raises DriverError if no command arrives.
    """
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    reader = multiprocessing.get_context("spawn").Process(target=_read, args=(theirs,), daemon=True)
    reader.start()
    try:
        with contextlib.closing(Wire(own_domain())) as wire:
            drive = DdsDrive(wire)
            _until_received(drive, ours)
            sent = {}
            for number in range(1, COMMANDS + 1):
                time.sleep(PERIOD_S)
                sent[number] = time.monotonic_ns()
                drive.send(Twist(float(number), 0.0))
        peer = _send_datagrams(ours.recv())
        arrived, peer_arrived = ours.recv()
    finally:
        reader.terminate()
        reader.join()
    took_ms, peer_ms = _latencies_ms(sent, arrived), _latencies_ms(peer, peer_arrived)
    if not took_ms or not peer_ms:
        raise DriverError(f"no command or no datagram was received over the loopback interface, domain {DOMAIN}")
    note = f"{len(took_ms)} of {COMMANDS} received; peer: a datagram of {DATAGRAM} bytes"
    yield from quantiles("command", took_ms, peer_ms, note)


def _latencies_ms(sent: Mapping[int, int], arrived: Mapping[int, int]) -> list[float]:
    return [(arrived[number] - at_ns) / 1e6 for number, at_ns in sent.items() if number in arrived]


def _until_received(drive: DdsDrive, reader: Connection) -> None:
    """Send stops until the reader says that it has one. Raises DriverError after a while."""
    until_s = time.monotonic() + PATIENCE_S
    while not reader.poll(PERIOD_S):
        if time.monotonic() > until_s:
            raise DriverError(f"no command was received on DDS domain {DOMAIN} of the loopback interface")
        drive.send(STOP)
    reader.recv()


def _send_datagrams(port: int) -> dict[int, int]:
    """Send the peer's datagrams and return when each was sent [ns]."""
    sent = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for number in range(1, COMMANDS + 1):
            time.sleep(PERIOD_S)
            sent[number] = time.monotonic_ns()
            sender.sendto(number.to_bytes(DATAGRAM, "big"), ("127.0.0.1", port))
    return sent


def _read(parent: Connection) -> None:
    """In the other process: report the first command, the port of datagrams, and the times of receipt of both [ns]."""
    commands_ns: dict[int, int] = {}
    datagrams_ns: dict[int, int] = {}
    with contextlib.closing(Wire(own_domain())) as wire:
        reader = wire.reader("cmd_vel")
        reader.wait(PATIENCE_S)
        parent.send("heard")
        while reader.wait(SILENCE_S):
            now_ns = time.monotonic_ns()
            commands_ns |= {round(got.sample.linear.x): now_ns for got in reader.take()}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(SILENCE_S)
        parent.send(receiver.getsockname()[1])
        with contextlib.suppress(TimeoutError):
            while True:
                number = int.from_bytes(receiver.recv(DATAGRAM), "big")
                datagrams_ns[number] = time.monotonic_ns()
    parent.send((commands_ns, datagrams_ns))


def recording(config: Config) -> Iterator[Row]:
    """Yield how long the recorder needs for a second of the robot's images, and how long their bytes alone take [ms].

    Raises ConfigError if the folder cannot be used, DriverError if the recorder does not write all.
    """
    rng, rates = np.random.default_rng(0), config.rates
    images = [room(rng, one.height, one.width) for one in load_mounts(config.robot.mounts).depth.values()]
    color = rng.integers(0, 256, (POLICY_HEIGHT, POLICY_WIDTH, 3), dtype=np.uint8)
    messages = [image_message(f"/{i}/depth/image", "16UC1", image) for i, image in enumerate(images)]
    messages.append(image_message("/color/image", "rgb8", color))
    decisions = round(RECORDED_S * rates.control_hz / rates.ticks_per_decision)
    with tempfile.TemporaryDirectory(prefix=".bench-", dir=nearest(config.record.directory)) as folder:
        peer_ms = duration_ms(lambda: _write(Path(folder) / "plain", [*images, color], decisions))
        section = config.record.model_copy(update={"directory": Path(folder) / "recorded"})
        took_ms = duration_ms(lambda: _record(Recorder(section, "bench", {}, **_now()), messages, decisions))
    note = f"{len(images)} images of the robot's cameras; peer: the same bytes, not compressed"
    yield row("recording of a second", took_ms / RECORDED_S, "ms", peer_ms / RECORDED_S, note)


def image_message(topic: str, encoding: str, image: np.ndarray) -> Message:
    """Return an image as the recorder takes it."""
    make = partial(ros_image, 0, "camera", encoding, image)
    return Message(topic, message_type(ros.Image), lambda: ros.to_cdr(make()))


def _now() -> dict[str, Any]:
    return {"wall_ns": wall_ns(), "now_ns": time.monotonic_ns()}


def _record(recorder: Recorder, messages: list[Message], decisions: int) -> None:
    for _ in range(decisions):
        while recorder.waiting:
            time.sleep(0.001)
        recorder.write_together(messages, time.monotonic_ns(), 0)
    recorder.close()
    stats = recorder.stats()
    if stats.stopped or stats.dropped:
        raise DriverError(stats.stopped or f"{stats.file}: {stats.dropped} messages were not written")


def _write(file: Path, images: list[np.ndarray], decisions: int) -> None:
    with file.open("wb") as out:
        for _ in range(decisions):
            for image in images:
                out.write(image.tobytes())
        out.flush()
        os.fsync(out.fileno())
