"""How large a robot is by the shapes of its URDF: the footprint about the base frame, and the highest point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from onboard.config.footprint import FARTHEST_M
from onboard.config.urdf import IDENTITY_XYZW, Body, Urdf, Vector
from onboard.config.urdf_floor import Floor, mesh_vertices
from onboard.values.errors import InputError
from onboard.values.geometry import rotation_from_quaternion

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
