"""Make a moving picture (WebP) of a drive from a recording: the scan, walls as they were seen, path, arc, goal, state.

    moving_picture.py RECORDING PICTURE.webp

docs/drive.webp is that of the recording of `onboard-hil demo`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from onboard.navigation.mission import drives
from onboard.perception import collision
from onboard.recording.scene import arc, outline
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError, OnboardError
from onboard.values.geometry import compose
from onboard.values.messages import Pose
from onboard.values.reasons import TABLE

WIDTH, HEIGHT, CAPTION = 640, 400, 34
FINE = 2
"""Drawn so much larger, then made smaller: smooth lines."""
EDGE_M = 1.5
STEP_S, SHOWN_S = 0.25, 0.1
"""Time of the drive between two frames, and for which a frame is shown: the picture runs 2.5 times as fast."""
LAST_S = 2.0
MOST_BYTES = 3_000_000
MOST_WALLS = 20_000
BACK, INK, WALL, SEEN, BLIND, PATH, ARC, GOAL = (
    "#f7f7f5", "#1b1b1b", "#b6bac0", "#b3141d", "#dcdee1", "#7a8aa0", "#1a56b0", "#12703a",
)  # fmt: skip

Points = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Frame:
    """What a frame shows, in the world. seen: (n, 2) returns of the scan"""

    at_s: float
    pose: Pose
    seen: Points
    blind: Sequence[tuple[float, float]]
    arc: Points
    text: str


def world(pose: Pose, points: Points) -> Points:
    """Return (n, 2) points of a frame at `pose` in the world."""
    c, s = math.cos(pose.yaw_rad), math.sin(pose.yaw_rad)
    return points @ np.array([[c, s], [-s, c]]) + (pose.x_m, pose.y_m)


def frame_of(tick: TickRecord, began_ns: int) -> Frame:
    """Return the frame of a tick."""
    correction = tick.map_from_odom or Pose(0.0, 0.0, 0.0)
    pose = compose(correction, tick.odometry.pose)
    ahead = np.array([(one.x_m, one.y_m) for one in arc(tick)])
    at_s = (tick.slot.start_ns - began_ns) / NS_PER_S
    reason = "" if tick.reason in ("none", "idle") else f"   {TABLE[tick.reason].general.partition(',')[0]}"
    text = f"{at_s:5.1f} s   {tick.state}   {tick.command.v_mps:.2f} m/s{reason}"
    sectors = collision.blind_sectors_deg(tick.scan.seen)
    seen = world(pose, collision.obstacles(tick.scan))
    return Frame(at_s, pose, seen, sectors, world(pose, ahead), text)


def drive_of(recording: Path) -> tuple[list[Frame], Points, Points]:
    """Return the frames of a drive, (n, 2) goals and the footprint's outline. Raises InputError without a drive."""
    frames: list[Frame] = []
    goals: list[tuple[float, float]] = []
    began_ns = due_ns = 0
    with open_recording(recording) as opened:
        footprint = outline(opened.config.robot.footprint)
        last: TickRecord | None = None
        for tick in ticks_of(opened):
            for goal in tick.inputs.goals:
                correction = tick.map_from_odom or Pose(0.0, 0.0, 0.0)
                frames_of = {
                    opened.config.dds.map_frame: Pose(0.0, 0.0, 0.0),
                    opened.config.dds.odom_frame: correction,
                    opened.config.dds.base_frame: compose(correction, tick.odometry.pose),
                }
                place = compose(frames_of.get(goal.frame_id, correction), goal.pose)
                goals.append((place.x_m, place.y_m))
            if not began_ns and drives(tick.state):
                began_ns = due_ns = tick.slot.start_ns
            if began_ns and tick.slot.start_ns >= due_ns:
                frames.append(frame_of(tick, began_ns))
                due_ns += round(STEP_S * NS_PER_S)
            if began_ns and not drives(tick.state):
                last = tick
                break
        if last is not None:
            frames.append(frame_of(last, began_ns))
    if not frames:
        raise InputError(f"{recording}: there is no drive in it")
    return frames, np.array(goals[-1:]).reshape(-1, 2), footprint


