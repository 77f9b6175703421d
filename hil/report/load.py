"""Recordings read into timelines, one timeline a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hil.recordings.demux import messages_by_session
from hil.recordings.recording import TICK, Recording, Session, open_recording
from hil.report.timeline import Floats, Ints, Ranges, Timeline, shown
from onboard.drivers.dds.ros_types import LaserScan
from onboard.drivers.dds.tick_types import Tick
from onboard.recording.tick_message import scan_of
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.messages import BINS, Scan

NS_PER_MS = 1e6
LONGEST_S = 100 * 3600.0
SCAN = "scan"

Row = tuple[Tick, Scan]


@dataclass(slots=True)
class _Gathered:
    """Files of one session, and its ticks with their scans."""

    session: Session
    files: list[Path] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


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
    found: dict[str, _Gathered] = {}
    with ExitStack() as stack:
        for one in [stack.enter_context(open_recording(file)) for file in files]:
            _gather(one, found)
    names = tuple(shown(name) for name in found)
    timelines = [_checked(one, names) for one in found.values() if one.rows]
    if not timelines:
        raise InputError(f"{files[0]}: no tick in it")
    return timelines


def _gather(recording: Recording, found: dict[str, _Gathered]) -> None:
    """Add the ticks of a file to their sessions; a tick without its scan is left out."""
    if recording.left_out:
        raise InputError(
            f"{recording.path}: recorded with other message definitions on {', '.join(recording.left_out)}"
        )
    for session in recording.sessions:
        found.setdefault(session.name, _Gathered(session)).files.append(recording.path)
    for name, row in _rows(recording):
        found[name].rows.append(row)


def _rows(recording: Recording) -> Iterator[tuple[str, Row]]:
    """Yield the session name of each tick, and the tick with its scan."""
    newest: dict[str, LaserScan] = {}
    for session, recorded in messages_by_session(recording, {TICK, SCAN}):
        if recorded.topic != TICK:
            newest[session.name] = recorded.sample
            continue
        tick: Tick = recorded.sample
        message = newest.pop(session.name, None)
        if message is None:
            continue
        try:
            yield session.name, (tick, scan_of(message, tick.scan_stamp_ns))
        except (InputError, ValueError) as error:
            raise InputError(f"{recording.path}: tick {tick.slot}: {error}") from error


def _checked(gathered: _Gathered, names: tuple[str, ...]) -> Timeline:
    try:
        return _timeline(gathered, names)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{gathered.files[0]}: ticks that do not fit together: {error}") from error


def _timeline(gathered: _Gathered, sessions: tuple[str, ...]) -> Timeline:
    files, rows, session = tuple(gathered.files), gathered.rows, gathered.session
    ticks = [row[0] for row in rows]
    starts = np.array([one.start_ns for one in ticks], np.int64)
    backward = np.flatnonzero(np.diff(starts) <= 0)
    if len(backward):
        raise InputError(f"{files[0]}: tick {ticks[int(backward[0]) + 1].slot} begins before the one before it")
    if (starts[-1] - starts[0]) / NS_PER_S > LONGEST_S:
        raise InputError(f"{files[0]}: its ticks are over {LONGEST_S / 3600.0:g} h apart, more than a page shows")
    stages = tuple(dict.fromkeys(name for one in ticks for name in one.stages))
    names = dict.fromkeys(name for one in ticks for name in one.cameras)
    return Timeline(
        files=files,
        session=session.record,
        config=session.config,
        mounts=session.mounts,
        sessions=sessions,
        began_ns=int(starts[0]),
        t_s=(starts - starts[0]) / NS_PER_S,
        late_ms=np.array([one.start_ns - one.deadline_ns for one in ticks]) / NS_PER_MS,
        slot=_ints(ticks, "slot"),
        missed=_ints(ticks, "missed"),
        odometry=_floats(ticks, "odometry", 5),
        correction=_floats(ticks, "map_from_odom", 3),
        wanted=_floats(ticks, "wanted", 2),
        command=_floats(ticks, "command", 2),
        reason=[shown(one.reason) for one in ticks],
        state=[shown(one.state) for one in ticks],
        recovery=[shown(one.recovery) for one in ticks],
        e_stop=_ints(ticks, "e_stop"),
        obstacle=_ints(ticks, "obstacle"),
        episode=_ints(ticks, "episode"),
        goal_m=_floats(ticks, "goal_distance_m", 1)[:, 0],
        sensed=_ints(ticks, "sensed"),
        acted=_ints(ticks, "acted"),
        action=_ints(ticks, "action"),
        decision_ms=_decision_ms(ticks),
        delay_ms=_delay_ms(ticks),
        stages=stages,
        stage_ms=_stage_ms(ticks, stages),
        cameras={name: np.array([name in one.cameras for one in ticks]) for name in names},
        scans=_ranges([scan for _, scan in rows]),
        resets={row: shown(one.memory_reset) for row, one in enumerate(ticks) if one.sensed and one.memory_reset},
        faults={row: shown(one.fault) for row, one in enumerate(ticks) if one.fault},
        events={row: tuple(map(shown, one.events)) for row, one in enumerate(ticks) if one.events},
        goals={row: tuple(one.goal_inputs) for row, one in enumerate(ticks) if one.goal_inputs},
    )


def _ints(ticks: Sequence[Tick], name: str) -> Ints:
    return np.array([getattr(one, name) for one in ticks], np.int64)


def _floats(ticks: Sequence[Tick], name: str, width: int) -> Floats:
    """Return (n, width), NaN where a tick has no value. Raises ValueError for another length."""
    found = np.full((len(ticks), width), np.nan)
    for row, one in enumerate(ticks):
        values = getattr(one, name)
        if len(values) not in (0, width):
            raise ValueError(f"tick {one.slot}: {name} has {len(values)} values, must be {width}")
        if len(values):
            found[row] = values
    found[~np.isfinite(found)] = np.nan
    return found


def _decision_ms(ticks: Sequence[Tick]) -> Floats:
    return np.array([one.decision_elapsed_ns / NS_PER_MS if one.acted and one.action >= 0 else np.nan for one in ticks])


def _delay_ms(ticks: Sequence[Tick]) -> Floats:
    began = {one.sensed: one.start_ns for one in ticks if one.sensed}
    return np.array(
        [
            (one.sent_ns - began[one.acted]) / NS_PER_MS
            if one.acted in began and one.action >= 0 and any(one.command)
            else np.nan
            for one in ticks
        ]
    )


def _stage_ms(ticks: Sequence[Tick], stages: Sequence[str]) -> Floats:
    place = {name: column for column, name in enumerate(stages)}
    found = np.zeros((len(ticks), len(stages)))
    for row, one in enumerate(ticks):
        for name, took_ns in zip(one.stages, one.stage_ns, strict=True):
            found[row, place[name]] += took_ns / NS_PER_MS
    return found


def _ranges(scans: Sequence[Scan]) -> Ranges:
    found = np.empty((len(scans), BINS), np.float32)
    for row, scan in enumerate(scans):
        found[row] = np.where(scan.seen, scan.ranges_m, np.float32(np.nan))
    return found
