"""A message about used images survives the round trip over DDS, and names only images that had arrived."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pytest

from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_convert import ros_diagnostics, ros_twist
from onboard.drivers.dds.topics import reader_quality, topic
from onboard.policy.decision import FinishedDecision
from onboard.service.image_acks import ImageTiming, UsedImages, used_from_ros
from onboard.state import TickRecord
from onboard.values.clock import SimulatedClock, Slot, wall_ns
from onboard.values.errors import InputError
from onboard.values.messages import ColorFrame, Decision, DepthFrame, Twist
from tests.rigs.network.loopback import SECTION, hear
from tests.rigs.runtime_bench import LEFT, Bench, Puppet

MS = 1_000_000
START_NS = 5_000 * MS
NEWEST = {"front": 111, "rear": 222, "color": 333}
STAGES = {"inbox": MS, "odometry": MS, **dict.fromkeys(("scan", "policy", "limits", "hold", "send"), 0)}


@dataclass
class Camera:
    sent_ns: int


@pytest.fixture
def wire() -> Iterator[Wire]:
    with contextlib.closing(Wire(SECTION)) as wire:
        yield wire


def record() -> TickRecord:
    """Return a tick of a drive with working front and colour cameras."""
    some = next(tick for tick in Bench(Puppet(LEFT)).driving().ticks(20) if tick.sensed)
    inputs = replace(
        some.inputs,
        depth={"front": DepthFrame("front", 3, 1, np.ones((1, 1), np.uint16))},
        color=ColorFrame(2, 1, np.zeros((1, 1, 3), np.uint8)),
    )
    slot = Slot(70, START_NS, START_NS, 2)
    return replace(
        some, slot=slot, inputs=inputs, sent_ns=START_NS + 4 * MS, acted=None, reason="policy", stage_ns=STAGES
    )


def reported(wire: Wire, of: TickRecord) -> ImageTiming:
    """Return the DDS message about a tick, 9 ms after its start; the rear camera's lens is covered."""
    cameras = {"front": Camera(111), "rear": Camera(222), "left": Camera(0), "color": Camera(333)}
    listener = UsedImages(wire, "robot", SimulatedClock(START_NS + 9 * MS), cameras)
    reader = wire.reader("used")
    assert wait_until(lambda: bool(reader.writers()) and listener.has_readers(), 5.0)
    listener.tick(of, Bench(Puppet(LEFT)).runtime.counters)
    return used_from_ros(hear(reader)[0].sample)


def test_a_tick_without_a_decision(wire: Wire) -> None:
    before_ns = wall_ns()
    used = reported(wire, replace(record(), sensed=None))
    assert before_ns <= used.published_ns <= wall_ns()
    expected = ImageTiming(used.published_ns, 9 * MS, 3 * MS, 5 * MS, 70, 2, 0, 0, 0, "policy", NEWEST)
    assert used == expected


DECISION = Decision(LEFT, np.zeros(28, np.float32))
#    acted                                                         number, from sensing to the command [ns]
ACTED = [
    (FinishedDecision(6, START_NS - 100 * MS, DECISION, 1), 6, 104 * MS),
    (FinishedDecision(6, START_NS - 100 * MS, None, 1), 0, 0),  # a miss: the command is not of that decision
]


@pytest.mark.parametrize(("acted", "number", "acting_ns"), ACTED)
def test_a_tick_with_decisions(wire: Wire, acted: FinishedDecision, number: int, acting_ns: int) -> None:
    some = record()
    used = reported(wire, replace(some, acted=acted))
    assert some.sensed is not None
    assert (used.sensed, used.acted, used.acting_ns) == (some.sensed.number, number, acting_ns)


NOT_OURS = [
    [],
    [("used", 0, "policy", {"slot": 1})],
    [("used", 0, "policy", {"slot": "x"})],
    [("a", 0, "", {}), ("b", 0, "", {})],
]


@pytest.mark.parametrize("entries", NOT_OURS)
def test_other_messages_are_refused(entries: list) -> None:
    with pytest.raises(InputError, match="no message about used images"):
        used_from_ros(ros_diagnostics(1, "robot", entries))


def test_a_message_says_when_its_writer_wrote_it(wire: Wire) -> None:
    writer, reader = wire.writer("cmd_vel"), wire.reader("cmd_vel")
    assert wait_until(lambda: bool(reader.writers()), 5.0)
    before_ns = wall_ns()
    writer.write(ros_twist(Twist(0.1, 0.0)))
    after_ns = wall_ns()
    assert before_ns <= hear(reader)[0].written_ns <= after_ns


#    topic            asks for (reliable, best effort) ordinarily; with resend
QUALITIES = [
    ("front/depth/image", (False, True), (True, False)),
    ("odom", (False, True), (True, False)),
    ("cmd_vel", (True, False), (True, False)),
    ("e_stop", (True, True), (True, True)),
]


@pytest.mark.parametrize(("name", "ordinary", "resent"), QUALITIES)
def test_what_is_lost_is_asked_for_again_only_when_told_so(name: str, ordinary: tuple, resent: tuple) -> None:
    row = topic(name).quality
    for resend, expected in ((False, ordinary), (True, resent)):
        quality = reader_quality(SECTION.model_copy(update={"resend": resend}), row)
        assert (quality.read_reliable, quality.read_best_effort) == expected
        assert (quality.depth, quality.latched) == (row.depth, row.latched)
