"""Charts of a report as plain numbers; the template draws them. All lengths are units of the drawing, y downwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hil.evaluate.metrics import HARD_DETOUR, Summary
from hil.evaluate.result import Row
from onboard.contract import ACTIONS, ANGULAR_RADPS, LINEAR_MPS

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
