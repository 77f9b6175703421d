"""Statistics of round-trip latencies, as JSON values and as a table, with the values of paper 4 for comparison."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from hil.live.target.round_trips import Trip

LATE_MS = 100.0
PAPER = {"mean_ms": 71.75, "sd_ms": 6.72, "share_below_100_ms": 0.9982, "above_200_ms": 15, "count": 10000}
"""Paper 4: latency from a published pose to the last received sensor message, RGB 640x480 and a 3-D lidar."""
WIDTH = 118

#   key                 name, meaning
ROWS = {
    "depth_to_command": ("depth -> command", "a set of depth images sent -> first command that knew it, or newer ones"),
    "depth_to_decision": ("depth -> decision", "the same -> first command of the decision that began with it"),
    "color_to_decision": (
        "colour -> decision",
        "a colour image sent -> first command of the decision that began with it",
    ),
    "pose_to_sensors": (
        "pose -> sensors",
        "odometry sent -> the target has all images of that pose; paper 4's measure",
    ),
}
COLUMNS = ("n", "mean", "sd", "p50", "p99", "p99.9", "max", "< 100 ms", "target", "wire")


def figures(trips: Sequence[Trip], unanswered: int = 0, fixed_ms: float = 0.0) -> dict[str, Any] | None:
    """Return the statistics of the round trips [ms], or None without trips.

    unanswered: number of trips that never ended; only the shares include them
    fixed_ms:   constant latency of the robot from sensing to acting, a part of every trip [ms]; 0 adds no values for it
    """
    if not trips:
        return None
    total = np.array([trip.total_ms for trip in trips])
    found = {
        "count": len(total),
        "unanswered": unanswered,
        **_spread(total),
        "share_below_100_ms": _share(total, unanswered),
        "target_mean_ms": round(float(np.mean([trip.target_ms for trip in trips])), 3),
        "wire": _spread(np.array([trip.wire_ms for trip in trips])),
    }
    if fixed_ms:
        found["fixed_delay_ms"] = round(fixed_ms, 3)
        found["fixed_share_of_mean"] = round(fixed_ms / float(total.mean()), 3)
        found["share_below_100_ms_beside_fixed"] = _share(total - fixed_ms, unanswered)
    return found


def _spread(values: npt.NDArray[np.float64]) -> dict[str, float]:
    quantiles = {name: np.quantile(values, q) for name, q in (("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999))}
    spread = {"mean": values.mean(), "sd": values.std(), "min": values.min(), **quantiles, "max": values.max()}
    return {f"{name}_ms": round(float(value), 3) for name, value in spread.items()}


def _share(values: npt.NDArray[np.float64], unanswered: int) -> float:
    return round(float((values < LATE_MS).sum()) / (len(values) + unanswered), 5)


def table(result: Mapping[str, Any]) -> str:
    """Return the result as text for the operator: a table and notes below it."""
    shown = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    shown.add_column("round trip [ms]", no_wrap=True)
    for name in COLUMNS:
        shown.add_column(name, justify="right", no_wrap=True)
    for key, (name, _) in ROWS.items():
        if result[key] is not None:
            shown.add_row(name, *_cells(result[key]))
    paper = [f"{PAPER['mean_ms']}", f"{PAPER['sd_ms']}", *4 * "-", _percent(PAPER["share_below_100_ms"])]
    shown.add_row("paper 4", str(PAPER["count"]), *paper, "-", "-")
    out = io.StringIO()
    Console(file=out, width=WIDTH, highlight=False).print(shown)
    return "".join(f"{line.rstrip()}\n" for line in [*out.getvalue().splitlines(), *_words(result)])


def _cells(found: Mapping[str, Any]) -> list[str]:
    times = [f"{found[f'{name}_ms']:.1f}" for name in ("mean", "sd", "p50", "p99", "p99_9", "max")]
    parts = [f"{part:.1f}" for part in (found["target_mean_ms"], found["wire"]["mean_ms"])]
    return [str(found["count"]), *times, _percent(found["share_below_100_ms"]), *parts]


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _words(result: Mapping[str, Any]) -> list[str]:
    """Return the lines below the table: meaning of the rows, losses, and load of the machines."""
    images, commands, load, base = result["images"], result["commands"], result["load"], result["base"]
    reasons = ", ".join(f"{count} {reason}" for reason, count in commands["by_reason"].items())
    return [
        "" if result["ended"] == "complete" else f"NOT COMPLETE: {result['ended']}",
        *(f"{name}: {meaning}" for name, meaning in ROWS.values()),
        "target: mean time that the target had the images; wire: the rest, both directions and the wait for its next "
        "tick",
        *_decided(result["depth_to_decision"]),
        f"images: {images['sets']} sets sent, {images['superseded']} superseded before all were received, "
        f"{images['unanswered']} unanswered",
        f"commands: {commands['received']} received, {commands['lost']} lost, longest silence "
        f"{commands['longest_silence_ms']:.0f} ms; by reason: {reasons}",
        f"base: {'at rest' if base['at_rest'] else 'NOT AT REST'}, {base['contacts']} contacts, "
        f"{base['path_m']:.1f} m, {base['goals']} goals sent, {base['reached']} reached",
        f"load: ticks missed here {load['missed_here']} of {load['ticks_here']}, on the target {load['missed_target']} "
        f"and {load['ticks_target']} ticks; load average here {load['load_average']:.1f} on {load['cores']} cores",
    ]


def _decided(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return []
    return [
        f"of a decision's mean, {found['fixed_delay_ms']:.0f} ms ({100 * found['fixed_share_of_mean']:.0f} %) are the "
        "robot's constant delay from sensing to acting;",
        f"without that delay {_percent(found['share_below_100_ms_beside_fixed'])} of decisions are below 100 ms",
    ]
