"""Extrinsics and intrinsics of the cameras: `onboard/config/robots/default/mounts.toml`, one table per camera."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from multiprocessing import parent_process
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, field_validator, model_validator

from onboard.config.toml_file import Finite, NonNegative, Positive, Section, checked, read_toml
from onboard.config.toml_text import toml_key, toml_value
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
SIZE, LENS = ("width", "height"), ("fx", "fy", "cx", "cy")
MILLIMETRE_M = 0.001
"""Unit of 16UC1 by REP-118."""
D435_SIZE, D435_FOCAL_PX = (848, 480), 423.0
"""A RealSense D435's depth images at this size: 90 deg wide by its data sheet, within some degrees of each device."""
AHEAD_M = (0.0, 0.0, 0.3)
SIDE_DEG = {"left": 90.0, "right": -90.0, "rear": 180.0, "back": 180.0}
"""Stand-in of a pose that no run has taken yet: level, and by a word of the camera's name to a side, else ahead."""
LAST_RUN = "last_run"
STATE_FOLDER = "STATE_DIRECTORY"
"""Set by systemd: the service may not write beside its configuration."""
log = logging.getLogger("onboard.config")
_said: set[str] = set()
_taken: set[Path] = set()
Quaternion = tuple[float, float, float, float]


class MountTable(Section):
    """One camera in the file. Translation and rotation map optical-frame points to the base frame.

    Exactly one of rotation_xyzw, rotation_rpy_deg and look_deg states the rotation. The lens, with or without the size,
    and the depth unit may be absent: a run takes them from the device, or from the first `camera_info`. Offline they
    are those of the last run.
    """

    serial: str = Field("", description='serial number of the RealSense; "" for a camera over DDS')
    width: int | None = Field(None, gt=0, le=4096, examples=[848], description="image width [px]")
    height: int | None = Field(None, gt=0, le=4096, examples=[480], description="image height [px]")
    fx: Positive | None = Field(None, examples=[423.0], description="focal length [px]")
    fy: Positive | None = Field(None, examples=[423.0], description="focal length [px]")
    cx: Finite | None = Field(
        None, examples=[423.5], description="principal point [px]; integer coordinates are pixel centres"
    )
    cy: Finite | None = Field(
        None, examples=[239.5], description="principal point [px]; integer coordinates are pixel centres"
    )
    depth_scale_m: Positive | None = Field(
        None, examples=[MILLIMETRE_M], description="metres per depth unit; over DDS 0.001 without it"
    )
    least_m: NonNegative | None = Field(
        None,
        examples=[0.28],
        description="minimum depth of a depth camera: nearer it returns nothing [m] "
        "(`onboard/perception/min_range.py`)",
    )
    pose: Literal["tf"] | None = Field(
        None,
        examples=["tf"],
        description="in place of position and rotation: taken at the start from /tf_static, by the image's frame_id",
    )
    translation_m: tuple[Finite, Finite, Finite] | None = Field(
        None,
        examples=[(0.2, 0.0, 0.3)],
        description="position of the camera in the base frame (x forward, y left, z up) [m]",
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
    def _on_the_robot(cls, value: tuple[float, float, float] | None) -> tuple[float, float, float] | None:
        if value is not None and (away_m := math.hypot(*value)) > FARTHEST_M:
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
        if self.pose is not None:
            placed = [*given, *(["translation_m"] if self.translation_m is not None else [])]
            if placed:
                raise ValueError(f'pose = "{self.pose}" replaces {" and ".join(placed)}: write one of them')
            return self
        if self.translation_m is None:
            raise ValueError('translation_m: Field required; or pose = "tf" takes the pose of a running robot')
        if len(given) != 1:
            raise ValueError(f"expected one of {', '.join(ROTATIONS)}, found {' and '.join(given) or 'none'}")
        return self

    @model_validator(mode="after")
    def _whole_lens(self) -> MountTable:
        for keys in (SIZE, LENS, (*SIZE, *LENS[:1]) if self.fx is not None else SIZE):
            absent = [key for key in keys if getattr(self, key) is None]
            if absent and len(absent) < len(keys):
                raise ValueError(
                    f"{', '.join(absent)}: Field required next to {', '.join(key for key in keys if key not in absent)}"
                )
        return self

    @property
    def whole(self) -> bool:
        """Whether the table states lens and pose."""
        return self.fx is not None and self.pose is None

    def completed(self, name: str, other: MountTable | None) -> MountTable:
        """Return the table with what it leaves out: from another of this camera, else a stand-in."""
        changes: dict[str, Any] = {}
        if self.fx is None:
            fits = other is not None and self.width in (None, other.width) and self.height in (None, other.height)
            lens = other if fits and other is not None else _d435(name, self.width, self.height)
            changes |= {key: getattr(lens, key) for key in (*SIZE, *LENS)}
        if self.pose is not None:
            placed = other or _d435(name)
            changes |= {"pose": None} | {key: getattr(placed, key) for key in ("translation_m", *ROTATIONS)}
        if self.depth_scale_m is None:
            changes["depth_scale_m"] = (other and other.depth_scale_m) or MILLIMETRE_M
        return self.model_copy(update=changes)

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


Stated = TypeVar("Stated", bound=MountsFile)


class LastRun(MountsFile):
    """What the last run took: cameras, and poses of lidars from tf: x, y, height [m], roll, pitch, yaw [deg]."""

    lasers: dict[str, tuple[Finite, Finite, Finite, Finite, Finite, Finite]] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Mount:
    """A camera on the robot.

    fx, fy, cx, cy:   pinhole intrinsics [px]; integer pixel coordinates are pixel centres
    depth_scale_m:    metres per depth unit
    base_from_camera: (4, 4) transform of optical-frame points (z forward, x right, y down) to the base frame
    rotation_xyzw:    rotation of that transform, as a unit quaternion
    least_m:          minimum depth of the camera; None if the file does not state it
    lens_taken, pose_taken: the file leaves the lens or the pose out
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
    lens_taken: bool = False
    pose_taken: bool = False


@dataclass(frozen=True, slots=True)
class Mounts:
    """All cameras of one robot, by name, in the order of the file."""

    path: Path
    depth: dict[str, Mount]
    color: dict[str, Mount]


def load_mounts(path: Path) -> Mounts:
    """Return the mounts in a file, completed by `completed`. Raises ConfigError naming file, field and limit."""
    table, whole = stated(path), completed(path)
    return Mounts(
        path=path,
        depth={name: _mount(name, row, table.cameras[name]) for name, row in whole.cameras.items()},
        color={name: _mount(name, row, table.color_cameras[name]) for name, row in whole.color_cameras.items()},
    )


def stated(path: Path) -> MountsFile:
    """Return what a mounts file states. Raises ConfigError naming file, field and limit."""
    return _stated(path, MountsFile)


def _stated(path: Path, kind: type[Stated]) -> Stated:
    with checked(path):
        return kind.model_validate(read_toml(path))


def completed(path: Path) -> MountsFile:
    """Return a mounts file with the numbers of the last run where it leaves them out, else with a D435's.

    A line in the log says which, once. Raises ConfigError like `stated`, also for the file of the last run.
    """
    table, kept = stated(path), last_run(path)
    whole: dict[str, Any] = {"cameras": {}, "color_cameras": {}}
    for kind, name, row in rows(table):
        known = None if kept is None else getattr(kept, kind).get(name)
        known = None if known is None or known.serial != row.serial else known
        if not row.whole:
            _say_source(path, f"{kind}.{name}", row, known)
        whole[kind][name] = row.completed(name, known)
    return MountsFile(**whole)


def completed_text(path: Path) -> str:
    """Return the text of a mounts file, with what it leaves out: for recordings, which need no robot then."""
    if all(row.whole for _, _, row in rows(stated(path))):
        return path.read_text(encoding="utf-8")
    return mounts_text(completed(path), f"# {path.name}, completed\n")


def mounts_text(table: MountsFile, head: str) -> str:
    """Return the TOML text of a mounts file."""
    lines = [head]
    for kind, name, row in rows(table):
        lines.append(f"[{kind}.{toml_key(name)}]")
        values = row.model_dump(mode="json", exclude_defaults=True)
        lines += [f"{key} = {value if key == 'calibrated' else toml_value(value)}" for key, value in values.items()]
        lines.append("")
    return "\n".join(lines)


def rows(table: MountsFile) -> list[tuple[str, str, MountTable]]:
    """Return each camera of a file: its kind, which is the name of its table, its name and its keys."""
    return [(kind, name, row) for kind in ("cameras", "color_cameras") for name, row in getattr(table, kind).items()]


def last_run(path: Path) -> LastRun | None:
    """Return the numbers that the last run took, None without any. Raises ConfigError for a damaged file."""
    found = next((file for file in _last_run_files(path) if file.exists()), None)
    return None if found is None else _stated(found, LastRun)


def keep_run(path: Path, table: LastRun) -> Path:
    """Write the numbers of this run beside a mounts file, or into the service's state folder; return where.

    Raises ConfigError if neither can be written.
    """
    text, why = mounts_text(table, f"# What the last run took for {path.name}. Remove it to accept others.\n"), ""
    if table.lasers:
        lines = [f"{toml_key(topic)} = {toml_value(list(pose))}" for topic, pose in table.lasers.items()]
        text = "\n".join([text, "[lasers]", *lines, ""])
    for file in _last_run_files(path):
        try:
            temporary = file.with_name(f".{file.name}.{os.getpid()}")
            temporary.write_text(text, encoding="utf-8")
            os.replace(temporary, file)
        except OSError as error:
            why = why or f"{file}: cannot be written: {error.strerror}"
        else:
            return file
    raise ConfigError(f"{why}; write the numbers into {path} (onboard cameras --out)")


def note_taken(path: Path) -> None:
    """Note that this process takes the file's numbers from the robot: no line says where others would be from."""
    _taken.add(path)


def _last_run_files(path: Path) -> list[Path]:
    name, state = f"{path.stem}.{LAST_RUN}{path.suffix}", os.environ.get(STATE_FOLDER, "").partition(":")[0]
    return [*([Path(state) / name] if state else []), path.with_name(name)]


def _say_source(path: Path, camera: str, row: MountTable, kept: MountTable | None) -> None:
    size = (row.width or D435_SIZE[0], row.height or D435_SIZE[1])
    parts = [] if row.fx is not None else [("lens", f"a RealSense D435's at {size[0]}x{size[1]}")]
    if row.pose is not None:
        yaw_deg = _side_deg(camera.partition(".")[2])
        parts.append(("pose", f"level, {AHEAD_M[2]} m high, {yaw_deg:g} deg to the left"))
    if kept is not None:
        source = f"{' and '.join(what for what, _ in parts)} of the last run ({path.stem}.{LAST_RUN}{path.suffix})"
    else:
        source = f"not taken from a robot yet: {'; '.join(f'{what} {guess}' for what, guess in parts)}"
    say_once(path, camera, source)


def say_once(path: Path, device: str, source: str) -> None:
    """Log where the numbers of a device are from, once, unless this process takes them from the robot."""
    line = f"{path}: {device}: {source}"
    if line not in _said and path not in _taken and parent_process() is None:
        _said.add(line)
        log.warning("%s", line)


def _side_deg(name: str) -> float:
    return next((SIDE_DEG[word] for word in name.lower().split("_") if word in SIDE_DEG), 0.0)


def _d435(name: str, width: int | None = None, height: int | None = None) -> MountTable:
    """Return a stand-in: the lens of a D435, scaled to a size, 0.3 m above the base's origin, by `SIDE_DEG`."""
    full, high = D435_SIZE
    width, height = width or full, height or high
    focal_px = D435_FOCAL_PX * width / full
    return MountTable(
        width=width,
        height=height,
        fx=focal_px,
        fy=focal_px,
        cx=(width - 1) / 2,
        cy=(height - 1) / 2,
        translation_m=AHEAD_M,
        look_deg=(_side_deg(name), 0.0, 0.0),
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
    table = stated(path)
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


def _mount(name: str, row: MountTable, written: MountTable) -> Mount:
    """Return the mount of a completed table. written: the same as in the file"""
    numbers: Mapping[str, Any] = {key: getattr(row, key) for key in (*SIZE, *LENS, "depth_scale_m")}
    x, y, z, w = row.quaternion()
    transform = np.eye(4)
    transform[:3, :3] = rotation_from_quaternion((x, y, z, w))
    transform[:3, 3] = row.translation_m or AHEAD_M
    return Mount(
        name=name,
        serial=row.serial,
        **numbers,
        base_from_camera=transform,
        rotation_xyzw=(x, y, z, w),
        least_m=row.least_m,
        sd_m=row.sd_m,
        sd_deg=row.sd_deg,
        lens_taken=written.fx is None,
        pose_taken=written.pose is not None,
    )
