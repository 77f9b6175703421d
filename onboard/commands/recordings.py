"""`onboard repair` completes recordings after a crash; `onboard keep` marks those that must stay."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.recording.repair import Repair
from onboard.recording.repair import repair as repair_file
from onboard.recording.retention import mark
from onboard.values.errors import InputError, OnboardError


def repair(
    files: Annotated[list[Path], typer.Argument(help="Unfinished recordings (.mcap).")], json_file: JsonOption = None
) -> None:
    """Repair recordings that a crash or a power cut left unfinished."""
    check_json_target(json_file)
    done = [_repaired(file) for file in files]
    write_json(json_file, [{**asdict(one), "path": str(one.path)} for one in done])
    if json_file != STANDARD_OUTPUT:
        sys.stdout.writelines(f"{_repair_line(one)}\n" for one in done if not one.problem)
    problems = [one.problem for one in done if one.problem]
    if problems:
        raise OnboardError("; ".join(problems))


def _repaired(file: Path) -> Repair:
    try:
        return repair_file(file)
    except OSError as error:
        return Repair(file, finished=False, problem=f"{file}: cannot be repaired: {error.strerror}")
    except InputError as error:
        return Repair(file, finished=False, problem=str(error))


def _repair_line(one: Repair) -> str:
    if one.finished:
        return f"{one.path}: already complete, not changed"
    cut = f", {one.cut_bytes} unreadable bytes at the end cut off" if one.cut_bytes else ""
    return f"{one.path}: completed, {one.messages} messages{cut}"


def keep(
    files: Annotated[list[Path], typer.Argument(help="Recordings (.mcap).")],
    release: Annotated[bool, typer.Option("--release", help="Remove the mark.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Protect recordings from deletion by the disk budget."""
    check_json_target(json_file)
    for file in files:
        mark(file, keep=not release)
    write_json(json_file, {"kept": not release, "files": [str(file) for file in files]})
