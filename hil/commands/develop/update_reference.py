"""The command `onboard-hil update-reference`.

A reference is a recording with an accepted outcome. It holds only the messages that a replay needs, and its name in the
session's record. An update rewrites what the runtime produced. Inputs, images, times, and the scans between decisions
stay byte for byte.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from mcap.reader import SeekingReader
from mcap.records import Channel, Message, Schema

from hil.recordings.recording import KEYFRAME, MOVED, TICK, Recording, open_recording
from hil.recordings.ticks import SCANS, ticks_of, topics_of
from hil.replay.compare import Comparison
from hil.replay.player import Player
from hil.replay.recorded_policy import Policies, recorded_building, recorded_plant, recorded_zones
from hil.replay.replay import replay
from hil.replay.summary import first_line
from onboard import __version__
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.drivers.dds.ros_types import LaserScan, String, from_cdr, to_cdr
from onboard.drivers.dds.tick_types import TickMessage
from onboard.recording.mcap_file import MessageType, RecordFile
from onboard.recording.state_snapshot import encode
from onboard.recording.tick_message import tick_message
from onboard.state import TickRecord
from onboard.system.log import unlogged
from onboard.values.errors import InputError, OnboardError
from onboard.values.messages import Scan


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


REFERENCE, ACCEPTED = "reference", "accepted"
"""Keys of the session's record: the reference's name, and one line for the reason of each update."""

Copied = tuple[Schema, Channel, Message]
"""A message of a file, byte for byte, with its channel."""


def make_reference(source: Path, target: Path, name: str) -> None:
    """Write a reference from a whole recording of one session. Raises InputError, OnboardError."""
    with open_recording(source) as recording:
        only = topics_of(recording.sessions[0])
        kept = (message for message in _messages(source) if recording.name_of(message[1].id) in only)
        _write(target, {**recording.session, REFERENCE: name, ACCEPTED: ""}, kept)
    _demand_identical(target)


def accept(file: Path, reason: str) -> Comparison:
    """Update a reference to today's runtime and return the differences. An identical reference is not written.

    reason: one line, stored in the file
    Raises InputError for a file that is no reference, ConfigError, EngineError, or OnboardError if it cannot be
    written; the file is then unchanged.
    """
    _check_reason(reason)
    with open_recording(file) as recording:
        if REFERENCE not in recording.session or len(recording.sessions) > 1:
            raise InputError(f"{file}: not a reference, so it is not moved")
    found = replay(file)
    if found.skipped:
        raise InputError(f"{file}: {found.skipped} of its ticks cannot be played, so it is not moved")
    if found.identical:
        return found
    beside = file.with_name(f".{file.name}.new")
    try:
        with open_recording(file) as recording, unlogged():
            reasons = "\n".join(filter(None, [recording.session.get(ACCEPTED, ""), reason]))
            _write(beside, {**recording.session, ACCEPTED: reasons}, _moved(file, recording))
        _demand_identical(beside)
        os.replace(beside, file)
    except OSError as error:
        raise OnboardError(f"{file}: cannot be written: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)
    return found


def _check_reason(reason: str) -> None:
    if not reason.strip() or "\n" in reason:
        raise InputError("--reason: one line is needed, for the changelog")


def _demand_identical(file: Path) -> None:
    found = replay(file)
    if not found.identical or found.skipped:
        raise InputError(f"{file}: what was written does not replay identically, so it is no reference")


def _replayed(file: Path, recording: Recording) -> Mapping[int, TickRecord]:
    """Return the replayed ticks by slot, with today's decisions applied and the recorded times."""
    session = recording.sessions[0]
    plant = recorded_plant(file, session)
    with closing(Policies()) as policies:
        policy = policies.that_drove(str(file), session, plant, force=False)
        zones, building = recorded_zones(file, session), recorded_building(file, session)
        player = Player(session.config, session.mounts, plant, policy, own_actions=True, zones=zones, building=building)
        return {
            tick.slot.number: replace(
                player.play(tick), inputs=tick.inputs, sent_ns=tick.sent_ns, stage_ns=tick.stage_ns
            )
            for tick in ticks_of(recording)
        }


def _moved(file: Path, recording: Recording) -> Iterator[Copied]:
    """Yield the messages with the values that today's runtime produces."""
    ticks = _replayed(file, recording)
    waiting: list[Copied] = []
    newest: TickRecord | None = None
    for copied in _messages(file):
        message, name = copied[2], recording.name_of(copied[1].id)
        if name == KEYFRAME:
            after = None if newest is None else newest.after
            if after is not None and after.pilot.pending is None:
                message.data = to_cdr(String(encode(after)))
                yield copied
            continue
        waiting.append(copied)
        if name != TICK:
            continue
        newest = ticks[from_cdr(TickMessage, message.data).slot]
        for one in waiting:
            _update(one[2], recording.name_of(one[1].id), newest)
            yield one
        waiting = []
    yield from waiting


def _update(message: Message, name: str, tick: TickRecord) -> None:
    """Change the tick and its scans to today's values; other messages stay as they are."""
    if name == TICK:
        message.data = to_cdr(tick_message(tick))
    elif name in (*SCANS, MOVED):
        scan: Scan | None = getattr(tick, name)
        if scan is None:
            return
        recorded = from_cdr(LaserScan, message.data)
        ranges_m = np.where(scan.seen, scan.ranges_m, np.float32(np.nan))
        if not np.array_equal(ranges_m, np.asarray(recorded.ranges, np.float32), equal_nan=True):
            message.data = to_cdr(replace(recorded, ranges=ranges_m.tolist()))


def _messages(file: Path) -> Iterator[Copied]:
    """Yield all messages of a recording unchanged."""
    with file.open("rb") as stream:
        for schema, channel, message in SeekingReader(stream).iter_messages(log_time_order=False):
            if schema is not None:
                yield schema, channel, message


def _write(file: Path, session: Mapping[str, str], messages: Iterable[Copied]) -> None:
    """Write a recording. Raises OSError."""
    file.unlink(missing_ok=True)
    target = RecordFile(file, session, f"onboard {__version__}")
    for number, (schema, channel, message) in enumerate(messages):
        kind = MessageType(schema.name, schema.data.decode())
        target.add(channel.topic, kind, message.data, message.log_time, number)
    target.finish()
