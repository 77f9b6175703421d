"""`--report page.html`: one evaluation as a page for a person, with nothing outside it."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jinja2
import numpy as np
import numpy.typing as npt

from hil.drive.conditions import load_conditions
from hil.drive.picture import Drawing, save_picture
from hil.evaluate.campaign import Driven
from hil.evaluate.episode_selection import load_set
from hil.evaluate.evaluation import Evaluation
from hil.evaluate.metrics import HARD_DETOUR, NOTE, RESAMPLES, Summary
from hil.evaluate.result import Row
from hil.evaluate.tables import HEADINGS, between, cells, intervals, number, percent
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode, free_space, shortest_path
from onboard.policy.contract import ACTIONS, ANGULAR_RADPS, LINEAR_MPS
from onboard.values.errors import InputError, OnboardError
from onboard.values.messages import Pose

# ---- Charts of a report as plain numbers; the template draws them. All lengths are units of the drawing, y

BAR, GROUP_GAP, HEIGHT = 22.0, 26.0, 150.0
WIDE = 3.9
"""Bars of detours are this much wider, so that both charts are of one width."""
DETOURS = (1.0, 1.05, 1.1, HARD_DETOUR, 1.2, 1.3, 1.5, 2.0)
"""Edges of the classes of detours; the last is open."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: where it stands, how high, what it is called, and what it says when pointed at."""

    x: float
    width: float
    height: float
    label: str
    hint: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """Bars under one heading, which is centred at x."""

    x: float
    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """Groups of bars on one line; `top` is what the full height stands for."""

    width: float
    height: float
    top: str
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Whisker:
    """A rate with its interval, all in per cent; None of no episode."""

    low: float
    value: float
    high: float


def action_chart(summary: Summary) -> Chart:
    """Return the histogram of actions, a group a linear speed (the paper's Fig. 8)."""
    total = sum(summary.actions)
    parts = [count / total if total else 0.0 for count in summary.actions]
    groups = []
    for row, v_mps in enumerate(LINEAR_MPS):
        first = row * len(ANGULAR_RADPS)
        rows = [
            (f"{ACTIONS[index].w_radps:+.0f}" if ACTIONS[index].w_radps else "0", parts[index], summary.actions[index])
            for index in range(first, first + len(ANGULAR_RADPS))
        ]
        groups.append((f"{v_mps:g} m/s", rows))
    return _chart(groups, max(parts))


def detour_chart(rows: Sequence[Row]) -> Chart:
    """Return how many episodes have which detour; those that count as hard are strong."""
    edges = np.array(DETOURS)
    places = np.searchsorted(edges, [row.detour for row in rows], side="left") - 1
    counts = np.bincount(np.clip(places, 0, len(edges) - 1), minlength=len(edges))
    labels = [f"to {edge:g}" for edge in DETOURS[1:]] + [f"over {DETOURS[-1]:g}"]
    most = max(int(counts.max()), 1)
    chart = _chart([("shortest way / straight line", list(zip(labels, counts / most, counts, strict=True)))], 1.0, WIDE)
    (group,) = chart.groups
    bars = tuple(
        Bar(bar.x, bar.width, bar.height, bar.label, f"{count} episodes", low >= HARD_DETOUR)
        for bar, count, low in zip(group.bars, counts, DETOURS, strict=True)
    )
    return Chart(chart.width, chart.height, str(most), (Group(group.x, group.label, bars),))


def whisker(summary: Summary) -> Whisker | None:
    """Return the success rate with its interval."""
    if summary.success_rate is None:
        return None
    low, high = summary.ci95["success_rate"]
    return Whisker(100.0 * low, 100.0 * summary.success_rate, 100.0 * high)


def _chart(groups: Sequence[tuple[str, Sequence[tuple[str, float, int]]]], most: float, wide: float = 1.0) -> Chart:
    """Return groups of (label, part, count) side by side; a part of `most` has the full height."""
    made, x, width = [], 0.0, BAR * wide
    for label, rows in groups:
        bars = []
        for name, part, count in rows:
            height = HEIGHT * part / most if most > 0.0 else 0.0
            bars.append(Bar(x, width - 4.0, height, name, f"{label}, {name}: {count} ({100.0 * part:.1f} %)"))
            x += width
        made.append(Group(x - width * len(rows) / 2.0, label, tuple(bars)))
        x += GROUP_GAP
    return Chart(x - GROUP_GAP, HEIGHT, f"{100.0 * most:.0f} %", tuple(made))


TEMPLATE = "report.html.j2"
FAILURES, TOUCHES, SHOWN = 4, 2, 6
"""Drives shown: not arrived, arrived with a contact, at most; and others, so that there are so many."""
LOOPS = {
    "fast": "policy and base stepped directly, with the constant delay",
    "runtime": "the whole runtime on the simulated clock, the same direct scan",
    "rendered": "the whole runtime on the simulated clock, rendered cameras",
}


