"""A recording's sessions played side by side, each by a runtime of its own, which goes on from file to file."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace as changed

from hil.recordings.demux import apart
from hil.recordings.recording import Heard, Recording, Session
from hil.recordings.ticks import TickReader, naming, topics_of
from hil.replay.player import Played, Player
from hil.replay.recorded_policy import Policies, recorded_plant, recorded_zones
from hil.replay.tick_selection import Missing, Placer, Span, Window
from hil.replay.tolerances import Measure, measure_of
from onboard.recording.recorder import FORMAT
from onboard.state import RobotState, TickRecord
from onboard.values.errors import InputError, RuntimeFaultError
from onboard.values.interfaces import Policy

FAILURES = (ArithmeticError, LookupError, TypeError, ValueError)
"""What a mistake in the runtime, or a state that cannot be, raises; a replay names the tick."""


ROBOT = "mounts", "plant", "configuration", "model_sha256", "zones"
"""What a session's record says of the robot: the same in all its files."""


class Act:
    """One session on its way through its files.

    own:        the policy is the one whose memory stands in the recording
    any_camera: as in `TickReader`
    """

    def __init__(
        self, source: str, session: Session, span: Span, policy: Policy, *, own: bool, any_camera: bool = False
    ) -> None:
        plant = recorded_plant(source, session)
        self._reader = TickReader(session.config, session.mounts, any_camera=any_camera)
        self._placer = Placer(span, from_start=session.part == 0)
        self._window = Window(span)
        zones = recorded_zones(source, session)
        self._player = Player(session.config, session.mounts, plant, policy, zones=zones)
        self._session, self._source = session, source
        self._span = span
        self._policy = policy
        self._own = own

    @property
    def over(self) -> bool:
        """Return whether all of the span has been played."""
        return self._window.over

    def check(self, source: str, session: Session) -> None:
        """Raise InputError for a file of the session that says something else of the robot than its first did."""
        other = [name for name in ROBOT if session.record.get(name) != self._session.record.get(name)]
        if other:
            first = f"{self._source} of the same session"
            raise InputError(f"{source}: its {other[0]} is not that of {first}; --force goes on")

    def take(self, heard: Heard, missing: Missing) -> Iterator[tuple[Played, float]]:
        """Yield what the next message lets be played, with the time since the session's first tick [s].

        Raises InputError for what does not fit together, RuntimeFaultError for a tick in which the runtime fails.
        """
        tick = self._reader.take(heard)
        if tick is not None:
            yield from self._played(tick, missing)

    def end(self, missing: Missing) -> Iterator[tuple[Played, float]]:
        """Yield the last tick of a file, as `take`."""
        tick = self._reader.last()
        if tick is not None:
            yield from self._played(tick, missing)

    def lose(self) -> None:
        """Go on from the next whole state, after a file that could not be read to its end."""
        self._placer.lose()

    def _played(self, tick: TickRecord, missing: Missing) -> Iterator[tuple[Played, float]]:
        placed = self._placer.place(tick, missing)
        for one in () if placed is None else self._window.take(placed):
            if one.state is not None:
                self._player.begin(one.state if self._own else without_memory(one.state, self._policy))
            try:
                played = self._player.play(one.tick)
            except InputError:
                raise
            except FAILURES as error:
                what = f"tick {one.tick.slot.number}: a fault of the runtime, not of the recording"
                raise RuntimeFaultError(f"{what}\n{traceback.format_exc().rstrip()}") from error
            if self._span.holds(one.t_s):
                yield played, one.t_s


class Stage:
    """The sessions that are being played.

    force:   go on with another model, or with mounts that do not fit
    other:   another policy than the one that drove decides
    measure: by what every session is judged, None for each as `measure_of` says
    """

    def __init__(
        self,
        policies: Policies,
        span: Span,
        *,
        force: bool = False,
        other: str | None = None,
        measure: Measure | None = None,
    ) -> None:
        self._policies, self._span, self._force, self._other, self._measure = policies, span, force, other, measure
        self._acts: dict[str, Act] = {}

    def begin(self, source: str, recording: Recording) -> dict[str, Measure]:
        """Make the sessions of the next file ready; return by what each is to be judged, by its name.

        Raises InputError that names the file, ConfigError or EngineError.
        """
        _check(recording)
        for session in recording.sessions:
            if session.name not in self._acts:
                self._acts[session.name] = self._begun(source, session)
            elif not self._force:
                self._acts[session.name].check(source, session)
        return {one.name: self._measure or self._measure_of(one) for one in recording.sessions}

    def play(self, recording: Recording, missing: Mapping[str, Missing]) -> Iterator[tuple[Session, Played, float]]:
        """Yield session, tick and time of the file that was begun; those of its sessions that were under way go on.

        missing: where what cannot be played is counted, by the session's name
        Raises InputError that names the file.
        """
        only = set().union(*(topics_of(one.config, one.mounts) for one in recording.sessions))
        with naming(recording.path):
            for session, heard in apart(recording, only):
                act = self._acts[session.name]
                for played, t_s in act.take(heard, missing[session.name]):
                    yield session, played, t_s
                if act.over and all(self._acts[one.name].over for one in recording.sessions):
                    return
            for session in recording.sessions:
                for played, t_s in self._acts[session.name].end(missing[session.name]):
                    yield session, played, t_s

    def lose(self) -> None:
        """Go on from the next whole states, after a file that could not be read to its end."""
        for act in self._acts.values():
            act.lose()

    def _begun(self, source: str, session: Session) -> Act:
        plant = recorded_plant(source, session)
        if self._other is None:
            policy = self._policies.that_drove(source, session, plant, self._force)
        else:
            policy = self._policies.another(session, self._other, plant)
        return Act(source, session, self._span, policy, own=self._other is None, any_camera=self._force)

    def _measure_of(self, session: Session) -> Measure:
        return measure_of(session, same_model=self._other is not None or self._policies.is_that_drove(session))


def without_memory(state: RobotState, policy: Policy) -> RobotState:
    """Return a state in which a policy remembers nothing."""
    if state.pilot.memory is None:
        return state
    return changed(state, pilot=changed(state.pilot, memory=policy.initial_memory()))


def _check(recording: Recording) -> None:
    for session in recording.sessions:
        told = session.record.get("format", "")
        if told != FORMAT:
            raise InputError(f"{recording.path}: recorded in format {told or 'unknown'}, this version replays {FORMAT}")
    if recording.left_out:
        raise InputError(f"{recording.path}: recorded with other messages on {', '.join(recording.left_out)}")
