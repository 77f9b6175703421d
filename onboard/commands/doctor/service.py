"""The service and its rights: installed, running, why it ended; FIFO scheduling and memory lock.

If the service is installed, its unit's rights are checked, and its process's rights while it runs. Otherwise the rights
of this user are checked.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from onboard.commands.doctor.finding import Finding, Level, Problem, amber, combined, green, red
from onboard.commands.doctor.host import ROOT, text_of
from onboard.config.config import Config
from onboard.drivers.dds.topics import domain_id
from onboard.system.realtime import may_lock

UNIT = "onboard.service"
PROPERTIES = (
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "StatusText",
    "NRestarts",
    "MainPID",
    "ExecMainStatus",
    "CPUSchedulingPolicy",
    "CPUSchedulingPriority",
    "LimitMEMLOCK",
    "User",
    "WorkingDirectory",
    "Environment",
)
DOWN = ("inactive", "failed")
"""In every other state the unit's process runs, or will run in a moment."""
READY = ("active", "reloading")
WAITS = "waiting:"
"""Prefix of the status of a start that waits for a missing device (`onboard/service/readiness.py`)."""
AGAIN = "auto-restart"
"""The service ended and systemd will start it again; NRestarts does not count this restart yet."""
ANSWER_LIMIT_S = 10.0
FIFO_POLICIES = ("1", "fifo")
"""Some versions of systemctl print the number, others the name."""
UNLIMITED = ("infinity", str(2**64 - 1))
RIGHTS_REMEDY = "install the service (`onboard install`): its unit grants both"


def unit_state() -> dict[str, str]:
    """Return the service's properties, empty where systemd does not run or does not answer."""
    return unit_properties(UNIT, PROPERTIES)


def unit_properties(unit: str, names: Sequence[str]) -> dict[str, str]:
    """Return a unit's properties, empty where systemd does not run or does not answer."""
    systemctl = shutil.which("systemctl")
    if systemctl is None:
        return {}
    try:
        done = subprocess.run(
            [systemctl, "show", unit, f"--property={','.join(names)}"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    return dict(line.partition("=")[::2] for line in done.stdout.splitlines()) if done.returncode == 0 else {}


def is_up(state: Mapping[str, str]) -> bool:
    """Return whether the service has its devices, or will have them in a moment: it runs, starts or stops."""
    return state.get("LoadState") == "loaded" and state.get("ActiveState") not in DOWN


def drives(state: Mapping[str, str]) -> bool:
    """Return whether the service is READY, so that it may drive the robot now."""
    return state.get("LoadState") == "loaded" and state.get("ActiveState") in READY


def environment(state: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that the unit sets for its process; empty if it cannot be read."""
    try:
        words = shlex.split(state.get("Environment", ""))
    except ValueError:
        return {}
    return dict(word.partition("=")[::2] for word in words)


def as_served(config: Config, state: Mapping[str, str]) -> Config:
    """Return a configuration as the service reads it: with its unit's domain, not this user's.

    Raises ConfigError for a bad domain.
    """
    given = environment(state)
    return config.model_copy(update={"dds": config.dds.model_copy(update={"domain": domain_id(config.dds, given)})})


def home(state: Mapping[str, str]) -> Path | None:
    """Return the home folder that the unit sets for its process; None if it sets none."""
    given = environment(state).get("HOME")
    return Path(given) if given else None


def service(state: Mapping[str, str]) -> Finding:
    """Return whether the service is installed and runs. `state` as `unit_state` returns it."""
    if not state:
        return amber("service", "systemd does not run here", "on the robot, the runtime runs as a systemd service")
    if state.get("LoadState") != "loaded":
        found = f"{UNIT} is not installed ({state.get('LoadState', 'unknown')})"
        return amber("service", found, "`onboard install`, see systemd/install.md", **state)
    active, result = state.get("ActiveState", ""), state.get("Result", "")
    restarts = int(state.get("NRestarts") or 0)
    found = f"{active} ({state.get('SubState', '')}), {restarts} restarts"
    if active == "failed":
        status = f"{found}, ended by {result} with status {state.get('ExecMainStatus', '?')}"
        return red(
            "service", status, f"`journalctl -u {UNIT} -b` shows why; then `systemctl reset-failed {UNIT}`", **state
        )
    if active not in ("active", "activating", "reloading"):
        return amber("service", found, f"`systemctl start {UNIT}`", **state)
    status = state.get("StatusText", "")
    if active == "activating" and status.startswith(WAITS):
        return amber("service", f"{found}, {status}", "it continues by itself once this is available", **state)
    if restarts or state.get("SubState", "").startswith(AGAIN):
        return amber("service", found, f"`journalctl -u {UNIT} -b` shows why it was restarted", **state)
    return green("service", found, **state)


def rights(state: Mapping[str, str]) -> Finding:
    """Return whether the runtime may run first (SCHED_FIFO) and keep its memory from being swapped out."""
    if state.get("LoadState") != "loaded":
        fifo, lock = may_run_first(), may_lock()
        who = f"user {os.geteuid()}"
        return combined("rights", "FIFO and memory lock" if fifo and lock else "", _missing(who, fifo, lock), user=who)
    fifo = state.get("CPUSchedulingPolicy") in FIFO_POLICIES
    lock = state.get("LimitMEMLOCK") in UNLIMITED
    problems = _missing(UNIT, fifo, lock)
    pid = int(state.get("MainPID") or 0)
    summary = (
        f"{UNIT} has FIFO priority {state.get('CPUSchedulingPriority', '?')} and memory lock" if fifo and lock else ""
    )
    if pid and not problems:
        problems += _of_process(pid)
    return combined("rights", summary, problems, pid=pid)


def may_run_first() -> bool:
    """Return whether this user's threads may have FIFO scheduling, tried on a short-lived thread."""
    tried: list[bool] = []

    def attempt() -> None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        except PermissionError:
            tried.append(False)
        else:
            tried.append(True)

    thread = threading.Thread(target=attempt, name="fifo")
    thread.start()
    thread.join()
    return tried == [True]


def _missing(who: str, fifo: bool, lock: bool) -> list[Problem]:
    missing = [name for name, there in (("FIFO scheduling", fifo), ("memory lock", lock)) if not there]
    if not missing:
        return []
    return [Problem(Level.AMBER, f"{who} lacks the right to {' and '.join(missing)}: ticks may be late", RIGHTS_REMEDY)]


def _of_process(pid: int) -> list[Problem]:
    """Return the rights that the unit grants and the running process does not have."""
    try:
        policy = os.sched_getscheduler(pid)
    except OSError:  # the process ended meanwhile
        return []
    locked = re.search(r"^VmLck:\s*(\d+)", text_of(ROOT / f"proc/{pid}/status") or "", re.MULTILINE)
    found = []
    if policy & ~os.SCHED_RESET_ON_FORK != os.SCHED_FIFO:
        found.append(Problem(Level.AMBER, f"process {pid} runs without FIFO scheduling", f"`systemctl restart {UNIT}`"))
    if locked is not None and int(locked[1]) == 0:
        found.append(Problem(Level.AMBER, f"process {pid} has locked no memory", f"`systemctl restart {UNIT}`"))
    return found
