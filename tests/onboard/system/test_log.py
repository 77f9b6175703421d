"""Writing a log line or a status line never waits."""

from __future__ import annotations

import os

import pytest

from onboard.system.log import WAITING_TEXTS, BackgroundText, with_code
from tests.rigs.machine.waiting import until


def test_what_is_written_arrives_in_order() -> None:
    reading, writing = os.pipe()
    stream = BackgroundText(writing)
    for number in range(100):
        stream.write(f"{number}\n")
    stream.close()
    stream.close()
    os.close(writing)
    with os.fdopen(reading) as pipe:
        assert pipe.read().split() == [str(number) for number in range(100)]


def test_a_reader_that_stalls_holds_nobody_up() -> None:
    reading, writing = os.pipe()
    stream = BackgroundText(writing)
    for _ in range(WAITING_TEXTS + 200):
        stream.write("x" * 1000)
    assert stream.dropped > 0
    stream.close()
    os.close(reading)


def test_a_descriptor_that_fails_is_counted() -> None:
    with open("/dev/full", "wb") as full:
        stream = BackgroundText(full.fileno())
        stream.write("lost\n")
        until(lambda: stream.dropped == 1)
        assert stream.dropped == 1
        stream.close()


#   event                                                                            code
EVENTS = [
    ({"event": "goal_refused", "reason": "the e-stop is pressed"}, "goal_at_e_stop"),
    ({"event": "goal_accepted", "reason": "none"}, None),
    ({"event": "mission", "state": "stopped: goal is occupied"}, "goal_occupied"),
    ({"event": "mission", "state": "navigating"}, None),
    ({"event": "recovery", "what": "rear_not_free"}, "recovery_rear_not_free"),
    ({"event": "stale_scan", "detail": "the robot stands until it is back"}, "stale_scan"),
    ({"event": "odometry_refused", "detail": "odometry refused: v is nan"}, "odometry_not_finite"),
    ({"event": "camera_down", "cause": "no frame for 3.0 s"}, "camera_silent"),
    ({"event": "ready", "robot": "carrier"}, None),
]


@pytest.mark.parametrize(("event", "code"), EVENTS)
def test_an_event_has_the_code_of_its_reason(event: dict[str, str], code: str | None) -> None:
    logged = with_code(None, "", dict(event))
    assert logged.pop("code", None) == code
    assert logged == event
