"""Why inputs are stale though their messages are received: rates and stamps, of odometry, scans and images alike."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from onboard.config.config import Config
from onboard.drivers.dds.sender_clock import SenderClock
from onboard.service.input_pace import InputPaces, watched
from onboard.values.clock import NS_PER_S
from onboard.values.interfaces import InputFault
from onboard.values.messages import BINS, STOP, DepthFrame, Inputs, OdometryMessage, Scan
from tests.rigs.runtime_bench import Bench

WALL_S = 1_700_000_000.0
FREE = np.full(BINS, 5.0, np.float32), np.ones(BINS, np.bool_)
LIDAR = {"scan": {"topic": "laser"}, "cameras": {"source": "none", "color": "none"}}
Stamps = Callable[[float], float]


class Site:
    """A bench with one input whose messages a test stamps. hz: messages a second; lag_s: on their way at a time [s]"""

    def __init__(self, row: str, stamp_s: Stamps, hz: float, lag_s: Stamps = lambda t: 0.0, **sections: Any) -> None:
        config = Config(**sections)
        topic = {"odometry": "/odom", "scan": "/laser"}.get(row, "/front/depth/image")
        self.reader = SimpleNamespace(row=row, topic=topic, heard=deque())
        self.paces = InputPaces(watched(config, [self.reader]))
        self.bench = Bench(listeners=[self.paces], **sections)
        self.sends = True
        self._stamp_s, self._hz, self._lag_s, self._clock = stamp_s, hz, lag_s, SenderClock()
        self._began_ns, self._sent, self._kept = self.bench.clock.now_ns(), 0, 0
        self._judged = config.dds.judge_late
        self.bench.alter = self._altered

    def _altered(self, inputs: Inputs) -> Inputs:
        now_ns, taken = inputs.now_ns, []
        while (sent_s := self._sent / self._hz) + self._lag_s(sent_s) <= (now_ns - self._began_ns) / NS_PER_S:
            self._sent += 1
            if self.sends:
                taken.append(round(self._stamp_s(sent_s) * NS_PER_S))
        self.reader.heard.extend((stamp_ns, now_ns) for stamp_ns in taken)
        if self.reader.row == "odometry":
            return replace(inputs, odometry=tuple(OdometryMessage(one, now_ns, None, STOP) for one in taken))
        for stamp_ns in taken:
            late_ns = self._clock.take(stamp_ns, now_ns) if stamp_ns else 0
            late_ns = None if self.reader.row == "scan" and not stamp_ns and self._kept else late_ns
            if late_ns is not None and (late_ns < NS_PER_S // 2 or not self._judged):
                self._kept = now_ns - late_ns * self._judged
        if self.reader.row == "scan":
            return replace(inputs, scans={"laser": Scan(self._kept, *FREE)} if self._kept else {})
        fresh = self._kept and now_ns - self._kept < 300_000_000
        depth = {"front": DepthFrame("front", 0, self._kept, np.zeros((60, 80), np.uint16))} if fresh else {}
        return replace(inputs, depth=depth)

    def after(self, seconds: float) -> list[InputFault | None]:
        """Live so long; return the fault after each tick."""
        found: list[InputFault | None] = []
        for _ in range(round(seconds * 30)):
            self.bench.tick()
            found.append(next(iter(self.paces.faults()), None))
        return found


def steady(found: list[InputFault | None]) -> InputFault | None:
    """Return the last fault. Its words changed once at most, as of a new measurement."""
    assert sum(before != after for before, after in pairwise(found)) <= 1
    return found[-1]


SET = "its driver must set header.stamp"
ROWS = [
    ("odometry", {}, 30.0, "odometry.stale_ms = 200", "odometry.judge_late"),
    ("scan", LIDAR, 10.0, "limits.scan_stale_ms = 400", "dds.judge_late"),
    ("camera front", {"cameras": {"source": "dds"}}, 10.0, "cameras.stale_ms = 300", "dds.judge_late"),
]
#   stamp [s] of a message sent at t [s]        words of the fault; "" where there is none
STAMPS: list[tuple[str, Stamps, str]] = [
    ("wall clock", lambda t: WALL_S + t, ""),
    ("a clock since boot", lambda t: t + 0.1, ""),
    ("10 ms steps", lambda t: WALL_S + math.floor(t * 100) / 100, ""),
    ("0.1 s steps", lambda t: WALL_S + math.floor(t * 10 + 0.5) / 10, ""),
    ("a quick clock", lambda t: WALL_S + 1.1 * t, ""),
    ("set back once", lambda t: WALL_S + t - (5.0 if t > 4.0 else 0.0), ""),
    ("set back three times", lambda t: WALL_S + t - 0.15 * min(3, t // 2), ""),
    ("zero", lambda t: 0.0, f"the stamps of all messages are 0: {SET}"),
    ("constant", lambda t: WALL_S, f"the stamps of all messages are the same, 1700000000.000 s: {SET}"),
    ("whole seconds", lambda t: math.floor(WALL_S + t), f"its stamps change only every 1.00 s: {SET}"),
    (
        "backward",
        lambda t: WALL_S - t,
        "its stamps jump back repeatedly: its driver must take header.stamp from a single clock",
    ),
    (
        "0.9 of real time",
        lambda t: 0.9 * t + 0.1,
        "its stamps advance at 0.9",
    ),
    (
        "0.5 of real time",
        lambda t: 0.5 * t + 0.1,
        "its stamps advance at 0.5",
    ),
]


@pytest.mark.parametrize(("what", "stamp_s", "words"), STAMPS, ids=[row[0] for row in STAMPS])
@pytest.mark.parametrize(("row", "sections", "hz", "key", "judge"), ROWS, ids=[row[0] for row in ROWS])
def test_the_cause_is_named_within_ten_seconds_and_stays(
    row: str, sections: dict[str, Any], hz: float, key: str, judge: str, what: str, stamp_s: Stamps, words: str
) -> None:
    site = Site(row, stamp_s, hz, **sections)
    site.after(8.0)
    fault = steady(site.after(3.0))
    if not words or (what == "zero" and row == "camera front"):
        assert fault is None
        return
    assert fault is not None
    assert fault.reason.startswith(f"{site.reader.topic}: ")
    if words.startswith("its stamps advance"):
        measured, _, rest = fault.reason.rpartition(" at ")[2].partition(" ")
        assert float(measured) == pytest.approx(float(words.rpartition(" ")[2]), abs=0.02)
        assert rest.startswith(f"of real time: for a simulated clock set {judge} = false")
    else:
        assert words in fault.reason
        assert key in fault.reason
    assert (fault.row, fault.standing) == (row, True)


#   row, messages a second, words, whether the robot stands for it
RATES = [
    (0, 4.0, "messages a second, 10 needed (odometry.stale_ms = 200)", True),
    (0, 1.0, "messages a second, 10 needed", True),
    (0, 7.0, "messages a second, 10 needed", False),
    (0, 10.0, "", False),
    (1, 2.0, "messages a second, 5 needed (limits.scan_stale_ms = 400)", True),
    (1, 4.0, "messages a second, 5 needed", False),
    (2, 2.0, "messages a second, 6.67 needed (cameras.stale_ms = 300)", True),
]


@pytest.mark.parametrize(("row", "hz", "words", "standing"), RATES)
def test_a_slow_input_is_named_with_its_rate_and_the_limit(row: int, hz: float, words: str, standing: bool) -> None:
    name, sections, *_ = ROWS[row]
    site = Site(name, lambda t: WALL_S + t, hz, **sections)
    site.after(8.0)
    fault = steady(site.after(3.0))
    assert (fault is not None) == bool(words)
    if fault is not None:
        measured, _, rest = fault.reason.partition(": ")[2].partition(" ")
        assert float(measured) == pytest.approx(hz, rel=0.05)
        assert rest.startswith(words)
        assert fault.standing == standing


def test_a_clock_that_is_not_judged_may_be_slow() -> None:
    site = Site("odometry", lambda t: 0.9 * t, 30.0, odometry={"judge_late": False})
    assert set(site.after(12.0)) == {None}


@pytest.mark.parametrize("row", range(3))
def test_silence_is_no_fault_of_stamps(row: int) -> None:
    name, sections, hz, *_ = ROWS[row]
    site = Site(name, lambda t: WALL_S + t, hz, **sections)
    site.after(6.0)
    site.sends = False
    assert {fault for fault in site.after(10.0) if fault is not None} == set()


@pytest.mark.parametrize("seed", range(3))
def test_a_busy_machine_is_not_taken_for_a_slow_clock(seed: int) -> None:
    """Messages are held up by 0 to 0.4 s for seconds, and come together then."""
    draw = random.Random(seed)
    held_s = [draw.choice([0.0, 0.1, 0.25, 0.4]) for _ in range(200)]
    site = Site("odometry", lambda t: WALL_S + t, 30.0, lambda t: held_s[int(4 * t)])
    assert not any(fault is not None and "judge_late" in fault.reason for fault in site.after(30.0))


def test_messages_that_queue_are_named_late() -> None:
    site = Site("odometry", lambda t: WALL_S + t, 30.0, lambda t: 0.5 * (t > 2.0))
    (fault,) = set(site.after(14.0)[-90:])
    assert fault is not None
    assert "ms later than the quickest one (odometry.stale_ms = 200): they queue on their way" in fault.reason
    assert fault.standing
