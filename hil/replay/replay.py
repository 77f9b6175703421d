"""One recording replayed: what was compared, what differs, and where first."""

from __future__ import annotations

import contextlib
import math
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from hil.quiet import unlogged
from hil.recording import Recording, open_recording
from hil.replay.fields import SAME_ACTIONS, Difference, differences
from hil.replay.player import Played, Player
from hil.replay.ticks import RecordedTick, ticks_of
from onboard.assembly import REACTIVE, policy_maker
from onboard.errors import ConfigError, InputError
from onboard.interfaces import Policy
from onboard.keyframe import decode
from onboard.manifest import load_manifest
from onboard.motion import Plant, load_plant
from onboard.pretrained import model_path
from onboard.record import FORMAT
from onboard.robot import RobotState
from onboard.scheduler import NS_PER_S


@dataclass(frozen=True, slots=True)
class Found:
    """A difference and when it was: the tick's slot, and seconds since the session's first tick."""

    tick: int
    t_s: float
    difference: Difference


@dataclass(slots=True)
class FieldCount:
    """How a field differed: in so many values, by at most so much, and in how many by more than it may."""

    values: int = 0
    worst: float = 0.0
    outside: int = 0


@dataclass(slots=True)
class Compared:
    """What a replay came to.

    ticks:     compared; `skipped` could not be: before the first whole state, or after a gap until the next
    gaps:      places where ticks are missing in the file
    fused:     ticks in which the scan was fused from recorded images
    decisions: compared, `same` of them with the same action
    first:     the first value that differs
    """

    path: Path
    session: Mapping[str, str]
    ticks: int = 0
    skipped: int = 0
    gaps: int = 0
    fused: int = 0
    decisions: int = 0
    same: int = 0
    first: Found | None = None
    fields: dict[str, FieldCount] = field(default_factory=dict)
    recorded_s: float = 0.0
    took_s: float = 0.0

    @property
    def identical(self) -> bool:
        """Return whether nothing differs at all."""
        return self.first is None

    @property
    def within_tolerance(self) -> bool:
        """Return whether all that differs may, and as far."""
        others = all(count.outside == 0 for name, count in self.fields.items() if name != "action")
        return others and self.same >= SAME_ACTIONS * self.decisions

    def add(self, played: Played, t_s: float) -> None:
        """Count a tick."""
        self.ticks += 1
        self.fused += played.recorded.with_images
        if played.decided is not None:
            self.decisions += 1
            self.same += played.decided.action == played.recorded.told.action
        for one in differences(played):
            self.first = self.first or Found(played.recorded.told.slot, t_s, one)
            count = self.fields.setdefault(one.field, FieldCount())
            count.values += 1
            count.worst = max(count.worst, one.by)
            count.outside += not one.within

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return {
            "file": str(self.path),
            "session": self.session.get("wall_minus_monotonic_ns", ""),
            "robot": self.session.get("robot", ""),
            "ticks": self.ticks,
            "skipped_ticks": self.skipped,
            "gaps": self.gaps,
            "fused_scans": self.fused,
            "decisions": self.decisions,
            "same_actions": self.same,
            "identical": self.identical,
            "within_tolerance": self.within_tolerance,
            "first_difference": None if self.first is None else _plain(self.first),
            "fields": {
                name: {"values": one.values, "worst": one.worst, "outside": one.outside}
                for name, one in self.fields.items()
            },
            "recorded_s": round(self.recorded_s, 3),
            "speed_x_realtime": round(self.recorded_s / self.took_s, 2) if self.took_s > 0.0 else None,
        }


def _plain(found: Found) -> dict[str, Any]:
    one = found.difference
    return {
        "tick": found.tick,
        "t_s": round(found.t_s, 3),
        "stage": one.stage,
        "field": one.field + one.place,
        "recorded": one.recorded,
        "replayed": one.replayed,
    }


@dataclass(frozen=True, slots=True)
class Span:
    """Which part of a recording is played [s since its first tick]: from the last whole state before `from_s`."""

    from_s: float = 0.0
    to_s: float = math.inf


WHOLE = Span()


