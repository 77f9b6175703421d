"""Arrival: each rule by its number, and the probability against exact distributions and drawn positions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import ncx2

from onboard.config.config import GoalSection
from onboard.navigation import arrival
from onboard.navigation.arrival import NO_ARRIVAL, WAIT_S, Arrival, within
from onboard.navigation.ekf import STATES, LocalizationState
from onboard.navigation.start_frame import Start
from onboard.policy.contract import ACTIONS
from onboard.safety.recovery import HELD_S
from onboard.values.clock import NS_PER_S
from onboard.values.geometry import IDENTITY, apply, compose, inverse
from onboard.values.messages import Pose

CONFIDENCE = 0.9
SECTION = GoalSection(arrival_confidence=CONFIDENCE)
OFF = GoalSection(arrival_confidence=0.0)
MAP_FROM_START = Pose(4.0, -2.0, 2.0)
START = Start(IDENTITY, inverse(MAP_FROM_START))
GOAL = (3.0, 1.0)


def covariance(sd_x_m: float, sd_y_m: float | None = None) -> np.ndarray:
    """Return the filter's covariance with independent errors of x and y in the map."""
    return np.diag([sd_x_m**2, (sd_x_m if sd_y_m is None else sd_y_m) ** 2, 0.01, 0.0025, 0.0009])[:STATES, :STATES]


def at(off_m: float = 0.0, sd_m: float = 0.05, **changes: Any) -> LocalizationState:
    """Return a filter `off_m` beside the goal along x of the start frame."""
    place = compose(MAP_FROM_START, Pose(GOAL[0] - off_m, GOAL[1], 0.3))
    return LocalizationState(**{"map_from_base": place, "covariance": covariance(sd_m), **changes})


def judged(state: LocalizationState, before: Arrival = NO_ARRIVAL, now_s: float = 5.0, **others: Any) -> Arrival:
    given = {"start": START, "section": SECTION, **others}
    return arrival.judge(before, GOAL, given["start"], state, given["section"], round(now_s * NS_PER_S))


WAITING = Arrival(since_ns=round(5.0 * NS_PER_S), held=True, confidence=0.5)
NEVER_IN_THE_MAP = Start(IDENTITY, None)

#   rule   what                                    the arrival                                         held  confidence
RULES = [
    ("A1", "a stop outside the tolerance", judged(at(off_m=0.21, sd_m=0.3)), False, None),
    ("A1", "a stop just inside", judged(at(off_m=0.19, sd_m=0.3)), True, 0.17),
    ("A2", "certain", judged(at(sd_m=0.05)), False, 1.0),
    ("A2", "certain, but at the edge", judged(at(off_m=0.18, sd_m=0.05)), True, 0.61),
    ("A2", "uncertain at the goal", judged(at(sd_m=0.2)), True, 0.39),
    ("A2", "certain after a wait", judged(at(sd_m=0.05), WAITING, 7.0), False, 1.0),
    ("A3", "before the first fix", judged(LocalizationState()), False, None),
    ("A3", "a start frame without a place", judged(at(sd_m=0.3), start=NEVER_IN_THE_MAP), False, None),
    ("A4", "two fixes contradict", judged(at(sd_m=0.02, rejected_in_row=2)), True, 0.0),
    ("A4", "one fix contradicts", judged(at(sd_m=0.02, rejected_in_row=1)), False, 1.0),
    ("A5", "still uncertain", judged(at(sd_m=0.2), WAITING, 14.9), True, 0.39),
    ("A6", "overdue", judged(at(sd_m=0.2), WAITING, 15.0), False, 0.39),
    ("off", "uncertain, without the rule", judged(at(sd_m=0.2), section=OFF), False, None),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "what", "found", "held", "confidence"), RULES, ids=[f"{r[0]} {r[1]}" for r in RULES])
def test_rules(rule: str, what: str, found: Arrival, held: bool, confidence: float | None) -> None:
    assert found.held is held
    assert found.confidence == (None if confidence is None else pytest.approx(confidence, abs=0.01))
    assert found.overdue is (what == "overdue")


