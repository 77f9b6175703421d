"""`onboard-engines ablations`: train the agents of a table, drive all of them alike, and print the table."""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from engines.ablations.agents import Agent, Agents, Place
from engines.ablations.results import CODE, is_current
from engines.ablations.trial import ENCODER, MODEL, TRAINING, is_made, trials
from engines.cli_options import code_of, in_one_line, require_range
from engines.report.files import training_of
from engines.runs.input_files import encoder_file
from engines.runs.locks import in_turn
from engines.train.dagger import STAGE
from hil.drive.setting import MAX_S
from hil.evaluate.metrics import Summary
from hil.jobs.code_digest import code_digest
from hil.jobs.process_pool import in_processes
from onboard.policy.manifest import load_manifest
from onboard.values.errors import InputError, MissingExtraError

# ---- The table of the ablations as plain values

MADE_BY = "onboard-engines ablations"
DOORS = "doors"
"""Key of a result's episodes behind doors."""


def board(agents: Agents, chosen: Sequence[Agent], folder: Path) -> dict[str, Any]:
    """Return the table: a row for each agent and condition, without figures if not driven yet.

    Raises OnboardError for a malformed file.
    """
    rows = [row for agent in chosen for row in _rows(agents, agent, folder / agent.name)]
    return {
        "made_by": MADE_BY,
        "code": code_digest(),
        "set": agents.set_name,
        "maps": list(agents.maps),
        "episodes_of_each_map": agents.episodes,
        "seed": agents.seed,
        "training": {agent.name: _training(agent, folder / agent.name) for agent in chosen},
        "encoders": {agent.name: _encoder(agent, folder / agent.name) for agent in chosen},
        "rows": rows,
    }


def _training(agent: Agent, folder: Path) -> dict[str, dict[str, Any]]:
    """Return the figures of an agent's training from its journal, with the number of updates."""
    stages = training_of(folder / TRAINING)
    if STAGE in stages:
        stages[STAGE]["updates"] = stages[STAGE]["rounds"] * agent.config.imitation.updates
    return stages


def _rows(agents: Agents, agent: Agent, folder: Path) -> list[dict[str, Any]]:
    if not is_made(agent, folder):
        return [_row(agent, place, None, None) for place in agent.places()]
    return [
        _row(agent, trial.place, result, None if result is None else _code(result, trial.plan.configuration()))
        for trial in trials(agents, agent, folder)
        for result in [trial.done()]
    ]


def _encoder(agent: Agent, folder: Path) -> str | None:
    """Return the digest of an agent's colour encoder; None without colour, or without a model."""
    if not is_made(agent, folder):
        return None
    digest = load_manifest(folder / MODEL).extra.get(ENCODER)
    return None if digest is None else str(digest)


def _code(result: Mapping[str, Any], configuration: Mapping[str, Any]) -> str:
    """Return this code's digest if it drove the result, else the digests that the result states."""
    if is_current(result, configuration):
        return code_digest()
    return " with ".join(str(result["configuration"].get(name, "older")) for name in CODE if name in configuration)


def _row(agent: Agent, place: Place, result: dict[str, Any] | None, code: str | None) -> dict[str, Any]:
    doors = None if result is None else result.get(DOORS)
    figures = result if doors is None else doors["summary"]
    return {
        "agent": agent.name,
        "what": agent.section.what,
        "where": place.where,
        "within_s": MAX_S,
        "delay": agent.delay_in(place),
        "same_domain": place.where == agent.own_condition and agent.own_robot() is None,
        "paper": agent.quoted_in(place),
        "paper_office": agent.quoted_of_office(place),
        "summary": None if figures is None else {name: figures[name] for name in Summary.__slots__},
        "doors": None if result is None or doors is None else [result["episodes"], doors["episodes"], doors["shut"]],
        "code": code,
    }


BOARD_FILE = "ablations.json"
AGENTS_FILE = Path(__file__).parent / "agents.toml"
ALIKE = ("made_by", "set", "maps", "episodes_of_each_map", "seed")
"""Keys that must agree for rows to share a table."""
OF_AGENTS = ("training", "encoders")
"""Keys with values by agent."""


def ablations(
    out: Annotated[Path, typer.Option(help="Folder of all trainings and results; the same call resumes.")],
    only: Annotated[list[str] | None, typer.Option(help="Agent of the table; repeatable.")] = None,
    jobs: Annotated[int, typer.Option(help="Number of agents trained in parallel, each on one core.")] = 1,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="A trained colour encoder, or a shipped policy. Without it: no agent sees colour.",
        ),
    ] = None,
    agents: Annotated[
        Path,
        typer.Option(help="The table of agents. Without it: `engines/ablations/agents.toml`.", show_default=False),
    ] = AGENTS_FILE,
    again: Annotated[
        bool, typer.Option("--again", help="Repeat evaluations of an older code version; train nothing twice.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the results; train, drive and write nothing.")] = False,
) -> None:
    """Train each agent, evaluate it in its conditions, and print a table; OUT/ablations.json has the same figures.

    The same call resumes; Ctrl-C keeps all results (exit 130).
    """
    with in_one_line(out, "--jobs, or driving.lanes of the recipe"):
        require_range("--jobs", jobs, 1)
        making = Making(agents, jobs, encoder_file(encoder), again)
        code = _ablations(out, only or [], making, show=show)
    if code:
        raise typer.Exit(code)


