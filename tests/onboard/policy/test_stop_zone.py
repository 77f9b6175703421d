"""Standing in an obstacle's stop zone, `reactive` asks for a command that the limits pass, and waits for nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onboard.perception.obstacle_memory import filled
from onboard.policy.contract import ACTIONS
from onboard.policy.dwa.dynamic_window import ReactivePolicy
from onboard.safety.limits import Reason, bounds_of
from onboard.values.messages import BINS, STOP, Motion, Observation, Pose, Twist
from tests.onboard.safety.limits_bench import CONFIG, FREE, NOW_NS, PLANT, limited, scan_of

BOUNDS = bounds_of(CONFIG.limits, PLANT, CONFIG.robot.footprint, 200.0)
DECISIONS = 6

#   where something is, at the flank within 0.30 m   goal
PLACES = [
    ([(0.02, 0.29)], (2.85, 0.94)),
    ([(0.07, -0.29)], (2.95, -0.57)),
    ([(0.18, -0.5), (0.07, -0.27), (0.16, -0.38)], (3.0, -0.07)),
    ([(0.06, 0.28), (0.06, -0.28)], (3.0, 0.0)),
]


@pytest.mark.parametrize(("places", "goal"), PLACES)
@pytest.mark.parametrize("visible", [True, False], ids=["seen", "remembered"])
def test_the_limits_pass_what_it_asks_for(
    places: list[tuple[float, float]], goal: tuple[float, float], visible: bool
) -> None:
    """Something a little ahead of the flank held it for good: it asked to pass, 1 mm nearer, and the limits held it.

    The cameras see past what is remembered, below a table's top (`Scan.heights_m`).
    """
    policy, motion, out_of_view = ReactivePolicy(PLANT), Motion(Pose(0.0, 0.0, 0.0), STOP), np.array(places)
    scan = scan_of(*places) if visible else replace(scan_of(), heights_m=np.zeros((BINS, 61, 4), np.float32))
    situation = replace(FREE, scan=scan) if visible else replace(FREE, scan=scan, out_of_view=out_of_view)
    memory, action, reasons = policy.initial_memory(), ACTIONS.index(Twist(1.0, 0.0)), []
    for _ in range(DECISIONS):
        seen = scan if visible else filled(scan, out_of_view)
        observation = Observation(NOW_NS, None, seen, motion, None, None, motion, goal, action)
        decision, memory = policy.decide(observation, memory)
        action = decision.action
        passed = limited(ACTIONS[action], situation, BOUNDS)
        if abs(passed.twist.v_mps) > 0.02 or abs(passed.twist.w_radps) > 0.1:
            return
        reasons.append(passed.reason)
    pytest.fail(f"held: {[Reason(one).value for one in reasons]}")
