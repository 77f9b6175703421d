"""The command `onboard-calib dynamics`."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from calib.cameras.mounts_file import replace_file
from calib.dynamics.identification import AXES, held_out, identify
from calib.dynamics.motion_log import read_logs
from calib.dynamics.plant_file import check_target, plant_text
from calib.dynamics.response_model import KEYS
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, markdown_table, write_json
from onboard.config.plant_model import load_plant
from onboard.values.errors import InputError

ERRORS = {"v": "m/s", "w": "rad/s", "position_m_per_10s": "m", "yaw_rad_per_10s": "rad"}


def dynamics(
    logs: Annotated[
        list[Path], typer.Argument(metavar="LOG...", help="Recordings (.mcap), or CSV: t_s,v_cmd,w_cmd,v,w.")
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write plant.toml; an old one is kept.")] = None,
    every: Annotated[
        int | None, typer.Option("--held-out", min=2, metavar="N", help="Judge all models on every Nth log instead.")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Identify how the base responds to commands (paper 1, Appendix A, and a roll-out fit), and write plant.toml."""
    check_json_target(json_file)
    if out is not None:
        check_target(out)
    old = load_plant(out) if out is not None and out.exists() else None
    read = read_logs(logs)
    if every is not None:
        if out is not None:
            raise InputError("--out: with --held-out the models are judged, and no plant is written")
        _judge(held_out(read.logs, every), json_file)
        return
    found = identify(read.logs)
    result = {**found.as_json(), "data_sha256": read.sha256}
    text = _table(result)
    if out is not None:
        date = datetime.datetime.now(datetime.timezone.utc)
        kept = replace_file(out, plant_text(found, read.logs, read.sha256, date, old))
        text += f"{out}: written{f'; the old one is kept as {kept}' if kept else ''}\n"
        if old is not None:
            text += f"command_timeout_s {old.base.command_timeout_s:g} is kept: this command does not measure it\n"
        if old is not None and old.motion is not None:
            text += f"[motion] {old.motion.model} of the old file is dropped: it was learned with the old axes\n"
    write_json(json_file, result)
    (sys.stderr if json_file == STANDARD_OUTPUT else sys.stdout).write(text)


def _table(result: dict[str, Any]) -> str:
    """Return the fits, the errors and what to know as text."""
    rows = []
    for name in AXES:
        for fit in ("paper", "adjusted", "refined"):
            values = result["fits"][fit][name]
            rows.append([name, fit, *("-" if values[key] is None else f"{values[key]:.3g}" for key in KEYS)])
        spread = result["ci95"][name]
        rows.append([name, "± 95 %", *(_half(spread[key]) for key in KEYS)])
    errors = ", ".join(f"{key} {value:.3g}" for key, value in result["rollout_rmse"].items())
    verdict = "accepted" if result["accepted"] else "doubtful"
    notes = "".join(f"note: {note}\n" for note in result["notes"])
    return f"{markdown_table(['axis', 'fit', *KEYS], rows, 2)}\nroll-out error: {errors}\n{notes}{verdict}\n"


def _half(interval: list[float] | None) -> str:
    return "-" if interval is None else f"{(interval[1] - interval[0]) / 2.0:.2g}"


def _judge(errors: dict[str, dict[str, float]], json_file: str | None) -> None:
    write_json(json_file, errors)
    if json_file != STANDARD_OUTPUT:
        rows = [[model, *(f"{error[key]:.3f}" for key in ERRORS)] for model, error in errors.items()]
        headings = ["error on held-out logs", *(f"{key} [{unit}]" for key, unit in ERRORS.items())]
        sys.stdout.write(f"{markdown_table(headings, rows)}\n")
