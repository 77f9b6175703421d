"""One session of recordings as arrays: what the robot saw, wanted and did, tick by tick."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.recording import TICK, Recording, open_recording
from hil.replay.ticks import scan_of
from onboard.config import Config
from onboard.drivers.onboard_types import GoalInput, Tick
from onboard.errors import InputError
from onboard.messages import BINS, Scan
from onboard.mounts import Mounts
from onboard.scheduler import NS_PER_S

NS_PER_MS = 1e6
MOST_CHARACTERS = 300
LONGEST_S = 100 * 3600.0
SCANS = ("scan", "limits_scan")
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Ranges = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Story:
    """A session. Arrays have a row for each of its n ticks; what is absent is NaN.

    files, session, config, mounts: what was read, and what it says of the robot
    began_ns:     begin of the first tick, monotonic [ns]
    t_s:          begin of a tick since that of the first [s]; late_ms: after its deadline [ms]
    missed:       slots skipped before it; slot: its number in the grid of ticks
    odometry:     (n, 5) x, y, yaw, v, w in the odom frame [m, rad, m/s, rad/s]
    correction:   (n, 3) of the odom frame in the map frame
    wanted, command: (n, 2) v, w [m/s, rad/s]
    reason, state, recovery: text of each tick
    e_stop, obstacle: -1 not heard yet, 0, 1
    goal_m:       distance to the goal [m]
    sensed, acted, action: as in `onboard_types.Tick`
    decision_ms:  what the policy took, where a decision was due; delay_ms: from sensing to its command on the wire
    stages, stage_ms: names, (n, stages) [ms]
    cameras:      whether a frame of each camera was there
    scans:        (n, 180) range [m], inf where nothing was seen, NaN where no camera looks; as the policy saw it
    limits_scans: as the limits saw it, None where that is the same
    resets, faults, events, goals: of the ticks that have any, by row
    """

    files: tuple[Path, ...]
    session: Mapping[str, str]
    config: Config
    mounts: Mounts
    began_ns: int
    t_s: Floats
    late_ms: Floats
    slot: Ints
    missed: Ints
    odometry: Floats
    correction: Floats
    wanted: Floats
    command: Floats
    reason: Sequence[str]
    state: Sequence[str]
    recovery: Sequence[str]
    e_stop: Ints
    obstacle: Ints
    episode: Ints
    goal_m: Floats
    sensed: Ints
    acted: Ints
    action: Ints
    decision_ms: Floats
    delay_ms: Floats
    stages: tuple[str, ...]
    stage_ms: Floats
    cameras: Mapping[str, Flags]
    scans: Ranges
    limits_scans: Ranges | None
    resets: Mapping[int, str]
    faults: Mapping[int, str]
    events: Mapping[int, Sequence[str]]
    goals: Mapping[int, Sequence[GoalInput]]

    @property
    def ticks(self) -> int:
        """How many there are."""
        return len(self.t_s)

    @property
    def period_s(self) -> float:
        """The time from one tick to the next, as configured [s]."""
        return 1.0 / self.config.rates.control_hz

    @property
    def took_ms(self) -> Floats:
        """What the stages of each tick took together [ms]."""
        return np.asarray(np.nansum(self.stage_ms, axis=1))

    @property
    def gap(self) -> Flags:
        """(n,) whether ticks are missing in the file before this one."""
        gap = np.zeros(self.ticks, bool)
        gap[1:] = np.diff(self.slot) > 1 + self.missed[1:]
        return gap

    def end_s(self, row: int) -> float:
        """Return when what holds in a tick ends: at the next, or a period after the last."""
        return float(self.t_s[row + 1] if row + 1 < self.ticks else self.t_s[row] + self.period_s)


def read_story(files: Sequence[Path]) -> Story:
    """Read the files of one session, in their order. Raises InputError in one line that names the file."""
    with ExitStack() as stack:
        opened = [stack.enter_context(open_recording(file)) for file in files]
        for one in opened:
            if len(one.sessions) > 1:
                raise InputError(f"{one.path}: holds {len(one.sessions)} sessions, a page is about one")
            if one.left_out:
                raise InputError(f"{one.path}: recorded with other messages on {', '.join(one.left_out)}")
        rows = list(itertools.chain.from_iterable(_rows(one) for one in opened))
        first = opened[0]
    if not rows:
        raise InputError(f"{files[0]}: no tick in it")
    try:
        return _story(tuple(files), first, rows)
    except (ValueError, OverflowError) as error:
        raise InputError(f"{files[0]}: ticks that do not fit together: {error}") from error


Row = tuple[Tick, Scan, Scan | None]


def _rows(recording: Recording) -> Iterator[Row]:
    """Yield the ticks with their scans; one whose scan was lost is left out."""
    came: dict[str, Any] = {}
    for heard in recording.heard({TICK, *SCANS}):
        if heard.topic != TICK:
            came[heard.topic] = heard.sample
            continue
        told: Tick = heard.sample
        try:
            if "scan" in came:
                limits = came.get("limits_scan")
                yield (
                    told,
                    scan_of(came["scan"], told.scan_stamp_ns),
                    None if limits is None else scan_of(limits, told.limits_scan_stamp_ns),
                )
        except (InputError, ValueError) as error:
            raise InputError(f"{recording.path}: tick {told.slot}: {error}") from error
        came = {}


def _story(files: tuple[Path, ...], recording: Recording, rows: Sequence[Row]) -> Story:
    told = [row[0] for row in rows]
    starts = np.array([one.start_ns for one in told], np.int64)
    backward = np.flatnonzero(np.diff(starts) <= 0)
    if len(backward):
        raise InputError(f"{files[0]}: tick {told[int(backward[0]) + 1].slot} begins before the one before it")
    if (starts[-1] - starts[0]) / NS_PER_S > LONGEST_S:
        raise InputError(f"{files[0]}: its ticks are over {LONGEST_S / 3600.0:g} h apart, more than a page shows")
    stages = tuple(dict.fromkeys(name for one in told for name in one.stages))
    names = dict.fromkeys(name for one in told for name in one.cameras)
    apart = any(limits is not None for _, _, limits in rows)
    return Story(
        files=files,
        session=recording.session,
        config=recording.config,
        mounts=recording.mounts,
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
        limits_scans=_ranges([scan if limits is None else limits for _, scan, limits in rows]) if apart else None,
        resets={row: shown(one.memory_reset) for row, one in enumerate(told) if one.sensed and one.memory_reset},
        faults={row: shown(one.fault) for row, one in enumerate(told) if one.fault},
        events={row: tuple(map(shown, one.events)) for row, one in enumerate(told) if one.events},
        goals={row: tuple(one.goal_inputs) for row, one in enumerate(told) if one.goal_inputs},
    )


def shown(text: str) -> str:
    """Return a text of a recording on one line, cut to what a page shows; a recording says what it likes."""
    line = "".join(one if one.isprintable() else " " for one in text[: MOST_CHARACTERS + 1])
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"


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
