"""The keep-out brush: what the page shows of nav2's mask, and strokes that are painted into it.

The mask is the file of `zones.keep_out`; without one it is `keep_out.yaml` next to the map. A request names no file.
The runtime reads its masks at its start, and publishes the digest of the one in force. So the page knows whether a
saved mask is in force.
"""

from __future__ import annotations

import io
import math
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from onboard.config.config import Config
from onboard.perception.building.map_image import OCCUPIED, occupied_cells
from onboard.perception.building.occupancy_grid import OccupancyGrid, load_building, load_grid, write_grid
from onboard.values.errors import ConfigError, InputError
from onboard.values.geometry import apply, inverse

FILE = "keep_out.yaml"
MOST_POINTS, MOST_RADIUS_M = 5000, 5.0
"""Of one saving."""
STROKES = 'strokes are {"strokes": [{"points": [[x, y], ...], "radius_m": m, "erase": false}, ...]}'


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask, its picture (PNG, forbidden cells alone), and the times of the files that it was read from."""

    grid: OccupancyGrid
    picture: bytes
    stamp: tuple[int, ...]


class KeepOut:
    """The mask of one robot. The methods may be called from any thread."""

    def __init__(self, config: Config) -> None:
        self._map, self._configured = config.map.file, config.zones.keep_out is not None
        self._file = config.zones.keep_out or (None if self._map is None else self._map.with_name(FILE))
        self._lock = threading.Lock()
        self._mask: Mask | None = None

    def mask(self) -> Mask | None:
        """Return the mask, an empty one before the first; None without a map. Raises InputError for a damaged file."""
        with self._lock:
            return self._read()

    def paint(self, table: Any) -> str:
        """Paint strokes into the mask and save it; return what that changed, and when it takes effect.

        Raises InputError with the limit, or ConfigError without a map; the mask stays as it was then.
        """
        strokes = _strokes_of(table)
        with self._lock:
            mask = self._read()
            if mask is None or self._file is None:
                raise ConfigError("map.file: a keep-out mask needs the map of the building, or zones.keep_out")
            before = mask.grid.percent
            if ((before > 0) & (before < OCCUPIED)).any():
                raise InputError(
                    f"{self._file}: it has weights (mode scale), which the brush would lose: edit its image"
                )
            after = OccupancyGrid(mask.grid.cell_m, mask.grid.map_from_grid, _painted(mask.grid, strokes))
            image = self._file.with_name(f"{self._file.stem}-{after.digest[:8]}.pgm")
            write_grid(after, self._file, image)
            for old in self._file.parent.glob(f"{self._file.stem}-{'[0-9a-f]' * 8}.pgm"):
                if old != image:
                    old.unlink(missing_ok=True)
        m2, was, now = after.cell_m**2, before == OCCUPIED, after.occupied
        return (
            f"saved: {now.sum() * m2:.1f} m² forbidden, {(now & ~was).sum() * m2:.1f} m² more and "
            f"{(was & ~now).sum() * m2:.1f} m² less than before; {self.effect()}"
        )

    def effect(self) -> str:
        """Return when a saved mask takes effect."""
        if self._configured or self._file is None:
            return "it takes effect when the runtime starts again"
        return f'set zones.keep_out = "{self._file.resolve()}" in onboard.toml, then start the runtime again'

    def _read(self) -> Mask | None:
        if self._file is None:
            return None
        source = self._file if self._file.exists() else self._map
        stamp = _stamp(source)
        if source is not None and (self._mask is None or self._mask.stamp != stamp):
            if source == self._file:
                grid = load_grid(source, occupied_cells)
            else:
                whole = load_building(source)
                grid = OccupancyGrid(whole.cell_m, whole.map_from_grid, np.zeros_like(whole.percent))
            self._mask = Mask(grid, _picture(grid), stamp)
        return self._mask


def _stamp(source: Path | None) -> tuple[int, ...]:
    try:
        return () if source is None else (source.stat().st_mtime_ns, source.stat().st_size, source.stat().st_ino)
    except OSError:  # it goes just now
        return ()


def _picture(grid: OccupancyGrid) -> bytes:
    image = Image.fromarray(grid.occupied.astype(np.uint8)[::-1], "P")
    image.putpalette([255, 255, 255, 200, 40, 50])
    packed = io.BytesIO()
    image.save(packed, "PNG", transparency=bytes((0, 110)))
    return packed.getvalue()


@dataclass(frozen=True, slots=True)
class Stroke:
    """A stroke of the brush. points: in the map frame [m]"""

    points: list[tuple[float, float]]
    radius_m: float
    erase: bool


def _strokes_of(table: Any) -> list[Stroke]:
    rows = table.get("strokes") if isinstance(table, dict) else None
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(STROKES)
    strokes, count = [], 0
    for row in rows:
        points, radius_m, erase = row.get("points"), row.get("radius_m"), row.get("erase", False)
        if not isinstance(points, list) or not points or not isinstance(erase, bool) or not all(map(_is_pair, points)):
            raise InputError(STROKES)
        if not _is_number(radius_m) or not 0.0 < radius_m <= MOST_RADIUS_M:
            raise InputError(f"radius_m: {str(radius_m)[:20]}, the limit is {MOST_RADIUS_M:g} m")
        count += len(points)
        strokes.append(Stroke([(float(x), float(y)) for x, y in points], float(radius_m), erase))
    if count > MOST_POINTS:
        raise InputError(f"{count} points, the limit is {MOST_POINTS}: save more often")
    return strokes


def _painted(grid: OccupancyGrid, strokes: list[Stroke]) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Return the mask's cells after the strokes: each covers at least its circle. Raises InputError beside the mask."""
    rows, columns = grid.percent.shape
    canvas = Image.fromarray(np.where(grid.occupied, OCCUPIED, 0).astype(np.uint8))
    pen, grid_from_map = ImageDraw.Draw(canvas), inverse(grid.map_from_grid)
    for stroke in strokes:
        places = [apply(grid_from_map, point) for point in stroke.points]
        for (x_m, y_m), point in zip(places, stroke.points, strict=True):
            if not (0.0 <= x_m <= columns * grid.cell_m and 0.0 <= y_m <= rows * grid.cell_m):
                raise InputError(f"({point[0]:.2f}, {point[1]:.2f}) is outside the mask {columns} x {rows} cells")
        cells = [(x_m / grid.cell_m - 0.5, y_m / grid.cell_m - 0.5) for x_m, y_m in places]
        radius, value = stroke.radius_m / grid.cell_m, 0 if stroke.erase else OCCUPIED
        pen.line(cells, fill=value, width=math.ceil(2.0 * radius) + 1)
        for x, y in cells:
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=value)
    return np.asarray(canvas).astype(np.int8)


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, (int, float)) and abs(value) <= sys.float_info.max


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_number, value))
