"""The whole way from keyframes to a map: closures and pose graph in turn, then occupancy by counting rays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from hil.recordings.mapping import closures
from hil.recordings.mapping.keyframes import Keyframe
from hil.recordings.mapping.pose_graph import Edge, optimized
from onboard.perception.building.map_image import MAX_CELLS
from onboard.perception.building.occupancy_grid import OccupancyGrid, write_grid
from onboard.values.errors import InputError
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_RAD, BINS, Pose

Counts = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

ROUNDS = 3
CELL_M, MARGIN_M = 0.05, 1.0
FREE_M, HIT_M = 6.0, 8.0
"""A ray without a return counts as free for this far; farther returns are not used."""
OCCUPIED_SHARE = 0.3
"""Share of a cell's rays that end in it, from which it is an obstacle."""
LEAST_RAYS = 2
EDGE = 10
"""Unknown cells around the map: points just behind an outer wall are still in it."""
GAP_M, GAP_BINS = 0.12, 2.5
"""Neighbouring returns this near to each other are one surface: the cells between them are hit too."""


@dataclass(frozen=True)
class Made:
    """A map with its poses, edges and what is unsure."""

    grid: OccupancyGrid
    poses: list[Pose]
    edges: list[Edge]
    unsure: int

    @property
    def closures(self) -> list[Edge]:
        """Return the loop closures."""
        return [edge for edge in self.edges if edge.closure]


def build(frames: Sequence[Keyframe]) -> Made:
    """Return the map of one drive. Raises InputError if it is too large or too short."""
    if len(frames) < 2:
        raise InputError("the recording has no two scans from different places: was the robot driven?")
    chain = [Edge(number, number + 1, frame.motion, frame.information) for number, frame in enumerate(frames[1:])]
    poses = [frame.pose for frame in frames]
    edges: list[Edge] = chain
    attempts: dict[int, closures.Attempt] = {}
    for _ in range(ROUNDS):
        attempts = closures.find(frames, poses, attempts)
        found = [attempt.edge for attempt in attempts.values() if attempt.edge is not None]
        if not found:
            break
        edges = chain + found
        poses = optimized(poses, edges)
    return Made(occupancy(frames, poses), poses, edges, sum(frame.unsure for frame in frames))


def occupancy(frames: Sequence[Keyframe], poses: Sequence[Pose]) -> OccupancyGrid:
    """Return the map of keyframes at these poses. Raises InputError if it has too many cells."""
    xy = np.array([[pose.x_m, pose.y_m] for pose in poses])
    low, high = xy.min(axis=0) - HIT_M - MARGIN_M, xy.max(axis=0) + HIT_M + MARGIN_M
    columns, rows = np.ceil((high - low) / CELL_M).astype(int)
    if rows * columns > MAX_CELLS:
        raise InputError(f"the map would have {columns} x {rows} cells, the limit is {MAX_CELLS}")
    hits, passes = np.zeros((rows, columns), np.int32), np.zeros((rows, columns), np.int32)
    for frame, pose in zip(frames, poses, strict=True):
        at = np.array([(pose.x_m - low[0]) / CELL_M, (pose.y_m - low[1]) / CELL_M, pose.yaw_rad])
        _count(frame.ranges_m.astype(np.float64), at, hits, passes)
    rays = hits + passes
    percent = np.full((rows, columns), -1, np.int8)
    percent[rays >= LEAST_RAYS] = 0
    percent[(hits >= LEAST_RAYS) & (hits >= OCCUPIED_SHARE * rays)] = 100
    used = np.argwhere(percent != -1)
    (first_row, first_column), (last_row, last_column) = np.maximum(used.min(axis=0) - EDGE, 0), used.max(axis=0) + EDGE
    corner = Pose(float(low[0] + first_column * CELL_M), float(low[1] + first_row * CELL_M), 0.0)
    return OccupancyGrid(CELL_M, corner, np.ascontiguousarray(percent[first_row:last_row, first_column:last_column]))


def write(made: Made, file: Path) -> list[Path]:
    """Write yaml and pgm as map_server reads them, and a picture with path and closures. Raises InputError."""
    image, picture = file.with_suffix(".pgm"), file.with_suffix(".png")
    write_grid(made.grid, file, image)
    try:
        _picture(made).save(picture)
    except OSError as error:
        raise InputError(f"{picture}: cannot be written: {error.strerror or error}") from error
    return [file, image, picture]


def _picture(made: Made) -> Image.Image:
    grid = made.grid
    grey = np.select([grid.percent == 100, grid.percent == 0], [0, 254], 205).astype(np.uint8)[::-1]
    image = Image.fromarray(grey).convert("RGB")
    draw, corner, rows = ImageDraw.Draw(image), grid.map_from_grid, grey.shape[0]

    def pixel(number: int) -> tuple[float, float]:
        pose = made.poses[number]
        return (pose.x_m - corner.x_m) / grid.cell_m, rows - (pose.y_m - corner.y_m) / grid.cell_m

    draw.line([pixel(number) for number in range(len(made.poses))], fill=(40, 90, 200))
    for edge in made.closures:
        draw.line([pixel(edge.first), pixel(edge.second)], fill=(210, 60, 40))
    return image


@kernel
def _count(ranges_m: Floats, at: Floats, hits: Counts, passes: Counts) -> None:  # pragma: no cover - compiled
    """Count the rays of a scan in place. at: x and y in cells, yaw"""
    rows, columns = hits.shape
    for k in range(BINS):
        here = ranges_m[k]
        if math.isnan(here) or here <= 0.0:
            continue
        angle = at[2] - math.pi + (k + 0.5) * BIN_RAD
        c, s = math.cos(angle), math.sin(angle)
        far = min(here, FREE_M if here == math.inf else HIT_M) / CELL_M
        step, last_i, last_j = 0.0, -1, -1
        while step < far - 1.0:
            i, j = int(at[1] + step * s), int(at[0] + step * c)
            if (i != last_i or j != last_j) and 0 <= i < rows and 0 <= j < columns:
                passes[i, j] += 1
                last_i, last_j = i, j
            step += 0.5
        if here > HIT_M:
            continue
        after = ranges_m[(k + 1) % BINS]
        x, y = at[0] + here * c / CELL_M, at[1] + here * s / CELL_M
        parts, dx, dy = 1, 0.0, 0.0
        if after < HIT_M:
            dx = at[0] + after * math.cos(angle + BIN_RAD) / CELL_M - x
            dy = at[1] + after * math.sin(angle + BIN_RAD) / CELL_M - y
            if math.hypot(dx, dy) * CELL_M <= GAP_M + GAP_BINS * here * BIN_RAD:
                parts = int(math.hypot(dx, dy)) + 1
        last_i, last_j = -1, -1
        for part in range(parts):
            i, j = int(y + dy * part / parts), int(x + dx * part / parts)
            if (i != last_i or j != last_j) and 0 <= i < rows and 0 <= j < columns:
                hits[i, j] += 1
                last_i, last_j = i, j
