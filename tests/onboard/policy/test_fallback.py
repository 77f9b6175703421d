"""The fallback: which of two policies drives, and what each remembers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import structlog

from onboard.config.config import RatesSection
from onboard.policy.fallback import (
    AGAIN_S,
    BLIND_DEG,
    BLIND_S,
    CAPACITY,
    FRONT,
    Trail,
    WithFallback,
    unpack,
)
from onboard.policy.inference import blank_observation
from onboard.values.clock import NS_PER_S
from onboard.values.errors import EngineError
from onboard.values.messages import BIN_DEG, BINS, Decision, Memory, Motion, Observation, Pose, Scan
from tests.rigs.devices.small_model import observation

RATES = RatesSection()
PERIOD_S = RATES.ticks_per_decision / RATES.control_hz
AGAIN = round(AGAIN_S / PERIOD_S)
FIRST, FALLBACK = 3, 5


class Counting:
    """Always chooses one action; its memory is the number of its decisions."""

    def __init__(self, name: str, action: int, shape: tuple[int, ...], memory_reset_s: float | None = None) -> None:
        self.name, self.memory_reset_s = name, memory_reset_s
        self.action, self.shape, self.closed = action, shape, False

    def initial_memory(self) -> Memory:
        """Return zeros."""
        return np.zeros(self.shape, np.float32)

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the action, and the memory one higher."""
        assert memory.shape == self.shape
        return Decision(self.action, np.zeros(28, np.float32)), memory + 1

    def close(self) -> None:
        """Note it."""
        self.closed = True


def pair(memory_reset_s: float | None = None) -> WithFallback:
    return WithFallback(Counting("first", FIRST, (2, 3), memory_reset_s), Counting("other", FALLBACK, (4,)), RATES)


def seen(x_m: float = 0.0, y_m: float = 0.0, *, blind: int = 0, age_s: float | None = 0.5) -> Observation:
    """Return what the robot senses at a place: `blind` bins of the front are blind, the last fix is `age_s` old."""
    looked = np.ones(BINS, np.bool_)
    looked[FRONT][:blind] = False
    rest = replace(observation(), stamp_ns=NS_PER_S)
    fix = None if age_s is None else Motion(Pose(x_m, y_m, 0.0), rest.filtered.twist)
    return replace(
        rest,
        scan=Scan(0, np.full(BINS, 4.0, np.float32), looked),
        filtered=Motion(Pose(x_m, y_m, 0.0), rest.filtered.twist),
        localization=fix,
        localization_age_ns=None if age_s is None else round(age_s * NS_PER_S),
    )


def drive(policy: WithFallback, *course: Observation, memory: Memory | None = None) -> tuple[list[int], Memory]:
    """Return the actions along a course, and the last memory."""
    actions = []
    memory = policy.initial_memory() if memory is None else memory
    for one in course:
        decision, memory = policy.decide(one, memory)
        actions.append(decision.action)
    return actions, memory


#    observation                          which drives
USUAL = [
    (seen(), FIRST),
    (seen(blind=round(BLIND_DEG / BIN_DEG)), FIRST),
    (seen(age_s=None), FALLBACK),
]


@pytest.mark.parametrize(("sensed", "action"), USUAL)
def test_it_drives_while_the_robot_senses_too_little(sensed: Observation, action: int) -> None:
    actions, _ = drive(pair(), seen(), sensed, seen())
    assert actions == [FIRST, action, FIRST]


def test_a_camera_is_lost_until_all_have_looked_for_a_while() -> None:
    """A remembered obstacle counts as seen, so that few bins are blind now and then."""
    again = round(BLIND_S / PERIOD_S)
    actions, _ = drive(pair(), seen(), seen(blind=round(BLIND_DEG / BIN_DEG) + 1), *[seen()] * again, seen(), seen())
    assert actions == [FIRST, *[FALLBACK] * (again + 1), FIRST, FIRST]


