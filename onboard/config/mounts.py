"""Extrinsics and intrinsics of the cameras: `onboard/config/robots/default/mounts.toml`, one table per camera."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError, field_validator, model_validator

from onboard.config.toml_file import Finite, NonNegative, Positive, Section, read_toml, validation_lines
from onboard.values.errors import ConfigError
from onboard.values.frames import Transform, quaternion_of
from onboard.values.geometry import NORM_TOLERANCE, quaternion_from_rpy, quaternion_product, rotation_from_quaternion

BODY_FROM_OPTICAL_XYZW = (-0.5, 0.5, -0.5, 0.5)
"""From the optical frame (z forward, x right, y down) to the camera's body frame (x forward, y left, z up), REP-103."""
USUAL_VIEW_DEG = (-30.0, 60.0)
"""Elevation below the horizon within which depth cameras of a ground robot look [deg]."""
FARTHEST_M = 5.0
"""Largest distance of a camera from the base frame's origin; a larger one is hardly in metres."""
ROTATIONS = ("rotation_xyzw", "rotation_rpy_deg", "look_deg")
Quaternion = tuple[float, float, float, float]


class MountTable(Section):
    """One camera in the file. Translation and rotation map optical-frame points to the base frame.

    Exactly one of rotation_xyzw, rotation_rpy_deg and look_deg states the rotation.
    """

    serial: str = Field("", description='serial number of the RealSense; "" for a camera over DDS')
    width: int = Field(gt=0, le=4096, description="image width [px]")
    height: int = Field(gt=0, le=4096, description="image height [px]")
    fx: Positive = Field(description="focal length [px]")
    fy: Positive = Field(description="focal length [px]")
    cx: Finite = Field(description="principal point [px]; integer coordinates are pixel centres")
    cy: Finite = Field(description="principal point [px]; integer coordinates are pixel centres")
    depth_scale_m: Positive = Field(0.001, description="metres per depth unit")
    least_m: NonNegative | None = Field(
        None,
        examples=[0.28],
        description="minimum depth of a depth camera: nearer it returns nothing [m] "
        "(`onboard/perception/min_range.py`)",
    )
    translation_m: tuple[Finite, Finite, Finite] = Field(
        description="position of the camera in the base frame (x forward, y left, z up) [m]"
    )
    rotation_xyzw: tuple[Finite, Finite, Finite, Finite] | None = Field(
        None,
        examples=[(-0.5, 0.5, -0.5, 0.5)],
        description="quaternion from the optical frame (z forward, x right, y down) to the base frame",
    )
    rotation_rpy_deg: tuple[Finite, Finite, Finite] | None = Field(
        None,
        examples=[(0.0, 10.0, 0.0)],
        description="roll, pitch, yaw [deg] of the camera's body frame (x forward, y left, z up) in the base frame, "
        "about fixed axes, as `rpy` of a URDF joint",
    )
    look_deg: tuple[Finite, Finite, Finite] | None = Field(
        None,
        examples=[(0.0, 10.0, 0.0)],
        description="viewing direction [deg]: to the left, below the horizon, and the roll about that axis (90 "
        "or -90 for a camera on its side)",
    )
    calibrated: date | None = Field(
        None, examples=["2026-01-31"], description="date of the calibration, for `onboard doctor`"
    )
    sd_m: tuple[NonNegative, NonNegative, NonNegative] | None = Field(
        None,
        examples=[(0.001, 0.001, 0.001)],
        description="standard deviations of translation_m, by `onboard-calib extrinsics` [m]",
    )
    sd_deg: tuple[NonNegative, NonNegative, NonNegative] | None = Field(
        None,
        examples=[(0.05, 0.05, 0.2)],
        description="standard deviations of roll, pitch and yaw of the body frame, by the same command [deg]",
    )
    residual_m: NonNegative | None = Field(
        None,
        examples=[0.002],
        description="median distance between surfaces that the cameras saw twice, by the same command [m]",
    )
    data_sha256: str = Field("", description="hash of the recording that the calibration was computed from")

    @field_validator("translation_m")
    @classmethod
    def _on_the_robot(cls, value: tuple[float, float, float]) -> tuple[float, float, float]:
        if (away_m := math.hypot(*value)) > FARTHEST_M:
            raise ValueError(f"{list(value)} is {away_m:g} m from the base frame's origin, at most {FARTHEST_M:g} m")
        return value

    @field_validator("rotation_xyzw")
    @classmethod
    def _unit(cls, value: Quaternion | None) -> Quaternion | None:
        if value is None:
            return None
        norm = math.sqrt(sum(part * part for part in value))
        if abs(norm - 1.0) > NORM_TOLERANCE:
            raise ValueError(
                f"rotation_xyzw {list(value)} has norm {norm:.6g}, a unit quaternion is within {NORM_TOLERANCE} of 1"
            )
        return value

    @model_validator(mode="after")
    def _one_rotation(self) -> MountTable:
        given = [name for name in ROTATIONS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"expected one of {', '.join(ROTATIONS)}, found {' and '.join(given) or 'none'}")
        return self

    def quaternion(self) -> Quaternion:
        """Return the unit quaternion (x, y, z, w) from the optical frame to the base frame."""
        if self.rotation_xyzw is not None:
            x, y, z, w = self.rotation_xyzw
            norm = math.sqrt(sum(part * part for part in self.rotation_xyzw))
            return x / norm, y / norm, z / norm, w / norm
        yaw, down, about = self.look_deg or (0.0, 0.0, 0.0)
        roll, pitch, yaw = map(math.radians, self.rotation_rpy_deg or (about, down, yaw))
        return quaternion_product(quaternion_from_rpy(roll, pitch, yaw), BODY_FROM_OPTICAL_XYZW)


