"""Means and intervals over episodes; SPL and SCT of one episode are in `result.py`.

Paper 1, section 5, defines the metrics. All intervals are 95 % intervals:

- Success rates have Wilson's score interval.
- Other figures have a percentile bootstrap over episodes. A seed fixes its draws.
- Without any contact a bootstrap interval has zero width. The exact bound of a Poisson rate replaces it.
- Without any success SPL and SCT have the interval of the success rate, since they are at most the success rate.

All intervals treat episodes as independent. Episodes in the same building are less independent than that. Several
drives of an episode, with other noise, count as one draw of an episode: the bootstrap draws episodes with all their
drives, and success rates have the interval of `wilson_of_shares`.
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.drive.episodes import DETOUR
from hil.evaluate.result import Door, Row
from hil.scene.doors import Blocking, advance
from onboard.policy.contract import ACTIONS

CONFIDENCE = 0.95
RESAMPLES = 10_000
KEPT = 64
"""Number of cached summaries. Table, JSON and report ask for the same summaries."""
BLOCK = 500
"""Number of resamples drawn at a time. It bounds the memory."""
HARD_DETOUR = DETOUR
"""An episode is hard if its shortest path is more than this many times as long as the straight line."""
DETOURS = (1.0, 1.05, 1.1, HARD_DETOUR, 1.2, 1.3, 1.5, 2.0)
"""Edges of the detour classes; the last class has no upper edge."""
LOW_PERCENT = 5.0

Interval = tuple[float, float]
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of some episodes. Without episodes, rates and means are None, and `ci95` lacks their intervals.

    episodes: number of drives
    min_clearance_m: minimum, 5th percentile and median over episodes with a finite clearance
    ends:    code of the end (`Row.end`) -> number of episodes that ended for it, most frequent first
    actions: (28,) number of decisions for each action
    hard_*:  number, share and success rate of episodes with a detour above `HARD_DETOUR`
    ci95:    name of a figure -> its interval, for figures with an interval
    """

    episodes: int
    success_rate: float | None
    spl: float | None
    sct: float | None
    contacts_per_episode: float | None
    contacts_per_m: float | None
    episodes_with_contact: int
    successes_without_contact: int
    bumps: int
    time_outs: int
    min_clearance_m: dict[str, float] | None
    ends: dict[str, int]
    actions: tuple[int, ...]
    hard_episodes: int
    hard_share: float | None
    hard_success_rate: float | None
    ci95: dict[str, Interval]

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        table = {name: getattr(self, name) for name in self.__slots__}
        table["actions"] = list(self.actions)
        table["ci95"] = {name: list(interval) for name, interval in self.ci95.items()}
        return table


def summarise(rows: Sequence[Row], seed: int = 0) -> Summary:
    """Return the figures of some episodes. `seed` fixes the draws of the bootstrap."""
    return _summarise(tuple(rows), seed)


@functools.lru_cache(maxsize=KEPT)
def _summarise(rows: tuple[Row, ...], seed: int) -> Summary:
    hard = [row for row in rows if row.detour > HARD_DETOUR]
    contacts = np.array([row.contacts for row in rows], float)
    path_m = np.array([row.path_m for row in rows], float)
    spl, sct = (np.array([getattr(row, name) for row in rows], float) for name in ("spl", "sct"))
    touched = sums_by_episode(rows, contacts)
    intervals = {
        "success_rate": _success_interval(rows),
        "spl": _part_interval(means_by_episode(rows, spl), seed),
        "sct": _part_interval(means_by_episode(rows, sct), seed),
        "contacts_per_episode": _rate_interval(touched, sums_by_episode(rows, np.ones(len(rows))), seed),
        "contacts_per_m": _rate_interval(touched, sums_by_episode(rows, path_m), seed),
        "hard_success_rate": _success_interval(hard),
    }
    return Summary(
        episodes=len(rows),
        success_rate=_mean([row.success for row in rows]),
        spl=_mean(spl),
        sct=_mean(sct),
        contacts_per_episode=_mean(contacts),
        contacts_per_m=float(contacts.sum() / path_m.sum()) if path_m.sum() > 0.0 else None,
        episodes_with_contact=sum(row.contacts > 0 for row in rows),
        successes_without_contact=sum(row.success and row.contacts == 0 for row in rows),
        bumps=sum(row.bumps for row in rows),
        time_outs=sum(row.ended == "time" for row in rows),
        min_clearance_m=_clearance(rows),
        ends=dict(Counter(row.end for row in rows).most_common()),
        actions=action_counts(rows),
        hard_episodes=len(hard),
        hard_share=_mean([row.detour > HARD_DETOUR for row in rows]),
        hard_success_rate=_mean([row.success for row in hard]),
        ci95={name: interval for name, interval in intervals.items() if interval is not None},
    )


