"""The whole way from keyframes to a map: closures and pose graph in turn, then occupancy by counting rays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from hil.recordings.mapping.keyframes import Keyframe, local_map, scan_in
from hil.recordings.mapping.pose_graph import Edge, optimized
from hil.recordings.mapping.registration import lines_of, register, turned_by
from onboard.perception.building import map_fit
from onboard.perception.building.map_image import MAX_CELLS
from onboard.perception.building.occupancy_grid import OccupancyGrid, write_grid
from onboard.values.errors import InputError, naming
from onboard.values.geometry import between, distance
from onboard.values.kernel import kernel
from onboard.values.messages import BIN_RAD, BINS, Pose

APART, EVERY = 30, 4
"""Keyframes between both sides of a loop, at least; of every so many keyframes one is searched."""
AROUND = 8
"""Keyframes of the local map, to each side."""
REACH_M, DRIFT = 2.0, 0.04
"""A keyframe is searched within this distance of another, and of the drift of the way between them."""
WINDOW_M, WINDOW_RAD = 1.2, 0.5
SEARCH_SD = (0.1, 0.1, 0.06)
"""Standard deviation of what the search finds: x, y [m], yaw [rad]."""
LEAST_EXPLAINED, MOST_THROUGH = 0.6, 0.05
TRUSTED = 0.5
"""Share of the fit's information that counts: the local map has errors of its own."""


def find_closures(frames: Sequence[Keyframe], poses: Sequence[Pose]) -> list[Edge]:
    """Return the loop closures of keyframes at these poses."""
    edges = []
    xy = np.array([[pose.x_m, pose.y_m] for pose in poses])
    way = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(xy, axis=0).T))])
    for second in range(APART, len(frames), EVERY):
        earlier = np.arange(second - APART)
        away_m = np.hypot(*(xy[earlier] - xy[second]).T)
        near = away_m < REACH_M + np.minimum(DRIFT * (way[second] - way[earlier]), WINDOW_M)
        if not near.any():
            continue
        first = int(earlier[near][np.argmin(away_m[near])])
        edge = _closed(frames, poses, first, second)
        if edge is not None:
            edges.append(edge)
    return edges


def _closed(frames: Sequence[Keyframe], poses: Sequence[Pose], first: int, second: int) -> Edge | None:
    """Return the closure of two keyframes, None where the scan does not agree."""
    around = [(frames[k].points, poses[k]) for k in _about(first, len(frames))]
    local, lines, scan = local_map(around), lines_of(around), scan_in(frames[second].ranges_m)
    if local is None or lines is None:
        return None
    pose, _ = map_fit.search(scan, local, poses[second], WINDOW_M, WINDOW_RAD)
    found = register(frames[second].points, lines, pose, np.diag(np.square(SEARCH_SD)))
    if found is None or distance(found.pose, poses[second]) > math.sqrt(2.0) * WINDOW_M:
        return None
    agreed = map_fit.agreement(scan, local, found.pose)
    if agreed.points < BINS // 4 or agreed.explained < LEAST_EXPLAINED or agreed.through > MOST_THROUGH:
        return None
    information = TRUSTED * np.linalg.inv(_seen_from(poses[first], found.covariance))
    return Edge(first, second, between(poses[first], found.pose), information, closure=True)


def _seen_from(frame: Pose, covariance: np.ndarray) -> np.ndarray:
    turned = turned_by(-frame.yaw_rad)
    return np.asarray(turned @ covariance @ turned.T)


def _about(number: int, count: int) -> range:
    return range(max(0, number - AROUND), min(count, number + AROUND + 1))


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
    for _ in range(ROUNDS):
        found = find_closures(frames, poses)
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
    with naming(picture, "written"):
        _picture(made).save(picture)
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
