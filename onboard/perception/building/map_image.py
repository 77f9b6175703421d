"""Occupancy maps of ROS map_server and nav2: an image, and a yaml file with the meaning of its grey values.

The rules are those of nav2's map_io.cpp, which has two definitions:

    since Jazzy   the brightness is the luma of the colours. A pixel that is not opaque is unknown (trinary, scale)
    Humble, ROS 1 the brightness is the mean of the colours; in mode trinary, of three colours and the opacity. In
                  mode scale, a pixel that is not opaque is unknown

Occupancy is the darkness, or the brightness with `negate`; below `free_thresh` is free. In mode raw, the brightness
from 0 to 100 is the percentage, regardless of `negate`. `read_map_image` refuses an image where the two definitions, or
the decoders of Pillow and nav2, differ in what the caller uses. Unknown keys are ignored, as in nav2; default
thresholds are ROS 1's.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import yaml
from PIL import Image, ImageFile, UnidentifiedImageError
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from onboard.config.toml_file import Finite, Fraction, Positive, Section, checked
from onboard.values.errors import InputError

MAX_CELLS = 25_000_000
"""A cell of a furnished world takes 34 bytes, so the largest world stays below 1 GB."""
MAX_COORDINATE_M = 1e6
"""Limit of coordinates: a file beyond it is damaged or in another unit."""
MOST_YAW_RAD = 6.3
"""A whole turn; a larger yaw is in degrees."""
WHITE = 255.0
WHITE_16 = 65535.0
SIXTEEN_BIT_MODES = ("I", "I;16", "I;16B")
READ_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", *SIXTEEN_BIT_MODES)
"""Decoders read other modes of Pillow, such as floats and inks, in other ways."""
ORIENTATION, UPRIGHT = 0x0112, 1
"""Tag of EXIF and TIFF: some decoders turn such an image."""
LUMA = (299, 587, 114)
"""Thousandths."""
SIXTEEN = 257
"""Steps of 16 bits in one of 8."""
KEY_SCALES = {"L;2": 85, "L;4": 17}
"""Pillow leaves the transparent grey of a PNG in the file's 2 or 4 bits."""
FIVE_BITS = ("BGR;15", "BGR;16")
FORMATS = ("PNG", "PPM", "BMP", "JPEG", "GIF", "TIFF")
"""Pillow's names; PPM includes PGM."""
BLOCK_CELLS = 1_000_000
FREE, OCCUPIED, UNKNOWN = 0, 100, -1
"""Values of an occupancy grid (nav_msgs/OccupancyGrid); values between free and occupied are percentages."""
MIN_RESOLUTION_M, MAX_RESOLUTION_M = 0.005, 1.0

Coordinate = Annotated[Finite, Field(ge=-MAX_COORDINATE_M, le=MAX_COORDINATE_M)]


