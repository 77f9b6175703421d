"""Each rule of `safety_watch` can fail: a runtime that is broken in one place is found, the whole one is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan, pi
from typing import Any

import pytest
from test_safety_machine import CAMERAS, DROP_M, Driven

from onboard import goals, keep_out, limits, mission, nearby, pilot, recovery, scan, zones
from onboard.contract import ACTIONS
from onboard.keep_out import ELSEWHERE
from onboard.limits import Reason
from onboard.messages import Pose, Twist
from onboard.nearby import NOWHERE, Around

FASTEST = ACTIONS.index(Twist(1.0, 0.0))
Patches = list[tuple[Any, str, Any]]


def driving(**begin: Any) -> Driven:
    """Return a runtime that drives ahead as fast as it may."""
    machine = Driven()
    machine.begin(**({"ramped": False, "drop_m": 0.0, "zones": "none"} | begin))
    machine.it_drives_as_the_policy_wants(FASTEST)
    return machine


def operated(machine: Driven, twist: Twist, ticks: int = 20) -> None:
    machine.an_operator_drives(twist, ticks)


# ---- what happens


def nothing_else() -> None:
    driving()


def from_rest_by_a_ramp() -> None:
    driving(ramped=True)


def an_operator_wants_too_much() -> None:
    operated(driving(), Twist(3.0, 0.0))


def the_e_stop_is_pressed() -> None:
    driving().the_e_stop_changes(True)


def the_e_stop_is_released() -> None:
    machine = driving()
    machine.the_e_stop_changes(True)
    machine.the_e_stop_changes(False)
    operated(machine, Twist(0.3, 0.0))


def a_goal_is_given_while_it_is_pressed() -> None:
    machine = driving()
    machine.the_e_stop_changes(True)
    machine.somebody_asks_or_cancels(3.0, 0.0, "base_link", cancel=False)


def odometry_falls_silent() -> None:
    driving().odometry_fails("falls silent", Twist(0.0, 0.0))


def odometry_raves() -> None:
    driving().odometry_fails("raves", Twist(nan, inf))


def all_pictures_freeze() -> None:
    driving().pictures_freeze(set(CAMERAS))


def the_engine_fails() -> None:
    driving().the_engine_fails_or_is_slow({"decision": None, "error": "no device"})


def the_engine_is_slow() -> None:
    machine = driving()
    machine.the_engine_fails_or_is_slow(3000.0)
    machine.live(25)


def the_goal_is_cancelled() -> None:
    driving().somebody_asks_or_cancels(3.0, 0.0, "base_link", cancel=True)


def a_speed_limit_arrives() -> None:
    driving().a_speed_limit_and_a_fix_arrive(0.05, Pose(0.0, 0.0, 0.0))


def the_front_camera_goes() -> None:
    driving().cameras_go({"front"}, 10)


def a_wall_stands_ahead() -> None:
    driving().a_wall_before_a_camera("front", 400)


def the_floor_ends_ahead() -> None:
    driving(drop_m=DROP_M).the_floor_ends_before_a_camera("front", 0.5)


def a_wall_was_ahead() -> None:
    machine = driving()
    machine.a_wall_before_a_camera("front", 400)
    machine.cameras_go({"front"}, 1)
    operated(machine, Twist(0.3, 0.0), 120)


def it_is_before_forbidden_ground() -> None:
    driving(zones="wanted").it_learns_that_it_is_elsewhere(0.7, 0.0, 0.0, FASTEST)


def it_is_within_forbidden_ground() -> None:
    driving(zones="wanted").it_learns_that_it_is_elsewhere(2.0, 0.0, -0.5 * pi, FASTEST)


def it_does_not_know_its_place() -> None:
    driving(zones="required")


def it_is_in_a_speed_zone() -> None:
    driving(zones="wanted").it_learns_that_it_is_elsewhere(-1.5, 2.0, pi, FASTEST)


def it_is_stuck() -> None:
    driving().it_is_stuck_until_it_backs(True, 70)


def it_is_stuck_four_times() -> None:
    machine = driving()
    for _ in range(4):
        machine.it_is_stuck_until_it_backs(True, 70)


def it_rolls_back_faster_than_told() -> None:
    machine = driving()
    machine.it_is_stuck_until_it_backs(True, 0)
    machine.mad = Twist(-0.6, 0.0)
    machine.live(50)


def it_is_stuck_before_a_wall_behind() -> None:
    driving().it_is_stuck_with_something_behind(400)


def it_is_stuck_with_its_back_to_forbidden_ground() -> None:
    machine = driving(zones="wanted")
    machine.bench.stuck = True
    machine.it_learns_that_it_is_elsewhere(0.7, 0.0, pi, FASTEST)
    machine.it_is_stuck_until_it_backs(True, 20)


# ---- how the runtime is broken


def _limit(change: Callable[..., tuple[Any, ...]]) -> Patches:
    """Return a patch of what `limits.limit` is given."""
    whole = limits.limit
    return [(limits, "limit", lambda *given: whole(*change(*given)))]


def _sent(twist: Twist) -> Patches:
    """Return a patch of what `limits.limit` returns."""
    whole = limits.limit

    def broken(*given: Any) -> Any:
        state, limited = whole(*given)
        return state, replace(limited, twist=twist)

    return [(limits, "limit", broken)]


def _goals_do_not_see_the_e_stop() -> Patches:
    judge = goals.judge
    blind = lambda state, request, inputs, config: judge(state, request, replace(inputs, e_stop=None), config)  # noqa: E731
    return [(goals, "judge", blind)]


def _no_end_of_a_drive() -> Patches:
    act = pilot.act

    def keeps_on(state: Any, *given: Any) -> Any:
        after, acted = act(state, *given)
        lost = acted is not None and acted.decision is None
        return replace(after, set_point=state.set_point) if lost else after, acted

    return [
        (mission, "stop", lambda state, reason: state),
        (pilot, "is_lost", lambda *_: False),
        (pilot, "act", keeps_on),
    ]


def _tries_are_forgotten() -> Patches:
    whole = recovery._try
    return [(recovery, "_try", lambda state, *given: whole(replace(state, tries_ns=()), *given))]


def _goes_on(twist: Twist) -> Patches:
    return [(recovery, "_back", lambda state, *given: (state, twist, None))]


def _rear_without_the_map(around: Around, zone: Any, radius_m: float) -> float:
    return zones.free_behind_m(around.scan, around.out_of_view, radius_m)


FASTER = [(limits, "_within_speed", lambda twist, _: twist)]
LEAPS = [(limits, "_ramped", lambda twist, *_: twist)]
NO_E_STOP = _limit(lambda state, wanted, at, bounds: (state, wanted, replace(at, e_stop=None), bounds))
NO_LATCH = _limit(lambda state, wanted, at, bounds: (replace(state, e_stopped=False), wanted, at, bounds))
NO_GOAL = _limit(lambda state, wanted, at, bounds: (state, wanted or Twist(0.3, 0.0), at, bounds))
NEVER_STALE = [(limits, "_fresh", lambda *_: True)]
NO_END = _no_end_of_a_drive()
NO_LIMIT = [(limits, "_heeding", lambda state, _: state)]
NEVER_BLIND = [(zones, "look", lambda *_: zones.Look.SEEN)]
NO_ZONES = [(limits, "_caps", lambda *_: [])]
NO_DROPS = [(scan, "lower_to_drops", lambda *_: None)]
NO_MEMORY = [(nearby, "around", lambda _, seen, __: Around(seen, NOWHERE))]
NO_KEEP_OUT = [(limits, "_keep_out_cap", lambda *_: (inf, Reason.KEEP_OUT))]
NOT_REQUIRED = [(keep_out, "zone_of", lambda *_: ELSEWHERE)]
NO_SPEED_ZONE = [(keep_out, "_limit_mps", lambda *_: inf)]
BACKS_ON = _goes_on(Twist(-0.2, 0.0))
BACKS_FASTER = _goes_on(Twist(-0.3, 0.0))
BACKS_FARTHER = [(recovery, "DISTANCE_SLACK", 100.0)]
BACKS_BLIND = [(keep_out, "free_behind_m", lambda *_: inf)]
BACKS_WITHOUT_MAP = [(keep_out, "free_behind_m", _rear_without_the_map)]

#   rule                        what happens                                    what is broken
ROWS: list[tuple[str, Callable[[], None], Patches]] = [
    ("finite",                  nothing_else,                                   _sent(Twist(nan, 0.0))),
    ("speed",                   an_operator_wants_too_much,                     FASTER),
    ("acceleration",            from_rest_by_a_ramp,                            LEAPS),
    ("latch",                   the_e_stop_is_pressed,                          NO_E_STOP),
    ("latch",                   the_e_stop_is_released,                         NO_LATCH),
    ("latch",                   a_goal_is_given_while_it_is_pressed,            _goals_do_not_see_the_e_stop()),
    ("stale odometry",          odometry_falls_silent,                          NEVER_STALE),
    ("stale scan",              all_pictures_freeze,                            NEVER_STALE),
    ("odometry that cannot be", odometry_raves,                                 NO_END),
    ("lost engine",             the_engine_fails,                               NO_END),
    ("lost engine",             the_engine_is_slow,                             NO_END),
    ("no goal",                 the_goal_is_cancelled,                          NO_GOAL),
    ("speed limit",             a_speed_limit_arrives,                          NO_LIMIT),
    ("blind",                   the_front_camera_goes,                          NEVER_BLIND),
    ("stop zone",               a_wall_stands_ahead,                            NO_ZONES),
    ("drop",                    the_floor_ends_ahead,                           NO_DROPS),
    ("remembered",              a_wall_was_ahead,                               NO_MEMORY),
    ("keep-out",                it_is_before_forbidden_ground,                  NO_KEEP_OUT),
    ("keep-out",                it_is_within_forbidden_ground,                  NO_KEEP_OUT),
    ("required zones",          it_does_not_know_its_place,                     NOT_REQUIRED),
    ("speed zone",              it_is_in_a_speed_zone,                          NO_SPEED_ZONE),
    ("recovery time",           it_is_stuck,                                    BACKS_ON),
    ("recovery distance",       it_rolls_back_faster_than_told,                 BACKS_FARTHER),
    ("recovery tries",          it_is_stuck_four_times,                         _tries_are_forgotten()),
    ("recovery way",            it_is_stuck,                                    BACKS_FASTER),
    ("recovery rear",           it_is_stuck_before_a_wall_behind,               BACKS_BLIND),
    ("recovery rear",           it_is_stuck_with_its_back_to_forbidden_ground,  BACKS_WITHOUT_MAP),
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
