"""Recovery: every requirement of `onboard/safety/recovery.py` by its number, and a random state machine."""

from __future__ import annotations

import itertools
from dataclasses import replace
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from onboard.config.config import RecoverySection
from onboard.safety import recovery
from onboard.safety.recovery import (
    COOL_DOWN_S,
    MEMORY_RESETS,
    WINDOW_S,
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

SECTION = RecoverySection()
TICK_S = 0.1
BACKWARD = Twist(-0.2, 0.0)
WANTS = Situation(
    suspended=False, obstacle=None, wanted=Twist(0.6, 0.0), measured=STOP, travelled_m=0.0, rear_free_m=inf
)
IDLE = replace(WANTS, wanted=STOP)
ARC = Twist(0.6, 1.0)
NEEDED_M = SECTION.rear_clearance_m + path_m(SECTION)

Log = list[tuple[float, Event]]


def run(
    seconds: float,
    situation: Situation = WANTS,
    state: RecoveryState | None = None,
    start_s: float = 0.0,
    section: RecoverySection = SECTION,
    speed: float = 1.0,
) -> tuple[RecoveryState, list[Twist | None], Log]:
    """Return state, overrides and events of a time in one situation; the wheels follow while the robot backs."""
    state = state or RecoveryState()
    overrides: list[Twist | None] = []
    log: Log = []
    ticks = round(seconds / TICK_S)
    for tick in range(ticks + 1):
        now_s = round(start_s + tick * TICK_S, 6)
        state, override, event = advance(state, situation, section, round(now_s * NS_PER_S))
        if event is not None:
            log.append((now_s, event))
        overrides.append(override)
        if override is not None and override.v_mps < 0.0:
            moved_m = -override.v_mps * TICK_S * speed
            situation = replace(
                situation, travelled_m=situation.travelled_m + moved_m, rear_free_m=situation.rear_free_m - moved_m
            )
    return state, overrides, log


def backing_at(seconds: float = 5.0) -> RecoveryState:
    """Return the state at the moment a try begins."""
    state, overrides, _ = run(seconds)
    assert overrides[-1] == BACKWARD
    return state


# --- R19: a base that refuses to drive backward ----------------------------------------------------------------------

ONLY_TURNS = RecoverySection(back_off=False)


def test_r19_without_backing_off_a_try_is_a_turn_to_the_left_then_to_the_right() -> None:
    closed = replace(WANTS, rear_free_m=0.0)
    state, overrides, log = run(60.0, closed, section=ONLY_TURNS)
    turns = [twist for twist in overrides if twist is not None and twist != STOP]
    assert all(twist.v_mps == 0.0 and abs(twist.w_radps) == recovery.TURN_RADPS for twist in turns)
    signs = [twist.w_radps > 0.0 for twist in turns]
    assert signs[0]
    assert [b for a, b in itertools.pairwise(signs) if a != b] == [False, True]
    assert len(turns) == 3 * round(recovery.TURN_S / TICK_S)
    assert [event for _, event in log] == [Event.BEGAN, Event.ENDED] * 3 + [Event.GAVE_UP]
    assert state.gave_up == "blocked: 3 recoveries in 60 s failed"


def test_r19_a_notice_ends_the_turn_as_it_ends_backing_off() -> None:
    state, overrides, _ = run(5.0, section=ONLY_TURNS)
    assert overrides[-1] == Twist(0.0, recovery.TURN_RADPS)
    touched = replace(WANTS, obstacle=True)
    state, override, event = advance(state, touched, ONLY_TURNS, round(5.1 * NS_PER_S))
    assert (override, event, state.backing) == (None, Event.CUT_SHORT, None)


# --- R1: what blocked means -------------------------------------------------------------------------------------------

#   what                          changes to "wants to go and stands"                          blocked?
BLOCKED = [
    ("wants, stands", {}, True),
    ("wants to turn, stands", {"wanted": Twist(0.0, 1.0)}, True),
    ("wants to turn right, stands", {"wanted": Twist(0.0, -1.0)}, True),
    ("wants back, stands", {"wanted": Twist(-0.2, 0.0)}, True),
    ("wants nothing", {"wanted": STOP}, False),
    ("has no wish", {"wanted": None}, False),
    ("hardly wants", {"wanted": Twist(0.05, 0.1)}, False),
    ("wants a little", {"wanted": Twist(0.051, 0.0)}, True),
    ("wants to turn a little", {"wanted": Twist(0.0, 0.11)}, True),
    ("moves", {"measured": Twist(0.3, 0.0)}, False),
    ("rolls back", {"measured": Twist(-0.021, 0.0)}, False),
    ("turns", {"measured": Twist(0.0, -0.051)}, False),
    ("trembles", {"measured": Twist(0.02, 0.05)}, True),
    ("notified, wants nothing", {"wanted": STOP, "obstacle": True}, True),
    ("notified, no wish", {"wanted": None, "obstacle": True}, True),
    ("notified, moves", {"obstacle": True, "measured": Twist(0.3, 0.0)}, False),
    ("notified, wants an arc, turns", {"obstacle": True, "wanted": ARC, "measured": Twist(0.0, 1.0)}, True),
    ("wants an arc, turns", {"wanted": ARC, "measured": Twist(0.0, 1.0)}, False),
    ("notice withdrawn, an arc, turns", {"obstacle": False, "wanted": ARC, "measured": Twist(0.0, 1.0)}, False),
    ("notified, wants an arc, rolls back", {"obstacle": True, "wanted": ARC, "measured": Twist(-0.021, 1.0)}, False),
    (
        "notified, wants to turn, turns",
        {"obstacle": True, "wanted": Twist(0.0, 1.0), "measured": Twist(0.0, 1.0)},
        False,
    ),
    ("notified, no wish, turns", {"obstacle": True, "wanted": None, "measured": Twist(0.0, 1.0)}, False),
    ("notice withdrawn", {"wanted": STOP, "obstacle": False}, False),
]


@pytest.mark.parametrize(("what", "changes", "expected"), BLOCKED, ids=[row[0] for row in BLOCKED])
def test_r1_blocked(what: str, changes: dict[str, object], expected: bool) -> None:
    assert blocked(replace(WANTS, **changes), SECTION) is expected  # type: ignore[arg-type]


# --- R2: after blocked_s without a break ------------------------------------------------------------------------------


def test_r2_backs_after_five_seconds_and_not_before() -> None:
    _, overrides, log = run(4.9)
    assert set(overrides) == {None}
    assert log == []
    _, overrides, log = run(5.0)
    assert overrides[-1] == BACKWARD
    assert log == [(5.0, Event.BEGAN)]


def test_r2_a_moment_of_motion_starts_the_time_anew() -> None:
    state, _, _ = run(4.9)
    state, _, _ = run(0.0, replace(WANTS, measured=Twist(0.1, 0.0)), state, 4.95)
    _, overrides, log = run(4.9, WANTS, state, 5.0)
    assert set(overrides) == {None}
    assert log == []


def test_r2_a_robot_that_moves_or_rests_is_left_alone() -> None:
    for situation in (IDLE, replace(WANTS, measured=Twist(0.3, 0.0))):
        state, overrides, log = run(100.0, situation)
        assert set(overrides) == {None}
        assert log == []
        assert state.tries_ns == ()


# --- R3, R4: bounded in time and distance -----------------------------------------------------------------------------

#   wheels' speed, of the commanded    lasts [s]
LASTS = [(0.0, 2.0), (0.5, 2.0), (1.0, 2.0), (1.4, 2.0), (1.6, 1.9), (3.0, 1.0), (10.0, 0.3)]


@pytest.mark.parametrize(("speed", "lasts_s"), LASTS)
def test_r3_r4_a_try_is_bounded_in_time_and_in_distance(speed: float, lasts_s: float) -> None:
    _, overrides, log = run(7.5, speed=speed)
    assert log == [(5.0, Event.BEGAN), (pytest.approx(5.0 + lasts_s), Event.ENDED)]
    assert overrides.count(BACKWARD) == round(lasts_s / TICK_S)
    assert overrides[-1] is None


def test_r3_a_late_tick_ends_it_as_well() -> None:
    _, override, event = advance(backing_at(), WANTS, SECTION, 60 * NS_PER_S)
    assert (override, event) == (None, Event.ENDED)


# --- R5, R6, R7: the rear ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("free_m", "begins"), [(0.0, False), (NEEDED_M - 1e-6, False), (NEEDED_M, True), (inf, True)])
def test_r5_the_rear_must_be_free_for_the_whole_way(free_m: float, begins: bool) -> None:
    _, overrides, log = run(5.0, replace(WANTS, rear_free_m=free_m))
    assert log == [(5.0, Event.BEGAN if begins else Event.REAR_NOT_FREE)]
    assert overrides[-1] == (BACKWARD if begins else None)


def test_r5_with_just_enough_room_it_goes_the_whole_way() -> None:
    _, _, log = run(7.5, replace(WANTS, rear_free_m=NEEDED_M))
    assert log == [(5.0, Event.BEGAN), (7.0, Event.ENDED)]


#   backed so far [m], free behind [m], goes on?
APPEARS = [
    (0.0, NEEDED_M - 0.049, True),
    (0.0, NEEDED_M - 0.051, False),
    (0.2, NEEDED_M - 0.2 - 0.049, True),
    (0.2, NEEDED_M - 0.2 - 0.051, False),
    (0.5, 0.101, True),
    (0.5, 0.099, False),
    (0.3, 0.0, False),
]


@pytest.mark.parametrize(("backed_m", "free_m", "goes_on"), APPEARS)
def test_r6_it_stops_at_once_when_something_appears(backed_m: float, free_m: float, goes_on: bool) -> None:
    situation = replace(WANTS, travelled_m=backed_m, rear_free_m=free_m)
    state, override, event = advance(backing_at(), situation, SECTION, round(5.1 * NS_PER_S))
    if goes_on:
        assert (override, event) == (BACKWARD, None)
    else:
        assert (override, event) == (None, Event.CUT_SHORT)
        assert state.backing is None


def test_r7_a_try_that_cannot_begin_counts() -> None:
    state, overrides, log = run(30.0, replace(WANTS, rear_free_m=0.2))
    assert [event for _, event in log] == [Event.REAR_NOT_FREE] * 3 + [Event.GAVE_UP]
    assert [when for when, _ in log] == pytest.approx([5.0, 10.1, 15.2, 20.3])
    assert set(overrides) == {None, STOP}
    assert state.gave_up == "blocked: 3 recoveries in 60 s failed"


# --- R8, R9: tries ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start_s", [0, 1000])
def test_r9_gives_up_after_three_tries_and_stays_so(start_s: int) -> None:
    state, overrides, log = run(60.0, start_s=start_s)
    assert [event for _, event in log] == [Event.BEGAN, Event.ENDED] * 3 + [Event.GAVE_UP]
    began = [when for when, event in log if event is Event.BEGAN]
    assert began == pytest.approx([start_s + 5.0, start_s + 12.1, start_s + 19.2])
    assert overrides[-1] == STOP
    assert state.gave_up == "blocked: 3 recoveries in 60 s failed"
    for situation in (IDLE, replace(WANTS, suspended=True), replace(WANTS, measured=Twist(0.5, 0.0))):
        again, override, event = advance(state, situation, SECTION, 2000 * NS_PER_S)
        assert (again.gave_up, override, event) == (state.gave_up, STOP, None)


def test_r9_a_new_goal_begins_afresh() -> None:
    _, _, log = run(6.0, state=RecoveryState(), start_s=100.0)
    assert log == [(105.0, Event.BEGAN)]


def test_r9_tries_are_forgotten_after_the_window() -> None:
    """One try every 30 s is never three in 60 s."""
    state, log = RecoveryState(), []
    for start_s in range(0, 300, 30):
        state, _, part = run(8.0, state=state, start_s=start_s)
        state, _, rest = run(0.0, IDLE, state, start_s + 9.0)
        log += part + rest
    assert [event for _, event in log] == [Event.BEGAN, Event.ENDED] * 10
    assert len(state.tries_ns) <= 2


@pytest.mark.parametrize(("tries", "gives_up"), [(1, 12.1), (2, 19.2)])
def test_r9_the_number_of_tries_is_configured(tries: int, gives_up: float) -> None:
    _, _, log = run(30.0, section=RecoverySection(tries=tries))
    assert log[-1] == (pytest.approx(gives_up), Event.GAVE_UP)


def test_r8_no_try_within_the_cool_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "COOL_DOWN_S", 10.0)
    section = RecoverySection(blocked_s=1.0)
    _, _, log = run(25.0, section=section)
    began = [when for when, event in log if event is Event.BEGAN]
    assert began == pytest.approx([1.0, 13.0, 25.0])


