"""Each rule of `safety_watch` can fail: it finds a runtime that is broken in one place, and passes the intact one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan, pi
from typing import Any

import pytest

from onboard import episode
from onboard.navigation import ekf, mission, odometry
from onboard.perception import collision, free_ground, obstacle_memory, scan_fusion
from onboard.perception.obstacle_memory import NOWHERE, Surroundings
from onboard.policy import decision
from onboard.policy.contract import ACTIONS
from onboard.safety import keepout_zones, limits, recovery
from onboard.safety.keepout_zones import ELSEWHERE
from onboard.safety.limits import Reason
from onboard.values.messages import Pose, Twist
from tests.onboard.safety.invariants.test_safety_machine import CAMERAS, DROP_M, FASTEST, STATED, Driven

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


def _rear_without_the_map(surroundings: Surroundings, zone: Any, radius_m: float) -> float:
    return collision.free_behind_m(surroundings.scan, surroundings.out_of_view, radius_m)


FASTER = [(limits, "_within_speed", lambda twist, _: twist)]
LEAPS = [(limits, "_ramped", lambda twist, *_: twist)]
NO_E_STOP = _limit(lambda state, wanted, at, bounds: (state, wanted, replace(at, e_stop=None), bounds))
NO_LATCH = _limit(lambda state, wanted, at, bounds: (replace(state, e_stopped=False), wanted, at, bounds))
NO_GOAL = _limit(lambda state, wanted, at, bounds: (state, wanted or Twist(0.3, 0.0), at, bounds))
NO_NOTICE = _limit(lambda state, wanted, at, bounds: (state, wanted, replace(at, obstacle=None), bounds))
FAST_TURN = [(limits, "NOTICE_RADPS", 3.0)]
NEVER_STALE = [(limits, "_fresh", lambda *_: True)]
TIMED = odometry.timed
NEVER_LATE = [(odometry, "timed", lambda *given: (replace(TIMED(*given)[0], late_ns=0), TIMED(*given)[1]))]
NO_END = _no_end_of_a_drive()
NEVER_LOST = [(decision, "is_lost", lambda *_: False), (mission, "stop", lambda state, reason: state)]
NO_LIMIT = [(limits, "_with_external_limit", lambda state, _: state)]
NEVER_BLIND = [(collision, "view_sector", lambda *_: collision.SectorView.SEEN)]
ALL_SEEN_FREE = [(free_ground, "unknown", lambda *_: NOWHERE)]
NO_ZONES = [(limits, "_caps", lambda *_: [])]
NO_DROPS = [(scan_fusion, "lower_to_drops", lambda *_: None)]
NO_MEMORY = [(obstacle_memory, "surroundings", lambda _, seen, __: Surroundings(seen, NOWHERE))]
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


def driving(**begin: Any) -> Driven:
    """Return a runtime that drives ahead at the highest allowed speed."""
    machine = Driven()
    machine.begin(**({"ramped": False, "drop_m": 0.0, "zones": "none"} | begin))
    machine.it_drives_as_the_policy_wants(FASTEST)
    return machine


def operated(machine: Driven, twist: Twist, ticks: int = 20) -> None:
    machine.an_operator_drives(twist, ticks)


def the_e_stop_is_released() -> None:
    machine = driving()
    machine.the_e_stop_changes(True)
    machine.the_e_stop_changes(False)
    operated(machine, Twist(0.3, 0.0))


def a_goal_is_given_while_it_is_pressed() -> None:
    machine = driving()
    machine.the_e_stop_changes(True)
    machine.somebody_asks_or_cancels(3.0, 0.0, "base_link", cancel=False)


def a_goal_is_given_as_it_is_released() -> None:
    machine = driving()
    machine.the_e_stop_changes(True)
    machine.bench.e_stop = False
    machine.somebody_asks_or_cancels(3.0, 0.0, "base_link", cancel=False)


def the_engine_is_slow() -> None:
    machine = driving()
    machine.the_engine_fails_or_is_slow(3000.0)
    machine.live(25)


def the_engine_is_lost_before_it_backs() -> None:
    machine = driving()
    number = machine.bench.runtime.state.pilot.decisions + 1
    machine.takes_ms.update(dict.fromkeys(range(number, number + 40), 1e6))
    machine.it_is_stuck_until_it_backs(True, 70)


def a_wall_was_ahead() -> None:
    machine = driving()
    machine.a_wall_before_a_camera("front", 400)
    machine.cameras_go({"front"}, 1)
    operated(machine, Twist(0.3, 0.0), 120)


def it_learns_its_place_after_nonsense() -> None:
    machine = driving(zones="wanted")
    machine.fixes_state_how_sure_they_are(STATED[0], Pose(0.0, 0.0, 0.0), 4)
    machine.it_learns_that_it_is_elsewhere(-1.5, 2.0, pi, FASTEST)
    machine.it_learns_that_it_is_elsewhere(9.0, 0.0, pi, FASTEST)


def a_turn_is_wanted_at_an_obstacle() -> None:
    machine = driving()
    machine.it_drives_as_the_policy_wants(ACTIONS.index(Twist(0.0, 3.0)))
    machine.an_obstacle_is_told(True, 5)


def it_is_stuck_four_times() -> None:
    machine = driving()
    for _ in range(4):
        machine.it_is_stuck_until_it_backs(True, 70)


def it_rolls_back_faster_than_told() -> None:
    machine = driving()
    machine.it_is_stuck_until_it_backs(True, 0)
    machine.mad = Twist(-0.6, 0.0)
    machine.live(50)


def it_is_stuck_with_its_back_to_forbidden_ground() -> None:
    machine = driving(zones="wanted")
    machine.bench.stuck = True
    machine.it_learns_that_it_is_elsewhere(0.7, 0.0, pi, FASTEST)
    machine.it_is_stuck_until_it_backs(True, 20)


HAPPENINGS: dict[str, Callable[[], object]] = {
    "nothing_else": driving,
    "from_rest_by_a_ramp": lambda: driving(ramped=True),
    "an_operator_wants_too_much": lambda: operated(driving(), Twist(3.0, 0.0)),
    "the_e_stop_is_pressed": lambda: driving().the_e_stop_changes(True),
    "odometry_falls_silent": lambda: driving().odometry_fails("falls silent", Twist(0.0, 0.0)),
    "odometry_raves": lambda: driving().odometry_fails("raves", Twist(nan, inf)),
    "odometry_is_late": lambda: driving().odometry_comes_late(300, 40),
    "all_pictures_freeze": lambda: driving().pictures_freeze(set(CAMERAS)),
    "the_engine_fails": lambda: driving().the_engine_fails_or_is_slow({"decision": None, "error": "no device"}),
    "the_goal_is_cancelled": lambda: driving().somebody_asks_or_cancels(3.0, 0.0, "base_link", cancel=True),
    "a_speed_limit_arrives": lambda: driving().a_speed_limit_and_a_fix_arrive(0.05, Pose(0.0, 0.0, 0.0)),
    "the_front_camera_goes": lambda: driving().cameras_go({"front"}, 10),
    "the_front_camera_stays_away": lambda: driving().cameras_go({"front"}, 250),
    "the_ready_made_scan_ends_ahead": lambda: driving(ready=True).cameras_go({"front"}, 10),
    "a_wall_stands_in_the_ready_made_scan": lambda: driving(ready=True).a_wall_before_a_camera("front", 400),
    "a_wall_stands_ahead": lambda: driving().a_wall_before_a_camera("front", 400),
    "the_floor_ends_ahead": lambda: driving(drop_m=DROP_M).the_floor_ends_before_a_camera("front", 0.5),
    "it_is_before_forbidden_ground": lambda: driving(zones="wanted").it_learns_that_it_is_elsewhere(
        0.7, 0.0, 0.0, FASTEST
    ),
    "it_is_within_forbidden_ground": lambda: driving(zones="wanted").it_learns_that_it_is_elsewhere(
        2.0, 0.0, -0.5 * pi, FASTEST
    ),
    "it_does_not_know_its_place": lambda: driving(zones="required"),
    "it_is_in_a_speed_zone": lambda: driving(zones="wanted").it_learns_that_it_is_elsewhere(-1.5, 2.0, pi, FASTEST),
    "it_is_stuck": lambda: driving().it_is_stuck_until_it_backs(True, 70),
    "an_obstacle_is_told_ahead": lambda: driving().an_obstacle_is_told(True, 5),
    "it_backs_into_something": lambda: driving().it_backs_into_something(20),
    "it_is_stuck_and_asked_again": lambda: driving().it_is_stuck_and_is_asked_again_and_again(
        4, other=False, every=300
    ),
    "it_is_stuck_and_asked_for_others": lambda: driving().it_is_stuck_and_is_asked_again_and_again(
        4, other=True, every=300
    ),
    "it_is_stuck_before_a_wall_behind": lambda: driving().it_is_stuck_with_something_behind(400),
} | {
    happening.__name__: happening
    for happening in (
        the_e_stop_is_released,
        a_goal_is_given_while_it_is_pressed,
        a_goal_is_given_as_it_is_released,
        the_engine_is_slow,
        the_engine_is_lost_before_it_backs,
        a_wall_was_ahead,
        it_learns_its_place_after_nonsense,
        a_turn_is_wanted_at_an_obstacle,
        it_is_stuck_four_times,
        it_rolls_back_faster_than_told,
        it_is_stuck_with_its_back_to_forbidden_ground,
    )
}

#   rule                        what happens                                    what is broken
ROWS: list[tuple[str, str, Patches]] = [
    ("finite",                  "nothing_else",                                   _sent(Twist(nan, 0.0))),
    ("speed",                   "an_operator_wants_too_much",                     FASTER),
    ("acceleration",            "from_rest_by_a_ramp",                            LEAPS),
    ("e-stop",                  "the_e_stop_is_pressed",                          NO_E_STOP),
    ("e-stop",                  "the_e_stop_is_released",                         NO_LATCH),
    ("e-stop",                  "a_goal_is_given_while_it_is_pressed",            _goals_do_not_see_the_e_stop()),
    ("e-stop",                  "a_goal_is_given_as_it_is_released",              _goals_do_not_see_the_e_stop()),
    ("stale odometry",          "odometry_falls_silent",                          NEVER_STALE),
    ("late odometry",           "odometry_is_late",                               NEVER_LATE),
    ("stale scan",              "all_pictures_freeze",                            NEVER_STALE),
    ("impossible odometry", "odometry_raves",                                 NO_END),
    ("lost engine",             "the_engine_fails",                               NO_END),
    ("lost engine",             "the_engine_is_slow",                             NO_END),
    ("lost engine",             "the_engine_is_lost_before_it_backs",             NEVER_LOST),
    ("no goal",                 "the_goal_is_cancelled",                          NO_GOAL),
    ("speed limit",             "a_speed_limit_arrives",                          NO_LIMIT),
    ("blind",                   "the_front_camera_goes",                          NEVER_BLIND),
    ("blind",                   "the_front_camera_stays_away",                    ALL_SEEN_FREE),
    ("blind",                   "the_ready_made_scan_ends_ahead",                 NEVER_BLIND),
    ("obstacle",                "an_obstacle_is_told_ahead",                      NO_NOTICE),
    ("turn at an obstacle",     "a_turn_is_wanted_at_an_obstacle",                FAST_TURN),
    ("backed into",             "it_backs_into_something",                        BACKS_INTO),
    ("backed into",             "it_backs_into_something",                        FORGETS_BEHIND),
    ("stop zone",               "a_wall_stands_ahead",                            NO_ZONES),
    ("stop zone",               "a_wall_stands_in_the_ready_made_scan",           NO_ZONES),
    ("drop",                    "the_floor_ends_ahead",                           NO_DROPS),
    ("remembered",              "a_wall_was_ahead",                               NO_MEMORY),
    ("localised",               "it_learns_its_place_after_nonsense",             NO_NEW_PLACE),
    ("keep-out",                "it_is_before_forbidden_ground",                  NO_KEEP_OUT),
    ("keep-out",                "it_is_within_forbidden_ground",                  NO_KEEP_OUT),
    ("required zones",          "it_does_not_know_its_place",                     NOT_REQUIRED),
    ("speed zone",              "it_is_in_a_speed_zone",                          NO_SPEED_ZONE),
    ("recovery time",           "it_is_stuck",                                    BACKS_ON),
    ("recovery distance",       "it_rolls_back_faster_than_told",                 BACKS_FARTHER),
    ("recovery tries",          "it_is_stuck_four_times",                         _tries_are_forgotten()),
    ("recovery tries",          "it_is_stuck_and_asked_again",                    ALWAYS_NEW),
    ("recovery tries",          "it_is_stuck_and_asked_for_others",               ALWAYS_NEW),
    ("recovery way",            "it_is_stuck",                                    BACKS_FASTER),
    ("recovery rear",           "it_is_stuck_before_a_wall_behind",               BACKS_BLIND),
    ("recovery rear",           "it_is_stuck_with_its_back_to_forbidden_ground",  BACKS_WITHOUT_MAP),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "what", "patches"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS])
def test_a_runtime_that_is_broken_in_one_place_is_found(
    rule: str, what: str, patches: Patches, monkeypatch: pytest.MonkeyPatch
) -> None:
    happens = HAPPENINGS[what]
    happens()
    for owner, name, broken in patches:
        monkeypatch.setattr(owner, name, broken)
    with pytest.raises(AssertionError, match=f"^{rule}:"):
        happens()
