"""Numbers for the page: thinned where there are more than it can show, and packed as compressed little-endian bytes."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.report.story import Ranges, Story

TICKS_AT_MOST = 36_000
"""Twenty minutes at 30 Hz are drawn tick by tick."""
SCANS_AT_MOST = 6_000
MM_PER_M = 1000.0
NOTHING_SEEN, BLIND = 65535, 65534
"""Ranges stand as millimetres in 16 bits; these two stand for no number."""
FARTHEST_MM = 65533

Rows = npt.NDArray[np.int64]
KINDS = {"float32": "f4", "uint8": "u1", "uint16": "u2", "uint32": "u4", "int32": "i4"}


def packed(values: npt.NDArray[Any]) -> dict[str, str]:
    """Return an array for the page: kind of number, and base64 of zlib of its bytes, all first ones, all second ones...

    Sorted by their place in the number, bytes of slowly changing numbers compress to about half.
    """
    plain = np.ascontiguousarray(values.ravel()).astype(values.dtype.newbyteorder("<"), copy=False)
    sorted_bytes = plain.view(np.uint8).reshape(-1, values.dtype.itemsize).T.tobytes()
    return {
        "kind": KINDS[values.dtype.name],
        "data": base64.b64encode(zlib.compress(sorted_bytes)).decode("ascii"),
    }


def kept_ticks(story: Story, telling: Iterable[int], at_most: int = TICKS_AT_MOST) -> Rows:
    """Return the rows of the ticks that are drawn: all, or every so many and all that tell something.

    telling: rows that are kept whatever happens, besides decisions, changes of reason and state and the slowest of
             each group
    """
    step = -(-story.ticks // at_most)
    if step <= 1:
        return np.arange(story.ticks)
    changes = [
        row for row in range(1, story.ticks)
        if story.reason[row] != story.reason[row - 1] or story.state[row] != story.state[row - 1]
    ]  # fmt: skip
    groups = np.pad(story.took_ms, (0, -story.ticks % step), constant_values=-1.0).reshape(-1, step)
    slowest = np.arange(len(groups)) * step + groups.argmax(axis=1)
    decided = np.flatnonzero(np.isfinite(story.decision_ms))
    wanted = [np.arange(0, story.ticks, step), slowest, decided, changes, list(telling), [story.ticks - 1]]
    return np.unique(np.concatenate([np.asarray(one, np.int64) for one in wanted]))


def kept_scans(ticks: Rows, telling: Iterable[int], at_most: int = SCANS_AT_MOST) -> Rows:
    """Return places in `ticks` of those whose scan is shown. telling: rows of the session, kept whatever happens."""
    step = -(-len(ticks) // at_most)
    if step <= 1:
        return np.arange(len(ticks))
    places = np.flatnonzero(np.isin(ticks, np.fromiter(telling, np.int64)))
    return np.unique(np.concatenate([np.arange(0, len(ticks), step), places]))


def millimetres(ranges_m: Ranges) -> npt.NDArray[np.uint16]:
    """Return ranges as the page has them."""
    rounded = np.rint(np.clip(np.nan_to_num(ranges_m, nan=0.0, posinf=0.0), 0.0, FARTHEST_MM / MM_PER_M) * MM_PER_M)
    found: npt.NDArray[np.uint16] = rounded.astype(np.uint16)
    found[np.isposinf(ranges_m)] = NOTHING_SEEN
    found[np.isnan(ranges_m)] = BLIND
    return found
