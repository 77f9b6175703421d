"""Recordings through the runtime once more: compared with themselves, or judged by another policy."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hil.recordings.locate import Take, completed, local
from hil.recordings.recording import Recording, open_recording
from hil.replay.compare import Compared, SessionCount
from hil.replay.other_policy import Opinion
from hil.replay.recorded_policy import Policies
from hil.replay.sessions import Stage
from hil.replay.tick_selection import WHOLE, Missing, Span
from hil.replay.tolerances import Measure
from onboard.system.log import unlogged
from onboard.values.errors import InputError, OnboardError
from onboard.values.interfaces import Policy

NOTHING = "no tick of it can be played, so nothing was compared"
NOBODY = "no decision of it can be played, so nobody was asked"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of recordings.

    span:   which part of each session
    force:  go on where the model is another one than the recording names, or the mounts do not fit
    policy: asks that one what it would have done instead: "reactive", a name that ships, or the path of a model
    model:  where the models that drove are on this machine, a file or a folder; None for where they were on the robot
    """

    span: Span = WHOLE
    force: bool = False
    policy: str | None = None
    model: Path | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that could not be replayed, or not to its end, and why.

    reason: one line that names the file; of a fault of the runtime the traceback follows
    """

    source: str
    reason: str


Answer = Compared | Opinion | Unread


@dataclass(frozen=True, slots=True)
class Replayed:
    """What came of each file of a take that is in the span, in their order."""

    take: Take
    answers: Sequence[Answer]


def replay(
    path: Path,
    span: Span = WHOLE,
    *,
    force: bool = False,
    policy: Policy | None = None,
    measure: Measure | None = None,
) -> Compared:
    """Play a file with the policy that drove and compare every tick.

    policy:  who decides, None for the one that is named
    measure: by what differences are judged, None for what the session's record lets expect
    Raises InputError, ConfigError or EngineError in one line.
    """
    with unlogged(), contextlib.closing(Policies(policy)) as policies:
        found = _compare(str(path), path, Stage(policies, span, force=force, measure=measure))
    if found.ticks == 0:
        raise InputError(f"{path}: {NOTHING}")
    return found


def consult(path: Path, policy: str | Policy, span: Span = WHOLE) -> Opinion:
    """Ask another policy what it would have done. policy: also "reactive", a name that ships, or the path of a model.

    Raises InputError, ConfigError or EngineError in one line.
    """
    named = policy if isinstance(policy, str) else policy.name
    given = None if isinstance(policy, str) else policy
    with unlogged(), contextlib.closing(Policies(given)) as policies:
        opinion = _ask(str(path), path, Stage(policies, span, other=named), named)
    if opinion.decisions == 0:
        raise InputError(f"{path}: {NOBODY}")
    return opinion


class Replayer:
    """Replays takes one after the other; keeps the last policy, since as a rule it drove in the next one too."""

    def __init__(self, asked: Asked, policies: Policies | None = None) -> None:
        self._asked = asked
        self._policies = policies or Policies(place=asked.model)

    def __call__(self, take: Take) -> Replayed:
        """Return what came of a take."""
        self._policies.tidy()
        stage = Stage(self._policies, self._asked.span, force=self._asked.force, other=self._asked.policy)
        with unlogged():
            answers = [self._answer(source, stage) for source in take.sources]
        return Replayed(take, _within_span(answers, self._asked.span))

    def close(self) -> None:
        """Let go of what was loaded."""
        self._policies.close()

    def _answer(self, source: str, stage: Stage) -> Answer:
        places: list[Path] = []
        try:
            with contextlib.ExitStack() as held:
                places.append(held.enter_context(local(source)))
                places.append(held.enter_context(completed(places[0])))
                asked = self._asked.policy
                answer = _compare(source, places[1], stage) if asked is None else _ask(source, places[1], stage, asked)
                answer.cut_off = places[0] != places[1]
                return answer
        except OnboardError as error:
            stage.lose()
            reason = str(error)
            for place in reversed(places):
                reason = reason.replace(str(place), source)
            return Unread(source, reason)


def _within_span(answers: Sequence[Answer], span: Span) -> list[Answer]:
    """Leave out the files of a session of which nothing is in the span, unless there is nothing in any."""
    empty = [_nothing_in(one) for one in answers]
    if span != WHOLE and not all(empty):
        return [one for one, nothing in zip(answers, empty, strict=True) if not nothing]
    return [Unread(one.source, f"{one.source}: {why}") if why else one for one, why in zip(answers, empty, strict=True)]


def _nothing_in(answer: Answer) -> str:
    if isinstance(answer, Compared):
        return "" if answer.ticks else NOTHING
    return NOBODY if isinstance(answer, Opinion) and not answer.decisions else ""


def _compare(source: str, path: Path, stage: Stage) -> Compared:
    with open_recording(path) as recording:
        began_s, measures = time.monotonic(), stage.begin(source, recording)
        found = Compared(source, [SessionCount(one, measure=measures[one.name]) for one in recording.sessions])
        for session, played, t_s in stage.play(recording, _missing(found)):
            found.add(session, played, t_s)
        found.took_s = time.monotonic() - began_s
        return found


def _missing(found: Compared) -> dict[str, Missing]:
    return {one.session.name: one.missing for one in found.sessions}


def _ask(source: str, path: Path, stage: Stage, policy: str) -> Opinion:
    with open_recording(path) as recording:
        opinion = Opinion(source, policy, _names(recording))
        stage.begin(source, recording)
        for _, played, t_s in stage.play(recording, {name: Missing() for name in opinion.sessions}):
            opinion.add(played, t_s)
        return opinion


def _names(recording: Recording) -> tuple[str, ...]:
    return tuple(one.name for one in recording.sessions)
