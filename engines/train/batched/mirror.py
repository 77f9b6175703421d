"""Mirrored lanes: half of the lanes show the world as in a mirror, so the policy learns in twice as many buildings."""

from __future__ import annotations

import torch
from torch import Tensor

from engines.train.batched.learner import Observed, Stepped, World
from engines.train.batched.policy import STATE
from hil.drive.setting import Setting
from hil.sensors.direct_scan import looked_at
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError
from onboard.values.messages import Twist

TURNED_STATES = (2, 4, 6, 8, 12)
"""Of the state: the sine of the goal's bearing, y, the sine of the yaw, w, and w of the set point."""
OTHER_SIDE = [ACTIONS.index(Twist(one.v_mps, -one.w_radps + 0.0)) for one in ACTIONS]
"""The mirror image of each action."""


def check_mirror(robot: Setting) -> None:
    """Raise InputError for cameras that do not look to both sides alike."""
    seen = looked_at(robot.mounts, robot.config.scan)
    if (seen != seen[::-1]).any():
        raise InputError("batched.mirrored: the cameras must look to both sides alike; leave it out")


class Mirrored:
    """A world whose second half of lanes is mirrored at the robot's x axis.

    The turn of a held arrival (A5) goes to the left; a mirrored lane sees it go to the right.
    """

    def __init__(self, world: World, device: torch.device) -> None:
        self.world, self.lanes, self._half = world, world.lanes, world.lanes // 2
        self._other = torch.tensor(OTHER_SIDE, device=device)
        self._signs = torch.ones(STATE, device=device)
        self._signs[list(TURNED_STATES)] = -1.0

    def observe(self) -> Observed:
        """Return what the policy is given now."""
        seen, half = self.world.observe(), self._half
        scan = torch.cat([seen.scan[:half], seen.scan[half:].flip(1)])
        state = torch.cat([seen.state[:half], seen.state[half:] * self._signs])
        return seen._replace(scan=scan, state=state)

    def step(self, actions: Tensor) -> Stepped:
        """Make one decision in each lane. actions: (N,) int64, as the policy sees the world."""
        half = self._half
        return self.world.step(torch.cat([actions[:half], self._other[actions[half:]]]))

    def labels(self) -> Tensor:
        """Return (N, 28) the teacher's times, as the policy sees the world."""
        times_s, half = self.world.labels(), self._half
        return torch.cat([times_s[:half], times_s[half:][:, self._other]])

    def stats(self) -> dict[str, float]:
        """Return counts since the last call."""
        return self.world.stats()