def test_r8_the_cool_down_follows_a_refused_try_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "COOL_DOWN_S", 10.0)
    section = RecoverySection(blocked_s=1.0)
    _, _, log = run(22.0, replace(WANTS, rear_free_m=0.0), section=section)
    assert [when for when, _ in log] == pytest.approx([1.0, 11.0, 21.0])


# --- R10, R11, R12 ----------------------------------------------------------------------------------------------------


def test_r10_suspended_ends_a_try_at_once_and_starts_the_time_anew() -> None:
    held = replace(WANTS, suspended=True)
    state, override, event = advance(backing_at(), held, SECTION, round(5.1 * NS_PER_S))
    assert (override, event, state.backing) == (None, Event.CUT_SHORT, None)
    state, overrides, log = run(50.0, held, state, 5.2)
    assert set(overrides) == {None}
    assert log == []
    _, overrides, log = run(4.9, WANTS, state, 55.3)
    assert set(overrides) == {None}


def test_r10_suspended_for_a_moment_starts_the_time_blocked_anew() -> None:
    state, _, _ = run(4.9)
    state, _, _ = run(0.0, replace(WANTS, suspended=True), state, 4.95)
    _, _, log = run(5.0, WANTS, state, 5.0)
    assert log == [(10.0, Event.BEGAN)]


