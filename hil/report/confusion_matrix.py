"""Which actions another policy would have chosen for which that were done, as a table."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hil.report.session_metrics import plural
from onboard.policy.contract import ACTIONS

SHADES = 4
"""Cells are shaded in so many steps, by their share of what was done."""


class Choice(NamedTuple):
    """An action as two short texts, forward [m/s] and turning speed [rad/s]; "none" and "" of what is none."""

    forward: str
    turning: str


@dataclass(frozen=True, slots=True)
class Cell:
    """How often. shade: 0 (never) to SHADES; same: whether both are one action."""

    count: int
    shade: int
    same: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One action that was done: how often, how often the other would have done it too, and what it would choose."""

    done: Choice
    count: int
    same: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Confusion:
    """Rows are what was done, columns what the other would have done; only actions that occur, slow ones first.

    speeds: forward speed of columns that stand side by side, and how many they are
    """

    speeds: tuple[tuple[str, int], ...]
    columns: tuple[Choice, ...]
    rows: tuple[Row, ...]


Pairs = Mapping[tuple[int, int], int]
"""How often (what was done, what the other would have done), as numbers of actions."""


def confusion_of(pairs: Pairs) -> Confusion | None:
    """Return the table, None of no decision."""
    done = sorted({one for one, _ in pairs})
    other = sorted({one for _, one in pairs})
    if not pairs:
        return None
    columns = tuple(map(choice, other))
    speeds = tuple((speed, len(list(same))) for speed, same in itertools.groupby(one.forward for one in columns))
    return Confusion(speeds, columns, tuple(_row(pairs, one, other) for one in done))


def _row(pairs: Pairs, done: int, others: list[int]) -> Row:
    counts = [pairs.get((done, other), 0) for other in others]
    total = sum(counts)
    cells = tuple(
        Cell(count, -(-SHADES * count // total) if total else 0, other == done)
        for other, count in zip(others, counts, strict=True)
    )
    return Row(choice(done), total, pairs.get((done, done), 0), cells)


def choice(number: int) -> Choice:
    """Return an action by its number as a person reads it."""
    if not 0 <= number < len(ACTIONS):
        return Choice("none", "")
    twist = ACTIONS[number]
    return Choice(f"{twist.v_mps:g}", f"{twist.w_radps:+g}" if twist.w_radps else "0")


def told(number: int) -> str:
    """Return an action by its number in words."""
    forward, turning = choice(number)
    return f"{forward} m/s, {turning} rad/s" if turning else forward


def parted(pairs: Pairs) -> str:
    """Return in words how the decisions differ that do, "" where none does."""
    ways = {"faster": 0, "slower": 0, "as fast but turning otherwise": 0, "with no action in one of the two": 0}
    for way, count in _ways(pairs):
        ways[way] += count
    said = [f"{count:,} {way}" for way, count in ways.items() if count]
    return f"Of the {plural(sum(ways.values()), 'other')}: {', '.join(said)}." if said else ""


def _ways(pairs: Pairs) -> Iterator[tuple[str, int]]:
    for (done, other), count in pairs.items():
        if done == other:
            continue
        if not (0 <= done < len(ACTIONS) and 0 <= other < len(ACTIONS)):
            yield "with no action in one of the two", count
            continue
        more = ACTIONS[other].v_mps - ACTIONS[done].v_mps
        yield "faster" if more > 0 else "slower" if more < 0 else "as fast but turning otherwise", count
