"""Round trips as figures and as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hil.live.target.figures import PAPER, figures, table
from hil.live.target.round_trips import Trip


def trips(*totals_ms: float) -> list[Trip]:
    return [Trip(total, total / 4) for total in totals_ms]


def test_of_a_thousand_and_one() -> None:
    found = figures(trips(*np.arange(1001.0)))
    assert found is not None
    assert {key: found[f"{key}_ms"] for key in ("mean", "p50", "p99", "p99_9", "min", "max")} == {
        "mean": 500.0,
        "p50": 500.0,
        "p99": 990.0,
        "p99_9": 999.0,
        "min": 0.0,
        "max": 1000.0,
    }
    assert found["sd_ms"] == pytest.approx(1001 / np.sqrt(12), rel=1e-3)
    assert found["share_below_100_ms"] == round(100 / 1001, 5)  # 100 itself is not below
    assert (found["target_mean_ms"], found["wire"]["mean_ms"]) == (125.0, 375.0)
    assert "fixed_delay_ms" not in found


def test_what_never_came_counts_in_the_shares() -> None:
    found = figures(trips(10.0, 20.0, 150.0), unanswered=1, fixed_ms=100.0)
    assert found is not None
    assert (found["count"], found["unanswered"]) == (3, 1)
    assert (found["share_below_100_ms"], found["share_below_100_ms_beside_fixed"]) == (0.5, 0.75)
    assert found["fixed_share_of_mean"] == round(100 / 60, 3)


def result(**changes: Any) -> dict[str, Any]:
    whole = {
        "ended": "complete",
        "depth_to_command": figures(trips(20.0, 30.0)),
        "depth_to_decision": figures(trips(150.0), fixed_ms=100.0),
        "color_to_decision": None,
        "pose_to_sensors": figures(trips(25.0)),
        "images": {"sets": 5, "superseded": 1, "unanswered": 2},
        "commands": {"received": 9, "lost": 3, "longest_silence_ms": 44.0, "by_reason": {"none": 8, "stale_scan": 1}},
        "load": {"ticks_here": 30, "missed_here": 4, "ticks_target": 28, "missed_target": 6, "load_average": 1.5}
        | {"cores": 2},
        "base": {"at_rest": True, "contacts": 0, "bumps": 0, "path_m": 3.21, "goals": 2, "reached": 1},
        "paper_4": PAPER,
    }
    return whole | changes


def test_the_table_is_whole_and_leaves_out_what_was_not_measured() -> None:
    text = table(result())
    assert "colour -> decision  " not in text
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 120
