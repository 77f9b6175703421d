"""The command `onboard-hil kills`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from hil.physics.simulated_base import ON_THE_WAY_S, Rolled, most_rolled
from hil.reliability.kills.trial import Kill, Trial, run_trial
from onboard.assembly.assembly import check_files
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, write_json
from onboard.config.config import Config, load_config
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.topics import promised_commands

FAILED = 1
FAST_MPS = 0.3
"""A kill counts as fast at this speed or above. A kill of a standing robot proves nothing."""


def kills_command(
    times: Annotated[int, typer.Option(min=1, help="Number of kills of the runtime.")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the times of the kills.")] = 1,
    stop_on_liveliness_lost: Annotated[
        bool, typer.Option("--stop-on-liveliness-lost", help="Stop the base also when DDS reports the runtime as gone.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for configuration and logs.")] = Path("out/kills"),
    config: ConfigOption = None,
    json_file: JsonOption = None,
) -> None:
    """Kill the runtime (SIGKILL) at random instants of its drive and measure how far the simulated base rolls.

    Exit code 0: never farther than the bound that the base's command time-out gives.
    """
    check_json_target(json_file)
    given = load_config(config)
    check_files(given)
    console = Console(stderr=json_file == STANDARD_OUTPUT, highlight=False)
    bound = stated_bound(given, stop_on_liveliness_lost)

    def show(number: int, kill: Kill) -> None:
        console.print(
            f"{number + 1:3d}: at {kill.v_mps:+.2f} m/s, {kill.w_radps:+.2f} rad/s: rolled {kill.way_m:.2f} m, "
            f"{kill.time_s:.2f} s"
        )

    trial = Trial(given, out.resolve(), times, seed, stop_on_liveliness_lost)
    result = as_json(run_trial(trial, show), bound)
    print_result(console, result)
    if json_file is not None:
        write_json(json_file, result)
    if not result["held"]:
        raise typer.Exit(FAILED)


def stated_bound(config: Config, stops_on_liveliness_lost: bool) -> Rolled:
    """Return the upper bounds of the base's motion after a kill. Raises ConfigError."""
    lease_s = promised_commands(config.rates.control_hz).quality.lease_s if stops_on_liveliness_lost else None
    return most_rolled(load_plant(config.robot.plant), config.limits, lease_s)


def as_json(kills: Sequence[Kill], bound: Rolled) -> dict[str, Any]:
    """Return kills and bound as plain values; `held` is true if no kill exceeded the bound."""
    held = all(kill.way_m <= bound.way_m and kill.turned_rad <= bound.turn_rad for kill in kills)
    return {
        "times": len(kills),
        "fast": sum(abs(kill.v_mps) >= FAST_MPS for kill in kills),
        "held": held,
        "on_the_way_s": ON_THE_WAY_S,
        "bound": asdict(bound),
        "kills": [asdict(kill) for kill in kills],
    }


def print_result(console: Console, result: dict[str, Any]) -> None:
    """Print the figures of all kills beside the bound."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in ("after the kill", "mean", "p95", "max", "bound"):
        table.add_column(name, justify="left" if name == "after the kill" else "right")
    rows = (
        ("rolled, m", "way_m", "way_m"),
        ("turned, rad", "turned_rad", "turn_rad"),
        ("time, s", "time_s", "time_s"),
    )
    for title, key, bound in rows:
        values = np.array([kill[key] for kill in result["kills"]])
        figures = (values.mean(), np.percentile(values, 95), values.max(), result["bound"][bound])
        table.add_row(title, *(f"{value:.2f}" for value in figures))
    console.print(table)
    word = "held" if result["held"] else "did NOT hold"
    console.print(
        f"killed {result['times']} times, {result['fast']} of them at {FAST_MPS} m/s or more: the bound {word}"
    )
