"""How far the base rolls when the service's process hangs or dies, as rows of `docs/reliability.md`.

    PYTHONPATH=. python tests/rigs/machine/service_figures.py

The shipped unit runs under a systemd of its own, an operator drives at full speed (`service_base`), and then the event
loop is stopped, the process is killed, or it dies again and again until the service manager gives up.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from hil.physics.simulated_base import STEP_NS
from onboard.config.config import DdsSection
from onboard.values.clock import wall_ns
from onboard.values.geometry import distance
from onboard.values.messages import STOP, Twist
from tests.rigs.machine.processes import toml
from tests.rigs.machine.service_base import SCAN_TOPIC, Base
from tests.rigs.machine.systemd_rig import START_S, Machine, machine, missing
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

FULL = Twist(1.0, 0.0)
FAST_MPS = 0.95
STANDS_MPS = 1e-3
CONFIG = "etc/onboard/onboard.toml"
HEAD = "| fault | what stopped it | last command to move, tick | from m/s | stood at tick | rolled m | then |\n"
RULE = "| --- | --- | ---: | ---: | ---: | ---: | --- |\n"


@dataclass(frozen=True, slots=True)
class Row:
    """What came of one: ticks and metres count from the moment at which it was done."""

    moved_ticks: float
    from_mps: float
    stood_ticks: float
    rolled_m: float


def rolled(service: Machine, base: Base, number: int) -> Row:
    """Send the process a signal while it drives, and watch the base until it stands."""
    until(lambda: base.state.motion.twist.v_mps > FAST_MPS, START_S)
    base.looks = False  # so that the next process waits, and commands nothing
    motion, began, wall = base.state.motion, time.monotonic_ns(), wall_ns()
    os.kill(service.main_pid(), number)
    until(lambda: abs(base.state.motion.twist.v_mps) < STANDS_MPS, START_S)
    stood_ns = time.monotonic_ns() - began
    moving = [one.written_ns - wall for one in base.since(wall) if one.twist != STOP]
    way_m = distance(motion.pose, base.state.motion.pose)
    return Row(max(moving, default=0) / STEP_NS, motion.twist.v_mps, stood_ns / STEP_NS, way_m)


def tell(name: str, why: str, row: Row, then: str) -> None:
    """Write a row of the table."""
    ticks = f"{row.moved_ticks:.0f} | {row.from_mps:.2f} | {row.stood_ticks:.0f} | {row.rolled_m:.2f}"
    sys.stdout.write(f"| {name} | {why} | {ticks} | {then} |\n")


def until_up(service: Machine, base: Base) -> None:
    """Have the service drive again."""
    base.looks, base.operator = True, FULL
    until(lambda: service.is_state("active") and base.driven, START_S)


def crashes(service: Machine, base: Base) -> tuple[Row, str]:
    """Kill each process as soon as it drives, until the service manager gives up."""
    worst = Row(0.0, 0.0, 0.0, 0.0)
    for _ in range(10):
        row = rolled(service, base, signal.SIGKILL)
        worst = row if row.rolled_m > worst.rolled_m else worst
        base.looks = True
        until(lambda: service.is_state("failed") or (service.is_state("active") and base.driven), START_S)
        if service.is_state("failed"):
            break
    state = service.show("NRestarts", "ActiveState")
    return worst, f"{state['ActiveState']} after {state['NRestarts']} restarts"


def main() -> None:
    """Write the table to standard output."""
    if why := missing():
        sys.exit(f"no systemd of our own here: {why}")
    with tempfile.TemporaryDirectory() as folder:
        domain = free_domain()
        sections = {
            "robot": {"name": "served"}, "cameras": {"source": "none", "color": "none"},
            "scan": {"topic": SCAN_TOPIC}, "policy": {"model": "onboard-v2"}, "dds": {"domain": domain},
        }  # fmt: skip
        config = toml(Path(folder) / "onboard.toml", **sections).read_text()
        files = {CONFIG: config}
        with machine(Path(folder), files, "figures") as service, Base(DdsSection(domain=domain)) as base:
            sys.stdout.write(HEAD + RULE)
            service.run("systemctl", "start", "--no-block", "onboard.service")
            until_up(service, base)
            row = rolled(service, base, signal.SIGUSR1)
            why = "the base's own time-out; then `WatchdogSec` ends the process, and `ExecStopPost` sends zero"
            tell("the event loop hangs", why, row, "restarted")
            until_up(service, base)
            row = rolled(service, base, signal.SIGKILL)
            tell("`kill -9`", "the base's own time-out, and `ExecStopPost` sends zero", row, "restarted")
            until_up(service, base)
            worst, then = crashes(service, base)
            tell("killed each time that it drives", "the same; the longest way of all", worst, then)


if __name__ == "__main__":
    main()