def test_r10_suspension_does_not_forgive_tries() -> None:
    state, _, _ = run(15.0)
    state, _, _ = run(1.0, replace(WANTS, suspended=True), state, 15.1)
    _, _, log = run(15.0, WANTS, state, 16.2)
    assert [event for _, event in log] == [Event.BEGAN, Event.ENDED, Event.GAVE_UP]


def test_r11_the_end_of_a_try_resets_the_memory() -> None:
    assert {Event.ENDED, Event.CUT_SHORT} == MEMORY_RESETS


def test_r12_time_that_goes_backward_ends_a_try() -> None:
    state, override, event = advance(backing_at(), WANTS, SECTION, 4 * NS_PER_S)
    assert (override, event) == (None, Event.CUT_SHORT)
    assert state.tries_ns == (4 * NS_PER_S,)


def test_r12_time_that_goes_backward_starts_the_time_blocked_anew() -> None:
    state, _, _ = run(4.9, start_s=1000.0)
    _, _, log = run(5.1, state=state, start_s=10.0)
    assert log == [(15.1, Event.BEGAN)]


def test_r12_time_that_stands_still_is_not_going_backward() -> None:
    state, _, _ = run(4.9)
    for _ in range(3):
        state, _, _ = run(0.0, WANTS, state, 4.9)
    _, _, log = run(0.0, WANTS, state, 5.0)
    assert log == [(5.0, Event.BEGAN)]


