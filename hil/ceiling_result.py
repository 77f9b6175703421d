"""What the drives of a ceiling come to, and how they ended one by one, as plain values and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.ceiling import EndErrors
from hil.evaluate.metrics import Interval, wilson_of_shares
from hil.evaluate.sets import Source
from onboard.errors import InputError

DIGITS = 6
"""Errors are told to 1 um."""

Array = npt.NDArray[np.float64]
Ends = Mapping[tuple[str, int], Sequence[EndErrors]]
"""By set and number of the episode, how its drives ended, one for each draw of the noise."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What the two estimators come to under one condition, over all episodes and draws of the noise.

    ideal, own:          share of drives at whose end the estimate is within 0.2 m: the ideal one, the runtime's filter
    waited:              the same of the ideal one at the next fix, turning on the spot until then
    *_ci95:              their intervals, see `hil.evaluate.metrics.wilson_of_shares`
    *_median_m:          median of their errors at the end [m]
    """

    ideal: float
    ideal_ci95: Interval | None
    ideal_median_m: float
    own: float
    own_ci95: Interval | None
    own_median_m: float
    waited: float
    waited_ci95: Interval | None


def ceiling_of(rows: Sequence[Sequence[EndErrors]]) -> Ceiling:
    """Return the figures of one condition; `rows` are the episodes, at least one."""
    ideal, own, waited = (_shares(rows, name) for name in ("ideal", "own", "waited"))
    draws = sum(len(row) for row in rows)
    return Ceiling(
        ideal=float(ideal.mean()),
        ideal_ci95=wilson_of_shares(ideal, draws),
        ideal_median_m=float(np.median([one.ideal_m for row in rows for one in row])),
        own=float(own.mean()),
        own_ci95=wilson_of_shares(own, draws),
        own_median_m=float(np.median([one.own_m for row in rows for one in row])),
        waited=float(waited.mean()),
        waited_ci95=wilson_of_shares(waited, draws),
    )


def ends_as_json(ends: Ends, sources: Sequence[Source]) -> dict[str, Any]:
    """Return for each set, in the order of its episodes, the three errors of every draw [m]."""
    return {
        source.name: [
            [[round(error, DIGITS) for error in astuple(one)] for one in ends[source.name, index]]
            for index in source.indices
        ]
        for source in sources
    }


def ends_of_json(table: Mapping[str, Any], condition: str, file: Path) -> dict[tuple[str, int], list[EndErrors]]:
    """Return how the drives of one condition ended, of what the command wrote; nothing where an older one wrote none.

    Raises InputError, naming the file that the table is from.
    """
    if "ends" not in table:
        return {}
    try:
        return {
            (name, int(index)): [
                EndErrors(float(ideal_m), float(own_m), float(waited_m)) for ideal_m, own_m, waited_m in draws
            ]
            for name, rows in table["ends"][condition].items()
            for index, draws in zip(table["episodes"][name], rows, strict=True)
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: ends of {condition}: not what onboard-hil ceiling writes: {error!r}") from error


def _shares(rows: Sequence[Sequence[EndErrors]], name: str) -> Array:
    """Return (episodes,) share of each episode's draws that are within the limit."""
    return np.array([np.mean([getattr(one, name) for one in row]) for row in rows])
