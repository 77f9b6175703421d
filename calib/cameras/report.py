"""One self-contained HTML page of a calibration: the fused scan before and after, and the numbers."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from calib.cameras.align import world
from calib.cameras.extrinsics import Calibration, rpy_deg
from onboard.commands.cli import new_figure, svg_text, write_text
from onboard.config.mounts import Mounts

Floats = npt.NDArray[np.float64]

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2")
PICTURE_PX = 560
REACH_PERCENT = 98.0
"""The picture holds so many of the points."""
STYLE = """
body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:76rem;padding:0 1rem;color:#222}
figure{display:inline-block;margin:0 1rem 1rem 0}svg{border:1px solid #ccc;background:#fff}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child{text-align:left}.refused{color:#b00020}
"""


def write_report(path: Path, found: Calibration, guess: Mounts, title: str) -> None:
    """Write the page of a calibration, accepted or refused. Raises OnboardError if it cannot be written."""
    write_text(path, page(found, guess, title))


def page(found: Calibration, guess: Mounts, title: str) -> str:
    """Return the page."""
    verdict = "accepted" if found.accepted else f"refused: {found.reason}"
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{html.escape(title)}</title><style>{STYLE}</style>",
        f"<h1>{html.escape(title)}</h1>",
        f'<p class="{"accepted" if found.accepted else "refused"}"><b>{html.escape(verdict)}</b></p>',
        f"<p>{found.keyframes} places, {found.turned_deg:.0f} deg turned, {found.driven_m:.1f} m driven. "
        f"Matched surfaces are {1000 * found.residual_m:.1f} mm apart (median). "
        f"True over measured by the odometry: distance {found.odometry_scale[0]:.4f}, "
        f"turning {found.odometry_scale[1]:.4f}.</p>",
    ]
    names = list(guess.depth)
    if found.aligned is not None and found.cloud is not None and found.start is not None:
        after = world(found.cloud, found.aligned.placement)[1]
        parts.append(_picture(found, names, float(np.percentile(np.abs(after), REACH_PERCENT))))
    if found.cameras:
        parts.append(_table(found, guess))
    return "\n".join(parts) + "\n"


def _picture(found: Calibration, names: Sequence[str], reach_m: float) -> str:
    """Return the patches, camera by camera, and the base's path, before and after; x points up, y left."""
    assert found.cloud is not None
    assert found.start is not None
    assert found.aligned is not None
    figure = new_figure(2 * PICTURE_PX, PICTURE_PX)
    titles = ("before: the guess and the odometry", "after")
    for axes, title, at in zip(figure.subplots(1, 2), titles, (found.start, found.aligned.placement), strict=True):
        points = world(found.cloud, at)[1]
        for camera, name in enumerate(names):
            mine = points[found.cloud.camera == camera]
            axes.plot(mine[:, 1], mine[:, 0], ".", ms=2, color=COLOURS[camera % len(COLOURS)], label=name)
        axes.plot(at.frames[:, 1], at.frames[:, 0], "k-", lw=1, label="path of the base")
        axes.set(title=title, aspect="equal", xlim=(reach_m, -reach_m), ylim=(-reach_m, reach_m))
        axes.set(xlabel="y [m]", ylabel="x [m]")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=len(names) + 1, markerscale=5)
    return f"<figure>{svg_text(figure)}</figure>"


def _table(found: Calibration, guess: Mounts) -> str:
    def row(cells: Sequence[str], tag: str = "td") -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    heads = ("camera", "serial", "x, y, z m", "sd mm", "roll, pitch, yaw deg", "sd deg", "from guess", "agreement")
    rows = [row(heads, "th")]
    for name, camera in found.cameras.items():
        before, pose = guess.depth[name].base_from_camera, camera.base_from_camera
        cosine = 0.5 * (np.trace(pose[:3, :3] @ before[:3, :3].T) - 1.0)
        away_deg = math.degrees(math.acos(float(np.clip(cosine, -1.0, 1.0))))
        away_m = float(np.linalg.norm(pose[:3, 3] - before[:3, 3]))
        rows.append(
            row(
                (
                    name,
                    guess.depth[name].serial or "none",
                    ", ".join(f"{value:.3f}" for value in pose[:3, 3]),
                    ", ".join(f"{1000 * value:.1f}" for value in camera.sd_m),
                    ", ".join(f"{value:.2f}" for value in rpy_deg(pose)),
                    ", ".join(f"{value:.2f}" for value in camera.sd_deg),
                    f"{100 * away_m:.1f} cm, {away_deg:.1f} deg",
                    f"{found.agreeing[name]:.0%}",
                )
            )
        )
    return f"<table>{''.join(rows)}</table>"
