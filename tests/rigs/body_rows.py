"""Rows of things that move, by hand."""

from __future__ import annotations

import numpy as np

from hil.physics.contact import Bodies


def body_row(
    xy_map_m: tuple[float, float], radius_m: float, high_m: float, material: int, low_m: float = 0.0
) -> Bodies:
    """Return (6,) one row of `Bodies`."""
    return np.array([xy_map_m[0], xy_map_m[1], radius_m, low_m, high_m, float(material)])
