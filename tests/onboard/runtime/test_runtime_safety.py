"""Stops and overrides: e-stop, operator, lost inputs, blind cameras, implausible odometry."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from onboard.config.config import Config
from onboard.policy.contract import ACTIONS, NO_ACTION
from onboard.values.messages import STOP, Inputs, OdometryMessage, Pose, Twist
from tests.rigs.runtime_bench import FORWARD, LEFT, MS, Bench, Puppet, commands

AHEAD = ACTIONS[FORWARD]
CONFIG = Config()


def test_in_free_space_the_command_on_the_wire_is_the_policys() -> None:
    every = list(range(len(ACTIONS)))
    bench = Bench(
        Puppet(lambda seen: every[len(every) - 1 if seen.previous_action == NO_ACTION else seen.previous_action - 1])
    )
    bench.ask(50.0, 0.0)
    ticks = bench.seconds(len(ACTIONS) / 3.0)
    actions = [tick.acted.decision.action for tick in ticks if tick.acted]
    assert actions == every[::-1]
    assert [tick.command for tick in ticks if tick.acted] == [ACTIONS[action] for action in actions]
    assert {tick.reason for tick in ticks} == {"none"}
    assert bench.sent == commands(ticks)


# ---- e-stop


def test_the_e_stop_stops_in_the_same_tick_and_ends_the_drive() -> None:
    bench = Bench().driving()
    bench.e_stop = True
    tick = bench.tick()
    assert (tick.command, tick.reason, tick.state) == (STOP, "e_stop", "stopped: e_stop")


def test_a_goal_that_comes_with_the_release_was_perhaps_given_before_it() -> None:
    """Both arrive in the same tick, so their order is unknown."""
    bench = Bench().driving()
    bench.e_stop = True
    bench.tick()
    bench.ask()
    bench.e_stop = False
    tick = bench.tick()
    assert tick.state == "stopped: goal refused: the e-stop has only just been released"
    assert {(second.command, second.reason) for second in bench.seconds(1.0)} == {(STOP, "e_stop")}
    bench.ask()
    assert bench.tick().state == "navigating"


def test_the_e_stop_holds_until_released_and_a_goal_is_given_then() -> None:
    bench = Bench().driving()
    bench.e_stop = True
    bench.tick()
    bench.ask()
    assert bench.tick().state == "stopped: goal refused: the e-stop is pressed"
    bench.e_stop = False
    for _ in range(30):
        bench.operate(AHEAD)
        tick = bench.tick()
        assert (tick.command, tick.reason) == (STOP, "e_stop")
    bench.ask(frame="mars")
    assert bench.tick().reason == "e_stop", "a goal that is refused releases nothing"
    bench.teleop = None
    assert bench.driving().tick().command == AHEAD


def test_a_goal_together_with_the_e_stop_is_refused() -> None:
    bench = Bench()
    bench.tick()
    bench.e_stop = True
    bench.ask()
    assert bench.tick().state == "stopped: goal refused: the e-stop is pressed"
    bench.e_stop = False
    assert bench.tick().reason == "e_stop"


# ---- operator


def test_an_operator_takes_over_at_once_and_the_dead_man_gives_back() -> None:
    policy = Puppet(FORWARD)
    bench = Bench(policy).driving()
    bench.operate(Twist(0.2, 0.5))
    tick = bench.tick()
    assert (tick.command, tick.reason, tick.state) == (Twist(0.2, 0.5), "teleop", "navigating")
    ticks = bench.seconds(1.0)
    held = [tick for tick in ticks if tick.reason == "teleop"]
    assert len(held) == round(CONFIG.limits.teleop_dead_man_s * 30)
    after = ticks[len(held) :]
    sensed = next(tick for tick in after if tick.sensed)
    assert sensed.sensed.observation.previous_action == NO_ACTION
    assert sensed.sensed.memory_reset == "sequence_start"
    assert set(commands([tick for tick in after if tick.slot.number < sensed.slot.number + 3])) == {STOP}
    assert after[-1].command == AHEAD


def test_an_operator_may_drive_a_robot_without_a_goal() -> None:
    bench = Bench()
    bench.operate(Twist(0.2, 0.0))
    tick = bench.tick()
    assert (tick.command, tick.reason, tick.state) == (Twist(0.2, 0.0), "teleop", "idle")
    assert bench.seconds(1.0)[-1].command == STOP


# ---- lost inputs

#   what           how it is lost                                limit [ms]                     reason
LOSSES: list[tuple[str, Callable[[Bench], Any], float, str, str]] = [
    (
        "odometry", lambda bench: setattr(bench, "reports", False), CONFIG.odometry.stale_ms, "stale_odometry",
        "odometry (/odom) is 5.3 s old (limit 200 ms, odometry.stale_ms): nothing usable is received",
    ),
    (
        "all cameras", lambda bench: bench.images.clear(), CONFIG.limits.scan_stale_ms, "stale_scan",
        "scan (depth cameras) is 5.5 s old (limit 400 ms, limits.scan_stale_ms): nothing usable is received",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("what", "lose", "limit_ms", "reason", "named"), LOSSES, ids=[row[0] for row in LOSSES])
def test_a_lost_input_stops_within_its_limit_and_in_the_end_the_drive(
    what: str, lose: Callable[[Bench], Any], limit_ms: float, reason: str, named: str
) -> None:
    bench = Bench(Puppet(LEFT)).driving()  # turning in place is allowed to a blind robot, until the scan is stale
    last_ns = bench.tick().inputs.now_ns
    lose(bench)
    ticks = bench.seconds(7.0)
    stopped = next(tick for tick in ticks if tick.command == STOP)
    assert stopped.reason == reason
    assert limit_ms * MS < stopped.inputs.now_ns - last_ns <= limit_ms * MS + 34 * MS
    ended = next(tick for tick in ticks if tick.state == f"stopped: input lost for 5 s: {named}")
    assert 5.0 <= (ended.inputs.now_ns - stopped.inputs.now_ns) / 1e9 <= 5.1
    assert set(commands(ticks[stopped.slot.number - ticks[0].slot.number :])) == {STOP}
    assert bench.runtime.counters.faults[reason] == 1


def test_all_cameras_gone_means_no_more_forward_motion_at_once() -> None:
    bench = Bench().driving()
    bench.images.clear()
    assert bench.tick().command.v_mps == 0.0


@pytest.mark.parametrize(("camera", "forward"), [("front", False), ("rear", True)])
def test_one_camera_gone_blinds_its_sector(camera: str, forward: bool) -> None:
    bench = Bench(limits={"seen_free_s": 0.0}).driving()
    del bench.images[camera]
    ticks = bench.seconds(1.0)
    assert {tick.command.v_mps > 0.0 for tick in ticks} == {forward}
    assert {tick.reason for tick in ticks} == ({"none"} if forward else {"blind_ahead"})


def test_with_the_front_camera_gone_it_stops_turns_to_look_and_goes_on_slowly() -> None:
    bench = Bench().driving()
    del bench.images["front"]
    ticks = bench.seconds(6.0)
    looks = [event for tick in ticks for event in tick.events if event.startswith("looking")]
    assert looks[:2] == ["looking what=began", "looking what=ended"]
    began, ended = (next(i for i, tick in enumerate(ticks) if look in tick.events) for look in looks[:2])
    assert not any(tick.command.v_mps > 0.0 for tick in ticks[:ended])
    assert any(tick.command.w_radps != 0.0 for tick in ticks[began:ended])
    assert max(tick.command.v_mps for tick in ticks[ended + 1 :]) == pytest.approx(0.3)


def test_a_camera_that_comes_back_lets_the_robot_go_on() -> None:
    bench = Bench().driving()
    image = bench.images.pop("front")
    bench.seconds(0.3)
    bench.images["front"] = image
    assert bench.tick().command == AHEAD


# ---- odometry

#   what                twist                     pose                             what the reason says
IMPOSSIBLE = [
    ("NaN speed", Twist(math.nan, 0.0), Pose(0.0, 0.0, 0.0), "v is nan"),
    ("infinite turn", Twist(0.0, -math.inf), Pose(0.0, 0.0, 0.0), "w is -inf"),
    ("huge speed", Twist(1e30, 0.0), Pose(0.0, 0.0, 0.0), "v is 1e+30 m/s, limit 3 (of every base)"),
    ("huge turn", Twist(0.0, 11.0), Pose(0.0, 0.0, 0.0), "w is 11 rad/s, limit 10 (of every base)"),
    ("NaN pose", STOP, Pose(math.nan, 0.0, 0.0), "x is nan"),
    ("huge pose", STOP, Pose(0.0, 1e12, 0.0), "y is 1e+12, limit 1e+07"),
]


def reporting(twist: Twist, pose: Pose) -> Callable[[Inputs], Inputs]:
    return lambda inputs: replace(inputs, odometry=(OdometryMessage(inputs.now_ns, inputs.now_ns, pose, twist),))


@pytest.mark.parametrize(("what", "twist", "pose", "named"), IMPOSSIBLE, ids=[row[0] for row in IMPOSSIBLE])
def test_odometry_that_cannot_be_ends_the_drive_with_field_and_limit(
    what: str, twist: Twist, pose: Pose, named: str
) -> None:
    bench = Bench().driving()
    before = bench.runtime.state.wheels.pose
    bench.alter = reporting(twist, pose)
    tick = bench.tick()
    assert (tick.command, tick.state) == (STOP, f"stopped: odometry refused: {named}")
    assert bench.runtime.state.wheels.pose == before
    assert bench.runtime.counters.faults["odometry_refused"] == 1


def test_odometry_whose_time_goes_backward_moves_once_and_is_counted() -> None:
    bench = Bench().driving()
    bench.alter = lambda inputs: replace(
        inputs, odometry=tuple(replace(message, stamp_ns=message.stamp_ns - 200 * MS) for message in inputs.odometry)
    )
    tick = bench.tick()
    after = bench.runtime.state.wheels
    assert after.pose.x_m == pytest.approx(bench.pose.x_m)
    assert (after.clock_sets, bench.runtime.counters.faults["odometry_clock_set"]) == (1, 1)
    assert tick.state == "navigating"
    bench.alter = lambda inputs: inputs
    bench.ticks(3)
    assert bench.runtime.state.wheels.pose.x_m == pytest.approx(bench.pose.x_m)


def test_odometry_that_only_repeats_itself_is_stale() -> None:
    bench = Bench().driving()
    newest = bench.tick().inputs.odometry
    bench.alter = lambda inputs: replace(inputs, odometry=newest)
    tick = bench.seconds(0.5)[-1]
    assert (tick.command, tick.reason) == (STOP, "stale_odometry")
    assert bench.runtime.state.wheels.repeats == 15


def test_a_localisation_that_cannot_be_is_left_out_and_the_drive_goes_on() -> None:
    bench = Bench().driving()
    bench.fix(Pose(math.nan, 0.0, 0.0))
    tick = bench.tick()
    assert (tick.state, tick.command, tick.map_from_odom) == ("navigating", AHEAD, None)
    assert bench.runtime.counters.faults["localization_refused"] == 1
