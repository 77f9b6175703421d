"""Key frames of a recording: the places where the base stood, each with its odometry and one depth image a camera."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from onboard.config.mounts import Mounts
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import between
from onboard.values.messages import DepthFrame, Pose

REST_MPS, REST_RADPS = 0.01, 0.01
"""Below both speeds the base stands."""
APART_M, APART_RAD = 0.03, math.radians(3.0)
"""Two key frames are at least one of these apart."""
MOST_IMAGES = 5
"""Images of a camera at one place that are averaged."""
MOST_KEYFRAMES = 200
LEAST_STANDING = 8
"""With fewer standing places the images of a moving base are taken too."""


@dataclass(frozen=True, slots=True)
class KeyFrame:
    """One place. odometry: of the base, odom frame; per_m: camera -> (height, width) 1/depth, 0 for no return [1/m]."""

    odometry: Pose
    per_m: dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True, slots=True)
class Session:
    """What a calibration takes from a recording. day: its date; serials: of its cameras, "" where not stated."""

    keyframes: list[KeyFrame]
    day: date
    serials: dict[str, str]


def read_session(path: Path, guess: Mounts) -> Session:
    """Return the key frames of a recording in the order of time.

    Raises InputError for a file that cannot be read, without depth images, of other cameras than the guess has, or with
    time stamps or poses that make no sense.
    """
    with open_recording(path) as recording:
        _check_cameras(path, recording.mounts, guess)
        ticks = [tick for tick in _checked(path, ticks_of(recording)) if tick.sensed is not None]
        serials = {name: mount.serial for name, mount in recording.mounts.depth.items()}
        wall_ns = int(recording.session.get("wall_minus_monotonic_ns", "0"))
    still = [tick for tick in ticks if _stands(tick)]
    places = _places(still)
    if len(places) < LEAST_STANDING:
        places = _places(ticks)
    if not places:
        raise InputError(f"{path}: no depth images: onboard records them where a decision begins, or in a calibration")
    if len(places) > MOST_KEYFRAMES:
        places = [places[round(at)] for at in np.linspace(0, len(places) - 1, MOST_KEYFRAMES)]
    day = datetime.fromtimestamp((places[0][0].slot.start_ns + wall_ns) / NS_PER_S).astimezone().date()
    return Session([_keyframe(place, guess) for place in places], day, serials)


def _check_cameras(path: Path, recorded: Mounts, guess: Mounts) -> None:
    for name, mount in guess.depth.items():
        other = recorded.depth.get(name)
        if other is None:
            raise InputError(f"{path}: has no camera {name} of {guess.path}, it has {', '.join(recorded.depth)}")
        if (other.width, other.height) != (mount.width, mount.height):
            raise InputError(
                f"{path}: camera {name} is {other.width}x{other.height}, {guess.path} says {mount.width}x{mount.height}"
            )
        if not math.isclose(mount.depth_scale_m, other.depth_scale_m, rel_tol=1e-3):
            raise InputError(
                f"{path}: camera {name} has depth_scale_m {other.depth_scale_m:g}, {guess.path} says "
                f"{mount.depth_scale_m:g}"
            )
        if mount.serial and other.serial and mount.serial != other.serial:
            raise InputError(f"{path}: camera {name} has serial {other.serial}, {guess.path} says {mount.serial}")


def _checked(path: Path, ticks: Iterable[TickRecord]) -> Iterable[TickRecord]:
    """Yield the ticks. Raises InputError for time that runs backward and for poses that are not finite."""
    last_ns = None
    for tick in ticks:
        now_ns, pose = tick.slot.start_ns, tick.odometry.pose
        if last_ns is not None and now_ns <= last_ns:
            raise InputError(f"{path}: tick {tick.slot.number}: time stamps out of order: {now_ns} after {last_ns} ns")
        if not all(map(math.isfinite, (pose.x_m, pose.y_m, pose.yaw_rad))):
            raise InputError(f"{path}: tick {tick.slot.number}: odometry is not finite")
        last_ns = now_ns
        yield tick


def _stands(tick: TickRecord) -> bool:
    twist = tick.odometry.twist
    return abs(twist.v_mps) < REST_MPS and abs(twist.w_radps) < REST_RADPS


def _places(ticks: Sequence[TickRecord]) -> list[list[TickRecord]]:
    """Return the ticks, gathered where the base has hardly moved."""
    places: list[list[TickRecord]] = []
    for tick in ticks:
        if places:
            moved = between(places[-1][0].odometry.pose, tick.odometry.pose)
            if math.hypot(moved.x_m, moved.y_m) < APART_M and abs(moved.yaw_rad) < APART_RAD:
                places[-1].append(tick)
                continue
        places.append([tick])
    return places


def _keyframe(place: Sequence[TickRecord], guess: Mounts) -> KeyFrame:
    per_m = {}
    for name, mount in guess.depth.items():
        frames: dict[int, DepthFrame] = {}
        for tick in place:
            frame = tick.inputs.depth.get(name)
            if frame is not None and frame.depth.size and len(frames) < MOST_IMAGES:
                frames[frame.number] = frame
        if frames:
            stack = np.stack([frame.depth for frame in frames.values()]) * np.float32(mount.depth_scale_m)
            seen = stack > 0
            total = np.divide(1.0, stack, out=np.zeros_like(stack), where=seen).sum(axis=0)
            per_m[name] = np.asarray(total / np.maximum(seen.sum(axis=0), 1), np.float32)
    return KeyFrame(place[0].odometry.pose, per_m)
