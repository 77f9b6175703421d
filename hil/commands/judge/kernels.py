"""The command `onboard-hil kernels`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from hil.physics.state_kernels.generate import generate
from hil.physics.state_kernels.kernel_set import save_kernels
from hil.physics.state_kernels.state_table import load_state_table
from hil.recordings.transitions import read_runs
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.values.errors import InputError

ROBOT_TABLE = Path(__file__).parents[2] / "physics" / "state_kernels" / "robot.toml"
GENERATE, SUFFIX = "generate", ".npz"


def kernels_command(
    action: Annotated[str, typer.Argument(metavar=GENERATE, help="Generate kernels of two logs.")],
    sim_runs: Annotated[str, typer.Argument(metavar="SIM_RUNS", help="A file, a folder or a quoted pattern.")],
    real_runs: Annotated[str, typer.Argument(metavar="REAL_RUNS", help="The same, for the real robot.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE.npz", help="Output file of the kernels.")],
    table: Annotated[
        Path,
        typer.Option(
            "--table", metavar="FILE.toml", help="State, weights, eps_c, sigma, roll-outs.", show_default="the robot's"
        ),
    ] = ROBOT_TABLE,
    json_file: JsonOption = None,
) -> None:
    """Generate kernels (paper 2) from recordings (.mcap) or tables (.csv) of a simulator and of the real robot.

    A table has the columns run, action, reward, and one for each state dimension; a row each period.
    """
    if action != GENERATE:
        raise InputError(f"kernels {action}: must be {GENERATE}")
    if out.suffix != SUFFIX:
        raise InputError(f"--out {out}: must end in {SUFFIX}")
    check_json_target(str(out))
    check_json_target(json_file)
    settings = load_state_table(table)
    simulated, physical = (read_runs(place, settings, table) for place in (sim_runs, real_runs))
    made = generate(simulated, physical, settings)
    save_kernels(made.kernels, out)
    if json_file is not None:
        write_json(json_file, made.as_json())
    stream = sys.stderr if json_file == STANDARD_OUTPUT else sys.stdout
    stream.write(
        f"{out}: {len(made.kernels)} kernels of {made.divergences} divergences in {settings.rollouts} roll-outs; "
        f"{made.transitions[0]} and {made.transitions[1]} transitions, {made.common} common states\n"
    )
