"""Vector maps: wall segments [m], in the format of UT Austin's AMRL or as rows of four numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.maps.cell_kernels import mark_segments
from hil.maps.world_grid import CELL_M, World, check_coordinates, world_of_walls
from onboard.perception.building.map_image import check_size
from onboard.values.errors import InputError
from onboard.values.messages import Pose

MARGIN_M = 2.0
"""Open ground around a vector map."""
MAX_SEGMENTS = 200_000
MAX_BYTES = 64_000_000
"""Larger files are rejected before reading; `MAX_SEGMENTS` in the AMRL format take 16 MB."""
SHORTEST_M = 1e-6
"""A map is rejected if all of its segments are shorter."""
DIGITS = 3


def load_vector_map(path: Path) -> World:
    """Return the world of wall segments: a list of `{"p0": {"x", "y"}, "p1": {"x", "y"}}` or `[x0, y0, x1, y1]` [m].

    Every cell that a segment crosses is wall, so no ray passes through a wall. Raises InputError.
    """
    segments = _read_segments(path)
    _, extent = _frame(segments)
    check_size(path, float(extent[1]), float(extent[0]))
    return world_of_segments(path.name.split(".")[0], segments)


def world_of_segments(name: str, segments: npt.NDArray[np.float64]) -> World:
    """Return the world of wall segments (n, 4) x0, y0, x1, y1 [m], with open ground around."""
    corner, extent = _frame(segments)
    size = np.ceil(extent).astype(int)
    wall = np.zeros((size[1], size[0]), np.bool_)
    mark_segments(wall, (segments - np.tile(corner, 2)) / CELL_M)
    return world_of_walls(name, CELL_M, Pose(float(corner[0]), float(corner[1]), 0.0), wall, yard=True)


def _frame(segments: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the corner x, y of a map [m], and its size along x and y [cells], not rounded."""
    points = segments.reshape(-1, 2)
    corner = points.min(axis=0) - MARGIN_M
    return corner, (points.max(axis=0) + MARGIN_M - corner) / CELL_M


def shorten(source: Path, file: Path) -> None:
    """Write a vector map as rows of numbers, rounded to 1 mm (source of the shipped maps). Raises InputError."""
    rows = np.round(_read_segments(source), DIGITS).tolist()
    file.write_text("[\n" + ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows) + "\n]\n")


def _read_segments(path: Path) -> npt.NDArray[np.float64]:
    """Return (n, 4) x0, y0, x1, y1 [m]. Raises InputError."""
    rows = _read_rows(path)
    segments = np.empty((len(rows), 4))
    for index, row in enumerate(rows):
        try:
            segments[index] = _numbers(row)
        except (TypeError, KeyError, ValueError, OverflowError) as error:
            raise InputError(
                f"{path}: segment {index}: must be {{p0: {{x, y}}, p1: {{x, y}}}} or [x0, y0, x1, y1], in numbers"
            ) from error
        check_coordinates(f"{path}: segment {index}", segments[index])
    lengths_m = np.hypot(segments[:, 2] - segments[:, 0], segments[:, 3] - segments[:, 1])
    if lengths_m.max() < SHORTEST_M:
        raise InputError(f"{path}: all {len(rows)} segments are points, there is no wall")
    return segments


def _read_rows(path: Path) -> list[Any]:
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise InputError(f"{path}: {size} bytes, the limit is {MAX_BYTES}")
        rows = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{path}: must be a list of at least one segment")
    if len(rows) > MAX_SEGMENTS:
        raise InputError(f"{path}: {len(rows)} segments, the limit is {MAX_SEGMENTS}")
    return rows


def _numbers(row: Any) -> list[float]:
    """Return x0, y0, x1, y1. Raises TypeError, KeyError or ValueError."""
    values = row if isinstance(row, list) else [row[end][axis] for end in ("p0", "p1") for axis in ("x", "y")]
    if len(values) != 4:
        raise ValueError(f"{len(values)} numbers")
    return [float(value) for value in values]
