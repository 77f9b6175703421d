"""A pause and a resume, the final heading, a sequence of goals, and the battery; replayed to the last bit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from hil.replay.replay import replay
from onboard.config.config import GoalSection, LimitsSection
from onboard.navigation import heading
from onboard.policy.contract import ACTIONS
from onboard.state import TickRecord
from onboard.values import reasons
from onboard.values.geometry import wrap
from onboard.values.messages import STOP, GoalRequest, Inputs, Observation, Pose, Twist
from tests.rigs.runtime_bench import SLOW, Bench, Puppet, Tape

PAUSED = reasons.PAUSED.say()
STOPS = ACTIONS.index(STOP)
SHORT = LimitsSection(stop_margin_m=0.0, slow_margin_m=0.0)


def say(bench: Bench, paused: bool) -> TickRecord:
    """Let a pause or a resume arrive with the next tick, and live it."""
    bench.alter = lambda inputs: replace(inputs, pause=paused)
    tick = bench.tick()
    bench.alter = lambda inputs: inputs
    return tick


def request(bench: Bench, *poses: tuple[float, float], yaw: float | None = None, frame: str = "odom") -> TickRecord:
    """Let a sequence of goals arrive, the last one with a heading, and live the tick."""
    *through, (x_m, y_m) = poses
    passed = tuple((frame, Pose(x, y, 0.0)) for x, y in through)

    def asked(inputs: Inputs) -> Inputs:
        stamp = inputs.now_ns
        goal = GoalRequest(stamp, stamp, frame, Pose(x_m, y_m, yaw or 0.0), yaw is not None, passed)
        return replace(inputs, goals=(goal,))

    bench.alter = asked
    tick = bench.tick()
    bench.alter = lambda inputs: inputs
    return tick


def stops_at_goal(seen: Observation) -> int:
    """Drive straight on, and stop within tolerance of the goal."""
    here = seen.filtered.pose
    return STOPS if math.dist((here.x_m, here.y_m), seen.goal_xy_m) < 0.15 else SLOW


def test_a_paused_robot_stands_with_its_code_keeps_its_goal_and_drives_on() -> None:
    bench = Bench(Puppet(SLOW), goal=GoalSection(progress_timeout_s=5.0)).driving()
    tick = say(bench, True)
    assert (tick.state, tick.command, tick.reason) == (f"navigating; {PAUSED}", STOP, "paused")
    ticks = bench.seconds(8.0)  # longer than the time without progress
    assert {tick.command for tick in ticks} == {STOP}
    assert {tick.state for tick in ticks} == {f"navigating; {PAUSED}"}
    assert not any(tick.sensed for tick in ticks)
    assert say(bench, False).state == "navigating"
    assert bench.seconds(1.0)[-1].command == ACTIONS[SLOW]
    assert bench.runtime.state.mission.episode == 1


def test_paused_time_does_not_count_for_the_drive() -> None:
    bench = Bench(Puppet(SLOW), goal=GoalSection(timeout_s=4.0)).driving(x_m=90.0)
    bench.seconds(2.0)
    say(bench, True)
    bench.seconds(5.0)
    say(bench, False)
    assert bench.seconds(1.0)[-1].state == "navigating"
    assert bench.seconds(2.0)[-1].state.startswith("stopped: goal not reached within 4 s")


def test_a_pause_without_a_drive_holds_the_next_goal_until_the_resume() -> None:
    bench = Bench(Puppet(SLOW))
    assert say(bench, True).state == f"idle; {PAUSED}"
    bench.ask()
    assert bench.tick().state == f"navigating; {PAUSED}"
    assert {tick.command for tick in bench.seconds(2.0)} == {STOP}
    bench.cancel()
    assert bench.tick().state == f"idle: cancelled; {PAUSED}"


def test_an_operator_drives_while_paused_and_the_e_stop_still_ends_the_drive() -> None:
    bench = Bench(Puppet(SLOW)).driving()
    say(bench, True)
    bench.operate(Twist(0.2, 0.0))
    assert (bench.tick().command, bench.tick().reason) == (Twist(0.2, 0.0), "teleop")
    bench.e_stop = True
    assert bench.tick().state == f"stopped: e_stop; {PAUSED}"
    bench.e_stop = False
    say(bench, False)
    assert {tick.command for tick in bench.seconds(2.0)} == {STOP}, "a resume releases no e-stop"


@pytest.mark.parametrize("yaw", [2.0, -2.0, math.pi, 0.3])
def test_at_the_goal_the_robot_turns_to_the_heading_and_only_then_reaches_it(yaw: float) -> None:
    bench = Bench(Puppet(stops_at_goal), limits=SHORT)
    bench.tick()
    request(bench, (1.0, 0.0), yaw=yaw)
    ticks = bench.seconds(20.0)
    assert ticks[-1].state == "reached"
    assert abs(wrap(bench.pose.yaw_rad - yaw)) <= heading.TOLERANCE_RAD + 0.01
    turns = [tick.command for tick in ticks if tick.command.w_radps != 0.0]
    assert turns
    assert all(twist.v_mps == 0.0 and abs(twist.w_radps) <= heading.TURN_RADPS for twist in turns)


def test_a_goal_of_any_heading_and_one_that_is_faced_already_need_no_turn() -> None:
    for yaw in (None, 0.05):
        bench = Bench(Puppet(stops_at_goal), limits=SHORT)
        bench.tick()
        request(bench, (1.0, 0.0), yaw=yaw)
        ticks = bench.seconds(20.0)
        assert ticks[-1].state == "reached"
        assert all(tick.command.w_radps == 0.0 for tick in ticks)


def test_a_heading_that_cannot_be_reached_ends_the_drive_with_the_angle() -> None:
    bench = Bench(Puppet(stops_at_goal), limits=SHORT)
    bench.tick()
    request(bench, (1.0, 0.0), yaw=math.pi / 2)
    while not bench.runtime.state.mission.turning:
        bench.tick()
    bench.stuck = True
    tick = bench.seconds(heading.LONGEST_S + 1.0)[-1]
    assert tick.state == "stopped: the goal is reached, but 90 deg from its heading after 20 s"
    assert tick.command == STOP


def test_a_pause_in_the_turn_stops_it_and_the_resume_ends_it() -> None:
    bench = Bench(Puppet(stops_at_goal), limits=SHORT)
    bench.tick()
    request(bench, (1.0, 0.0), yaw=math.pi / 2)
    while not bench.runtime.state.mission.turning:
        bench.tick()
    say(bench, True)
    assert {tick.command for tick in bench.seconds(heading.LONGEST_S + 1.0)} == {STOP}
    say(bench, False)
    assert bench.seconds(10.0)[-1].state == "reached"


def test_a_sequence_is_driven_without_a_stop_between_and_each_goal_has_its_own_frame() -> None:
    policy = Puppet(stops_at_goal)
    bench = Bench(policy, limits=SHORT)
    bench.tick()
    tick = request(bench, (1.0, 0.0), (2.0, 0.0), (3.0, 0.0), yaw=0.0)
    assert (tick.state, tick.episode) == ("navigating", 1)
    ticks = bench.seconds(20.0)
    assert (ticks[-1].state, ticks[-1].episode) == ("reached", 3)
    assert bench.pose.x_m == pytest.approx(3.0, abs=0.2)
    passed = [event for tick in ticks for event in tick.events if event.startswith("goal_passed")]
    assert passed == ["goal_passed left=2", "goal_passed left=1"]
    assert "reached" not in {tick.state for tick in ticks if tick.episode < 3}
    starts = [seen.filtered.pose.x_m for seen in policy.seen if seen.previous_action == -1]
    assert all(abs(x_m) < 0.15 for x_m in starts), "each goal begins at the robot"


def test_a_cancel_ends_the_whole_sequence_and_a_new_goal_replaces_it() -> None:
    bench = Bench(Puppet(stops_at_goal), limits=SHORT)
    bench.tick()
    request(bench, (1.0, 0.0), (3.0, 0.0))
    bench.cancel()
    assert bench.tick().state == "idle: cancelled"
    request(bench, (1.0, 0.0), (3.0, 0.0))
    request(bench, (0.5, 0.0))
    assert bench.seconds(10.0)[-1].state == "reached"
    assert bench.pose.x_m < 0.7


#   poses asked again                          heading  whether it is the same goal
AGAIN = [
    (((1.0, 0.0), (3.0, 0.0)), 1.0, True),
    (((1.0, 0.0), (3.01, 0.0)), 1.01, True),
    (((1.0, 0.0), (3.0, 0.0)), 1.2, False),
    (((1.0, 0.0), (3.0, 0.0)), None, False),
    (((1.0, 0.0),), 1.0, False),
]


@pytest.mark.parametrize(("poses", "yaw", "same"), AGAIN)
def test_only_the_same_poses_and_heading_are_a_repetition(
    poses: tuple[tuple[float, float], ...], yaw: float | None, same: bool
) -> None:
    bench = Bench(Puppet(SLOW))
    bench.tick()
    request(bench, (1.0, 0.0), (3.0, 0.0), yaw=1.0)
    tick = request(bench, *poses, yaw=yaw)
    assert (tick.episode == 1) == same
    assert bench.runtime.state.mission.asked_ns == tick.inputs.goals[0].stamp_ns


def test_one_bad_pose_refuses_the_whole_sequence_and_its_sender_can_read_it() -> None:
    bench = Bench()
    bench.tick()
    tick = request(bench, (1.0, 0.0), (math.nan, 0.0), (2.0, 0.0))
    assert tick.state == "stopped: goal refused: x of the goal is nan, not a finite number"
    mission = bench.runtime.state.mission
    assert (mission.refused_ns, mission.asked_ns) == (tick.inputs.goals[0].stamp_ns, 0)
    tick = request(bench, *[(1.0, 0.0)] * 101)
    assert tick.state == "stopped: goal refused: a sequence of more than 100 poses"


def test_pauses_headings_and_sequences_replay_to_the_last_bit(tmp_path: Path) -> None:
    config = Bench(limits=SHORT).config
    tape = Tape(tmp_path, config)
    bench = Bench(Puppet(stops_at_goal), listeners=[tape], limits=SHORT)
    bench.tick()
    request(bench, (1.0, 0.05), (2.0, 0.1), yaw=math.pi / 3)
    bench.seconds(2.0)
    say(bench, True)
    bench.seconds(1.0)
    say(bench, False)
    bench.alter = charged(1.0 / 3.0)
    bench.seconds(12.0)
    file = tape.close()
    assert tape.ticks[-1].state == "reached"
    found = replay(file, policy=Puppet(stops_at_goal))
    assert (found.first, found.ticks) == (None, len(tape.ticks))
    with open_recording(file) as recording:
        read = list(ticks_of(recording))
    assert [tick.inputs.goals for tick in read] == [tick.inputs.goals for tick in tape.ticks]
    assert [tick.inputs.pause for tick in read] == [tick.inputs.pause for tick in tape.ticks]
    assert [tick.inputs.battery for tick in read] == [tick.inputs.battery for tick in tape.ticks]
    assert any(tick.inputs.pause for tick in read)


def test_the_turns_command_slows_down_and_ends_within_tolerance() -> None:
    assert heading.turn(0.09) == STOP
    assert heading.turn(-2.0) == Twist(0.0, -heading.TURN_RADPS)
    assert heading.turn(0.11) == Twist(0.0, heading.LEAST_RADPS)
    assert heading.turn(0.4) == Twist(0.0, 0.8)


def test_a_second_pause_changes_nothing() -> None:
    bench = Bench(Puppet(SLOW)).driving()
    first = say(bench, True).inputs.now_ns
    bench.seconds(1.0)
    say(bench, True)
    assert bench.runtime.state.mission.paused_ns == first


# ---- The battery


def charged(charge: float | None) -> Callable[[Inputs], Inputs]:
    return lambda inputs: replace(inputs, battery=charge)


def test_a_low_battery_refuses_new_goals_and_an_empty_one_ends_the_drive() -> None:
    bench = Bench(Puppet(SLOW), limits=LimitsSection(battery_min=(0.2, 0.1))).driving()
    for charge in (None, 0.25, 0.15):
        bench.alter = charged(charge)
        assert bench.tick().state == "navigating"
    bench.ask(4.0, 1.0)
    refused = "goal refused: the battery is at 15 %, new goals need 20 % (limits.battery_min)"
    assert bench.tick().state == f"navigating: {refused}"
    bench.alter = charged(0.09)
    tick = bench.tick()
    ended = "the battery is at 9 %, limit 10 % (limits.battery_min)"
    assert (tick.state, tick.command) == (f"stopped: {ended}", STOP)
    assert [reasons.row_of(said).code for said in (refused, ended)] == ["goal_battery_low", "battery_empty"]
    bench.alter = charged(0.5)
    assert {tick.command for tick in bench.seconds(1.0)} == {STOP}, "only a new goal drives again"


def test_without_limits_no_charge_matters() -> None:
    bench = Bench(Puppet(SLOW))
    bench.alter = charged(0.0)
    bench.driving()
    assert bench.seconds(1.0)[-1].state == "navigating"