def summarise_by(name: str, rows: Sequence[Row], seed: int = 0) -> dict[str, Summary]:
    """Return the figures for each value of a row's field ("map", "split", ...), in the order of the rows."""
    values = dict.fromkeys(getattr(row, name) for row in rows)
    return {value: summarise([row for row in rows if getattr(row, name) == value], seed) for value in values}


def wilson(successes: float, n: float) -> Interval | None:
    """Return Wilson's score interval of a proportion; None if n is 0 (Wilson 1927, without continuity correction)."""
    if n == 0:
        return None
    z = _quantile()
    p = successes / n
    scale = 1.0 + z * z / n
    centre = (p + z * z / (2.0 * n)) / scale
    half = z / scale * math.sqrt(p * (1.0 - p) / n + z * z / (4.0 * n * n))
    # Without successes the low end is exactly 0; without failures the high end is exactly 1. No rounding error there.
    low = 0.0 if successes == 0 else centre - half
    return low, 1.0 if successes == n else centre + half


def wilson_of_shares(shares: Array, draws: int) -> Interval | None:
    """Return Wilson's interval of the mean success share over episodes; None without episodes.

    The number of trials is Kish's effective sample size: this number of trials varies as much as the shares vary
    between episodes. It is at least the number of episodes and at most `draws`. If all shares are equal, it is the
    number of episodes, since repeated draws of an episode say less than other episodes.

    shares: (episodes,) success share of each episode
    draws:  number of draws of all episodes together
    """
    n = len(shares)
    if n == 0:
        return None
    mean, spread = float(shares.mean()), float(shares.var(ddof=1)) / n if n > 1 else 0.0
    worth = mean * (1.0 - mean) / spread if spread > 0.0 else 0.0
    trials = min(max(worth, n), draws)
    return wilson(mean * trials, trials)


def sums_by_episode(rows: Sequence[Row], values: Array) -> Array:
    """Return (episodes,) the sum of the values (drives,) over the drives of each episode, in the order of the rows."""
    numbers: dict[tuple[str, int], int] = {}
    places = [numbers.setdefault((row.map, row.index), len(numbers)) for row in rows]
    return np.bincount(np.array(places, int), values, len(numbers)).astype(np.float64)


def means_by_episode(rows: Sequence[Row], values: Array) -> Array:
    """Return (episodes,) the mean of the values (drives,) over the drives of each episode."""
    return sums_by_episode(rows, values) / sums_by_episode(rows, np.ones(len(rows)))


def paired_rates(better: int, worse: int, n: int) -> Interval | None:
    """Return the interval of the difference of two success rates on the same episodes; None if n is 0.

    This is Wald's interval with half an episode added to each of the four cells (Agresti and Min 2005). It has a width
    even if both policies agree in every episode; a bootstrap interval would have zero width.

    better, worse: number of episodes in which only the first, or only the second policy arrived
    """
    if n == 0:
        return None
    more = n + 2.0
    mean = (better - worse) / more
    half = _quantile() * math.sqrt(better + worse + 1.0 - mean * mean * more) / more
    return max(-1.0, mean - half), min(1.0, mean + half)


