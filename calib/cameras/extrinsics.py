"""Extrinsics of all depth cameras from a recording: the floor levels each camera, ICP places it in the plane.

The answer is accepted only within the limits below. Each refusal has its reason in one line.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from calib.cameras.align import MOST_PATCHES, RADII_M, Alignment, Cloud, Placement, align, cloud_of, starting
from calib.cameras.floor import BODY_FROM_OPTICAL, Floor, find_floor
from calib.cameras.keyframes import KeyFrame
from calib.cameras.patches import Patches, upright_patches
from onboard.config.mounts import Mount, Mounts
from onboard.values.errors import InputError
from onboard.values.geometry import between
from onboard.values.messages import Pose

Floats = npt.NDArray[np.float64]

# ---- Limits of an answer that is accepted
LEAST_TURN_DEG = 270.0
"""The base must turn by this, the sum of both directions."""
LEAST_WAY_M = 0.5
"""The base must drive by this: pure turning leaves a common yaw of all cameras open."""
LEAST_FLOORS = 5
"""Places where each camera must see the floor."""
LEAST_PATCHES, LEAST_MATCHES, LEAST_ACROSS = 60, 300, 30
"""Upright patches of a camera, its matches, and its matches with other cameras."""
LEAST_AGREEING = 0.4
"""Least share of a camera's patches that fall on those of another camera. About 0.95 where the base turned fully."""
LEAST_SPREAD = 0.05
"""Smaller over larger spread of the normals: below it the base saw one wall, or parallel walls."""
MOST_SD_M, MOST_SD_DEG = 0.01, 0.5
"""Largest standard deviations of a camera's x, y and of its yaw."""
MOST_RESIDUAL_M = 0.02
"""Largest median distance of matched patches along their normals."""
LIMIT_M, LIMIT_DEG = 0.15, 15.0
"""Largest distance from the guess, by default."""

FLOOR_IMAGES = 24
"""Places whose floor is fitted; the others are left out to save time."""
SYSTEMATIC_M, SYSTEMATIC_DEG = 0.001, 0.03
"""Added to the standard deviations: what more data would not take away, as steps of depth and rough surfaces."""
QUICK_PATCHES, QUICK_RADII_M = 3000, RADII_M[::2]
"""A quick alignment, to judge whether two cameras are swapped."""


