"""The command `onboard-hil update-reference`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hil.replay.compare import Comparison
from hil.replay.reference import accept
from hil.replay.summary import first_line
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json


def update_reference(
    references: Annotated[list[Path], typer.Argument(metavar="REFERENCE...", help="Reference recordings.")],
    reason: Annotated[str, typer.Option("--reason", help="Reason for the change: the line for the changelog.")],
    json_file: JsonOption = None,
) -> None:
    """Update replay references to the output of today's runtime; identical ones stay unchanged."""
    check_json_target(json_file)
    stream = sys.stderr if json_file == STANDARD_OUTPUT else sys.stdout
    moved = {}
    for file in references:
        found = accept(file, reason)
        moved[str(file)] = not found.identical
        stream.write("\n".join(_lines(file, found)) + "\n")
    if json_file is not None:
        write_json(json_file, {"moved": moved, "reason": reason})
    if any(moved.values()):
        stream.write(f"Commit it with the change that caused it, and with this line in CHANGELOG.md:\n- {reason}\n")


def _lines(file: Path, found: Comparison) -> list[str]:
    if found.first is None:
        return [f"{file}: identical, not changed"]
    what = f"{found.ticks:,} ticks, {found.same:,} of {found.decisions:,} actions the same"
    return [
        f"{file}: moved, {what}, {first_line(found.first)}",
        *(
            f"  {name}: {field.values:,} values differ, the largest difference is {field.worst:.6g}, "
            f"{field.outside:,} by more than tolerated"
            for name, field in found.fields.items()
        ),
    ]
