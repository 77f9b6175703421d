"""The command `onboard-calib verify`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from hil.recordings.locate import completed
from hil.recordings.recording import Recording, open_recording
from hil.recordings.ticks import ticks_of
from hil.replay.recorded_policy import recorded_plant
from onboard.commands.cli import JsonOption, check_json_target, write_result
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.health.gatherer import Gatherer
from onboard.health.session import Session
from onboard.health.verdict import RECALIBRATE, UNKNOWN, Health

CODES = {RECALIBRATE: 1, UNKNOWN: 3}
LOOK_S = 0.5
"""Between two sets of images."""


def verify_command(
    recording: Annotated[Path, typer.Argument(metavar="RECORDING", help="A recording of `onboard run`.")],
    mounts: Annotated[
        Path | None, typer.Option(help="mounts.toml to compare with. Without it: the recorded one.")
    ] = None,
    plant: Annotated[
        Path | None, typer.Option(help="plant.toml to compare with. Without it: the recorded one.")
    ] = None,
    json_file: JsonOption = None,
) -> None:
    """Compare a recording with the calibration: floor and overlap of cameras, wheels, response of the base.

    Exit code 0: verdict `ok` or `watch`; 1: `recalibrate`; 2: something could not be read; 3: nothing was compared.
    """
    check_json_target(json_file)
    with contextlib.ExitStack() as held:
        whole = held.enter_context(completed(recording))
        if whole != recording:
            sys.stderr.write(f"warning: {recording}: cut off: the rest is read from a repaired copy\n")
        opened = held.enter_context(open_recording(whole))
        health = assessed(opened, mounts, plant)
    write_result(json_file, health.plain(), _text(health))
    if health.verdict in CODES:
        raise typer.Exit(CODES[health.verdict])


def assessed(recording: Recording, mounts: Path | None = None, plant: Path | None = None) -> Health:
    """Return the health of a recorded session. Raises InputError, ConfigError."""
    own = recording.sessions[0]
    model = recorded_plant(str(recording.path), own) if plant is None else load_plant(plant)
    session = Session(own.config, own.mounts if mounts is None else load_mounts(mounts), model)
    gatherer = Gatherer(own.config, LOOK_S)
    for tick in ticks_of(recording):
        part = gatherer.take(tick)
        if part is not None:
            session.take(part)
    session.take(gatherer.rest())
    return session.health()


def _text(health: Health) -> str:
    """Return the comparisons as a table for the operator."""
    rows = [
        f"{check.name:<28} {check.quantity:<11} {check.value:+9.4f} +- {check.sd:.4f}  watch {check.watch:<6g} "
        f"recalibrate {check.recalibrate:<6g} {check.verdict}"
        for check in health.checks
    ]
    rows += [f"{name:<28} not compared: {why}" for name, why in health.unmeasured.items()]
    return "\n".join([*rows, f"verdict: {health.message}"]) + "\n"
