"""The Rerun screen: one recording stream into a file, the viewer or a browser."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import rerun as rr
import rerun.blueprint as rrb
from rerun.encodings import EntityPathLike

from hil.maps.world_grid import World
from hil.recordings.recording import TWIN_PREFIX, TopicMessage
from hil.view.draw_plots import FIGURES, LANES, SPEEDS, SUMMARY, TURNS, WORDS, FigurePainter
from hil.view.draw_robot import PATHS, RobotPainter, TwinPainter
from hil.view.draw_scene import (
    BASE,
    HERE,
    MAP,
    ROBOT,
    TWIN,
    TWIN_ROBOT,
    blocks_of,
    paint_body,
    paint_building,
    paint_cameras,
)
from hil.view.draw_sensors import SCANS, SensesPainter
from hil.view.viewer_process import Outlet, Viewer
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.drivers.dds.ros_convert import twist_from_ros
from onboard.drivers.dds.ros_types import TwistStamped
from onboard.values.errors import DriverError, InputError
from onboard.values.geometry import IDENTITY
from onboard.values.messages import Pose

APPLICATION = "onboard"
FLUSH_S = 10.0
"""Timeout for the file or the viewer at the end."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Scene before the first message.

    world:         the building or None
    map_from_odom: pose of the odometry frame until the robot is localised
    """

    config: Config
    mounts: Mounts
    world: World | None = None
    map_from_odom: Pose = IDENTITY


class RerunScreen:
    """Draws messages into a recording stream. Safe to use from one thread at a time."""

    def __init__(self, recording: rr.RecordingStream, scene: Scene) -> None:
        """Draw the static parts."""
        self._recording, self._scene = recording, scene
        robot = scene.config.robot
        recording.log(MAP, rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        if scene.world is not None:
            paint_building(recording, scene.world, blocks_of(scene.world))
        paint_body(recording, BASE, robot, ROBOT)
        paint_cameras(recording, BASE, scene.mounts)
        goal = scene.config.goal
        self._robot = RobotPainter(recording, scene.config.dds, goal.tolerance_m, scene.map_from_odom)
        self._senses = SensesPainter(recording, BASE, scene.mounts)
        self._figures = FigurePainter(recording)
        self._twin: TwinScreen | None = None

    def show(self, message: TopicMessage) -> None:
        """Draw one message at its time; other topics are ignored. Raises InputError for a bad image."""
        self._recording.set_time(TIMELINE, timestamp=np.datetime64(message.time_ns, "ns"))
        if message.topic.startswith(TWIN_PREFIX):
            self._twin = self._twin or TwinScreen(self._recording, self._scene, self._figures)
            self._twin.show(message.topic.removeprefix(TWIN_PREFIX), message.sample)
        elif not show_sensed(self._senses, message.topic, message.sample):
            self._show_status(message.topic, message.sample)

    def close(self) -> None:
        """Flush the stream. Raises DriverError on a timeout. Safe to call twice."""
        try:
            self._recording.flush(timeout_sec=FLUSH_S)
        except RuntimeError as error:
            raise DriverError(f"the view could not be handed over: {error}") from error

    def _show_status(self, topic: str, sample: Any) -> None:
        match topic:
            case "tf":
                self._robot.transforms(sample)
            case "odom":
                self._robot.odometry(sample)
                self._figures.twist("measured", twist_from_ros(sample.twist.twist))
            case "cmd_vel":
                twist = sample.twist if isinstance(sample, TwistStamped) else sample
                self._figures.twist("sent", twist_from_ros(twist))
            case "cmd_vel_teleop":
                self._figures.twist("operator", twist_from_ros(sample))
            case "goal_pose":
                self._robot.goal(sample)
            case "amcl_pose":
                self._robot.fix(sample)
            case "state":
                self._figures.state(sample.data)
            case "obstacle" | "e_stop":
                self._figures.words(topic, str(sample.data).lower())
            case "diagnostics":
                self._figures.diagnostics(sample)
            case "tick":
                self._figures.tick(sample)


class TwinScreen:
    """The twin's part of the scene, created with its first message."""

    def __init__(self, recording: rr.RecordingStream, scene: Scene, figures: FigurePainter) -> None:
        robot = scene.config.robot
        paint_body(recording, TWIN, robot, TWIN_ROBOT)
        paint_cameras(recording, TWIN, scene.mounts)
        self._painter = TwinPainter(recording)
        self._senses = SensesPainter(recording, TWIN, scene.mounts)
        self._figures = figures

    def show(self, topic: str, sample: Any) -> None:
        """Draw one message of the twin."""
        if show_sensed(self._senses, topic, sample):
            return
        match topic:
            case "pose":
                self._painter.pose(sample)
            case "state":
                self._figures.words("twin", sample.data)
            case "collision":
                self._figures.words("twin_collision", str(sample.data).lower())


def show_sensed(senses: SensesPainter, topic: str, sample: Any) -> bool:
    """Draw a scan or an image. Returns False for other topics. Raises InputError for a bad image."""
    camera, _, kind = topic.partition("/")
    if topic in SCANS:
        senses.scan(sample, topic)
    elif kind == "depth/image":
        senses.depth(sample, camera)
    elif kind == "image":
        senses.color(sample)
    else:
        return False
    return True


@contextlib.contextmanager
def screen_at(outlet: Outlet, scene: Scene) -> Iterator[tuple[RerunScreen, Viewer | None]]:
    """Yield a screen at the outlet with the initial layout; at the end the stream is flushed.

    Raises InputError for a file that cannot be written, DriverError if the viewer does not start.
    """
    recording = rr.RecordingStream(APPLICATION)
    recording.set_log_time_enabled(False)  # the messages have their own time line
    recording.set_log_tick_enabled(False)
    viewer = Viewer(outlet.browser) if outlet.browser or outlet.window else None
    try:
        sinks: list[rr.FileSink | rr.GrpcSink] = [] if outlet.file is None else [rr.FileSink(outlet.file)]
        sinks += [] if viewer is None else [rr.GrpcSink(viewer.url)]
        try:
            recording.set_sinks(*sinks, default_blueprint=first_look(scene.mounts))
        except RuntimeError as error:
            raise InputError(f"{outlet.file}: cannot be written: {error}") from error
        screen = RerunScreen(recording, scene)
        yield screen, viewer
        try:
            screen.close()
        except DriverError:
            if viewer is None or viewer.is_there():
                raise  # else the user closed the viewer
    finally:
        recording.disconnect()
        if viewer is not None:
            viewer.end()


# ---- Initial layout of the viewer: 3-D view on the left; cameras, commands and states on the right

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
