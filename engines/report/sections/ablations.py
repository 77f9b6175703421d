"""The table of the ablations, from the plain values of `engines.ablations.command`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engines.report.results.markdown import FIGURE_HEADINGS, figures, hours, quoted, summary_of_json, table
from hil.drive.setting import MAX_S
from hil.evaluate.metrics import NOTE
from hil.evaluate.tables import NOTHING

OWN = "own"
NAMES = {OWN: "its own training domain"}
AGENT_HEADINGS = ("agent", "driven in", "delay, ticks", *FIGURE_HEADINGS, "paper: SR / SPL / SCT",
                  "decisions to learn from", "updates", "time")  # fmt: skip
OFFICE = "Office/20"
"""The building of the paper's own for which its Table 3 has a success rate of each kind of goal."""


def ablation_table(board: Mapping[str, Any]) -> str:
    """Return the table in Markdown, with what stands for what below it."""
    rows = []
    for row in board["rows"]:
        training = board["training"].get(row["agent"], {}).get("imitation", {})
        summary = None if row["summary"] is None else summary_of_json(row["summary"])
        amounts = [_count(training.get(name)) for name in ("decisions", "updates")]
        cells = [*figures(summary), _quoted(row), *amounts, hours(training.get("hours"))]
        rows.append([f"`{row['agent']}`", _where(row), row.get("delay", NOTHING), *cells])
    return "\n".join([table(AGENT_HEADINGS, rows, words=2), *_notes(board)]) + "\n"


def _count(number: int | None) -> str:
    """Return a number, if it is known: an older file has no updates."""
    return NOTHING if number is None else f"{number:,}"


def _quoted(row: Mapping[str, Any]) -> str:
    """Return what the paper reports of a row's agent, in its building where the row says so."""
    office = row.get("paper_office")
    if office is None:
        return quoted(row["paper"])
    of_office = f"SR {office:g} in {OFFICE}"
    return of_office if row["paper"] is None else f"{quoted(row['paper'])}, {of_office}"


def _where(row: Mapping[str, Any]) -> str:
    """Return where a row was driven, and within which of the episodes its figures are."""
    doors = row.get("doors")
    behind = f", {doors[1]} of {doors[0]} episodes behind doors, {doors[2]} shut" if doors else ""
    return _place(row) + behind + (" (and its own domain)" if row["same_domain"] else "")


def _place(row: Mapping[str, Any]) -> str:
    """Return where a row was driven; a row of an older file took the time of all."""
    within_s = row.get("within_s", MAX_S)
    longer = "" if within_s == MAX_S else f", within {within_s:g} s"
    where: str = NAMES.get(row["where"], row["where"])
    return where + longer


def _notes(board: Mapping[str, Any]) -> list[str]:
    words = {row["agent"]: row["what"] for row in board["rows"]}
    count = {row["summary"]["episodes"] for row in board["rows"] if row["summary"] is not None and not row.get("doors")}
    notes = [f"* `{name}`: {what}." for name, what in words.items()]
    notes.append("")
    episodes = " or ".join(str(number) for number in sorted(count)) or "no"
    notes.append(
        f"{episodes} episodes of the set {board['set']} each, seed {board['seed']}, of {MAX_S:g} s unless it says "
        "otherwise; in brackets 95 % intervals, of the episodes alone. Every agent is one training with one seed, and "
        "another seed's would have other figures. The delay is from an observation to what the base follows, in "
        "control ticks of 1/30 s. "
        "The paper's figures are its own, of its agents in its simulator: quoted, not the same work."
    )
    if any(row.get("paper_office") is not None for row in board["rows"]):
        notes[-1] += f" {OFFICE} is a building of the paper's own, simulated, for which its Table 3 has SR alone."
    if any(row.get("doors") for row in board["rows"]):
        notes.append(NOTE)
    return [*notes, *_encoders(board), *_stale(board)]


def _encoders(board: Mapping[str, Any]) -> list[str]:
    """Return which colour encoder the agents that see colour have been given, by its file's digest."""
    given = encoders_of(board)
    return [
        f"Their colour encoder is that of the file with the sha256 {', '.join(f'`{one}`' for one in given)}."
    ] * bool(given)


def encoders_of(board: Mapping[str, Any]) -> list[str]:
    """Return the digests of the files that the agents' colour encoders are from, each once, in order."""
    return sorted({str(digest) for digest in board.get("encoders", {}).values() if digest is not None})


def _stale(board: Mapping[str, Any]) -> list[str]:
    """Return which rows another state of the code has driven than the one that made the table, or than others."""
    driven = [row for row in board["rows"] if row["code"] is not None]
    now, codes = board.get("code"), {row["code"] for row in driven}
    if now is None:
        several = f"Driven by {len(codes)} different states of the code: {', '.join(sorted(codes))}."
        return [several] if len(codes) > 1 else []
    names = [f"`{row['agent']}` in {_place(row)}" for row in driven if row["code"] != now]
    if not names:
        return []
    return [
        f"Driven by another state of the code than the one that printed this: {'; '.join(names)}. "
        "`onboard-engines ablations --again` drives them anew."
    ]
