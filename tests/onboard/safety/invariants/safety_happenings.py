"""Events in the runtime of `test_safety_machine`, one each, for `test_safety_watch`."""

from __future__ import annotations

from math import inf, nan, pi
from typing import Any

from onboard.values.messages import Pose, Twist
from tests.onboard.safety.invariants.test_safety_machine import CAMERAS, DROP_M, FASTEST, STATED, Driven


def driving(**begin: Any) -> Driven:
    """Return a runtime that drives ahead at the highest allowed speed."""
    machine = Driven()
    machine.begin(**({"ramped": False, "drop_m": 0.0, "zones": "none"} | begin))
    machine.it_drives_as_the_policy_wants(FASTEST)
    return machine


def operated(machine: Driven, twist: Twist, ticks: int = 20) -> None:
    machine.an_operator_drives(twist, ticks)


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


def a_goal_is_given_as_it_is_released() -> None:
    machine = driving()
    machine.the_e_stop_changes(True)
    machine.bench.e_stop = False
    machine.somebody_asks_or_cancels(3.0, 0.0, "base_link", cancel=False)


def odometry_falls_silent() -> None:
    driving().odometry_fails("falls silent", Twist(0.0, 0.0))


def odometry_raves() -> None:
    driving().odometry_fails("raves", Twist(nan, inf))


def odometry_is_late() -> None:
    driving().odometry_comes_late(300, 40)


def all_pictures_freeze() -> None:
    driving().pictures_freeze(set(CAMERAS))


def the_engine_fails() -> None:
    driving().the_engine_fails_or_is_slow({"decision": None, "error": "no device"})


def the_engine_is_slow() -> None:
    machine = driving()
    machine.the_engine_fails_or_is_slow(3000.0)
    machine.live(25)


def the_engine_is_lost_before_it_backs() -> None:
    machine = driving()
    number = machine.bench.runtime.state.pilot.decisions + 1
    machine.takes_ms.update(dict.fromkeys(range(number, number + 40), 1e6))
    machine.it_is_stuck_until_it_backs(True, 70)


def the_goal_is_cancelled() -> None:
    driving().somebody_asks_or_cancels(3.0, 0.0, "base_link", cancel=True)


def a_speed_limit_arrives() -> None:
    driving().a_speed_limit_and_a_fix_arrive(0.05, Pose(0.0, 0.0, 0.0))


def the_front_camera_goes() -> None:
    driving().cameras_go({"front"}, 10)


def the_ready_made_scan_ends_ahead() -> None:
    driving(ready=True).cameras_go({"front"}, 10)


def a_wall_stands_in_the_ready_made_scan() -> None:
    driving(ready=True).a_wall_before_a_camera("front", 400)


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


def it_learns_its_place_after_nonsense() -> None:
    machine = driving(zones="wanted")
    machine.fixes_state_how_sure_they_are(STATED[0], Pose(0.0, 0.0, 0.0), 4)
    machine.it_learns_that_it_is_elsewhere(-1.5, 2.0, pi, FASTEST)
    machine.it_learns_that_it_is_elsewhere(9.0, 0.0, pi, FASTEST)


def it_is_in_a_speed_zone() -> None:
    driving(zones="wanted").it_learns_that_it_is_elsewhere(-1.5, 2.0, pi, FASTEST)


def it_is_stuck() -> None:
    driving().it_is_stuck_until_it_backs(True, 70)


def an_obstacle_is_told_ahead() -> None:
    driving().an_obstacle_is_told(True, 5)


def it_backs_into_something() -> None:
    driving().it_backs_into_something(20)


def it_is_stuck_four_times() -> None:
    machine = driving()
    for _ in range(4):
        machine.it_is_stuck_until_it_backs(True, 70)


def it_is_stuck_and_asked_again() -> None:
    driving().it_is_stuck_and_is_asked_again_and_again(4, other=False, every=300)


def it_is_stuck_and_asked_for_others() -> None:
    driving().it_is_stuck_and_is_asked_again_and_again(4, other=True, every=300)


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