@dataclass(frozen=True, slots=True)
class Shown:
    """One drive of the gallery: `data` is its picture as a data URL."""

    row: Row
    title: str
    data: str


def write_report(evaluation: Evaluation, file: Path) -> None:
    """Write the page. Raises OnboardError naming the file."""
    page = render(evaluation, [_shown(evaluation, driven) for driven in choose(evaluation.driven)])
    try:
        file.write_text(page, encoding="utf-8")
    except OSError as error:
        raise OnboardError(f"{file}: cannot be written: {error.strerror}") from error


def render(evaluation: Evaluation, gallery: Sequence[Shown]) -> str:
    """Return the page."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    summary = evaluation.summary()
    tiles = [
        ("success rate (SR)", f"{percent(summary.success_rate)} %", between(summary, "success_rate")),
        ("weighted by path length (SPL)", f"{percent(summary.spl)} %", between(summary, "spl")),
        ("weighted by time (SCT)", f"{percent(summary.sct)} %", between(summary, "sct")),
        (
            "contacts an episode",
            number(summary.contacts_per_episode),
            between(summary, "contacts_per_episode", 2, 1.0),
        ),
    ]
    groups = [("map", evaluation.by("map")), ("split", evaluation.by("split")), ("all", {"all": summary})]
    doors = evaluation.doors()
    groups += [] if doors is None else [("all", {"behind doors": doors.summary})]
    tables = [
        (kind, [(name, cells(one), intervals(one), whisker(one)) for name, one in group.items()])
        for kind, group in groups
    ]
    return environment.get_template(TEMPLATE).render(
        evaluation=evaluation,
        plan=evaluation.plan,
        configuration=evaluation.plan.configuration(),
        condition=load_conditions()[evaluation.plan.run.condition],
        loop=LOOPS[evaluation.plan.run.loop],
        summary=summary,
        tiles=tiles,
        tables=tables,
        doors=doors,
        doors_are=NOTE,
        headings=HEADINGS,
        percent=percent,
        number=number,
        between=between,
        actions=action_chart(summary),
        detours=detour_chart(evaluation.rows) if evaluation.rows else None,
        hard_detour=HARD_DETOUR,
        resamples=RESAMPLES,
        gallery=gallery,
    )


def choose(driven: Sequence[Driven]) -> list[Driven]:
    """Return drives worth a look: not arrived, arrived with contacts, and the longest detours that arrived well."""
    shown = [one for one in driven if one.path]
    failures = [one for one in shown if not one.row.success]
    touches = [one for one in shown if one.row.success and one.row.contacts > 0]
    arrivals = sorted(
        (one for one in shown if one.row.success and one.row.contacts == 0), key=lambda one: -one.row.detour
    )
    telling = [*_varied(failures, FAILURES), *_varied(touches, TOUCHES)]
    return [*telling, *_varied(arrivals, SHOWN - len(telling))]


def _varied(driven: Sequence[Driven], count: int) -> list[Driven]:
    """Return the first ones, of different maps as long as there are some."""
    first: dict[str, Driven] = {}
    for one in driven:
        first.setdefault(one.row.map, one)
    others = [one for one in driven if one not in first.values()]
    return [*first.values(), *others][:count]


def _shown(evaluation: Evaluation, driven: Driven) -> Shown:
    row = driven.row
    source = next(source for source in evaluation.plan.sources if source.name == row.map)
    known, body = load_set(source), evaluation.plan.robot.body
    episode = known.episodes[row.index]
    shortest = _shortest(known.world, episode, body)
    drawing = Drawing(episode, np.array(driven.path), Pose(*driven.path[-1]), shortest, body=body)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "drive.png"
        save_picture(known.world, drawing, file)
        data = base64.b64encode(file.read_bytes()).decode()
    return Shown(row, _title(row), f"data:image/png;base64,{data}")


def _shortest(world: World, episode: Episode, body: Body) -> npt.NDArray[np.float64] | None:
    """Return the shortest way to draw, None for a body too wide for any."""
    try:
        return shortest_path(free_space(world, body), (episode.start.x_m, episode.start.y_m), episode.goal_xy_m)
    except InputError:
        return None


def _title(row: Row) -> str:
    if not row.success:
        how = "did not stop in time" if row.ended == "time" else f"ended {row.distance_m:.2f} m away: {row.ended}"
        return f"{row.map} {row.index}: {how}"
    touched = f", {row.contacts} contact{'s' if row.contacts > 1 else ''}" if row.contacts else ""
    return f"{row.map} {row.index}: arrived{touched}"
