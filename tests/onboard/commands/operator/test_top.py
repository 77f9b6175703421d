"""`onboard top`: the figures by the runtime's own diagnostics, and the screen as textual's pilot finds it."""

from __future__ import annotations

import asyncio
import queue
import sys
from dataclasses import replace

import pytest
from textual.widgets import Sparkline, Static

from onboard.commands.operator import top
from onboard.commands.operator.figures import DiagnosticsSample, figures
from onboard.commands.operator.robot import LEVELS, DiagnosticsRow, Status
from onboard.commands.operator.top_screen import Top
from onboard.counters import STAGES, Counters
from onboard.drivers.dds.ros_convert import ros_diagnostics
from onboard.service.publisher import Publisher
from onboard.state import TickRecord
from onboard.values.errors import InputError, MissingExtraError, OnboardError
from onboard.values.interfaces import Diagnostic
from onboard.values.messages import Inputs, Scan
from tests.rigs.runtime_bench import MS, Bench

PERIOD_MS = 1e3 / 30


class Wire:
    """`interfaces.Outputs` that keeps what `onboard status` reads; each part passes the conversion to ROS."""

    def __init__(self, robot: str = "carrier") -> None:
        self.robot, self.said, self.reported = robot, "", queue.SimpleQueue[Status]()

    def diagnostics(self, entries: list[Diagnostic], stamp_ns: int) -> None:
        rows = ros_diagnostics(stamp_ns, self.robot, entries).status
        parts = [
            DiagnosticsRow(row.name, LEVELS[row.level], row.message, {pair.key: pair.value for pair in row.values})
            for row in rows
        ]
        self.reported.put(Status(self.robot, 7, self.said, parts))

    def state(self, text: str) -> None:
        self.said = text

    def scan(self, scan: Scan, stamp_ns: int) -> None: ...
    def limits_scan(self, scan: Scan, stamp_ns: int) -> None: ...
    def transforms(self, odom_from_base: object, map_from_odom: object, stamp_ns: int) -> None: ...
    def cameras(self, stamp_ns: int) -> None: ...
    def drive(self, row: Diagnostic, stamp_ns: int) -> None: ...


class Robot:
    """A robot of the bench that publishes as the runtime does. `status` is what `RunningRobot` gives."""

    def __init__(self) -> None:
        self.wire = Wire()
        self._publisher = Publisher(self.wire)  # type: ignore[arg-type]  # has all of its methods
        self.bench = Bench(listeners=(self,))

    def tick(self, record: TickRecord, counters: Counters) -> None:
        self._publisher.publish(record, counters, list, None)

    def status(self, within_s: float) -> Status:
        try:
            return self.wire.reported.get(timeout=within_s)
        except queue.Empty:
            raise OnboardError("nothing heard") from None


def test_rates_and_reasons_are_those_since_the_message_before() -> None:
    robot = Robot()
    robot.bench.ask(30.0)
    robot.bench.seconds(3.0)
    first, second, third = (DiagnosticsSample(robot.wire.reported.get(), at_s) for at_s in (100.0, 101.0, 103.0))
    begun = figures(first, None)
    assert begun.rates == {"ticks": 0.0, "decisions": 0.0}
    assert begun.reasons == {"idle": 1} or sum(begun.reasons.values()) == 1
    assert figures(second, first).rates == {"ticks": 30.0, "decisions": 3.0}
    assert sum(figures(second, first).reasons.values()) == 30
    assert figures(third, second).rates == {"ticks": 15.0, "decisions": 1.5}
    assert figures(third, second).reasons == {"none": 30}
    assert figures(first, third).rates == {"ticks": 0.0, "decisions": 0.0}, "the robot was started again"
    assert figures(third, third).rates["ticks"] == 0.0


def test_the_age_of_each_input_counts_from_its_capture() -> None:
    robot = Robot()

    def older(inputs: Inputs) -> Inputs:
        depth = {name: replace(frame, stamp_ns=frame.stamp_ns - 40 * MS) for name, frame in inputs.depth.items()}
        return replace(inputs, depth=depth)

    robot.bench.alter = older
    robot.bench.tick()
    ages_ms = figures(DiagnosticsSample(robot.wire.reported.get(), 0.0), None).ages_ms
    assert {ages_ms[name] for name in robot.bench.images} == {"40.0"}
    assert (ages_ms["scan"], ages_ms["odometry"]) == ("40.0", "0.0")


def text_of(app: Top) -> str:
    return app.export_screenshot(simplify=True).replace("&#160;", " ")


async def shown(app: Top, words: str) -> str:
    """Return the screen once it has the words; after ten seconds as it is."""
    for _ in range(200):
        if words in (screen := text_of(app)):
            return screen
        await asyncio.sleep(0.05)
    return text_of(app)


def test_the_screen_shows_the_robot_pauses_and_says_when_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onboard.commands.operator.top_screen.SILENT_S", 0.6)
    robot = Robot()
    app = Top(robot, PERIOD_MS)

    async def watch() -> None:
        async with app.run_test(size=(120, 50)) as pilot:
            assert "waiting for the first diagnostics" in text_of(app)
            robot.bench.ask(30.0)
            robot.bench.seconds(2.0)
            screen = await shown(app, "navigating")
            for words in ("carrier", "domain 7", *STAGES, "lateness", "front", "deadline misses", "odometry only"):
                assert words in screen, words
            assert "no message from the robot" in await shown(app, "no message from the robot")
            await pilot.press("p")
            robot.bench.e_stop = True
            robot.bench.seconds(1.0)
            await asyncio.sleep(0.3)
            assert "e_stop" not in text_of(app)
            await pilot.press("p")
            robot.bench.seconds(1.0)
            assert "e_stop" in await shown(app, "e_stop")
            assert len(app.query_one("#worst", Sparkline).data or []) == 4
            assert app.query_one("#state", Static)
            await pilot.press("q")

    asyncio.run(watch())
    assert app.return_code == 0


def test_the_missing_extra_and_a_missing_terminal_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="needs a terminal"):
        top.top()
    monkeypatch.setitem(sys.modules, "textual", None)
    with pytest.raises(MissingExtraError, match=r"textual is not installed: pip install 'onboard\[top\]'"):
        top.top()
