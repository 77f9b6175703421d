"""`--report FILE.md`: an evaluation in Markdown, and a chart of its success rates in FILE.svg next to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hil.drive.conditions import load_conditions
from hil.evaluate.campaign import DriveResult
from hil.evaluate.evaluation import Evaluation
from hil.evaluate.metrics import HARD_DETOUR, NOTE, RESAMPLES, Summary
from hil.evaluate.result import Row
from hil.evaluate.tables import (
    ENDINGS,
    HEADINGS,
    SPLITS,
    between,
    cells,
    intervals,
    number,
    percent,
    tracked_line,
    unseen_line,
    with_interval,
)
from onboard.commands.cli import check_figures, markdown_table, new_figure, svg_text, write_text
from onboard.policy.contract import ACTIONS, ANGULAR_RADPS, LINEAR_MPS
from onboard.values.errors import InputError
from onboard.values.reasons import TABLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIX = ".md"
FAILURES, TOUCHES, SHOWN = 4, 2, 6
"""Largest number of listed failures and of listed arrivals with contacts. Other drives fill the list up to `SHOWN`."""
LOOPS = {
    "fast": "policy and base stepped directly, with the constant delay",
    "runtime": "the whole runtime on the simulated clock, the same direct scan",
    "rendered": "the whole runtime on the simulated clock, rendered cameras",
}
MEASURES = """\
- **SR**: the robot stopped by itself within 0.2 m of the goal, in at most {limit}.
- **SPL**: success times the shortest path, over the longer of the driven path and the shortest path.
- **SCT**: success times the fastest time, over the longer of the time taken and the fastest time. The fastest time is
  that of the shortest path at the base's largest acceleration and speed, without turning.
- **contacts** are those of a drive, then those of 100 m driven. **clearance** is the median of the drives' least
  distance to anything.
- **gave up**: the runtime ended the drive; the reasons are below.
- Brackets hold 95 % intervals. Rates: Wilson's score. Others: a bootstrap over episodes ({resamples} seeded draws).
  No contact at all: the exact bound of a Poisson rate."""


def check_report(file: Path) -> None:
    """Raise OnboardError if the report cannot be drawn, or is no .md file; the chart is the .svg file beside it."""
    if file.suffix != SUFFIX:
        raise InputError(f"--report {file}: must end in {SUFFIX}; the chart is written next to it")
    check_figures()


def write_report(evaluation: Evaluation, file: Path) -> None:
    """Write the report and its chart. Raises OnboardError naming the file."""
    chart = file.with_suffix(".svg")
    splits = [(SPLITS.get(name, name), one) for name, one in evaluation.by("split").items()]
    rates = [*evaluation.by("map").items(), *splits, ("all", evaluation.summary())]
    write_text(chart, svg_text(success_chart(rates)))
    write_text(file, "\n\n".join(sections(evaluation, chart.name)) + "\n")


def sections(evaluation: Evaluation, chart: str) -> Iterator[str]:
    """Yield the report's paragraphs and tables. chart: file name of the chart."""
    summary, plan, doors = evaluation.summary(), evaluation.plan, evaluation.doors()
    yield f"# How {plan.run.policy} drives"
    yield f"{summary.episodes} episodes, {evaluation.began.strftime('%Y-%m-%d %H:%M')} UTC."
    if evaluation.exit_code:
        done = f"interrupted after {summary.episodes} of {plan.drives} drives"
        yield f"**Not complete: {done}.** Run the same command again to continue."
    yield f"![success rates with their 95 % intervals]({chart})"

    yield "## By map"
    yield markdown_table(("", *HEADINGS), _by_map(evaluation))
    limit = " or ".join(f"{one:g} s" for one in sorted({source.limit_s for source in plan.sources}))
    measures = MEASURES.format(limit=limit, resamples=RESAMPLES)
    yield measures if doors is None else f"{measures}\n- **doors**: {doors}. {NOTE}"

    yield "## How hard the set is"
    rate = with_interval(f"{percent(summary.hard_success_rate)} %", between(summary, "hard_success_rate"))
    yield (
        f"{percent(summary.hard_share)} % of the episodes ({summary.hard_episodes}) have a shortest path more than "
        f"{HARD_DETOUR} times as long as the straight line. On those, SR is {rate}."
    )

    yield "## How drives ended"
    ends = [
        (f"`{code}`", ENDINGS.get(code) or (TABLE[code].general if code in TABLE else ""), str(count))
        for code, count in summary.ends.items()
    ]
    yield markdown_table(("code", "reason", "episodes"), ends, 2)
    yield (
        f"A stop by the policy is held until the robot rests. The time limit is {limit}. "
        f"Episodes that succeeded without any contact: {summary.successes_without_contact}; "
        f"with at least one contact: {summary.episodes_with_contact}."
    )
    for line in filter(None, (unseen_line(evaluation), tracked_line(evaluation))):
        yield f"{line}."

    yield "## What it chose [%]"
    yield markdown_table(*actions(summary))

    yield "## Notable drives"
    yield "First drives that did not reach the goal, then successes with contacts, then the longest detours."
    headings = ("map", "how", "episode", "driven m", "shortest m", "s")
    yield markdown_table(headings, [_cells(one.row) for one in choose(evaluation.driven)], words=2)

    yield "## What ran"
    yield markdown_table(("what", ""), _ran(evaluation), words=2)