def test_a6_the_wait_is_bounded_from_the_first_held_arrival_on() -> None:
    unsure, found, held_s = at(sd_m=0.2), NO_ARRIVAL, []
    for third in range(60):
        now_s = 100.0 + third / 3.0
        found = judged(at(off_m=0.5) if third == 7 else unsure, found, now_s)
        if found.held:
            held_s.append(now_s)
    assert held_s[-1] - held_s[0] < WAIT_S
    assert len(held_s) == WAIT_S * 3 - 1, "a stop elsewhere between does not begin the wait anew"


def test_the_wait_ends_before_the_recovery_takes_the_turn_for_a_block() -> None:
    assert WAIT_S < HELD_S


def test_the_turn_is_an_action_of_the_paper() -> None:
    assert arrival.TURN in ACTIONS


def inside(offset_m: tuple[float, float], covariance: np.ndarray, radius_m: float) -> float:
    return within(*offset_m, covariance[0, 0], covariance[0, 1], covariance[1, 1], radius_m)


def test_a_filter_above_9_cm_never_fits_the_default_tolerance_with_0_9() -> None:
    assert inside((0.0, 0.0), covariance(0.094), 0.2) < CONFIDENCE < inside((0.0, 0.0), covariance(0.09), 0.2)


@given(off_m=st.floats(0.0, 1.0), sd_m=st.floats(1e-3, 10.0), radius_m=st.floats(0.02, 2.0), turn=st.floats(-4.0, 4.0))
@example(off_m=0.25, sd_m=0.001953125, radius_m=0.25, turn=0.25)
@example(off_m=1.0, sd_m=0.001953125, radius_m=1.0, turn=0.125)
def test_equal_deviations_give_the_noncentral_chi_square(
    off_m: float, sd_m: float, radius_m: float, turn: float
) -> None:
    offset_m = (off_m * math.cos(turn), off_m * math.sin(turn))
    drawn_m, sd_m = sd_m, max(sd_m, arrival.LEAST_SD * radius_m)
    expected = float(ncx2.cdf((radius_m / sd_m) ** 2, 2, (off_m / sd_m) ** 2)) if off_m > 0.0 else (
        1.0 - math.exp(-0.5 * (radius_m / sd_m) ** 2)
    )  # fmt: skip
    assert inside(offset_m, covariance(drawn_m), radius_m) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("sds_m", [(0.05, 0.2), (0.2, 0.05), (0.3, 1e-9), (0.02, 0.3)])
@pytest.mark.parametrize("turn", [0.0, 0.4, 1.2, 3.0])
def test_any_covariance_gives_the_share_of_drawn_positions(sds_m: tuple[float, float], turn: float) -> None:
    c, s = math.cos(turn), math.sin(turn)
    turned = np.array([[c, -s], [s, c]]) @ np.diag(sds_m)
    drawn = np.random.default_rng(1).standard_normal((200_000, 2)) @ turned.T
    offset_m = (0.07, -0.11)
    share = float((np.hypot(*(drawn - offset_m).T) <= 0.2).mean())
    assert inside(offset_m, turned @ turned.T, 0.2) == pytest.approx(share, abs=0.01)


@given(st.floats(-3.0, 3.0), st.floats(0.0, 0.15), st.floats(0.02, 0.3))
def test_the_direction_of_the_map_does_not_matter(turn: float, off_m: float, sd_m: float) -> None:
    """The offset is taken in the map, where the covariance is."""
    start = Start(IDENTITY, inverse(Pose(1.0, 2.0, turn)))
    place = Pose(*apply(inverse(start.start_from_map or IDENTITY), (GOAL[0], GOAL[1])), 0.0)
    moved = Pose(place.x_m + off_m, place.y_m, 0.0)
    state = LocalizationState(map_from_base=moved, covariance=covariance(sd_m, 0.04))
    expected = inside((-off_m, 0.0), covariance(sd_m, 0.04), 0.2)
    assert arrival.confidence_of(GOAL, start, state, 0.2) == pytest.approx(expected, abs=1e-9)