class RosMapTable(Section):
    """The yaml file. origin: pose (x [m], y [m], yaw [rad]) of the image's lower left corner in the map."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    image: Path
    resolution: Annotated[Positive, Field(ge=MIN_RESOLUTION_M, le=MAX_RESOLUTION_M)]
    origin: tuple[Coordinate, Coordinate, Annotated[Finite, Field(ge=-MOST_YAW_RAD, le=MOST_YAW_RAD)]]
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


Percents = npt.NDArray[np.int8]
Used = Callable[[Percents, RosMapTable], npt.NDArray[Any]]


def occupied_cells(value: Percents, _: RosMapTable) -> npt.NDArray[np.bool_]:
    """Return where a keep-out mask forbids."""
    return np.asarray(value == OCCUPIED)


def speed_limits(value: Percents, _: RosMapTable) -> Percents:
    """Return the percentages of a speed mask, 0 for no limit."""
    return np.where((value > FREE) & (value < OCCUPIED), value, FREE)


def read_map_image(path: Path, used: Used, **changes: Any) -> tuple[RosMapTable, Percents]:
    """Return the table of a map_server yaml and its image as `occupancy`, top row first.

    used:    what the caller takes from the occupancy. Raises InputError, also where nav2's definitions differ in it
    changes: fields in place of the table's
    """
    table = _read_table(path).model_copy(update=changes)
    file = path.parent / table.image.expanduser()
    pixels = _read_pixels(file)
    height, width = pixels.values.shape[:2]
    value, doubtful = np.empty((height, width), np.int8), 0
    rows_at_once = max(1, BLOCK_CELLS // max(1, width))
    for first in range(0, len(value), rows_at_once):
        rows = slice(first, first + rows_at_once)
        value[rows] = occupancy(pixels.values[rows], table)
        same = np.ones(value[rows].shape, np.bool_)
        for other in _other_readings(pixels, rows, table):
            same &= used(value[rows], table) == used(other, table)
        doubtful += int((~same).sum())
    if doubtful:
        raise InputError(
            f"{file}: nav2 versions differ in {doubtful} of {value.size} cells, by alpha, colours, bits, or greys on a "
            f"threshold ({pixels.kind}): save it as 8-bit grey without alpha, black where occupied, white where free"
        )
    return table, value


def occupancy(pixels: npt.NDArray[Any], table: RosMapTable) -> Percents:
    """Return (height, width) occupancy, 0 to 100 or `UNKNOWN`, as nav2 since Jazzy, in the order of the image.

    pixels: (height, width) grey, or (height, width, channels) with grey and opacity, RGB or RGBA; 0 to 255
    """
    if pixels.ndim == 2 and pixels.dtype == np.uint8:
        # A table of the 256 grey values: a large image of floats would take much memory.
        return np.asarray(occupancy(np.arange(256.0)[None], table)[0][pixels])
    colors, opacity = _parts(pixels)
    grey = colors[..., 0] if colors.shape[2] == 1 else (colors @ np.array(LUMA) * SIXTEEN + 500) // 1000 / SIXTEEN
    brightness = np.floor(grey)
    if table.mode == "raw":
        return _raw(brightness)
    shade = brightness.astype(np.float32) / np.float32(WHITE)
    occupied = shade if table.negate else np.float32(1.0) - shade
    value = _between(occupied, table)
    value[occupied >= np.float32(table.occupied_thresh)] = OCCUPIED
    value[occupied <= np.float32(table.free_thresh)] = FREE
    if opacity is not None:
        value[opacity < WHITE] = UNKNOWN
    return value


def averaged_occupancy(pixels: npt.NDArray[Any], table: RosMapTable) -> Percents:
    """Return what nav2 of Humble, and ROS 1, read from the same pixels."""
    if pixels.ndim == 2 and pixels.dtype == np.uint8:
        return np.asarray(averaged_occupancy(np.arange(256.0)[None], table)[0][pixels])
    colors, opacity = _parts(pixels)
    brightness = colors.mean(axis=2, dtype=np.float64)
    if table.mode == "raw":
        return _raw(brightness)
    if table.mode == "trinary" and opacity is not None:
        brightness = (3.0 * brightness + opacity) / 4.0
    shade = brightness * SIXTEEN / WHITE_16
    occupied = shade if table.negate else 1.0 - shade
    value = _between(occupied, table)
    value[occupied < table.free_thresh] = FREE
    value[occupied > table.occupied_thresh] = OCCUPIED
    if table.mode == "scale" and opacity is not None:
        value[opacity < WHITE] = UNKNOWN
    return value


def _parts(pixels: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Return colours (height, width, 1 or 3) and opacity (height, width) or None."""
    channels = pixels[..., None] if pixels.ndim == 2 else pixels
    return (channels[..., :-1], channels[..., -1]) if channels.shape[2] in (2, 4) else (channels, None)


def _raw(brightness: npt.NDArray[Any]) -> Percents:
    percent = np.rint(brightness)
    return np.where((percent >= FREE) & (percent <= OCCUPIED), percent, UNKNOWN).astype(np.int8)


def _between(occupied: npt.NDArray[Any], table: RosMapTable) -> Percents:
    """Return what cells between the thresholds are: a percentage in mode scale, else unknown."""
    if table.mode != "scale":
        return np.full(occupied.shape, UNKNOWN, np.int8)
    part = (occupied - table.free_thresh) / (table.occupied_thresh - table.free_thresh)
    percent: Percents = np.rint(OCCUPIED * part.clip(0.0, 1.0)).astype(np.int8)
    return percent


def check_size(path: Path, rows: float, columns: float) -> None:
    """Raise InputError if a grid exceeds `MAX_CELLS`."""
    if rows * columns > MAX_CELLS:
        raise InputError(f"{path}: {columns:.0f} x {rows:.0f} cells, the limit is {MAX_CELLS}")


class _EachKeyOnce(yaml.SafeLoader):
    """Refuses a table with the same key twice; YAML's own loader takes the last one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the table. Raises yaml.YAMLError for a key that is there twice."""
        keys: set[Any] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in keys:
                raise yaml.YAMLError(f"the key {key.value} appears twice, again in line {key.start_mark.line + 1}")
            keys |= {key.value} if isinstance(key, yaml.ScalarNode) else set()
        return super().construct_mapping(node, deep)


def _read_table(path: Path) -> RosMapTable:
    try:
        table = _EachKeyOnce(path.read_text(encoding="utf-8")).get_single_data()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(table, dict):
        raise InputError(f"{path}: must be a table with image, resolution and origin")
    with checked(path, InputError):
        return RosMapTable.model_validate(table)


class _Pixels(NamedTuple):
    """What Pillow decodes, 0 to 255, as `occupancy` takes it.

    slack:         by how much nav2's decoder may differ
    alpha_ignored: nav2's decoder takes such an image for opaque
    kind:          mode and bits, for a message
    """

    values: npt.NDArray[Any]
    slack: float
    alpha_ignored: bool
    kind: str


