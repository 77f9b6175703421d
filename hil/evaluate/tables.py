"""Tables of figures for the operator: on a terminal, in Markdown, in a report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from hil.evaluate.evaluation import Evaluation
from hil.evaluate.metrics import HARD_DETOUR, Summary
from onboard.commands.cli import markdown_table

NOTHING = "-"
TO = " to "
HEADINGS = (
    "drives",
    "SR %",
    "SPL %",
    "SCT %",
    "contacts\na drive",
    "in\n100 m",
    "out of\ntime",
    "gave\nup",
    "clearance\nm",
    "SR % of\nhard ones",
)
"""in 100 m: contacts per 100 m driven. clearance: median over drives of the least distance to anything. gave up: the
runtime ended the drive; `endings` says for which reasons (`onboard reasons`).
"""
COMPARED = (
    "policy", "SR %", "SPL %", "SCT %", "contacts / episode", "contacts / 100 m", "time-outs", "gave up",
    "SR % on hard ones",
)  # fmt: skip
ENDS_IN_TIME = ("stop", "time")
ENDINGS = {"stop": "stopped by the policy", "time": "out of time"}
LOOPS = {"fast": "policy and base alone", "runtime": "whole runtime", "rendered": "whole runtime, rendered cameras"}
SPLITS = {"own": "your maps", "train": "training maps", "test": "test maps"}
NARROW = 110
"""Below this width of a terminal [characters], columns have no padding, and the last is left out."""


def percent(value: float | None) -> str:
    """Return a share in per cent, with a decimal place; "-" for None."""
    return NOTHING if value is None else f"{100.0 * value:.1f}"


def number(value: float | None, digits: int = 2, scale: float = 1.0) -> str:
    """Return `scale * value` with this number of decimal places; "-" for None."""
    return NOTHING if value is None else f"{scale * value:.{digits}f}"


def between(summary: Summary, name: str, digits: int = 1, scale: float = 100.0) -> str:
    """Return a figure's 95 % interval, times `scale`, as "low to high"; "" without an interval."""
    interval = summary.ci95.get(name)
    return "" if interval is None else f"{scale * interval[0]:.{digits}f}{TO}{scale * interval[1]:.{digits}f}"


def gave_up(summary: Summary) -> str:
    """Return the number of episodes that the runtime ended."""
    return str(sum(count for reason, count in summary.ends.items() if reason not in ENDS_IN_TIME))


def endings(summary: Summary, skipped: tuple[str, ...] = ()) -> str:
    """Return how often drives ended for each reason, as "2 out of time, 1 input_lost"; without some reasons."""
    counts = {reason: count for reason, count in summary.ends.items() if reason not in skipped}
    return ", ".join(f"{count} {ENDINGS.get(reason, reason)}" for reason, count in counts.items())


def cells(summary: Summary) -> list[str]:
    """Return the cells under `HEADINGS`."""
    clearance = summary.min_clearance_m
    return [
        str(summary.episodes),
        percent(summary.success_rate),
        percent(summary.spl),
        percent(summary.sct),
        number(summary.contacts_per_episode),
        number(summary.contacts_per_m, scale=100.0),
        str(summary.time_outs),
        gave_up(summary),
        NOTHING if clearance is None else number(clearance["median"]),
        f"{percent(summary.hard_success_rate)} of {summary.hard_episodes}",
    ]


def intervals(summary: Summary) -> list[str]:
    """Return the 95 % intervals under `HEADINGS`; "" for figures without an interval."""
    return [
        "",
        between(summary, "success_rate"),
        between(summary, "spl"),
        between(summary, "sct"),
        between(summary, "contacts_per_episode", 2, 1.0),
        between(summary, "contacts_per_m", 2),
        "",
        "",
        "",
        between(summary, "hard_success_rate"),
    ]


def rich_table(evaluation: Evaluation, narrow: bool = False) -> Table:
    """Return the figures by map, by split, and of all drives with their intervals. narrow: below NARROW."""
    run = evaluation.plan.run
    section = evaluation.plan.robot.config.scan
    scan = "of lidar and cameras" if section.topic and section.uses_cameras else run.scan
    title = f"{run.policy} ({LOOPS[run.loop]}), scan {scan}, condition {run.condition}"
    title += "" if run.color else ", no colour"
    doors = evaluation.doors()
    text = caption(evaluation) + ("" if doors is None else f"\n{doors}")
    if left := endings(evaluation.summary(), ("stop",)):
        text += f"\nended in another way than a stop by the policy: {left}"
    for line in filter(None, (unseen_line(evaluation), tracked_line(evaluation))):
        text += f"\n{line}"
    table = _table(title, text, "map", narrow)
    columns = len(table.columns) - 1
    splits = {SPLITS.get(name, name): one for name, one in evaluation.by("split").items()}
    for groups in (evaluation.by("map"), splits if len(splits) > 1 else {}):
        for name, summary in groups.items():
            table.add_row(name, *cells(summary)[:columns])
        table.add_section()
    summary = evaluation.summary()
    table.add_row("all", *cells(summary)[:columns], style="bold")
    for name, end in (("95 % from", 0), ("95 % to", -1)):
        table.add_row(name, *(interval.split(TO)[end] for interval in intervals(summary)[:columns]), style="dim")
    if doors is not None:
        table.add_row("behind doors", *cells(doors.summary)[:columns], style="bold")
    return table