@dataclass(frozen=True, slots=True)
class Making:
    """Options of making agents. file: of the agents; again: repeat the drives of other code."""

    file: Path
    jobs: int
    encoder: Path | None
    again: bool

    def options(self) -> list[str]:
        """Return the command's options for one agent."""
        encoder = [] if self.encoder is None else ["--encoder", str(self.encoder)]
        return ["--agents", str(self.file), *encoder, *(["--again"] if self.again else [])]


def _ablations(out: Path, only: list[str], making: Making, *, show: bool) -> int:
    """Return the exit code. Raises InputError if there is nothing to show."""
    try:
        import torch

        from engines.ablations.agents import load_agents
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "onnx", "tensorboard"):
            raise
        raise MissingExtraError(error.name, "train") from error
    from engines.report.ablation_table import ablation_table

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
    """Raise InputError for a folder without results of the chosen agents."""
    if not out.is_dir():
        raise InputError(f"--out {out}: no such folder")
    if all(row["summary"] is None for row in found["rows"]):
        raise InputError(f"--out {out}: no result there of {', '.join(found['training'])}")


def _write(found: dict[str, Any], file: Path, order: list[str]) -> None:
    """Write the table to its file, and keep the file's rows of other agents. Raises InputError."""
    from engines.ablations.results import write_whole

    with in_turn(file):
        write_whole(file, json.dumps(_with_others(found, file, order), indent=1) + "\n")


def _with_others(found: dict[str, Any], file: Path, order: list[str]) -> dict[str, Any]:
    """Return the table with the file's rows of other agents if they were driven alike, in the order of the agents.

    Parallel calls may be making other agents, so this call reads only their rows.
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
    """Return the agents that can be made, and print the others."""
    left_out = [agent.name for agent in chosen if agent.sees_colour and encoder is None]
    if left_out:
        typer.echo(f"skipped, because they need colour and --encoder is missing: {', '.join(left_out)}", err=True)
    return [agent for agent in chosen if agent.name not in left_out]


def _make(table: Agents, chosen: list[Agent], out: Path, making: Making) -> int:
    from engines.ablations.trial import check_agents, is_made

    check_agents([agent for agent in chosen if not is_made(agent, out / agent.name, making.encoder)])
    if making.jobs == 1 or len(chosen) <= 1:
        codes = (_make_one(table, agent, out / agent.name, making) for agent in chosen)
        return next((code for code in codes if code), 0)
    return side_by_side([agent.name for agent in chosen], out, making.jobs, making.options())


def _make_one(table: Agents, agent: Agent, folder: Path, making: Making) -> int:
    """Return 0, or the exit code of a signal."""
    from engines.ablations.trial import make_agent, run_trial, trials

    make_agent(agent, folder, making.encoder)
    codes = (run_trial(trial, again=making.again) for trial in trials(table, agent, folder))
    return next((code for code in codes if code), 0)


# ---- Agents made in parallel: child processes of `onboard-engines ablations --only NAME`

LOG_FILE = "log.txt"
FAILED = 1


@dataclass(frozen=True, slots=True)
class _Agent:
    """The call for one agent. given: options in addition to the agent."""

    name: str
    out: Path
    given: tuple[str, ...]
    map: str = ""

    def __str__(self) -> str:
        return self.name


def side_by_side(names: Sequence[str], out: Path, jobs: int, given: Sequence[str]) -> int:
    """Make agents in `jobs` processes; return the first exit code that is not 0, after all have ended."""
    first = 0
    calls = [_Agent(name, out, tuple(given)) for name in names]
    with contextlib.closing(in_processes(_made_apart, calls, jobs)) as made:
        for name, code in made:
            typer.echo(f"{name}: {f'ended with {code}, see {out / name / LOG_FILE}' if code else 'done'}", err=True)
            first = first or code
    return first


def _made_apart(call: _Agent) -> tuple[str, int]:
    """Make an agent in this process, with its output in a log. Return its name and the exit code."""
    folder = call.out / call.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOG_FILE).open("ab") as log:
            os.dup2(log.fileno(), sys.stdout.fileno())
            os.dup2(log.fileno(), sys.stderr.fileno())
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
    sys.argv = ["onboard-engines", "ablations", "--out", str(call.out), "--only", call.name, *call.given]
    try:
        runpy.run_module("engines", run_name="__main__")
    except SystemExit as end:
        return call.name, code_of(end)
    except Exception:  # noqa: BLE001  # a bug: the log has the traceback, and other agents continue
        traceback.print_exc()
    return call.name, FAILED
