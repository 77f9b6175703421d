"""The service as systemd sees it: start and wait for READY, status, stop, enable."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onboard.commands.install.layout import UNIT
from onboard.commands.install.run_program import run_tool
from onboard.service.systemd import blind_in
from onboard.values.errors import InputError

ANSWER_S = 30.0
"""Timeout of commands that systemd answers at once."""
STOP_S = 120.0
LOOK_EVERY_S = 0.5
UDEV_SOCKET = Path("/run/udev/control")
STOPPED = ("inactive", "failed", "")
NO_ANSWER = 124
"""Exit code for a command that timed out, as of `timeout`."""

PROPERTIES = (
    "ActiveState",
    "SubState",
    "Result",
    "StatusText",
    "InvocationID",
    "LoadState",
    "UnitFileState",
    "MainPID",
)


@dataclass(frozen=True, slots=True)
class Status:
    """The service's status. invocation: changes with every start. main_pid: 0 without a process."""

    active: str
    result: str
    status: str
    invocation: str
    enabled: bool
    main_pid: int = 0

    @property
    def runs(self) -> bool:
        """Whether the service is READY."""
        return self.active == "active"

    @property
    def wanted(self) -> bool:
        """Whether the service runs, starts, or waits for its next restart."""
        return self.active not in STOPPED

    @property
    def blind(self) -> frozenset[str]:
        """The cameras that the service reports as blind."""
        return blind_in(self.status)


class Systemd:
    """The systemd of this machine, through its commands."""

    def status(self) -> Status:
        """Return the service's status. Raises InputError without systemd."""
        done = _systemctl("show", UNIT, f"--property={','.join(PROPERTIES)}")
        if done.returncode:
            raise InputError(f"systemd does not answer: {_output_of(done)}")
        properties = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
        return Status(
            properties.get("ActiveState", ""),
            properties.get("Result", ""),
            properties.get("StatusText", ""),
            properties.get("InvocationID", ""),
            properties.get("UnitFileState", "") == "enabled",
            int(properties.get("MainPID") or 0),
        )

    def reload(self) -> None:
        """Reload units and device rules."""
        _required("daemon-reload")
        _udev("control", "--reload")
        _udev("trigger", "--action=change", "--subsystem-match=usb", "--subsystem-match=tty")

    def apply(self, files: Sequence[Path]) -> None:
        """Create the users and folders that these files name."""
        for tool, ending, words in (
            ("systemd-sysusers", "sysusers.conf", ()),
            ("systemd-tmpfiles", "tmpfiles.conf", ("--create",)),
        ):
            chosen = [str(file) for file in files if file.name.endswith(ending)]
            if chosen:
                run_tool([tool, *words, *chosen], tool)

    def start(self, within_s: float, settle_s: float) -> str:
        """Start or restart; return "" if the service is READY, also after `settle_s`, otherwise the reason."""
        _systemctl("reset-failed", UNIT)
        done = _systemctl("restart", UNIT, limit_s=within_s)
        if done.returncode == NO_ANSWER:
            return f"not READY within {within_s:g} s{_of(self.status())}"
        if done.returncode:
            return f"did not become READY{_of(self.status())}"
        return self._settled(settle_s)

    def stop(self) -> None:
        """Stop the service and reset its failures. Raises InputError if it continues."""
        _systemctl("stop", UNIT, limit_s=STOP_S)
        _systemctl("reset-failed", UNIT)
        seen = self.status()
        if seen.active not in STOPPED:
            raise InputError(f"{UNIT} does not stop{_of(seen)}; see `systemctl status {UNIT}`")

    def enable(self, on: bool) -> None:
        """Let the machine start the service at boot, or no longer."""
        _required("enable" if on else "disable", UNIT)

    def _settled(self, settle_s: float) -> str:
        """Watch a READY service; return "" if the same process stayed READY."""
        first, pause = self.status(), threading.Event()
        for _ in range(max(1, round(settle_s / LOOK_EVERY_S))):
            pause.wait(LOOK_EVERY_S)
            now = self.status()
            if not now.runs or now.invocation != first.invocation:
                return f"was READY, but did not stay so for {settle_s:g} s{_of(now)}"
        return ""


def _of(seen: Status) -> str:
    status = f", said {seen.status!r}" if seen.status else ""
    return f" ({seen.active}, result {seen.result}{status})"


def _systemctl(*words: str, limit_s: float = ANSWER_S) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["systemctl", *words], capture_output=True, text=True, errors="replace", timeout=limit_s, check=False
        )
    except FileNotFoundError as error:
        raise InputError("systemctl not found: the service needs systemd") from error
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, NO_ANSWER, "", f"no answer within {limit_s:g} s")


def _required(*words: str) -> None:
    done = _systemctl(*words)
    if done.returncode:
        raise InputError(f"systemctl {' '.join(words)}: {_output_of(done)}")


def _udev(*words: str) -> None:
    """Call udevadm where udev runs: not in a container."""
    if UDEV_SOCKET.exists():
        run_tool(["udevadm", *words], f"udevadm {words[0]}")


def _output_of(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()
    return lines[-1].strip()
