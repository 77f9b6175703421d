"""Tables of figures for the operator: on a terminal, in Markdown, in a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE
from rich.table import Table

from hil.evaluate.evaluation import Evaluation
from hil.evaluate.metrics import HARD_DETOUR, Summary
from onboard.commands.cli import markdown_table

NOTHING = "-"
TO = " to "
HEADINGS = (
    "episodes",
    "SR %",
    "SPL %",
    "SCT %",
    "contacts",
    "in 100 m",
    "time-outs",
    "gave up",
    "clear m",
    "hard SR %",
)
"""contacts: contacts per episode. in 100 m: contacts per 100 m driven. clear m: median over episodes of the least
clearance. gave up: the runtime ended the drive, for example because the robot was blocked or made no progress.
"""
COMPARED = (
    "policy", "SR %", "SPL %", "SCT %", "contacts / episode", "contacts / 100 m", "time-outs", "gave up",
    "SR % on hard ones",
)  # fmt: skip
ENDS_IN_TIME = ("stop", "time")


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


def rich_table(evaluation: Evaluation) -> Table:
    """Return the figures by map, by split, and of all episodes with their intervals."""
    run = evaluation.plan.run
    title = f"{run.policy}, {run.loop}, scan {run.scan}, condition {run.condition}"
    title += "" if run.color else ", no colour"
    doors = evaluation.doors()
    text = caption(evaluation) + ("" if doors is None else f"; {doors}")
    table = Table(title=title, caption=text, box=SIMPLE, pad_edge=False)
    table.add_column("map", no_wrap=True)
    for heading in HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for groups in (evaluation.by("map"), evaluation.by("split")):
        for name, summary in groups.items():
            table.add_row(name, *cells(summary))
        table.add_section()
    summary = evaluation.summary()
    table.add_row("all", *cells(summary), style="bold")
    for name, end in (("95 % from", 0), ("95 % to", -1)):
        table.add_row(name, *(interval.split(TO)[end] for interval in intervals(summary)), style="dim")
    if doors is not None:
        table.add_row("behind doors", *cells(doors.summary), style="bold")
    return table


def comparison(title: str, heading: str, done: Mapping[str, Evaluation]) -> Table:
    """Return the figures of several evaluations, a row each. heading: heading of the column of names."""
    table = Table(title=title, caption=caption(next(iter(done.values()))), box=SIMPLE, pad_edge=False)
    table.add_column(heading, no_wrap=True)
    for column in HEADINGS:
        table.add_column(column, justify="right", no_wrap=True)
    for name, one in done.items():
        table.add_row(name, *cells(one.summary()))
        if (doors := one.doors()) is not None:
            table.add_row(f"- {doors}", *cells(doors.summary))
    return table


def caption(evaluation: Evaluation) -> str:
    """Return a sentence about the share of hard episodes."""
    summary = evaluation.summary()
    if not summary.episodes:
        return "nothing driven yet"
    return (
        f"hard: shortest way more than {HARD_DETOUR} times the straight line, "
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
            f"{summary.episodes} episodes; in brackets 95 % intervals. Hard are those whose shortest way is more than "
            f"{HARD_DETOUR} times the straight line: {percent(summary.hard_share)} % ({summary.hard_episodes}).",
        ]
    return "\n".join(lines) + "\n"


def with_interval(figure: str, interval: str) -> str:
    """Return a figure, followed by its interval in brackets if there is an interval."""
    return f"{figure} ({interval})" if interval else figure
