"""`onboard scan`: the fused scan of depth images on disk, as a table, as JSON or drawn."""

from __future__ import annotations

import io
import json
import re
import struct
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from PIL import Image, UnidentifiedImageError

from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, new_figure, write_text
from onboard.config.config import Config, ScanSection, load_config
from onboard.config.mounts import load_mounts
from onboard.drivers.images.raw import MAX_SIDE_PX
from onboard.perception.scan_fusion import Rig, ScanMemory, build_rig, fitting_view, fuse
from onboard.values.errors import InputError, naming
from onboard.values.geometry import IDENTITY
from onboard.values.images import covered, without_false_depth
from onboard.values.messages import BIN_DEG, BINS, DepthFrame, Scan

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RECORDINGS = (".db3", ".bag")
DEPTH_MODE = "I;16"
"""Pillow's mode of a 16-bit greyscale PNG."""
PNG_ERRORS = (
    OSError, SyntaxError, ValueError, LookupError, struct.error, zlib.error, Image.DecompressionBombError,
)  # fmt: skip
"""Errors of Pillow on damaged files."""
SECTOR_DEG = 10
"""Width of a row of the table."""
"""No larger image is decoded; the limit of `onboard/config/robots/default/mounts.toml` too."""


def scan_command(
    mounts: Path,
    cameras: Sequence[str],
    frame: int = 0,
    section: ScanSection | None = None,
    json_path: str | None = None,
    plot_path: Path | None = None,
) -> Scan:
    """Return the scan of one depth image a camera; write it as JSON and draw it where asked, else print a table.

    cameras:   "NAME=FILE": a 16-bit greyscale PNG or PGM, or frame number `frame` of a recording (.db3, .bag)
    json_path: "-" is standard output

    A missing camera leaves a blind sector, and so does a covered one, with a warning. The stamp
    of a PNG is 0. Raises one line that names file, field and limit: ConfigError for the mounts, OnboardError for a
    result that cannot be written, InputError for all else.
    """
    rig = build_rig(load_mounts(mounts), section or ScanSection())
    frames = _frames(rig, mounts, cameras, frame)
    for name, one in list(frames.items()):
        if reason := covered(int(np.count_nonzero(one.depth)), one.depth.size):
            sys.stderr.write(f"warning: camera {name} counts as blind: {reason}\n")
            del frames[name]
    scan, _ = fuse(frames, 0, IDENTITY, ScanMemory(), rig)
    if plot_path is not None:
        _draw(plot_path, scan, rig)
    if json_path is not None:
        text = json.dumps(scan_as_json(scan)) + "\n"
        if json_path == STANDARD_OUTPUT:
            sys.stdout.write(text)
        else:
            write_text(Path(json_path), text)
    elif plot_path is None:
        sys.stdout.write(scan_table(scan))
    return scan


def depth_of_each(mounts: Path, cameras: Sequence[str], frame: int = 0) -> dict[str, DepthFrame]:
    """Return the depth image of each camera, as `scan_command` reads them, checked against the mounts. Raises alike."""
    return _frames(build_rig(load_mounts(mounts), ScanSection()), mounts, cameras, frame)


def _frames(rig: Rig, mounts: Path, cameras: Sequence[str], frame: int) -> dict[str, DepthFrame]:
    files = _files(cameras, rig, mounts)
    if frame < 0:
        raise InputError(f"--frame {frame}: must be 0 or more")
    if frame > 0 and not any(_is_recording(file) for file in files.values()):
        raise InputError(f"--frame {frame}: a PNG holds one frame; only recordings ({', '.join(RECORDINGS)}) have more")
    frames = {}
    for name, file in files.items():
        frames[name] = _read(name, file, frame)
        try:
            fitting_view(rig, name, frames[name])
        except InputError as error:
            raise InputError(f"{file}: {error} ({mounts})") from error
    return frames


def scan_table(scan: Scan) -> str:
    """Return the nearest obstacle of each SECTOR_DEG, from the left over ahead to the right, as lines."""
    bins = SECTOR_DEG * BINS // 360
    lines = [f"{'bearing':>14}  {'nearest':>8}  bins seen"]
    for first in range(BINS - bins, -1, -bins):
        sector = slice(first, first + bins)
        right_deg, seen = 360 * first // BINS - 180, int(scan.seen[sector].sum())
        nearest_m = float(scan.ranges_m[sector].min())
        text = f"{nearest_m:.2f} m" if np.isfinite(nearest_m) else "free" if seen else "blind"
        lines.append(f"{right_deg + SECTOR_DEG:4d} to {right_deg:4d}  {text:>8}  {seen} of {bins}")
    return "\n".join(lines) + "\n"


