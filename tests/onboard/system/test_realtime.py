"""What keeps ticks on time, as the kernel reports it, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from onboard.commands.doctor.service import may_run_first
from onboard.system import realtime
from onboard.values.errors import ConfigError

ALLOWED = sorted(os.sched_getaffinity(0))
PROGRAM = """
import json, os, threading
from onboard.system import realtime
{before}
realtime.leave_core({core})
cores = []
other = threading.Thread(target=lambda: cores.extend(os.sched_getaffinity(0)))
other.start()
other.join()
found = realtime.settled({core})
kept = bytearray(1 << 20)
locked = next(line for line in open('/proc/self/status') if line.startswith('VmLck')).split()[1]
scheduled = [os.sched_getscheduler(0), os.sched_getparam(0).sched_priority]
print(json.dumps([found.diagnostic(), scheduled, cores, int(locked)]))
"""
NOBODY = "os.setresgid(65534, 65534, 65534)\nos.setresuid(65534, 65534, 65534)"


def settled_by(core: int | None = None, before: str = "") -> Any:
    """Return row of the diagnostics, scheduler and priority, cores of a later thread, and locked memory [kB]."""
    program = PROGRAM.format(core=core, before=before)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(not may_run_first(), reason="this user may not have FIFO scheduling")
def test_the_priority_that_the_service_gave_stays() -> None:
    given = "os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(7))"
    row, scheduled, _, _ = settled_by(before=given)
    assert (scheduled, row[3]["scheduler"]) == ([os.SCHED_RR, 7], "RR 7")


@pytest.mark.skipif(os.geteuid() != 0, reason="without privileges the limit on locked memory decides")
def test_what_is_touched_after_the_lock_stays_in_memory() -> None:
    row, _, _, locked_kb = settled_by()
    if "memory is not locked" in row[2]:
        pytest.skip("root may not lock memory here (no CAP_IPC_LOCK)")
    assert locked_kb > 1024
    assert row[3]["memory"] == "locked"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")
def test_a_run_without_rights_goes_on_and_says_what_it_lacks_and_what_helps() -> None:
    limits = "import resource\nfor one in (resource.RLIMIT_RTPRIO, resource.RLIMIT_MEMLOCK):\n"
    limits += "    resource.setrlimit(one, (0, 0))\n"
    imports_what_logging_needs = "realtime.log.warning('a line')\n"
    row, scheduled, _, locked_kb = settled_by(before=imports_what_logging_needs + limits + NOBODY)
    assert (row[1], scheduled[0], locked_kb) == (1, os.SCHED_OTHER, 0)
    assert row[2] == f"memory is not locked (limit): {realtime.LOCK_REMEDY}"
    assert row[3]["scheduler"] == "not first"
    assert row[3]["memory"] == "not locked"


@pytest.mark.skipif(len(ALLOWED) < 2, reason="one core cannot be divided")
def test_the_ticks_core_is_its_own() -> None:
    row, _, cores, _ = settled_by(core=ALLOWED[-1])
    assert sorted(cores) == ALLOWED[:-1]
    assert row[3]["core"] == str(ALLOWED[-1])
    row, _, cores, _ = settled_by()
    assert sorted(cores) == ALLOWED


def test_a_core_that_is_not_there_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=f"rates.core: {ALLOWED[-1] + 1}: this process may use the cores {ALLOWED[0]}"
    ):
        realtime.check_core(ALLOWED[-1] + 1)
    realtime.check_core(None)
