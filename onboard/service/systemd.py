"""READY, watchdog and status for the service manager, as datagrams of systemd's sd_notify(3).

Without a service manager (no NOTIFY_SOCKET) nothing is sent and goals are accepted at once.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

import structlog

from onboard.config.config import Config
from onboard.counters import Counters
from onboard.service.stop_base import DRIVEN_FILE, RUNTIME_DIRECTORY
from onboard.state import TickRecord
from onboard.values import reasons
from onboard.values.clock import NS_PER_S
from onboard.values.interfaces import Inbox
from onboard.values.messages import CameraHealth, Inputs

# ---- Blind cameras in the status line of the service manager

WITHOUT = ", without "
BETWEEN = ", "


def with_blind(status: str, blind: Iterable[str]) -> str:
    """Return a status line that also names the blind cameras, if any."""
    names = BETWEEN.join(blind)
    return f"{status}{WITHOUT}{names}" if names else status


def blind_in(status: str) -> frozenset[str]:
    """Return the blind cameras in a status line."""
    _, without, names = status.rpartition(WITHOUT)
    return frozenset(names.split(BETWEEN)) if without else frozenset()


log = structlog.get_logger()

NOTIFY_SOCKET = "NOTIFY_SOCKET"

CAMERAS_NS = 20 * NS_PER_S
"""READY waits this long for the first frame of every camera. After that the working cameras suffice."""

STATUS_NS = NS_PER_S
"""Period of the status line; READY comes with a status line."""


class Notifier:
    """Sends assignments to the service manager without waiting; a full socket drops them."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Connect to NOTIFY_SOCKET, if set: a path, or "@" and an abstract name."""
        address = environment.get(NOTIFY_SOCKET, "")
        self._socket: socket.socket | None = None
        if address:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self._socket.setblocking(False)
            try:
                self._socket.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            except OSError as error:
                log.warning("service_manager_not_reached", socket=address, error=error.strerror)
                self.close()

    @property
    def managed(self) -> bool:
        """Return whether there is a service manager."""
        return self._socket is not None

    def send(self, *words: str) -> None:
        """Send assignments such as "READY=1". A line break would begin another assignment, so it becomes a space."""
        if self._socket is None:
            return
        text = "\n".join(" ".join(word.splitlines()) for word in words)
        try:
            self._socket.send(text.encode(errors="replace"))
        except OSError as error:
            log.debug("service_manager_not_told", words=text, error=error.strerror)

    def __enter__(self) -> Notifier:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send the reason of the end as the last status, for `systemctl status`, and close the socket."""
        self.send(f"STATUS={_reason(error)}")
        self.close()

    def close(self) -> None:
        """Close the socket. Safe to call twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Service:
    """Reports a run to the service manager, as the last listener: at the end of a tick, after the command was sent.

    READY comes when every camera has delivered a frame, or after CAMERAS_NS; the status names the blind cameras. Until
    READY, goals and operator commands are dropped, so the robot stands still.
    """

    def __init__(self, notifier: Notifier, cameras: Callable[[], Sequence[CameraHealth]]) -> None:
        self._notifier, self._cameras = notifier, cameras
        self._began_ns: int | None = None
        self._status, self._status_ns = "", 0
        self.ready = not notifier.managed

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send STOPPING=1, so that systemd expects no watchdog while cameras and recording close."""
        self._notifier.send("STOPPING=1")

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Send the watchdog; send READY when all cameras are ready, and the status when it changes."""
        if not self._notifier.managed:
            return
        now_ns = record.inputs.now_ns
        words = ["WATCHDOG=1"]
        missing = [] if self.ready else self._missing(record, now_ns)
        begins = not self.ready and not missing
        if begins:
            self.ready = True
            words.append("READY=1")
            log.info("service_ready", blind=self._blind())
        if begins or now_ns - self._status_ns >= STATUS_NS:
            words += self._changed_status(record.state, missing, now_ns)
        self._notifier.send(*words)

    def _changed_status(self, state: str, missing: Sequence[str], now_ns: int) -> list[str]:
        """Return the assignment of the status line, if it has changed."""
        self._status_ns = now_ns
        waiting = f"waiting for the first frame of {', '.join(missing)}"
        status = waiting if missing else with_blind(state, self._blind())
        if status == self._status:
            return []
        self._status = status
        return [f"STATUS={status}"]

    def _blind(self) -> list[str]:
        return [camera.camera for camera in self._cameras() if not camera.working]

    def _missing(self, record: TickRecord, now_ns: int) -> list[str]:
        """Return the cameras without a first frame, for which READY waits."""
        self._began_ns = now_ns if self._began_ns is None else self._began_ns
        silent = [camera.camera for camera in self._cameras() if camera.frames == 0]
        looks = bool(record.limits_scan.seen.any())
        if looks and now_ns - self._began_ns >= CAMERAS_NS:
            return []
        return silent if silent or looks else ["any camera or scan"]


class StandingInbox:
    """An inbox that drops goals and operator commands until the service is ready. It logs each dropped goal."""

    def __init__(self, inbox: Inbox, service: Service) -> None:
        self._inbox, self._service = inbox, service

    def take(self, now_ns: int) -> Inputs:
        """See `interfaces.Inbox`."""
        inputs = self._inbox.take(now_ns)
        if self._service.ready:
            return inputs
        for goal in inputs.goals:
            early = reasons.GOAL_TOO_EARLY.say()
            log.warning("goal_left_out", x_m=goal.pose.x_m, y_m=goal.pose.y_m, reason=early)
        return replace(inputs, goals=(), teleop=None)

    def close(self) -> None:
        """See `interfaces.Inbox`."""
        self._inbox.close()


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "stopped"
    return f"stopped: {error}" if str(error) else f"stopped: {type(error).__name__}"


def note_driven(config: Config, environment: Mapping[str, str] = os.environ) -> None:
    """Write the link to the base into the runtime directory; do nothing without a runtime directory.

    The stop after a crash then uses the same link, even if the configuration has changed since.
    """
    directory = environment.get(RUNTIME_DIRECTORY, "")
    if not directory:
        return
    link = {
        "dds": config.dds.model_dump(mode="json"),
        "odometry": config.odometry.model_dump(mode="json"),
        "control_hz": config.rates.control_hz,
    }
    try:
        (Path(directory) / DRIVEN_FILE).write_text(json.dumps(link), encoding="utf-8")
    except OSError as error:
        log.warning("driven_not_noted", directory=directory, error=error.strerror)