def scan_as_json(scan: Scan) -> dict[str, Any]:
    """Return {"stamp_ns", "ranges_m": [180 numbers, None for inf], "seen": [180 booleans]}.

    Ranges have the fewest digits that give the same float32 back.
    """
    return {
        "stamp_ns": scan.stamp_ns,
        "ranges_m": [float(str(range_m)) if np.isfinite(range_m) else None for range_m in scan.ranges_m],
        "seen": scan.seen.tolist(),
    }


def read_depth_png(path: Path) -> npt.NDArray[np.uint16]:
    """Return the (height, width) image of a 16-bit greyscale PNG. Raises InputError naming the file and the fault."""
    with naming(path):
        data = path.read_bytes()
    try:
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            image.verify()  # every checksum
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            if image.mode != DEPTH_MODE:
                raise InputError(f"{path}: PNG has mode {image.mode}, a depth image must be 16-bit greyscale")
            if max(image.size) > MAX_SIDE_PX:
                raise InputError(f"{path}: PNG is {image.width}x{image.height}, limit {MAX_SIDE_PX}x{MAX_SIDE_PX}")
            return without_false_depth(np.asarray(image).astype(np.uint16))
    except PNG_ERRORS as error:
        raise InputError(f"{path}: PNG image cannot be decoded: {image_fault(error)}") from error


def image_fault(error: Exception) -> str:
    """Return an error of Pillow in one line; its own line for an unknown format names an object of Python."""
    unknown = isinstance(error, UnidentifiedImageError)
    return "its format is unknown, or it is empty" if unknown else " ".join(str(error).split())


PGM_HEAD = re.compile(rb"P5(?:\s+#[^\n]*)*\s+(\d{1,9})(?:\s+#[^\n]*)*\s+(\d{1,9})(?:\s+#[^\n]*)*\s+(\d{1,9})\s")


def read_depth_image(path: Path) -> npt.NDArray[np.uint16]:
    """Return the (height, width) image of a 16-bit PNG, or of a 16-bit PGM as OpenCV and ROS write it.

    Raises InputError naming the file and the fault.
    """
    with naming(path):
        with path.open("rb") as file:
            is_pgm = file.read(2) == b"P5"
        data = path.read_bytes() if is_pgm else b""
    if not is_pgm:
        return read_depth_png(path)
    head = PGM_HEAD.match(data)
    width, height, most = (int(group) for group in head.groups()) if head else (0, 0, 0)
    if head is None or not 255 < most <= np.iinfo(np.uint16).max:
        raise InputError(f"{path}: PGM has values up to {most}, a depth image must be 16-bit greyscale")
    if not 0 < min(width, height) <= max(width, height) <= MAX_SIDE_PX:
        raise InputError(f"{path}: PGM is {width}x{height}, limit {MAX_SIDE_PX}x{MAX_SIDE_PX}")
    pixels = data[head.end() :]
    if len(pixels) != 2 * width * height:
        raise InputError(f"{path}: PGM has {len(pixels)} bytes for {width}x{height} pixels of 2: it is damaged")
    return np.frombuffer(pixels, ">u2").reshape(height, width).astype(np.uint16)


def _files(cameras: Sequence[str], rig: Rig, mounts: Path) -> dict[str, Path]:
    """Return camera name -> file of "NAME=FILE" arguments."""
    files: dict[str, Path] = {}
    for argument in cameras:
        name, equals, file = argument.partition("=")
        if not (name and equals and file):
            raise InputError(f"--camera {argument}: must be NAME=FILE")
        if name not in rig.views:
            raise InputError(f"--camera {argument}: camera {name} is not in {mounts}, which has {', '.join(rig.views)}")
        if name in files:
            raise InputError(f"--camera {argument}: camera {name} is given twice")
        files[name] = Path(file)
    if not files:
        raise InputError("--camera: at least one NAME=FILE is needed")
    return files


