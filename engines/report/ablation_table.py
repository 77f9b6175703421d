"""The table of the ablations, from stored values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engines.report.results import summary_of_json
from hil.drive.setting import MAX_S
from hil.evaluate.metrics import NOTE, Summary
from hil.evaluate.tables import NOTHING, between, number, percent
from onboard.commands.cli import markdown_table
from onboard.config.toml_file import read_toml

FIGURE_HEADINGS = ("SR %", "SPL %", "SCT %", "contacts / episode")
"""Headings of `figures`."""
SHORT_H, MINUTES = 2.0, 60.0
OWN = "own"
NAMES = {OWN: "its own training domain"}
AGENT_HEADINGS = ("agent", "driven in", "delay, ticks", *FIGURE_HEADINGS, "paper: SR / SPL / SCT",
                  "decisions to learn from", "updates", "time")  # fmt: skip
OFFICE = "Office/20"
"""The paper's building; its Table 3 has a success rate for each kind of goal."""
AGENTS_FILE = Path(__file__).with_name("agents.toml")
"""The agents with their descriptions of today. A result file holds the description of its own time."""


def ablation_table(board: Mapping[str, Any]) -> str:
    """Return the table in Markdown, with notes below it."""
    rows = []
    for row in board["rows"]:
        training = board["training"].get(row["agent"], {}).get("imitation", {})
        summary = None if row["summary"] is None else summary_of_json(row["summary"])
        amounts = [f"{training[name]:,}" if training else NOTHING for name in ("decisions", "updates")]
        cells = [*figures(summary), _quoted(row), *amounts, hours(training.get("hours"))]
        rows.append([f"`{row['agent']}`", _where(row), row["delay"], *cells])
    return "\n".join([markdown_table(AGENT_HEADINGS, rows, words=2), "", *_notes(board)]) + "\n"


def figures(summary: Summary | None) -> list[str]:
    """Return the cells under `FIGURE_HEADINGS`, with their 95 % intervals in brackets."""
    if summary is None:
        return [NOTHING] * len(FIGURE_HEADINGS)
    rates = [(percent(getattr(summary, name)), between(summary, name)) for name in ("success_rate", "spl", "sct")]
    contacts = number(summary.contacts_per_episode), between(summary, "contacts_per_episode", 2, 1.0)
    return [f"{value} ({interval})" if interval else value for value, interval in (*rates, contacts)]


def hours(value: float | None) -> str:
    """Return a duration given in hours as text, in minutes if short."""
    if value is None:
        return NOTHING
    return f"{value:.1f} h" if value >= SHORT_H else f"{MINUTES * value:.0f} min"


def descriptions() -> dict[str, str]:
    """Return today's description of each agent by its name. Raises ConfigError."""
    table = read_toml(AGENTS_FILE)
    return {**table["former"], **{name: agent["what"] for name, agent in table["agents"].items()}}


def _quoted(row: Mapping[str, Any]) -> str:
    """Return the paper's figures for a row."""
    cells = [] if row["paper"] is None else [" / ".join(f"{value:g}" for value in row["paper"])]
    cells += [] if row["paper_office"] is None else [f"SR {row['paper_office']:g} in {OFFICE}"]
    return ", ".join(cells) or NOTHING


def _where(row: Mapping[str, Any]) -> str:
    """Return the condition of a row, and the episodes that it counts."""
    doors = row["doors"]
    behind = f", {doors[1]} of {doors[0]} episodes behind doors, {doors[2]} shut" if doors else ""
    return _place(row) + behind + (" (and its own domain)" if row["same_domain"] else "")


def _place(row: Mapping[str, Any]) -> str:
    longer = "" if row["within_s"] == MAX_S else f", within {row['within_s']:g} s"
    return f"{NAMES.get(row['where'], row['where'])}{longer}"


def _notes(board: Mapping[str, Any]) -> list[str]:
    today = descriptions()
    words = {row["agent"]: today.get(row["agent"], row["what"]) for row in board["rows"]}
    count = {row["summary"]["episodes"] for row in board["rows"] if row["summary"] is not None and not row["doors"]}
    episodes = " or ".join(str(number) for number in sorted(count)) or "no"
    notes = [*(f"* `{name}`: {what}." for name, what in words.items()), ""]
    notes.append(
        f"Each row has {episodes} episodes of the set {board['set']}, seed {board['seed']}, of at most {MAX_S:g} s "
        "unless it says otherwise. Brackets hold 95 % intervals over episodes. Every agent is one training with one "
        "seed; another seed gives other figures. The delay counts control ticks of 1/30 s. The paper's figures are "
        "quoted: other agents in another simulator."
    )
    if any(row["paper_office"] is not None for row in board["rows"]):
        notes[-1] += f" {OFFICE} is a building of the paper, simulated. Its Table 3 has SR alone."
    if any(row["doors"] for row in board["rows"]):
        notes.append(NOTE)
    digests = sorted({f"`{digest}`" for digest in board["encoders"].values() if digest is not None})
    notes += [f"sha256 of the colour encoder's file: {', '.join(digests)}."] if digests else []
    other = [row for row in board["rows"] if row["code"] not in (None, board["code"])]
    names = "; ".join(f"`{row['agent']}` in {_place(row)}" for row in other)
    again = f"Another state of the code drove: {names}."
    return [*notes, again] if names else notes
