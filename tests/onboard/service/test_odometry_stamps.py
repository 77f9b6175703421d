"""Why odometry is stale though its messages come, by its stamps."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from onboard.config.config import OdometrySection
from onboard.counters import Counters
from onboard.service.odometry_stamps import OdometryStamps
from onboard.values.clock import NS_PER_S
from onboard.values.interfaces import InputFault
from onboard.values.messages import STOP, OdometryMessage
from tests.rigs.runtime_bench import Bench

WALL_S = 1_700_000_000.0
SLOW = "/odom: its stamps advance at 0.90 of real time: for a simulated clock set odometry.judge_late = false"

#   stamp [s] of a message sent at t [s]        the fault, and whether the robot stands for it; "" where there is none
STAMPS: list[tuple[str, Callable[[float], float], str, bool]] = [
    ("wall clock", lambda t: WALL_S + t, "", False),
    ("a clock since boot", lambda t: t, "", False),
    ("10 ms steps", lambda t: WALL_S + math.floor(t * 100) / 100, "", False),
    ("0.1 s steps", lambda t: WALL_S + math.floor(t * 10) / 10, "", False),
    ("a quick clock", lambda t: WALL_S + 1.1 * t, "", False),
    ("set back once", lambda t: WALL_S + t - (5.0 if t > 4.0 else 0.0), "", False),
    ("zero", lambda t: 0.0, "/odom: the stamps of all messages are 0: set the time in header.stamp", True),
    ("constant", lambda t: WALL_S, "/odom: the stamps of all messages are the same, 1700000000.000 s: set", True),
    ("whole seconds", lambda t: math.floor(WALL_S + t), "/odom: its stamps change only every 1.00 s: set", True),
    ("half seconds", lambda t: math.floor(2 * (WALL_S + t)) / 2, "/odom: its stamps change only every 0.50 s", True),
    ("0.9 of real time", lambda t: 0.9 * t, SLOW, True),
    ("0.5 of real time", lambda t: 0.5 * t, "/odom: its stamps advance at 0.50 of real time", True),
]


def last_fault(stamp_s: Callable[[float], float], section: OdometrySection, hz: int = 30) -> InputFault | None:
    """Return the fault after 10 s of messages at that rate."""
    stamps = OdometryStamps(section, "/odom")
    bench = Bench(listeners=[stamps], odometry=section.model_dump())
    began_ns, sent = bench.clock.now_ns(), [0]

    def send(inputs):
        t_s = (inputs.now_ns - began_ns) / NS_PER_S
        if t_s * hz < sent[0]:
            return replace(inputs, odometry=())
        sent[0] += 1
        return replace(inputs, odometry=(OdometryMessage(round(stamp_s(t_s) * NS_PER_S), inputs.now_ns, None, STOP),))

    bench.alter = send
    bench.seconds(10.0)
    return stamps.faults()[0] if stamps.faults() else None


@pytest.mark.parametrize(("what", "stamp_s", "reason", "standing"), STAMPS, ids=[row[0] for row in STAMPS])
@pytest.mark.parametrize("hz", [10, 30])
def test_the_cause_is_named_within_ten_seconds(what, stamp_s, reason, standing, hz) -> None:
    fault = last_fault(stamp_s, OdometrySection(), hz)
    if not reason:
        assert fault is None
    else:
        assert fault is not None
        assert fault.reason.startswith(reason)
        assert (fault.row, fault.standing) == ("odometry", standing)
        assert "odometry." in fault.reason, "it names a key"


def test_a_clock_that_is_not_judged_may_be_slow() -> None:
    assert last_fault(lambda t: 0.9 * t, OdometrySection(judge_late=False)) is None


def test_silence_is_no_fault_of_stamps() -> None:
    stamps = OdometryStamps(OdometrySection(), "/odom")
    bench = Bench(listeners=[stamps])
    bench.alter = lambda inputs: replace(inputs, odometry=())
    bench.seconds(3.0)
    assert stamps.faults() == []
    assert isinstance(bench.runtime.counters, Counters)
