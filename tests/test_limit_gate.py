"""Where the gate says that nothing binds, the limits return the command as wanted; and it says so mostly."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_bench import MOUNTS, PLANT

from hil.direct_scan import looked_at
from hil.limit_gate import LimitGate
from onboard.config import LimitsSection, ScanSection
from onboard.contract import ACTIONS
from onboard.limits import LimitsState, Situation, bounds_of, limit
from onboard.messages import BINS, STOP, Scan, Twist

EVERYWHERE = np.ones(BINS, np.bool_)
CAMERAS = looked_at(MOUNTS, ScanSection())
BACKING = Twist(-0.2, 0.0)
SECTIONS = {
    "default": {},
    "no time to contact": {"time_to_contact_s": 0.0},
    "no margin": {"stop_margin_m": 0.0, "slow_margin_m": 0.0},
    "slow zone as fast": {"slow_fraction": 1.0},
    "slower": {"v_max_mps": 0.5, "w_max_radps": 2.0},
    "ramped": {"acceleration_mps2": 1.0},
}


def gate_of(section: str = "default", seen: np.ndarray = EVERYWHERE) -> LimitGate:
    return LimitGate(bounds_of(LimitsSection(**SECTIONS[section]), PLANT, 0.25, 200.0), seen)


def limited(gate: LimitGate, ranges_m: np.ndarray, wanted: Twist) -> Twist:
    situation = Situation(0, None, False, None, 0, Scan(0, ranges_m, gate.seen))
    return limit(LimitsState(), wanted, situation, gate.bounds)[1].twist


near = st.floats(0.0, 3.0, width=32) | st.sampled_from([math.inf, 0.25, 0.3, 0.5])
points = st.dictionaries(st.integers(0, BINS - 1), near, max_size=6)
twists = st.sampled_from((*ACTIONS, BACKING)) | st.builds(Twist, st.floats(-0.3, 1.0), st.floats(-3.0, 3.0))


def scan_of(where: dict[int, float]) -> np.ndarray:
    ranges_m = np.full(BINS, np.inf, np.float32)
    for bin_number, range_m in where.items():
        ranges_m[bin_number] = range_m
    return ranges_m


@pytest.mark.parametrize("section", list(SECTIONS))
@pytest.mark.parametrize("seen", [EVERYWHERE, CAMERAS], ids=["lidar", "cameras"])
@given(where=points, wanted=twists)
@settings(max_examples=80, deadline=None)
def test_what_it_lets_through_the_limits_let_through(section, seen, where, wanted):
    gate, ranges_m = gate_of(section, seen), scan_of(where)
    ranges_m[~seen] = np.inf
    reach_m = gate.reach_m(wanted)
    if reach_m is not None and not gate.may_bind(ranges_m, wanted):
        assert limited(gate, ranges_m, wanted) == wanted


@given(where=points, wanted=twists)
@settings(max_examples=150, deadline=None)
def test_what_is_beyond_its_reach_does_not_matter_to_the_limits(where, wanted):
    gate, ranges_m = gate_of(), scan_of(where)
    reach_m = gate.reach_m(wanted)
    if reach_m is not None:
        cut = np.where(ranges_m <= reach_m, ranges_m, np.inf).astype(np.float32)
        assert limited(gate, cut, wanted) == limited(gate, ranges_m, wanted)
        assert gate.may_bind(cut, wanted) == gate.may_bind(ranges_m, wanted)


@given(where=points, wanted=st.sampled_from(ACTIONS))
@settings(max_examples=150, deadline=None)
def test_it_asks_no_oftener_than_the_limits_bind_but_for_its_margin(where, wanted):
    """Where it asks, the limits bind a robot that is a centimetre wider: its margin is far below that."""
    gate, ranges_m = gate_of(), scan_of(where)
    if gate.reach_m(wanted) is None or not gate.may_bind(ranges_m, wanted):
        return
    bounds = gate.bounds
    wider = {name: getattr(bounds, name) + 0.01 for name in ("footprint_radius_m", "swept_radius_m", "slow_radius_m")}
    assert limited(LimitGate(replace(bounds, **wider), gate.seen), ranges_m, wanted) != wanted


#  name                wanted             seen        section     reach [m]
REACHES = [
    ("standing", STOP, EVERYWHERE, "default", 0.0),
    ("turning in place", Twist(0.0, 3.0), EVERYWHERE, "default", 0.0),
    ("fast: time to contact", Twist(1.0, 0.0), EVERYWHERE, "default", 1.25),
    ("slow: time to contact", Twist(0.3, 0.0), EVERYWHERE, "default", 0.25 + 0.3),
    ("faster than the slow zone", Twist(0.4, 0.0), EVERYWHERE, "no time to contact", 0.5 + 0.4**2 / 5.0 + 0.4 * 0.15),
    ("as slow as the slow zone", Twist(0.3, 0.0), EVERYWHERE, "no time to contact", 0.3 + 0.3**2 / 5.0 + 0.3 * 0.15),
    ("backward into the blind", BACKING, np.arange(BINS) > 20, "default", None),
    ("too fast", Twist(1.0, 0.0), EVERYWHERE, "slower", None),
    ("turns too fast", Twist(0.3, 3.0), EVERYWHERE, "slower", None),
    ("ramped", Twist(0.3, 0.0), EVERYWHERE, "ramped", None),
]


@pytest.mark.parametrize(
    ("wanted", "seen", "section", "reach_m"), [row[1:] for row in REACHES], ids=[r[0] for r in REACHES]
)
def test_reach(wanted, seen, section, reach_m):
    reached_m = gate_of(section, seen).reach_m(wanted)
    assert reached_m == (None if reach_m is None else pytest.approx(reach_m, abs=1e-5))


def test_a_wall_ahead_binds_and_one_aside_does_not():
    gate, ahead, aside = gate_of(), scan_of({BINS // 2: 0.8}), scan_of({BINS // 4: 0.8})
    assert gate.may_bind(ahead, Twist(1.0, 0.0))
    assert not gate.may_bind(aside, Twist(1.0, 0.0))
    assert not gate.may_bind(ahead, BACKING)
    assert limited(gate, ahead, Twist(1.0, 0.0)).v_mps < 1.0