def test_r12_backward_time_does_not_undo_giving_up() -> None:
    state, _, _ = run(60.0)
    after, override, event = advance(state, WANTS, SECTION, 0)
    assert (after.gave_up, override, event) == (state.gave_up, STOP, None)


def test_r12_backward_time_begins_the_cool_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "COOL_DOWN_S", 10.0)
    section = RecoverySection(blocked_s=1.0)
    state, _, _ = run(3.0, state=None, start_s=1000.0, section=section)
    _, _, log = run(11.0, state=state, start_s=0.0, section=section)
    assert [when for when, _ in log] == [10.0]


# --- A machine that tries to break it ---------------------------------------------------------------------------------


class Robot(RuleBasedStateMachine):
    """Random situations, wheels and clock steps. The bounds on the override hold for any input."""

    @initialize()
    def begin(self) -> None:
        self.state, self.now_ns, self.travelled_m = RecoveryState(), 0, 0.0
        self.situation = WANTS
        self.backed_s, self.backed_m = 0.0, 0.0
        self.override: Twist | None = None
        self.began_ns: list[int] = []
        self.noticed = self.backed_into = False

    def tick(self, elapsed_ns: int, speed: float) -> None:
        backing = self.override is not None and self.override.v_mps < 0.0
        if backing:
            moved_m = 0.2 * speed * max(elapsed_ns, 0) / NS_PER_S
            self.backed_s += max(elapsed_ns, 0) / NS_PER_S
            self.backed_m, self.travelled_m = self.backed_m + moved_m, self.travelled_m + moved_m
        self.now_ns += elapsed_ns
        situation = replace(self.situation, travelled_m=self.travelled_m)
        self.state, self.override, event = advance(self.state, situation, SECTION, self.now_ns)
        noticed = situation.obstacle is True
        self.backed_into = noticed and (self.backed_into or (backing and not self.noticed))
        self.noticed = noticed
        if elapsed_ns < 0:
            self.began_ns = [self.now_ns for _ in self.began_ns]
        if event is Event.BEGAN:
            self.backed_s, self.backed_m = 0.0, 0.0
            self.began_ns.append(self.now_ns)
            assert situation.rear_free_m >= NEEDED_M
            assert not situation.suspended
            assert blocked(situation, SECTION)
        if self.override is not None and self.override.v_mps < 0.0:
            assert self.override == BACKWARD
            assert not self.backed_into
            assert not situation.suspended
            assert situation.rear_free_m >= SECTION.rear_clearance_m - 0.05
            assert self.backed_s < SECTION.backward_s
            assert self.backed_m < 1.5 * path_m(SECTION)
        self.began_ns = [when for when in self.began_ns if self.now_ns - when < WINDOW_S * NS_PER_S]
        assert len(self.began_ns) <= SECTION.tries

    @rule(ticks=st.integers(1, 80), speed=st.floats(0.0, 3.0))
    def ticks(self, ticks: int, speed: float) -> None:
        for _ in range(ticks):
            self.tick(NS_PER_S // 10, speed)

    @rule(jump_s=st.floats(-100.0, 100.0))
    def clock_steps(self, jump_s: float) -> None:
        self.tick(round(jump_s * NS_PER_S), 0.0)

    @rule(free_m=st.sampled_from((0.0, 0.3, NEEDED_M, 1.0, inf)))
    def rear_changes(self, free_m: float) -> None:
        self.situation = replace(self.situation, rear_free_m=free_m)

    @rule(suspended=st.booleans())
    def suspension_changes(self, suspended: bool) -> None:
        self.situation = replace(self.situation, suspended=suspended)

    @rule(obstacle=st.sampled_from((None, True, False)), wanted=st.sampled_from((None, STOP, Twist(0.3, 0.0))))
    def wishes_change(self, obstacle: bool | None, wanted: Twist | None) -> None:
        self.situation = replace(self.situation, obstacle=obstacle, wanted=wanted)

    @rule(measured=st.sampled_from((STOP, Twist(0.3, 0.0))))
    def wheels_change(self, measured: Twist) -> None:
        self.situation = replace(self.situation, measured=measured)

    @invariant()
    def who_gave_up_stands(self) -> None:
        if self.state.gave_up:
            assert self.override == STOP


TestRobot = Robot.TestCase
TestRobot.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


def test_r14_a_new_goal_ends_a_try_and_the_cool_down_begins() -> None:
    during = backing_at()
    renewed_state = renewed(during)
    assert renewed_state == replace(during, backing=None, ended_ns=during.now_ns)
    _, overrides, log = run(COOL_DOWN_S - TICK_S, state=renewed_state, start_s=5.1)
    assert set(overrides) == {None}
    assert log == []


def test_r14_a_new_goal_keeps_when_the_last_try_ended_and_since_when_it_is_blocked() -> None:
    before = RecoveryState(now_ns=9, blocked_ns=7, tries_ns=(1, 3), ended_ns=5)
    assert renewed(before) == before


def test_r14_a_new_goal_ends_a_giving_up_but_not_the_tries_of_the_window() -> None:
    gave_up, _, log = run(40.0)
    assert (log[-1][1], gave_up.blocked_ns) == (Event.GAVE_UP, None)
    after = renewed(gave_up)
    assert after == replace(gave_up, gave_up="")
    _, overrides, log = run(7.0, state=after, start_s=40.1)
    assert log == [(40.1 + SECTION.blocked_s, Event.GAVE_UP)]
    assert BACKWARD not in overrides
