"""The verdict on a session: comparisons with the calibration, and the limits of their differences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

UNKNOWN, OK, WATCH, RECALIBRATE = "unknown", "ok", "watch", "recalibrate"
"""`UNKNOWN`: nothing was compared."""
VERDICTS = (UNKNOWN, OK, WATCH, RECALIBRATE)
WARNINGS = (WATCH, RECALIBRATE)

#   quantity              watch, recalibrate  from
LIMITS = {
    "tilt_deg":           (1.0, 2.0),
    "height_m":           (0.02, 0.05),
    "overlap_m":          (0.08, 0.15),
    "speed":              (0.01, 0.02),
    "turning":            (0.02, 0.04),
    "turn_per_m":         (0.01, 0.02),
    "response":           (0.12, 0.2),
}  # fmt: skip
"""Differences from the calibration that matter, where it states no covariance. Drop detection needs 1 to 2 deg."""
LEAST_LIMITS = {"tilt_deg": (0.3, 1.0), "height_m": (0.01, 0.03)}
"""Beside a calibration with covariance: 3 and 6 standard deviations, but at least these."""
SURE = 2.0
"""Number of its own standard deviations by which a difference is reduced before the comparison with a limit."""


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison with the calibration.

    name:  what was compared, such as "front tilt"
    value: difference from the calibration, in the unit of `quantity`; sd: its standard deviation
    """

    name: str
    quantity: str
    value: float
    sd: float
    watch: float
    recalibrate: float

    @property
    def verdict(self) -> str:
        """Return `OK`, `WATCH` or `RECALIBRATE`."""
        sure = abs(self.value) - SURE * self.sd
        return RECALIBRATE if sure > self.recalibrate else WATCH if sure > self.watch else OK


@dataclass(frozen=True, slots=True)
class Health:
    """All comparisons of a session.

    unmeasured: what could not be compared -> why
    missed:     what should have been seen and was not -> how often it was seen; at least `WATCH`
    """

    checks: tuple[Check, ...] = ()
    unmeasured: Mapping[str, str] = field(default_factory=dict)
    missed: Mapping[str, str] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        """Return the worst verdict; `UNKNOWN` if nothing was compared."""
        verdicts = [check.verdict for check in self.checks] + [WATCH for _ in self.missed]
        return max(verdicts, key=VERDICTS.index, default=UNKNOWN)

    @property
    def message(self) -> str:
        """Return the verdict and its cause."""
        bad = [f"{check.name} is off by {check.value:+.3g}" for check in self.checks if check.verdict in WARNINGS]
        bad += [f"{name} {how}" for name, how in self.missed.items()]
        nothing = "" if self.checks else ": nothing compared"
        return self.verdict + (f": {'; '.join(bad)}" if bad else nothing)

    def plain(self) -> dict[str, Any]:
        """Return the comparisons as plain values."""
        return {
            "verdict": self.verdict,
            "checks": {
                check.name: {
                    "quantity": check.quantity,
                    "value": round(check.value, 5),
                    "sd": round(check.sd, 5),
                    "watch": round(check.watch, 5),
                    "recalibrate": round(check.recalibrate, 5),
                    "verdict": check.verdict,
                }
                for check in self.checks
            },
            "unmeasured": dict(self.unmeasured),
            "missed": dict(self.missed),
        }
