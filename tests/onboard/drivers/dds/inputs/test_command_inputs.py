"""Goals from the network: a flood of them is not one goal after another."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from onboard.drivers.dds.command_inputs import GOALS_AT_ONCE, GOALS_PER_S, Allowance, Goals
from onboard.drivers.dds.robot_link import DdsInputs
from onboard.drivers.dds.ros_convert import ros_goal
from onboard.values.clock import NS_PER_S
from onboard.values.messages import Pose
from tests.rigs.network.loopback import Sender

#   asked (time [s], how many)                    granted
REQUESTS = [
    ([(0.0, 1)], [1]),
    ([(0.0, 10)], [10]),
    ([(0.0, 11), (0.0, 1)], [10, 0]),
    ([(0.0, 10), (0.4, 1), (0.5, 1), (0.6, 1)], [10, 0, 1, 0]),
    ([(0.0, 10), (2.0, 9)], [10, 4]),
    ([(0.0, 10), (60.0, 99)], [10, 10]),
    ([(5.0, 10), (1.0, 3)], [10, 0]),
]


@pytest.mark.parametrize(("requested", "granted"), REQUESTS)
def test_so_many_pass(requested, granted):
    allowance = Allowance(per_s=2, most=10)
    assert [allowance.grant(count, int(at_s * NS_PER_S)) for at_s, count in requested] == granted


@given(st.lists(st.tuples(st.integers(0, 3 * NS_PER_S), st.integers(0, 40)), max_size=40))
def test_in_no_time_more_than_the_first_and_the_rate(steps):
    allowance, now_ns, total = Allowance(GOALS_PER_S, GOALS_AT_ONCE), 0, 0
    for later_ns, requested in steps:
        now_ns += later_ns
        total += allowance.grant(requested, now_ns)
        assert total <= GOALS_AT_ONCE + now_ns * GOALS_PER_S / NS_PER_S


def test_of_a_flood_the_newest_are_taken_and_the_others_counted(wires):
    goals, inputs, sender = Goals(wires[0]), DdsInputs(wires[0]), Sender(*wires)
    flood = [ros_goal(i, "odom", Pose(float(i), 0.0, 0.0)) for i in range(15)]
    sender.send("goal_pose", *flood)
    with capture_logs() as logs:
        taken = goals.take(1)
    assert [goal.pose.x_m for goal in taken] == [float(i) for i in range(5, 15)]
    assert goals.refused == 5
    assert [entry["event"] for entry in logs] == ["too_many_goals"]
    assert len(inputs.take(1).goals) == GOALS_AT_ONCE
    assert inputs.dropped()["too many goals"] == 5


def test_a_frame_cannot_write_into_the_log(wires):
    goals, sender = Goals(wires[0]), Sender(*wires)
    sender.send("goal_pose", ros_goal(1, "odom\nerror: all is well\x1b[2J" + "x" * 100_000, Pose(0.0, 0.0, 0.0)))
    (goal,) = goals.take(1)
    assert goal.frame_id.isprintable()
    assert len(goal.frame_id) < 200
