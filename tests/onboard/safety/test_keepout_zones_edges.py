"""Keep-out and speed zones cell by cell: which cells are the edge, and where the mask ends."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from onboard.safety.keepout_zones import zone_of
from tests.onboard.safety.test_keepout_zones import RADIUS_M, at, loaded, mask


@pytest.mark.parametrize("seed", range(5))
def test_the_edge_is_every_forbidden_cell_beside_which_one_is_not(tmp_path: Path, seed: int) -> None:
    """To all sides, at the mask's own border too: what lies outside of it is free."""
    forbidden = np.random.default_rng(seed).random((12, 15)) < 0.85
    masks = loaded(keep_out=mask(tmp_path, "keep", 100 * forbidden))
    expected = {
        (round(0.05 * column + 0.025, 3), round(0.05 * row + 0.025, 3))
        for row, column in np.argwhere(forbidden)
        if not np.pad(forbidden, 1)[row : row + 3, column : column + 3].all()
    }
    edge_m = zone_of(masks, at(0.3, 0.3)).edge_m + 0.3
    assert {(round(x, 3), round(y, 3)) for x, y in edge_m.tolist()} == expected
    assert len(edge_m) == len(expected)


#   x of the base   held
BORDER = [
    (0.02,   True),
    (0.049,  True),
    (0.051,  False),
    (-0.001, False),
    (-1.0,   False),
    (8.949,  False),
    (8.951,  True),
    (9.001,  False),
]  # fmt: skip


@pytest.mark.parametrize(("x_m", "held"), BORDER)
def test_the_first_and_the_last_column_count_and_nothing_beyond(tmp_path: Path, x_m: float, held: bool) -> None:
    drawn = np.zeros((120, 180))
    drawn[:, [0, -1]] = 100
    assert zone_of(loaded(keep_out=mask(tmp_path, "keep", drawn)), at(x_m)).held == held
    speed = loaded(speed=mask(tmp_path, "speed", 0.3 * drawn))
    near = min(abs(x_m - 0.025), abs(x_m - 8.975)) <= RADIUS_M
    assert zone_of(speed, at(x_m)).limit_mps == pytest.approx(0.3 if near else math.inf)
