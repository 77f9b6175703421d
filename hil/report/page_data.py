"""All that the page's script draws, as plain values."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.report.events import PLAIN, Lane, Moment, row_of
from hil.report.map_view import AZIMUTHS_RAD, Surroundings
from hil.report.timeline import Floats, Ranges, Story

# ---- Numbers for the page: thinned where there are more than it can show, and packed as compressed

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


TICKS_OF_A_SECOND = 1e4
MOST_NAMES = 255
TELLING_AT_MOST = 5_000
"""Moments whose ticks are drawn whatever happens; of more, the first ones."""


def contents_of(
    story: Story, around: Surroundings, lanes: Sequence[Lane], moments: Sequence[Moment], first: int | None
) -> tuple[dict[str, Any], list[str]]:
    """Return the values, and sentences on what was thinned. first: row of a replay's first difference."""
    telling = sorted({one.row for one in moments if one.weight != PLAIN})[:TELLING_AT_MOST]
    telling += [] if first is None else [first]
    ticks = kept_ticks(story, telling)
    scans = kept_scans(ticks, telling)
    return {
        "ticks": len(ticks),
        "period_s": story.period_s,
        "end_s": story.end_s(story.ticks - 1),
        "first": None if first is None else float(story.t_s[first]),
        "series": _series(story, around, ticks),
        "reasons": _coded(story.reason, ticks, lambda reason: list(row_of(reason))),
        "states": _coded(story.state, ticks, str),
        "stages": {"names": story.stages, "ms": packed(_float32(story.stage_ms[ticks].T))},
        "scans": {
            "rows": packed(scans.astype(np.uint32)),
            "mm": packed(millimetres(story.scans[ticks[scans]])),
            "limits_mm": None if story.limits_scans is None else packed(millimetres(story.limits_scans[ticks[scans]])),
            "azimuths": AZIMUTHS_RAD.tolist(),
        },
        "lanes": [
            {
                "name": lane.name,
                "spans": [
                    [round(float(story.t_s[one.first]), 4), round(story.end_s(one.last), 4), one.label, one.kind]
                    for one in lane.spans
                ],
            }
            for lane in lanes
        ],
        "gaps": [[float(story.t_s[row - 1]), float(story.t_s[row])] for row in np.flatnonzero(story.gap)],
        "moments": [[round(float(story.t_s[one.row]), 4), one.kind, one.weight, one.text] for one in moments],
        "map": _map(story, around),
        "robot": _robot(story),
    }, thinned(story, ticks, scans)


def thinned(story: Story, ticks: Rows, scans: Rows) -> list[str]:
    """Return what is not drawn."""
    found = []
    if len(ticks) < story.ticks:
        found.append(
            f"{len(ticks):,} of {story.ticks:,} ticks are drawn: at least one in {-(-story.ticks // TICKS_AT_MOST)}, "
            "all with a decision, a change of state or reason or a warning, and the slowest of each group. Every "
            "figure, histogram and count is of all ticks."
        )
    if len(scans) < len(ticks):
        found.append(
            f"{len(scans):,} of {story.ticks:,} scans are in this page, {story.ticks / len(scans):.1f} ticks apart on "
            "average; the scan view says whose it shows."
        )
    return found


def _series(story: Story, around: Surroundings, ticks: Rows) -> dict[str, Any]:
    nearest = np.where(np.isfinite(story.scans), story.scans, np.inf).min(axis=1)
    columns = {
        "x": around.poses[:, 0],
        "y": around.poses[:, 1],
        "yaw": around.poses[:, 2],
        "v_wanted": story.wanted[:, 0],
        "v_sent": story.command[:, 0],
        "v_measured": story.odometry[:, 3],
        "w_wanted": story.wanted[:, 1],
        "w_sent": story.command[:, 1],
        "w_measured": story.odometry[:, 4],
        "goal_m": story.goal_m,
        "nearest_m": np.where(np.isfinite(nearest), nearest, np.nan),
        "late_ms": story.late_ms,
        "decision_ms": story.decision_ms,
        "delay_ms": story.delay_ms,
    }
    found = {name: packed(_float32(values[ticks])) for name, values in columns.items()}
    times = np.rint(story.t_s[ticks] * TICKS_OF_A_SECOND)
    return found | {"t": packed(times.astype(np.uint32)), "slot": packed(story.slot[ticks].astype(np.uint32))}


def _float32(values: Floats) -> Any:
    limit = float(np.finfo(np.float32).max)
    return np.clip(values, -limit, limit).astype(np.float32)


def _coded(values: Sequence[str], ticks: Rows, shown: Any) -> dict[str, Any]:
    """Return names and the number of each tick's; of very many different ones the last stands for the rest."""
    names = list(dict.fromkeys(values))
    number = {name: min(place, MOST_NAMES) for place, name in enumerate(names)}
    codes = np.array([number[values[row]] for row in ticks.tolist()], np.uint8)
    return {"names": [shown(name) for name in names[: MOST_NAMES + 1]], "codes": packed(codes)}


def _map(story: Story, around: Surroundings) -> dict[str, Any]:
    building = around.building
    low = around.seen.min(axis=0) if len(around.seen) else np.zeros(2, np.int32)
    return {
        "frame": around.frame,
        "goals": [[float(story.t_s[one.row]), one.x_m, one.y_m, one.accepted] for one in around.goals],
        "tolerance_m": story.config.goal.tolerance_m,
        "seen": {
            "cell_m": around.seen_cell_m,
            "corner": [float(one) * around.seen_cell_m for one in low],
            "cells": packed((around.seen - low).astype(np.int32)),
            "often": packed(around.often.astype(np.uint8)),
        },
        "building": None
        if building is None
        else {
            "name": building.name,
            "cell_m": building.cell_m,
            "corner": [building.corner.x_m, building.corner.y_m, building.corner.yaw_rad],
            "rows": building.walls.shape[0],
            "columns": building.walls.shape[1],
            "walls": packed(np.packbits(building.walls.ravel())),
        },
    }


def _robot(story: Story) -> dict[str, Any]:
    config = story.config
    return {
        "radius_m": config.robot.footprint_radius_m,
        "far_m": config.scan.far_m,
        "budget_ms": config.rates.budget_ms,
        "period_ms": 1e3 * story.period_s,
        "delay_ms": 1e3 * config.rates.delay_ticks * story.period_s,
    }
