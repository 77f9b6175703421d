"""The service manager's side of a run: READY, the watchdog, a line of status, as datagrams of systemd's sd_notify(3).

Without a service manager (no NOTIFY_SOCKET) nothing is said, nothing is held back and no memory is locked.
"""

from __future__ import annotations

import ctypes
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
from onboard.values.clock import NS_PER_S
from onboard.values.interfaces import Inbox
from onboard.values.messages import CameraHealth, Inputs

# ---- The cameras that give nothing, in the line of status that the service manager shows: written here and

WITHOUT = ", without "
BETWEEN = ", "


def with_blind(status: str, blind: Iterable[str]) -> str:
    """Return a line of status that names the cameras that give nothing, if there are any."""
    names = BETWEEN.join(blind)
    return f"{status}{WITHOUT}{names}" if names else status


def blind_in(status: str) -> frozenset[str]:
    """Return the cameras that a line of status names."""
    _, without, names = status.rpartition(WITHOUT)
    return frozenset(names.split(BETWEEN)) if without else frozenset()


log = structlog.get_logger()

NOTIFY_SOCKET = "NOTIFY_SOCKET"

CAMERAS_NS = 20 * NS_PER_S
"""For so long READY waits for the first frame of every camera; then those that work must do, as they do in a drive."""

STATUS_NS = NS_PER_S
"""So often the status is looked at; READY comes with one."""

MCL_CURRENT, MCL_FUTURE, MCL_ONFAULT = 1, 2, 4


class Notifier:
    """Says words to the service manager without waiting for it; a word that it has no room for is lost."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        """Connect to NOTIFY_SOCKET, if there is one: a path, or "@" and an abstract name."""
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

    def say(self, *words: str) -> None:
        """Say assignments such as "READY=1"; line ends within one would begin another and are taken out."""
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
        """Leave the reason as the last status, which `systemctl status` shows after the end, and let go."""
        self.say(f"STATUS={_reason(error)}")
        self.close()

    def close(self) -> None:
        """Let go of the socket. Safe to call twice."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Service:
    """Tells the service manager of a run, as its last listener: at the end of a tick, after the command went out.

    READY comes with the tick in which the robot has looked: every camera has shown a frame, or, after a wait, those
    that work have; the status names the others. Until then goals and operators' commands are left out, so that the
    robot stands.
    """

    def __init__(self, notifier: Notifier, cameras: Callable[[], Sequence[CameraHealth]]) -> None:
        self._notifier, self._cameras = notifier, cameras
        self._began_ns: int | None = None
        self._told, self._told_ns = "", 0
        self.ready = not notifier.managed

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Say that the run ends: while cameras and recording are closed, systemd no longer waits for the watchdog."""
        self._notifier.say("STOPPING=1")

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Feed the watchdog; say READY when it is time, and the state when it is another."""
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
        if begins or now_ns - self._told_ns >= STATUS_NS:
            words += self._news(record.state, missing, now_ns)
        self._notifier.say(*words)

    def _news(self, state: str, missing: Sequence[str], now_ns: int) -> list[str]:
        """Return the assignment of a line of status that is another than the last one."""
        self._told_ns = now_ns
        waiting = f"waiting for the first frame of {', '.join(missing)}"
        status = waiting if missing else with_blind(state, self._blind())
        if status == self._told:
            return []
        self._told = status
        return [f"STATUS={status}"]

    def _blind(self) -> list[str]:
        return [camera.camera for camera in self._cameras() if not camera.working]

    def _missing(self, record: TickRecord, now_ns: int) -> list[str]:
        """Return what has not been seen yet and is waited for."""
        self._began_ns = now_ns if self._began_ns is None else self._began_ns
        silent = [camera.camera for camera in self._cameras() if camera.frames == 0]
        looks = bool(record.limits_scan.seen.any())
        if looks and now_ns - self._began_ns >= CAMERAS_NS:
            return []
        return silent if silent or looks else ["any camera or scan"]


class StandingInbox:
    """An inbox whose goals and operator are left out until the service is ready; each goal left out is logged."""

    def __init__(self, inbox: Inbox, service: Service) -> None:
        self._inbox, self._service = inbox, service

    def take(self, now_ns: int) -> Inputs:
        """See `interfaces.Inbox`."""
        inputs = self._inbox.take(now_ns)
        if self._service.ready:
            return inputs
        for goal in inputs.goals:
            log.warning("goal_left_out", x_m=goal.pose.x_m, y_m=goal.pose.y_m, reason="the service is not ready yet")
        return replace(inputs, goals=(), teleop=None)

    def close(self) -> None:
        """See `interfaces.Inbox`."""
        self._inbox.close()


def _reason(error: BaseException | None) -> str:
    if error is None:
        return "stopped"
    return f"stopped: {error}" if str(error) else f"stopped: {type(error).__name__}"


def lock_memory() -> None:
    """Keep every page that is touched from now on in memory, so that no tick waits for a disk; log where not allowed.

    Pages are locked when they are first used (MCL_ONFAULT): libraries map far more than they ever touch.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) != 0:
        log.warning("memory_not_locked", error=os.strerror(ctypes.get_errno()), remedy="LimitMEMLOCK=infinity")


def note_driven(config: Config, environment: Mapping[str, str] = os.environ) -> None:
    """Leave in the runtime directory what the robot is driven through; do nothing without one.

    The stop after a crash then goes where the commands went, even when the configuration was edited meanwhile.
    """
    directory = environment.get(RUNTIME_DIRECTORY, "")
    if not directory:
        return
    told = {
        "dds": config.dds.model_dump(mode="json"),
        "odometry": config.odometry.model_dump(mode="json"),
        "control_hz": config.rates.control_hz,
    }
    try:
        (Path(directory) / DRIVEN_FILE).write_text(json.dumps(told), encoding="utf-8")
    except OSError as error:
        log.warning("driven_not_noted", directory=directory, error=error.strerror)
