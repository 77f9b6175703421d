"""The command `onboard-hil report`."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from hil.maps import map_names
from hil.replay.sources import Take, found_in, local, takes_of
from hil.report.page import write_report
from onboard.errors import InputError, OnboardError

PAGE_SUFFIX = ".html"
BYTES_PER_MB = 1e6
MapUnderOption = Annotated[
    str | None,
    typer.Option("--map", help=f"Drawn under the path: {', '.join(map_names())}, or a .yaml, .json or mesh file."),
]


def report_command(
    recordings: Annotated[
        list[str], typer.Argument(metavar="RECORDING...", help="Files, folders, patterns or URLs (extra `remote`).")
    ],
    out: Annotated[Path, typer.Option("--out", help="The page (.html); else a folder, for a page of each session.")],
    map_name: MapUnderOption = None,
) -> None:
    """Write one self-contained HTML page of a run: its path, scans, commands, times and what happened."""
    takes = takes_of(found_in(recordings))
    console = Console(soft_wrap=True, highlight=False)
    for page, take in zip(pages_for(out, takes), takes, strict=True):
        with contextlib.ExitStack() as held:
            files = [held.enter_context(local(source)) for source in take.sources]
            write_report(page, files, map_name=map_name)
        console.print(f"{page}: {page.stat().st_size / BYTES_PER_MB:.1f} MB", markup=False)


def pages_for(out: Path, takes: Sequence[Take]) -> list[Path]:
    """Return the page of each session: `out` itself, or in the folder `out` one named like the session's first file.

    Raises InputError where one page is asked for several sessions, OnboardError where the folder cannot be made.
    """
    if out.suffix == PAGE_SUFFIX:
        if len(takes) > 1:
            raise InputError(f"--out {out}: a page is about one session, not {len(takes)}: name a folder instead")
        return [out]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OnboardError(f"{out}: cannot be made: {error.strerror or error}") from error
    pages, named = [], Counter[str]()
    for stem in (Path(take.sources[0]).stem for take in takes):
        named[stem] += 1
        pages.append(out / f"{stem}{'' if named[stem] == 1 else f'-{named[stem]}'}{PAGE_SUFFIX}")
    return pages
