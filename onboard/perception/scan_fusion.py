"""Fused scan (paper 1, Appendix C): newest depth frame of each camera -> 180 ranges round the base."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import numpy.typing as npt

from onboard.config.config import ScanSection
from onboard.config.mounts import Mount, Mounts
from onboard.perception.cliff import FloorView, floor_views, lower_to_drops
from onboard.perception.collision import UNIT
from onboard.perception.fusion_kernel import Projection, lower_ranges, projection_of
from onboard.perception.height_coverage import Coverage, coverage_of
from onboard.perception.kernels import EDGE_M, NEAR_M, bins_of, planar
from onboard.perception.min_range import Heights, joined, seen_heights, sees_from
from onboard.perception.obstacle_memory import REACH_M, Track, followed, pose_at
from onboard.values.errors import InputError
from onboard.values.geometry import IDENTITY, between
from onboard.values.messages import BIN_RAD, BINS, DepthFrame, Inputs, Pose, Scan

Ranges = npt.NDArray[np.float32]


MOST_APART = 5
"""Bins between two returns of neighbouring bins that are filled, seen from another place, are fewer than this."""
NO_SCAN = Scan(0, np.full(BINS, np.inf, dtype=np.float32), np.zeros(BINS, dtype=np.bool_))
"""Stands for a ready-made scan before the first message: blind all around, and soon stale."""


@dataclass(frozen=True, slots=True)
class CameraView:
    """One camera as the fusion needs it.

    projection: what the kernel needs of it; a rig serves one thread at a time
    looks:  (180,) bool, the bins of `looked_at`
    from_m: (180,) of `sees_from`
    heights_m: of `seen_heights`
    floor:  where the camera expects the floor; None without cliff detection
    """

    mount: Mount
    projection: Projection
    looks: npt.NDArray[np.bool_]
    from_m: Ranges
    heights_m: Heights
    floor: FloorView | None = None


@dataclass(frozen=True, slots=True)
class Rig:
    """All depth cameras of a robot and the definition of an obstacle; built once.

    coverage: the heights of the body that all cameras together see ahead; None without cameras, and next to a lidar

    The rig of a ready-made scan (`section.topic`) has no cameras, or those that are fused with it (`mixed`).
    """

    section: ScanSection
    views: Mapping[str, CameraView]
    coverage: Coverage | None = field(compare=False)
    _heights_m: dict[tuple[str, ...], Heights | None] = field(default_factory=dict, compare=False)

    def scan(self, inputs: Inputs, pose: Pose, memory: ScanMemory) -> tuple[Scan, ScanMemory]:
        """Return the newest ready-made scan, or the scan fused from the cameras; see `Scanner`."""
        ready_made = inputs.scans.get(self.section.topic, NO_SCAN)
        if not self.views and self.section.topic:
            return ready_made, memory
        frames = {name: frame for name, frame in inputs.depth.items() if name in self.views}
        if self.section.topic and len(frames) < len(self.views):
            frames = {}  # the stamp stays the last one's
        fused, memory = fuse(frames, inputs.now_ns, pose, memory, self)
        return (mixed(ready_made, fused, self) if self.section.topic else fused), memory

    def moved(self, scan: Scan, memory: ScanMemory, track: Track) -> Scan | None:
        """Return the images of a scan from the place of now (`moved_to_now`); see `Scanner`."""
        if not memory.cameras or not track:
            return None
        return scan if self.section.history > 1 else moved_to_now(scan, memory, track)

    @property
    def looks(self) -> npt.NDArray[np.bool_]:
        """Return (180,) bool, the bins in the view of at least one camera."""
        looks = np.zeros(BINS, np.bool_)
        for view in self.views.values():
            looks |= view.looks
        return looks

    def sees_from(self, seen: npt.NDArray[np.bool_]) -> Ranges:
        """Return (180,) the minimum range [m] from which working cameras see an obstacle; inf where none looks.

        seen: (180,) bool of the scan. A camera works if all its bins are seen: a recording has this information too. A
              failed camera whose bins other cameras cover counts as working.
        """
        at_work = [self.views[name].from_m for name in self._at_work(seen)]
        least_m = np.minimum.reduce(at_work, initial=np.inf) if at_work else np.full(BINS, np.inf, np.float32)
        return np.where(seen & ~self.looks, np.float32(0.0), least_m) if self.section.topic else least_m

    def heights_m(self, seen: npt.NDArray[np.bool_]) -> Heights | None:
        """Return the heights that working cameras see (`min_range.joined`), kept for each set of them. As above."""
        at_work = self._at_work(seen)
        if at_work not in self._heights_m:
            heights_m = joined([self.views[name].heights_m for name in at_work])
            if heights_m is not None and self.section.topic:
                heights_m[~self.looks] = [self.section.z_min_m, self.section.z_max_m] * 2
            self._heights_m[at_work] = heights_m
        return self._heights_m[at_work]

    @property
    def memory_m(self) -> float:
        """Return how far obstacles are remembered: beyond where the cameras lose a height of the body."""
        return REACH_M if self.coverage is None else self.coverage.memory_m(REACH_M)

    def _at_work(self, seen: npt.NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(name for name, view in self.views.items() if not (view.looks & ~seen).any())


@dataclass(frozen=True, slots=True)
class Capture:
    """A frame and the odometry pose at which it was captured."""

    frame: DepthFrame
    pose: Pose


@dataclass(frozen=True, slots=True)
class CameraMemory:
    """The last contribution of one camera: its captures, oldest first, and their ranges in the base frame at `pose`.

    looks: (180,) bool, the bins of `looked_at`
    """

    captures: tuple[Capture, ...]
    pose: Pose
    ranges_m: Ranges
    looks: npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ScanMemory:
    """State of the fusion between ticks.

    stamp_ns: stamp of the last scan; 0 before the first frame
    cameras:  by name; a failed camera is dropped
    track:    (time [ns], odometry pose) of the last ticks, oldest first; empty while `history` is 1
    """

    stamp_ns: int = 0
    cameras: Mapping[str, CameraMemory] = field(default_factory=dict)
    track: Track = ()


class Scanner(Protocol):
    """Where a tick's scan comes from: a `Rig`, or a recording."""

    @property
    def coverage(self) -> Coverage | None:
        """The heights that its cameras see ahead; None without cameras."""

    def scan(self, inputs: Inputs, pose: Pose, memory: ScanMemory) -> tuple[Scan, ScanMemory]:
        """Return the current scan and the memory for the next tick. pose: of the base, by the odometry.

        Raises InputError for a frame that does not fit its mount.
        """

    def moved(self, scan: Scan, memory: ScanMemory, track: Track) -> Scan | None:
        """Return the images of a scan of `scan` as seen from where the base is now; None without an image.

        track: odometry poses of the last ticks, the last of them now
        """


