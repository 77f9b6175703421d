"""How high a URDF's base frame is above the floor, by a footprint frame and by the lowest points of its wheels.

A wheel is a round body whose joint turns for ever about a level axis, and that is named like one or has its like on the
same axle. The floor is where two wheels end at one height, at the lowest such height; without such two it is where the
lowest wheel ends. Wheels that end elsewhere are doubts. Casters (balls, and rollers that are fixed) say where the floor
is if no wheel does. A mesh counts by the vertices of its file, where trimesh (extra `mesh`) can read that.

The shapes also state how large a robot is: the footprint about the base frame, and the highest point.
"""

from __future__ import annotations

import importlib
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from onboard.config.footprint import FARTHEST_M
from onboard.config.urdf import IDENTITY_XYZW, Body, Joint, Urdf, Vector
from onboard.values.errors import InputError
from onboard.values.geometry import rotation_from_quaternion

FOOTPRINT = "footprint"
"""A frame with this at the end of its name is on the floor (REP-120, `base_footprint`)."""
WHEEL = re.compile("wheel|tire|tyre|caster|castor", re.IGNORECASE)
"""In the name of a wheel or of its joint; arms and lidars have joints that turn for ever, too."""
CASTER = re.compile("cast[eo]r|ball", re.IGNORECASE)
SAME_FLOOR_M = 0.01
LEVEL = 0.2
"""Sine of the angle to level up to which an axle is level: wheels have camber."""
FOR_EVER_RAD = 4.0 * math.pi
"""A revolute joint with this range is a wheel's: some writers state limits for each joint."""
ROUND = 0.1
"""Part by which two sides of a round body may differ: treads and rollers."""
MESH_ERRORS = (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, SyntaxError, TypeError, ValueError)
"""Exceptions of trimesh and its readers for damaged files."""


@dataclass(frozen=True, slots=True)
class Floor:
    """How high the base frame is above the floor [m], what says so, and what contradicts it.

    base_height_m: None if the file does not determine it, or the part that does cannot be read
    """

    base_height_m: float | None
    source: str
    doubts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ends:
    """Where a wheel ends: its lowest point seen from the base [m], None if unknown, and its size or why not."""

    low_m: float | None
    words: str


def floor_of(urdf: Urdf, base: str) -> Floor:
    """Return where the floor is under a base frame. Raises InputError if that would be above the base's origin."""
    driven, casters = _wheels(urdf, base)
    known = {name: one.low_m for name, one in driven.items() if one.low_m is not None}
    known = known or (
        {} if driven else {name: caster.low_m for name, caster in casters.items() if caster.low_m is not None}
    )
    heights = sorted(known.values())
    shared = [a for a, b in pairwise(heights) if b - a < SAME_FLOOR_M]  # one body may be a flywheel, or a lifted wheel
    lowest = min(shared or heights, default=math.nan)
    floor = {name: low_m for name, low_m in known.items() if abs(low_m - lowest) < SAME_FLOOR_M}
    doubts = [
        f"{name} ends at {low_m:.4g} m" for name, low_m in sorted(known.items()) if name in driven and name not in floor
    ]
    unread = [f"{name} ({one.words})" for name, one in sorted(driven.items()) if one.low_m is None]
    doubts += [f"{one} was not used" for one in unread] if floor else []
    for name, caster in casters.items():
        if caster.low_m is not None and caster.low_m < lowest - SAME_FLOOR_M:
            doubts.append(f"{name} ends lower, at {caster.low_m:.4g} m")
        elif caster.low_m is not None and caster.low_m < lowest + SAME_FLOOR_M and driven and name not in floor:
            floor[name], lowest = caster.low_m, min(lowest, caster.low_m)
    sizes = ", ".join(dict.fromkeys(({**casters, **driven})[name].words for name in sorted(floor)))
    by_wheels = f"wheels {', '.join(sorted(floor))} ({sizes})"
    for frame in sorted(urdf.frames(), key=lambda one: (len(one), one)):
        if frame.endswith(FOOTPRINT) and urdf.connected(base, frame):
            height_m = -float(urdf.pose(base, frame)[0][2])
            if floor and abs(height_m + lowest) > SAME_FLOOR_M:
                doubts.append(f"the {by_wheels} end at {lowest:.4g} m")
            return _above(urdf, base, Floor(height_m, f"frame {frame}", tuple(doubts)))
    if floor:
        return _above(urdf, base, Floor(-lowest, by_wheels, tuple(doubts)))
    if unread:
        return Floor(None, f"{urdf.path}: the height of its wheels is unknown: {', '.join(unread)}")
    return Floor(None, f"{urdf.path} has no footprint frame and no wheel with a radius")


def _above(urdf: Urdf, base: str, floor: Floor) -> Floor:
    if floor.base_height_m is not None and floor.base_height_m < -SAME_FLOOR_M:
        raise InputError(
            f"{urdf.path}: {base} would be {-floor.base_height_m:.4g} m below the floor, by {floor.source}: "
            "name another base frame (--base), or set its height above the floor with --floor-m HEIGHT"
        )
    return floor


