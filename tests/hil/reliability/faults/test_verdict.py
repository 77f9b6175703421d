"""The judge of the faults finds what is broken: with a rule taken out of the runtime, its fault has failed.

Here the reaction that a fault requires is missing. What holds of every tick: `test_invariants.py`, and
`tests/onboard/safety/invariants/test_safety_watch.py` with a broken runtime.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from hil.drive.sensing import SimulatedInbox
from hil.physics.free_space import Episode
from hil.reliability.faults.inject.schedule import Schedule
from hil.reliability.faults.run.simulated import in_simulation
from hil.reliability.faults.verdict import Status
from onboard.assembly.inbox import UnchangedWatch
from onboard.drivers.dds import camera_input, sender_clock
from onboard.navigation import kalman, mission, odometry
from onboard.policy import decision
from onboard.safety import limits, recovery
from onboard.values.clock import Timing
from onboard.values.messages import Pose, Twist
from tests.hil.reliability.faults.faults_rig import BY_NAME, site

Patch = Callable[[pytest.MonkeyPatch], Any]


def without_stops(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "_stop_reason", lambda *arguments: None)


def deaf_to_notices(patch: pytest.MonkeyPatch) -> None:
    limit = limits.limit

    def deaf(state: Any, wanted: Any, situation: Any, bounds: Any) -> Any:
        return limit(state, wanted, replace(situation, obstacle=None), bounds)

    patch.setattr(limits, "limit", deaf)


def without_stop_zone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits.collision, "stoppable_mps", lambda *arguments: math.inf)


def without_zones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits, "_caps", lambda *arguments: [])


def without_blindness(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(limits.collision, "view_sector", lambda scan, twist, way_m: limits.collision.SectorView.SEEN)


def unwatched(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(UnchangedWatch, "reason", lambda self, camera: "")


def uncovered(patch: pytest.MonkeyPatch) -> None:
    """A covered lens is found a second time by its picture, which stays the same."""
    unwatched(patch)
    patch.setattr(camera_input, "covered", lambda *arguments: "")


def taking_repeats(patch: pytest.MonkeyPatch) -> None:
    """A repeat is found a second time by its picture, and a third time since it is late by its stamp."""
    unwatched(patch)
    patch.setattr(sender_clock.SenderClock, "take", lambda self, stamp_ns, now_ns: 0)
    patch.setattr(sender_clock, "NEW_CLOCK_NS", -(10**18))


def taking_late_ones(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sender_clock.SenderClock, "take", lambda self, stamp_ns, now_ns: 0)


def taking_late_odometry(patch: pytest.MonkeyPatch) -> None:
    """The monitor finds it by the rule of R5 alone: a message that arrives is new to it."""
    patch.setattr(odometry, "timed", lambda sender, stamp_ns, now_ns: (Timing(), sender))


def taking_any_fix(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kalman, "GATE", 1e12)
    patch.setattr(kalman, "correct", kalman.correct.py_func)  # the compiled one has the gate built in


def taking_any_decision(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision, "fault_of", lambda result: "")


def without_slowing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decision, "SLOW_DOWN_AFTER_MISS", 1.0)


def never_giving_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mission, "stop", lambda judged, reason: judged)


def turning_for_ever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "_is_due", lambda state, situation, section, now_ns: False)


def without_last_stop(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SimulatedInbox, "close", lambda self: None)


def keeping_cancelled(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(mission, "cancel", lambda judged: judged)


#   what is broken                      how                   fault                     what is said
BROKEN: list[tuple[str, Patch, str, str]] = [
    ("all stops, peer gone",            without_stops,        "peer_gone",              "it stands for another "),
    ("what is told, to drive on",       deaf_to_notices,      "obstacle_stuck",         "never so: "),
    ("giving up, what is told",         never_giving_up,      "obstacle_stuck",         'its state is "'),
    ("being held, what is told",        turning_for_ever,     "held_turning",           'its state is "'),
    ("blind sectors",                   without_blindness,    "camera_gone",            "never so: "),
    ("the stop zone, noise",            without_stop_zone,    "depth_noise",            "it stands in "),
    ("all zones, noise",                without_zones,        "depth_noise",            "never so: "),
    ("all zones, something near",       without_zones,        "depth_near",             "never so: "),
    ("a covered lens",                  uncovered,            "depth_zero",             "never so: "),
    ("repeated images",                 taking_repeats,       "image_frozen",           "never so: "),
    ("pictures that stay the same",     unwatched,            "image_stuck",            "never so: "),
    ("pictures that come late",         taking_late_ones,     "image_late",             "never so: "),
    ("odometry that comes late",        taking_late_odometry, "odometry_late",          "never so: "),
    ("outliers of localisation",        taking_any_fix,       "localization_jump_once", "its pose estimate "),
    ("decisions that are NaN",          taking_any_decision,  "engine_nan",             "it stands from tick "),
    ("half speed after a miss",         without_slowing,      "engine_slow",            "0.60 m/s are wanted "),
    ("giving up",                       never_giving_up,      "base_deaf",              'its state is "'),
    ("giving up, wheels that stand",    never_giving_up,      "odometry_zero",          'its state is "'),
    ("the last stop",                   without_last_stop,    "drive_lost",             "the run ended without a stop"),
    ("cancel",                          keeping_cancelled,    "goal_lost",              "never so: stands"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "how", "name", "error"), BROKEN, ids=[row[0] for row in BROKEN])
def test_a_broken_rule_is_found(what: str, how: Patch, name: str, error: str, monkeypatch: pytest.MonkeyPatch) -> None:
    how(monkeypatch)
    verdict = in_simulation(BY_NAME[name], site())
    assert verdict.status is Status.FAILED
    assert any(problem.startswith(error) for problem in verdict.problems), verdict.problems


def test_a_robot_that_never_moves_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every fault would pass on a robot that stands."""
    monkeypatch.setattr(decision, "twist_of", lambda _: Twist(0.0, 0.0))
    monkeypatch.setattr(decision, "replaced", lambda state, _: state)
    verdict = in_simulation(BY_NAME["cameras_gone"], site())
    assert (verdict.status, verdict.happened) == (Status.NOT_SHOWN, "the robot stood when the fault began")


def test_a_robot_that_stands_without_the_fault_too_shows_nothing() -> None:
    """It drives when the fault begins, and comes to stand before a wall before it is over."""
    near = replace(site(), episode=Episode(Pose(12.6, 2.0, 0.0), (1.5, 3.0), 10.0))
    verdict = in_simulation(BY_NAME["time_step_hour"], near)
    assert (verdict.status, verdict.problems) == (Status.NOT_SHOWN, ())
    assert verdict.happened.startswith("same result without the fault: it does not ")
    pressed = in_simulation(BY_NAME["e_stop"], near)
    assert pressed.status is Status.PASSED


def test_a_fault_that_is_not_injected_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Schedule, "active", lambda self, now_ns: [])
    verdict = in_simulation(BY_NAME["e_stop"], site())
    assert verdict.problems[0] == "never so: stands"
    assert verdict.problems[-1] == 'its state is "navigating"'
