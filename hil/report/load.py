"""Recordings read into stories, a story for each session in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hil.recordings.demux import apart
from hil.recordings.recording import TICK, Recording, Session, open_recording
from hil.report.timeline import Floats, Ints, Ranges, Story, shown
from onboard.drivers.dds.tick_types import Tick
from onboard.recording.tick_message import scan_of
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.messages import BINS, Scan

NS_PER_MS = 1e6
LONGEST_S = 100 * 3600.0
SCANS = ("scan", "limits_scan")

Row = tuple[Tick, Scan, Scan | None]


@dataclass(slots=True)
class _Gathered:
    """What is read of one session: in which files it stands, and its ticks with their scans."""

    session: Session
    files: list[Path] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)


def read_story(files: Sequence[Path]) -> Story:
    """Read the files of one session, in their order. Raises InputError in one line that names the file."""
    stories = read_stories(files)
    if len(stories) > 1:
        raise InputError(f"{files[0]}: holds {len(stories)} sessions, a page is about one")
    return stories[0]


def read_stories(files: Sequence[Path]) -> list[Story]:
    """Read the sessions of some files, in the order of their beginnings; one without a tick is left out.

    files: of one session in their order, or one that several were joined in
    Raises InputError in one line that names the file, also where there is no tick at all.
    """
    found: dict[str, _Gathered] = {}
    with ExitStack() as stack:
        for one in [stack.enter_context(open_recording(file)) for file in files]:
            _gather(one, found)
    names = tuple(shown(name) for name in found)
    stories = [_checked(one, names) for one in found.values() if one.rows]
    if not stories:
        raise InputError(f"{files[0]}: no tick in it")
    return stories


def _gather(recording: Recording, found: dict[str, _Gathered]) -> None:
    """Read a file's ticks with their scans into their sessions; one whose scan was lost is left out."""
    if recording.left_out:
        raise InputError(f"{recording.path}: recorded with other messages on {', '.join(recording.left_out)}")
    for session in recording.sessions:
        found.setdefault(session.name, _Gathered(session)).files.append(recording.path)
    for name, row in _rows(recording):
        found[name].rows.append(row)


def _rows(recording: Recording) -> Iterator[tuple[str, Row]]:
    """Yield the name of the session of each tick, and the tick with its scans."""
    came: dict[str, dict[str, Any]] = {one.name: {} for one in recording.sessions}
    for session, heard in apart(recording, {TICK, *SCANS}):
        before = came[session.name]
        if heard.topic != TICK:
            before[heard.topic] = heard.sample
            continue
        told: Tick = heard.sample
        try:
            if "scan" in before:
                limits = before.get("limits_scan")
                yield (
                    session.name,
                    (
                        told,
                        scan_of(before["scan"], told.scan_stamp_ns),
                        None if limits is None else scan_of(limits, told.limits_scan_stamp_ns),
                    ),
                )
        except (InputError, ValueError) as error:
            raise InputError(f"{recording.path}: tick {told.slot}: {error}") from error
        before.clear()


def _checked(gathered: _Gathered, names: tuple[str, ...]) -> Story:
    try:
        return _story(gathered, names)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{gathered.files[0]}: ticks that do not fit together: {error}") from error


