"""Goals in the runtime: accepted goals and their frames, the ends of a drive and their names."""

from __future__ import annotations

import math

import numpy as np
import pytest

from onboard.navigation.mission import REST_DECISIONS
from onboard.policy.contract import STOP_ACTION
from onboard.values.geometry import compose
from onboard.values.messages import STOP, Observation, Pose, Twist
from tests.rigs.runtime_bench import LEFT, SLOW, Bench, Puppet, commands

MAP_FROM_ODOM = Pose(10.0, -4.0, math.pi / 2)


def moved(localised: bool = True) -> Bench:
    """Return a bench with a robot without a goal, at (1.5, 0, 0) in its odom frame."""
    bench = Bench()
    bench.tick()
    for _ in range(60):
        bench.operate(Twist(0.6, 0.0))
        bench.tick()
    bench.seconds(1.0)
    if localised:
        for _ in range(5):
            bench.fix(compose(MAP_FROM_ODOM, bench.pose))
            bench.tick()
    return bench


#   frame        asked where               goal in the start frame, which is the robot's pose
TAKEN = [
    ("base_link", (2.0, 1.0), (2.0, 1.0)),
    ("/base_link", (2.0, 1.0), (2.0, 1.0)),
    ("odom", (3.5, 1.0), (2.0, 1.0)),
    ("map", (9.0, -0.5), (2.0, 1.0)),  # map is turned by 90 deg: the robot stands at (10, -2.5) and looks along y
]


@pytest.mark.parametrize(("frame", "requested", "goal"), TAKEN, ids=[row[0] for row in TAKEN])
def test_a_goal_is_taken_in_each_frame(frame: str, requested: tuple[float, float], goal: tuple[float, float]) -> None:
    bench = moved()
    assert (bench.pose.x_m, bench.pose.y_m) == pytest.approx((1.5, 0.0))
    bench.ask(*requested, frame)
    tick = bench.tick()
    assert tick.state == "navigating"
    assert bench.runtime.state.mission.goal_xy_m == pytest.approx(goal, abs=0.02)
    assert tick.goal_distance_m == pytest.approx(math.hypot(*goal), abs=0.02)


def test_the_policy_sees_the_static_goal_from_the_start_frame() -> None:
    policy = Puppet(SLOW)
    bench = Bench(policy).driving(x_m=3.0, y_m=1.0)
    bench.seconds(2.0)
    assert {seen.goal_xy_m for seen in policy.seen} == {(3.0, 1.0)}
    assert policy.seen[0].odometry.pose == Pose(0.0, 0.0, 0.0)
    assert policy.seen[-1].odometry.pose.x_m == pytest.approx(bench.runtime.state.wheels.pose.x_m, abs=0.1)
    assert policy.seen[-1].localization is None


#   what                         asked where            in            what the reason names
REFUSED = [
    ("NaN", (math.nan, 0.0), "odom", "x of the goal is nan, not a finite number"),
    ("infinite", (0.0, math.inf), "odom", "y of the goal is inf, not a finite number"),
    ("unknown frame", (1.0, 0.0), "mars", "unknown frame 'mars', known are"),
    ("too far", (100.1, 0.0), "base_link", "the goal is 100.1 m away, limit 100 m (goal.max_distance_m)"),
    ("map without localisation", (1.0, 0.0), "map", "frame 'map' needs a localised robot"),
]


