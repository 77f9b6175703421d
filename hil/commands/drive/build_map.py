"""The command `onboard-hil map`: a map of a building from the recordings of one drive."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hil.live.dashboard import preparing
from hil.recordings.locate import found_in, takes_of
from hil.recordings.mapping.build import Made, build, write
from hil.recordings.mapping.keyframes import Sample, keyframes
from hil.recordings.recording import open_recording
from hil.recordings.ticks import TickReader, ticks_by_session
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError

GAP_S = 2.0
"""A longer time between two scans, in which the robot moved, is a gap: the map would have a break there."""
MOVED_M = 1.0
SUFFIX = ".yaml"


def map_command(
    recordings: Annotated[list[str], typer.Argument(metavar="RECORDING...", help="Files or a folder of one drive.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE.yaml", help="The map; its images are next to it.")],
) -> None:
    """Make a map of a building from a recorded drive: a pgm and yaml as map_server reads them, and a picture.

    Drive by hand through all rooms, end where you began, and come through corridors both ways.
    """
    if out.suffix != SUFFIX:
        raise InputError(f"--out {out}: must end in {SUFFIX}")
    if not out.parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.parent}")
    takes = takes_of(found_in(recordings))
    if len(takes) != 1:
        raise InputError(f"{takes[1]}: of another session than {takes[0]}; a map is made of one drive")
    frames = keyframes(_samples(takes[0].sources))
    with preparing("the map"):
        made = build(frames)
        files = write(made, out)
    sys.stdout.write(_told(made, len(frames)))
    for file in files:
        sys.stdout.write(f"{file}\n")


def _samples(sources: Sequence[str]) -> Iterator[Sample]:
    """Yield the scans of a drive with the odometry. Raises InputError for a gap, and for a drive without scans."""
    readers: dict[str, TickReader] = {}
    last, count = None, 0
    for source in sources:
        with open_recording(Path(source)) as recording:
            for session in recording.sessions[:1]:
                readers.setdefault(session.name, TickReader(session, any_camera=True))
            for _, tick in ticks_by_session(recording, readers, images=False):
                if tick.scan.stamp_ns == (0 if last is None else last.scan.stamp_ns) or not tick.scan.seen.any():
                    continue
                if last is not None:
                    silent_s = (tick.scan.stamp_ns - last.scan.stamp_ns) / NS_PER_S
                    a, b = last.odometry.pose, tick.odometry.pose
                    if silent_s > GAP_S and np.hypot(a.x_m - b.x_m, a.y_m - b.y_m) > MOVED_M:
                        raise InputError(
                            f"{source}: no scan for {silent_s:.1f} s while the robot drove (limit {GAP_S:g} s)"
                        )
                last, count = tick, count + 1
                yield Sample(tick.odometry.pose, np.where(tick.scan.seen, tick.scan.ranges_m, np.float32(np.nan)))
    if not count:
        raise InputError(f"{sources[0]}: holds no scan")


def _told(made: Made, count: int) -> str:
    rows, columns = made.grid.percent.shape
    cell_m, closed = made.grid.cell_m, len(made.closures)
    text = f"{columns * cell_m:.1f} m x {rows * cell_m:.1f} m from {count} keyframes, {closed} loop closures\n"
    if made.unsure:
        text += (
            f"unsure: {made.unsure} times the scans did not determine the motion, so it is that of the wheels alone\n"
        )
    if not closed:
        text += "unsure: no loop was closed; drive through a place a second time, in the same direction\n"
    return text
