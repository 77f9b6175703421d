"""The thread that publishes for viewers: what is read, at its rate, and nothing that nobody reads."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from onboard.counters import Counters
from onboard.recording.scene import Scene
from onboard.service import viewers
from onboard.service.viewers import EVERY, Viewers
from onboard.values.errors import DriverError
from tests.rigs.machine.waiting import until
from tests.rigs.runtime_bench import Bench


class Wire:
    """A wire whose writers count; `read` are the topics with a subscriber."""

    def __init__(self, read: set[str], fails: bool = False) -> None:
        self.read, self.fails, self.sent = read, fails, Counter[str]()

    def writer(self, name: str) -> Any:
        wire = self

        class Writer:
            def readers(self) -> int:
                return int(name in wire.read)

            def write(self, message: object) -> None:
                wire.sent[name] += 1
                if wire.fails and name in EVERY:
                    raise DriverError("the link is gone")

        return Writer()


def started(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> Viewers:
    monkeypatch.setattr(viewers, "PERIOD_S", 0.001)
    bench = Bench()
    made = Viewers(wire, Scene(bench.config))  # type: ignore[arg-type]  # stands in for the wire
    made.tick(bench.tick(3), Counters())
    return made


def test_what_is_read_is_published_at_its_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire(set(EVERY))
    made = started(wire, monkeypatch)
    until(lambda: wire.sent["path"] >= 10)
    made.close()
    made.close()
    for name, every in EVERY.items():
        assert wire.sent[name] == pytest.approx(wire.sent["arc"] / every, abs=1), name


def test_without_a_subscriber_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire({"arc"})
    made = started(wire, monkeypatch)
    until(lambda: wire.sent["arc"] >= 20)
    made.close()
    assert set(wire.sent) == {"arc", "reasons"}, "the latter once"


def test_a_lost_link_ends_the_thread_and_not_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    wire = Wire({"arc"}, fails=True)
    made = started(wire, monkeypatch)
    until(lambda: not made._thread.is_alive())
    made.tick(Bench().tick(), Counters())
    made.close()
    assert wire.sent["arc"] == 1
