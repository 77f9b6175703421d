"""The command `onboard-hil kernels`.

Recordings and tables of a simulator or a robot become transitions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hil.physics.kernel_effects import action_of, check_robot_table, period_ticks, state_vector
from hil.physics.state_kernels.generate import generate
from hil.physics.state_kernels.kernel_set import save_kernels
from hil.physics.state_kernels.state_table import Array, StateTable, load_state_table
from hil.physics.state_kernels.transitions import Log, check_log, joined
from hil.recordings.csv_table import read_csv
from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.values.errors import InputError
from onboard.values.geometry import compose

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
    write_json(json_file, made.as_json())
    stream = sys.stderr if json_file == STANDARD_OUTPUT else sys.stdout
    stream.write(
        f"{out}: {len(made.kernels)} kernels of {made.divergences} divergences in {settings.rollouts} roll-outs; "
        f"{made.transitions[0]} and {made.transitions[1]} transitions, {made.common} common states\n"
    )


RECORDING, TABLE = ".mcap", ".csv"
COLUMNS = ("run", "action", "reward")

Row = tuple[str, Array, int, float]
"""Run, state, action from there, reward of that action."""


def read_runs(place: str, table: StateTable, source: object) -> Log:
    """Return the transitions of a file, a folder of files, or a quoted pattern: .csv tables and .mcap recordings.

    source: file of the state table, for messages
    Raises InputError naming the file and what is wrong.
    """
    files = _files(place)
    if any(file.suffix == RECORDING for file in files):
        check_robot_table(table, source)
    logs = [_read(file, table) for file in files]
    if not sum(map(len, logs)):
        raise InputError(f"{place}: no transitions: a run must hold two states, {table.period_s:g} s apart")
    return joined([log for log in logs if len(log)])


def _files(place: str) -> list[Path]:
    path = Path(place)
    if path.is_dir():
        found = sorted(one for one in path.iterdir() if one.suffix in (RECORDING, TABLE))
    elif any(mark in place for mark in "*?["):
        found = sorted(Path(path.anchor or ".").glob(str(path.relative_to(path.anchor))))
    else:
        found = [path] if path.exists() else []
    if not found:
        raise InputError(f"{place}: no {TABLE} or {RECORDING} file there")
    for file in found:
        if file.suffix not in (RECORDING, TABLE):
            raise InputError(f"{file}: must end in {TABLE} or {RECORDING}")
    return found


def _read(file: Path, table: StateTable) -> Log:
    rows = list(_recorded(file, table) if file.suffix == RECORDING else _tabled(file, table))
    pairs = [(one, other) for one, other in pairwise(rows) if one[0] == other[0]]
    d = len(table.names)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(run for run, *_ in rows))}
    log = Log(
        np.array([state for (_, state, _, _), _ in pairs]).reshape(-1, d),
        np.array([action for (_, _, action, _), _ in pairs], np.int64),
        np.array([reward for (_, _, _, reward), _ in pairs], np.float64),
        np.array([following for _, (_, following, _, _) in pairs]).reshape(-1, d),
        np.array([numbers[run] for (run, *_), _ in pairs], np.int64),
    )
    if len(log):
        check_log(log, table, str(file))
    return log


def _tabled(file: Path, table: StateTable) -> Iterator[Row]:
    """Yield the rows of a table: `run`, a column a dimension, `action`, `reward`; a row each period."""
    read = read_csv(file, (*COLUMNS, *table.names))
    states = np.column_stack([read.numbers(name) for name in table.names])
    actions, rewards = read.numbers("action"), read.numbers("reward")
    for row, line in enumerate(read.lines):
        if actions[row] != int(actions[row]):
            raise InputError(f"{file}: line {line}: action is {actions[row]:g}, must be a whole number")
        yield read.columns["run"][row], states[row], int(actions[row]), float(rewards[row])


def _recorded(file: Path, table: StateTable) -> Iterator[Row]:
    """Yield a row each period while the robot knows its pose in the map; a gap in the ticks begins another run.

    The reward is 0: a recording has no performance monitor.
    """
    assert table.action is not None
    every, run, last = period_ticks(table), 0, None
    with open_recording(file) as recording:
        for tick in ticks_of(recording):
            if tick.map_from_odom is None or tick.slot.number % every:
                continue
            if last is not None and tick.slot.number != last + every:
                run += 1
            last = tick.slot.number
            pose = compose(tick.map_from_odom, tick.odometry.pose)
            state = state_vector(table, pose, tick.odometry.twist)
            yield str(run), state, action_of(table.action, tick.command), 0.0