def _wheels(urdf: Urdf, base: str) -> tuple[dict[str, Ends], dict[str, Ends]]:
    """Return the wheels and the casters that are connected to a base frame, by link."""
    driven: dict[str, Ends] = {}
    casters: dict[str, Ends] = {}
    rolling = {link for link in urdf.bodies if link in urdf.joints and urdf.connected(base, link)}
    axles = {link: _axle(urdf, base, link) for link in rolling if _for_ever(urdf.joints[link])}
    axles = {link: axle for link, axle in axles.items() if abs(axle[2]) < LEVEL}
    pairs = {link for a, b in combinations(axles, 2) if _coaxial(urdf, base, axles, a, b) for link in (a, b)}
    for link in sorted(rolling):
        name = f"{link} {urdf.joints[link].name}"
        if not (WHEEL.search(name) or link in pairs):
            continue
        is_caster = CASTER.search(name) is not None or link not in axles
        ends = _ends(urdf, base, link, axles.get(link), is_caster)
        if ends is not None:
            (casters if is_caster else driven)[link] = ends
    return driven, casters


def _for_ever(joint: Joint) -> bool:
    limits = joint.limits
    return joint.kind == "continuous" or (
        joint.kind == "revolute" and (limits is None or limits[0] == limits[1] or limits[1] - limits[0] >= FOR_EVER_RAD)
    )


def _axle(urdf: Urdf, base: str, link: str) -> Vector:
    return rotation_from_quaternion(urdf.pose(base, link)[1]) @ urdf.joints[link].axis


def _coaxial(urdf: Urdf, base: str, axles: Mapping[str, Vector], a: str, b: str) -> bool:
    """Return whether two wheels of one body turn on one axle; the joints of an arm hang on each other."""
    if urdf.joints[a].parent != urdf.joints[b].parent:
        return False
    apart = urdf.pose(base, b)[0] - urdf.pose(base, a)[0]
    length = float(np.linalg.norm(apart))
    return length > SAME_FLOOR_M and all(abs(float(axles[one] @ apart)) > 0.99 * length for one in (a, b))


# ---- The lowest point of a body


def _ends(urdf: Urdf, base: str, link: str, axle: Vector | None, is_caster: bool) -> Ends | None:
    """Return where a link's round bodies end, of its collision before its visual; None for no round caster."""
    reasons: list[str] = []
    for part in ("collision", "visual"):
        found = [_body_ends(urdf, base, link, body, axle) for body in urdf.bodies[link] if body.part == part]
        known = [one for one in found if one.low_m is not None]
        if known:
            return min(known, key=lambda one: one.low_m or 0.0)
        reasons += [one.words for one in found]
    return None if is_caster else Ends(None, ", ".join(dict.fromkeys(reasons)) or "has no body")


def _body_ends(urdf: Urdf, base: str, link: str, body: Body, axle: Vector | None) -> Ends:
    at, turn = urdf.pose(base, link)
    turned, (offset, own) = rotation_from_quaternion(turn), body.pose
    centre, rotation = at + turned @ offset, turned @ rotation_from_quaternion(own)
    if body.shape == "sphere":
        return Ends(float(centre[2]) - body.size[0], f"radius {body.size[0]:g} m")
    if body.shape == "cylinder":
        level = abs(float(rotation[2, 2])) < LEVEL
        return (
            Ends(float(centre[2]) - body.size[0], f"radius {body.size[0]:g} m")
            if level
            else Ends(None, "stands upright")
        )
    if body.shape != "mesh":
        return Ends(None, f"is a {body.shape}")
    try:
        points = (mesh_vertices(urdf.path, body.file) * body.size) @ rotation.T + centre
    except InputError as error:
        return Ends(None, str(error))
    along = np.array([-axle[1], axle[0], 0.0]) if axle is not None else np.array([1.0, 0.0, 0.0])
    high_m, long_m = float(np.ptp(points[:, 2])), float(np.ptp(points @ along))
    if abs(high_m - long_m) > ROUND * max(high_m, long_m):
        return Ends(None, f"mesh {Path(body.file).name} is not round: {long_m:.3g} m long, {high_m:.3g} m high")
    return Ends(float(points[:, 2].min()), f"mesh {Path(body.file).name}, radius {high_m / 2.0:.4g} m")


def mesh_vertices(urdf: Path, name: str) -> Vector:
    """Return (n, 3) vertices of a mesh, in its unit where it states one [m]. Raises InputError with a few words."""
    file = _file_of(urdf, name)
    try:
        trimesh = importlib.import_module("trimesh")
        scene = trimesh.load(file, force="scene", process=False, skip_materials=True)
        parts = [scene.graph[node] for node in scene.graph.nodes_geometry]
        points = [np.asarray(scene.geometry[mesh].vertices) @ pose[:3, :3].T + pose[:3, 3] for pose, mesh in parts]
        unit = (
            re.search(rb'<unit\b[^>]*\bmeter\s*=\s*"([^"]+)"', file.read_bytes())
            if file.suffix.lower() == ".dae"
            else None
        )
        vertices: Vector = np.concatenate(points) * (float(unit[1]) if unit else 1.0)
    except ModuleNotFoundError as error:
        raise InputError(f"mesh {file.name} needs {error.name}: pip install 'onboard[mesh]'") from error
    except MESH_ERRORS as error:
        raise InputError(f"mesh {file.name} cannot be read") from error
    if not (len(vertices) and np.isfinite(vertices).all()):
        raise InputError(f"mesh {file.name} cannot be read")
    return vertices