def build_rig(mounts: Mounts, section: ScanSection, height_m: float = math.inf, half_width_m: float = 0.25) -> Rig:
    """Return the robot's rig for `fuse`; takes a fraction of a second, so it is built at load.

    height_m, half_width_m: of the body
    """
    floors = floor_views(mounts.depth, section.drop_m, section.far_m)
    views = {
        name: CameraView(
            mount,
            _projection(mount, section),
            looked_at(mount, section),
            sees_from(mount, section),
            seen_heights(mount, section),
            floors.get(name),
        )
        for name, mount in mounts.depth.items()
    }
    highest_m = min(section.z_max_m, max(height_m, section.z_min_m))
    covered = coverage_of(mounts.depth.values(), section.z_min_m, highest_m, half_width_m) if views else None
    return Rig(section, views, None if section.topic else covered)


def reach_m(rig: Rig) -> float:
    """Return the largest possible range of a scan [m]: a corner pixel at the far limit; without cameras, that limit."""
    reach = 0.0 if rig.views and not rig.section.topic else rig.section.far_m
    for view in rig.views.values():
        mount = view.mount
        u, v = np.meshgrid([0.0, mount.width - 1.0], [0.0, mount.height - 1.0])
        optical = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)]).reshape(3, -1)
        corners = mount.base_from_camera[:3, :3] @ optical * rig.section.far_m
        corners += mount.base_from_camera[:3, 3:]
        reach = max(reach, float(np.hypot(corners[0], corners[1]).max()))
    return reach


