"""The service as systemd sees it: start it and wait until it says READY, look how it is, stop it."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from onboard.commands.install.layout import UNIT
from onboard.commands.install.run_program import run_tool
from onboard.service.systemd import blind_in
from onboard.values.errors import InputError

ANSWER_S = 30.0
"""For what systemd answers at once."""
STOP_S = 120.0
LOOK_EVERY_S = 0.5
UDEV_SOCKET = Path("/run/udev/control")
STOPPED = ("inactive", "failed", "")
NO_ANSWER = 124
"""In place of the exit code of a command that did not end in time, as `timeout` has it."""

ASKED = ("ActiveState", "SubState", "Result", "StatusText", "InvocationID", "LoadState", "UnitFileState", "MainPID")


@dataclass(frozen=True, slots=True)
class Seen:
    """What systemd says of the service. invocation: changes with every start. main_pid: 0 without a process."""

    active: str
    result: str
    status: str
    invocation: str
    enabled: bool
    main_pid: int = 0

    @property
    def runs(self) -> bool:
        """Return whether it is READY."""
        return self.active == "active"

    @property
    def wanted(self) -> bool:
        """Return whether it runs, starts, or is between two runs: it was neither stopped nor has it failed for good."""
        return self.active not in STOPPED

    @property
    def blind(self) -> frozenset[str]:
        """Return the cameras that give nothing, as it says itself."""
        return blind_in(self.status)


class Services(Protocol):
    """What the installer needs of systemd."""

    def look(self) -> Seen:
        """Return how the service is. Raises InputError without systemd."""

    def reload(self) -> None:
        """Read the units, device rules, users and folders anew."""

    def apply(self, files: Sequence[Path]) -> None:
        """Make the users and folders that these files name."""

    def start(self, within_s: float, settle_s: float) -> str:
        """Start or restart; return "" once READY and still so after `settle_s`, otherwise what happened instead."""

    def stop(self) -> None:
        """Stop, and forget earlier failures. Raises InputError when it goes on."""

    def enable(self, on: bool) -> None:
        """Start it with the machine, or no longer."""


class Systemd:
    """The systemd of this machine, by its own commands."""

    def look(self) -> Seen:
        """See `Services`."""
        done = _systemctl("show", UNIT, f"--property={','.join(ASKED)}")
        if done.returncode:
            raise InputError(f"systemd does not answer: {_said(done)}")
        told = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        return Seen(
            told.get("ActiveState", ""),
            told.get("Result", ""),
            told.get("StatusText", ""),
            told.get("InvocationID", ""),
            told.get("UnitFileState", "") == "enabled",
            int(told.get("MainPID") or 0),
        )

    def reload(self) -> None:
        """See `Services`."""
        _required("daemon-reload")
        _udev("control", "--reload")
        _udev("trigger", "--action=change", "--subsystem-match=usb", "--subsystem-match=tty")

    def apply(self, files: Sequence[Path]) -> None:
        """See `Services`."""
        for tool, ending, words in (
            ("systemd-sysusers", "sysusers.conf", ()),
            ("systemd-tmpfiles", "tmpfiles.conf", ("--create",)),
        ):
            chosen = [str(file) for file in files if file.name.endswith(ending)]
            if chosen:
                run_tool([tool, *words, *chosen], tool)

    def start(self, within_s: float, settle_s: float) -> str:
        """See `Services`."""
        _systemctl("reset-failed", UNIT)
        done = _systemctl("restart", UNIT, limit_s=within_s)
        if done.returncode == NO_ANSWER:
            return f"not READY within {within_s:g} s{_of(self.look())}"
        if done.returncode:
            return f"did not become READY{_of(self.look())}"
        return self._settled(settle_s)

    def stop(self) -> None:
        """See `Services`."""
        _systemctl("stop", UNIT, limit_s=STOP_S)
        _systemctl("reset-failed", UNIT)
        seen = self.look()
        if seen.active not in STOPPED:
            raise InputError(f"{UNIT} does not stop{_of(seen)}")

    def enable(self, on: bool) -> None:
        """See `Services`."""
        _required("enable" if on else "disable", UNIT)

    def _settled(self, settle_s: float) -> str:
        """Watch a service that said READY; return "" when it was the same all the time."""
        first, pause = self.look(), threading.Event()
        for _ in range(max(1, round(settle_s / LOOK_EVERY_S))):
            pause.wait(LOOK_EVERY_S)
            now = self.look()
            if not now.runs or now.invocation != first.invocation:
                return f"was READY, but did not stay so for {settle_s:g} s{_of(now)}"
        return ""


def _of(seen: Seen) -> str:
    status = f", said {seen.status!r}" if seen.status else ""
    return f" ({seen.active}, result {seen.result}{status})"


def _systemctl(*words: str, limit_s: float = ANSWER_S) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["systemctl", *words], capture_output=True, text=True, errors="replace", timeout=limit_s, check=False
        )
    except FileNotFoundError as error:
        raise InputError("systemctl is not on this machine, and the service needs systemd") from error
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, NO_ANSWER, "", f"no answer within {limit_s:g} s")


def _required(*words: str) -> None:
    done = _systemctl(*words)
    if done.returncode:
        raise InputError(f"systemctl {' '.join(words)}: {_said(done)}")


def _udev(*words: str) -> None:
    """Tell udev, where one runs: not in a container."""
    if UDEV_SOCKET.exists():
        run_tool(["udevadm", *words], f"udevadm {words[0]}")


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
    return lines[-1].strip()
