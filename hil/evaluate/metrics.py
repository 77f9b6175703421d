"""What many episodes come to: rates, means and their 95 % intervals (paper 1, section 1.9). Pure functions.

Success rates carry Wilson's score interval, all else a percentile bootstrap over episodes, whose draws are fixed by a
seed. Where there was no contact at all, a bootstrap would be sure that there never is one; the exact bound of a Poisson
rate stands there instead. Likewise where nobody arrived: SPL and SCT, which are no larger than the success rate, then
end where its interval ends. All take episodes as independent; those of one building are less so than that.
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
"""Figures kept, since table, JSON and report ask for the same ones."""
BLOCK = 500
"""Resamples drawn at a time, which bounds memory."""
HARD_DETOUR = DETOUR
"""An episode is hard when its shortest way is this much longer than the straight line."""
DETOURS = (1.0, 1.05, 1.1, HARD_DETOUR, 1.2, 1.3, 1.5, 2.0)
"""Edges of the classes of detours; the last is open."""
LOW_PERCENT = 5.0

Interval = tuple[float, float]
Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of some episodes. Of no episode at all they are None, and so are their intervals.

    ci95:         name of a figure -> its interval, for those that have one
    min_clearance_m: least, 5th percentile and median over episodes that came near anything
    ends:         reason -> episodes that ended by it, most frequent first
    actions:      (28,) how often each action was chosen
    hard:         episodes whose detour is above `HARD_DETOUR`, and the success rate on those
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
    """Return the figures of some episodes; `seed` fixes the bootstrap's draws."""
    return _summarise(tuple(rows), seed)


@functools.lru_cache(maxsize=KEPT)
def _summarise(rows: tuple[Row, ...], seed: int) -> Summary:
    hard = [row for row in rows if row.detour > HARD_DETOUR]
    contacts = np.array([row.contacts for row in rows], float)
    path_m = np.array([row.path_m for row in rows], float)
    spl, sct = (np.array([getattr(row, name) for row in rows], float) for name in ("spl", "sct"))
    intervals = {
        "success_rate": wilson(sum(row.success for row in rows), len(rows)),
        "spl": _part_interval(spl, seed),
        "sct": _part_interval(sct, seed),
        "contacts_per_episode": _rate_interval(contacts, np.ones(len(rows)), seed),
        "contacts_per_m": _rate_interval(contacts, path_m, seed),
        "hard_success_rate": wilson(sum(row.success for row in hard), len(hard)),
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
        ends=dict(Counter(row.ended for row in rows).most_common()),
        actions=action_counts(rows),
        hard_episodes=len(hard),
        hard_share=_mean([row.detour > HARD_DETOUR for row in rows]),
        hard_success_rate=_mean([row.success for row in hard]),
        ci95={name: interval for name, interval in intervals.items() if interval is not None},
    )


def summarise_by(name: str, rows: Sequence[Row], seed: int = 0) -> dict[str, Summary]:
    """Return the figures of each value of a row's field ("map", "split", ...), in the order in which they come."""
    values = dict.fromkeys(getattr(row, name) for row in rows)
    return {value: summarise([row for row in rows if getattr(row, name) == value], seed) for value in values}


def wilson(successes: float, n: float, confidence: float = CONFIDENCE) -> Interval | None:
    """Return Wilson's score interval of a proportion, None of nothing (Wilson 1927, without continuity correction)."""
    if n == 0:
        return None
    z = _quantile(confidence)
    p = successes / n
    scale = 1.0 + z * z / n
    centre = (p + z * z / (2.0 * n)) / scale
    half = z / scale * math.sqrt(p * (1.0 - p) / n + z * z / (4.0 * n * n))
    # At none and at all, one end is exactly that, but for rounding.
    low = 0.0 if successes == 0 else centre - half
    return low, 1.0 if successes == n else centre + half


def wilson_of_shares(shares: Array, draws: int, confidence: float = CONFIDENCE) -> Interval | None:
    """Return the interval of the mean of episodes' shares of successes, None of nothing.

    Wilson's, with as many trials as would vary as much as the shares do between episodes (Kish's effective sample
    size): not fewer than there are episodes, nor more than draws. Where nothing varies that is the episodes: draws of
    one episode are not as good as other episodes.

    draws: of all episodes together
    """
    n = len(shares)
    if n == 0:
        return None
    mean, spread = float(shares.mean()), float(shares.var(ddof=1)) / n if n > 1 else 0.0
    worth = mean * (1.0 - mean) / spread if spread > 0.0 else 0.0
    trials = min(max(worth, n), draws)
    return wilson(mean * trials, trials, confidence)


