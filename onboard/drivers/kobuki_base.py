"""A Kobuki base on a serial port: velocity commands out, wheel motion and contact flags in.

The only file that imports pyserial, which opens and configures the port. Reads and writes use the port's non-blocking
file descriptor: `serial.write` with a zero timeout spins for ever on a full output queue (pyserial 3.5).
"""

from __future__ import annotations

import os
import select
import time
from dataclasses import dataclass
from typing import Any

from onboard.drivers import kobuki_protocol
from onboard.values.errors import DriverError, InputError, MissingExtraError
from onboard.values.messages import STOP, OdometryMessage, Twist

try:
    import serial
except ImportError:
    serial = None

BAUD = 115200
READ_BYTES = 4096
"""Size of the kernel's terminal buffer; it holds one second of feedback."""

MAX_SILENCE_S = 1.0
"""After a longer gap in the feedback wheel motion starts again from zero: the encoders may have wrapped."""

GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL
BUTTON_STOP = 1
BUTTON_RELEASE = 2
NS_PER_S = 1_000_000_000


@dataclass(frozen=True, slots=True)
class BaseReport:
    """The base's feedback since the last call.

    odometry: mean wheel motion between consecutive packets, oldest first; stamps in the base's clock, unwrapped
    obstacle: bumper, cliff or wheel drop in any packet since the last call; None before the first packet
    stop:     cliff, wheel drop, or B0 pressed and not yet released by B1; None before the first packet
    battery:  charge of the battery in the newest packet, 0 to 1; None before the first packet
    """

    odometry: tuple[OdometryMessage, ...]
    obstacle: bool | None
    stop: bool | None
    battery: float | None = None


class KobukiBase:
    """A `Drive` that also reports odometry. For one thread; `send` and `take` never wait."""

    def __init__(self, port: str) -> None:
        """Open the port exclusively. Raises MissingExtraError, or DriverError that names the port."""
        if serial is None:
            raise MissingExtraError("pyserial", "serial")
        try:
            self._port: Any = serial.Serial(port, BAUD, timeout=0, write_timeout=0, exclusive=True)
        except (serial.SerialException, ValueError) as error:
            raise DriverError(f"{port}: base cannot be opened: {error}") from error
        self._poll = select.poll()
        self._poll.register(self._port.fileno(), select.POLLIN)
        self._name = port
        self._rest = b""
        self._last: kobuki_protocol.Feedback | None = None
        self._last_arrival_ns = 0
        self._stamp_ns = 0
        self._button_stop = False

    def send(self, command: Twist) -> None:
        """Send one command without waiting. Raises DriverError if the link is gone, InputError if it is not finite."""
        self._write(kobuki_protocol.encode_velocity(command))

    def take(self, now_ns: int) -> BaseReport:
        """Return the feedback since the last call, without waiting. Raises DriverError if the link is gone."""
        packets, self._rest = kobuki_protocol.parse(self._rest + self._read())
        odometry = [message for packet in packets if (message := self._moved(packet, now_ns)) is not None]
        for packet in packets:
            self._button_stop = _button_stop(self._button_stop, packet.button)
        if self._last is None:
            return BaseReport((), None, None)
        seen = packets or [self._last]
        obstacle = any(packet.bumper or packet.cliff or packet.wheel_drop for packet in seen)
        stop = self._button_stop or any(packet.cliff or packet.wheel_drop for packet in seen)
        return BaseReport(tuple(odometry), obstacle, stop, self._last.charge)

    def wait_for_output(self, limit_s: float) -> bool:
        """Wait until the output queue is empty; return False after `limit_s`. Not for use in a tick.

        Raises DriverError if the link is gone.
        """
        until_s = time.monotonic() + limit_s
        while self._waiting_bytes():
            if time.monotonic() > until_s:
                return False
            time.sleep(0.01)
        return True

    def close(self) -> None:
        """Send a stop and release the port. Safe to call twice, and when the link is gone."""
        if not self._port.is_open:
            return
        try:
            self.send(STOP)
        except (DriverError, InputError):
            pass  # a caller that needs the stop confirmed sends it before, as `stop_base` does
        finally:
            self._port.close()

    def _moved(self, packet: kobuki_protocol.Feedback, now_ns: int) -> OdometryMessage | None:
        """Return the motion since the packet before, and advance the base's clock; None if implausible."""
        before, silence_ns = self._last, now_ns - self._last_arrival_ns
        if before is not None and before.timestamp_ms == packet.timestamp_ms:
            return None
        self._last, self._last_arrival_ns = packet, now_ns
        if before is None:
            return None
        moved = kobuki_protocol.motion(before, packet) if silence_ns <= MAX_SILENCE_S * NS_PER_S else None
        if moved is None:
            self._stamp_ns += silence_ns
            return None
        dt_s, twist = moved
        self._stamp_ns += round(dt_s * NS_PER_S)
        return OdometryMessage(self._stamp_ns, now_ns, None, twist)

    def _read(self) -> bytes:
        """Return the received bytes. An unplugged port reads as empty for ever; only `poll` detects it."""
        if any(events & GONE for _, events in self._poll.poll(0)):
            raise DriverError(f"{self._name}: link to the base is gone")
        try:
            return os.read(self._port.fileno(), READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError as error:
            raise DriverError(f"{self._name}: link to the base is gone: {error.strerror}") from error

    def _waiting_bytes(self) -> int:
        """Return how many bytes wait in the port's output queue."""
        try:
            return int(self._port.out_waiting)
        except OSError as error:
            raise DriverError(f"{self._name}: link to the base is gone: {error.strerror}") from error

    def _write(self, data: bytes) -> None:
        try:
            written = os.write(self._port.fileno(), data)
        except BlockingIOError:
            written = 0
        except OSError as error:
            raise DriverError(f"{self._name}: link to the base is gone: {error.strerror}") from error
        if written != len(data):
            raise DriverError(f"{self._name}: the base takes no commands: its output queue is full")


def _button_stop(stopped: bool, button: int) -> bool:
    """Return whether the operator's stop holds: B0 sets it, B1 alone releases it."""
    if button & BUTTON_STOP:
        return True
    return stopped and not button & BUTTON_RELEASE
