"""Replay of recordings: compared with themselves, or with the decisions of another policy."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hil.recordings.locate import RecordingGroup, completed, local
from hil.recordings.recording import Recording, open_recording
from hil.replay.compare import Comparison, SessionCount
from hil.replay.other_policy import PolicyComparison
from hil.replay.recorded_policy import Policies
from hil.replay.sessions import SessionPlayers
from hil.replay.tick_selection import WHOLE, MissingTicks, Span
from hil.replay.tolerances import Measure
from onboard.system.log import unlogged
from onboard.values.errors import InputError, OnboardError
from onboard.values.interfaces import Policy

NOTHING = "no tick can be played, so nothing was compared"
NOBODY = "no decision can be played, so nothing was compared"


@dataclass(frozen=True, slots=True)
class ReplayOptions:
    """Options of a replay.

    span:   compared part of each session
    force:  continue with another model, or with mounts that do not fit
    policy: compare with the decisions of this policy: "reactive", a shipped name, or the path of a model
    model:  file or folder of the recorded models on this machine; None for the recorded path
    """

    span: Span = WHOLE
    force: bool = False
    policy: str | None = None
    model: Path | None = None


@dataclass(frozen=True, slots=True)
class UnreadableFile:
    """A file that could not be replayed to its end.

    reason: one line that names the file; after a fault of the runtime, the traceback follows
    """

    source: str
    reason: str


Answer = Comparison | PolicyComparison | UnreadableFile


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """Results of the files of a take that are in the span, in order."""

    take: RecordingGroup
    answers: Sequence[Answer]


def replay(
    path: Path,
    span: Span = WHOLE,
    *,
    force: bool = False,
    policy: Policy | None = None,
    measure: Measure | None = None,
) -> Comparison:
    """Play a file with the recorded policy and compare every tick.

    policy:  policy that decides, None for the recorded policy
    measure: tolerance, None for the tolerance of the session's record
    Raises InputError, ConfigError or EngineError in one line.
    """
    with unlogged(), contextlib.closing(Policies(policy)) as policies:
        found = _compare(str(path), path, SessionPlayers(policies, span, force=force, measure=measure))
    if found.ticks == 0:
        raise InputError(f"{path}: {NOTHING}")
    return found


class Replayer:
    """Replays takes one after the other; keeps the last policy, because the next take usually needs it."""

    def __init__(self, options: ReplayOptions, policies: Policies | None = None) -> None:
        self._options = options
        self._policies = policies or Policies(place=options.model)

    def __call__(self, take: RecordingGroup) -> ReplayResult:
        """Return the result of a take."""
        self._policies.tidy()
        players = SessionPlayers(
            self._policies, self._options.span, force=self._options.force, other=self._options.policy
        )
        with unlogged():
            answers = [self._answer(source, players) for source in take.sources]
        return ReplayResult(take, _within_span(answers, self._options.span))

    def close(self) -> None:
        """Close the loaded policies."""
        self._policies.close()

    def _answer(self, source: str, players: SessionPlayers) -> Answer:
        places: list[Path] = []
        try:
            with contextlib.ExitStack() as held:
                places.append(held.enter_context(local(source)))
                places.append(held.enter_context(completed(places[0])))
                policy = self._options.policy
                answer = (
                    _compare(source, places[1], players) if policy is None else _ask(source, places[1], players, policy)
                )
                answer.cut_off = places[0] != places[1]
                return answer
        except OnboardError as error:
            players.lose()
            reason = str(error)
            for place in reversed(places):
                reason = reason.replace(str(place), source)
            return UnreadableFile(source, reason)


def _within_span(answers: Sequence[Answer], span: Span) -> list[Answer]:
    """Return the answers without files outside the span; if all are outside, all as unread."""
    empty = [_nothing_in(answer) for answer in answers]
    if span != WHOLE and not all(empty):
        return [answer for answer, nothing in zip(answers, empty, strict=True) if not nothing]
    return [
        UnreadableFile(answer.source, f"{answer.source}: {why}") if why else answer
        for answer, why in zip(answers, empty, strict=True)
    ]


def _nothing_in(answer: Answer) -> str:
    if isinstance(answer, Comparison):
        return "" if answer.ticks else NOTHING
    return NOBODY if isinstance(answer, PolicyComparison) and not answer.decisions else ""


def _compare(source: str, path: Path, players: SessionPlayers) -> Comparison:
    with open_recording(path) as recording:
        began_s, measures = time.monotonic(), players.begin(source, recording)
        found = Comparison(source, [SessionCount(one, measure=measures[one.name]) for one in recording.sessions])
        for session, recorded, replayed, t_s in players.play(recording, _missing(found)):
            found.add(session, recorded, replayed, t_s)
        found.took_s = time.monotonic() - began_s
        return found


def _missing(found: Comparison) -> dict[str, MissingTicks]:
    return {session.session.name: session.missing for session in found.sessions}


def _ask(source: str, path: Path, players: SessionPlayers, policy: str) -> PolicyComparison:
    with open_recording(path) as recording:
        opinion = PolicyComparison(source, policy, _names(recording))
        players.begin(source, recording)
        missing = {name: MissingTicks() for name in opinion.sessions}
        for _, recorded, replayed, t_s in players.play(recording, missing):
            opinion.add(recorded, replayed, t_s)
        return opinion


def _names(recording: Recording) -> tuple[str, ...]:
    return tuple(session.name for session in recording.sessions)
