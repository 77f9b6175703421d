"""What every loop decides alike: the goal as the robot is told it, where it is in the map, and who looks at colour."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from hil.routes import Episode
from hil.setting import Setting
from onboard.geometry import between, inverse
from onboard.interfaces import Policy
from onboard.messages import GoalRequest, Pose
from onboard.policy import NetworkPolicy
from onboard.start import Start

COLOR_INPUT = "rgb"


@runtime_checkable
class SaysWhatItLooksAt(Protocol):
    """A policy that says itself whether it looks at the colour image."""

    @property
    def wants_color(self) -> bool:
        """Return whether it does."""


def wants_color(policy: Policy) -> bool:
    """Return whether a policy looks at the colour image: one that says so, or a network whose manifest lists it."""
    if isinstance(policy, SaysWhatItLooksAt):
        return policy.wants_color
    return isinstance(policy, NetworkPolicy) and any(entry.name == COLOR_INPUT for entry in policy.manifest.inputs)


def map_from_start(start: Start, episode: Episode) -> Pose:
    """Return where the robot believes its start frame to be in the map, for a policy that knows one (`KnowsMap`).

    A robot without localisation was told once where it starts.
    """
    return episode.start if start.start_from_map is None else inverse(start.start_from_map)


def goal_request(setting: Setting, episode: Episode, now_ns: int) -> GoalRequest:
    """Return the goal of an episode in the map; without localisation in the odometry's frame, begun at the start."""
    goal, section = Pose(*episode.goal_xy_m, 0.0), setting.config.dds
    if setting.senses.localization:
        return GoalRequest(now_ns, now_ns, section.map_frame, goal)
    return GoalRequest(now_ns, now_ns, section.odom_frame, between(episode.start, goal))
