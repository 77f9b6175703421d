"""`onboard-engines ablations`: train the agents of a table, drive all of them alike, and print the table."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engines.ablations.side_by_side import side_by_side
from engines.guard import in_one_line, require_range
from engines.lock import in_turn
from engines.named_files import encoder_file
from onboard.errors import InputError, MissingExtraError

if TYPE_CHECKING:
    from engines.ablations.agents import Agent, Agents

BOARD_FILE = "ablations.json"
AGENTS_FILE = Path(__file__).parent / "agents.toml"
ALIKE = ("made_by", "set", "maps", "episodes_of_each_map", "seed")
"""Of a board: what must be the same for rows to stand in one table."""
OF_AGENTS = ("training", "encoders")
"""Of a board: what it tells of agents by name."""


def ablations(
    out: Annotated[Path, typer.Option(help="Folder of all trainings and results; the same call goes on.")],
    only: Annotated[list[str] | None, typer.Option(help="Agent of the table; may be given several times.")] = None,
    jobs: Annotated[int, typer.Option(help="Agents made side by side, each on one core.")] = 1,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A trained colour encoder, or a policy that ships; without it no agent sees colour.",
        ),
    ] = None,
    agents: Annotated[Path, typer.Option(help="The table of agents.")] = AGENTS_FILE,
    again: Annotated[
        bool, typer.Option("--again", help="Drive also what another state of the code has driven; train nothing twice.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print what there is; train, drive and write nothing.")] = False,
) -> None:
    """Train each agent, drive it wherever it is to be, and print one table; OUT/ablations.json has the same figures.

    What is done is not done again; Ctrl-C keeps all of it (exit 130).
    """
    with in_one_line(out, "--jobs, or driving.lanes of the recipe"):
        require_range("--jobs", jobs, 1)
        making = Making(agents, jobs, encoder_file(encoder), again)
        code = _ablations(out, only or [], making, show=show)
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class Making:
    """How agents are made. file: the table; again: what other code drove is driven anew."""

    file: Path
    jobs: int
    encoder: Path | None
    again: bool

    def options(self) -> list[str]:
        """Return those of a call that makes one of them."""
        encoder = [] if self.encoder is None else ["--encoder", str(self.encoder)]
        return ["--agents", str(self.file), *encoder, *(["--again"] if self.again else [])]


def _ablations(out: Path, only: list[str], making: Making, *, show: bool) -> int:
    """Return the exit code. Raises InputError where there is nothing to show."""
    try:
        import torch

        from engines.ablations.agents import load_agents
        from engines.ablations.board import board
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "onnx", "tensorboard"):
            raise
        raise MissingExtraError(error.name, "train") from error
    from engines.report.ablations import ablation_table

    torch.set_num_threads(1)
    table = load_agents(making.file)
    chosen = table.only(only)
    code = 0 if show else _make(table, _seeing(chosen, making.encoder), out, making)
    found = board(table, chosen, out)
    if show:
        _check_shown(found, out)
    else:
        _write(found, out / BOARD_FILE, list(table.agents))
    typer.echo(ablation_table(found))
    return code


def _check_shown(found: dict[str, Any], out: Path) -> None:
    """Raise InputError for a folder without any result of the agents that are to be shown."""
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder")
    if all(row["summary"] is None for row in found["rows"]):
        raise InputError(f"--out {out}: no result there of {', '.join(found['training'])}")


def _write(found: dict[str, Any], file: Path, order: list[str]) -> None:
    """Put a board in its file, beside what that has of other agents. Raises InputError."""
    from engines.ablations.results import write_whole

    with in_turn(file):
        write_whole(file, json.dumps(_with_others(found, file, order), indent=1) + "\n")


def _with_others(found: dict[str, Any], file: Path, order: list[str]) -> dict[str, Any]:
    """Return a board with the rows that the one in a file has of other agents, driven alike, in the order of the table.

    Others may be in the making, by calls beside this one, so they are not looked at here.
    """
    try:
        before = json.loads(file.read_text(encoding="utf-8"))
        alike = all(before[key] == found[key] for key in ALIKE)
        others = [row for row in before["rows"] if row["agent"] in order and row["agent"] not in found["training"]]
        names = {row["agent"] for row in others}
        trainings, encoders = ({name: before[key][name] for name in names} for key in OF_AGENTS)
    except (OSError, ValueError, KeyError, TypeError):
        return found
    if not alike:
        return found
    rows = sorted([*found["rows"], *others], key=lambda row: order.index(row["agent"]))
    return {
        **found,
        "rows": rows,
        "training": {**trainings, **found["training"]},
        "encoders": {**encoders, **found["encoders"]},
    }


def _seeing(chosen: list[Agent], encoder: Path | None) -> list[Agent]:
    """Return those that can be made, and say which cannot."""
    left_out = [agent.name for agent in chosen if agent.sees_colour and encoder is None]
    if left_out:
        typer.echo(f"left out, since they see colour and there is no --encoder: {', '.join(left_out)}", err=True)
    return [agent for agent in chosen if agent.name not in left_out]


def _make(table: Agents, chosen: list[Agent], out: Path, making: Making) -> int:
    from engines.ablations.trials import check_agents, is_made

    check_agents([agent for agent in chosen if not is_made(agent, out / agent.name, making.encoder)])
    if making.jobs == 1 or len(chosen) <= 1:
        codes = (_make_one(table, agent, out / agent.name, making) for agent in chosen)
        return next((code for code in codes if code), 0)
    return side_by_side([agent.name for agent in chosen], out, making.jobs, making.options())


def _make_one(table: Agents, agent: Agent, folder: Path, making: Making) -> int:
    """Return 0, or the exit code of a signal that ended the driving."""
    from engines.ablations.trials import make_agent, run_trial, trials

    make_agent(agent, folder, making.encoder)
    codes = (run_trial(trial, again=making.again) for trial in trials(table, agent, folder))
    return next((code for code in codes if code), 0)