def _is_recording(file: Path) -> bool:
    return file.suffix.lower() in RECORDINGS


def _read(name: str, file: Path, frame: int) -> DepthFrame:
    if not _is_recording(file):
        return DepthFrame(name, 0, 0, read_depth_image(file))
    from onboard.drivers.realsense.device import read_depth_frame  # an extra, needed for recordings only

    recorded = read_depth_frame(file, frame)
    return DepthFrame(name, recorded.number, recorded.stamp_ns, recorded.depth)


def _draw(path: Path, scan: Scan, rig: Rig) -> None:
    try:
        draw_scan(scan, rig.section.far_m).savefig(path)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be written: {error}") from error


def scan_images(
    mounts: Annotated[Path, typer.Option(help="mounts.toml of the robot.")],
    camera: Annotated[
        list[str], typer.Option(help="NAME=depth.png or .pgm (16 bit) or NAME=recording.db3|.bag; repeatable.")
    ],
    frame: Annotated[int, typer.Option(help="Frame of the recordings, from 0.")] = 0,
    config: Annotated[Path | None, typer.Option(help=r"Take the limits and body boxes of its \[scan] table.")] = None,
    json_file: JsonOption = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the scan into this PNG (extra `plots`).")] = None,
) -> None:
    """Fuse depth images on disk into the 180-bin scan."""
    loaded = load_config(config) if config else Config()
    scan_command(mounts, camera, frame, loaded.scan, json_file, plot)


WIDTH_PX, HEIGHT_PX = 900.0, 960.0
LEAST_EXTENT_M = 1.0
OBSTACLE = 0.02
"""Thickness of an obstacle's mark, as a share of the radius."""
#  what a bin holds   colour, hatching
BLIND = ("#aab4bf", "////")
FREE, EMPTY, MARK, ROBOT = ("#d8ecdf", ""), ("#dfecf8", ""), ("#c8321f", ""), "#1f4e79"


def draw_scan(scan: Scan, far_m: float) -> Figure:
    """Return the picture. Its edge is at the farthest range, or at `far_m` when nothing was seen.

    Raises MissingExtraError without matplotlib.
    """
    ranges_m = scan.ranges_m.astype(float)
    hit, blind = np.isfinite(ranges_m), ~scan.seen
    extent_m = max(ranges_m[hit].max(initial=0.0), LEAST_EXTENT_M) if hit.any() else far_m
    figure = new_figure(WIDTH_PX, HEIGHT_PX)
    axes = figure.add_subplot(projection="polar", theta_offset=np.pi / 2, ylim=(0.0, (1.0 + OBSTACLE) * extent_m))
    left = np.radians(np.arange(BINS) * BIN_DEG - 180.0)
    for name, bins, from_m, to_m, (color, hatch) in (
        (f"free up to an obstacle ({np.count_nonzero(hit & ~blind)} bins)", hit & ~blind, 0.0, ranges_m, FREE),
        (f"nothing seen ({np.count_nonzero(~hit & ~blind)})", ~hit & ~blind, 0.0, extent_m, EMPTY),
        (f"blind ({np.count_nonzero(blind)})", blind, 0.0, extent_m, BLIND),
        ("obstacle", hit, ranges_m, OBSTACLE * extent_m, MARK),
    ):
        lengths_m, bottoms_m = (np.broadcast_to(one, BINS)[bins] for one in (to_m, from_m))
        axes.bar(left[bins], lengths_m, np.radians(BIN_DEG), bottoms_m, align="edge",
                 color=color, hatch=hatch, label=name)  # fmt: skip
    axes.plot(0.0, 0.0, "^", color=ROBOT, markersize=14)  # it points ahead; a sign, not to scale
    axes.set_xticks(np.radians(range(0, 360, 30)), [f"{(deg + 179) % 360 - 179:+d}°" for deg in range(0, 360, 30)])
    axes.yaxis.set_major_formatter("{x:g} m")
    words = "no obstacle"
    if hit.any():
        nearest = int(ranges_m.argmin())
        words = f"nearest {ranges_m[nearest]:.2f} m at {(nearest + 0.5) * BIN_DEG - 180.0:+.0f}°"
    axes.set_title(f"Fused scan: {words}")
    figure.legend(loc="outside lower center", ncols=4)
    return figure
