"""Drives of a base whose wheels are not as it believes, with what a reference would tell of them."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calib.wheels.runs import Fixes, Floats, Run

HZ = 30
FIX_SD = (0.03, 0.03, 0.05)
TRACK_M = 0.5


def factors_of(radius: float, radii: float, track: float) -> Floats:
    """Return speed, turning and turn_per_m of wheels: mean radius, right over left radius, track, each over nominal."""
    apart = 2.0 * radius * (radii - 1.0) / (radii + 1.0)
    return np.array([radius, radius / track, apart / (TRACK_M * track)])


def square(side_m: float, *, left: bool, laps: int = 1, v_mps: float = 0.4, w_radps: float = 0.8) -> Floats:
    """Return (n, 2) the v, w that a base reports while it drives squares."""
    corner = round(np.pi / 2 / w_radps * HZ)
    ahead = round(side_m / v_mps * HZ)
    turn = (1 if left else -1) * np.pi / 2 * HZ / corner
    one = [(side_m * HZ / ahead, 0.0)] * ahead + [(0.0, turn)] * corner
    return np.array(one * 4 * laps)


def driven(
    reported: Floats, factors: Floats, rng: np.random.Generator, fix_s: float | None = None, noise: float = 1.0
) -> tuple[Run, Floats]:
    """Return a drive and its true poses, (n + 1, 3) from the start. noise: factor on usual random errors."""
    way, turn = reported.T / HZ
    spread = rng.standard_normal((2, len(way))) * noise
    moved = factors[0] * way + 0.004 * np.sqrt(np.abs(way)) * spread[0]
    turned = factors[1] * turn + factors[2] * way
    turned += (0.003 * np.sqrt(np.abs(way)) + 0.006 * np.sqrt(np.abs(turn))) * spread[1]
    yaw = np.cumsum(turned)
    x, y = (np.cumsum(moved * part(yaw - turned / 2)) for part in (np.cos, np.sin))
    poses = np.vstack([np.zeros(3), np.column_stack([x, y, yaw])])
    t_s = np.arange(len(way) + 1) / HZ
    fixes = _fixes(t_s, poses, rng, fix_s) if fix_s else Run.__dataclass_fields__["fixes"].default
    return Run("simulated", t_s, np.append(0.0, way), np.append(0.0, turn), fixes), poses


def _fixes(t_s: Floats, poses: Floats, rng: np.random.Generator, fix_s: float) -> Fixes:
    at = np.arange(0, len(t_s), round(fix_s * HZ))
    return Fixes(t_s[at], poses[at] + rng.normal(0.0, FIX_SD, (len(at), 3)), np.tile(FIX_SD, (len(at), 1)))


def write_csv(path: Path, rows: Sequence[dict[str, object]]) -> Path:
    with path.open("w", newline="") as stream:
        table = csv.DictWriter(stream, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path
