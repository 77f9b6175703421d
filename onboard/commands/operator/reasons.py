"""`onboard reasons`: the table of all reasons, as a screen, as JSON, or as the page `docs/reasons.md`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from onboard.commands.cli import (
    STANDARD_OUTPUT,
    JsonOption,
    check_json_target,
    markdown_table,
    print_table,
    write_json,
)
from onboard.values import reasons as kinds
from onboard.values.errors import InputError
from onboard.values.reasons import KINDS, TABLE, Row, rows_in

HEADINGS = ("code", "sentence", "what clears it")
INTRODUCTION = """# Reasons

Each reason has a stable code, a sentence, and what clears it. A name in brackets is a detail.
This page is the output of `onboard reasons --markdown`.

| you have | the code is in |
|---|---|
| a running robot | `onboard status`, below each part; `/diagnostics`, the values `code` and `clears` of each row |
| the log | the field `code`: `journalctl -u onboard ONBOARD_CODE=goal_late` |
| a recording | the page of `onboard-hil report` |
| an evaluation | `ends` of `onboard-hil evaluate --json` |
| the text of a state or a message | `onboard reasons "stopped: goal is occupied"` prints its row |

A sentence may follow the topic that it is about. A state may join several sentences by `; `.
"""
SECTIONS = {
    kinds.LIMIT: ("Commands", "What shaped a command: row `command` of `/diagnostics`, `reason` of a recorded tick."),
    kinds.RECOVERY: ("Backing off", "Events of the recovery, in the log and in recordings."),
    kinds.END: ("Ends of a drive", "Behind `stopped:` or `idle:` in `/onboard/state`, as are `e_stop` and odometry."),
    kinds.GOAL: ("Refused goals", "Behind `goal refused:` in `/onboard/state`."),
    kinds.ODOMETRY: ("Odometry", "A refused message, a contradiction or a jump ends the drive."),
    kinds.FIX: ("Localisation", "A refused fix changes nothing; the robot drives on."),
    kinds.INPUT: ("Inputs and the base", "The robot stands for most of them, and drives on when the reason has gone."),
    kinds.CAMERA: ("Cameras", "Such a camera counts as blind."),
    kinds.POLICY: ("Policy", "The robot drives on."),
    kinds.MACHINE: ("Machine and recording", "The robot drives on."),
}  # fmt: skip


def reasons(
    text: Annotated[str, typer.Argument(metavar="[CODE|TEXT]", help="A code, or the text of a state or message.")] = "",
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/reasons.md.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Print why the runtime limits a command, ends a drive or refuses something, and what clears each reason."""
    check_json_target(json_file)
    rows = rows_in(text) if text else tuple(TABLE.values())
    if not rows:
        raise InputError(f"{text!r} is not a reason; `onboard reasons` prints all codes")
    if json_file is not None:
        plain = [{"code": row.code, "kind": row.kind, "sentence": row.sentence, "clears": row.clears} for row in rows]
        write_json(json_file, plain)
    elif markdown:
        sys.stdout.write(page())
    if json_file != STANDARD_OUTPUT and not markdown:
        print_table(_screen(rows))


def page() -> str:
    """Return the page of all reasons, a table for each kind."""
    return "\n".join([INTRODUCTION, *_sections()])


def _sections() -> Iterator[str]:
    for kind in KINDS:
        title, about = SECTIONS[kind]
        rows = [(f"`{row.code}`", row.general, row.clears) for row in TABLE.values() if row.kind == kind]
        yield f"## {title}\n\n{about}\n\n{markdown_table(HEADINGS, rows, len(HEADINGS))}\n"


def _screen(rows: Sequence[Row]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in HEADINGS:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*map(escape, (row.code, row.general, row.clears)))
    return table
