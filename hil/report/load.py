"""Recordings read into timelines, one timeline a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hil.recordings.recording import Recording, Session, open_recording
from hil.recordings.ticks import TickReader, ticks_by_session
from hil.report.timeline import Floats, Ints, Ranges, Timeline, shown
from onboard.recording.tick_message import COLOR, action_of
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.messages import BINS, STOP, Motion, Pose, Twist

NS_PER_MS = 1e6
LONGEST_S = 100 * 3600.0


@dataclass(slots=True)
class _SessionFiles:
    """Files of one session, and its ticks."""

    session: Session
    reader: TickReader
    files: list[Path] = field(default_factory=list)
    ticks: list[TickRecord] = field(default_factory=list)


def read_timeline(files: Sequence[Path]) -> Timeline:
    """Read the files of one session in order. Raises InputError in one line that names the file."""
    timelines = read_timelines(files)
    if len(timelines) > 1:
        raise InputError(f"{files[0]}: holds {len(timelines)} sessions, a page is about one")
    return timelines[0]


def read_timelines(files: Sequence[Path]) -> list[Timeline]:
    """Read all sessions of the files in order of start; sessions without a tick are left out.

    files: files of one session in order, or one file that holds several sessions
    Raises InputError in one line that names the file, also if there is no tick at all.
    """
    found: dict[str, _SessionFiles] = {}
    with ExitStack() as stack:
        for one in [stack.enter_context(open_recording(file)) for file in files]:
            _gather(one, found)
    names = tuple(shown(name) for name in found)
    timelines = [_checked(one, names) for one in found.values() if one.ticks]
    if not timelines:
        raise InputError(f"{files[0]}: no tick in it")
    return timelines


def _gather(recording: Recording, found: dict[str, _SessionFiles]) -> None:
    """Add the ticks of a file to their sessions; a tick without its scans is left out."""
    if recording.left_out:
        raise InputError(
            f"{recording.path}: recorded with other message definitions on {', '.join(recording.left_out)}"
        )
    for session in recording.sessions:
        new = _SessionFiles(session, TickReader(session, any_camera=True))
        found.setdefault(session.name, new).files.append(recording.path)
    readers = {session.name: found[session.name].reader for session in recording.sessions}
    for session, tick in ticks_by_session(recording, readers, images=False):
        found[session.name].ticks.append(tick)


def _checked(gathered: _SessionFiles, names: tuple[str, ...]) -> Timeline:
    try:
        return _timeline(gathered, names)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{gathered.files[0]}: ticks that do not fit together: {error}") from error


def _timeline(gathered: _SessionFiles, sessions: tuple[str, ...]) -> Timeline:
    files, ticks, session = tuple(gathered.files), gathered.ticks, gathered.session
    starts = np.array([tick.slot.start_ns for tick in ticks], np.int64)
    backward = np.flatnonzero(np.diff(starts) <= 0)
    if len(backward):
        number = ticks[int(backward[0]) + 1].slot.number
        raise InputError(f"{files[0]}: tick {number} begins before the one before it")
    if (starts[-1] - starts[0]) / NS_PER_S > LONGEST_S:
        raise InputError(f"{files[0]}: its ticks are over {LONGEST_S / 3600.0:g} h apart, more than a page shows")
    stages = tuple(dict.fromkeys(name for tick in ticks for name in tick.stage_ns))
    cameras = [[*tick.inputs.depth, *([COLOR] if tick.inputs.color else [])] for tick in ticks]
    return Timeline(
        files=files,
        session=session.record,
        config=session.config,
        mounts=session.mounts,
        sessions=sessions,
        began_ns=int(starts[0]),
        t_s=(starts - starts[0]) / NS_PER_S,
        late_ms=np.array([tick.slot.start_ns - tick.slot.deadline_ns for tick in ticks]) / NS_PER_MS,
        slot=_ints(ticks, lambda one: one.slot.number),
        missed=_ints(ticks, lambda one: one.slot.missed),
        odometry=_floats(ticks, 5, lambda one: _motion(one.odometry)),
        map_from_odom=_floats(ticks, 3, lambda one: _pose(one.map_from_odom)),
        wanted=_floats(ticks, 2, lambda one: _twist(one.wanted)),
        command=_floats(ticks, 2, lambda one: _twist(one.command)),
        reason=[shown(tick.reason) for tick in ticks],
        state=[shown(tick.state) for tick in ticks],
        recovery=[shown(tick.recovery) for tick in ticks],
        e_stop=_ints(ticks, lambda one: _flag(one.inputs.e_stop)),
        obstacle=_ints(ticks, lambda one: _flag(one.inputs.obstacle)),
        episode=_ints(ticks, lambda one: one.episode),
        goal_distance_m=_floats(ticks, 1, lambda one: one.goal_distance_m)[:, 0],
        sensed=_ints(ticks, lambda one: one.sensed.number if one.sensed else 0),
        acted=_ints(ticks, lambda one: one.acted.number if one.acted else 0),
        action=_ints(ticks, action_of),
        decision_ms=_decision_ms(ticks),
        delay_ms=_delay_ms(ticks),
        stages=stages,
        stage_ms=_stage_ms(ticks, stages),
        cameras={
            name: np.array([name in camera for camera in cameras])
            for name in dict.fromkeys(name for camera in cameras for name in camera)
        },
        scans=_ranges(ticks),
        resets={
            row: shown(tick.sensed.memory_reset)
            for row, tick in enumerate(ticks)
            if tick.sensed and tick.sensed.memory_reset
        },
        faults={row: shown(tick.acted.fault) for row, tick in enumerate(ticks) if tick.acted and tick.acted.fault},
        events={row: tuple(map(shown, tick.events)) for row, tick in enumerate(ticks) if tick.events},
        goals={row: tick.inputs.goals for row, tick in enumerate(ticks) if tick.inputs.goals},
    )


def _ints(ticks: Sequence[TickRecord], value: Callable[[TickRecord], int]) -> Ints:
    return np.array([value(tick) for tick in ticks], np.int64)


def _floats(
    ticks: Sequence[TickRecord], width: int, values: Callable[[TickRecord], Sequence[float] | float | None]
) -> Floats:
    """Return (n, width), NaN where a tick has no value or one that is not finite."""
    found = np.full((len(ticks), width), np.nan)
    for row, tick in enumerate(ticks):
        if (value := values(tick)) is not None:
            found[row] = value
    found[~np.isfinite(found)] = np.nan
    return found


def _flag(value: bool | None) -> int:
    return -1 if value is None else int(value)


def _pose(pose: Pose | None) -> Sequence[float] | None:
    return None if pose is None else (pose.x_m, pose.y_m, pose.yaw_rad)


def _twist(twist: Twist) -> Sequence[float]:
    return twist.v_mps, twist.w_radps


def _motion(motion: Motion) -> Sequence[float]:
    return motion.pose.x_m, motion.pose.y_m, motion.pose.yaw_rad, *_twist(motion.twist)


def _decision_ms(ticks: Sequence[TickRecord]) -> Floats:
    acted = [tick.acted for tick in ticks]
    return np.array([one.elapsed_ns / NS_PER_MS if one and one.decision else np.nan for one in acted])


def _delay_ms(ticks: Sequence[TickRecord]) -> Floats:
    began = {tick.sensed.number: tick.slot.start_ns for tick in ticks if tick.sensed}
    found = np.full(len(ticks), np.nan)
    for row, tick in enumerate(ticks):
        if tick.acted and tick.acted.decision and tick.acted.number in began and tick.command != STOP:
            found[row] = (tick.sent_ns - began[tick.acted.number]) / NS_PER_MS
    return found


def _stage_ms(ticks: Sequence[TickRecord], stages: Sequence[str]) -> Floats:
    return np.array([[tick.stage_ns.get(name, 0) / NS_PER_MS for name in stages] for tick in ticks])


def _ranges(ticks: Sequence[TickRecord]) -> Ranges:
    found = np.empty((len(ticks), BINS), np.float32)
    for row, tick in enumerate(ticks):
        found[row] = np.where(tick.scan.seen, tick.scan.ranges_m, np.float32(np.nan))
    return found
