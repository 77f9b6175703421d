"""Charts over time as plain numbers: lanes, lines, stages, decisions. The template draws them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hil.report.charts import nice
from hil.report.events import BAD, FREE, MISS, PLAIN, RESET, WARNING, Lane, TickEvent
from hil.report.timeline import Flags, Floats, Ints, Timeline
from onboard.counters import BUDGET_MS

WIDTH = 1000.0
"""Width of every chart, and height of one lane [px]."""
HEIGHT, TIMES_HEIGHT = 90.0, 105.0
APART_PX = 2.0
"""Least distance between signs of one kind."""
DOT_PX = 2.0
"""Dots are thinned to this grid."""
CHARACTER_PX, LEAST_CHARACTERS, MOST_NAME = 6.0, 3, 13
TIME_MARKS, VALUE_MARKS = 10, 5
LARGEST = 1e9
"""Larger values are drawn at this value."""
STAGE_COLOURS = 7
OWN_LANES = {RESET: "memory", MISS: "deadlines"}
"""Frequent kinds of moments have their own lane."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line as an SVG path. kind: "line", "dashed", "area" or "dots"."""

    name: str
    colour: str
    kind: str
    path: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines in one chart. marks: (y [px], text); limit_y: a dashed level or None."""

    title: str
    height: float
    lines: tuple[Line, ...]
    marks: tuple[tuple[float, str], ...]
    limit_y: float | None = None


@dataclass(frozen=True, slots=True)
class Block:
    """A state from x on, `width` wide [px]; the label is cut to fit."""

    x: float
    width: float
    label: str
    kind: str
    hint: str


@dataclass(frozen=True, slots=True)
class Sign:
    """A moment at x [px]."""

    x: float
    kind: str
    weight: str
    hint: str


@dataclass(frozen=True, slots=True)
class DrawnLane:
    """One row of the first chart."""

    name: str
    blocks: tuple[Block, ...] = ()
    signs: tuple[Sign, ...] = ()


@dataclass(frozen=True, slots=True)
class ChartSet:
    """All charts of a session, on one time axis.

    marks: (x [px], text) of the time axis
    gaps:  (x, width) [px] where ticks are missing in the recording
    first: x of a replay's first difference [px] or None
    """

    lanes: tuple[DrawnLane, ...]
    charts: tuple[Chart, ...]
    marks: tuple[tuple[float, str], ...]
    gaps: tuple[tuple[float, float], ...]
    first: float | None


def over_time(timeline: Timeline, lanes: Sequence[Lane], moments: Sequence[TickEvent], first: int | None) -> ChartSet:
    """Return the charts. first: row of a replay's first difference.

    Each pixel of a line spans its smallest to its largest value, so a peak of one tick stays visible.
    """
    end_s = timeline.end_s(timeline.ticks - 1)
    per_s = WIDTH / end_s
    apart_s = nice(end_s / TIME_MARKS)
    gaps = [(float(timeline.t_s[row - 1]), float(timeline.t_s[row])) for row in np.flatnonzero(timeline.gap)]
    return ChartSet(
        tuple(_lanes(timeline, lanes, moments, per_s)),
        tuple(_charts(timeline, timeline.t_s * per_s)),
        tuple((one * apart_s * per_s, f"{one * apart_s:g} s") for one in range(int(end_s / apart_s * 1.0001) + 1)),
        tuple((begin * per_s, max((end - begin) * per_s, APART_PX)) for begin, end in gaps),
        None if first is None else float(timeline.t_s[first]) * per_s,
    )


def _lanes(timeline: Timeline, lanes: Sequence[Lane], moments: Sequence[TickEvent], per_s: float) -> list[DrawnLane]:
    """Return the lane of events, a lane for each frequent kind, and the lanes of states."""
    own = {name: [moment for moment in moments if moment.kind == kind] for kind, name in OWN_LANES.items()}
    others = [moment for moment in moments if moment.kind not in OWN_LANES]
    signs = [DrawnLane("events", signs=_signs(timeline, others, per_s))]
    signs += [DrawnLane(name, signs=_signs(timeline, found, per_s)) for name, found in own.items() if found]
    return signs + [DrawnLane(_cut(lane.name, MOST_NAME), _blocks(timeline, lane, per_s)) for lane in lanes]


def _signs(timeline: Timeline, moments: Sequence[TickEvent], per_s: float) -> tuple[Sign, ...]:
    """Return the signs, bad ones last and so on top; signs of one kind are at least APART_PX apart."""
    found: list[Sign] = []
    last: dict[tuple[str, str], float] = {}
    for moment in moments:
        x = float(timeline.t_s[moment.row]) * per_s
        if x - last.get((moment.kind, moment.weight), -np.inf) >= APART_PX:
            last[moment.kind, moment.weight] = x
            found.append(Sign(x, moment.kind, moment.weight, f"{timeline.t_s[moment.row]:.2f} s: {moment.text}"))
    return tuple(sorted(found, key=lambda one: (PLAIN, WARNING, BAD).index(one.weight)))


def _blocks(timeline: Timeline, lane: Lane, per_s: float) -> tuple[Block, ...]:
    """Return the blocks of a lane. Several in one pixel become one of each kind; free ones only if alone."""
    found, taken, drawn_to = [], set[tuple[str, int]](), -1.0
    for span in lane.spans:
        begin_s, end_s = float(timeline.t_s[span.first]), timeline.end_s(span.last)
        x, end = begin_s * per_s, end_s * per_s
        place = span.kind, int(x)
        if end < drawn_to + 1.0 and (span.kind == FREE or place in taken):
            continue
        taken.add(place)
        drawn_to = end
        hint = f"{lane.name}: {span.label}, {begin_s:.2f} to {end_s:.2f} s"
        found.append(
            Block(x, max(end - x, 1.0), _cut(span.label, int((end - x - 8.0) / CHARACTER_PX)), span.kind, hint)
        )
    return tuple(found)


def _cut(text: str, characters: int) -> str:
    """Return a text cut to a number of characters; "" if that number is too small to be useful."""
    if len(text) <= characters:
        return text
    return f"{text[: characters - 1]}…" if characters > LEAST_CHARACTERS else ""


def _charts(timeline: Timeline, x: Floats) -> list[Chart]:
    nearest = np.where(np.isfinite(timeline.scans), timeline.scans, np.inf).min(axis=1)
    nearest_m = np.where(np.isfinite(nearest), nearest, np.nan).astype(np.float64)
    found = [
        _commands(timeline, x, "forward speed [m/s]", 0),
        _commands(timeline, x, "turning speed, + is left [rad/s]", 1),
    ]
    distances = [
        ("to the goal", "goal", "line", timeline.goal_distance_m),
        ("to the nearest thing seen", "nearest", "line", nearest_m),
    ]
    found.append(_chart(timeline, x, "distances [m]", distances))
    if timeline.took_ms.any():
        found.append(_stages(timeline, x))
    if np.isfinite(timeline.delay_ms).any():
        times = [("from sensing to acting", "stage-4", "dots", timeline.delay_ms),
                 ("policy took", "stage-3", "dots", timeline.decision_ms)]  # fmt: skip
        title = "decisions; dashed is the policy's budget [ms]"
        found.append(_chart(timeline, x, title, times, BUDGET_MS))
    return found


def _commands(timeline: Timeline, x: Floats, title: str, axis: int) -> Chart:
    measured, wanted, sent = timeline.odometry[:, 3 + axis], timeline.wanted[:, axis], timeline.command[:, axis]
    rows = [("measured", "line", measured), ("wanted", "dashed", wanted), ("sent", "line", sent)]
    return _chart(timeline, x, title, [(name, name, kind, values) for name, kind, values in rows])


def _chart(
    timeline: Timeline, x: Floats, title: str, rows: Sequence[tuple[str, str, str, Floats]], limit: float | None = None
) -> Chart:
    """Return a chart of (name, colour, kind, values). With a limit, the axis spans 0 to beyond the limit."""
    height = HEIGHT if limit is None else TIMES_HEIGHT
    values = [np.clip(row[3], -LARGEST, LARGEST) for row in rows]
    low, high = _range(np.concatenate(values)) if limit is None else _up_to(np.concatenate(values), limit)
    lines = []
    for (name, colour, kind, _), value in zip(rows, values, strict=True):
        y = (high - value) / (high - low) * height
        path = dots_path(x, y) if kind == "dots" else line_path(x, y, timeline.gap)
        lines.append(Line(name, colour, kind, path))
    limit_y = None if limit is None else (high - limit) / (high - low) * height
    return Chart(title, height, tuple(lines), _marks(low, high, height), limit_y)


def _stages(timeline: Timeline, x: Floats) -> Chart:
    """Return the stacked stages of the slowest tick of each pixel, the last stage first."""
    took, period_ms = timeline.took_ms, 1e3 * timeline.period_s
    picked = np.array([b + int(took[b:e].argmax()) for b, e in _groups(np.floor(x))])
    sums = np.cumsum(np.clip(np.nan_to_num(timeline.stage_ms[picked]), -LARGEST, LARGEST), axis=1)
    low, high = _up_to(sums[:, -1], period_ms)
    at = np.r_[x[picked], WIDTH]
    lines = []
    for stage, name in reversed(list(enumerate(timeline.stages))):
        y = (high - sums[:, stage]) / (high - low) * TIMES_HEIGHT
        steps = " ".join(f"V{_px(one)}H{_px(end)}" for one, end in zip(y, at[1:], strict=True))
        path = f"M{_px(at[0])} {_px(TIMES_HEIGHT)}{steps}V{_px(TIMES_HEIGHT)}Z"
        lines.append(Line(name, f"stage-{stage % STAGE_COLOURS}", "area", path))
    marks, limit_y = _marks(low, high, TIMES_HEIGHT), (high - period_ms) / (high - low) * TIMES_HEIGHT
    return Chart("a tick's stages; dashed is the period [ms]", TIMES_HEIGHT, tuple(lines), marks, limit_y)


def line_path(x: Floats, y: Floats, gap: Flags) -> str:
    """Return a line as an SVG path, broken at NaN and before each row of `gap`.

    Of each pixel's rows, the first, smallest, largest and last are drawn.
    """
    rows = np.flatnonzero(np.isfinite(y))
    piece = np.cumsum(np.r_[False, np.diff(rows) > 1]) + np.cumsum(gap)[rows] if len(rows) else rows
    parts = []
    for begin, end in _groups(np.floor(x[rows]), piece):
        part = y[rows[begin:end]]
        starts = begin == 0 or piece[begin] != piece[begin - 1]
        kept = sorted({0, int(part.argmin()), int(part.argmax()), len(part) - 1})
        points = [f"{_px(x[rows[begin + one]])} {_px(part[one])}" for one in kept]
        parts.append(f"M{points[0]}h0L{' '.join(points)}" if starts else f" {' '.join(points)}")
    return "".join(parts)


def dots_path(x: Floats, y: Floats) -> str:
    """Return values as dots: path pieces of length zero, visible through round line caps."""
    at = np.column_stack([x, y])[np.isfinite(y)]
    return "".join(f"M{_px(one)} {_px(other)}h0" for one, other in np.unique(np.rint(at / DOT_PX) * DOT_PX, axis=0))


def _groups(*keys: Ints | Floats) -> list[tuple[int, int]]:
    """Return begin and end of each stretch of rows with constant keys."""
    count = len(keys[0])
    if not count:
        return []
    changes = np.any([np.diff(key) != 0 for key in keys], axis=0)
    begins = [0, *(np.flatnonzero(changes) + 1).tolist()]
    return list(zip(begins, [*begins[1:], count], strict=True))


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _range(values: Floats) -> tuple[float, float]:
    """Return the range of an axis: all values with a margin, from about 0 if the values begin near 0."""
    finite = values[np.isfinite(values)]
    if not len(finite):
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    room = max(0.06 * (high - low), 0.05)
    return (-room / 3.0 if 0.0 <= low <= 0.5 * (high - low) else low - room), high + room


def _up_to(values: Floats, limit: float) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    return 0.0, max(1.08 * float(finite.max(initial=0.0)), 1.2 * limit)


def _marks(low: float, high: float, height: float) -> tuple[tuple[float, str], ...]:
    step = nice((high - low) / VALUE_MARKS)
    numbers = range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)
    return tuple(((high - number * step) / (high - low) * height, f"{number * step:g}") for number in numbers)
