"""What goes into a policy and what comes out: names, shapes, units and meaning (paper 1, sections 1.1 to 1.3)."""

from __future__ import annotations

from onboard.messages import Twist

LINEAR_MPS = (0.0, 0.3, 0.6, 1.0)
ANGULAR_RADPS = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)
ACTIONS: tuple[Twist, ...] = tuple(Twist(v, w) for v in LINEAR_MPS for w in ANGULAR_RADPS)
"""The 28 velocity pairs; index = 7 * linear + angular, both ascending (paper 1, section 1.2)."""

STOP_ACTION = ACTIONS.index(Twist(0.0, 0.0))
NO_ACTION = len(ACTIONS)
"""Stands for the previous action at the start of an episode and after a recovery or an override."""
