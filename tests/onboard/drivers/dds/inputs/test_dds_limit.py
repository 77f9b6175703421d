"""Limits on the speed over the wire."""

from __future__ import annotations

import math

import pytest

from onboard.config.config import LimitsSection
from onboard.drivers.dds.latched_inputs import UNKNOWN_MPS
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.robot_link import DdsInputs
from onboard.drivers.dds.ros_convert import header
from onboard.drivers.dds.ros_types import SpeedLimit
from onboard.drivers.dds.topics import WORD
from tests.rigs.network.loopback import PATIENCE_S, SECTION, Sender

STAMP_NS = 1_700_000_000 * 10**9


#   percentage   said     taken [m/s], at most 0.8 m/s
SPEED_LIMITS = [(False, 0.5, 0.5), (True, 50.0, 0.4), (False, 0.0, 0.0), (True, 0.0, 0.0)]


@pytest.mark.parametrize(("percentage", "expected", "taken"), SPEED_LIMITS)
def test_a_speed_limit_is_taken_in_metres_a_second_and_stays(wires, percentage, expected, taken):
    inputs, sender = DdsInputs(wires[0], limits=LimitsSection(v_max_mps=0.8)), Sender(*wires)
    assert inputs.take(1).speed_limit_mps is None
    sender.send("speed_limit", SpeedLimit(header(STAMP_NS, ""), percentage, expected))
    assert inputs.take(2).speed_limit_mps == pytest.approx(taken)
    assert inputs.take(3).speed_limit_mps == pytest.approx(taken)


def limit(mps: float) -> SpeedLimit:
    return SpeedLimit(header(STAMP_NS, ""), False, mps)


NAN, INF = math.nan, math.inf

#   words of one tick        what its tick tells, and the next ones
TICKS = [
    ([NAN], [NAN, None]),
    ([0.3, NAN], [0.3, NAN, 0.3]),
    ([NAN, 0.3], [0.3, NAN, 0.3]),
    ([0.3, -1.0, INF], [0.3, INF, 0.3]),
    ([0.3, 0.5], [0.5, 0.5]),
    ([0.3, 0.0], [0.0, 0.0]),
]


@pytest.mark.parametrize(("words", "mps"), TICKS)
def test_words_of_one_tick_lose_no_limit_and_a_bad_one_reaches_the_limits_once(wires, words, mps):
    inputs, sender = DdsInputs(wires[0]), Sender(*wires)
    sender.send("speed_limit", *map(limit, words))
    assert wires[1].writer("speed_limit").wait_for_acks(PATIENCE_S)
    taken = [inputs.take(tick).speed_limit_mps for tick in range(len(mps))]
    assert taken == pytest.approx(mps, nan_ok=True)


def test_a_bad_word_leaves_the_senders_own_limit(wires):
    inputs, sender = DdsInputs(wires[0]), Sender(*wires)
    sender.send("speed_limit", limit(0.3))
    assert inputs.take(1).speed_limit_mps == 0.3
    sender.send("speed_limit", limit(-1.0))
    assert [inputs.take(tick).speed_limit_mps for tick in (2, 3)] == [-1.0, 0.3]


def test_of_several_senders_the_least_counts_and_each_lifts_only_its_own(wires):
    inputs, other = DdsInputs(wires[0]), Wire(SECTION)
    one, two = Sender(*wires), Sender(wires[0], other)
    for number, (sender, word, mps) in enumerate([(one, 0.3, 0.3), (two, 0.5, 0.3), (two, 0.0, 0.3), (one, 0.0, 0.0)]):
        sender.send("speed_limit", limit(word))
        assert inputs.take(number).speed_limit_mps == mps
    other.close()


def test_the_limit_of_a_sender_that_is_gone_holds_until_one_that_came_later_speaks(wires):
    inputs, witness = DdsInputs(wires[0]), wires[0].reader("speed_limit")
    beside, gone, later = Sender(*wires), Wire(SECTION), Wire(SECTION)
    beside.send("speed_limit", limit(0.8))
    Sender(wires[0], gone).send("speed_limit", limit(0.3))
    assert inputs.take(1).speed_limit_mps == 0.3
    gone.close()
    assert wait_until(lambda: len(witness.writers()) == 1, PATIENCE_S)
    assert inputs.take(2).speed_limit_mps == 0.3
    beside.send("speed_limit", limit(0.0))
    assert inputs.take(3).speed_limit_mps == 0.3
    Sender(wires[0], later).send("speed_limit", limit(0.6))
    assert inputs.take(4).speed_limit_mps == 0.6
    later.close()


def test_a_full_queue_gives_no_limit_to_a_sender_that_never_gave_one(wires):
    inputs, other = DdsInputs(wires[0]), Wire(SECTION)
    witness = wires[0].reader("speed_limit")
    other.writer("speed_limit")
    assert wait_until(lambda: bool(witness.writers()), PATIENCE_S)
    Sender(*wires).send("speed_limit", *[limit(0.5)] * WORD.depth)
    assert [inputs.take(1).speed_limit_mps, inputs.take(2).speed_limit_mps] == [0.5] * 2
    other.close()


def test_a_limit_that_a_full_queue_may_have_lost_is_as_good_as_standing_until_its_sender_speaks(wires):
    inputs, other = DdsInputs(wires[0]), Wire(SECTION)
    beside, flood = Sender(*wires), Sender(wires[0], other)
    beside.send("speed_limit", limit(0.5))
    flood.send("speed_limit", *[limit(0.0)] * 17)
    assert inputs.take(1).speed_limit_mps == 0.5
    flood.send("speed_limit", *[limit(0.0)] * WORD.depth)
    assert [inputs.take(2).speed_limit_mps, inputs.take(3).speed_limit_mps] == [UNKNOWN_MPS] * 2
    beside.send("speed_limit", limit(0.3))
    assert inputs.take(4).speed_limit_mps == 0.3
    other.close()
