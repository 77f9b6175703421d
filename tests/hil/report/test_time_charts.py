"""Charts over time and the picture of the path: small for any session, without loss of a peak, gap or moment."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.report.events import (
    BAD,
    FAULT,
    FREE,
    GOAL,
    MISS,
    NOTE,
    PLAIN,
    RESET,
    STOP,
    ZONE,
    Lane,
    Span,
    TickEvent,
    lanes_of,
)
from hil.report.time_charts import WIDTH, ChartSet, dots_path, line_path, over_time
from hil.report.trajectory import BESIDE_M, Trajectory, path_of, trajectory_of
from hil.report.trajectory import WIDTH as PATH_WIDTH
from onboard.config.config import Config
from onboard.values.messages import GoalRequest, Pose
from tests.hil.report.report_rows import PERIOD_S, spread, timeline

LONG = 20_000


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


@given(st.integers(0, LONG - 1), st.integers(0, LONG - 1))
@settings(deadline=None, max_examples=20)
def test_no_peak_of_a_tick_is_thinned_away(high, low):
    y = np.sin(np.arange(LONG))
    y[low], y[high] = -9.0, 9.0
    (points,) = pieces_of(line_path(np.arange(LONG) * WIDTH / LONG, y, np.zeros(LONG, bool)))
    assert len(points) <= 4 * WIDTH
    assert [point for point in points if point[1] == 9.0] == [(pytest.approx(high * WIDTH / LONG, abs=0.06), 9.0)]
    assert (-9.0 in [point[1] for point in points]) == (high != low)
    assert points == sorted(points, key=lambda one: one[0])


def test_dots_are_thinned_to_a_grid_and_none_is_lost():
    x, y = np.arange(LONG) * WIDTH / LONG, np.full(LONG, 50.0)
    y[::2], y[7777] = np.nan, 4.0
    dots = [tuple(map(float, part.removesuffix("h0").split())) for part in dots_path(x, y).split("M")[1:]]
    assert sorted({dot[1] for dot in dots}) == [4.0, 50.0]
    assert [dot[0] for dot in dots if dot[1] == 4.0] == [pytest.approx(7777 * WIDTH / LONG, abs=1.0)]
    assert len(dots) == WIDTH / 2 + 2
    assert dots_path(x[:2], np.array([np.nan, np.nan])) == ""


def test_the_slowest_tick_of_a_pixel_is_the_one_whose_stages_are_seen():
    stage_ms = np.full((LONG, 2), 1.0)
    stage_ms[7777] = 40.0, 50.0
    (chart,) = [one for one in drawn(timeline(LONG, stage_ms=stage_ms)).charts if "stages" in one.title]
    assert [line.name for line in chart.lines] == ["send", "inbox"]
    for line, top_ms in zip(chart.lines, (90.0, 40.0), strict=True):
        levels = [float(one) for one in re.findall(r"V(-?[\d.]+)", line.path)]
        assert chart.height - min(levels) == pytest.approx(top_ms / (1.08 * 90.0) * chart.height, abs=0.06)
        assert line.path.endswith("Z")
    assert chart.limit_y == pytest.approx(chart.height * (1.0 - 1e3 * PERIOD_S / (1.08 * 90.0)))


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


#   session                                                 titles of the charts after speeds and distances
CHARTS = [
    ({}, ["a tick's stages"]),
    ({"stage_ms": np.zeros((30, 2))}, []),
    ({"delay_ms": np.full(30, 100.0), "decision_ms": np.full(30, 5.0)}, ["a tick's stages", "decisions"]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "titles"), CHARTS)
def test_what_was_not_measured_has_no_chart(changes, titles):
    charts = drawn(timeline(30, **changes)).charts
    assert [chart.title.partition(";")[0] for chart in charts[3:]] == titles


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


def test_gaps_and_the_first_difference_stand_at_their_time():
    session = timeline(
        30, slot=np.arange(30) + 60 * (np.arange(30) >= 15), t_s=(np.arange(30) + 60 * (np.arange(30) >= 15)) / 30
    )
    charts = drawn(session, first=15)
    assert charts.first == pytest.approx(WIDTH * 75 / 90)
    assert charts.gaps == ((pytest.approx(WIDTH * 14 / 90), pytest.approx(WIDTH * 61 / 90)),)
    assert charts.marks[-1] == (pytest.approx(WIDTH), "3 s")
    assert drawn(timeline(30)).gaps == ()


def test_signs_of_a_kind_are_thinned_and_what_is_bad_stands_above():
    moments = [TickEvent(row, NOTE, PLAIN, "a") for row in range(LONG)] + [TickEvent(5, FAULT, BAD, "b")]
    moments += [TickEvent(9, RESET, PLAIN, "c"), TickEvent(9, MISS, BAD, "d")]
    lanes = {lane.name: lane.signs for lane in drawn(timeline(LONG), moments).lanes}
    assert [lane.hint for lane in lanes["memory"]] == ["0.30 s: c"]
    assert [lane.hint for lane in lanes["deadlines"]] == ["0.30 s: d"]
    assert (lanes["events"][-1].kind, lanes["events"][-1].x) == (FAULT, pytest.approx(5 * WIDTH / LONG))
    assert WIDTH / 4 < len(lanes["events"]) <= WIDTH / 2 + 1
    assert "memory" not in {lane.name for lane in drawn(timeline(30), [TickEvent(1, GOAL, PLAIN, "e")]).lanes}


def test_a_short_stop_is_seen_among_many_others():
    spans = tuple(Span(row, row, "", STOP if row == 7777 else ZONE if row % 2 else FREE) for row in range(LONG))
    charts = over_time(timeline(LONG), [Lane("command", spans)], [], None)
    blocks = charts.lanes[-1].blocks
    assert [block.x for block in blocks if block.kind == STOP] == [pytest.approx(7777 * WIDTH / LONG)]
    assert len(blocks) < 3 * WIDTH
    assert all(block.width >= 1.0 for block in blocks)


N = 200


def driven(first: int | None = None, moments=(), **changes) -> Trajectory:
    """Return the picture of a drive 10 m along x."""
    odometry = np.zeros((N, 5))
    odometry[:, 0] = np.linspace(0.0, 10.0, N)
    session = timeline(N, **({"odometry": odometry} | changes))
    return trajectory_of(session, path_of(session), moments, first)


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


def test_the_path_is_as_wide_as_the_picture_and_up_is_up():
    ((kind, path),) = driven(reason=["none"] * N).ways
    assert kind == FREE
    (points,) = pieces_of(path)
    beside = 30.0 + BESIDE_M * (PATH_WIDTH - 60.0) / (10.0 + 2.0 * BESIDE_M)
    assert (points[0][0], points[-1][0]) == pytest.approx((beside, PATH_WIDTH - beside), abs=0.1)
    assert len(points) == pytest.approx(N, abs=5)
    up = np.zeros((N, 5))
    up[:, 1] = np.linspace(0.0, 10.0, N)
    (points,) = pieces_of(driven(odometry=up).ways[0][1])
    assert points[0][1] > points[-1][1]


def test_a_path_has_the_colour_of_what_shaped_its_commands_and_no_hole():
    picture = driven(reason=spread(N, "none", zone_stop=(50, 60)))
    ways = {kind: pieces_of(path) for kind, path in picture.ways}
    assert [len(pieces) for pieces in ways.values()] == [2, 1]
    before, after = ways[FREE]
    (cut,) = ways[ZONE]
    assert (cut[0], after[0]) == (before[-1], cut[-1])


def test_places_are_named_and_stay_within_the_picture():
    goals = {
        10: (GoalRequest(1, 1, "odom", Pose(10.0, 0.5, 0.0)), GoalRequest(1, 1, "odom", Pose(5.0, 0.0, 0.0))),
        20: (GoalRequest(1, 1, "odom", Pose(900.0, 0.0, 0.0)),),
    }
    events = {10: ("goal_accepted y", "goal_refused x"), 20: ("goal_refused z",)}
    places = {one.label: one for one in driven(first=100, goals=goals, events=events).places}
    assert list(places) == ["start", "goal 1", "refused 2", "first difference"]
    assert places["goal 1"].leftward
    assert not places["start"].leftward
    assert places["goal 1"].radius == pytest.approx(Config().goal.tolerance_m * (PATH_WIDTH - 60.0) / 12.0, rel=0.01)
    many = {row: (GoalRequest(1, 1, "odom", Pose(5.0, 0.0, 0.0)),) for row in range(13)}
    said = dict.fromkeys(many, ("goal_accepted",))
    assert [one.label for one in driven(goals=many, events=said).places][-1] == "13"
    one = {3: (GoalRequest(1, 1, "odom", Pose(5.0, 0.0, 0.0)),)}
    assert [place.label for place in driven(goals=one, events={3: ("goal_accepted",)}).places] == ["start", "goal"]


def test_signs_on_the_path_are_what_was_bad_with_late_decisions_below():
    bad = [TickEvent(row, FAULT, BAD, "f") for row in (100, 100)] + [TickEvent(row, MISS, BAD, "m") for row in range(N)]
    signs = driven(moments=[*bad, TickEvent(50, GOAL, PLAIN, "g")]).signs
    assert [sign[2] for sign in signs] == [MISS] * (len(signs) - 1) + [FAULT]
    assert 15 <= len(signs) - 1 <= 30
    nowhere = np.full((N, 5), np.nan)
    assert driven(moments=bad, odometry=nowhere).signs == ()
