"""Keys of former versions that are constants now. A file that states one loads, with a line for each.

The digest of a robot (`hil/evaluate/evaluation.py`) still names them, so that it is the same as in former results.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

FIXED: Mapping[str, Mapping[str, Any]] = {
    "rates": {"lead_ms": 8.0, "fifo_priority": 0, "budget_ms": 70.0, "deadline_misses_to_stop": 3},
    "cameras": {
        "stall_restart_s": 2.0, "restart_backoff_s": [0.5, 10.0], "min_valid_fraction": 0.05,
        "loop_recordings": False,
    },
    "odometry": {
        "max_gap_ms": 500.0, "max_speed_mps": 3.0, "max_yaw_rate_radps": 10.0, "localization_max_age_s": 8.0,
    },
    "policy": {"threads": 1, "memory_reset_s": 10.0, "engine_cache": str(Path.home() / ".cache/onboard/engines")},
    "recovery": {
        "window_s": 60.0, "cool_down_s": 2.0, "moving_mps": 0.02, "moving_radps": 0.05, "commanded_mps": 0.05,
        "commanded_radps": 0.1,
    },
    "scan": {"near_m": 0.1},
    "limits": {"slow_fraction": 0.3},
    "goal": {"rest_mps": 0.02, "rest_radps": 0.05, "rest_decisions": 2, "stop_short_s": 5.0, "lost_input_s": 5.0},
    "dds": {"publish_used": False},
    "record": {"max_files": 20, "min_free_mb": 500.0, "queue_messages": 2000, "queue_mb": 256.0, "flush_s": 1.0},
}  # fmt: skip
"""Table -> key -> the value that holds for every robot."""
INSTEAD = {
    "record.max_files": "no limit",
    "dds.publish_used": "automatic",
    "cameras.loop_recordings": "always on",
    "rates.fifo_priority": "set by the service, or by `chrt -f 40`,",
}
"""What such a line says instead of "fixed at VALUE"."""
AS_IN_SCAN = ("z_min_m", "z_max_m", "drop_m", "near_m", "far_m", "history", "body_boxes_m")
"""Former keys of `limits_scan`, which has these values of `scan` now."""


def without_fixed(table: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a configuration's table without the former keys, and a line for each that it stated."""
    rest, lines = dict(table), []
    scan = table.get("scan")
    fixed = {**FIXED, "limits_scan": {key: scan.get(key) if isinstance(scan, dict) else None for key in AS_IN_SCAN}}
    for name, values in fixed.items():
        if not isinstance(stated := table.get(name), dict):
            continue
        rest[name] = {key: value for key, value in stated.items() if key not in values}
        for key in (key for key in stated if key in values):
            usual = f"that of scan.{key}" if name == "limits_scan" else f"fixed at {values[key]}"
            unused = "" if stated[key] == values[key] else f", and {stated[key]} has no effect"
            lines.append(f"{name}.{key} is {INSTEAD.get(f'{name}.{key}', usual)} now{unused}: remove the key")
    return rest, lines


def with_fixed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration's plain values with the keys of former versions."""
    return {
        name: {**table, **FIXED.get(name, {})} if isinstance(table, dict) else table for name, table in values.items()
    }
