"""Reference runs: recordings with an accepted outcome, and their update to today's runtime.

A reference holds only the messages that a replay needs, and its name in the session's record. An update rewrites what
the runtime produced. Inputs, images, times, and the scans between decisions stay byte for byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from mcap.reader import SeekingReader
from mcap.writer import CompressionType, Writer

from hil.recordings.recording import KEYFRAME, TICK, Recording, open_recording
from hil.recordings.ticks import SCANS, ticks_of, topics_of
from hil.replay.compare import Compared
from hil.replay.compared_fields import STAGES
from hil.replay.player import Player
from hil.replay.recorded_policy import Policies, recorded_plant, recorded_zones
from hil.replay.replay import replay
from onboard import __version__
from onboard.drivers.dds.ros_types import LaserScan, String, from_cdr, to_cdr
from onboard.drivers.dds.tick_types import Tick
from onboard.recording.mcap_file import CHUNK_BYTES, SESSION
from onboard.recording.state_snapshot import encode
from onboard.recording.tick_message import tick_message
from onboard.state import TickRecord
from onboard.system.log import unlogged
from onboard.values.errors import InputError, OnboardError
from onboard.values.messages import Scan

REFERENCE, ACCEPTED = "reference", "accepted"
"""Keys of the session's record: the reference's name, and one line for the reason of each update."""
PRODUCED = (*(name for _, names in STAGES for name in names), "scan_stamp_ns", "limits_scan_stamp_ns")


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a recording. topic: on the wire; name: topic name as in `Recording.read`."""

    topic: str
    schema: str
    definition: bytes
    time_ns: int
    name: str
    data: bytes


def make_reference(source: Path, target: Path, name: str) -> None:
    """Write a reference from a whole recording of one session. Raises InputError, OnboardError."""
    with open_recording(source) as recording:
        only = topics_of(recording.config, recording.mounts)
        kept = [one for one in _messages(source, recording) if one.name in only]
        _write(target, {**recording.session, REFERENCE: name, ACCEPTED: ""}, kept)
    _demand_identical(target)


def accept(file: Path, reason: str) -> Compared:
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
            moved = list(_moved(_messages(file, recording), _played(file, recording)))
            _write(beside, {**recording.session, ACCEPTED: reasons}, moved)
        _demand_identical(beside)
        os.replace(beside, file)
    except OSError as error:
        raise OnboardError(f"{file}: cannot be written: {error.strerror or error}") from error
    finally:
        beside.unlink(missing_ok=True)
    return found


def _check_reason(reason: str) -> None:
    if not reason.strip() or "\n" in reason:
        raise InputError("--reason: one line, as it stands in the changelog")


def _demand_identical(file: Path) -> None:
    found = replay(file)
    if not found.identical or found.skipped:
        raise InputError(f"{file}: what was written does not replay identically, so it is no reference")


def _played(file: Path, recording: Recording) -> Mapping[int, TickRecord]:
    """Return the replayed ticks by slot, with today's decisions in force."""
    session = recording.sessions[0]
    plant = recorded_plant(file, session)
    with closing(Policies()) as policies:
        policy = policies.that_drove(str(file), session, plant, force=False)
        zones = recorded_zones(file, session)
        player = Player(session.config, session.mounts, plant, policy, own_actions=True, zones=zones)
        return {tick.slot.number: player.play(tick).replayed for tick in ticks_of(recording)}


def _moved(messages: Iterable[Message], played: Mapping[int, TickRecord]) -> Iterator[Message]:
    """Yield the messages with the values that today's runtime produces."""
    waiting: list[Message] = []
    newest: TickRecord | None = None
    for message in messages:
        if message.name == KEYFRAME:
            after = None if newest is None else newest.after
            if after is not None and after.pilot.pending is None:
                yield replace(message, data=to_cdr(String(encode(after))))
            continue
        waiting.append(message)
        if message.name != TICK:
            continue
        recorded = from_cdr(Tick, message.data)
        newest = played[recorded.slot]
        yield from (_again(one, recorded, newest) for one in waiting)
        waiting = []
    yield from waiting


def _again(message: Message, recorded_tick: Tick, played: TickRecord) -> Message:
    if message.name == TICK:
        now = tick_message(played)
        same = replace(recorded_tick, **{name: getattr(now, name) for name in PRODUCED})
        return replace(message, data=to_cdr(same))
    if message.name in SCANS:
        scan: Scan = getattr(played, message.name)
        recorded = from_cdr(LaserScan, message.data)
        ranges_m = np.where(scan.seen, scan.ranges_m, np.float32(np.nan))
        if not np.array_equal(ranges_m, np.asarray(recorded.ranges, np.float32), equal_nan=True):
            return replace(message, data=to_cdr(replace(recorded, ranges=ranges_m.tolist())))
    return message


def _messages(file: Path, recording: Recording) -> Iterator[Message]:
    """Yield all messages of a recording unchanged."""
    with file.open("rb") as stream:
        for schema, channel, message in SeekingReader(stream).iter_messages(log_time_order=False):
            if schema is not None:
                name = recording.name_of(channel.id)
                yield Message(channel.topic, schema.name, schema.data, message.log_time, name, message.data)


def _write(file: Path, session: Mapping[str, str], messages: Iterable[Message]) -> None:
    """Write a recording. Raises OSError."""
    with file.open("wb") as stream:
        writer = Writer(stream, chunk_size=CHUNK_BYTES, compression=CompressionType.ZSTD)
        writer.start(profile="ros2", library=f"onboard {__version__}")
        writer.add_metadata(SESSION, dict(session))
        schemas: dict[tuple[str, bytes], int] = {}
        channels: dict[str, int] = {}
        for number, one in enumerate(messages):
            kind = one.schema, one.definition
            if kind not in schemas:
                schemas[kind] = writer.register_schema(one.schema, "ros2msg", one.definition)
            if one.topic not in channels:
                channels[one.topic] = writer.register_channel(one.topic, "cdr", schemas[kind])
            writer.add_message(channels[one.topic], one.time_ns, one.data, one.time_ns, number)
        writer.finish()
