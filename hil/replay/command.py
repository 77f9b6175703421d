"""The command `onboard-hil replay`."""

from __future__ import annotations

import glob
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hil.replay.compared import Compared, Found
from hil.replay.opinion import Opinion
from hil.replay.placing import WHOLE, Span
from hil.replay.replay import consult, replay
from onboard.__main__ import STANDARD_OUTPUT, JsonOption, check_json_target, finite, write_json
from onboard.errors import InputError, OnboardError

DIFFERS, UNREADABLE = 1, 2
SUFFIX = ".mcap"

Answer = Compared | Opinion | str
"""What a replay came to, or in one line why there was none."""


def replay_command(
    recordings: Annotated[list[str], typer.Argument(metavar="RECORDING...", help="Files, folders or patterns.")],
    from_s: Annotated[
        float, typer.Option("--from", min=0.0, help="Seconds into the recording.", callback=finite)
    ] = 0.0,
    to_s: Annotated[float | None, typer.Option("--to", min=0.0, help="As far as this.", callback=finite)] = None,
    policy: Annotated[
        str | None,
        typer.Option("--policy", help="What another would have done: reactive, one that ships, a model."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Go on with another model than the one that drove.")] = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Processes.")] = 1,
    json_file: JsonOption = None,
) -> None:
    """Play recordings through the same runtime and say where it first differs.

    Exit code 0: identical or within the tolerances; 1: it differs; 2: something could not be read. With --policy only
    what was decided is compared with what that one would have decided.
    """
    check_json_target(json_file)
    files = found_in(recordings)
    span = WHOLE if to_s is None and from_s == 0.0 else Span(from_s, to_s if to_s is not None else WHOLE.to_s)
    if span.to_s < span.from_s:
        raise InputError(f"--to {span.to_s:g}: must not be before --from {span.from_s:g}")
    console = Console(stderr=json_file == STANDARD_OUTPUT, soft_wrap=True, highlight=False)
    work = partial(_answer, span=span, force=force, policy=policy)
    answers: list[Answer] = []
    for file, answer in zip(files, _answers(work, files, jobs), strict=True):
        console.print(_line(file, answer), markup=False)
        answers.append(answer)
    read = [one for one in answers if not isinstance(one, str)]
    if json_file is not None:
        write_json(json_file, {"recordings": [one.as_json() for one in read]})
    if len(read) < len(answers):
        raise typer.Exit(UNREADABLE)
    if any(isinstance(one, Compared) and not one.within_tolerance for one in read):
        raise typer.Exit(DIFFERS)


def found_in(places: Sequence[str]) -> list[Path]:
    """Return the recordings that are meant, each once, sorted within a place. Raises InputError for one without any."""
    files: dict[Path, None] = {}
    for place in places:
        path = Path(place)
        found = sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else sorted(map(Path, glob.glob(place)))
        if not found and not glob.has_magic(place) and not path.is_dir():
            found = [path]  # reading it says what is wrong
        if not found:
            raise InputError(f"{place}: no recording there (*{SUFFIX})")
        files |= dict.fromkeys(found)
    return list(files)


def _answers(work: partial[Answer], files: Sequence[Path], jobs: int) -> Iterator[Answer]:
    """Yield what came of each file, in their order."""
    if jobs == 1 or len(files) == 1:
        yield from map(work, files)
        return
    with ProcessPoolExecutor(min(jobs, len(files)), multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(work, files)


def _answer(file: Path, span: Span, force: bool, policy: str | None) -> Answer:
    try:
        return replay(file, span, force=force) if policy is None else consult(file, policy, span)
    except OnboardError as error:
        return f"error: {error}"


def _line(file: Path, found: Answer) -> str:
    if isinstance(found, str):
        return found
    if isinstance(found, Opinion):
        return f"{file}: {found.policy} would have done the same in {found.same:,} of {found.decisions:,} decisions"
    what = f"{found.ticks:,} ticks, {found.decisions:,} decisions, {found.fused:,} scans fused again"
    if found.skipped:
        what += f", {found.skipped:,} ticks not comparable"
    if found.first is None:
        return f"{file}: identical, {what}"
    how = "within tolerance" if found.within_tolerance else "differs"
    return f"{file}: {how}, {what}, {_first(found.first)}"


def _first(found: Found) -> str:
    one = found.difference
    place = (
        f"first difference at tick {found.tick} ({found.t_s:.3f} s), stage {one.stage}, field {one.field}{one.place}"
    )
    return f"{place}, recorded {_shown(one.recorded)}, now {_shown(one.replayed)}"


def _shown(value: object) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