def _story(gathered: _Gathered, sessions: tuple[str, ...]) -> Story:
    files, rows, session = tuple(gathered.files), gathered.rows, gathered.session
    told = [row[0] for row in rows]
    starts = np.array([one.start_ns for one in told], np.int64)
    backward = np.flatnonzero(np.diff(starts) <= 0)
    if len(backward):
        raise InputError(f"{files[0]}: tick {told[int(backward[0]) + 1].slot} begins before the one before it")
    if (starts[-1] - starts[0]) / NS_PER_S > LONGEST_S:
        raise InputError(f"{files[0]}: its ticks are over {LONGEST_S / 3600.0:g} h apart, more than a page shows")
    stages = tuple(dict.fromkeys(name for one in told for name in one.stages))
    names = dict.fromkeys(name for one in told for name in one.cameras)
    two_scans = any(limits is not None for _, _, limits in rows)
    return Story(
        files=files,
        session=session.record,
        config=session.config,
        mounts=session.mounts,
        sessions=sessions,
        began_ns=int(starts[0]),
        t_s=(starts - starts[0]) / NS_PER_S,
        late_ms=np.array([one.start_ns - one.deadline_ns for one in told]) / NS_PER_MS,
        slot=_ints(told, "slot"),
        missed=_ints(told, "missed"),
        odometry=_floats(told, "odometry", 5),
        correction=_floats(told, "map_from_odom", 3),
        wanted=_floats(told, "wanted", 2),
        command=_floats(told, "command", 2),
        reason=[shown(one.reason) for one in told],
        state=[shown(one.state) for one in told],
        recovery=[shown(one.recovery) for one in told],
        e_stop=_ints(told, "e_stop"),
        obstacle=_ints(told, "obstacle"),
        episode=_ints(told, "episode"),
        goal_m=_floats(told, "goal_distance_m", 1)[:, 0],
        sensed=_ints(told, "sensed"),
        acted=_ints(told, "acted"),
        action=_ints(told, "action"),
        decision_ms=_decision_ms(told),
        delay_ms=_delay_ms(told),
        stages=stages,
        stage_ms=_stage_ms(told, stages),
        cameras={name: np.array([name in one.cameras for one in told]) for name in names},
        scans=_ranges([scan for _, scan, _ in rows]),
        limits_scans=_ranges([scan if limits is None else limits for _, scan, limits in rows]) if two_scans else None,
        resets={row: shown(one.memory_reset) for row, one in enumerate(told) if one.sensed and one.memory_reset},
        faults={row: shown(one.fault) for row, one in enumerate(told) if one.fault},
        events={row: tuple(map(shown, one.events)) for row, one in enumerate(told) if one.events},
        goals={row: tuple(one.goal_inputs) for row, one in enumerate(told) if one.goal_inputs},
    )


def _ints(told: Sequence[Tick], name: str) -> Ints:
    return np.array([getattr(one, name) for one in told], np.int64)


def _floats(told: Sequence[Tick], name: str, width: int) -> Floats:
    """Return (n, width), NaN where a tick has none. Raises ValueError for one of another length."""
    found = np.full((len(told), width), np.nan)
    for row, one in enumerate(told):
        values = getattr(one, name)
        if len(values) not in (0, width):
            raise ValueError(f"tick {one.slot}: {name} has {len(values)} values, must be {width}")
        if len(values):
            found[row] = values
    found[~np.isfinite(found)] = np.nan
    return found


def _decision_ms(told: Sequence[Tick]) -> Floats:
    return np.array([one.decision_elapsed_ns / NS_PER_MS if one.acted and one.action >= 0 else np.nan for one in told])


def _delay_ms(told: Sequence[Tick]) -> Floats:
    began = {one.sensed: one.start_ns for one in told if one.sensed}
    return np.array(
        [
            (one.sent_ns - began[one.acted]) / NS_PER_MS if one.acted in began and one.action >= 0 else np.nan
            for one in told
        ]
    )


def _stage_ms(told: Sequence[Tick], stages: Sequence[str]) -> Floats:
    place = {name: column for column, name in enumerate(stages)}
    found = np.zeros((len(told), len(stages)))
    for row, one in enumerate(told):
        for name, took_ns in zip(one.stages, one.stage_ns, strict=True):
            found[row, place[name]] += took_ns / NS_PER_MS
    return found


def _ranges(scans: Sequence[Scan]) -> Ranges:
    found = np.empty((len(scans), BINS), np.float32)
    for row, scan in enumerate(scans):
        found[row] = np.where(scan.seen, scan.ranges_m, np.float32(np.nan))
    return found
