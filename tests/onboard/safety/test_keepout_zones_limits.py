"""Commands in keep-out and speed zones of the map: R21 and R22 of `onboard/safety/limits.py`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.perception.obstacle_memory import NOWHERE
from onboard.safety.keepout_zones import ELSEWHERE, Zone
from onboard.safety.limits import Reason
from onboard.values.messages import STOP, Twist
from tests.onboard.safety.limits_bench import AHEAD, BOUNDS, FREE, NOW_NS, limited, operator, scan_of

BEFORE = Zone(True, np.array([[0.6, 0.0], [0.6, 0.05], [0.6, -0.05]]))
WITHIN = Zone(True, NOWHERE, held=True)
SLOW = Zone(True, limit_mps=0.4)

#   who, where, wants                                 speed at most, turn       why
RULES = [
    ("policy",   ELSEWHERE, AHEAD,                1.0,   0.0,  Reason.NONE),
    ("policy",   BEFORE,    AHEAD,                0.906,  0.0,  Reason.KEEP_OUT),
    ("policy",   BEFORE,    Twist(-0.3, 0.0),    -0.3,   0.0,  Reason.NONE),
    ("policy",   BEFORE,    Twist(0.0, 1.0),      0.0,   1.0,  Reason.NONE),
    ("policy",   WITHIN,    AHEAD,                0.0,   0.0,  Reason.KEEP_OUT),
    ("policy",   WITHIN,    Twist(-0.3, 0.0),     0.0,   0.0,  Reason.KEEP_OUT),
    ("policy",   WITHIN,    Twist(0.0, 1.0),      0.0,   1.0,  Reason.NONE),
    ("operator", WITHIN,    AHEAD,                0.1,   0.0,  Reason.KEEP_OUT),
    ("operator", WITHIN,    Twist(-0.3, 0.0),    -0.1,   0.0,  Reason.KEEP_OUT),
    ("policy",   SLOW,      AHEAD,                0.4,   0.0,  Reason.SPEED_ZONE),
    ("policy",   SLOW,      Twist(0.8, 1.0),      0.4,   0.5,  Reason.SPEED_ZONE),
    ("operator", SLOW,      AHEAD,                0.4,   0.0,  Reason.SPEED_ZONE),
    ("policy",   SLOW,      Twist(0.3, 0.5),      0.3,   0.5,  Reason.NONE),
]  # fmt: skip


@pytest.mark.parametrize(("who", "zone", "wanted", "v_mps", "w_radps", "reason"), RULES)
def test_r21_r22_commands_in_zones_of_the_map(
    who: str, zone: Zone, wanted: Twist, v_mps: float, w_radps: float, reason: Reason
) -> None:
    situation = replace(FREE, zone=zone)
    if who == "operator":
        situation = replace(situation, teleop=operator(wanted))
    out = limited(wanted, situation)
    assert out.twist.v_mps == pytest.approx(v_mps, abs=0.01)
    assert out.twist.w_radps == pytest.approx(w_radps, abs=0.01)
    assert out.reason is (Reason.TELEOP if who == "operator" and reason is Reason.NONE else reason)


@given(st.floats(0.05, 1.0), st.floats(-2.0, 2.0), st.floats(0.31, 2.0), st.floats(-1.0, 1.0))
def test_r21_law_forbidden_ground_stops_like_an_obstacle(v_mps: float, w_radps: float, x_m: float, y_m: float) -> None:
    wanted = Twist(v_mps, w_radps)
    forbidden = limited(wanted, replace(FREE, zone=Zone(True, np.array([[x_m, y_m]]))))
    remembered = limited(wanted, replace(FREE, out_of_view=np.array([[x_m, y_m]])))
    if remembered.twist.v_mps > BOUNDS.creep_mps:
        assert forbidden.twist == remembered.twist
    assert forbidden.twist.v_mps <= max(remembered.twist.v_mps, BOUNDS.creep_mps)


@given(st.floats(-0.3, 1.0), st.floats(-3.0, 3.0), st.floats(0.01, 1.0))
def test_r22_law_never_faster_and_never_another_arc(v_mps: float, w_radps: float, limit_mps: float) -> None:
    out = limited(Twist(v_mps, w_radps), replace(FREE, zone=Zone(True, limit_mps=limit_mps))).twist
    assert abs(out.v_mps) <= limit_mps + 1e-9
    assert out.v_mps * w_radps == pytest.approx(out.w_radps * v_mps, abs=1e-9)


def test_r21_r22_the_e_stop_and_a_stale_scan_come_first() -> None:
    late = scan_of(stamp_ns=NOW_NS - 10**10)
    assert limited(AHEAD, replace(FREE, zone=WITHIN, e_stop=True)).reason is Reason.E_STOP
    assert limited(AHEAD, replace(FREE, zone=SLOW, scan=late)).reason is Reason.STALE_SCAN
    assert limited(None, replace(FREE, zone=WITHIN)).twist == STOP
