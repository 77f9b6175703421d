"""The command `onboard-hil report`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hil.recordings.locate import RecordingGroup, completed, found_in, local, takes_of
from hil.recordings.recording import session_name
from hil.report.load import read_timelines
from hil.report.page import write_page
from hil.report.timeline import Timeline
from hil.report.turn_backs import turn_backs
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.values.errors import InputError, OnboardError, naming

PAGE_SUFFIX = ".html"
BYTES_PER_MB = 1e6
NAME_AT_MOST = 80
"""Largest number of characters of a session's name in the file name of its page."""
CUT_OFF = ", from the rest of a recording that was cut off"


def report_command(
    recordings: Annotated[
        list[str], typer.Argument(metavar="RECORDING...", help="Files, folders, patterns or URLs (extra `remote`).")
    ],
    out: Annotated[Path, typer.Option("--out", help="HTML file, or a folder for one page per session.")],
    plans: Annotated[
        bool, typer.Option("--plans", help="Replay a drive of `reactive`; show where its planned path turned back.")
    ] = False,
    json_file: JsonOption = None,
) -> None:
    """Write one self-contained HTML page of a run: what happened and why, commands, times, and one picture of the path.

    Foxglove shows the same recording over time and in 3-D.

    Of several recordings those that can be read have their pages, and what is wrong with the others is said.
    """
    check_json_target(json_file)
    takes = takes_of(found_in(recordings))
    written: list[str] = []
    console, wrong = (
        Console(stderr=json_file == STANDARD_OUTPUT, soft_wrap=True, highlight=False),
        Console(stderr=True, soft_wrap=True, highlight=False),
    )
    with _pages(out, len(takes)) as pages:
        failed: list[OnboardError] = []
        for take in takes:
            try:
                timelines, cut_off = timelines_of(take)
                turned = turn_backs(take) if plans else None
                for page, timeline in zip(pages.of(timelines), timelines, strict=True):
                    name = session_name(timeline.session)
                    write_page(page, timeline, turned=None if turned is None else turned.get(name, []))
                    written.append(str(page))
                    size = f"{page.stat().st_size / BYTES_PER_MB:.1f} MB"
                    console.print(f"{page}: {size}{CUT_OFF if cut_off else ''}", markup=False)
            except InputError as error:
                failed.append(error)
    write_json(json_file, {"pages": written, "failed": [str(one) for one in failed]})
    for one in failed[:-1]:
        wrong.print(f"error: {one}", markup=False)
    if failed:
        raise failed[-1]


def timelines_of(take: RecordingGroup) -> tuple[list[Timeline], bool]:
    """Return the sessions of a take, and whether a file was cut off. The sessions then hold the readable part.

    Raises InputError that names the file as the operator named it.
    """
    with contextlib.ExitStack() as held:
        copies = [held.enter_context(local(source)) for source in take.sources]
        whole = [held.enter_context(completed(copy)) for copy in copies]
        try:
            return read_timelines(whole), whole != copies
        except InputError as error:
            message = str(error)
            for source, path in zip(take.sources, whole, strict=True):
                message = message.replace(str(path), source)
            raise InputError(message) from error


class Pages:
    """Paths of the pages: a single file, or a folder in which each page has a unique name."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._taken: set[str] = set()

    def of(self, timelines: Sequence[Timeline]) -> list[Path]:
        """Return the path of each session's page: `out` itself, or a file in the folder `out`.

        In a folder, a page is named like the first file of its session. If that file holds several sessions, the name
        of the session follows. Raises InputError if `out` is a page and there are several sessions.
        """
        if self._out.suffix == PAGE_SUFFIX:
            _check_one(self._out, len(timelines))
            return [self._out]
        return [self._out / self._named(timeline, alone=len(timeline.sessions) == 1) for timeline in timelines]

    def _named(self, timeline: Timeline, *, alone: bool) -> str:
        stem = timeline.files[0].stem
        wanted = stem if alone else f"{stem}-{_plain(session_name(timeline.session))}"
        name, copies = wanted, 1
        while name in self._taken:
            copies += 1
            name = f"{wanted}-{copies}"
        self._taken.add(name)
        return f"{name}{PAGE_SUFFIX}"


def _plain(name: str) -> str:
    """Return a name from a recording as part of a file name: cut to `NAME_AT_MOST`, other characters replaced by _."""
    return "".join(one if one.isascii() and (one.isalnum() or one in "-_") else "_" for one in name[:NAME_AT_MOST])


def _check_one(out: Path, sessions: int) -> None:
    if sessions > 1:
        raise InputError(f"--out {out}: a page covers one session, not {sessions}: name a folder instead")


@contextlib.contextmanager
def _pages(out: Path, takes: int) -> Iterator[Pages]:
    """Yield the paths of the pages. Make the folder, and remove new folders again if they stay empty.

    Raises InputError if `out` is a page and there are several takes, OnboardError if the folder cannot be made.
    """
    if out.suffix == PAGE_SUFFIX:
        _check_one(out, takes)
        yield Pages(out)
        return
    made = [folder for folder in (out, *out.parents) if not folder.exists()]
    with naming(out, "created", OnboardError):
        out.mkdir(parents=True, exist_ok=True)
    try:
        yield Pages(out)
    finally:
        for folder in made:
            with contextlib.suppress(OSError):
                folder.rmdir()
