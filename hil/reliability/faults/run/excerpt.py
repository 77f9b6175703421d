"""The part of a recording for faults: a few seconds of driving that begin at a recorded state of the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hil.recordings.recording import KEYFRAME, TICK, Recording, Session, open_recording
from hil.recordings.ticks import ticks_of
from hil.replay.recorded_policy import recorded_plant, recorded_zones
from onboard.config.plant_model import Plant
from onboard.navigation.mission import drives
from onboard.recording.mcap_file import FORMAT
from onboard.recording.state_snapshot import decode
from onboard.recording.tick_message import only_with_images
from onboard.safety.keepout_zones import MapZones
from onboard.state import RobotState, TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.messages import ColorFrame, DepthFrame

LEAD_S = 1.0
"""Before the onset the robot has moved for this time: by then a run with new decisions moves too."""
MOST_LEAD_S = 12.0
"""Maximum time from the start of a run to its onset: the recorder stores the whole state every 10 s."""
MOVING_MPS = 0.1


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Ticks of a recording, and the state of the runtime before them.

    state: state before the first tick
    depth, color: newest images before the first tick; the recorder stores no image between decisions
    onset: index of the tick at which faults begin; t_s: its time since the first recorded tick [s]
    """

    path: Path
    session: Session
    plant: Plant
    zones: MapZones | None
    state: RobotState
    depth: dict[str, DepthFrame]
    color: ColorFrame | None
    ticks: Sequence[TickRecord]
    onset: int
    t_s: float


@dataclass(frozen=True, slots=True)
class _Mark:
    """Properties of a tick. whole: the recording has the state after it; joined: no tick is missing before it."""

    now_ns: int
    moving: bool
    whole: bool
    joined: bool


def choose_excerpt(path: Path, lasts_s: float, from_s: float = 0.0) -> Excerpt:
    """Return the first part of a recording in which the robot drives for `lasts_s`.

    Without such a part, return the part in which the robot drives longest.

    from_s: earliest onset [s since the first tick]

    Raises InputError, one line with the file's name, if the robot never drives or the file is not readable.
    """
    with open_recording(path) as recording:
        _check(recording)
        marks = _marks(recording)
        chosen = _best(marks, lasts_s, from_s)
        if chosen is None:
            raise InputError(f"{path}: the robot does not drive, or not long enough, from {from_s:g} s on")
        first, onset, last = chosen
        ticks, state, depth, color = _read(recording, marks, first, last)
    whole_from = len(ticks) - (last - onset)
    if whole_from < 1:
        raise InputError(f"{path}: its ticks are incomplete")
    t_s = (ticks[whole_from].slot.start_ns - marks[0].now_ns) / NS_PER_S
    session = recording.sessions[0]
    plant, zones = recorded_plant(path, session), recorded_zones(path, session)
    return Excerpt(path, session, plant, zones, state, depth, color, ticks, whole_from, t_s)


def _check(recording: Recording) -> None:
    recorded = recording.session.get("format", "")
    if recorded != FORMAT:
        raise InputError(f"{recording.path}: recorded in format {recorded or 'unknown'}, this version takes {FORMAT}")


def _marks(recording: Recording) -> list[_Mark]:
    """Return the properties of each tick, without decoding images."""
    marks: list[_Mark] = []
    expected = 0
    for message in recording.read({TICK, KEYFRAME}):
        tick = message.sample
        if message.topic == KEYFRAME:
            if marks:
                marks[-1] = _Mark(marks[-1].now_ns, marks[-1].moving, True, marks[-1].joined)
            continue
        if len(tick.command) != 2:
            raise InputError(f"{recording.path}: tick {tick.slot}: a command of {len(tick.command)} numbers")
        moving = drives(tick.state) and abs(tick.command[0]) >= MOVING_MPS
        marks.append(_Mark(tick.start_ns, moving, False, tick.slot - tick.missed == expected))
        expected = tick.slot + 1
    return marks


def _best(marks: Sequence[_Mark], lasts_s: float, from_s: float) -> tuple[int, int, int] | None:
    """Return the indices of the first tick, of the onset, and after the last tick; None without a suitable part."""
    best: tuple[int, tuple[int, int, int]] | None = None
    lead_ns, most_ns, lasts_ns = (round(seconds * NS_PER_S) for seconds in (LEAD_S, MOST_LEAD_S, lasts_s))
    from_ns = (marks[0].now_ns if marks else 0) + round(from_s * NS_PER_S)
    starts = [0] if marks and marks[0].joined else []
    starts += [index + 1 for index, mark in enumerate(marks[:-1]) if mark.whole]
    for first in starts:
        begun_ns, last = marks[first].now_ns, first
        onset: int | None = None
        rested_ns, moved = begun_ns, 0
        for index in range(first, len(marks)):
            mark = marks[index]
            if (index > first and not mark.joined) or (onset is None and mark.now_ns - begun_ns > most_ns):
                break
            rested_ns = rested_ns if mark.moving else mark.now_ns
            if onset is None and mark.now_ns >= max(rested_ns + lead_ns, from_ns):
                onset = index
            if onset is not None and mark.now_ns - marks[onset].now_ns > lasts_ns:
                break
            moved += onset is not None and mark.moving
            last = index + 1
        if onset is None or marks[last - 1].now_ns - marks[onset].now_ns < lasts_ns / 2:
            continue
        if moved == last - onset:
            return first, onset, last
        if best is None or moved > best[0]:
            best = moved, (first, onset, last)
    return None if best is None else best[1]


def _read(
    recording: Recording, marks: Sequence[_Mark], first: int, last: int
) -> tuple[list[TickRecord], RobotState, dict[str, DepthFrame], ColorFrame | None]:
    """Return the ticks from `first` to before `last`, and the state and the newest images before `first`."""
    state, depth, color = RobotState(), dict[str, DepthFrame](), None
    ticks: list[TickRecord] = []
    for tick in ticks_of(recording):
        now_ns = tick.slot.start_ns
        if now_ns > marks[last - 1].now_ns:
            break
        if now_ns >= marks[first].now_ns:
            ticks.append(tick)
            continue
        inputs = only_with_images(tick.inputs)
        depth |= inputs.depth
        color = inputs.color or color
        if first and now_ns == marks[first - 1].now_ns and tick.keyframe:
            state = decode(tick.keyframe)
    return ticks, state, depth, color