def test_a_blind_rear_is_as_usual() -> None:
    looked = np.zeros(BINS, np.bool_)
    looked[FRONT] = True
    actions, _ = drive(pair(), replace(seen(), scan=Scan(0, np.full(BINS, 4.0, np.float32), looked)))
    assert actions == [FIRST]


def test_it_drives_on_from_where_the_robot_came_back() -> None:
    out = [seen(1.5 + 0.1 * number) for number in range(AGAIN)]
    with structlog.testing.capture_logs() as said:
        actions, memory = drive(pair(), seen(0.5), *out, seen(0.5), seen(40.0))
    assert actions == [FIRST] * (AGAIN + 1) + [FALLBACK, FALLBACK]
    assert unpack(memory).circling
    assert [line["why"] for line in said] == ["returned to a place"]


def test_one_decision_earlier_is_not_back() -> None:
    out = [seen(1.5 + 0.1 * number) for number in range(AGAIN - 1)]
    actions, _ = drive(pair(), seen(0.5), *out, seen(0.5), seen(40.0))
    assert set(actions) == {FIRST}


def test_standing_still_is_not_coming_back() -> None:
    actions, _ = drive(pair(), *[seen(0.5)] * (3 * AGAIN))
    assert set(actions) == {FIRST}


def test_places_are_bounded_and_the_newest_stay() -> None:
    _, memory = drive(pair(), *[seen(number + 0.5) for number in range(CAPACITY + 5)])
    places = unpack(memory).places
    assert len(places) == CAPACITY
    assert places[[0, -1], 0].tolist() == [5.0, CAPACITY + 4.0]
    assert memory.shape == pair().initial_memory().shape


def test_both_remember_whoever_drives() -> None:
    _, memory = drive(pair(), seen(), seen(age_s=None), seen())
    assert memory[-10:].tolist() == [3.0] * 10


def test_the_period_of_the_first_resets_its_memory_alone() -> None:
    policy = pair(memory_reset_s=4 * PERIOD_S)
    assert policy.memory_reset_s is None
    _, memory = drive(policy, *[seen()] * 6)
    assert (memory[-10:-4].tolist(), memory[-4:].tolist()) == ([2.0] * 6, [6.0] * 4)


def test_the_log_says_who_drives_at_each_change_and_not_at_the_warm_up() -> None:
    policy = pair()
    with structlog.testing.capture_logs() as said:
        policy.decide(blank_observation(), policy.initial_memory())
        drive(policy, seen(), seen(age_s=None), seen(age_s=None), seen())
        drive(policy, seen(age_s=None))
    reported = [(line["event"], line["drives"], line["why"]) for line in said]
    lost = ("policy_changed", "other", "no localisation fix")
    assert reported == [lost, ("policy_changed", "first", "as usual"), lost]


def test_the_diagnostics_say_who_drives_and_why() -> None:
    policy, values = pair(), {"policy": "first", "fallback": "other"}
    drive(policy, seen())
    assert policy.diagnostic() == ("fallback", 0, "first drives", values)
    drive(policy, seen(age_s=None))
    assert policy.diagnostic() == ("fallback", 1, "other drives: no localisation fix", values)


@pytest.mark.parametrize("size", [-1, 1])
def test_a_memory_of_another_policy_is_refused(size: int) -> None:
    policy = pair()
    memory = np.zeros(policy.initial_memory().size + size, np.float32)
    with pytest.raises(EngineError, match=r"^first\+other: memory has shape "):
        policy.decide(seen(), memory)


def test_a_trail_survives_packing() -> None:
    trail = Trail(7, 4, 5, True, np.asarray([[-2, 3, 6], [-1, 3, 7]], np.float32))
    packed = unpack(trail.pack())
    assert (packed.decisions, packed.reset_at, packed.blind_at, packed.circling) == (7, 4, 5, True)
    assert np.array_equal(packed.places, trail.places)


def test_its_name_says_both_and_it_closes_both() -> None:
    policy = pair()
    policy.close()
    assert policy.name == "first+other"
    assert policy.first.closed
