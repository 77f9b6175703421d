"""Initial layout of the viewer: 3-D view on the left; cameras, commands and states on the right."""

from __future__ import annotations

from collections.abc import Sequence

import rerun.blueprint as rrb
from rerun.encodings import EntityPathLike

from hil.view.draw_plots import FIGURES, LANES, SPEEDS, SUMMARY, TURNS, WORDS
from hil.view.draw_robot import PATHS
from hil.view.draw_scene import BASE, HERE, MAP
from onboard.config.mounts import Mounts

TIMELINE = "time"
EYE_M, LOOK_AT_M = (-2.8, -2.8, 5.8), (0.2, 0.2, 0.0)
"""Initial position and target of the eye relative to the robot; the eye follows without turning."""
BACKGROUND = (24, 26, 30)
SHOWN_S = 20.0
"""Seconds of commands in the time series."""


def first_look(mounts: Mounts) -> rrb.Blueprint:
    """Return the layout for a robot's cameras."""
    right = rrb.Vertical(_cameras(mounts), _series(), _states(), row_shares=[3, 4, 2])
    return rrb.Blueprint(
        rrb.Horizontal(_world(), right, column_shares=[3, 2]),
        rrb.TimePanel(state="collapsed", timeline=TIMELINE),
        rrb.BlueprintPanel(state="hidden"),
        rrb.SelectionPanel(state="hidden"),
        auto_views=False,
    )


def _world() -> rrb.Tabs:
    everything = rrb.VisibleTimeRange(
        TIMELINE, start=rrb.TimeRangeBoundary.infinite(), end=rrb.TimeRangeBoundary.cursor_relative()
    )
    ways: dict[EntityPathLike, rrb.VisibleTimeRanges] = {path: rrb.VisibleTimeRanges(everything) for path in PATHS}
    contents = f"/{MAP}/**"
    near = rrb.EyeControls3D(kind=rrb.Eye3DKind.Orbital, position=EYE_M, look_target=LOOK_AT_M)
    return rrb.Tabs(
        rrb.Spatial3DView(
            origin=HERE, contents=contents, name="Robot", background=BACKGROUND, eye_controls=near, overrides=ways
        ),
        rrb.Spatial3DView(origin=MAP, contents=contents, name="Building", background=BACKGROUND, overrides=ways),
    )


def _cameras(mounts: Mounts) -> rrb.Container:
    depth = [rrb.Spatial2DView(origin=f"{BASE}/{name}", name=name) for name in mounts.depth]
    color = [rrb.Spatial2DView(origin=f"{BASE}/{name}", name=name) for name in mounts.color]
    rows: Sequence[rrb.Container | rrb.View] = [rrb.Horizontal(*color)] if color else []
    return rrb.Vertical(*rows, rrb.Horizontal(*depth)) if depth else rrb.Vertical(*rows)


def _series() -> rrb.Vertical:
    recent = rrb.VisibleTimeRange(
        TIMELINE,
        start=rrb.TimeRangeBoundary.cursor_relative(seconds=-SHOWN_S),
        end=rrb.TimeRangeBoundary.cursor_relative(),
    )
    legend = rrb.PlotLegend(corner=rrb.Corner2D.RightBottom)
    return rrb.Vertical(
        rrb.TimeSeriesView(origin=SPEEDS, name="v [m/s]", time_ranges=recent, plot_legend=legend),
        rrb.TimeSeriesView(origin=TURNS, name="w [rad/s]", time_ranges=recent, plot_legend=legend),
    )


def _states() -> rrb.Tabs:
    return rrb.Tabs(
        rrb.StateTimelineView(origin=LANES, name="States"),
        rrb.TextDocumentView(origin=SUMMARY, name="Summary"),
        rrb.TextLogView(origin=WORDS, name="Words"),
        rrb.TimeSeriesView(origin=FIGURES, name="Figures"),
    )
