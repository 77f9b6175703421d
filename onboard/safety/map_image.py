"""Occupancy maps of ROS map_server and nav2: an image, and a yaml file with the meaning of its grey values.

The rules are nav2's (nav2_map_server, `loadMapFromFile`). The colours of a pixel are averaged, in mode trinary together
with its opacity. Occupancy is the darkness, or the brightness with `negate`; a value strictly below `free_thresh` is
free. In mode scale, pixels that are not fully opaque are unknown. In mode raw, the brightness from 0 to 100 is the
percentage, regardless of `negate`. Unknown keys are ignored, as in nav2; default thresholds are ROS 1's.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import yaml
from PIL import Image, UnidentifiedImageError
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from onboard.config.toml_file import Finite, Fraction, Positive, Section, validation_lines
from onboard.values.errors import InputError

MAX_CELLS = 25_000_000
"""A cell of a furnished world takes 34 bytes, so the largest world stays below 1 GB."""
MAX_COORDINATE_M = 1e6
"""Limit of coordinates: a file beyond it is damaged or in another unit."""
WHITE = 255.0
WHITE_16 = 65535.0
SIXTEEN_BIT_MODES = ("I", "I;16", "I;16B")
FREE, OCCUPIED, UNKNOWN = 0, 100, -1
"""Values of an occupancy grid (nav_msgs/OccupancyGrid); values between free and occupied are percentages."""
MIN_RESOLUTION_M, MAX_RESOLUTION_M = 0.005, 1.0

Coordinate = Annotated[Finite, Field(ge=-MAX_COORDINATE_M, le=MAX_COORDINATE_M)]


class RosMapTable(Section):
    """The yaml file. origin: pose (x [m], y [m], yaw [rad]) of the image's lower left corner in the map."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    image: Path
    resolution: Annotated[Positive, Field(ge=MIN_RESOLUTION_M, le=MAX_RESOLUTION_M)]
    origin: tuple[Coordinate, Coordinate, Finite]
    negate: bool = False
    occupied_thresh: Fraction = 0.65
    free_thresh: Fraction = 0.196
    mode: Annotated[
        Literal["trinary", "scale", "raw"],
        BeforeValidator(lambda mode: mode.lower() if isinstance(mode, str) else mode),
    ] = "trinary"

    @model_validator(mode="after")
    def _ordered(self) -> RosMapTable:
        if self.free_thresh >= self.occupied_thresh:
            raise ValueError(f"free_thresh {self.free_thresh} must be below occupied_thresh {self.occupied_thresh}")
        return self


def read_map_image(path: Path) -> tuple[RosMapTable, npt.NDArray[np.int8]]:
    """Return the table of a map_server yaml and its image as `occupancy`, top row first. Raises InputError."""
    table = _read_table(path)
    return table, occupancy(_read_pixels(path.parent / table.image.expanduser()), table)


def occupancy(pixels: npt.NDArray[Any], table: RosMapTable) -> npt.NDArray[np.int8]:
    """Return (height, width) occupancy, 0 to 100 or `UNKNOWN`, in the order of the image (top row first).

    pixels: (height, width) grey, or (height, width, channels) with grey and opacity, RGB or RGBA; 0 to 255
    """
    if pixels.ndim == 2 and pixels.dtype == np.uint8:
        # A table of the 256 grey values: a large image of floats would take much memory.
        return np.asarray(occupancy(np.arange(256.0)[None], table)[0][pixels])
    channels = pixels[..., None] if pixels.ndim == 2 else pixels
    opacity = channels[..., -1] if channels.shape[2] in (2, 4) else None
    averaged = channels if opacity is None or table.mode == "trinary" else channels[..., :-1]
    brightness = averaged.mean(axis=2, dtype=np.float64)
    if table.mode == "raw":
        percent = np.rint(brightness)
        return np.where(percent <= OCCUPIED, percent, UNKNOWN).astype(np.int8)
    occupied = (brightness if table.negate else WHITE - brightness) / WHITE
    value = np.full(occupied.shape, UNKNOWN, np.int8)
    if table.mode == "scale":
        part = (occupied - table.free_thresh) / (table.occupied_thresh - table.free_thresh)
        value = np.rint(OCCUPIED * part.clip(0.0, 1.0)).astype(np.int8)
    value[occupied < table.free_thresh] = FREE
    value[occupied > table.occupied_thresh] = OCCUPIED
    if table.mode == "scale" and opacity is not None:
        value[opacity < WHITE] = UNKNOWN
    return value


def check_size(path: Path, rows: float, columns: float) -> None:
    """Raise InputError if a grid exceeds `MAX_CELLS`."""
    if rows * columns > MAX_CELLS:
        raise InputError(f"{path}: {columns:.0f} x {rows:.0f} cells, the limit is {MAX_CELLS}")


def _read_table(path: Path) -> RosMapTable:
    try:
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(table, dict):
        raise InputError(f"{path}: must be a table with image, resolution and origin")
    try:
        return RosMapTable.model_validate(table)
    except ValidationError as error:
        raise InputError(validation_lines(path, error)) from error


def _read_pixels(path: Path) -> npt.NDArray[Any]:
    """Return (height, width) or (height, width, channels), 0 to 255. Raises InputError; checks the size by header."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                check_size(path, image.height, image.width)
                return _channels(image)
    except UnidentifiedImageError as error:
        raise InputError(f"{path}: not an image that can be read") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        size = str(error).split(" exceeds", maxsplit=1)[0]
        raise InputError(f"{path}: {size}, the limit is {MAX_CELLS} cells") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, SyntaxError) as error:  # some versions of Pillow, for a truncated or damaged file
        raise InputError(f"{path}: cannot be read: {error}") from error


def _channels(image: Image.Image) -> npt.NDArray[Any]:
    """Return the pixels in the form that `occupancy` takes."""
    if image.mode in SIXTEEN_BIT_MODES:
        return np.asarray(image) * (WHITE / WHITE_16)
    see_through = "A" in image.getbands() or "transparency" in image.info
    if image.mode in ("1", "L", "LA"):
        return np.asarray(image.convert("LA" if see_through else "L"))
    return np.asarray(image.convert("RGBA" if see_through else "RGB"))
