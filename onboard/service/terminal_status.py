"""A live status line on a terminal: state, distance to the goal, command with its reason, timing."""

from __future__ import annotations

import asyncio
import shutil
from typing import Protocol

from onboard.counters import Counters
from onboard.state import TickRecord

REFRESH_S = 0.2
CLEAR_LINE = "\r\x1b[K"


class Terminal(Protocol):
    """Receives the line; must not wait."""

    def write(self, text: str, /) -> int:
        """Write text."""

    def flush(self) -> None:
        """Flush the text."""


class StatusLine:
    """Keeps the newest tick. A task beside the runtime writes its status over the last line of a terminal."""

    def __init__(self) -> None:
        self._newest: tuple[TickRecord, Counters] | None = None

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Keep the tick."""
        self._newest = record, counters

    async def show(self, terminal: Terminal) -> None:
        """Write the line every REFRESH_S until cancelled; a final newline keeps the last line."""
        try:
            while True:
                if self._newest is not None:
                    width = shutil.get_terminal_size().columns - 1
                    terminal.write(CLEAR_LINE + text(*self._newest)[:width])
                    terminal.flush()
                await asyncio.sleep(REFRESH_S)
        finally:
            terminal.write("\n")


def text(record: TickRecord, counters: Counters) -> str:
    """Return the status of one tick as a line."""
    goal = "" if record.goal_distance_m is None else f"  goal {record.goal_distance_m:5.2f} m"
    command = f"  v {record.command.v_mps:+.2f} m/s w {record.command.w_radps:+.2f} rad/s ({record.reason})"
    decision = counters.decision.summary_ms()
    missed = f"missed {counters.missed_slots} slots, {counters.deadline_misses} decisions"
    timing = f"  decision {decision['p50']:.0f} ms, {missed}"
    blind = int((~record.scan.seen).sum())
    return f"{record.state}{goal}{command}{timing}  blind {blind} bins"
