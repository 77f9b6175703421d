"""The limits of a session's verdict, at their edges."""

from __future__ import annotations

import pytest

from onboard.health.verdict import LIMITS, OK, RECALIBRATE, WATCH, Check

#   quantity     watch above  recalibrate above
EDGES = [
    ("tilt_deg",       1.0,   2.0),
    ("height_m",       0.02,  0.05),
    ("overlap_m",      0.08,  0.15),
    ("speed",          0.01,  0.02),
    ("turning",        0.02,  0.04),
    ("turn_per_m",     0.01,  0.02),
    ("response",       0.12,  0.2),
]  # fmt: skip


@pytest.mark.parametrize(("quantity", "watch", "recalibrate"), EDGES)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_difference_at_a_limit_is_within_it(quantity: str, watch: float, recalibrate: float, sign: float) -> None:
    def verdict(value: float, sd: float = 0.0) -> str:
        return Check("front", quantity, sign * value, sd, *LIMITS[quantity]).verdict

    assert [verdict(watch), verdict(1.001 * watch)] == [OK, WATCH]
    assert [verdict(recalibrate), verdict(1.001 * recalibrate)] == [WATCH, RECALIBRATE]
    assert verdict(1.001 * recalibrate, sd=0.01 * recalibrate) == WATCH, "two standard deviations are in doubt"


def test_every_quantity_has_its_row() -> None:
    assert [quantity for quantity, *_ in EDGES] == list(LIMITS)
