"""The command `onboard-calib extrinsics`: poses of all depth cameras from a recording."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as ProgressBar

from calib.cameras.extrinsics import LIMIT_DEG, LIMIT_M, Calibration, calibrate
from calib.cameras.keyframes import Session, read_session
from calib.cameras.live import STEPS, Progress, guide, real_times
from calib.cameras.mounts_file import mounts_text, placed, replace_file
from calib.cameras.report import write_report
from calib.cameras.session import recorded_session
from onboard.assembly.assembly import listening
from onboard.commands.cli import (
    STANDARD_OUTPUT,
    ConfigOption,
    JsonOption,
    check_figures,
    check_json_target,
    finite,
    write_json,
)
from onboard.config.config import load_config
from onboard.config.mounts import load_mounts
from onboard.values.errors import InputError


def extrinsics(
    recording: Annotated[Path, typer.Argument(help="A recording (.mcap) in which the base turns and drives arcs.")],
    guess: Annotated[Path, typer.Option(help="mounts.toml with the initial guess of the camera poses.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The mounts.toml to write.")] = None,
    limit_m: Annotated[
        float, typer.Option(min=0.0, help="Largest distance of an answer from the guess, in m.", callback=finite)
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
    if json_file is not None:
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