@dataclass(frozen=True, slots=True)
class Extrinsics:
    """A camera's pose. sd_m: of x, y, z; sd_deg: of roll, pitch, yaw of its body frame, as `rotation_rpy_deg`."""

    base_from_camera: Floats
    sd_m: tuple[float, float, float]
    sd_deg: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The poses of all cameras, or the reason why there are none.

    residual_m:     median distance of matched patches along their normals
    odometry_scale: true over measured, of distance and turning
    agreeing:       camera -> share of its patches that fall on a patch of another camera
    start, aligned, cloud: placements before and after, and the patches, for a picture
    """

    cameras: Mapping[str, Extrinsics]
    reason: str
    keyframes: int
    turned_deg: float
    driven_m: float
    residual_m: float = math.nan
    odometry_scale: tuple[float, float] = (math.nan, math.nan)
    agreeing: Mapping[str, float] = field(default_factory=dict)
    start: Placement | None = None
    aligned: Alignment | None = None
    cloud: Cloud | None = None

    @property
    def accepted(self) -> bool:
        """Whether there is an answer."""
        return not self.reason


def calibrate(
    keyframes: Sequence[KeyFrame], guess: Mounts, limit_m: float = LIMIT_M, limit_deg: float = LIMIT_DEG, seed: int = 0
) -> Calibration:
    """Return the extrinsics of all cameras of a guess, or the reason of a refusal.

    limit_m, limit_deg: largest distance of the answer from the guess
    """
    odometry = [keyframe.odometry for keyframe in keyframes]
    moves = [between(a, b) for a, b in itertools.pairwise(odometry)]
    base = Calibration(
        {}, "", len(keyframes), math.degrees(sum(abs(move.yaw_rad) for move in moves)),
        sum(math.hypot(move.x_m, move.y_m) for move in moves),
    )  # fmt: skip
    if base.turned_deg < LEAST_TURN_DEG:
        why = f"not enough turning: {base.turned_deg:.0f} deg between places, at least {LEAST_TURN_DEG:.0f}"
        return replace(base, reason=why)
    if base.driven_m < LEAST_WAY_M:
        return replace(
            base, reason=f"not enough driving: {base.driven_m:.2f} m, at least {LEAST_WAY_M} m in short arcs"
        )
    limits, seen, unseen = (limit_m, limit_deg), dict[str, _CameraView](), list[str]()
    for name, mount in guess.depth.items():
        try:
            seen[name] = _see(keyframes, mount, seed)
        except InputError as error:
            unseen.append(str(error))
    if unseen:
        found = replace(base, reason=unseen[0])
    else:
        found = _solved(base, seen, guess, odometry, limits, MOST_PATCHES, seed)
    doubtful = sorted(guess.depth, key=lambda name: found.agreeing.get(name, 0.0))
    if found.accepted or (found.agreeing and found.agreeing[doubtful[0]] >= LEAST_AGREEING):
        return found
    for one, other in itertools.combinations(doubtful, 2):
        exchanged = _exchanged(guess, one, other)
        try:
            known = {name: seen.get(name) or _see(keyframes, mount, seed) for name, mount in exchanged.depth.items()}
        except InputError:
            continue
        if _solved(base, known, exchanged, odometry, limits, QUICK_PATCHES, seed).accepted:
            return replace(found, reason=f"cameras {one} and {other} seem to be swapped: {found.reason}")
    return found


def _exchanged(guess: Mounts, one: str, other: str) -> Mounts:
    """Return the mounts with the poses of two cameras exchanged."""
    a, b = guess.depth[one], guess.depth[other]
    new = {one: replace(a, base_from_camera=b.base_from_camera, rotation_xyzw=b.rotation_xyzw)}
    new[other] = replace(b, base_from_camera=a.base_from_camera, rotation_xyzw=a.rotation_xyzw)
    return replace(guess, depth={**guess.depth, **new})


def _solved(
    base: Calibration,
    seen: Mapping[str, _CameraView],
    guess: Mounts,
    odometry: Sequence[Pose],
    limits: tuple[float, float],
    most: int,
    seed: int,
) -> Calibration:
    """Return the calibration from what each camera saw. most: patches to use."""
    names = list(guess.depth)
    for name in names:
        count = sum(len(one.z_m) for _, one in seen[name].patches)
        if count < LEAST_PATCHES:
            why = f"camera {name}: {count} pieces of upright surfaces within reach, at least {LEAST_PATCHES}"
            return replace(base, reason=f"an empty hall? {why}")
    patches = [(c, k, one) for c, name in enumerate(names) for k, one in seen[name].patches]
    cloud = cloud_of(patches, np.random.default_rng(seed), most)
    starts = np.array([_planar(guess.depth[name].base_from_camera) for name in names])
    aligned = align(cloud, starts, odometry, RADII_M if most == MOST_PATCHES else QUICK_RADII_M)
    scales = aligned.placement.odometry
    estimate = replace(
        base,
        residual_m=float(np.median(np.abs(aligned.residuals_m))) if len(aligned.residuals_m) else math.nan,
        odometry_scale=(float(scales[0]), float(scales[1])),
        agreeing=dict(zip(names, aligned.agreeing.tolist(), strict=True)),
        start=starting(starts, odometry),
        aligned=aligned,
        cloud=cloud,
    )
    cameras = _extrinsics(names, {name: one.floor for name, one in seen.items()}, aligned)
    reason = _refusal(names, aligned, cameras, estimate.residual_m) or too_far(guess.depth, cameras, limits)
    return replace(estimate, reason=reason, cameras={} if reason else cameras)


@dataclass(frozen=True, slots=True)
class _Level:
    """The floor of a camera over many images: roll, pitch [deg], height [m], and their standard deviations."""

    values: Floats
    sd: Floats

    def level_from_optical(self) -> Floats:
        roll, pitch, _ = self.values
        return np.asarray(Rotation.from_euler("xyz", (roll, pitch, 0.0), degrees=True).as_matrix() @ BODY_FROM_OPTICAL)


def _floor_of(keyframes: Sequence[KeyFrame], mount: Mount, seed: int) -> _Level:
    """Return the median floor of a camera. Raises InputError if it sees the floor too rarely."""
    with_image = [keyframe.per_m[mount.name] for keyframe in keyframes if mount.name in keyframe.per_m]
    chosen = np.unique(np.linspace(0, len(with_image) - 1, min(FLOOR_IMAGES, len(with_image))).round().astype(int))
    floors: list[Floor] = []
    for number in chosen:
        try:
            floors.append(find_floor(with_image[number], mount, seed))
        except InputError:
            continue
    if len(floors) < LEAST_FLOORS:
        raise InputError(
            f"camera {mount.name}: floor not seen: in {len(floors)} of {len(chosen)} places, at least {LEAST_FLOORS}"
        )
    rows = np.array([[floor.roll_deg, floor.pitch_deg, floor.height_m] for floor in floors])
    rows[:, 0] = np.degrees(np.unwrap(np.radians(rows[:, 0])))
    middle = np.median(rows, axis=0)
    scatter = 1.4826 * np.median(np.abs(rows - middle), axis=0)
    return _Level(middle, 1.25 * scatter / math.sqrt(len(rows)))


@dataclass(frozen=True, slots=True)
class _CameraView:
    """What a camera saw: the floor, and upright patches as (index of the key frame, patches)."""

    floor: _Level
    patches: list[tuple[int, Patches]]


def _see(keyframes: Sequence[KeyFrame], mount: Mount, seed: int) -> _CameraView:
    """Return what a camera saw. Raises InputError if it sees the floor too rarely."""
    floor = _floor_of(keyframes, mount, seed)
    level, height_m = floor.level_from_optical(), float(floor.values[2])
    images = [(k, keyframe.per_m[mount.name]) for k, keyframe in enumerate(keyframes) if mount.name in keyframe.per_m]
    return _CameraView(floor, [(k, upright_patches(image, mount, level, height_m)) for k, image in images])


def rpy_deg(base_from_camera: Floats) -> Floats:
    """Return (3,) roll, pitch, yaw of the camera's body frame [deg], as `rotation_rpy_deg` of `mounts.toml`."""
    body = Rotation.from_matrix(base_from_camera[:3, :3] @ BODY_FROM_OPTICAL.T)
    return np.asarray(body.as_euler("xyz", degrees=True), np.float64)