def _by_map(evaluation: Evaluation) -> Iterator[list[str]]:
    """Yield a row for each map; then rows with intervals for each split, all episodes, and episodes behind doors."""
    doors = evaluation.doors()
    for name, one in evaluation.by("map").items():
        yield [name, *cells(one)]
    splits = [(SPLITS.get(name, name), one) for name, one in evaluation.by("split").items()]
    groups = [*(splits if len(splits) > 1 else ()), ("all", evaluation.summary())]
    for name, one in groups + ([] if doors is None else [("behind doors", doors.summary)]):
        yield [f"**{name}**", *map(with_interval, cells(one), intervals(one))]


def actions(summary: Summary) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of a table: the share of decisions for each action [%]."""
    total = sum(summary.actions)
    parts = [f"{100.0 * count / total:.1f}" if total else percent(None) for count in summary.actions]
    wide = len(ANGULAR_RADPS)
    turns = [f"{action.w_radps:+g} rad/s" if action.w_radps else "0 rad/s" for action in ACTIONS[:wide]]
    rows = [[f"{v_mps:g} m/s", *parts[row * wide : (row + 1) * wide]] for row, v_mps in enumerate(LINEAR_MPS)]
    return ["", *turns], rows


def choose(driven: Sequence[DriveResult]) -> list[DriveResult]:
    """Return drives to inspect: failures, arrivals with contacts, and arrivals without contact after long detours."""
    failures = [one for one in driven if not one.row.success]
    touches = [one for one in driven if one.row.success and one.row.contacts > 0]
    arrivals = [one for one in driven if one.row.success and one.row.contacts == 0]
    telling = [*_varied(failures, FAILURES), *_varied(touches, TOUCHES)]
    return [*telling, *_varied(sorted(arrivals, key=lambda one: -one.row.detour), SHOWN - len(telling))]


def _varied(driven: Sequence[DriveResult], count: int) -> list[DriveResult]:
    """Return at most `count` drives: first a drive from each map, then further drives, both in the given order."""
    first: dict[str, DriveResult] = {}
    for one in driven:
        first.setdefault(one.row.map, one)
    others = [one for one in driven if one not in first.values()]
    return [*first.values(), *others][:count]


def _cells(row: Row) -> list[str]:
    lengths = [number(one, 1) for one in (row.path_m, row.shortest_m, row.time_s)]
    return [row.map, how(row), str(row.index), *lengths]


def how(row: Row) -> str:
    """Return the end of a drive in words."""
    if not row.success:
        return "did not stop in time" if row.ended == "time" else f"ended {row.distance_m:.2f} m away: {row.ended}"
    return f"arrived, {row.contacts} contact{'s' if row.contacts > 1 else ''}" if row.contacts else "arrived"


def _ran(evaluation: Evaluation) -> Iterator[tuple[str, str]]:
    plan, run, configuration = evaluation.plan, evaluation.plan.run, evaluation.plan.configuration()
    condition, summary = load_conditions()[run.condition], evaluation.summary()
    model = configuration["model"]
    yield "policy", f"{run.policy}, model {model}" if model else run.policy
    yield "loop", LOOPS[run.loop]
    yield "scan", run.scan
    if run.known_map:
        yield "known map", run.known_map
    yield "condition", f"{run.condition}: {condition.what}"
    if people := run.pedestrians + condition.pedestrians:
        yield "pedestrians", f"{people} an episode; {summary.bumps} times one walked into the robot (no contact of its)"
    if summary.min_clearance_m:
        least, p5 = number(summary.min_clearance_m["min"]), number(summary.min_clearance_m["p5"])
        yield "least clearance", f"{least} m over all episodes; its 5th percentile {p5} m"
    sources = [
        f"{source.name} {source.count}{'' if source.seed is None else f' (furniture {source.furniture})'}"
        for source in plan.sources
    ]
    yield "episodes", ", ".join(sources)
    yield "seed", str(plan.seed)
    yield "robot", f"{plan.robot.config.robot.name} ({configuration['robot']})"
    yield "version", f"onboard {configuration['version']}, code {configuration['code']}"
    workers = f"on Ray at {plan.ray}" if plan.ray else f"{plan.jobs} process{'es' if plan.jobs > 1 else ''}"
    resumed = f", {evaluation.resumed} episodes from before" if evaluation.resumed else ""
    yield "took", f"{number(evaluation.wall_s, 1)} s, {workers}{resumed}"


# ---- Chart of success rates

WIDTH_PX, ROW_PX, AXIS_PX = 630, 26, 40
BAR, DOT = "#9dbbe6", "#1d5fc4"


def success_chart(rows: Sequence[tuple[str, Summary]]) -> Figure:
    """Return success rates [%] as dots and 95 % intervals as bars. A row without episodes has neither."""
    figure = new_figure(WIDTH_PX, ROW_PX * len(rows) + AXIS_PX)
    axes = figure.add_subplot(xlim=(0, 100), ylim=(len(rows) - 0.5, -0.5), xticks=range(0, 101, 25))
    axes.set_yticks(range(len(rows)), [name for name, _ in rows], parse_math=False)
    axes.xaxis.set_major_formatter("{x:.0f} %")
    axes.grid(axis="x")
    beside = axes.secondary_yaxis("right")
    beside.set_yticks(range(len(rows)), [percent(summary.success_rate) for _, summary in rows])
    for row, (_, summary) in enumerate(rows):
        if summary.success_rate is not None:
            axes.plot([100.0 * end for end in summary.ci95["success_rate"]], [row, row], color=BAR, lw=5)
            axes.plot(100.0 * summary.success_rate, row, "o", color=DOT, clip_on=False)
    return figure
