"""The figures of an experiment over several seeds, with their intervals, and what they show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import t

from hil.physics.state_kernels.state_table import Array
from hil.reality_gap.five_runs import RUNS, WAYS, FiveRuns

CONFIDENCE = 0.95
MOST_BY_CHANCE = 0.1
"""Two logs of one simulator may yield at most this share of a real gap's kernels."""


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean over seeds with its 95 % t-interval; the interval is None for one seed."""

    value: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        return f"{self.value:.2f}" + ("" if self.interval is None else " ({:.2f} to {:.2f})".format(*self.interval))


def mean_of(values: Sequence[float] | Array) -> Mean:
    """Return the mean of one value a seed."""
    mean, count = float(np.mean(values)), len(values)
    if count < 2:
        return Mean(mean, None)
    half = float(t.ppf(0.5 + CONFIDENCE / 2.0, count - 1) * np.std(values, ddof=1) / np.sqrt(count))
    return Mean(mean, (mean - half, mean + half))


@dataclass(frozen=True, slots=True)
class GapResult:
    """All seeds of an experiment."""

    experiment: str
    seeds: Sequence[FiveRuns]

    def per_seed(self, run: str) -> Array:
        """Return (seeds,) the average total reward of a run."""
        return np.array([seed.atr[run] for seed in self.seeds])

    @property
    def atr(self) -> dict[str, Mean]:
        """Average total reward of each run."""
        return {run: mean_of(self.per_seed(run)) for run in RUNS}

    def by_way(self, way: str, name: str, key: str) -> Mean:
        """Return a figure of the kernels of a way, over seeds. name: "gap" or "control"; key: field of `Found`"""
        return mean_of([float(getattr(seed.by_way[way][name], key)) for seed in self.seeds])

    def left_by(self, way: str) -> float:
        """Return the share of the gap that is left under a way's kernels."""
        return self._share_left(self.by_way(way, "gap", "atr").value)

    @property
    def left(self) -> float:
        """Share of the gap that is left under kernels: |Kernels - Deploy| / |Design - Deploy|, of the means."""
        return self._share_left(self.atr["kernels"].value)

    def _share_left(self, kernels_atr: float) -> float:
        atr = self.atr
        gap = abs(atr["design"].value - atr["deploy"].value)
        return abs(kernels_atr - atr["deploy"].value) / gap if gap else float("nan")

    @property
    def raised(self) -> dict[str, Mean]:
        """How much the redesign raises the average total reward, seed by seed."""
        per = self.per_seed
        return {
            "under_kernels": mean_of(per("redesign_kernels") - per("kernels")),
            "in_reality": mean_of(per("redeploy") - per("deploy")),
        }

    @property
    def shown(self) -> dict[str, bool]:
        """What the experiment must show, by the means over seeds."""
        atr = {run: mean.value for run, mean in self.atr.items()}
        low, high = sorted((atr["design"], atr["deploy"]))
        return {
            "kernels_between_design_and_deploy": low <= atr["kernels"] <= high,
            "at_most_half_of_the_gap_left": self.left <= 0.5,
            "redesign_raises_under_kernels": self.raised["under_kernels"].value > 0.0,
            "redesign_raises_in_reality": self.raised["in_reality"].value > 0.0,
            "without_a_gap_at_most_a_tenth_of_the_kernels": (
                self.by_way("tested", "control", "kernels").value
                <= MOST_BY_CHANCE * self.by_way("tested", "gap", "kernels").value
            ),
        }

    @property
    def curves(self) -> dict[str, Array]:
        """Curves of each run, and of learning if there is any: the mean over seeds."""
        return {name: np.mean([seed.curves[name] for seed in self.seeds], axis=0) for name in self.seeds[0].curves}

    def count(self, name: str) -> float:
        """Return the mean of a count over seeds.

        name: "states", "common", "divergences", "kernels", "effects"; "simulated" or "real" counts transitions
        """
        if name in ("simulated", "real"):
            return float(np.mean([seed.transitions[name == "real"] for seed in self.seeds]))
        return float(np.mean([getattr(seed, name) for seed in self.seeds]))

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        left = self.left
        return {
            "experiment": self.experiment,
            "atr": {run: mean.value for run, mean in self.atr.items()},
            "atr_interval95": {run: mean.interval for run, mean in self.atr.items()},
            "gap_left": None if np.isnan(left) else left,
            "raised": {name: {"mean": one.value, "interval95": one.interval} for name, one in self.raised.items()},
            "shown": self.shown,
            "transitions": {"simulated": self.count("simulated"), "real": self.count("real")},
            "states": self.count("states"),
            "common_states": self.count("common"),
            "divergences": self.count("divergences"),
            "kernels": self.count("kernels"),
            "effects": self.count("effects"),
            "by_way": {
                way: {
                    "gap_left": self.left_by(way),
                    **{
                        name: {key: self.by_way(way, name, key).value for key in ("atr", "divergences", "kernels")}
                        for name in ("gap", "control")
                    },
                }
                for way in WAYS
            },
            "per_seed": [
                {
                    "seed": seed.seed,
                    "atr": seed.atr,
                    "transitions": {"simulated": seed.transitions[0], "real": seed.transitions[1]},
                    "states": seed.states,
                    "common_states": seed.common,
                    "divergences": seed.divergences,
                    "kernels": seed.kernels,
                    "effects": seed.effects,
                }
                for seed in self.seeds
            ],
            "curves": {name: curve.tolist() for name, curve in self.curves.items()},
        }
