"""The service and its rights: is it installed, does it run, why did it end; FIFO scheduling and memory lock.

Where the service is installed its own rights are judged, and those of its process while it runs; otherwise the rights
of who asks.
"""

from __future__ import annotations

import os
import re
import resource
import shlex
import shutil
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from onboard.commands.doctor.finding import Complaint, Finding, Level, amber, green, judged, red
from onboard.commands.doctor.host import ROOT, text_of
from onboard.config.config import ENGINE_CACHE, Config
from onboard.config.toml_file import Section
from onboard.drivers.dds.topics import domain_id

UNIT = "onboard.service"
ASKED = (
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
"""In every other state of a unit its process is there, or will be in a moment."""
READY = ("active", "reloading")
WAITS = "waiting:"
"""So begins the status of a start that waits for what is not there yet (`onboard/service/readiness.py`)."""
AGAIN = "auto-restart"
"""It ended, and systemd will begin it anew; this is not counted as a restart before it has."""
ANSWER_LIMIT_S = 10.0
FIFO_POLICIES = ("1", "fifo")
"""systemctl says the number in some versions and the name in others."""
UNLIMITED = ("infinity", str(2**64 - 1))
CAP_IPC_LOCK = 14
RIGHTS_REMEDY = "install the service (`onboard install`), whose unit gives both rights"


def unit_state(unit: str = UNIT) -> dict[str, str]:
    """Return what systemd says of the unit, empty where systemd does not run or does not answer."""
    systemctl = shutil.which("systemctl")
    if systemctl is None:
        return {}
    try:
        done = subprocess.run(
            [systemctl, "show", unit, f"--property={','.join(ASKED)}"],
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
    """Return whether the service has its devices, or will have them in a moment: it runs, begins or ends."""
    return state.get("LoadState") == "loaded" and state.get("ActiveState") not in DOWN


def drives(state: Mapping[str, str]) -> bool:
    """Return whether the service is READY, so that it may drive the robot now."""
    return state.get("LoadState") == "loaded" and state.get("ActiveState") in READY


def environment(state: Mapping[str, str]) -> dict[str, str]:
    """Return the environment that the unit states for its process; nothing where it cannot be read."""
    try:
        words = shlex.split(state.get("Environment", ""))
    except ValueError:
        return {}
    return dict(word.partition("=")[::2] for word in words)


def as_served(config: Config, state: Mapping[str, str]) -> Config:
    """Return a configuration as the service reads it: with the domain and the home of its unit, not those of who asks.

    Raises ConfigError for a domain that is none.
    """
    given = environment(state)
    changes: dict[str, Section] = {"dds": config.dds.model_copy(update={"domain": domain_id(config.dds, given)})}
    if "HOME" in given and "engine_cache" not in config.policy.model_fields_set:
        changes["policy"] = config.policy.model_copy(update={"engine_cache": Path(given["HOME"]) / ENGINE_CACHE})
    return config.model_copy(update=changes)


def service(state: Mapping[str, str]) -> Finding:
    """Return whether the service is installed and well. `state` as `unit_state` returns it."""
    if not state:
        return amber("service", "systemd does not run here", "on the robot the runtime is a service of systemd")
    if state.get("LoadState") != "loaded":
        found = f"{UNIT} is not installed ({state.get('LoadState', 'unknown')})"
        return amber("service", found, "`onboard install`, see systemd/install.md", **state)
    active, result = state.get("ActiveState", ""), state.get("Result", "")
    restarts = int(state.get("NRestarts") or 0)
    found = f"{active} ({state.get('SubState', '')}), {restarts} restarts"
    if active == "failed":
        said = f"{found}, ended by {result} with status {state.get('ExecMainStatus', '?')}"
        return red("service", said, f"`journalctl -u {UNIT} -b` tells why; `systemctl reset-failed {UNIT}`", **state)
    if active not in ("active", "activating", "reloading"):
        return amber("service", found, f"`systemctl start {UNIT}`", **state)
    said = state.get("StatusText", "")
    if active == "activating" and said.startswith(WAITS):
        return amber("service", f"{found}, {said}", "it goes on by itself once that is there", **state)
    if restarts or state.get("SubState", "").startswith(AGAIN):
        return amber("service", found, f"`journalctl -u {UNIT} -b` tells why it was restarted", **state)
    return green("service", found, **state)


def rights(state: Mapping[str, str]) -> Finding:
    """Return whether the runtime may run first (SCHED_FIFO) and keep its memory from being swapped out."""
    if state.get("LoadState") != "loaded":
        fifo, lock = may_run_first(), may_lock()
        who = f"user {os.geteuid()}"
        return judged("rights", "FIFO and memory lock" if fifo and lock else "", _missing(who, fifo, lock), user=who)
    fifo = state.get("CPUSchedulingPolicy") in FIFO_POLICIES
    lock = state.get("LimitMEMLOCK") in UNLIMITED
    complaints = _missing(UNIT, fifo, lock)
    pid = int(state.get("MainPID") or 0)
    summary = (
        f"{UNIT} has FIFO priority {state.get('CPUSchedulingPriority', '?')} and memory lock" if fifo and lock else ""
    )
    if pid and not complaints:
        complaints += _of_process(pid)
    return judged("rights", summary, complaints, pid=pid)


def may_run_first() -> bool:
    """Return whether this user's threads may have FIFO scheduling: tried on a thread that ends at once."""
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


def may_lock() -> bool:
    """Return whether this user may lock all its memory: no limit, or the capability to pass it."""
    granted = re.search(r"^CapEff:\s*([0-9a-f]+)", text_of(ROOT / "proc/self/status") or "", re.MULTILINE)
    capable = granted is not None and bool(int(granted[1], 16) >> CAP_IPC_LOCK & 1)
    return capable or resource.getrlimit(resource.RLIMIT_MEMLOCK)[0] == resource.RLIM_INFINITY


def _missing(who: str, fifo: bool, lock: bool) -> list[Complaint]:
    missing = [name for name, there in (("FIFO scheduling", fifo), ("memory lock", lock)) if not there]
    if not missing:
        return []
    return [Complaint(Level.AMBER, f"{who} may not have {' or '.join(missing)}: ticks may come late", RIGHTS_REMEDY)]


def _of_process(pid: int) -> list[Complaint]:
    """Return what the running process does not have although its unit says so."""
    try:
        policy = os.sched_getscheduler(pid)
    except OSError:  # it ended meanwhile
        return []
    locked = re.search(r"^VmLck:\s*(\d+)", text_of(ROOT / f"proc/{pid}/status") or "", re.MULTILINE)
    found = []
    if policy & ~os.SCHED_RESET_ON_FORK != os.SCHED_FIFO:
        found.append(Complaint(Level.AMBER, f"process {pid} does not run with FIFO", f"`systemctl restart {UNIT}`"))
    if locked is not None and int(locked[1]) == 0:
        found.append(Complaint(Level.AMBER, f"process {pid} has locked no memory", f"`systemctl restart {UNIT}`"))
    return found
