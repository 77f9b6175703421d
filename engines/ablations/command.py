"""`onboard-engines ablations`: train the agents of a table, drive all of them alike, and print the table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard.errors import InputError, MissingExtraError, OnboardError

if TYPE_CHECKING:
    from engines.ablations.agents import Agent, Agents

REFUSED, INTERRUPTED = 2, 130
BOARD_FILE, LOG_FILE = "ablations.json", "log.txt"
AGENTS_FILE = Path(__file__).parent / "agents.toml"
POLL_S = 1.0
ALIKE = ("made_by", "set", "maps", "episodes_of_each_map", "seed")
"""Of a board: what must be the same for rows to stand in one table."""


def ablations(
    out: Annotated[Path, typer.Option(help="Folder of all trainings and results; the same call goes on.")],
    only: Annotated[list[str] | None, typer.Option(help="Agent of the table; may be given several times.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Agents made side by side, each on one core.")] = 1,
    encoder: Annotated[
        Path | None, typer.Option(help="Weights of a trained colour encoder; without it no agent sees colour.")
    ] = None,
    agents: Annotated[Path, typer.Option(help="The table of agents.")] = AGENTS_FILE,
    show: Annotated[bool, typer.Option("--show", help="Print what there is, train and drive nothing.")] = False,
) -> None:
    """Train each agent, drive it wherever it is to be, and print one table; OUT/ablations.json has the same figures.

    What is done is not done again; Ctrl-C keeps all of it (exit 130).
    """
    try:
        code = _ablations(out, only or [], jobs, encoder, agents, show)
    except OnboardError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(REFUSED) from error
    except KeyboardInterrupt as error:
        typer.echo(f"stopped; the same command goes on from what is in {out}", err=True)
        raise typer.Exit(INTERRUPTED) from error
    if code:
        raise typer.Exit(code)


def _ablations(out: Path, only: list[str], jobs: int, encoder: Path | None, file: Path, show: bool) -> int:
    try:
        import torch

        from engines.ablations.agents import load_agents
        from engines.ablations.board import board
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "onnx", "tensorboard"):
            raise
        raise MissingExtraError(error.name, "train") from error
    from engines.ablations.results import write_whole
    from engines.report.ablations import ablation_table

    torch.set_num_threads(1)
    if encoder is not None and not encoder.is_file():
        raise InputError(f"--encoder {encoder}: no such file")
    table = load_agents(file)
    chosen = table.only(only)
    code = 0 if show else _make(table, _seeing(chosen, encoder), out, jobs, encoder, file)
    found = board(table, chosen, out)
    write_whole(
        out / BOARD_FILE, json.dumps(_with_others(found, out / BOARD_FILE, list(table.agents)), indent=1) + "\n"
    )
    typer.echo(ablation_table(found))
    return code


def _with_others(found: dict[str, Any], file: Path, order: list[str]) -> dict[str, Any]:
    """Return a board with the rows that the one in a file has of other agents, driven alike, in the order of the table.

    Others may be in the making, by calls beside this one, so they are not looked at here.
    """
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
        alike = all(before[key] == found[key] for key in ALIKE)
        others = [row for row in before["rows"] if row["agent"] in order and row["agent"] not in found["training"]]
        trainings = {name: before["training"][name] for name in {row["agent"] for row in others}}
    except (OSError, ValueError, KeyError, TypeError):
        return found
    if not alike:
        return found
    rows = sorted([*found["rows"], *others], key=lambda row: order.index(row["agent"]))
    return {**found, "rows": rows, "training": {**trainings, **found["training"]}}


def _seeing(chosen: list[Agent], encoder: Path | None) -> list[Agent]:
    """Return those that can be made, and say which cannot."""
    left_out = [agent.name for agent in chosen if agent.sees_colour and encoder is None]
    if left_out:
        typer.echo(f"left out, since they see colour and there is no --encoder: {', '.join(left_out)}", err=True)
    return [agent for agent in chosen if agent.name not in left_out]


def _make(table: Agents, chosen: list[Agent], out: Path, jobs: int, encoder: Path | None, file: Path) -> int:
    if jobs == 1 or len(chosen) <= 1:
        codes = (_make_one(table, agent, out / agent.name, encoder) for agent in chosen)
        return next((code for code in codes if code), 0)
    return _side_by_side([agent.name for agent in chosen], out, jobs, encoder, file)


def _make_one(table: Agents, agent: Agent, folder: Path, encoder: Path | None) -> int:
    """Return 0, or the exit code of a signal that ended the driving."""
    from engines.ablations.trials import make_agent, run_trial, trials

    make_agent(agent, folder, encoder)
    codes = (run_trial(trial) for trial in trials(table, agent, folder))
    return next((code for code in codes if code), 0)


def _side_by_side(names: list[str], out: Path, jobs: int, encoder: Path | None, file: Path) -> int:
    """Make agents by calls of this command, so many at a time; return the first exit code that is not 0."""
    waiting, running, code = list(names), dict[str, subprocess.Popen[bytes]](), 0
    try:
        while waiting or running:
            while waiting and len(running) < jobs and not code:
                running[waiting[0]] = _begin(waiting[0], out, encoder, file)
                del waiting[0]
            if not running:
                break
            name = _ended(running)
            ended = running.pop(name).returncode
            typer.echo(
                f"{name}: {'done' if ended == 0 else f'ended with {ended}, see {out / name / LOG_FILE}'}", err=True
            )
            code = code or ended
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return code


def _begin(name: str, out: Path, encoder: Path | None, file: Path) -> subprocess.Popen[bytes]:
    given = [] if encoder is None else ["--encoder", str(encoder)]
    command = [sys.executable, "-m", "engines", "ablations", "--out", str(out), "--only", name, "--agents", str(file)]
    try:
        (out / name).mkdir(parents=True, exist_ok=True)
        with (out / name / LOG_FILE).open("ab") as log:
            return subprocess.Popen([*command, *given], stdout=log, stderr=log)
    except OSError as error:
        raise InputError(f"{out / name}: cannot be written: {error.strerror}") from error


def _ended(running: dict[str, subprocess.Popen[bytes]]) -> str:
    """Wait until one has ended and return its name."""
    while True:
        for name, process in running.items():
            try:
                process.wait(POLL_S / len(running))
            except subprocess.TimeoutExpired:
                continue
            return name
