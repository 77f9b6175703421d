"""Tables in Markdown, and cells with the figures of a summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hil.evaluate.metrics import Summary
from hil.evaluate.tables import NOTHING, between, number, percent

FIGURE_HEADINGS = ("SR %", "SPL %", "SCT %", "contacts / episode")
"""Headings of `figures`."""

SHORT_H, MINUTES = 2.0, 60.0


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """Return a table; the first `words` columns are left-aligned, others right-aligned."""
    lines = [f"| {' | '.join(headings)} |", f"|{'---|' * words}{'---:|' * (len(headings) - words)}"]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)]) + "\n"


def summary_of_json(found: Mapping[str, Any]) -> Summary:
    """Return the summary that `Summary.as_json` wrote. Raises KeyError for a missing key."""
    fields = {name: found[name] for name in Summary.__slots__}
    fields["actions"] = tuple(found["actions"])
    fields["ci95"] = {name: (low, high) for name, (low, high) in found["ci95"].items()}
    return Summary(**fields)


def figures(summary: Summary | None) -> list[str]:
    """Return the cells under `FIGURE_HEADINGS`, with their 95 % intervals in brackets."""
    if summary is None:
        return [NOTHING] * len(FIGURE_HEADINGS)
    rates = [(percent(getattr(summary, name)), between(summary, name)) for name in ("success_rate", "spl", "sct")]
    contacts = number(summary.contacts_per_episode), between(summary, "contacts_per_episode", 2, 1.0)
    return [f"{value} ({interval})" if interval else value for value, interval in (*rates, contacts)]


def quoted(paper: Sequence[float] | None) -> str:
    """Return the paper's SR, SPL and SCT."""
    return NOTHING if paper is None else " / ".join(f"{value:g}" for value in paper)


def hours(value: float | None) -> str:
    """Return a duration given in hours as text, in minutes if short."""
    if value is None:
        return NOTHING
    return f"{value:.1f} h" if value >= SHORT_H else f"{MINUTES * value:.0f} min"


def signed(value: float) -> str:
    """Return a number with its sign; 0 has none."""
    return f"{value:+g}" if value else "0"