def fuse(
    frames: Mapping[str, DepthFrame], now_ns: int, pose: Pose, memory: ScanMemory, rig: Rig
) -> tuple[Scan, ScanMemory]:
    """Return the scan of the newest frames, and the memory for the next tick.

    frames: newest frame of each working camera; a missing camera leaves a blind sector and is dropped
    pose:   of the base at `now_ns`, in a frame without jumps (odometry); not used while `history` is 1

    With `history` N > 1, odometry transforms the last N frames of each camera into the current base frame. Otherwise
    each frame stays in the base frame at its capture. Body boxes and heights always apply at capture. An unchanged
    frame is not computed again, unless `history` is above 1 and the base has moved.

    The scan's stamp is the oldest of the newest frames' stamps. Without a frame it stays the last scan's, so that the
    scan turns stale. Frames are kept by reference and must not be overwritten. Raises InputError for a frame that does
    not fit its mount.
    """
    track = followed(memory.track, now_ns, pose) if rig.section.history > 1 else ()
    ranges_m = np.full(BINS, np.inf, dtype=np.float32)
    seen = np.zeros(BINS, dtype=np.bool_)
    cameras: dict[str, CameraMemory] = {}
    for name, frame in frames.items():
        view = fitting_view(rig, name, frame)
        cameras[name] = _take_frame(view, frame, track, memory.cameras.get(name), rig)
        np.minimum(ranges_m, cameras[name].ranges_m, out=ranges_m)
        seen |= view.looks
    seen |= np.isfinite(ranges_m)
    stamp_ns = min((frame.stamp_ns for frame in frames.values()), default=memory.stamp_ns)
    scan = Scan(stamp_ns, ranges_m, seen, rig.sees_from(seen), heights_m=rig.heights_m(seen), memory_m=rig.memory_m)
    return scan, ScanMemory(stamp_ns, cameras, track)


def mixed(ready_made: Scan, fused: Scan, rig: Rig) -> Scan:
    """Return the scan of lidars and cameras: the nearest range of each bin, with the older stamp of both.

    A lidar or a camera that falls silent makes the whole scan stale, so the robot stands: neither sees what only the
    other one sees.
    """
    seen = ready_made.seen | fused.seen
    ranges_m, stamp_ns = np.minimum(ready_made.ranges_m, fused.ranges_m), min(ready_made.stamp_ns, fused.stamp_ns)
    return Scan(stamp_ns, ranges_m, seen, rig.sees_from(seen), heights_m=rig.heights_m(seen), memory_m=rig.memory_m)


def moved_to_now(scan: Scan, memory: ScanMemory, track: Track) -> Scan:
    """Return a fused scan as seen from where the base is now; each camera's image is of another time.

    The bins that a camera sees turn with its image: an edge that it has not looked at yet is not seen.
    track: odometry poses of the last ticks, the last of them now; a ready-made scan and an empty track change nothing
    """
    then = {name: camera.captures[-1].frame.stamp_ns for name, camera in memory.cameras.items()}
    ways = {name: between(track[-1][1], pose_at(track, stamp_ns)) for name, stamp_ns in then.items() if track}
    if all(way == IDENTITY for way in ways.values()):
        return scan
    ranges_m, seen = np.full(BINS, np.inf, np.float32), np.zeros(BINS, np.bool_)
    for name, way in ways.items():
        np.minimum(ranges_m, moved_ranges(memory.cameras[name].ranges_m, way), out=ranges_m)
        turned = way.yaw_rad / BIN_RAD
        looks = memory.cameras[name].looks
        seen |= np.roll(looks, math.floor(turned)) & np.roll(looks, math.ceil(turned))
    return replace(scan, ranges_m=ranges_m, seen=seen | np.isfinite(ranges_m))


def moved_ranges(ranges_m: Ranges, now_from_then: Pose) -> Ranges:
    """Return ranges from another place. Bins between returns that were neighbours have the smaller range of both."""
    moved = np.full(BINS, np.inf, np.float32)
    hit = np.flatnonzero(np.isfinite(ranges_m))
    to = planar(now_from_then)
    then_x, then_y = (UNIT[hit] * ranges_m[hit, np.newaxis]).T
    x_m, y_m = (row[0] * then_x + row[1] * then_y + row[2] for row in to)
    bins, away_m = bins_of(x_m, y_m), np.hypot(x_m, y_m).astype(np.float32)
    np.minimum.at(moved, bins, away_m)
    apart = (np.roll(bins, -1) - bins) % BINS
    for step in range(1, MOST_APART):
        gap = (np.roll(hit, -1) - hit) % BINS == 1
        gap &= (apart > step) & (apart <= MOST_APART)
        np.minimum.at(moved, (bins[gap] + step) % BINS, np.minimum(away_m, np.roll(away_m, -1))[gap])
    return moved


