"""The command `onboard-calib extrinsics`: poses of all depth cameras from a recording, and a page of the result."""

from __future__ import annotations

import hashlib
import html
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as ProgressBar

from calib.cameras.align import world
from calib.cameras.extrinsics import LIMIT_DEG, LIMIT_M, Calibration, calibrate, rpy_deg
from calib.cameras.keyframes import Session, read_session
from calib.cameras.mounts_file import mounts_text, placed, replace_file
from calib.cameras.session import STEPS, Progress, guide, real_times, recorded_session
from onboard.assembly.assembly import listening
from onboard.commands.cli import (
    STANDARD_OUTPUT,
    ConfigOption,
    JsonOption,
    check_figures,
    check_json_target,
    finite,
    new_figure,
    svg_text,
    write_json,
    write_text,
)
from onboard.config.config import load_config
from onboard.config.mounts import Mounts, load_mounts
from onboard.values.errors import InputError


def extrinsics(
    recording: Annotated[Path, typer.Argument(help="A recording (.mcap) in which the base turns and drives arcs.")],
    guess: Annotated[Path, typer.Option(help="mounts.toml with the initial guess of the camera poses.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The mounts.toml to write.")] = None,
    limit_m: Annotated[
        float, typer.Option(min=0.0, help="Largest distance of a result from the guess, in m.", callback=finite)
    ] = LIMIT_M,
    limit_deg: Annotated[float, typer.Option(min=0.0, help="The same in degrees.", callback=finite)] = LIMIT_DEG,
    live: Annotated[
        bool,
        typer.Option(
            "--live", help="Make the recording first, through the drivers, with instructions on the terminal."
        ),
    ] = False,
    config: ConfigOption = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with the fused scan before and after (.html).")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Calibrate the poses of the depth cameras from the floor and from the robot's own motion.

    A refused calibration is one line with its reason; then no mounts are written.
    """
    for target in (json_file, out, report):
        check_json_target(None if target is None else str(target))
    if report is not None:
        check_figures()
    mounts = load_mounts(guess)
    if live:
        if recording.exists():
            raise InputError(f"{recording}: exists already; --live makes a new recording, so name another file")
        _record(recording, config)
    session = read_session(recording, mounts)
    found = calibrate(session.keyframes, mounts, limit_m, limit_deg)
    write_json(json_file, as_json(found))
    if report is not None:
        write_report(report, found, mounts, f"Camera calibration of {session.day.isoformat()}: {recording.name}")
    if not found.accepted:
        raise InputError(f"{recording}: refused: {found.reason}")
    kept = None if out is None else replace_file(out, mounts_file(found, session, guess, recording))
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(summary(found))
        if out is not None:
            sys.stdout.write(f"written to {out}{'' if kept is None else f'; the old one is {kept}'}\n")


def _record(recording: Path, config: Path | None) -> None:
    """Record a session on the robot. Raises OnboardError."""
    loaded = load_config(config)
    loaded = loaded.model_copy(update={"policy": loaded.policy.model_copy(update={"model": "reactive"})})
    bar = TextColumn("{task.fields[step]}"), BarColumn(), TextColumn("{task.description}")
    with (
        listening(loaded) as inbox,
        recorded_session(loaded, recording) as session,
        ProgressBar(*bar, console=Console(stderr=True)) as shown,
    ):
        task = shown.add_task("", total=1.0, step="")

        def show(now: Progress) -> None:
            text = "done" if now.done else STEPS[now.step].text
            count = f"{min(now.step + 1, len(STEPS))}/{len(STEPS)}"
            shown.update(task, completed=now.fraction, description=f"{text}; {now.stops} stops", step=count)

        guide(loaded, inbox, real_times(), session, show)


def as_json(found: Calibration) -> dict[str, Any]:
    """Return the result as plain values."""
    return {
        "cameras": {
            name: {**placed(camera.base_from_camera), "sd_m": list(camera.sd_m), "sd_deg": list(camera.sd_deg)}
            for name, camera in found.cameras.items()
        },
        "accepted": found.accepted,
        "reason": found.reason,
    }


def mounts_file(found: Calibration, session: Session, guess: Path, recording: Path) -> str:
    """Return the text of the new mounts."""
    changed: dict[str, dict[str, Any]] = {}
    for name, camera in found.cameras.items():
        serial = session.serials.get(name, "")
        changed[name] = {
            **({"serial": serial} if serial else {}),
            **placed(camera.base_from_camera),
            "sd_m": [round(value, 5) for value in camera.sd_m],
            "sd_deg": [round(value, 4) for value in camera.sd_deg],
            "residual_m": round(found.residual_m, 5),
            "data_sha256": hashlib.sha256(recording.read_bytes()).hexdigest(),
            "calibrated": session.day.isoformat(),
        }
    scales = found.odometry_scale
    return mounts_text(
        guess,
        changed,
        f"Measured by `onboard-calib extrinsics {recording.name}` on {session.day.isoformat()}.\n"
        f"{found.keyframes} places, {found.turned_deg:.0f} deg turned, {found.driven_m:.1f} m driven.\n"
        f"Matched surfaces are {found.residual_m:.4f} m apart (median).\n"
        f"Odometry: true distance is {scales[0]:.4f} of the measured, true turning {scales[1]:.4f}.",
    )


def summary(found: Calibration) -> str:
    """Return the result as lines for the operator."""
    lines = [f"{'camera':<16}{'x m':>8}{'y m':>8}{'z m':>8}{'sd m':>8}  {'rotation_xyzw':<40}{'sd deg':>7}"]
    for name, camera in found.cameras.items():
        pose = placed(camera.base_from_camera)
        x, y, z = pose["translation_m"]
        turned = " ".join(f"{value:+.6f}" for value in pose["rotation_xyzw"])
        lines.append(
            f"{name:<16}{x:>8.3f}{y:>8.3f}{z:>8.3f}{max(camera.sd_m):>8.4f}  {turned:<40}{max(camera.sd_deg):>7.2f}"
        )
    lines.append(
        f"accepted: {found.keyframes} places, {found.turned_deg:.0f} deg turned, {found.driven_m:.1f} m driven; "
        f"surfaces {1000 * found.residual_m:.1f} mm apart (median)"
    )
    return "\n".join(lines) + "\n"


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
