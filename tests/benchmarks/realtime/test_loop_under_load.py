"""The loop of the runtime beside a stress load, against the loop without it, cyclictest and asyncio.sleep.

All three run at the same time. The runtime and cyclictest have the same FIFO priority; the asyncio loop and the load
have none. LOOP_SECONDS is the length of each of the two runs.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onboard.commands.doctor.service import may_run_first

PROGRAM = Path(__file__).parents[2] / "rigs/machine/loaded_loop.py"
SECONDS = float(os.environ.get("LOOP_SECONDS", "60"))
START_S = 300.0
PRIORITY = 40
STRESS = ("stress-ng", "--cpu", "2", "--io", "1", "--vm", "1", "--vm-bytes", "128m", "--quiet")
PERIOD_US = 5000
LONGEST_US = 100_000


@contextlib.contextmanager
def beside(*command: str) -> Iterator[subprocess.Popen[str]]:
    """Run a command; nothing of it is left."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def percentiles_ms(histogram: str) -> dict[str, float]:
    """Return p50, p99 and max of cyclictest's histogram."""
    rows = [tuple(map(int, row)) for row in re.findall(r"^(\d+)\s+(\d+)$", histogram, re.MULTILINE)]
    counts = np.array([count for _, count in rows])
    shares = np.cumsum(counts) / counts.sum()
    p50, p99 = (rows[int(np.searchsorted(shares, share))][0] / 1e3 for share in (0.5, 0.99))
    return {"p50": p50, "p99": p99, "max": max(us for us, count in rows if count) / 1e3}


def measured(folder: Path) -> dict[str, Any]:
    """Return what the runtime, cyclictest and asyncio say of the same seconds."""
    loops = str(round(SECONDS * 1e6 / PERIOD_US))
    tick = ("cyclictest", "-q", "-m", "-t1", f"-p{PRIORITY}", f"-i{PERIOD_US}", f"-l{loops}", f"-h{LONGEST_US}")
    program = (sys.executable, str(PROGRAM))
    with beside(*program, "runtime", str(SECONDS), str(folder)) as ours:
        assert ours.stdout is not None
        while (line := ours.stdout.readline()) != "ready\n":
            assert line, "the runtime did not start"
        with beside(*program, "asyncio", str(SECONDS), "-") as plain, beside(*tick) as cyclic:
            return {
                "ours": json.loads(ours.communicate(timeout=START_S)[0].splitlines()[-1]),
                "asyncio": json.loads(plain.communicate(timeout=START_S)[0]),
                "cyclictest": percentiles_ms(cyclic.communicate(timeout=START_S)[0]),
            }


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.skipif(not may_run_first(), reason="this user may not have FIFO scheduling")
@pytest.mark.skipif(
    not all(map(shutil.which, ("stress-ng", "cyclictest"))), reason="needs the packages stress-ng and rt-tests"
)
def test_the_loop_holds_its_time_under_load(tmp_path: Path) -> None:
    alone = measured(tmp_path)
    with beside(*STRESS):
        loaded = measured(tmp_path)
    load = f"load average {os.getloadavg()[0]:.1f}"
    for name, one in (("alone", alone), ("under load", loaded)):
        ours, peers = one["ours"], {peer: one[peer] for peer in ("cyclictest", "asyncio")}
        late = ours["lateness_ms"]
        print(f"\n{name}: {load}, {ours['realtime']['scheduler']}, {ours['ticks']} ticks, dropped {ours['dropped']}")
        print(f"  missed {ours['missed_slots']} slots; {ours['deadline_misses']} late decisions of {ours['decisions']}")
        print(*(f"  {stage} {reported}" for stage, reported in ours["stages_ms"].items()), sep="\n")
        print(f"  lateness ms: ours {late}", *(f"  {peer} {reported}" for peer, reported in peers.items()), sep="\n")
        print(
            *(f"  p99 ours / {peer} {late['p99'] / reported['p99']:.2f}" for peer, reported in peers.items()), sep="\n"
        )
        print(f"  delay error ms {ours['delay_error_ms']}, decision ms {ours['decision_ms']}")
    ratio = loaded["ours"]["lateness_ms"]["p99"] / alone["ours"]["lateness_ms"]["p99"]
    print(f"lateness p99 under load / alone {ratio:.2f}")
    ours = loaded["ours"]
    assert ours["realtime"]["scheduler"] == f"FIFO {PRIORITY}"
    assert ours["missed_slots"] <= 1e-3 * ours["ticks"]
    assert ours["deadline_misses"] == 0
    assert ours["lateness_ms"]["p99"] < loaded["asyncio"]["p99"] / 4
