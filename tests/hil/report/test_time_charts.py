"""Charts over time and the picture of the path: small for any session, without loss of a peak, gap or moment."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.report.events import (
    lanes_of,
)
from hil.report.time_charts import WIDTH, ChartSet, line_path, over_time
from hil.report.trajectory import path_of, trajectory_of
from onboard.values.messages import GoalRequest, Pose
from tests.hil.report.report_rows import timeline


def pieces_of(path: str) -> list[list[tuple[float, float]]]:
    """Return the points of each piece of a path."""
    pieces = [re.findall(r"-?[\d.]+", piece.replace("h0L", " ")) for piece in path.split("M")[1:]]
    found = []
    for numbers in pieces:
        values = [float(number) for number in numbers]
        points = list(zip(values[::2], values[1::2], strict=True))
        found.append(points[1:] if points[:1] == points[1:2] else points)
    return found


def drawn(session, moments=(), first=None) -> ChartSet:
    return over_time(session, lanes_of(session), moments, first)


@settings(deadline=None)
@given(st.lists(st.one_of(st.just(np.nan), st.floats(-100, 100)), min_size=1, max_size=60), st.data())
def test_a_line_is_broken_where_it_should_be_and_nowhere_else(values, data):
    y = np.round(np.array(values), 1)
    gap = np.array([False, *data.draw(st.lists(st.booleans(), min_size=len(y) - 1, max_size=len(y) - 1))])
    expected: list[list[tuple[float, float]]] = []
    for row, value in enumerate(y.tolist()):
        if np.isnan(value):
            continue
        if not expected or np.isnan(y[row - 1]) or gap[row]:
            expected.append([])
        expected[-1].append((10.0 * row, value))
    assert pieces_of(line_path(np.arange(len(y)) * 10.0, y, gap)) == expected


def test_values_stand_where_their_axis_says():
    command = np.zeros((30, 2))
    command[10:, 0] = 0.5
    chart = drawn(timeline(30, command=command)).charts[0]
    (sent,) = [line for line in chart.lines if line.name == "sent"]
    ((*_, last),) = pieces_of(sent.path)
    at = {text: y for y, text in chart.marks}
    assert last == (
        pytest.approx(29 * WIDTH / 30, abs=0.06),
        pytest.approx(at["0.4"] + (at["0.4"] - at["0.2"]) / 2, abs=0.06),
    )
    assert at["0.4"] < at["0.2"] < at["0"] < chart.height


@pytest.mark.parametrize("value", [np.nan, 1e308, -1e308, 1e-300, 0.0])
@pytest.mark.parametrize("ticks", [1, 5])
def test_any_number_of_a_recording_can_be_drawn(value, ticks):
    wild = {name: np.full((ticks, wide), value) for name, wide in (("odometry", 5), ("wanted", 2), ("command", 2))}
    stage_ms = np.full((ticks, 2), min(abs(value), 1e12))
    session = timeline(ticks, **wild, goal_distance_m=np.full(ticks, abs(value)), stage_ms=stage_ms,
                    delay_ms=np.full(ticks, value), decision_ms=np.full(ticks, value))  # fmt: skip
    charts = drawn(session).charts
    path = trajectory_of(session, path_of(session), [], 0)
    said = " ".join([line.path for chart in charts for line in chart.lines] + [way for _, way in path.ways])
    assert "nan" not in said
    assert "inf" not in said
    assert all(-1.0 <= y <= chart.height + 1.0 for chart in charts for y, _ in chart.marks)


N = 200


def localised(since: int = 0):
    correction = np.full((N, 3), np.nan)
    correction[since:] = 10.0, 20.0, np.pi / 2
    odometry = np.zeros((N, 5))
    odometry[:, 0] = np.arange(N) * 0.1
    return {"map_from_odom": correction, "odometry": odometry}


def test_the_path_is_in_the_map_frame_if_the_robot_was_localised():
    path = path_of(timeline(N, **localised(since=5)))
    assert path.frame == "map"
    assert path.poses[:, 0] == pytest.approx(10.0)
    assert path.poses[:, 1] == pytest.approx(20.0 + np.arange(N) * 0.1)
    assert path.note == "The robot was localised from 0.2 s on; that fix places the earlier path too."
    assert path_of(timeline(N, **localised())).note == ""
    wheels = path_of(timeline(N, odometry=localised()["odometry"]))
    assert wheels.frame == "odom"
    assert wheels.poses[:, 0] == pytest.approx(np.arange(N) * 0.1)
    assert "from wheel odometry alone" in wheels.note


#   frame of the goal     its place in the map frame, None if it cannot be placed
GOALS = [
    ("map", (3.0, 1.0)),
    ("/map", (3.0, 1.0)),
    ("odom", (9.0, 23.0)),
    ("base_link", (9.0, 23.5)),
    ("mars", None),
]


@pytest.mark.parametrize(("frame", "place"), GOALS)
def test_a_goal_is_placed_from_its_frame(frame, place):
    asked = {5: (GoalRequest(1, 1, frame, Pose(3.0, 1.0, 0.0)),)}
    goals = path_of(timeline(N, goals=asked, **localised())).goals
    assert [pytest.approx((goal.x_m, goal.y_m)) for goal in goals] == ([] if place is None else [place])
