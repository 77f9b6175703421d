"""The one table of the ablations, as plain values: what the folder of `onboard-engines ablations` holds so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from engines.ablations.agents import Agent, Agents, Place
from engines.ablations.results import CODE, is_current
from engines.ablations.trials import ENCODER, MODEL, TRAINING, is_made, trials
from engines.report.journals import training_of
from engines.train.imitation import STAGE
from hil.evaluate.code import code_digest
from hil.evaluate.metrics import Summary
from onboard.manifest import load_manifest

MADE_BY = "onboard-engines ablations"
DOORS = "doors"
"""In a result: its episodes behind doors, None in a condition without."""


def board(agents: Agents, chosen: Sequence[Agent], folder: Path) -> dict[str, Any]:
    """Return one row for each agent and place where it was driven, those not driven yet without figures.

    Raises OnboardError for files that are not what they should be.
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
    """Return the figures of an agent's training as its journal tells them, and how many updates its rounds had."""
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
    """Return the digest of the file of an agent's colour encoder; None where it sees no colour or is not made."""
    if not is_made(agent, folder):
        return None
    told = load_manifest(folder / MODEL).extra.get(ENCODER)
    return None if told is None else str(told)


def _code(result: Mapping[str, Any], configuration: Mapping[str, Any]) -> str:
    """Return the digest that a board has where this state of the code drove a result, else what the result tells."""
    if is_current(result, configuration):
        return code_digest()
    return " with ".join(str(result["configuration"].get(name, "older")) for name in CODE if name in configuration)


def _row(agent: Agent, place: Place, result: dict[str, Any] | None, code: str | None) -> dict[str, Any]:
    doors = None if result is None else result.get(DOORS)
    told = result if doors is None else doors["summary"]
    return {
        "agent": agent.name,
        "what": agent.section.what,
        "where": place.where,
        "within_s": place.within_s,
        "delay": agent.delay_in(place),
        "same_domain": place.where == agent.own_condition and agent.own_robot() is None,
        "paper": agent.quoted_in(place),
        "paper_office": agent.quoted_of_office(place),
        "summary": None if told is None else {name: told[name] for name in Summary.__slots__},
        "doors": None if result is None or doors is None else [result["episodes"], doors["episodes"], doors["shut"]],
        "code": code,
    }
