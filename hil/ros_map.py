"""Occupancy maps as ROS map_server writes them: an image and a yaml file that says what its grey values mean."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image, UnidentifiedImageError
from pydantic import Field, ValidationError, model_validator

from hil.maps import CELL_M, World, check_size, world_of_walls
from onboard.config import Fraction, Positive, Section, validation_line
from onboard.errors import InputError, MissingExtraError
from onboard.messages import Pose

try:
    import yaml
except ModuleNotFoundError as error:
    raise MissingExtraError("PyYAML", "hil") from error

WHITE = 255.0
OPAQUE = 255
"""In mode scale, a pixel that is not fully opaque is unknown."""
RAW_LARGEST = 100
"""In mode raw, values up to 100 are the percentage of occupancy; larger ones are unknown."""
MAX_RESOLUTION_M = 1.0
Finite = Annotated[float, Field(allow_inf_nan=False)]


class RosMapTable(Section):
    """The yaml file. `origin` is the pose (x [m], y [m], yaw [rad]) of the image's lower left corner in the map."""

    image: Path
    resolution: Annotated[Positive, Field(le=MAX_RESOLUTION_M)]
    origin: tuple[Finite, Finite, Finite]
    negate: Literal[0, 1] = 0
    occupied_thresh: Fraction = 0.65
    free_thresh: Fraction = 0.196
    mode: Literal["trinary", "scale", "raw"] = "trinary"

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
    image_path = path.parent / table.image
    wall = ~free_pixels(_read_pixels(image_path), table)[::-1]
    divide = max(1, round(table.resolution / CELL_M))
    check_size(image_path, wall.shape[0] * divide, wall.shape[1] * divide)
    fine = wall.repeat(divide, axis=0).repeat(divide, axis=1)
    return world_of_walls(path.stem, table.resolution / divide, Pose(*table.origin), fine)


def free_pixels(pixels: npt.NDArray[Any], table: RosMapTable) -> npt.NDArray[np.bool_]:
    """Return (height, width) bool: pixels that map_server calls free, in the order of the image (top row first).

    pixels: (height, width) grey 0 to 255, or (height, width, 2) with opacity
    """
    grey = pixels if pixels.ndim == 2 else pixels[..., 0]
    if table.mode == "raw":
        return np.asarray((grey <= RAW_LARGEST) & (grey / RAW_LARGEST <= table.free_thresh))
    occupancy = grey / WHITE if table.negate else (WHITE - grey) / WHITE
    free = occupancy < table.free_thresh
    if table.mode == "scale" and pixels.ndim == 3:
        free &= pixels[..., 1] >= OPAQUE
    return np.asarray(free)


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
    """Return (height, width) uint8 grey, or (height, width, 2) grey and opacity. Raises InputError."""
    try:
        with Image.open(path) as image:
            check_size(path, image.height, image.width)
            return np.asarray(image.convert("LA" if "A" in image.getbands() else "L"))
    except UnidentifiedImageError as error:
        raise InputError(f"{path}: not an image that can be read") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # what some versions of Pillow say of a truncated file
        raise InputError(f"{path}: cannot be read: {error}") from error