def _planar(base_from_camera: Floats) -> list[float]:
    return [*base_from_camera[:2, 3].tolist(), math.radians(float(rpy_deg(base_from_camera)[2]))]


def _extrinsics(names: Sequence[str], floors: Mapping[str, _Level], aligned: Alignment) -> dict[str, Extrinsics]:
    found = {}
    sd = np.sqrt(np.maximum(np.diag(aligned.covariance), 0.0)).reshape(-1, 3)
    for c, name in enumerate(names):
        x_m, y_m, yaw_rad = aligned.placement.cameras[c]
        roll, pitch, height_m = floors[name].values
        pose = np.eye(4)
        turned = Rotation.from_euler("xyz", (roll, pitch, math.degrees(yaw_rad)), degrees=True).as_matrix()
        pose[:3, :3] = turned @ BODY_FROM_OPTICAL
        pose[:3, 3] = x_m, y_m, height_m
        sd_m = np.hypot([sd[c, 0], sd[c, 1], floors[name].sd[2]], SYSTEMATIC_M)
        sd_deg = np.hypot([*floors[name].sd[:2], math.degrees(sd[c, 2])], SYSTEMATIC_DEG)
        found[name] = Extrinsics(
            pose,
            (float(sd_m[0]), float(sd_m[1]), float(sd_m[2])),
            (float(sd_deg[0]), float(sd_deg[1]), float(sd_deg[2])),
        )
    return found


def _refusal(names: Sequence[str], aligned: Alignment, cameras: Mapping[str, Extrinsics], residual_m: float) -> str:
    """Return why the data does not carry an answer, "" if it does."""
    pairs = aligned.pairs + aligned.pairs.T
    for c, name in enumerate(names):
        if pairs[c].sum() < LEAST_MATCHES:
            return f"an empty hall? camera {name}: {pairs[c].sum()} matched surfaces, at least {LEAST_MATCHES}"
        across = int(pairs[c].sum() - pairs[c, c])
        if len(names) > 1 and across < LEAST_ACROSS:
            return f"camera {name}: {across} surfaces in common with other cameras, at least {LEAST_ACROSS}"
        if aligned.agreeing[c] < LEAST_AGREEING:
            share = f"{aligned.agreeing[c]:.0%} of its surfaces agree with other cameras, at least {LEAST_AGREEING:.0%}"
            return f"camera {name}: {share}"
    spread = np.linalg.eigvalsh(aligned.normals.T @ aligned.normals)
    if spread[0] < LEAST_SPREAD * spread[1]:
        return f"only one wall: {100 * spread[0] / spread[1]:.0f} % of other directions, at least {LEAST_SPREAD:.0%}"
    if residual_m > MOST_RESIDUAL_M:
        return f"surfaces do not match: median {residual_m:.3f} m, at most {MOST_RESIDUAL_M} m"
    for name, camera in cameras.items():
        if max(camera.sd_m) > MOST_SD_M or max(camera.sd_deg) > MOST_SD_DEG:
            sd = f"{max(camera.sd_m):.3f} m and {max(camera.sd_deg):.2f} deg"
            return (
                f"camera {name}: known to {sd} only, at most {MOST_SD_M} m and {MOST_SD_DEG} deg; turn and drive more"
            )
    return ""


def too_far(guess: Mapping[str, Mount], cameras: Mapping[str, Extrinsics], limits: tuple[float, float]) -> str:
    """Return which camera is farther from its guess than the limits [m, deg], "" if none."""
    for name, camera in cameras.items():
        before = guess[name].base_from_camera
        away_m = float(np.linalg.norm(camera.base_from_camera[:3, 3] - before[:3, 3]))
        turned = Rotation.from_matrix(camera.base_from_camera[:3, :3] @ before[:3, :3].T)
        away_deg = math.degrees(float(turned.magnitude()))
        if away_m > limits[0] or away_deg > limits[1]:
            return (
                f"camera {name}: the answer is {away_m:.2f} m and {away_deg:.0f} deg from the guess, "
                f"limits {limits[0]:g} m and {limits[1]:g} deg"
            )
    return ""