class MountsFile(Section):
    """All cameras of the robot."""

    cameras: dict[str, MountTable] = Field(min_length=1, description="camera name -> depth camera")
    color_cameras: dict[str, MountTable] = Field(default_factory=dict, description="camera name -> colour camera")


@dataclass(frozen=True, slots=True)
class Mount:
    """A camera on the robot.

    fx, fy, cx, cy:   pinhole intrinsics [px]; integer pixel coordinates are pixel centres
    depth_scale_m:    metres per depth unit
    base_from_camera: (4, 4) transform of optical-frame points (z forward, x right, y down) to the base frame
    rotation_xyzw:    rotation of that transform, as a unit quaternion
    least_m:          minimum depth of the camera; None if the file does not state it
    sd_m, sd_deg:     standard deviations of the calibration; None if the file does not state them
    """

    name: str
    serial: str
    width: int
    height: int
    fx: float
    fy: float
    cx: float
    cy: float
    depth_scale_m: float
    base_from_camera: npt.NDArray[np.float64]
    rotation_xyzw: tuple[float, float, float, float]
    least_m: float | None = None
    sd_m: tuple[float, float, float] | None = None
    sd_deg: tuple[float, float, float] | None = None


@dataclass(frozen=True, slots=True)
class Mounts:
    """All cameras of one robot, by name, in the order of the file."""

    path: Path
    depth: dict[str, Mount]
    color: dict[str, Mount]


def load_mounts(path: Path) -> Mounts:
    """Return the mounts in a file. Raises ConfigError naming file, field and limit."""
    table = _checked(path)
    return Mounts(
        path=path,
        depth={name: _mount(name, row) for name, row in table.cameras.items()},
        color={name: _mount(name, row) for name, row in table.color_cameras.items()},
    )


def camera_table(
    name: str,
    size: tuple[int, int],
    lens: tuple[float, float, float, float],
    depth_scale_m: float,
    base_from_camera: Transform | None,
    kind: str = "cameras",
) -> str:
    """Return the table of a camera for a mounts file. Without a pose its keys are comments: loading asks for them.

    size: width, height [px]; lens: fx, fy, cx, cy [px]
    """
    width, height = size
    fx, fy, cx, cy = map(float, lens)
    lines = [f"[{kind}.{name}]", f"width = {width}", f"height = {height}"]
    lines += [f"fx = {fx!r}", f"fy = {fy!r}", f"cx = {cx!r}", f"cy = {cy!r}"]
    lines += [f"depth_scale_m = {depth_scale_m!r}"] if depth_scale_m else []
    if base_from_camera is None:
        lines += ["# translation_m = [x, y, height above the floor]", "# look_deg = [left, below the horizon, roll]"]
    else:
        lines.append(f"translation_m = {[float(value) for value in base_from_camera[:3, 3]]}")
        lines.append(f"rotation_xyzw = {[float(value) for value in quaternion_of(base_from_camera[:3, :3])]}")
    return "\n".join(lines) + "\n"


def calibration_dates(path: Path) -> dict[str, date | None]:
    """Return each camera's calibration date, None if the file does not state it. Raises ConfigError."""
    table = _checked(path)
    return {name: row.calibrated for name, row in {**table.cameras, **table.color_cameras}.items()}


def unusual_views(mounts: Mounts) -> list[str]:
    """Return a line for each depth camera that looks into the sky or the floor; roll and pitch may be swapped."""
    lines = []
    lowest, highest = USUAL_VIEW_DEG
    for name, mount in mounts.depth.items():
        down_deg = math.degrees(math.asin(max(-1.0, min(1.0, -float(mount.base_from_camera[2, 2])))))
        if not lowest <= down_deg <= highest:
            where = f"{abs(down_deg):.0f} deg {'below' if down_deg > 0 else 'above'} the horizon"
            lines.append(f"{mounts.path}: cameras.{name} looks {where}; are roll and pitch swapped?")
    return lines


def _checked(path: Path) -> MountsFile:
    try:
        return MountsFile.model_validate(read_toml(path))
    except ValidationError as error:
        raise ConfigError(validation_lines(path, error)) from error


def _mount(name: str, row: MountTable) -> Mount:
    x, y, z, w = row.quaternion()
    transform = np.eye(4)
    transform[:3, :3] = rotation_from_quaternion((x, y, z, w))
    transform[:3, 3] = row.translation_m
    return Mount(
        name=name,
        serial=row.serial,
        width=row.width,
        height=row.height,
        fx=row.fx,
        fy=row.fy,
        cx=row.cx,
        cy=row.cy,
        depth_scale_m=row.depth_scale_m,
        base_from_camera=transform,
        rotation_xyzw=(x, y, z, w),
        least_m=row.least_m,
        sd_m=row.sd_m,
        sd_deg=row.sd_deg,
    )