def replay(path: Path, span: Span = WHOLE, *, force: bool = False, policy: Policy | None = None) -> Compared:
    """Play a recording and compare every tick.

    force:  go on where the model is another one than the recording names
    policy: who decides, None for the one that drove
    Raises InputError, ConfigError or EngineError in one line.
    """
    with open_recording(path) as recording, unlogged():
        _check(recording)
        plant = recorded_plant(recording)
        with contextlib.closing(policy or _policy(recording, plant, force)) as deciding:
            return _compared(recording, span, Player(recording.config, recording.mounts, plant, deciding))


def _compared(recording: Recording, span: Span, player: Player) -> Compared:
    found = Compared(recording.path, recording.session)
    began_s = time.monotonic()
    played_from_s: float | None = None
    for placed in _within(span, _placed(recording, found)):
        if placed.state is not None:
            player.begin(placed.state)
        played_from_s = placed.t_s if played_from_s is None else played_from_s
        found.recorded_s = placed.t_s - played_from_s
        found.add(player.play(placed.tick), placed.t_s)
    found.took_s = time.monotonic() - began_s
    return found


class _Placed(NamedTuple):
    """A tick that can be played. state: to begin with, None where it is that after the tick before."""

    tick: RecordedTick
    t_s: float
    state: RobotState | None


def _within(span: Span, ticks: Iterable[_Placed]) -> Iterator[_Placed]:
    """Yield the ticks of a span, and those before it from the last whole state on."""
    held: list[_Placed] = []
    state: RobotState | None = None
    for placed in ticks:
        if placed.t_s > span.to_s:
            return
        held.append(placed if state is None else placed._replace(state=state))
        state = None
        if placed.t_s >= span.from_s:
            yield from held
            held.clear()
        elif placed.tick.keyframe:
            held.clear()
            state = decode(placed.tick.keyframe)


def _placed(recording: Recording, found: Compared) -> Iterator[_Placed]:
    """Yield the ticks that can be played; count those that cannot."""
    expected: int | None = None
    began_ns = 0
    playing = recording.session.get("file_number") == "0"
    state: RobotState | None = RobotState()
    for tick in ticks_of(recording):
        first = tick.slot.number - tick.slot.missed
        if first != (expected or 0):
            found.gaps += expected is not None
            playing = False
        expected = tick.slot.number + 1
        began_ns = began_ns or tick.slot.start_ns
        if playing:
            yield _Placed(tick, (tick.slot.start_ns - began_ns) / NS_PER_S, state)
            state = None
            continue
        found.skipped += 1
        if tick.keyframe:
            playing, state = True, decode(tick.keyframe)


def _check(recording: Recording) -> None:
    told = recording.session.get("format", "")
    if told != FORMAT:
        raise InputError(f"{recording.path}: recorded in format {told or 'unknown'}, this version replays {FORMAT}")
    if recording.left_out:
        raise InputError(f"{recording.path}: recorded with other messages on {', '.join(recording.left_out)}")


def recorded_plant(recording: Recording) -> Plant:
    """Return the base as it was configured. Raises InputError."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plant.toml"
        file.write_text(recording.session["plant"], encoding="utf-8")
        try:
            return load_plant(file)
        except ConfigError as error:
            raise InputError(f"{recording.path}: recorded plant: {str(error).replace(str(file), 'plant')}") from error


def _policy(recording: Recording, plant: Plant, force: bool) -> Policy:
    """Return the policy that drove. Raises InputError where it is not here, or another."""
    config, path = recording.config, recording.path
    if config.policy.model != REACTIVE:
        model = model_path(config.policy.model)
        try:
            here = load_manifest(model).sha256
        except ConfigError as error:
            raise InputError(f"{path}: was driven by a model that is not here: {error}") from error
        if here != recording.session["model_sha256"] and not force:
            raise InputError(
                f"{path}: {model} is another model than the one that drove (sha256 {here[:12]}, recorded "
                f"{recording.session['model_sha256'][:12]}); --force goes on"
            )
    section = config.policy.model_copy(update={"engine": "onnxruntime"})
    return policy_maker(config.model_copy(update={"policy": section}), plant)()
