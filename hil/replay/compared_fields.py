"""Compared fields of a tick, stage by stage in the order of the runtime. Tolerances: `tolerances.py`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from onboard.recording.state_snapshot import decode, encode
from onboard.state import RobotState, TickRecord
from onboard.values.messages import Scan

MEMORY, KEYFRAME, MATCHING, RANGES = "pilot.memory", "keyframe", "scan_odometry", "ranges_m"
ACTION, OWN, LOGITS = "acted.decision.action", "acted.decision.own", "acted.decision.logits"
OBSERVED = tuple(
    f"sensed.observation.{name}"
    for name in ("goal_xy_m", "previous_action", "odometry", "localization", "localization_age_ns")
)
STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("odometry", ("odometry",)),
    ("localization", ("map_from_odom", "filtered")),
    ("scan", ("scan",)),
    ("limits_scan", ("limits_scan",)),
    ("moved_scan", ("moved_scan",)),
    ("mission", ("state", "episode", "goal_distance_m")),
    ("policy", ("sensed.number", "sensed.memory_reset", *OBSERVED, "acted.number", ACTION, LOGITS, "acted.fault", OWN)),
    ("recovery", ("recovery",)),
    ("limits", ("wanted", "command", "reason")),
    ("events", ("events",)),
)
"""Fields of a tick that the runtime produces, by their path in `TickRecord`. The others are inputs or times."""

Value = float | int | str | bool | None


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs.

    field, place: such as `ranges_m` and `[37]`; place is "" for a single value
    by:           absolute difference of numbers; inf for text and for a value that only one side has
    """

    stage: str
    field: str
    place: str
    recorded: Value
    replayed: Value
    by: float


def differences(recorded: TickRecord, replayed: TickRecord) -> Iterator[Difference]:
    """Yield all differences of a tick in the order of its stages."""
    for stage, paths in STAGES:
        for path in paths:
            before, after = _at(recorded, path), _at(replayed, path)
            if path == "moved_scan" and (before is None or after is None):
                if before is not None:  # earlier versions recorded none
                    yield Difference(stage, path, "", "a scan", None, math.inf)
            elif isinstance(before, Scan):
                if stage != "limits_scan" or before is not recorded.scan:
                    yield from _of_scan(stage, before, after)
            elif before is not after:
                for place, a, b in _unequal("", before, after):
                    yield Difference(stage, path, place, a, b, _difference(a, b))
    if recorded.keyframe and replayed.after is not None and (now := encode(replayed.after)) != recorded.keyframe:
        again = decode(now)
        yield from _of_state(_completed(decode(recorded.keyframe), json.loads(recorded.keyframe), again), again)


def _at(tick: TickRecord, path: str) -> Any:
    """Return the value at a path in a tick, None if a part of the path is absent."""
    value: Any = tick
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


def _completed(recorded: Any, table: Any, again: Any) -> Any:
    """Return a recorded state with the fields of `again` that its release did not have. table: its JSON."""
    if not (is_dataclass(recorded) and type(again) is type(recorded) and isinstance(table, dict)):
        return recorded
    values = {field.name: (getattr(recorded, field.name), getattr(again, field.name)) for field in fields(recorded)}
    known = {name: _completed(a, table[name], b) if name in table else b for name, (a, b) in values.items()}
    try:
        return replace(recorded, **known)  # type: ignore[type-var]
    except ValueError:  # arrays of the two states have different lengths: a difference, reported as one
        return recorded


def _of_scan(stage: str, recorded: Scan, again: Scan) -> Iterator[Difference]:
    for name in ("stamp_ns", "seen", "ranges_m"):
        before, after = getattr(recorded, name), getattr(again, name)
        if not np.array_equal(before, after):
            for place, a, b in _unequal("", before, after):
                yield Difference(stage, name, place, a, b, _difference(a, b))


def _of_state(recorded: RobotState, again: RobotState) -> Iterator[Difference]:
    """Yield the differences of a keyframe."""
    for path, a, b in _unequal("", recorded, again):
        memory = path.startswith(".pilot.memory")
        ranges = RANGES in path  # the scan by which the limits see what moves
        field = MEMORY if memory else MATCHING if path.startswith(f".{MATCHING}") else RANGES if ranges else KEYFRAME
        yield Difference(KEYFRAME, field, path.removeprefix(f".{MEMORY}") if memory else path, a, b, _difference(a, b))


def _unequal(path: str, a: Any, b: Any) -> Iterator[tuple[str, Value, Value]]:
    """Yield place and both values of every differing leaf; NaN equals NaN."""
    if is_dataclass(a) and type(a) is type(b):
        for field in fields(a):
            yield from _unequal(f"{path}.{field.name}", getattr(a, field.name), getattr(b, field.name))
    elif isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.shape == b.shape:
        same = (a == b) | ((a != a) & (b != b))
        for place in zip(*np.nonzero(~same), strict=True):
            at = "".join(f"[{int(one)}]" for one in place)
            yield f"{path}{at}", a[place].item(), b[place].item()
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        for number, (left, right) in enumerate(zip(a, b, strict=True)):
            yield from _unequal(f"{path}[{number}]", left, right)
    elif not _alike(a, b):
        yield path, _leaf(a), _leaf(b)


def _alike(a: Any, b: Any) -> bool:
    """Return whether two leaves are equal. An array here has no counterpart of the same shape."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    return bool(a == b) or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def _leaf(value: Any) -> Value:
    """Return a value for display."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape}"
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _difference(a: Value, b: Value) -> float:
    numbers = all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in (a, b))
    if not numbers or a is None or b is None or not (math.isfinite(a) and math.isfinite(b)):  # type: ignore[arg-type]
        return math.inf
    return float(abs(a - b))  # type: ignore[operator]
