"""Where cameras sit, from a board that several see at once, or that stands at a measured place.

The poses of the cameras and of the board at each instant are the unknowns of one least squares over the corners in the
images. A fixed camera, or the measured place, ties them to the base.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares
from scipy.spatial.transform import Rotation

from calib.cameras.board import Sighting
from calib.cameras.extrinsics import MOST_SD_DEG, MOST_SD_M, SYSTEMATIC_DEG, SYSTEMATIC_M, Extrinsics, too_far
from calib.cameras.floor import BODY_FROM_OPTICAL
from onboard.config.mounts import Mount
from onboard.values.errors import InputError

Floats = npt.NDArray[np.float64]

LEAST_PX_SD = 0.1
"""Least standard deviation of a corner [px]."""
MOST_RMS_PX = 1.0
HUBER_PX = 1.0


@dataclass(frozen=True, slots=True)
class Place:
    """A measured pose of the board, and its standard deviations [m, rad]."""

    base_from_board: Floats
    sd_m: float
    sd_rad: float


@dataclass(frozen=True, slots=True)
class CameraPlacement:
    """What `place_cameras` found.

    cameras: the cameras that were placed, without the fixed one
    rms_px:  camera -> root mean square distance of its corners from where the poses put them
    """

    cameras: Mapping[str, Extrinsics]
    rms_px: Mapping[str, float]


def place_cameras(
    sightings: Sequence[Sighting],
    mounts: Mapping[str, Mount],
    fixed: str | None,
    place: Place | None,
    limits: tuple[float, float],
) -> CameraPlacement:
    """Return where the cameras sit that saw the board.

    fixed:  the camera whose mount is right; None if `place` says where the board of view 0 is
    limits: largest distance of the answer from the mounts [m, deg]
    Raises InputError with the reason of a refusal.
    """
    cameras, boards = _start(sightings, mounts, fixed, place)
    free = [name for name in cameras if name != fixed]
    problem = _Problem(sightings, mounts, cameras, boards, free, place)
    found = least_squares(problem.residuals, np.zeros(problem.size), loss="huber", f_scale=HUBER_PX, x_scale="jac")
    off = problem.corners_off(found.x)
    rms_px = {
        name: float(np.sqrt(np.mean(np.concatenate(rows) ** 2) * 2.0))
        for name in cameras
        if (rows := [one for seen, one in zip(sightings, off, strict=True) if seen.camera == name])
    }
    for name, value in rms_px.items():
        if value > MOST_RMS_PX:
            raise InputError(
                f"camera {name}: corners are {value:.1f} px from where the poses put them, at most {MOST_RMS_PX:g}; "
                "are the intrinsics right? Did anything move between the images of one instant?"
            )
    placed = _with_sd(problem, found.x, found.jac, np.concatenate(off))
    sure = {name: one for name, one in placed.items() if place is None}
    for name, one in sure.items():
        if max(one.sd_m) > MOST_SD_M or max(one.sd_deg) > MOST_SD_DEG:
            raise InputError(
                f"camera {name}: known to {max(one.sd_m):.3f} m and {max(one.sd_deg):.2f} deg only, at most "
                f"{MOST_SD_M} m and {MOST_SD_DEG} deg; hold the board closer, or at more places"
            )
    reason = too_far(mounts, placed, limits)
    if reason:
        raise InputError(reason)
    return CameraPlacement(placed, rms_px)


def _start(
    sightings: Sequence[Sighting], mounts: Mapping[str, Mount], fixed: str | None, place: Place | None
) -> tuple[dict[str, Floats], dict[int, Floats]]:
    """Return first poses of cameras and boards in the base frame, from the first known one on.

    Raises InputError if a camera shares no view with a known one.
    """
    cameras = {} if fixed is None else {fixed: mounts[fixed].base_from_camera}
    boards = {} if place is None else {0: place.base_from_board}
    waiting = list(sightings)
    while waiting:
        known = [one for one in waiting if one.camera in cameras or one.view in boards]
        if not known:
            name = waiting[0].camera
            given = ", ".join(cameras) or "the measured board"
            raise InputError(f"camera {name}: no view of the board in common with {given}; show it to both at once")
        for one in known:
            if one.view not in boards:
                boards[one.view] = cameras[one.camera] @ one.camera_from_board
            elif one.camera not in cameras:
                cameras[one.camera] = boards[one.view] @ np.linalg.inv(one.camera_from_board)
            waiting.remove(one)
    return cameras, boards


class _Problem:
    """Residuals of the corners, and of the measured place, by small motions of the first poses."""

    def __init__(
        self, sightings: Sequence[Sighting], mounts: Mapping[str, Mount], cameras: Mapping[str, Floats],
        boards: Mapping[int, Floats], free: Sequence[str], place: Place | None,
    ) -> None:  # fmt: skip
        self._sightings, self._mounts, self._place = sightings, mounts, place
        self._cameras, self._boards, self.free = dict(cameras), dict(boards), list(free)
        self.size = 6 * (len(self.free) + len(self._boards))

    def poses(self, unknowns: Floats) -> tuple[dict[str, Floats], dict[int, Floats]]:
        """Return the poses of cameras and boards."""
        moves = unknowns.reshape(-1, 6)
        cameras = dict(self._cameras)
        for name, move in zip(self.free, moves, strict=False):
            cameras[name] = _moved(self._cameras[name], move)
        boards = {
            view: _moved(self._boards[view], move)
            for view, move in zip(self._boards, moves[len(self.free) :], strict=True)
        }
        return cameras, boards

    def corners_off(self, unknowns: Floats) -> list[Floats]:
        """Return for each sighting the (n, 2) distances of its corners from where the poses put them [px]."""
        cameras, boards = self.poses(unknowns)
        off = []
        for sighting in self._sightings:
            mount, pose = self._mounts[sighting.camera], np.linalg.inv(cameras[sighting.camera]) @ boards[sighting.view]
            seen = sighting.points_m @ pose[:3, :3].T + pose[:3, 3]
            ahead = np.maximum(seen[:, 2:], 1e-3)
            off.append(seen[:, :2] / ahead * [mount.fx, mount.fy] + [mount.cx, mount.cy] - sighting.pixels)
        return off

    def residuals(self, unknowns: Floats) -> Floats:
        """Return all distances [px], and those of the board from its measured place, by standard deviation."""
        parts = [one.ravel() for one in self.corners_off(unknowns)]
        if self._place is not None:
            move = unknowns[6 * (len(self.free) + list(self._boards).index(0)) :][:6]
            parts.append(move[:3] / self._place.sd_m)
            parts.append(move[3:] / self._place.sd_rad)
        return np.concatenate(parts)


def _moved(pose: Floats, move: Floats) -> Floats:
    """Return a pose moved [m] along and turned [rad] about the axes of the base."""
    new: Floats = pose.copy()
    new[:3, :3] = Rotation.from_rotvec(move[3:]).as_matrix() @ pose[:3, :3]
    new[:3, 3] += move[:3]
    return new


def _with_sd(problem: _Problem, unknowns: Floats, jacobian: Floats, off: Floats) -> dict[str, Extrinsics]:
    """Return the free cameras with their standard deviations, by the scatter of the corners."""
    corners = off.size
    free_count = max(1, corners - problem.size)
    px_sd = max(LEAST_PX_SD, float(np.sqrt(np.square(off).sum() / free_count)))
    weighted = jacobian.copy()
    weighted[:corners] /= px_sd
    covariance = np.linalg.pinv(weighted.T @ weighted)
    cameras, _ = problem.poses(unknowns)
    placed = {}
    for number, name in enumerate(problem.free):
        block = covariance[6 * number : 6 * number + 6, 6 * number : 6 * number + 6]
        by_rpy = _rpy_by_turn(cameras[name])
        sd_m = np.hypot(np.sqrt(np.diag(block)[:3]), SYSTEMATIC_M).tolist()
        turned = np.degrees(np.sqrt(np.diag(by_rpy @ block[3:, 3:] @ by_rpy.T)))
        sd_deg = np.hypot(turned, SYSTEMATIC_DEG).tolist()
        placed[name] = Extrinsics(cameras[name], (sd_m[0], sd_m[1], sd_m[2]), (sd_deg[0], sd_deg[1], sd_deg[2]))
    return placed


def _rpy_by_turn(base_from_camera: Floats) -> Floats:
    """Return (3, 3): roll, pitch, yaw of the body frame by a turn about the axes of the base."""
    body = base_from_camera[:3, :3] @ BODY_FROM_OPTICAL.T
    _, pitch, yaw = Rotation.from_matrix(body).as_euler("xyz")
    c, s = math.cos(yaw), math.sin(yaw)
    turn_by_rpy = np.array(
        [[c * math.cos(pitch), -s, 0.0], [s * math.cos(pitch), c, 0.0], [-math.sin(pitch), 0.0, 1.0]]
    )
    return np.asarray(np.linalg.pinv(turn_by_rpy))  # of a camera that looks straight down, roll and yaw are one