def _other_readings(pixels: _Pixels, rows: slice, table: RosMapTable) -> list[Percents]:
    values = pixels.values[rows]
    readings = [averaged_occupancy(values, table)]
    if pixels.slack:
        readings += [averaged_occupancy(values + step, table) for step in (-pixels.slack, pixels.slack)]
    if pixels.alpha_ignored:
        opaque = np.concatenate([values[..., :-1], np.full_like(values[..., -1:], WHITE)], axis=2)
        readings.append(averaged_occupancy(opaque, table))
    return readings


def _read_pixels(path: Path) -> _Pixels:
    """Return the pixels of an image. Raises InputError; checks the size by header."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                check_size(path, image.height, image.width)
                return _upright_pixels(path, image)
    except UnidentifiedImageError as error:
        raise InputError(f"{path}: not an image in a supported format (PNG, PGM, PPM, BMP, JPEG, GIF, TIFF)") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        size = str(error).split(" exceeds", maxsplit=1)[0]
        raise InputError(f"{path}: {size}, the limit is {MAX_CELLS} cells") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, SyntaxError) as error:  # some versions of Pillow, for a truncated or damaged file
        raise InputError(f"{path}: cannot be read: {error}") from error


def _upright_pixels(path: Path, image: ImageFile.ImageFile) -> _Pixels:
    """Return the decoded image. Raises InputError for one that decoders read in different ways."""
    whole = image.mode == "I" and image.format not in ("PNG", "PPM")  # of 32 bits, whose white nobody states
    if image.mode not in READ_MODES or whole:
        raise InputError(f"{path}: a {image.format} of Pillow's mode {image.mode}: save it as 8-bit grey without alpha")
    turn = getattr(image, "tag_v2", {}).get(ORIENTATION, UPRIGHT)  # Pillow turns a TIFF, and drops the tag
    pixels = _pixels(image)
    if (turn := image.getexif().get(ORIENTATION, turn)) != UPRIGHT:
        raise InputError(
            f"{path}: has the orientation tag {turn}, by which some programs turn it and others do not: save it "
            "upright, without the tag"
        )
    return pixels


def _pixels(image: ImageFile.ImageFile) -> _Pixels:
    """Return the decoded image. nav2 decodes with GraphicsMagick, which keeps 16 bits and the fourth byte of a BMP."""
    decoder = image.tile[0][3] if image.tile else ()
    layout, *further = decoder if isinstance(decoder, tuple) else (decoder,)
    kind = f"mode {image.mode}, layout {layout}" if isinstance(layout, str) else f"mode {image.mode}"
    slack = _slack(image, str(layout), further)
    if slack and _maxval(image, further):
        whites = "255 or 65535" if image.mode in SIXTEEN_BIT_MODES else "255"
        kind += f"; its maxval is {_maxval(image, further)}, and all versions read only {whites} alike"
    key = image.info.get("transparency")
    if image.mode in SIXTEEN_BIT_MODES or (image.mode == "L" and isinstance(key, int)):
        grey = np.asarray(image)
        steps = SIXTEEN if image.mode in SIXTEEN_BIT_MODES else 1
        if key is None:
            return _Pixels(grey / steps, slack, False, kind)
        opacity = np.where(grey == key * KEY_SCALES.get(str(layout), 1), 0.0, WHITE)
        return _Pixels(np.stack([grey / steps, opacity], axis=2), slack, False, kind)
    see_through = "A" in image.getbands() or key is not None
    if image.mode in ("1", "L", "LA"):
        values = np.asarray(image.convert("LA" if see_through else "L"))
    else:
        values = np.asarray(image.convert("RGBA" if see_through else "RGB"))
    ignored = see_through and (image.mode == "RGB" or str(layout).startswith("LA"))
    return _Pixels(values, slack, ignored, kind)


def _slack(image: ImageFile.ImageFile, layout: str, further: list[Any]) -> float:
    """Return by how much nav2's decoder may differ from Pillow's, of 255."""
    if maxval := _maxval(image, further):
        exact = maxval == WHITE or (maxval == WHITE_16 and image.mode in SIXTEEN_BIT_MODES)
        return WHITE if maxval < 128 else 0.0 if exact else 1.0
    if image.format == "JPEG":
        return 2.0
    if image.format == "BMP":
        return WHITE if layout == "BGRX" else 8.0 if layout in FIVE_BITS else 0.0
    return 1.0 if ";16" in layout and image.mode not in SIXTEEN_BIT_MODES else 0.0


def _maxval(image: ImageFile.ImageFile, further: list[Any]) -> int:
    """Return the value of white in the header of a PGM or PPM that Pillow scales, 0 for other images."""
    scaled = image.format == "PPM" and image.tile and image.tile[0][0].startswith("ppm") and further
    return int(further[0]) if scaled else 0