def _file_of(urdf: Path, name: str) -> Path:
    """Return the file of a mesh: package://NAME/..., in a folder above the URDF or of ROS, file://... or a path."""
    scheme, _, rest = name.rpartition("://")
    if scheme != "package":
        return urdf.parent / rest
    package, _, inside = rest.partition("/")
    shares = [Path(part) / "share" for part in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if part]
    tops = [parent for parent in urdf.resolve().parents if parent.name == package]
    folders = [*tops, *(one / package for one in (*urdf.resolve().parents, *shares))]
    return next((folder / inside for folder in folders if (folder / inside).is_file()), Path(inside))


LARGER = 1.15
"""A circle is taken if its area is at most so many times that of the rectangle around the robot."""
LEAST_M = 0.05
_CIRCLE = np.column_stack([f(np.arange(36) * math.pi / 18.0) for f in (np.cos, np.sin)])


@dataclass(frozen=True, slots=True)
class Size:
    """What the shapes state for `[robot]` of onboard.toml, rounded up to centimetres.

    keys:  footprint_radius_m or footprint_m, and height_m where the floor is known [m]; empty if the size is unknown
    words: what was found, or why the size is unknown
    """

    keys: Mapping[str, Any]
    words: str


def size_of(urdf: Urdf, base: str, floor: Floor) -> Size:
    """Return the size of all links that hang on a base frame, joints where the URDF and its caller have them.

    A link counts by its collision shapes, without those by its visual ones. Raises InputError for no such frame.
    """
    points = [np.zeros((0, 3))]
    for link in sorted(urdf.bodies):
        if link != base and not urdf.connected(base, link):
            continue
        parts = [body for body in urdf.bodies[link] if body.part == "collision"] or urdf.bodies[link]
        try:
            points += [_points(urdf, base, link, body) for body in parts]
        except InputError as error:
            return Size({}, f"unknown: link {link}: {error}")
    at = np.concatenate(points)
    if not len(at):
        return Size({}, "unknown: no link has a shape")
    reach_m = _up(float(np.hypot(at[:, 0], at[:, 1]).max()))
    low, high = at[:, :2].min(axis=0), at[:, :2].max(axis=0)
    if reach_m > FARTHEST_M:
        return Size({}, f"unknown: its shapes reach {reach_m:g} m from {base}, limit {FARTHEST_M:g}")
    front, left, rear, right = (max(_up(float(value)), LEAST_M) for value in (*high, *-low))
    round_robot = math.pi * reach_m**2 <= LARGER * (front + rear) * (left + right)
    keys: dict[str, Any] = {"footprint_radius_m": max(reach_m, LEAST_M)}
    words = f"circle of {keys['footprint_radius_m']:g} m"
    if not round_robot:
        keys = {"footprint_m": [[front, left], [-rear, left], [-rear, -right], [front, -right]]}
        words = f"{front + rear:.3g} x {left + right:.3g} m, {front:g} m of it ahead of {base}"
    if floor.base_height_m is not None:
        keys["height_m"] = max(_up(float(at[:, 2].max()) + floor.base_height_m), LEAST_M)
        words += f", {keys['height_m']:g} m high"
    return Size(keys, words)


def _up(value_m: float) -> float:
    """Return a length rounded up to a centimetre, but for 0.1 mm."""
    return math.ceil((value_m - 1e-4) * 100.0) / 100.0


def _points(urdf: Urdf, base: str, link: str, body: Body) -> Vector:
    """Return (n, 3) points of a shape's outline in the base frame [m]. Raises InputError for an unreadable mesh."""
    at, turn = (np.zeros(3), IDENTITY_XYZW) if link == base else urdf.pose(base, link)
    offset, own = body.pose
    if body.shape == "sphere":
        own_points = np.concatenate(
            [np.pad(body.size[0] * _CIRCLE, ((0, 0), (0, 1))), [[0.0, 0.0, s * body.size[0]] for s in (-1.0, 1.0)]]
        )
        return own_points + at + rotation_from_quaternion(turn) @ offset
    if body.shape == "mesh":
        own_points = mesh_vertices(urdf.path, body.file) * body.size
    elif body.shape == "box":
        own_points = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]) * body.size
    elif body.shape in ("cylinder", "capsule"):
        radius_m, length_m = body.size
        half_m = length_m / 2.0 + (radius_m if body.shape == "capsule" else 0.0)
        own_points = np.concatenate([np.column_stack([radius_m * _CIRCLE, np.full(36, z)]) for z in (-half_m, half_m)])
    else:
        raise InputError(f"is a {body.shape}")
    points: Vector = (own_points @ rotation_from_quaternion(own).T + offset) @ rotation_from_quaternion(turn).T + at
    return points
