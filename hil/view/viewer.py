"""Shows a drive in Rerun: live over DDS, or from a recording."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from hil.drive.episodes import choose
from hil.live.dashboard import preparing
from hil.maps.load import load_map
from hil.maps.world_grid import World
from hil.physics.collision_world import Body, body_of
from hil.recordings.recording import Recording, Screen, open_recording
from hil.view.dds_source import DdsSource, listen
from hil.view.queue import ScreenQueue, ViewCounts
from hil.view.viewer_process import Outlet, Viewer, choose_outlet
from onboard.config.config import Config, load_config
from onboard.config.mounts import Mounts, load_mounts
from onboard.drivers.dds.participant import Wire
from onboard.system.signals import Signals
from onboard.values.errors import InputError, MissingExtraError
from onboard.values.geometry import IDENTITY
from onboard.values.messages import Pose

if TYPE_CHECKING:
    from hil.view.rerun import Scene

LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """Options of the view.

    source:   recording, None for live
    map_name: building to draw or None
    bare:     without the furniture of seed or episode
    images:   show the cameras
    niceness: added to the niceness of this process in a live view
    """

    source: Path | None = None
    map_name: str | None = None
    seed: int = 1
    episode: int | None = None
    bare: bool = False
    config: Path | None = None
    save: Path | None = None
    serve: bool = False
    images: bool = True
    seconds: float | None = None
    niceness: int = 0


def run_view(options: ViewOptions) -> ViewCounts:
    """Show until the end of the recording, a signal, `seconds`, or the end of the viewer; return the counts.

    Raises OnboardError in one line; the data shown or saved before it stays.
    """
    need_rerun()
    outlet = choose_outlet(options.save, options.serve)
    with Signals() as signals:
        if options.source is None:
            return _view_live(options, outlet, signals)
        with open_recording(options.source) as recording:
            return _view_recording(options, outlet, recording, signals)


def _view_live(options: ViewOptions, outlet: Outlet, signals: Signals) -> ViewCounts:
    from hil.view.rerun import screen_at

    config = load_config(options.config)
    scene = _scene(options, config, load_mounts(config.robot.mounts))
    over = threading.Event()
    os.nice(options.niceness)
    with screen_at(outlet, scene) as (screen, viewer), contextlib.closing(Wire(config.dds)) as wire:
        queue = ScreenQueue(screen)
        try:
            signals.stop_with(over.set)
            source = DdsSource(wire, scene.mounts, options.images)
            _say(f"listening on domain {wire.domain}{_where(outlet, viewer)}; Ctrl-C ends")
            listen(source, queue, over, options.seconds, _watched(viewer))
        finally:
            shown = queue.close()
    return shown


def _view_recording(options: ViewOptions, outlet: Outlet, recording: Recording, signals: Signals) -> ViewCounts:
    from hil.view.rerun import screen_at

    config = recording.config if options.config is None else load_config(options.config)
    mounts = recording.mounts if options.config is None else load_mounts(config.robot.mounts)
    scene = _scene(options, config, mounts)
    over = threading.Event()
    if recording.left_out:
        _say(f"{recording.path}: not shown, recorded by another version: {', '.join(recording.left_out)}")
    with screen_at(outlet, scene) as (screen, viewer):
        signals.stop_with(over.set)
        _say(f"{recording.path}: {recording.messages} messages{_where(outlet, viewer)}; Ctrl-C ends")
        watched = _watched(viewer)
        shown = _replay(recording, screen, lambda: watched() and not over.is_set(), options.images)
        if viewer is not None:
            _linger(viewer, over, options.seconds)
    return shown


def _watched(viewer: Viewer | None) -> Callable[[], bool]:
    """Return a check whether the viewer still runs; always True without a viewer."""
    return lambda: viewer is None or viewer.is_there()


def _replay(recording: Recording, screen: Screen, goes_on: Callable[[], bool], images: bool) -> ViewCounts:
    """Show every message of a recording as fast as the screen allows; none is dropped."""
    shown = ViewCounts(0, {}, 0, "", 0)
    for message in recording.read():
        if not goes_on():
            break
        if not images and message.topic.endswith("image"):
            continue
        try:
            screen.show(message)
            shown = replace(shown, shown=shown.shown + 1)
        except InputError as error:
            shown = replace(shown, unshowable=shown.unshowable + 1, problem=f"{message.topic}: {error}")
    return shown


def _linger(viewer: Viewer, over: threading.Event, seconds: float | None) -> None:
    """Wait until the viewer ends, a signal comes, or `seconds` have passed."""
    deadline_s = None if seconds is None else time.monotonic() + seconds
    while viewer.is_there() and not over.wait(LOOK_S):
        if deadline_s is not None and time.monotonic() >= deadline_s:
            return


def _scene(options: ViewOptions, config: Config, mounts: Mounts) -> Scene:
    """Return the scene before the first message. Raises InputError for the map."""
    from hil.view.rerun import Scene

    world, start = _building(options, body_of(config.robot))
    return Scene(config, mounts, world, start)


def _building(options: ViewOptions, body: Body) -> tuple[World | None, Pose]:
    """Return the building, and map_from_odom until the robot is localised.

    That is the start of the episode, where `onboard-hil sim` puts the robot; without an episode, the map's origin.
    """
    if options.map_name is None:
        return None, IDENTITY
    with preparing(f"map {options.map_name}"):
        if options.bare:
            return load_map(options.map_name), IDENTITY
        scenario = choose(options.map_name, options.seed, options.episode, body)
        return scenario.world, scenario.episode.start


def need_rerun() -> None:
    """Raise MissingExtraError if the Rerun SDK is not installed."""
    try:
        import rerun  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("rerun-sdk", "view") from error


def _where(outlet: Outlet, viewer: Viewer | None) -> str:
    """Return the file and the page as the end of a line."""
    saved = "" if outlet.file is None else f" into {outlet.file}"
    page = "" if viewer is None or not viewer.page else f"; look at {viewer.page}"
    return saved + page


def _say(line: str) -> None:
    sys.stderr.write(f"{line}\n")
