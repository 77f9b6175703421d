"""Occupancy maps as ROS map_server and nav2 read them: an image and a yaml file that says what its grey values mean.

As nav2 does (nav2_map_server, `loadMapFromFile`): the colours of a pixel are averaged, in mode trinary its opacity
with them; occupancy is the darkness, or the brightness where `negate` is set; strictly below `free_thresh` is free. In
mode scale what is not fully opaque is unknown, in mode raw the brightness from 0 to 100 is the percentage itself,
whatever `negate` says. Keys that it does not know are left alone, as there; thresholds that are missing are ROS 1's.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from hil.maps import CELL_M, MAX_CELLS, MAX_COORDINATE_M, World, check_size, world_of_walls
from onboard.config import Finite, Fraction, Positive, Section, validation_line
from onboard.errors import InputError, MissingExtraError
from onboard.messages import Pose

try:
    import yaml
except ModuleNotFoundError as error:
    raise MissingExtraError("PyYAML", "hil") from error

WHITE = 255.0
WHITE_16 = 65535.0
SIXTEEN_BIT_MODES = ("I", "I;16", "I;16B")
FREE, OCCUPIED, UNKNOWN = 0, 100, -1
"""Values of an occupancy grid (nav_msgs/OccupancyGrid); those between are a percentage."""
MIN_RESOLUTION_M, MAX_RESOLUTION_M = 0.005, 1.0

Coordinate = Annotated[Finite, Field(ge=-MAX_COORDINATE_M, le=MAX_COORDINATE_M)]


class RosMapTable(Section):
    """The yaml file. `origin` is the pose (x [m], y [m], yaw [rad]) of the image's lower left corner in the map."""

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


def load_ros_map(path: Path) -> World:
    """Return the world of a map_server yaml; only cells that it calls free are free. Raises InputError.

    Cells keep the map's resolution, divided by a whole number where it is coarser than `CELL_M`.
    """
    table = _read_table(path)
    image_path = path.parent / table.image.expanduser()
    free = free_cells(occupancy(_read_pixels(image_path), table), table)
    if not free.any():
        raise InputError(
            f"{path}: {table.image}: no cell is free in mode {table.mode}, free_thresh {table.free_thresh}"
        )
    divide = max(1, round(table.resolution / CELL_M))
    check_size(image_path, free.shape[0] * divide, free.shape[1] * divide)
    wall = ~free[::-1].repeat(divide, axis=0).repeat(divide, axis=1)
    return world_of_walls(path.stem, table.resolution / divide, Pose(*table.origin), wall)


def occupancy(pixels: npt.NDArray[Any], table: RosMapTable) -> npt.NDArray[np.int8]:
    """Return (height, width) occupancy, 0 to 100 or `UNKNOWN`, in the order of the image (top row first).

    pixels: (height, width) grey or (height, width, channels): grey, opacity; red, green, blue; or these and opacity,
            0 to 255
    """
    if pixels.ndim == 2 and pixels.dtype == np.uint8:
        # One value a grey: a large image of floats would take much memory.
        return occupancy(np.arange(256.0)[None], table)[0][pixels]
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


def free_cells(value: npt.NDArray[np.int8], table: RosMapTable) -> npt.NDArray[np.bool_]:
    """Return where occupancy is 0, in mode raw at most `free_thresh`, which ROS leaves to the reader there."""
    return np.asarray((value >= FREE) & (value <= (OCCUPIED * table.free_thresh if table.mode == "raw" else FREE)))


def _read_table(path: Path) -> RosMapTable:
    try:
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(table, dict):
        raise InputError(f"{path}: must be a table with image, resolution and origin")
    try:
        return RosMapTable.model_validate(table)
    except ValidationError as error:
        raise InputError(validation_line(path, error)) from error


def _read_pixels(path: Path) -> npt.NDArray[Any]:
    """Return (height, width) or (height, width, channels), 0 to 255. Raises InputError; for its size, by its header."""
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
    except (ValueError, SyntaxError) as error:  # what some versions of Pillow say of a truncated or damaged file
        raise InputError(f"{path}: cannot be read: {error}") from error


def _channels(image: Image.Image) -> npt.NDArray[Any]:
    """Return the pixels as `occupancy` takes them."""
    if image.mode in SIXTEEN_BIT_MODES:
        return np.asarray(image) * (WHITE / WHITE_16)
    see_through = "A" in image.getbands() or "transparency" in image.info
    if image.mode in ("1", "L", "LA"):
        return np.asarray(image.convert("LA" if see_through else "L"))
    return np.asarray(image.convert("RGBA" if see_through else "RGB"))
