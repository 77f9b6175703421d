"""Each rule of `safety_watch` can fail: it finds a runtime that is broken in one place, and passes the intact one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import Any

import pytest

from onboard import episode
from onboard.navigation import ekf, mission, odometry
from onboard.perception import collision, obstacle_memory, scan_fusion
from onboard.perception.obstacle_memory import NOWHERE, Around
from onboard.policy import decision
from onboard.safety import keepout_zones, limits, recovery
from onboard.safety.keepout_zones import ELSEWHERE
from onboard.safety.limits import Reason
from onboard.values.messages import Twist
from tests.onboard.safety.invariants import safety_happenings as now

Patches = list[tuple[Any, str, Any]]


def _limit(change: Callable[..., tuple[Any, ...]]) -> Patches:
    """Return a patch of the arguments of `limits.limit`."""
    whole = limits.limit
    return [(limits, "limit", lambda *given: whole(*change(*given)))]


def _sent(twist: Twist) -> Patches:
    """Return a patch of the result of `limits.limit`."""
    whole = limits.limit

    def broken(*given: Any) -> Any:
        state, limited = whole(*given)
        return state, replace(limited, twist=twist)

    return [(limits, "limit", broken)]


def _goals_do_not_see_the_e_stop() -> Patches:
    judge = episode.judge

    def blind(mission: Any, start: Any, request: Any, situation: Any, config: Any) -> Any:
        return judge(mission, start, request, replace(situation, e_stop=False, was_pressed=False), config)

    return [(episode, "judge", blind)]


def _no_end_of_a_drive() -> Patches:
    act = decision.act

    def keeps_on(state: Any, *given: Any) -> Any:
        after, acted = act(state, *given)
        lost = acted is not None and acted.decision is None
        return replace(after, set_point=state.set_point) if lost else after, acted

    return [
        (mission, "stop", lambda state, reason: state),
        (decision, "is_lost", lambda *_: False),
        (decision, "act", keeps_on),
    ]


def _tries_are_forgotten() -> Patches:
    whole = recovery._try
    return [(recovery, "_try", lambda state, *given: whole(replace(state, tries_ns=()), *given))]


def _goes_on(twist: Twist) -> Patches:
    return [(recovery, "_back", lambda state, *given: (state, twist, None))]


def _not_told() -> Patches:
    """Return a patch by which the recovery ignores notices while it backs."""
    return [(recovery, "_with_notice", lambda state, _: state)]


def _forgets_behind() -> Patches:
    """Return a patch by which the next try does not know the end of the last try."""
    whole = recovery._try
    return [(recovery, "_try", lambda state, *given: whole(replace(state, backed_into=False), *given))]


def _rear_without_the_map(around: Around, zone: Any, radius_m: float) -> float:
    return collision.free_behind_m(around.scan, around.out_of_view, radius_m)


FASTER = [(limits, "_within_speed", lambda twist, _: twist)]
LEAPS = [(limits, "_ramped", lambda twist, *_: twist)]
NO_E_STOP = _limit(lambda state, wanted, at, bounds: (state, wanted, replace(at, e_stop=None), bounds))
NO_LATCH = _limit(lambda state, wanted, at, bounds: (replace(state, e_stopped=False), wanted, at, bounds))
NO_GOAL = _limit(lambda state, wanted, at, bounds: (state, wanted or Twist(0.3, 0.0), at, bounds))
NO_NOTICE = _limit(lambda state, wanted, at, bounds: (state, wanted, replace(at, obstacle=None), bounds))
NEVER_STALE = [(limits, "_fresh", lambda *_: True)]
NEVER_LATE = [(odometry, "lateness", lambda quickest, *_: (0, quickest))]
NO_END = _no_end_of_a_drive()
NEVER_LOST = [(decision, "is_lost", lambda *_: False), (mission, "stop", lambda state, reason: state)]
NO_LIMIT = [(limits, "_with_external_limit", lambda state, _: state)]
NEVER_BLIND = [(collision, "look", lambda *_: collision.Look.SEEN)]
NO_ZONES = [(limits, "_caps", lambda *_: [])]
NO_DROPS = [(scan_fusion, "lower_to_drops", lambda *_: None)]
NO_MEMORY = [(obstacle_memory, "around", lambda _, seen, __: Around(seen, NOWHERE))]
NO_NEW_PLACE = [(ekf, "OUTLIERS_TO_RESTART", 100)]
ALWAYS_NEW = [
    (episode, "is_repeated", lambda *_: False),
    (recovery, "renewed", lambda _: recovery.RecoveryState()),
]
NO_KEEP_OUT = [(limits, "_keep_out_cap", lambda *_: (inf, Reason.KEEP_OUT))]
NOT_REQUIRED = [(keepout_zones, "zone_of", lambda *_: ELSEWHERE)]
NO_SPEED_ZONE = [(keepout_zones, "_limit_mps", lambda *_: inf)]
BACKS_ON = _goes_on(Twist(-0.2, 0.0))
BACKS_INTO = _not_told()
FORGETS_BEHIND = _forgets_behind()
BACKS_FASTER = _goes_on(Twist(-0.3, 0.0))
BACKS_FARTHER = [(recovery, "DISTANCE_SLACK", 100.0)]
BACKS_BLIND = [(keepout_zones, "free_behind_m", lambda *_: inf)]
BACKS_WITHOUT_MAP = [(keepout_zones, "free_behind_m", _rear_without_the_map)]

#   rule                        what happens                                    what is broken
ROWS: list[tuple[str, Callable[[], None], Patches]] = [
    ("finite",                  now.nothing_else,                                   _sent(Twist(nan, 0.0))),
    ("speed",                   now.an_operator_wants_too_much,                     FASTER),
    ("acceleration",            now.from_rest_by_a_ramp,                            LEAPS),
    ("latch",                   now.the_e_stop_is_pressed,                          NO_E_STOP),
    ("latch",                   now.the_e_stop_is_released,                         NO_LATCH),
    ("latch",                   now.a_goal_is_given_while_it_is_pressed,            _goals_do_not_see_the_e_stop()),
    ("latch",                   now.a_goal_is_given_as_it_is_released,              _goals_do_not_see_the_e_stop()),
    ("stale odometry",          now.odometry_falls_silent,                          NEVER_STALE),
    ("late odometry",           now.odometry_is_late,                               NEVER_LATE),
    ("stale scan",              now.all_pictures_freeze,                            NEVER_STALE),
    ("odometry that cannot be", now.odometry_raves,                                 NO_END),
    ("lost engine",             now.the_engine_fails,                               NO_END),
    ("lost engine",             now.the_engine_is_slow,                             NO_END),
    ("lost engine",             now.the_engine_is_lost_before_it_backs,             NEVER_LOST),
    ("no goal",                 now.the_goal_is_cancelled,                          NO_GOAL),
    ("speed limit",             now.a_speed_limit_arrives,                          NO_LIMIT),
    ("blind",                   now.the_front_camera_goes,                          NEVER_BLIND),
    ("blind",                   now.the_ready_made_scan_ends_ahead,                 NEVER_BLIND),
    ("obstacle",                now.an_obstacle_is_told_ahead,                      NO_NOTICE),
    ("backed into",             now.it_backs_into_something,                        BACKS_INTO),
    ("backed into",             now.it_backs_into_something,                        FORGETS_BEHIND),
    ("stop zone",               now.a_wall_stands_ahead,                            NO_ZONES),
    ("stop zone",               now.a_wall_stands_in_the_ready_made_scan,           NO_ZONES),
    ("drop",                    now.the_floor_ends_ahead,                           NO_DROPS),
    ("remembered",              now.a_wall_was_ahead,                               NO_MEMORY),
    ("localised",               now.it_learns_its_place_after_nonsense,             NO_NEW_PLACE),
    ("keep-out",                now.it_is_before_forbidden_ground,                  NO_KEEP_OUT),
    ("keep-out",                now.it_is_within_forbidden_ground,                  NO_KEEP_OUT),
    ("required zones",          now.it_does_not_know_its_place,                     NOT_REQUIRED),
    ("speed zone",              now.it_is_in_a_speed_zone,                          NO_SPEED_ZONE),
    ("recovery time",           now.it_is_stuck,                                    BACKS_ON),
    ("recovery distance",       now.it_rolls_back_faster_than_told,                 BACKS_FARTHER),
    ("recovery tries",          now.it_is_stuck_four_times,                         _tries_are_forgotten()),
    ("recovery tries",          now.it_is_stuck_and_asked_again,                    ALWAYS_NEW),
    ("recovery tries",          now.it_is_stuck_and_asked_for_others,               ALWAYS_NEW),
    ("recovery way",            now.it_is_stuck,                                    BACKS_FASTER),
    ("recovery rear",           now.it_is_stuck_before_a_wall_behind,               BACKS_BLIND),
    ("recovery rear",           now.it_is_stuck_with_its_back_to_forbidden_ground,  BACKS_WITHOUT_MAP),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "happens", "patches"), ROWS, ids=[f"{row[0]}-{row[1].__name__}" for row in ROWS])
def test_a_runtime_that_is_broken_in_one_place_is_found(
    rule: str, happens: Callable[[], None], patches: Patches, monkeypatch: pytest.MonkeyPatch
) -> None:
    happens()
    for owner, name, broken in patches:
        monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError, match=f"^{rule}:"):
        happens()
