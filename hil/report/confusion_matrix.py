"""Confusion matrix: actions of the recorded drive against actions of another policy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from hil.report.session_metrics import plural
from onboard.policy.contract import ACTIONS

SHADES = 4
"""Number of shades; a shade is the share of a cell in its row."""


class Choice(NamedTuple):
    """An action as two texts: forward [m/s] and turning speed [rad/s]; ("none", "") without an action."""

    forward: str
    turning: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Count of a pair of actions. shade: 0 (never) to SHADES; same: both actions are equal."""

    count: int
    shade: int
    same: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded action: its count, how often the other policy agrees, and the other policy's choices."""

    done: Choice
    count: int
    same: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Confusion:
    """Rows: recorded actions; columns: the other policy's actions. Only actions that occur, slow ones first.

    speeds: forward speed of neighbouring columns, and the number of these columns
    """

    speeds: tuple[tuple[str, int], ...]
    columns: tuple[Choice, ...]
    rows: tuple[Row, ...]


Pairs = Mapping[tuple[int, int], int]
"""Count of each (recorded action, action of the other policy)."""


def confusion_of(pairs: Pairs) -> Confusion | None:
    """Return the table, or None without a decision."""
    done = sorted({one for one, _ in pairs})
    other = sorted({one for _, one in pairs})
    if not pairs:
        return None
    columns = tuple(map(choice, other))
    speeds = tuple((speed, len(list(same))) for speed, same in itertools.groupby(column.forward for column in columns))
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
    """Return the speeds of an action as text."""
    if not 0 <= number < len(ACTIONS):
        return Choice("none", "")
    twist = ACTIONS[number]
    return Choice(f"{twist.v_mps:g}", f"{twist.w_radps:+g}" if twist.w_radps else "0")


def action_text(number: int) -> str:
    """Return an action in words."""
    forward, turning = choice(number)
    return f"{forward} m/s, {turning} rad/s" if turning else forward


def parted(pairs: Pairs) -> str:
    """Return in words how the differing decisions differ, or ""."""
    ways = {"faster": 0, "slower": 0, "as fast but turning otherwise": 0, "with no action in one of the two": 0}
    for way, count in _ways(pairs):
        ways[way] += count
    parts = [f"{count:,} {way}" for way, count in ways.items() if count]
    return f"Of the {plural(sum(ways.values()), 'other')}: {', '.join(parts)}." if parts else ""


def _ways(pairs: Pairs) -> Iterator[tuple[str, int]]:
    for (done, other), count in pairs.items():
        if done == other:
            continue
        if not (0 <= done < len(ACTIONS) and 0 <= other < len(ACTIONS)):
            yield "with no action in one of the two", count
            continue
        more = ACTIONS[other].v_mps - ACTIONS[done].v_mps
        yield "faster" if more > 0 else "slower" if more < 0 else "as fast but turning otherwise", count
