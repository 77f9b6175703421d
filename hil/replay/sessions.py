"""Sessions of recordings, each played by its own runtime, which continues from file to file."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from dataclasses import replace as changed

from hil.recordings.recording import Recording, Session
from hil.recordings.ticks import TickReader, naming, ticks_by_session
from hil.replay.player import Player
from hil.replay.recorded_policy import Policies, recorded_building, recorded_plant, recorded_zones
from hil.replay.tick_selection import MissingTicks, Span, TickSelector
from hil.replay.tolerances import Measure, measure_of
from onboard.recording.mcap_file import FORMAT
from onboard.state import RobotState, TickRecord
from onboard.values.errors import InputError, RuntimeFaultError
from onboard.values.interfaces import Policy

FAILURES = (ArithmeticError, LookupError, TypeError, ValueError)
"""Errors of a bug in the runtime or of an impossible state; a replay names the tick."""


ROBOT = "mounts", "plant", "configuration", "model_sha256", "zones", "map"
"""Keys of the session's record on the robot; all files of the session must agree."""


class SessionPlayer:
    """The replay of one session over its files.

    own:        the recorded policy decides, so the recorded memory is valid
    any_camera: as in `TickReader`
    """

    def __init__(
        self, source: str, session: Session, span: Span, policy: Policy, *, own: bool, any_camera: bool = False
    ) -> None:
        plant = recorded_plant(source, session)
        self.reader = TickReader(session, any_camera=any_camera)
        self._selector = TickSelector(span, from_start=session.part == 0)
        zones, building = recorded_zones(source, session), recorded_building(source, session)
        self._player = Player(session.config, session.mounts, plant, policy, zones=zones, building=building)
        self._session, self._source = session, source
        self._policy = policy
        self._own = own

    @property
    def over(self) -> bool:
        """Whether all of the span has been played."""
        return self._selector.over

    def check(self, source: str, session: Session) -> None:
        """Raise InputError if a file of the session contradicts the first file on the robot."""
        other = [name for name in ROBOT if session.record.get(name) != self._session.record.get(name)]
        if other:
            first = f"{self._source} of the same session"
            raise InputError(f"{source}: its {other[0]} differs from {first}; --force continues")

    def play(self, tick: TickRecord, missing: MissingTicks) -> Iterator[tuple[TickRecord, TickRecord, float]]:
        """Yield the ticks that can be played now: recorded, replayed, and the time since the session's first tick [s].

        Raises InputError for inconsistent messages, RuntimeFaultError for a tick in which the runtime fails.
        """
        state, ticks = self._selector.select(tick, missing)
        if state is not None:
            self._player.begin(state if self._own else without_memory(state, self._policy))
        for recorded in ticks:
            try:
                replayed = self._player.play(recorded)
            except InputError:
                raise
            except FAILURES as error:
                what = f"tick {recorded.slot.number}: a fault of the runtime, not of the recording"
                raise RuntimeFaultError(f"{what}\n{traceback.format_exc().rstrip()}") from error
            if self._selector.in_span(recorded):
                yield recorded, replayed, self._selector.time_s(recorded)

    def lose(self) -> None:
        """Continue from the next keyframe, after a file that could not be read to its end."""
        self._selector.lose()


class SessionPlayers:
    """The sessions of a take.

    force:   continue with another model, or with mounts that do not fit
    other:   name or path of another policy that decides, None for the recorded policy
    measure: tolerance of every session, None for `measure_of`
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
        self._players: dict[str, SessionPlayer] = {}

    def begin(self, source: str, recording: Recording) -> dict[str, Measure]:
        """Prepare the sessions of the next file; return the tolerance of each by name.

        Raises InputError that names the file, ConfigError or EngineError.
        """
        _check(recording)
        for session in recording.sessions:
            if session.name not in self._players:
                self._players[session.name] = self._begun(source, session)
            elif not self._force:
                self._players[session.name].check(source, session)
        return {one.name: self._measure or self._measure_of(one) for one in recording.sessions}

    def play(
        self, recording: Recording, missing: Mapping[str, MissingTicks]
    ) -> Iterator[tuple[Session, TickRecord, TickRecord, float]]:
        """Yield session, recorded tick, replayed tick and time [s] of the prepared file.

        Sessions continue from earlier files.

        missing: counts of ticks that cannot be played, by session name; updated here
        Raises InputError that names the file.
        """
        players = {one.name: self._players[one.name] for one in recording.sessions}
        with naming(recording.path):
            for session, tick in ticks_by_session(recording, {name: player.reader for name, player in players.items()}):
                for recorded, replayed, t_s in players[session.name].play(tick, missing[session.name]):
                    yield session, recorded, replayed, t_s
                if all(player.over for player in players.values()):
                    return

    def lose(self) -> None:
        """Continue from the next keyframes, after a file that could not be read to its end."""
        for player in self._players.values():
            player.lose()

    def _begun(self, source: str, session: Session) -> SessionPlayer:
        plant = recorded_plant(source, session)
        if self._other is None:
            policy = self._policies.that_drove(source, session, plant, self._force)
        else:
            policy = self._policies.another(session, self._other, plant)
        return SessionPlayer(source, session, self._span, policy, own=self._other is None, any_camera=self._force)

    def _measure_of(self, session: Session) -> Measure:
        return measure_of(session, same_model=self._other is not None or self._policies.is_that_drove(session))


def without_memory(state: RobotState, policy: Policy) -> RobotState:
    """Return a state with the policy's initial memory."""
    if state.pilot.memory is None:
        return state
    return changed(state, pilot=changed(state.pilot, memory=policy.initial_memory()))


def _check(recording: Recording) -> None:
    for session in recording.sessions:
        found = session.record.get("format", "")
        if found != FORMAT:
            raise InputError(
                f"{recording.path}: recorded in format {found or 'unknown'}, this version replays {FORMAT}"
            )
    if recording.left_out:
        raise InputError(
            f"{recording.path}: recorded with other message definitions on {', '.join(recording.left_out)}"
        )