def paired_rates(better: int, worse: int, n: int, confidence: float = CONFIDENCE) -> Interval | None:
    """Return the interval of the difference of two success rates on the same episodes, None of nothing.

    Wald's with half an episode more in each of the four cells (Agresti and Min 2005), so that it has a width where the
    two agree in every episode, of which a bootstrap would be sure.

    better, worse: episodes in which only the first, or only the second arrived
    """
    if n == 0:
        return None
    more = n + 2.0
    mean = (better - worse) / more
    half = _quantile(confidence) * math.sqrt(better + worse + 1.0 - mean * mean * more) / more
    return max(-1.0, mean - half), min(1.0, mean + half)


def bootstrap(
    statistic: Callable[[Sequence[Array]], Array],
    samples: Sequence[Array],
    seed: int,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Return the percentile bootstrap interval of a statistic over paired samples, None of nothing.

    samples: arrays of (n,), resampled together
    statistic: takes them resampled, each (resamples, n), and returns (resamples,); what is not finite is left out
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
    tail = 50.0 * (1.0 - confidence)
    low, high = np.percentile(found, [tail, 100.0 - tail])
    return float(low), float(high)


def action_counts(rows: Sequence[Row]) -> tuple[int, ...]:
    """Return (28,) how often each action was chosen over all episodes (the paper's Fig. 8)."""
    return tuple(int(count) for count in np.sum([row.actions for row in rows] or [(0,) * len(ACTIONS)], axis=0))


def _quantile(confidence: float) -> float:
    """Return how many standard deviations to either side hold this share of a normal distribution."""
    return NormalDist().inv_cdf(0.5 + confidence / 2.0)


def _part_interval(parts: Array, seed: int) -> Interval | None:
    """Return the interval of the mean of SPL or SCT; of nothing but failures, that of the success rate bounds it."""
    return bootstrap(_means, (parts,), seed) if parts.any() else wilson(0, len(parts))


def _rate_interval(events: Array, exposure: Array, seed: int) -> Interval | None:
    """Return the interval of events to episodes or metres; the exact bound of a Poisson rate where there was none."""
    total = float(exposure.sum())
    if total > 0.0 and not events.any():
        return 0.0, -math.log((1.0 - CONFIDENCE) / 2.0) / total
    return bootstrap(_ratios, (events, exposure), seed)


def _means(samples: Sequence[Array]) -> Array:
    return np.asarray(samples[0].mean(axis=1))


def _ratios(samples: Sequence[Array]) -> Array:
    """Return sums of the first over sums of the second; nan where nothing was driven."""
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


# ---- Of drives in a condition with a door: on whose way one stands, and before whom it shut (`hil/scene/doors.py`)

NOTE = (
    "Behind doors: the figures of those episodes on whose way a shut door leaves no other way, or one that is longer "
    "by 10 m; beside them how many drove near enough that it shut."
)


@dataclass(frozen=True, slots=True)
class BehindDoors:
    """The episodes that have a door. driven: how many there are with and without; shut: before how many it shut."""

    driven: int
    shut: int
    summary: Summary

    def __str__(self) -> str:
        return f"{self.summary.episodes} of {self.driven} behind doors, {self.shut} shut"

    def as_json(self) -> dict[str, Any]:
        """Return plain values: how many have a door, before how many it shut, and their figures."""
        return {"episodes": self.summary.episodes, "shut": self.shut, "summary": self.summary.as_json()}


def behind_doors(rows: Sequence[Row], seed: int) -> BehindDoors | None:
    """Return the episodes with a door; None where no row tells: in a condition without, or of an older version."""
    if all(row.door is None for row in rows):
        return None
    behind = [row for row in rows if is_behind(row)]
    return BehindDoors(len(rows), sum(row.door == "shut" for row in behind), summarise(behind, seed))


def is_behind(row: Row) -> bool:
    """Return whether an episode has a door on its way."""
    return row.door in ("open", "shut")


def door_of(door: Blocking | None, way: npt.NDArray[np.float64], radius_m: float) -> Door:
    """Return what a robot that drove a way met. way: (n, 2) in the map frame [m], a row a tick; door: at its start."""
    if door is None:
        return "none"
    return "shut" if any(advance(door, 0.0, (x, y), radius_m).left_s is not None for x, y in way) else "open"
