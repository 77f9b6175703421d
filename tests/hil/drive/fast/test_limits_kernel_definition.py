"""The compiled limits of a drive against the limits themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hil.drive.fast.limits_kernel import FastLimits
from hil.sensors.direct_scan import looked_at
from onboard.config.config import LimitsSection, ScanSection
from onboard.config.footprint import Footprint
from onboard.policy.contract import ACTIONS
from onboard.safety.limits import LimitsState, Situation, bounds_of, limit
from onboard.values.messages import BINS, STOP, Scan, Twist
from tests.rigs.runtime_bench import MOUNTS, PLANT

EVERYWHERE = np.ones(BINS, np.bool_)
CAMERAS = looked_at(MOUNTS, ScanSection())
ROUNDING = 1e-9
BACKING = Twist(-0.2, 0.0)
SECTIONS = {
    "default": {},
    "no time to contact": {"time_to_contact_s": 0.0},
    "no margin": {"stop_margin_m": 0.0, "slow_margin_m": 0.0},
    "slow zone of one step": {"slow_steps": 1},
    "slower": {"v_max_mps": 0.5, "w_max_radps": 2.0},
    "ramped": {"acceleration_mps2": 1.0},
}


def limits_of(section: str = "default", seen: np.ndarray = EVERYWHERE) -> FastLimits:
    return FastLimits(bounds_of(LimitsSection(**SECTIONS[section]), PLANT, Footprint(0.25), 200.0), seen)


def limited(fast: FastLimits, ranges_m: np.ndarray, wanted: Twist) -> Twist:
    situation = Situation(0, None, False, None, 0, Scan(0, ranges_m, fast.seen))
    return limit(LimitsState(), wanted, situation, fast.bounds)[1].twist


def assert_same(ours: Twist, theirs: Twist) -> None:
    """To rounding: the compiler's arc functions and numpy's differ in the last bits."""
    assert (ours.v_mps, ours.w_radps) == pytest.approx((theirs.v_mps, theirs.w_radps), rel=0.0, abs=ROUNDING)


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
def test_it_does_what_the_limits_do(section, seen, where, wanted):
    fast, ranges_m = limits_of(section, seen), scan_of(where)
    ranges_m[~seen] = np.inf
    if fast.reach_m(wanted) is not None:
        assert_same(fast.limited(ranges_m, wanted), limited(fast, ranges_m, wanted))


@given(where=points, wanted=twists)
@settings(max_examples=150, deadline=None)
def test_what_is_beyond_its_reach_does_not_matter_to_the_limits(where, wanted):
    fast, ranges_m = limits_of(), scan_of(where)
    reach_m = fast.reach_m(wanted)
    if reach_m is not None:
        cut = np.where(ranges_m <= reach_m, ranges_m, np.inf).astype(np.float32)
        assert limited(fast, cut, wanted) == limited(fast, ranges_m, wanted)
        assert fast.limited(cut, wanted) == fast.limited(ranges_m, wanted)


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
    reached_m = limits_of(section, seen).reach_m(wanted)
    assert reached_m == (None if reach_m is None else pytest.approx(reach_m, abs=1e-5))


#  name                           wanted            scan                    allowed [m/s]
HELD = [
    ("a wall ahead", Twist(1.0, 0.5), {BINS // 2: 0.8}, 0.3),
    ("a wall at the bumper", Twist(1.0, 0.0), {BINS // 2: 0.29}, 0.0),
    ("slow enough", Twist(0.3, 0.0), {BINS // 2: 0.8}, 0.3),
    ("a wall aside", Twist(1.0, 0.0), {BINS // 4: 0.8}, 1.0),
    ("a wall ahead of one who backs off", BACKING, {BINS // 2: 0.3}, 0.2),
    ("a wall behind one who backs off", BACKING, {0: 0.3}, 0.0),
    ("time to contact", Twist(0.3, 0.0), {BINS // 2: 0.45}, 0.2),
    ("nothing", Twist(1.0, 3.0), {}, 1.0),
]


@pytest.mark.parametrize(("wanted", "where", "allowed_mps"), [row[1:] for row in HELD], ids=[row[0] for row in HELD])
def test_held(wanted, where, allowed_mps):
    fast, ranges_m = limits_of("slow zone of one step"), scan_of(where)
    twist = fast.limited(ranges_m, wanted)
    assert abs(twist.v_mps) == pytest.approx(allowed_mps, abs=2e-3)
    assert twist.w_radps * wanted.v_mps == pytest.approx(wanted.w_radps * twist.v_mps), "the arc stays"
    assert_same(twist, limited(fast, ranges_m, wanted))
