"""The text of plant.toml with its provenance, and whether it can be written."""

from __future__ import annotations

import datetime
import os
from collections.abc import Sequence
from pathlib import Path

from calib.dynamics.identification import Identification
from calib.dynamics.motion_log import MotionLog
from onboard.config.plant_model import Plant
from onboard.config.toml_text import as_toml
from onboard.values.errors import InputError


def plant_text(
    found: Identification, logs: Sequence[MotionLog], sha256: str, date: datetime.datetime, old: Plant | None
) -> str:
    """Return the text of plant.toml: how it was identified as comments, then the tables.

    old: the plant that it replaces, whose command timeout stays
    """
    rmse, plant = found.rmse, found.plant
    kept = "docs/base.md describes the test."
    if old is not None:
        timeout_s = old.base.command_timeout_s
        plant = plant.model_copy(update={"base": plant.base.model_copy(update={"command_timeout_s": timeout_s})})
        kept = f"{timeout_s:g} s is kept from the previous file."
    lines = [
        f"Identified by `onboard-calib dynamics` on {date.isoformat(timespec='seconds')}.",
        f"Data: {len(logs)} logs, {sum(log.seconds for log in logs):.0f} s, sha256 {sha256}.",
        f"Roll-out error of the identified model: {rmse['v']:.3g} m/s, {rmse['w']:.3g} rad/s; in 10 s "
        f"{rmse['position_m_per_10s']:.3g} m, {rmse['yaw_rad_per_10s']:.3g} rad.",
        f"Verdict: {'accepted' if found.accepted else 'doubtful'}.",
        *found.notes,
        *(
            f"{name}: with an integration step of {1e3 * fit.step_s:.3g} ms: "
            + ", ".join(f"{key} {value:.4g}" for key, value in fit.fit().items() if value is not None)
            for name, fit in found.refined.items()
        ),
        "The values below hold for the simulated base: a step of 1/30 s, and one delay for both axes.",
        f"command_timeout_s is not measured: {kept}",
    ]
    return as_toml(plant, "".join(f"# {line}\n" for line in lines))


def check_target(file: Path) -> None:
    """Raise InputError if a file cannot be written; called before the fit."""
    if file.is_dir() or not file.parent.is_dir() or not os.access(file.parent, os.W_OK):
        raise InputError(f"{file}: cannot be written: is a folder, or in none that can be written")
