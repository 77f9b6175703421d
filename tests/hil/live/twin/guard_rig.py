"""What the tests of the twin's guard share: a robot that drives, what it sees, and one step of the guard."""

from __future__ import annotations

from dataclasses import replace
from math import hypot, inf

import numpy as np

from hil.live.twin.guard.danger import GuardInputs, Rules
from hil.live.twin.guard.rules import Guard, GuardMessages, Phase, advance
from onboard.config.config import Config
from onboard.config.plant_model import load_plant
from onboard.perception.collision import BIN_CENTERS_RAD
from onboard.values.clock import NS_PER_S
from onboard.values.messages import BINS, Scan, Twist

MS = 1_000_000
NOW_NS = 1000 * NS_PER_S
TICK_NS = round(NS_PER_S / 30)
RULES = Rules(radius_m=0.3, braking_mps2=2.5)
PLANT = load_plant(Config().robot.plant)
FAST, SLOW = Twist(1.0, 0.0), Twist(0.3, 0.0)


def scan_of(*points: tuple[float, float], stamp_ns: int = NOW_NS, blind_deg: tuple[float, float] = (0, 0)) -> Scan:
    ranges = np.full(BINS, inf, np.float32)
    for x, y in points:
        index = int(np.floor((np.degrees(np.arctan2(y, x)) + 180.0) / 2.0)) % BINS
        ranges[index] = min(ranges[index], hypot(x, y))
    centers = np.degrees(BIN_CENTERS_RAD)
    return Scan(stamp_ns, ranges, ~((centers > blind_deg[0]) & (centers < blind_deg[1])))


SEEN = GuardInputs(NOW_NS, scan_of(), FAST, FAST, 0.0, True, NOW_NS)
WATCHING = Guard(Phase.WATCHING)


def after(guard: Guard, rules: Rules = RULES, **changes: object) -> tuple[Guard, GuardMessages]:
    return advance(guard, replace(SEEN, **changes), rules)  # type: ignore[arg-type]