def unseen_line(evaluation: Evaluation) -> str:
    """Return how many contacts were with what the robot's sensors cannot see, "" for none."""
    unseen, all_of = (
        sum(getattr(row, name) or 0 for row in evaluation.rows) for name in ("unseen_contacts", "contacts")
    )
    return (
        f"{unseen} of {all_of} contacts: with what the sensors cannot see, lower or higher than their scan"
        if unseen
        else ""
    )


def tracked_line(evaluation: Evaluation) -> str:
    """Return how far the tracker was from the true pose in the slots of decisions, "" without a tracker."""
    slots = np.array([slot for row in evaluation.rows for slot in row.tracked or ()])
    if not len(slots):
        return ""
    (median_cm, p99_cm), p99_rad = np.percentile(100.0 * slots[:, 0], [50, 99]), np.percentile(slots[:, 1], 99)
    return (
        f"tracker: position error median {median_cm:.1f} cm, p99 {p99_cm:.1f} cm; heading error p99 "
        f"{math.degrees(p99_rad):.2f} deg; lost in {int(slots[:, 2].sum())} of {len(slots)} slots"
    )


def comparison(title: str, heading: str, done: Mapping[str, Evaluation], narrow: bool = False) -> Table:
    """Return the figures of several evaluations, a row each. heading: heading of the column of names."""
    ends = [(name, endings(one.summary(), ("stop",))) for name, one in done.items()]
    lines = [caption(next(iter(done.values()))), *(f"{name}: {text}" for name, text in ends if text)]
    table = _table(title, "\n".join(lines), heading, narrow)
    columns = len(table.columns) - 1
    for name, one in done.items():
        table.add_row(name, *cells(one.summary())[:columns])
        if (doors := one.doors()) is not None:
            table.add_row(f"- {doors}", *cells(doors.summary)[:columns])
    return table


def _table(title: str, text: str, heading: str, narrow: bool) -> Table:
    """Return an empty table under `HEADINGS`, with a title, a caption, and a column of names."""
    table = Table(title=title, caption=text, box=SIMPLE, pad_edge=False, padding=0 if narrow else (0, 1))
    table.add_column(heading, no_wrap=True, vertical="bottom")
    for column in HEADINGS[:-1] if narrow else HEADINGS:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def caption(evaluation: Evaluation) -> str:
    """Return a sentence about the share of hard episodes."""
    summary = evaluation.summary()
    if not summary.episodes:
        return "nothing driven yet"
    return (
        f"hard: shortest path more than {HARD_DETOUR} times the straight line, "
        f"{percent(summary.hard_share)} % of {summary.episodes} episodes"
    )


def markdown(rows: Sequence[tuple[str, Summary]]) -> str:
    """Return a Markdown table of several policies with intervals, and a sentence about the share of hard episodes."""
    figures = [
        [
            name,
            with_interval(percent(summary.success_rate), between(summary, "success_rate")),
            with_interval(percent(summary.spl), between(summary, "spl")),
            with_interval(percent(summary.sct), between(summary, "sct")),
            with_interval(number(summary.contacts_per_episode), between(summary, "contacts_per_episode", 2, 1.0)),
            number(summary.contacts_per_m, scale=100.0),
            str(summary.time_outs),
            gave_up(summary),
            with_interval(percent(summary.hard_success_rate), between(summary, "hard_success_rate")),
        ]
        for name, summary in rows
    ]
    lines = [markdown_table(COMPARED, figures)]
    for summary in [summary for _, summary in rows][:1]:
        lines += [
            "",
            f"{summary.episodes} episodes; brackets hold 95 % intervals. Hard: the shortest path is more than "
            f"{HARD_DETOUR} times the straight line: {percent(summary.hard_share)} % ({summary.hard_episodes}).",
        ]
    return "\n".join(lines) + "\n"


def with_interval(figure: str, interval: str) -> str:
    """Return a figure, followed by its interval in brackets if there is an interval."""
    return f"{figure} ({interval})" if interval else figure
