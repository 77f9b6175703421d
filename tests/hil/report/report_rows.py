"""Synthetic sessions for tests of the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hil.report.timeline import Timeline
from onboard.config.config import Config
from onboard.values.messages import BINS
from tests.rigs.runtime_bench import MOUNTS

PERIOD_S = 1.0 / 30.0


def timeline(ticks: int = 30, **changes: Any) -> Timeline:
    """Return a robot that stands idle in the odom frame, with walls 2 m around it, but for what is changed."""
    none: dict[int, Any] = {}
    rows: dict[str, Any] = {
        "files": (Path("drive.mcap"),),
        "session": {"robot": "robot", "format": "3", "file_number": "0"},
        "config": Config(),
        "mounts": MOUNTS,
        "sessions": ("drive",),
        "began_ns": 0,
        "t_s": np.arange(ticks) * PERIOD_S,
        "late_ms": np.zeros(ticks),
        "slot": np.arange(ticks),
        "missed": np.zeros(ticks, np.int64),
        "odometry": np.zeros((ticks, 5)),
        "map_from_odom": np.full((ticks, 3), np.nan),
        "wanted": np.zeros((ticks, 2)),
        "command": np.zeros((ticks, 2)),
        "reason": ["idle"] * ticks,
        "state": ["idle"] * ticks,
        "recovery": [""] * ticks,
        "e_stop": np.zeros(ticks, np.int64),
        "obstacle": np.zeros(ticks, np.int64),
        "episode": np.zeros(ticks, np.int64),
        "goal_distance_m": np.full(ticks, np.nan),
        "sensed": np.zeros(ticks, np.int64),
        "acted": np.zeros(ticks, np.int64),
        "action": np.full(ticks, -1),
        "decision_ms": np.full(ticks, np.nan),
        "delay_ms": np.full(ticks, np.nan),
        "stages": ("inbox", "send"),
        "stage_ms": np.full((ticks, 2), 1.0),
        "cameras": {name: np.ones(ticks, bool) for name in MOUNTS.depth},
        "scans": np.full((ticks, BINS), 2.0, np.float32),
        "resets": none,
        "faults": none,
        "events": none,
        "goals": none,
    }
    return Timeline(**(rows | changes))


def spread(ticks: int, default: Any, **stretches: tuple[int, int]) -> list[Any]:
    """Return a value for each tick: a name in the rows of its stretch (first, last + 1), else the default."""
    values = [default] * ticks
    for name, (first, end) in stretches.items():
        values[first:end] = [name] * (end - first)
    return values
