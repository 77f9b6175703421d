"""The live status line of a terminal."""

from __future__ import annotations

import asyncio
import io

import pytest

from onboard.counters import Counters
from onboard.service import terminal_status
from onboard.service.terminal_status import StatusLine, text
from tests.rigs.runtime_bench import FORWARD, Bench, Puppet


def test_the_line_says_state_goal_command_reason_and_punctuality() -> None:
    bench = Bench(Puppet(FORWARD)).driving(x_m=5.0)
    bench.skip(2)
    del bench.images["rear"]
    line = text(bench.tick(), bench.runtime.counters)
    for part in ("navigating", "goal  4.", "v +0.60 m/s w +0.00 rad/s (none)", "missed 2 slots, 0 decisions", "blind"):
        assert part in line


def test_without_a_goal_there_is_no_distance() -> None:
    bench = Bench()
    assert "goal" not in text(bench.tick(), Counters())


def test_it_shows_the_newest_tick_until_cancelled_and_ends_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_status, "REFRESH_S", 0.0)
    monkeypatch.setenv("COLUMNS", "60")
    bench, line, terminal = Bench(), StatusLine(), io.StringIO()

    async def watched() -> None:
        task = asyncio.create_task(line.show(terminal))
        await asyncio.sleep(0)
        assert terminal.getvalue() == "", "nothing before the first tick"
        line.tick(bench.tick(), bench.runtime.counters)
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(watched())
    shown = terminal.getvalue()
    assert shown.startswith(f"{terminal_status.CLEAR_LINE}idle")
    assert shown.endswith("\n")
    assert max(len(part) for part in shown.rstrip("\n").split(terminal_status.CLEAR_LINE)) == 59