def bootstrap(
    statistic: Callable[[Sequence[Array]], Array],
    samples: Sequence[Array],
    seed: int,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Return the percentile bootstrap interval of a statistic over paired samples.

    None without samples, or without any finite value of the statistic.

    statistic: takes the resampled arrays, each (resamples, n), and returns (resamples,); only finite values count
    samples:   arrays of shape (n,), resampled together
    """
    n = len(samples[0])
    if n == 0:
        return None
    rng = np.random.default_rng(seed)
    values = []
    for first in range(0, resamples, BLOCK):
        drawn = rng.integers(n, size=(min(BLOCK, resamples - first), n))
        values.append(statistic([sample[drawn] for sample in samples]))
    found = np.concatenate(values)
    found = found[np.isfinite(found)]
    if len(found) == 0:
        return None
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(found, [tail, 100.0 - tail])
    return float(low), float(high)


def action_counts(rows: Sequence[Row]) -> tuple[int, ...]:
    """Return (28,) the number of decisions for each action over all episodes (paper 1, Fig. 8)."""
    return tuple(int(count) for count in np.sum([row.actions for row in rows] or [(0,) * len(ACTIONS)], axis=0))


def _quantile() -> float:
    """Return z, so that `CONFIDENCE` of a normal distribution lies within z standard deviations of its mean."""
    return NormalDist().inv_cdf(0.5 + CONFIDENCE / 2.0)


def _success_interval(rows: Sequence[Row]) -> Interval | None:
    shares = means_by_episode(rows, np.array([row.success for row in rows], float))
    if len(shares) == len(rows):
        return wilson(sum(row.success for row in rows), len(rows))
    return wilson_of_shares(shares, len(rows))


def _part_interval(parts: Array, seed: int) -> Interval | None:
    """Return the interval of the mean of SPL or SCT. Without any success, return the interval of the success rate."""
    return bootstrap(_means, (parts,), seed) if parts.any() else wilson(0, len(parts))


def _rate_interval(events: Array, exposure: Array, seed: int) -> Interval | None:
    """Return the interval of events per episode or metre. Without any event, use the exact bound of a Poisson rate."""
    total = float(exposure.sum())
    if total > 0.0 and not events.any():
        return 0.0, -math.log((1.0 - CONFIDENCE) / 2.0) / total
    return bootstrap(_ratios, (events, exposure), seed)


def _means(samples: Sequence[Array]) -> Array:
    return np.asarray(samples[0].mean(axis=1))


def _ratios(samples: Sequence[Array]) -> Array:
    """Return (resamples,) sums of the first array divided by sums of the second; nan where the second sum is 0."""
    above, below = samples[0].sum(axis=1), samples[1].sum(axis=1)
    return np.asarray(np.divide(above, below, out=np.full(len(below), np.nan), where=below > 0.0))


def _mean(values: Sequence[float] | Array) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _clearance(rows: Sequence[Row]) -> dict[str, float] | None:
    near = [row.min_clearance_m for row in rows if math.isfinite(row.min_clearance_m)]
    if not near:
        return None
    return {
        "min": float(min(near)),
        "p5": float(np.percentile(near, LOW_PERCENT)),
        "median": float(np.median(near)),
    }


# ---- Episodes with a door on the path (`hil/scene/doors.py`)

NOTE = (
    "Behind doors: the figures of those episodes on whose way a shut door leaves no other way, or one that is longer "
    "by 10 m; beside them how many drove near enough that it shut."
)


@dataclass(frozen=True, slots=True)
class DoorFigures:
    """Figures of the episodes with a door.

    driven: number of all driven episodes, with and without a door
    shut:   number of episodes in which the door closed
    """

    driven: int
    shut: int
    summary: Summary

    def __str__(self) -> str:
        return f"{self.summary.episodes} of {self.driven} behind doors, {self.shut} shut"

    def as_json(self) -> dict[str, Any]:
        """Return plain values: number of episodes with a door, number of closed doors, and the figures."""
        return {"episodes": self.summary.episodes, "shut": self.shut, "summary": self.summary.as_json()}


def behind_doors(rows: Sequence[Row], seed: int) -> DoorFigures | None:
    """Return the episodes with a door. None if no row has `door`: condition without a door, or older version."""
    if all(row.door is None for row in rows):
        return None
    behind = [row for row in rows if is_behind(row)]
    return DoorFigures(len(rows), sum(row.door == "shut" for row in behind), summarise(behind, seed))


def is_behind(row: Row) -> bool:
    """Return whether an episode has a door on its path."""
    return row.door in ("open", "shut")


def door_of(door: Blocking | None, way: npt.NDArray[np.float64], radius_m: float) -> Door:
    """Return the state of the door on a driven path: "none", "open" or "shut", see `result.Door`.

    door: the door at the start of the drive, None without a door
    way:  (n, 2) positions of the robot in the map frame, a row per tick [m]
    """
    if door is None:
        return "none"
    return "shut" if any(advance(door, 0.0, (x, y), radius_m).left_s is not None for x, y in way) else "open"
