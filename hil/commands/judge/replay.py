"""The command `onboard-hil replay`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hil.jobs.executor import check_workers, executor
from hil.recordings.locate import RecordingGroup, completed, found_in, local, takes_of
from hil.replay.compare import Comparison, joined
from hil.replay.other_policy import PolicyComparison
from hil.replay.replay import Answer, Replayer, ReplayOptions, ReplayResult, UnreadableFile
from hil.replay.summary import compared_line, opinion_lines
from hil.replay.tick_selection import WHOLE, Span
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, finite, write_json
from onboard.values.errors import InputError

DIFFERS, UNREADABLE = 1, 2

ModelOption = Annotated[
    Path | None,
    typer.Option("--model", exists=True, help="The recorded model, or its folder, if it was moved."),
]


def replay_command(
    recordings: Annotated[
        list[str],
        typer.Argument(
            metavar="RECORDING...", help="Files, folders with all in them, patterns, URLs (extra `remote`)."
        ),
    ],
    from_s: Annotated[
        float, typer.Option("--from", min=0.0, help="Compare from this second on.", callback=finite)
    ] = 0.0,
    to_s: Annotated[
        float | None, typer.Option("--to", min=0.0, help="Compare up to here, in s.", callback=finite)
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="Compare with another policy: reactive, a shipped one, or a model."),
    ] = None,
    model: ModelOption = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Continue with another model, or with mounts that do not fit."),
    ] = False,
    jobs: Annotated[int, typer.Option("--jobs", help="Number of processes.")] = 1,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="Use a Ray cluster: HOST:PORT, or local to start one here."),
    ] = None,
    json_file: JsonOption = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write an HTML page; for one session only.")] = None,
) -> None:
    """Replay recordings through the same runtime and report the first difference.

    Where processor, engine and libraries are like those that recorded, every bit must be the same; elsewhere
    tolerances apply.

    With --policy only what was decided is compared with what that one would have decided.

    Exit code 0: nothing differs, or within the tolerances; 1: it differs, or less than half of the ticks, or of the
    scans whose images should be there, could be compared; 2: something could not be read.
    """
    check_json_target(json_file)
    span = WHOLE if to_s is None and from_s == 0.0 else Span(from_s, to_s if to_s is not None else WHOLE.to_s)
    if model is not None and policy is not None:
        raise InputError(
            f"--model {model}: is the recorded policy, but --policy asks for another one; use only one of them"
        )
    if span.to_s < span.from_s:
        raise InputError(f"--to {span.to_s:g}: must not be before --from {span.from_s:g}")
    check_workers(jobs, ray)
    takes = takes_of(found_in(recordings))
    if report is not None and len(takes) > 1:
        raise InputError(f"--report {report}: a page covers one session, not {len(takes)}")
    console = Console(stderr=json_file == STANDARD_OUTPUT, soft_wrap=True, highlight=False)
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    answers: list[Answer] = []
    with contextlib.closing(Replayer(ReplayOptions(span, force, policy, model))) as replayer:
        work = executor(min(jobs, len(takes)), ray)
        with contextlib.closing(work(replayer, takes)) as coming:
            for one in _in_order(takes, coming):
                answers += one.answers
                for answer in one.answers:
                    if isinstance(answer, UnreadableFile):
                        errors.print(f"error: {answer.reason}", markup=False)
                    else:
                        console.print("\n".join(_lines(answer)), markup=False)
    write_json(json_file, as_json(answers))
    if report is not None:
        _write_report(report, answers)
    if any(isinstance(one, UnreadableFile) for one in answers):
        raise typer.Exit(UNREADABLE)
    if any(isinstance(one, Comparison) and (one.too_little or not one.within_tolerance) for one in answers):
        raise typer.Exit(DIFFERS)


def as_json(answers: Sequence[Answer]) -> dict[str, object]:
    """Return the answers as plain values: replayed recordings under "recordings", failures under "unreadable"."""
    return {
        "recordings": [answer.as_json() for answer in answers if not isinstance(answer, UnreadableFile)],
        "unreadable": [
            {"file": answer.source, "error": answer.reason} for answer in answers if isinstance(answer, UnreadableFile)
        ],
    }


def _in_order(takes: Sequence[RecordingGroup], coming: Iterable[ReplayResult]) -> Iterator[ReplayResult]:
    """Yield the results in the order of the takes, each as soon as all earlier results are there."""
    early: dict[RecordingGroup, ReplayResult] = {}
    waiting = iter(takes)
    take = next(waiting, None)
    for one in coming:
        early[one.take] = one
        while take in early:
            yield early.pop(take)
            take = next(waiting, None)


def _write_report(report: Path, answers: Sequence[Answer]) -> None:
    """Write the page of a session if all its files could be read.

    Raises InputError for opinions of a policy on several files.
    """
    from hil.report.page import write_report

    opinions = [answer for answer in answers if isinstance(answer, PolicyComparison)]
    compared = [answer for answer in answers if isinstance(answer, Comparison)]
    if len(opinions) + len(compared) < len(answers):
        return
    if len(opinions) > 1:
        raise InputError(f"--report {report} with --policy: a page then covers one file, not {len(opinions)}")
    with contextlib.ExitStack() as held:
        paths = [held.enter_context(completed(held.enter_context(local(answer.source)))) for answer in answers]
        write_report(report, paths, opinions[0] if opinions else joined(compared))


def _lines(found: Comparison | PolicyComparison) -> list[str]:
    return list(opinion_lines(found)) if isinstance(found, PolicyComparison) else [compared_line(found)]
