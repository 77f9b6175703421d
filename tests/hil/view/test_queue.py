"""The bounded queue: a stalled screen loses counted messages and never delays the reader."""

from __future__ import annotations

import threading

import pytest

from hil.recordings.recording import SMALL_BYTES, TopicMessage
from hil.view.queue import ScreenQueue
from onboard.drivers.dds.ros_types import Image, String
from onboard.values.errors import DriverError, InputError
from tests.rigs.machine.waiting import until


class FakeScreen:
    """Shows nothing until it is let go; keeps what it was given."""

    def __init__(self, stalled: bool = False) -> None:
        self.shown: list[TopicMessage] = []
        self.entered = threading.Event()
        self.go = threading.Event()
        if not stalled:
            self.go.set()

    def show(self, message: TopicMessage) -> None:
        self.entered.set()
        self.go.wait()
        self.shown.append(message)

    def close(self) -> None:
        self.go.set()


class Refusing(FakeScreen):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def show(self, message: TopicMessage) -> None:
        if message.topic == "bad":
            raise self._error
        super().show(message)


def word(number: int, topic: str = "state") -> TopicMessage:
    return TopicMessage(topic, number, String(str(number)))


def test_everything_is_shown_in_order():
    screen = FakeScreen()
    pump = ScreenQueue(screen)
    for number in range(100):
        assert pump.put(word(number))
    counts = pump.close()
    assert [message.time_ns for message in screen.shown] == list(range(100))
    assert (counts.shown, counts.dropped, counts.unshowable, counts.waiting) == (100, {}, 0, 0)


def test_what_does_not_fit_is_dropped_and_counted_by_topic():
    screen = FakeScreen(stalled=True)
    pump = ScreenQueue(screen, most_messages=10)
    assert pump.put(word(0))
    assert screen.entered.wait(5.0)
    kept = [pump.put(word(number, "odom" if number % 2 else "scan")) for number in range(1, 31)]
    assert kept == [True] * 9 + [False] * 21  # the one being shown still counts
    screen.go.set()
    counts = pump.close()
    assert [message.time_ns for message in screen.shown] == list(range(10))
    assert counts.dropped == {"scan": 11, "odom": 10}
    assert counts.shown + sum(counts.dropped.values()) == 31


def test_images_are_bounded_by_their_bytes():
    screen = FakeScreen(stalled=True)
    pump = ScreenQueue(screen, most_bytes=5 * SMALL_BYTES)
    image = TopicMessage("color/image", 0, Image(data=bytes(3 * SMALL_BYTES)))
    assert (pump.put(image), pump.put(image), pump.put(word(1)), pump.put(word(2))) == (True, False, True, False)
    screen.go.set()
    until(lambda: pump.stats().waiting == 0)
    assert pump.put(image)
    assert pump.close().dropped == {"color/image": 1, "state": 1}


def test_a_screen_that_never_comes_back_does_not_hold_the_end():
    screen = FakeScreen(stalled=True)
    pump = ScreenQueue(screen)
    for number in range(5):
        pump.put(word(number))
    counts = pump.close(timeout_s=0.05)
    assert (counts.shown, counts.waiting) == (0, 5)
    assert not pump.put(word(6))
    screen.go.set()


def test_a_message_that_cannot_be_shown_is_counted_with_its_reason():
    screen = Refusing(InputError("image is 1x1, mounts say 80x60"))
    pump = ScreenQueue(screen)
    for topic in ("state", "bad", "state"):
        pump.put(word(0, topic))
    counts = pump.close()
    assert (counts.shown, counts.unshowable) == (2, 1)
    assert counts.problem == "bad: image is 1x1, mounts say 80x60"


def test_the_error_of_a_failing_screen_reaches_the_listener():
    pump = ScreenQueue(Refusing(DriverError("the viewer is gone")))
    pump.put(word(0, "bad"))
    with pytest.raises(DriverError, match="the viewer is gone"):
        until(lambda: not pump.put(word(1)))
