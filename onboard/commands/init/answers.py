"""What the options of `onboard init` state, as the plain tables of the three files.

The robots that ship are folders of `examples/robots`; in a wheel, of `share/onboard/robots`.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onboard.commands.mounts import floor_under, placed_camera
from onboard.config.config import DEFAULT_ROBOT, Config
from onboard.config.pretrained import is_name, model_and_fallback
from onboard.config.toml_file import read_toml, toml_or_text
from onboard.config.urdf import Urdf
from onboard.config.urdf_floor import size_of
from onboard.values.errors import InputError, OnboardError, naming
from onboard.values.frames import place_of
from onboard.values.geometry import rotation_from_quaternion

OVERHEAD_M = 0.2
"""Obstacles count up to this far above the robot's highest point (`scan.z_max_m`)."""
KEYS = {
    "speed": "limits.v_max_mps",
    "height": "robot.height_m",
    "cameras": "cameras.source",
    "base": "odometry.input",
    "policy": "policy.model",
    "namespace": "dds.namespace",
    "stamped": "dds.stamped_cmd_vel",
    "scan_topic": "scan.topic",
    "color": "cameras.color",
    "name": "robot.name",
}


def plant_tables(stated: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of plant.toml: the default base's, with the stated highest speed as its own."""
    plant = read_toml(DEFAULT_ROBOT / "plant.toml")
    if (speed := stated.get("limits", {}).get("v_max_mps")) is not None:
        plant["linear"]["speed_max"] = float(speed)
    return plant


def default_of(key: str) -> Any:
    table, name = key.split(".")
    return getattr(getattr(Config(), table), name)


def stated_tables(
    given: Mapping[str, Any], topics: Sequence[str], others: Sequence[str], folder: Path
) -> dict[str, Any]:
    """Return the tables and keys of onboard.toml that are not left to their defaults. Raises InputError."""
    stated: dict[str, Any] = {"robot": {"mounts": "mounts.toml", "plant": "plant.toml"}}
    if given["footprint"] is not None:
        stated["robot"] |= _footprint(given["footprint"])
    keys = {KEYS[name]: value for name, value in given.items() if name in KEYS and value is not None}
    if given.get("height") is not None and given["height"] + OVERHEAD_M > default_of("scan.z_max_m"):
        keys["scan.z_max_m"] = round(given["height"] + OVERHEAD_M, 3)
    if (policy := keys.pop("policy.model", None)) is not None:
        model, fallback = model_and_fallback(str(policy))
        keys["policy.model"] = model if is_name(model) else os.path.relpath(model, folder)
        keys |= {} if fallback == "none" else {"policy.fallback": fallback}
    if topics:
        keys["dds.remap"] = dict(pair_of("--topic", topic) for topic in topics)
    keys |= {key: toml_or_text(value) for key, value in (pair_of("--set", other) for other in others)}
    for key, value in keys.items():
        table, dot, name = key.partition(".")
        if not dot:
            raise InputError(f"--set {key}: expected TABLE.KEY=VALUE")
        stated.setdefault(table, {})[name] = value
    return stated


def state_size_and_lidar(
    stated: dict[str, Any], urdf: Urdf, base: str, floor_m: float | None, laser: str | None
) -> list[str]:
    """Add what a URDF states and nobody else: the robot's size, and the pose of its lidar. Return notes on both.

    Raises InputError for a frame that is not there.
    """
    floor, floor_note = floor_under(urdf, base, floor_m)
    size, robot = size_of(urdf, base, floor), stated["robot"]
    notes = [floor_note]
    if not {"footprint_radius_m", "footprint_m"} & robot.keys():
        robot |= {key: value for key, value in size.keys.items() if key not in robot}
        notes.append(f"size: {size.words}, by the shapes of {urdf.path.name}; --footprint and --height override it")
    if laser is not None:
        translation, rotation = urdf.pose(base, laser)
        base_from_laser = np.eye(4)
        base_from_laser[:3, :3] = rotation_from_quaternion(rotation)
        base_from_laser[:3, 3] = translation
        base_from_laser[2, 3] += floor.base_height_m or 0.0
        pose = [round(value, 4) + 0.0 for value in place_of(base_from_laser)]
        topic = stated["scan"].pop("topic")
        stated["scan"]["lasers"] = {topic: pose}
        moving = urdf.moving_between(base, laser)
        notes.append(f"lidar {topic}: {laser} at {pose[:3]} m, roll, pitch, yaw {pose[3:]} deg")
        notes += (
            [f"lidar {topic}: {laser} moves with {moving}: --joint NAME=VALUE sets another position"] if moving else []
        )
    return notes


def pair_of(option: str, text: str) -> tuple[str, str]:
    """Return name and value of a NAME=VALUE. option: for the message. Raises InputError."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise InputError(f"{option} {text}: expected NAME=VALUE")
    return name, value


def _footprint(text: str) -> dict[str, Any]:
    """Return the key of a circle, a rectangle about the base frame's origin, or corners. Raises InputError."""
    value = toml_or_text(text)
    length, cross, width = text.lower().partition("x")
    if cross:
        try:
            x, y = float(length) / 2.0, float(width) / 2.0
        except ValueError:
            raise InputError(f"--footprint {text}: expected LENGTHxWIDTH, such as 1.2x0.5") from None
        return {"footprint_m": [[x, y], [-x, y], [-x, -y], [x, -y]]}
    if isinstance(value, list):
        return {"footprint_m": value}
    if isinstance(value, (int, float)):
        return {"footprint_radius_m": float(value)}
    raise InputError(f"--footprint {text}: expected a radius, LENGTHxWIDTH or [[x, y], ...]")


def mounts_tables(
    cameras: Sequence[str], urdf: Urdf | None, serials: Mapping[str, str], base: str, floor_m: float | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the tables of mounts.toml: the default robot's, or the depth cameras that are stated; and notes on them.

    Those leave out size and lens: a run takes them from `camera_info` or the device. Raises InputError.
    """
    mounts, notes = read_toml(DEFAULT_ROBOT / "mounts.toml"), dict[str, None]()
    if cameras:
        pairs = [pair_of("--camera", camera) for camera in cameras]
        named = dict(pairs)
        if len(named) < len(pairs):
            raise InputError(f"--camera: each name only once, found {', '.join(name for name, _ in pairs)}")
        mounts["cameras"] = {}
        for name, place in named.items():
            table, more = _placed(name, place, urdf, base, floor_m)
            mounts["cameras"][name] = table
            notes |= dict.fromkeys(more)
    for mount in mounts["cameras"].values():
        mount.pop("least_m", None)  # true of simulated cameras alone: the doctor asks for that of real ones
    for name, number in serials.items():
        if name not in mounts["cameras"]:
            raise InputError(f"--serial {name}={number}: the cameras are {', '.join(mounts['cameras'])}")
        mounts["cameras"][name]["serial"] = number
    return mounts, list(notes)


def _placed(
    name: str, place: str, urdf: Urdf | None, base: str, floor_m: float | None
) -> tuple[dict[str, Any], list[str]]:
    parts = place.split(",")
    if len(parts) == 1:
        if urdf is None:
            raise InputError(f"--camera {name}={place}: a frame needs --from-urdf; else X,Y,Z,LEFT,DOWN,ROLL")
        return placed_camera(urdf, base, name, place, floor_m)
    try:
        x, y, z, *look = map(float, parts)
        left, down, roll = look
    except ValueError:
        raise InputError(f"--camera {name}={place}: expected six numbers X,Y,Z,LEFT,DOWN,ROLL") from None
    if not all(map(math.isfinite, (x, y, z, *look))):
        raise InputError(f"--camera {name}={place}: expected finite numbers")
    return {"translation_m": [x, y, z], "look_deg": [left, down, roll]}, []


IN_SOURCE = Path(__file__).resolve().parents[3] / "examples" / "robots"
DOCUMENTS = Path(__file__).resolve().parents[3] / "docs"
UP = "../../../"
LINK = re.compile(r"\[([^\]]+)\]\(\.\./\.\./\.\./[^)]*\)")
INSTALLED = Path(sysconfig.get_path("data")) / "share" / "onboard" / "robots"


def shipped_robots() -> dict[str, Path]:
    """Return the folder of each robot that ships, by name, sorted."""
    home = IN_SOURCE if IN_SOURCE.is_dir() else INSTALLED
    return {path.parent.name: path.parent for path in sorted(home.glob("*/onboard.toml"))}


def copy_robot(name: str, folder: Path, replace: bool) -> list[Path]:
    """Copy the files of a shipped robot into a folder, which is created; return them.

    Raises InputError for an unknown name, and for an existing file without `replace`; OnboardError if the disk refuses.
    """
    robots = shipped_robots()
    if name not in robots:
        listed = ", ".join(robots) or "none in this release"
        raise InputError(f"--robot {name}: no shipped robot has this name; available: {listed}")
    sources = sorted(path for path in robots[name].iterdir() if path.is_file())
    targets = [folder / source.name for source in sources]
    there = [target for target in targets if target.exists()]
    if there and not replace:
        raise InputError(f"{there[0]}: already exists; --force replaces it")
    with naming(folder, "written", OnboardError):
        folder.mkdir(parents=True, exist_ok=True)
        for source, target in zip(sources, targets, strict=True):
            if source.suffix == ".md":
                target.write_text(_linked(source.read_text(encoding="utf-8")), encoding="utf-8")
            else:
                shutil.copyfile(source, target)
    return targets


def _linked(page: str) -> str:
    """Return a page whose links into the documents lead there from any folder; without the documents, only names."""
    if DOCUMENTS.is_dir():
        return page.replace(f"]({UP}docs/", f"]({DOCUMENTS.as_uri()}/")
    return LINK.sub(r"\1 (in the source of `onboard`)", page)
