"""Writing a log line or a status line never waits."""

from __future__ import annotations

import os

from onboard.system.log import WAITING_TEXTS, BackgroundText
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
