"""`onboard/safety/recovery.py` at its edges: each limit met exactly and missed by a little, and the returned state."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest

from onboard.config.config import RecoverySection
from onboard.safety import recovery
from onboard.safety.recovery import (
    DISTANCE_SLACK,
    REAR_NOISE_M,
    ROLLS_ON_S,
    Backing,
    Event,
    RecoveryState,
    Situation,
    advance,
    blocked,
    path_m,
    renewed,
)
from onboard.values.clock import NS_PER_S
from onboard.values.messages import STOP, Twist

SECTION = RecoverySection(blocked_s=4.0, backward_mps=0.25, backward_s=2.0, tries=2, rear_clearance_m=0.125)
BACK = Twist(-0.25, 0.0)


@pytest.fixture(autouse=True)
def _exact_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "WINDOW_S", 32.0)
    monkeypatch.setattr(recovery, "COOL_DOWN_S", 8.0)


WAY_M = 0.5
T_NS = 100 * NS_PER_S
WANTS = Situation(
    suspended=False, obstacle=None, wanted=Twist(0.6, 0.0), measured=STOP, travelled_m=7.0, rear_free_m=inf
)
BLOCKED = RecoveryState(now_ns=T_NS, blocked_ns=T_NS)
UNDER_WAY = RecoveryState(now_ns=T_NS, backing=Backing(T_NS, 7.0), tries_ns=(T_NS,))


def seconds(value: float) -> int:
    return T_NS + round(value * NS_PER_S)


# --- R1 ---------------------------------------------------------------------------------------------------------------

#   what                          measured                          wanted              blocked?
AT_THE_LIMIT = [
    ("moves no more than that",   Twist(0.02, 0.05),  Twist(0.3, 0.0),    True),
    ("moves a little more",       Twist(0.0201, 0.0), Twist(0.3, 0.0),    False),
    ("moves back a little more",  Twist(-0.0201, 0.0), Twist(0.3, 0.0),   False),
    ("turns a little more",       Twist(0.0, 0.0501), Twist(0.3, 0.0),    False),
    ("wants no more than that",   STOP,               Twist(0.05, 0.1),   False),
    ("wants back no more",        STOP,               Twist(-0.05, -0.1), False),
    ("wants back a little more",  STOP,               Twist(-0.051, 0.0), True),
    ("wants to turn right more",  STOP,               Twist(0.0, -0.101), True),
]  # fmt: skip


@pytest.mark.parametrize(("what", "measured", "wanted", "expected"), AT_THE_LIMIT, ids=[row[0] for row in AT_THE_LIMIT])
def test_r1_exactly_at_its_limits(what: str, measured: Twist, wanted: Twist, expected: bool) -> None:
    assert blocked(replace(WANTS, measured=measured, wanted=wanted), RecoverySection()) is expected


# --- R2, R3, R8, R9: times met exactly --------------------------------------------------------------------------------


@pytest.mark.parametrize(("late_ns", "begins"), [(-1, False), (0, True), (1, True)])
def test_r2_the_time_blocked_is_met_exactly(late_ns: int, begins: bool) -> None:
    state, override, event = advance(BLOCKED, WANTS, SECTION, seconds(4.0) + late_ns)
    assert (override, event) == ((BACK, Event.BEGAN) if begins else (None, None))
    assert state.now_ns == seconds(4.0) + late_ns
    assert state.backing == (Backing(seconds(4.0) + late_ns, 7.0) if begins else None)
    assert state.blocked_ns == (None if begins else T_NS)
    assert state.tries_ns == ((seconds(4.0) + late_ns,) if begins else ())


@pytest.mark.parametrize(("late_ns", "goes_on"), [(-1, True), (0, False)])
def test_r3_the_time_of_a_try_is_met_exactly(late_ns: int, goes_on: bool) -> None:
    state, override, event = advance(UNDER_WAY, WANTS, SECTION, seconds(2.0) + late_ns)
    assert (override, event) == ((BACK, None) if goes_on else (None, Event.ENDED))
    assert state.ended_ns == (None if goes_on else seconds(2.0))
    assert (state.backing is None) is not goes_on


@pytest.mark.parametrize(("late_ns", "begins"), [(-1, False), (0, True)])
def test_r8_the_cool_down_is_met_exactly(late_ns: int, begins: bool) -> None:
    resting = replace(BLOCKED, ended_ns=T_NS)
    _, override, event = advance(resting, WANTS, SECTION, seconds(8.0) + late_ns)
    assert (override, event) == ((BACK, Event.BEGAN) if begins else (None, None))


@pytest.mark.parametrize(("late_ns", "gives_up"), [(-1, True), (0, False)])
def test_r9_the_window_is_met_exactly(late_ns: int, gives_up: bool) -> None:
    tried = replace(BLOCKED, tries_ns=(T_NS, seconds(10.0)))
    now_ns = seconds(32.0) + late_ns
    state, override, event = advance(tried, WANTS, SECTION, now_ns)
    if gives_up:
        assert (override, event) == (STOP, Event.GAVE_UP)
        assert state.gave_up == "blocked: 2 recoveries in 32 s failed"
    else:
        assert (override, event) == (BACK, Event.BEGAN)
        assert state.tries_ns == (seconds(10.0), now_ns)
        assert state.gave_up == ""


# --- R4, R5, R6: distances met exactly --------------------------------------------------------------------------------


def test_r4_r6_r15_how_much_more_is_allowed() -> None:
    assert (DISTANCE_SLACK, REAR_NOISE_M, ROLLS_ON_S) == (1.5, 0.05, 0.5)
    assert path_m(SECTION) == WAY_M


@pytest.mark.parametrize(("backed_m", "goes_on"), [(0.0, True), (0.749, True), (0.75, False), (2.0, False)])
def test_r4_the_distance_is_met_exactly(backed_m: float, goes_on: bool) -> None:
    state, override, event = advance(UNDER_WAY, replace(WANTS, travelled_m=7.0 + backed_m), SECTION, seconds(0.5))
    assert (override, event) == ((BACK, None) if goes_on else (None, Event.ENDED))
    assert state.ended_ns == (None if goes_on else seconds(0.5))


@pytest.mark.parametrize(("free_m", "begins"), [(0.624, False), (0.625, True)])
def test_r5_the_room_is_met_exactly(free_m: float, begins: bool) -> None:
    _, override, event = advance(BLOCKED, replace(WANTS, rear_free_m=free_m), SECTION, seconds(4.0))
    assert (override, event) == ((BACK, Event.BEGAN) if begins else (None, Event.REAR_NOT_FREE))


#   backed [m]  free behind [m]         goes on?     rest of the way [m]
REST = [
    (0.0, 0.125 + 0.5 - 0.05, True),  # 0.5
    (0.0, 0.125 + 0.5 - 0.05 - 1e-9, False),
    (0.375, 0.125 + 0.125 - 0.05 + 1e-9, True),  # 0.125
    (0.375, 0.125 + 0.125 - 0.05 - 1e-9, False),
    (0.7, 0.125 - 0.05 + 1e-9, True),  # none: the whole way is done, but not yet the distance of R4
    (0.7, 0.125 - 0.05 - 1e-9, False),
]


@pytest.mark.parametrize(("backed_m", "free_m", "goes_on"), REST)
def test_r6_the_rest_of_the_way_is_met_exactly(backed_m: float, free_m: float, goes_on: bool) -> None:
    situation = replace(WANTS, travelled_m=7.0 + backed_m, rear_free_m=free_m)
    state, override, event = advance(UNDER_WAY, situation, SECTION, seconds(0.5))
    assert (override, event) == ((BACK, None) if goes_on else (None, Event.CUT_SHORT))
    assert state.ended_ns == (None if goes_on else seconds(0.5))


# --- R7, R10, R12: what a step hands back -----------------------------------------------------------------------------


def test_r7_a_refused_try_is_counted_ends_at_once_and_asks_for_nothing() -> None:
    before = replace(BLOCKED, tries_ns=(seconds(1.0),))
    state, override, event = advance(before, replace(WANTS, rear_free_m=0.0), SECTION, seconds(5.0))
    assert (override, event) == (None, Event.REAR_NOT_FREE)
    assert state == RecoveryState(now_ns=seconds(5.0), tries_ns=(seconds(1.0), seconds(5.0)), ended_ns=seconds(5.0))


def test_r10_suspended_forgets_since_when_it_was_blocked_and_nothing_else() -> None:
    before = replace(BLOCKED, tries_ns=(seconds(-5.0),), ended_ns=seconds(-1.0))
    held = replace(WANTS, suspended=True)
    assert advance(before, held, SECTION, seconds(1.0)) == (
        replace(before, now_ns=seconds(1.0), blocked_ns=None), None, None
    )  # fmt: skip


def test_r10_r11_suspended_ends_a_try_with_an_event_that_resets_the_memory() -> None:
    state, override, event = advance(UNDER_WAY, replace(WANTS, suspended=True), SECTION, seconds(0.5))
    assert (override, event) == (None, Event.CUT_SHORT)
    assert state == RecoveryState(now_ns=seconds(0.5), tries_ns=(T_NS,), ended_ns=seconds(0.5))


def test_r12_a_nanosecond_back_restarts_all_times() -> None:
    before = replace(BLOCKED, tries_ns=(seconds(-20.0), seconds(-10.0)), ended_ns=seconds(-8.0))
    now_ns = T_NS - 1
    assert advance(before, WANTS, SECTION, now_ns) == (
        RecoveryState(now_ns=now_ns, tries_ns=(now_ns, now_ns), ended_ns=now_ns), None, None
    )  # fmt: skip


def test_r12_a_try_under_way_ends_and_is_kept_as_one() -> None:
    state, override, event = advance(UNDER_WAY, WANTS, SECTION, seconds(-3.0))
    assert (override, event) == (None, Event.CUT_SHORT)
    assert state == RecoveryState(now_ns=seconds(-3.0), tries_ns=(seconds(-3.0),), ended_ns=seconds(-3.0))


# --- R13: the override ------------------------------------------------------------------------------------------------

#   what                  state                                            situation                        override
OVERRIDES = [
    ("drives",            RecoveryState(now_ns=T_NS),                      replace(WANTS, wanted=STOP),     None),
    ("blocked, waits",    BLOCKED,                                         WANTS,                           None),
    ("a try under way",   UNDER_WAY,                                       WANTS,                           BACK),
    ("held during a try", UNDER_WAY,                                       replace(WANTS, suspended=True),  None),
    ("gave up",           RecoveryState(now_ns=T_NS, gave_up="no way"),    replace(WANTS, suspended=True),  STOP),
    ("gave up, free",     RecoveryState(now_ns=T_NS, gave_up="no way"),    replace(WANTS, wanted=STOP),     STOP),
]  # fmt: skip


@pytest.mark.parametrize(("what", "state", "situation", "override"), OVERRIDES, ids=[row[0] for row in OVERRIDES])
def test_r13_the_override_is_backward_zero_or_none(
    what: str, state: RecoveryState, situation: Situation, override: Twist | None
) -> None:
    after, got, _ = advance(state, situation, SECTION, seconds(1.0))
    assert got == override
    assert (after.now_ns, after.gave_up) == (seconds(1.0), state.gave_up)


# --- R15: what it backs into ------------------------------------------------------------------------------------------

#   notice as the try begins, then tick by tick                     goes on so many ticks
NOTICED = [
    (None,  [None, None, None],         3),
    (None,  [None, True, True],         1),
    (False, [True],                     0),
    (False, [False, True],              1),
    (True,  [True, True, True],         3),
    (True,  [True, False, False],       3),
    (True,  [True, False, True],        2),
    (True,  [None, True],               1),
]  # fmt: skip


@pytest.mark.parametrize(("at_first", "then", "goes_on"), NOTICED)
def test_r15_a_notice_that_comes_on_ends_a_try_at_once(
    at_first: bool | None, then: list[bool | None], goes_on: int
) -> None:
    state, override, event = advance(BLOCKED, replace(WANTS, obstacle=at_first), SECTION, seconds(4.0))
    assert (override, event) == (BACK, Event.BEGAN)
    steps = []
    for number, word in enumerate(then, 1):
        state, override, event = advance(state, replace(WANTS, obstacle=word), SECTION, seconds(4.0 + 0.1 * number))
        steps.append((override, event))
        if event is not None:
            break
    ends = [(None, Event.CUT_SHORT)] if goes_on < len(then) else []
    assert steps == [(BACK, None)] * goes_on + ends
    assert (state.backing is None, state.backed_into) == (bool(ends), bool(ends))
    assert state.ended_ns == (seconds(4.0 + 0.1 * len(steps)) if ends else None)


def test_r15_r7_while_that_notice_stays_on_no_try_begins_and_each_counts() -> None:
    touches = replace(WANTS, obstacle=True)
    state, _, event = advance(UNDER_WAY, touches, SECTION, seconds(0.5))
    assert (event, state.tries_ns) == (Event.CUT_SHORT, (T_NS,))
    happened = []
    for number in range(1, 200):
        state, override, event = advance(state, touches, SECTION, seconds(0.5 + 0.1 * number))
        assert override in (None, STOP)
        happened += [event] if event else []
    assert happened == [Event.REAR_NOT_FREE, Event.GAVE_UP]


@pytest.mark.parametrize("word", [None, False])
def test_r15_once_that_notice_is_off_it_may_back_again(word: bool | None) -> None:
    state, _, _ = advance(UNDER_WAY, replace(WANTS, obstacle=True), SECTION, seconds(0.5))
    state, _, _ = advance(state, replace(WANTS, obstacle=word), SECTION, seconds(0.6))
    assert not state.backed_into
    state, _, _ = advance(state, replace(WANTS, wanted=STOP), SECTION, seconds(1.1))
    state = replace(state, blocked_ns=seconds(1.1))
    _, override, event = advance(state, replace(WANTS, obstacle=True), SECTION, seconds(9.0))
    assert (override, event) == (BACK, Event.BEGAN)


@pytest.mark.parametrize("changes", [{"suspended": True}, {"wanted": STOP}], ids=["suspended", "nothing wanted"])
def test_r15_it_is_remembered_for_as_long_as_the_notice_is_on(changes: dict[str, object]) -> None:
    state, _, _ = advance(UNDER_WAY, replace(WANTS, obstacle=True), SECTION, seconds(0.5))
    touches = replace(WANTS, obstacle=True, **changes)  # type: ignore[arg-type]
    for after in (state, renewed(state), replace(state, gave_up="no way")):
        assert advance(after, touches, SECTION, seconds(0.6))[0].backed_into
        assert not advance(after, replace(touches, obstacle=False), SECTION, seconds(0.6))[0].backed_into
    assert advance(state, touches, SECTION, seconds(0.4))[0].backed_into, "time that goes back forgets nothing of it"


def test_r15_r3_a_notice_counts_in_the_last_tick_of_a_try() -> None:
    state, override, event = advance(UNDER_WAY, replace(WANTS, obstacle=True), SECTION, seconds(2.0))
    assert (override, event, state.backed_into) == (None, Event.CUT_SHORT, True)


ROLLS = round(ROLLS_ON_S * NS_PER_S)
#   how the try ends in that very tick    what else is so               when [s]
ENDS = [
    ("an operator, say",                  {"suspended": True},          0.5),
    ("its time",                          {},                           2.0),
    ("its distance",                      {"travelled_m": 99.0},        0.5),
    ("something else behind",             {"rear_free_m": 0.0},         0.5),
    ("time that goes back",               {},                          -3.0),
]  # fmt: skip


@pytest.mark.parametrize(("how", "changes", "when_s"), ENDS, ids=[row[0] for row in ENDS])
def test_r15_a_notice_counts_in_the_tick_in_which_a_try_ends_otherwise(
    how: str, changes: dict[str, object], when_s: float
) -> None:
    touches = replace(WANTS, obstacle=True, **changes)  # type: ignore[arg-type]
    state, override, event = advance(UNDER_WAY, touches, SECTION, seconds(when_s))
    assert (override, event, state.backed_into) == (None, Event.CUT_SHORT, True)
    assert_never_backs(state, when_s)


def test_r15_r14_a_notice_counts_in_the_tick_of_a_new_goal_however_late() -> None:
    state, _, _ = advance(renewed(UNDER_WAY), replace(WANTS, obstacle=True), SECTION, seconds(5.0))
    assert state.backed_into
    assert_never_backs(state, 5.0)


#   the last tick, after the end of the try [ns]     backed into?
AFTERWARDS = [(0, True), (ROLLS - 1, True), (ROLLS, False), (4 * ROLLS, False)]


@pytest.mark.parametrize(("last_ns", "backed_into"), AFTERWARDS)
def test_r15_a_notice_just_after_a_try_means_an_obstacle_behind(last_ns: int, backed_into: bool) -> None:
    state = replace(BLOCKED, now_ns=T_NS + last_ns, ended_ns=T_NS)
    state, _, _ = advance(state, replace(WANTS, obstacle=True), SECTION, T_NS + last_ns + NS_PER_S // 30)
    assert state.backed_into is backed_into


def test_r15_a_notice_that_was_on_before_the_try_is_not_behind() -> None:
    before = replace(UNDER_WAY, noticed=True)
    state, override, event = advance(before, replace(WANTS, obstacle=True), SECTION, seconds(0.5))
    assert (override, event, state.backed_into) == (BACK, None, False)
    state, _, _ = advance(replace(before, backing=None, ended_ns=T_NS), replace(WANTS, obstacle=True), SECTION, T_NS)
    assert not state.backed_into


def test_r15_a_notice_that_is_off_for_a_tick_still_forbids() -> None:
    state, _, event = advance(UNDER_WAY, replace(WANTS, obstacle=True), SECTION, seconds(0.5))
    assert event is Event.CUT_SHORT
    state, _, _ = advance(state, replace(WANTS, obstacle=False), SECTION, seconds(0.6))
    state, _, _ = advance(state, replace(WANTS, obstacle=True), SECTION, seconds(0.7))
    assert state.backed_into
    assert_never_backs(state, 0.7)


def assert_never_backs(state: RecoveryState, from_s: float) -> None:
    """Assert that no try begins while the notice stays on."""
    for number in range(1, 400):
        state, override, _ = advance(state, replace(WANTS, obstacle=True), SECTION, seconds(from_s + 0.1 * number))
        assert override in (None, STOP)
    assert state.gave_up


# --- R16, R17, R18: held at one place ---------------------------------------------------------------------------------

SPINS = replace(WANTS, wanted=Twist(0.0, 3.0), measured=Twist(0.08, 3.0), place_m=(0.0, 0.0), nearer_ns=0)
TOUCHES = replace(SPINS, obstacle=True)
RESTS = {"wanted": STOP, "measured": STOP}

#   what                              situation                                         tried after [s]
HELD = [
    ("told, turns in place",           TOUCHES,                                             4.0),
    ("told, wheels slip",              replace(TOUCHES, measured=Twist(0.9, 0.0)),          4.0),
    ("told, wants nothing, turns",     replace(TOUCHES, wanted=STOP),                       4.0),
    ("told, came nearer just now",     replace(TOUCHES, nearer_ns=seconds(3.0)),            4.0),
    ("turns in place",                 SPINS,                                            20.0),
    ("not nearer for a shorter time",  replace(SPINS, nearer_ns=seconds(3.0)),           23.0),
    ("wheels slip",                    replace(SPINS, measured=Twist(0.9, 0.0)),         20.0),
    ("turns, wants nothing",           replace(SPINS, wanted=STOP),                      20.0),
    ("rests, wants nothing",           replace(SPINS, **RESTS),                          None),
    ("no place",                       replace(SPINS, place_m=None),                     None),
    ("no goal",                        replace(SPINS, nearer_ns=None),                   None),
    ("suspended",                      replace(SPINS, suspended=True),                   None),
]  # fmt: skip


def tried_after(situations: dict[float, Situation], until_s: float = 30.0) -> float | None:
    """Return the time of the first try [s]; situations: each holds from its time on, on a grid of 0.1 s."""
    state, situation = RecoveryState(), SPINS
    for tick in range(round(until_s * 10) + 1):
        situation = situations.get(tick / 10, situation)
        state, _, event = advance(state, situation, SECTION, seconds(tick / 10))
        if event is not None:
            assert event is Event.BEGAN
            assert state.place_m is None
            return tick / 10
    return None


@pytest.mark.parametrize(("what", "situation", "after_s"), HELD, ids=[row[0] for row in HELD])
def test_r16_r17_a_robot_that_stays_at_a_place_is_blocked(what: str, situation: Situation, after_s: float) -> None:
    assert tried_after({0.0: situation}) == after_s


NEAR, LEFT = replace(SPINS, place_m=(0.3, 0.0)), replace(SPINS, place_m=(0.2, 0.23))
BACK_IN_TIME = seconds(4.0)
#   what                         from when on [s]                                                     tried after [s]
AGAIN = [
    ("moves about in the place",  {0.0: SPINS, 4.0: NEAR, 4.1: SPINS},                                20.0),
    ("leaves the place",          {0.0: SPINS, 4.0: LEFT},                                            24.0),
    ("leaves and is back",        {0.0: SPINS, 4.0: LEFT, 4.1: SPINS},                                24.1),
    ("leaves, told",              {0.0: TOUCHES, 3.0: replace(LEFT, obstacle=True)},                     7.0),
    ("a notice comes",            {0.0: SPINS, 4.0: TOUCHES},                                            8.0),
    ("a notice goes",             {0.0: TOUCHES, 3.0: SPINS},                                            23.0),
    ("rests for a tick",          {0.0: SPINS, 4.0: replace(SPINS, **RESTS), 4.1: SPINS},             24.1),
    ("rests for a tick, told",    {0.0: TOUCHES, 3.0: replace(TOUCHES, **RESTS), 3.1: TOUCHES},                4.0),
    ("suspended for a tick",      {0.0: SPINS, 4.0: replace(SPINS, suspended=True), 4.1: SPINS},      24.1),
    ("comes nearer",              {0.0: SPINS, 4.0: replace(SPINS, nearer_ns=BACK_IN_TIME)},          24.0),
]  # fmt: skip


@pytest.mark.parametrize(("what", "situations", "after_s"), AGAIN, ids=[row[0] for row in AGAIN])
def test_r18_the_place_and_its_time_restart(what: str, situations: dict[float, Situation], after_s: float) -> None:
    assert tried_after(situations) == after_s


def test_r18_the_place_restarts_with_time_that_goes_backward_and_with_each_try() -> None:
    state, _, _ = advance(RecoveryState(), SPINS, SECTION, seconds(9.0))
    assert (state.place_m, state.place_ns) == ((0.0, 0.0), seconds(9.0))
    assert advance(state, SPINS, SECTION, seconds(8.0))[0].place_m is None
    stands = replace(SPINS, measured=STOP)
    assert advance(state, stands, SECTION, seconds(9.1))[0].place_m == (0.0, 0.0), "it wants to move"
    refused, _, event = advance(state, replace(SPINS, rear_free_m=0.0), SECTION, seconds(29.0))
    assert (event, refused.place_m) == (Event.REAR_NOT_FREE, None)
    after = advance(refused, SPINS, SECTION, seconds(29.1))[0]
    assert (after.place_m, after.place_ns) == ((0.0, 0.0), seconds(29.1))


def test_r16_r9_r13_turning_under_a_notice_ends_within_half_a_minute() -> None:
    state, happened = RecoveryState(), []
    for tick in range(300):
        state, override, event = advance(state, TOUCHES, SECTION, seconds(tick / 10))
        assert override in (None, STOP, BACK)
        happened += [event] if event else []
    assert happened == [Event.BEGAN, Event.ENDED] * SECTION.tries + [Event.GAVE_UP]