@pytest.mark.parametrize(("what", "requested", "frame", "named"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_goal_is_refused_with_the_reason(what: str, requested: tuple[float, float], frame: str, named: str) -> None:
    bench = moved(localised=False)
    bench.ask(*requested, frame)
    tick = bench.tick()
    assert tick.state.startswith("stopped: goal refused: ")
    assert named in tick.state
    assert tick.events[0].startswith("goal_refused")
    assert set(commands(bench.seconds(1.0))) == {STOP}


def test_a_goal_before_the_first_odometry_is_refused() -> None:
    bench = Bench()
    bench.reports = False
    bench.ask()
    assert bench.tick().state == "stopped: goal refused: there is no odometry yet"


def test_a_refused_goal_does_not_end_the_drive_to_the_old_one() -> None:
    bench = Bench(Puppet(SLOW)).driving()
    bench.ask(frame="mars")
    tick = bench.tick()
    assert tick.state.startswith("navigating: goal refused: unknown frame")
    assert (tick.episode, tick.command) == (1, Twist(0.3, 0.0))


def test_a_new_goal_replaces_the_old_one_and_starts_its_own_frame() -> None:
    policy = Puppet(SLOW)
    bench = Bench(policy).driving(x_m=3.0)
    bench.seconds(1.0)
    bench.ask(0.0, 2.0)
    tick = bench.tick()
    assert (tick.state, tick.episode) == ("navigating", 2)
    assert tick.command == STOP  # until the first decision for it
    assert bench.runtime.state.mission.goal_xy_m == (0.0, 2.0)
    bench.seconds(0.5)
    assert abs(policy.seen[-1].odometry.pose.x_m) < 0.1


def test_of_two_goals_in_one_tick_the_last_good_one_counts() -> None:
    bench = Bench()
    for x_m, frame in ((1.0, "odom"), (2.0, "odom"), (3.0, "mars")):
        bench.ask(x_m, 0.0, frame)
    tick = bench.tick()
    assert bench.runtime.state.mission.goal_xy_m == (2.0, 0.0)
    assert tick.state.startswith("navigating: goal refused")


def test_cancel_stops_in_the_same_tick() -> None:
    bench = Bench().driving()
    bench.cancel()
    tick = bench.tick()
    assert (tick.state, tick.command, tick.reason) == ("idle: cancelled", STOP, "idle")
    assert set(commands(bench.seconds(1.0))) == {STOP}


def test_a_cancel_without_a_drive_changes_nothing() -> None:
    bench = Bench()
    bench.cancel()
    assert bench.tick().state == "idle"


def towards(goal_x_m: float, margin_m: float = 0.0) -> Puppet:
    """Return a policy that drives ahead to the goal, then stops."""

    def choose(seen: Observation) -> int:
        return SLOW if seen.filtered.pose.x_m < goal_x_m - margin_m else STOP_ACTION

    return Puppet(choose)


def test_reached_only_at_rest_by_its_own_stop() -> None:
    bench = Bench(towards(1.0))
    bench.ask(1.0, 0.0)
    ticks = bench.seconds(8.0)
    states = [tick.state for tick in ticks]
    at = states.index("reached")
    near = next(n for n, tick in enumerate(ticks) if tick.goal_distance_m is not None and tick.goal_distance_m < 0.2)
    assert near < at, "passing through the tolerance is not reaching"
    stops = [tick.acted.number for tick in ticks[: at + 1] if tick.acted and tick.acted.decision.action == STOP_ACTION]
    assert len(stops) == REST_DECISIONS
    assert ticks[at - 1].odometry.twist == STOP
    assert set(commands(ticks[at:])) == {STOP}


def unsure(bench: Bench, sd_m: float) -> Bench:
    """Let the robot stand at the map's origin, localised so well, and ask for a goal 1 m ahead in the map."""
    for _ in range(5):
        bench.fix(bench.pose, np.diag([sd_m**2, sd_m**2, 0.01]))
        bench.tick()
    bench.ask(1.0, 0.0, "map")
    return bench


CAREFUL = {"goal": {"arrival_confidence": 0.9}}


def test_an_uncertain_arrival_turns_until_a_fix_and_then_stops() -> None:
    bench = unsure(Bench(towards(1.0), **CAREFUL), sd_m=0.4)
    ticks = bench.seconds(8.0)
    waits = [tick for tick in ticks if any(event.startswith("arrival_waits") for event in tick.events)]
    assert len(waits) == 1, "it is told once"
    turning = bench.tick()
    assert (turning.state, turning.command) == ("navigating", Twist(0.0, 1.0))
    assert bench.policy.seen[-1].previous_action == LEFT, "the policy knows what is in force"
    assert bench.policy.seen[-1].deviations[0] > 0.1
    for _ in range(4):
        bench.fix(bench.pose, np.diag([0.03**2, 0.03**2, 0.01]))
        bench.tick()
    assert bench.policy.seen[-1].deviations[0] > 0.1, "it decides a little later"
    after = bench.seconds(2.0)
    assert after[-1].state == "reached"
    assert bench.policy.seen[-1].deviations[0] < 0.05


def test_an_arrival_that_stays_uncertain_ends_and_is_told() -> None:
    bench = unsure(Bench(towards(1.0), **CAREFUL), sd_m=0.4)
    ticks = bench.seconds(20.0)
    events = [event for tick in ticks for event in tick.events if event.startswith("arrival")]
    assert [event.split(" ")[0] for event in events] == ["arrival_waits", "arrival_uncertain"]
    assert ticks[-1].state == "reached; uncertain by 0.44 m"


def test_without_any_fix_the_robot_arrives_as_without_the_rule() -> None:
    plain, careful = Bench(towards(1.0)), Bench(towards(1.0), **CAREFUL)
    for bench in (plain, careful):
        bench.ask(1.0, 0.0)
    assert commands(plain.seconds(8.0)) == commands(careful.seconds(8.0))
    assert careful.runtime.state.mission.text() == "reached"


#   what             policy that       section                          how long   the end
ENDS = [
    ("stops short", towards(1.0, 0.5), {}, 12.0, "stopped: the policy stopped 0."),
    ("takes too long", Puppet(LEFT), {"timeout_s": 4.0}, 4.3, "stopped: goal not reached within 4 s"),
    (
        "comes no nearer",
        Puppet(LEFT),
        {"progress_timeout_s": 3.0},
        3.3,
        "stopped: no progress towards the goal for 3 s",
    ),
]


@pytest.mark.parametrize(("what", "policy", "goal", "wait_s", "end"), ENDS, ids=[row[0] for row in ENDS])
def test_drives_that_fail(what: str, policy: Puppet, goal: dict[str, float], wait_s: float, end: str) -> None:
    bench = Bench(policy, goal=goal)
    bench.ask(1.0, 0.0)
    tick = bench.seconds(wait_s)[-1]
    assert tick.state.startswith(end)
    assert tick.command == STOP


def test_a_start_frame_is_placed_in_the_map_by_a_fix_that_comes_later() -> None:
    policy = Puppet(SLOW)
    bench = Bench(policy).driving(x_m=3.0)
    bench.seconds(1.0)
    for _ in range(5):
        bench.fix(compose(MAP_FROM_ODOM, bench.pose))
        bench.tick()
    bench.seconds(0.5)
    seen = policy.seen[-1]
    assert seen.localization is not None
    assert seen.localization_age_ns is not None
    assert 0 < seen.localization_age_ns < 1_000_000_000
    assert seen.filtered.pose.x_m == pytest.approx(seen.odometry.pose.x_m, abs=0.05)
    bench.ask(10.0, 0.0, "map")
    assert bench.tick().state == "navigating"


@pytest.mark.parametrize("localised", [True, False], ids=["localised before the goal", "localised after it"])
def test_fixes_correct_the_filtered_pose_and_leave_the_wheels_own_alone(localised: bool) -> None:
    bench = moved(localised)
    policy = bench.policy
    policy.action = SLOW
    bench.ask(3.0, 0.0)
    bench.seconds(1.0)
    bench.fix(compose(MAP_FROM_ODOM, bench.pose))
    bench.tick()
    bias = Pose(0.1, 0.0, 0.0)  # the robot is really 10 cm farther than its wheels say
    for _ in range(20):
        bench.fix(compose(compose(MAP_FROM_ODOM, bias), bench.pose))
        bench.ticks(3)
    bench.seconds(0.4)
    seen, wheels = policy.seen[-1], bench.runtime.state.wheels.pose
    assert seen.odometry.pose.x_m == pytest.approx(wheels.x_m - 1.5, abs=0.11)
    assert seen.filtered.pose.x_m - seen.odometry.pose.x_m == pytest.approx(0.1, abs=0.04)


def test_a_goal_that_is_taken_without_fresh_odometry_tells_what_is_lost() -> None:
    bench = Bench()
    bench.tick()
    bench.reports = False
    bench.seconds(1.0)
    bench.ask()
    tick = bench.tick()
    assert tick.events == (
        "goal_accepted x_m=5.0 y_m=0.0 frame=base_link reason=none",
        "stale_odometry: the robot stands until it is back",
        "mission state=navigating",
    )