def fitting_view(rig: Rig, name: str, frame: DepthFrame) -> CameraView:
    """Return the view of the frame's camera. Raises InputError with camera and size if the frame does not fit."""
    view = rig.views.get(name)
    if view is None:
        raise InputError(f"camera {name}: not in the mounts, which have {', '.join(rig.views)}")
    expected = (view.mount.height, view.mount.width)
    if frame.depth.shape != expected:
        size = "x".join(str(side) for side in reversed(frame.depth.shape))
        raise InputError(f"camera {name}: depth image is {size}, its mount says {expected[1]}x{expected[0]}")
    if frame.depth.dtype != np.uint16:
        raise InputError(f"camera {name}: depth image is {frame.depth.dtype}, must be uint16")
    return view


def looked_at(mount: Mount, section: ScanSection) -> npt.NDArray[np.bool_]:
    """Return (180,) bool: the bins in which the camera looks, by geometry alone.

    Each pixel's ray is followed from the near limit while it is inside the height band. Its bin is the bin of its last
    point there: on the floor, at the band's top or at the far limit. Bins that the ray only crosses do not count.
    """
    rotation, position = mount.base_from_camera[:3, :3], mount.base_from_camera[:3, 3]
    v, u = np.indices((mount.height, mount.width)).reshape(2, -1)
    rays = rotation @ np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.size)])
    rising, level = rays[2], np.abs(rays[2]) * section.far_m < EDGE_M
    to_floor, to_ceiling = section.z_min_m - EDGE_M - position[2], section.z_max_m + EDGE_M - position[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        enters = np.where(level, -np.inf, np.minimum(to_floor / rising, to_ceiling / rising))
        leaves = np.where(level, np.inf, np.maximum(to_floor / rising, to_ceiling / rising))
    enters[level & ~(to_floor <= 0.0 <= to_ceiling)] = np.inf
    first, last = np.maximum(enters, NEAR_M), np.minimum(leaves, section.far_m)
    inside = first <= last
    x, y = last[inside] * rays[:2, inside] + position[:2, np.newaxis]
    looks = np.zeros(BINS, dtype=np.bool_)
    looks[bins_of(x, y)] = True
    return looks


def _take_frame(
    view: CameraView, frame: DepthFrame, track: Track, memory: CameraMemory | None, rig: Rig
) -> CameraMemory:
    """Return one camera's memory with its newest frame, and its ranges at the newest pose of the track."""
    history = rig.section.history
    captures = memory.captures if memory is not None else ()
    pose = track[-1][1] if track else IDENTITY
    new = not captures or not _same(captures[-1].frame, frame)
    if not new and memory is not None and memory.pose == pose:
        return memory
    if new:
        captures = (*captures, Capture(frame, pose_at(track, frame.stamp_ns) if track else IDENTITY))[-history:]
    ranges_m = np.full(BINS, np.inf, dtype=np.float32)
    for capture in captures:
        now_from_then = between(pose, capture.pose)
        lower_ranges(ranges_m, np.ascontiguousarray(capture.frame.depth), view.projection, planar(now_from_then))
        if view.floor is not None:
            lower_to_drops(ranges_m, capture.frame.depth, view.floor, now_from_then)
    return CameraMemory(captures, pose, ranges_m, view.looks)


def _same(a: DepthFrame, b: DepthFrame) -> bool:
    """Return whether two frames of one camera are the same. Stamps count too: a restarted camera counts from zero."""
    return a.number == b.number and a.stamp_ns == b.stamp_ns


def _projection(mount: Mount, section: ScanSection) -> Projection:
    """Return what the kernel needs of one camera."""
    lens = mount.fx, mount.fy, mount.cx, mount.cy, mount.depth_scale_m
    bounds = NEAR_M, section.far_m, section.z_min_m, section.z_max_m
    boxes_m = np.array(section.body_boxes_m, dtype=np.float64).reshape(-1, 6)
    return projection_of(
        (mount.height, mount.width), *lens, mount.base_from_camera, *bounds, boxes_m, section.noise_per_m
    )