class Painter:
    """Paints frames; all have one scale and one middle."""

    def __init__(self, frames: Sequence[Frame], goals: Points, footprint: Points) -> None:
        self._goals, self._footprint = goals, footprint
        path = np.array([(frame.pose.x_m, frame.pose.y_m) for frame in frames])
        shown = np.concatenate([path, goals])
        low, high = shown.min(axis=0) - EDGE_M, shown.max(axis=0) + EDGE_M
        self._middle = (low + high) / 2.0
        self._scale = FINE * min(WIDTH / (high - low)[0], (HEIGHT - CAPTION) / (high - low)[1])
        self._walls = np.empty((0, 2))
        self._path: list[tuple[float, float]] = []
        self._font = ImageFont.load_default(size=15 * FINE)

    def screen(self, points: Points) -> list[tuple[float, float]]:
        """Return pixels of places in the world."""
        at = (points - self._middle) * self._scale * (1.0, -1.0)
        at += (FINE * WIDTH / 2.0, FINE * (HEIGHT + CAPTION) / 2.0)
        return [(float(x), float(y)) for x, y in at]

    def paint(self, frame: Frame) -> Image.Image:
        """Return the picture of a frame; walls and path of the frames before stay."""
        image = Image.new("RGB", (FINE * WIDTH, FINE * HEIGHT), BACK)
        pen = ImageDraw.Draw(image)
        self._walls = np.unique(np.concatenate([self._walls, np.round(frame.seen, 1)]), axis=0)[:MOST_WALLS]
        self._path.append((frame.pose.x_m, frame.pose.y_m))
        (x, y), reach = self.screen(np.array([[frame.pose.x_m, frame.pose.y_m]]))[0], EDGE_M * self._scale
        for first, last in frame.blind:
            turned = math.degrees(frame.pose.yaw_rad)
            pen.pieslice((x - reach, y - reach, x + reach, y + reach), -(turned + last), -(turned + first), fill=BLIND)
        self._dots(pen, self._walls, WALL, 2 * FINE)
        self._dots(pen, frame.seen, SEEN, 1.5 * FINE)
        pen.line(self.screen(np.array(self._path)), PATH, 3 * FINE)
        for gx, gy in self.screen(self._goals):
            size = 8 * FINE
            pen.ellipse((gx - size, gy - size, gx + size, gy + size), outline=GOAL, width=3 * FINE)
        pen.polygon(self.screen(world(frame.pose, self._footprint)), fill="#ffffff", outline=INK, width=2 * FINE)
        pen.line(self.screen(frame.arc), ARC, 4 * FINE)
        pen.rectangle((0, 0, FINE * WIDTH, FINE * CAPTION), fill="#ffffff")
        pen.text((12 * FINE, 8 * FINE), frame.text, INK, self._font)
        return image.resize((WIDTH, HEIGHT), Image.Resampling.LANCZOS)

    def _dots(self, pen: ImageDraw.ImageDraw, points: Points, colour: str, size: float) -> None:
        for x, y in self.screen(points):
            pen.rectangle((x - size, y - size, x + size, y + size), fill=colour)


def make(recording: Path, picture: Path) -> int:
    """Write the picture; return its number of frames. Raises InputError."""
    frames, goals, footprint = drive_of(recording)
    painter = Painter(frames, goals, footprint)
    first, *others = [painter.paint(frame) for frame in frames]
    times = [round(1e3 * SHOWN_S)] * len(others) + [round(1e3 * LAST_S)]
    first.save(picture, save_all=True, append_images=others, duration=times, loop=0, quality=70, method=4)
    if (size := picture.stat().st_size) > MOST_BYTES:
        raise InputError(f"{picture}: {size} bytes, limit {MOST_BYTES}: take a shorter drive")
    return len(frames)


if __name__ == "__main__":
    try:
        count = make(Path(sys.argv[1]), Path(sys.argv[2]))
    except OnboardError as error:
        sys.exit(f"error: {error}")
    sys.stdout.write(f"{sys.argv[2]}: {count} frames, {Path(sys.argv[2]).stat().st_size / 1e3:.0f} kB\n")
