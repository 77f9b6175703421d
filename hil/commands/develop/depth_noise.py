"""The command `onboard-hil depth-noise`: measure real depth frames, fit the noise model, and compare both."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from hil.sensors.depth_calibration.fit import as_toml, fit, read_frames, same_scenes, slanted_planes
from hil.sensors.depth_calibration.plot import Measured, save_comparison
from hil.sensors.depth_calibration.statistics import DEPTH_EDGES_M, measure_holes, measure_surfaces
from hil.sensors.depth_noise import DepthNoise
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.values.errors import InputError

SHOWN = 1
"""Index of the frame in the picture."""
NOT_STATED = "not stated"
"""Placeholder for source and licence of the frames; the operator replaces it in the file."""
MOST_PLANES = 20
"""Largest number of simulated frames of planes, enough for each depth class."""


def measure_depth_noise(
    frames: Annotated[Path, typer.Option("--frames", help="Folder of depth PNGs, 16 bit, in millimetres.")],
    picture: Annotated[Path | None, typer.Option(help="Write a PNG of real and simulated histograms.")] = None,
    write: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the model's numbers as TOML.")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Measure noise and holes in real depth frames, fit the simulated camera to them, and compare both."""
    check_json_target(json_file)
    result = compare(frames, picture, write)
    if json_file is not None:
        write_json(json_file, result)
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(summary(result))


def compare(folder: Path, picture: Path | None = None, write: Path | None = None) -> dict[str, Any]:
    """Return the statistics of real and simulated frames, and the parameters of the fitted model.

    Noise and holes are measured on real frames. Simulated noise is measured on slanted planes. Simulated holes are
    measured on the real scenes after their holes are filled. Raises InputError.
    """
    names, frames = read_frames(folder)
    real = measure_surfaces(frames), measure_holes(frames)
    numbers = fit(*real, NOT_STATED, NOT_STATED)
    model = DepthNoise(numbers)
    seen = same_scenes(model, frames)
    simulated = measure_surfaces(slanted_planes(model, min(len(frames), MOST_PLANES))), measure_holes(seen)
    shown = min(SHOWN, len(names) - 1)
    try:
        if write is not None:
            write.write_text(as_toml(numbers), encoding="utf-8")
        if picture is not None:
            save_comparison(real, simulated, (frames[shown], seen[shown]), picture)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be written: {error.strerror}") from error
    return {
        "frames": len(names),
        "real": _as_json(real),
        "simulated": _as_json(simulated),
        "numbers": numbers.model_dump(mode="json"),
    }


def summary(result: dict[str, Any]) -> str:
    """Return the statistics as a table."""
    lines = [f"{result['frames']} frames; depth classes {', '.join(f'{edge:g}' for edge in DEPTH_EDGES_M)} m"]
    for name, real in result["real"].items():
        lines += [f"{name}", f"    real       {_text(real)}", f"    simulated  {_text(result['simulated'][name])}"]
    return "\n".join(lines) + "\n"


def _as_json(measured: Measured) -> dict[str, Any]:
    return dict(_values(measured))


def _values(measured: Measured) -> Iterator[tuple[str, Any]]:
    """Yield each statistic as a plain value for JSON; None for a value that is not finite."""
    for part in measured:
        for field in dataclasses.fields(part):
            value = getattr(part, field.name)
            if isinstance(value, np.ndarray):
                yield field.name, [float(one) if np.isfinite(one) else None for one in value]
            else:
                yield field.name, float(value) if np.isfinite(value) else None


def _text(value: Any) -> str:
    if isinstance(value, list):
        return "  ".join(_text(one) for one in value)
    return "-" if value is None else f"{value:.4g}"
