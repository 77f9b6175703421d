"""What a drive needs to know of its policy, and the policy of the drive, in every loop alike: place, colour, goal."""

from __future__ import annotations

from hil.baselines import KnowsMap
from hil.routes import Episode
from hil.setting import Setting
from onboard.geometry import between, inverse
from onboard.interfaces import Policy
from onboard.messages import GoalRequest, Pose
from onboard.policy import NetworkPolicy
from onboard.start import Start

COLOR_INPUT = "rgb"


def wants_color(policy: Policy) -> bool:
    """Return whether a policy looks at the colour image: a network whose manifest lists it."""
    return isinstance(policy, NetworkPolicy) and any(entry.name == COLOR_INPUT for entry in policy.manifest.inputs)


def tell_where(policy: Policy, start: Start, episode: Episode) -> None:
    """Tell a policy that knows a map where the robot believes its start frame to be in it.

    A robot without localisation was told once where it starts.
    """
    if isinstance(policy, KnowsMap):
        policy.locate(episode.start if start.start_from_map is None else inverse(start.start_from_map))


def goal_request(setting: Setting, episode: Episode, now_ns: int) -> GoalRequest:
    """Return the goal of an episode in the map; without localisation in the odometry's frame, begun at the start."""
    goal, section = Pose(*episode.goal_xy_m, 0.0), setting.config.dds
    if setting.senses.localization:
        return GoalRequest(now_ns, now_ns, section.map_frame, goal)
    return GoalRequest(now_ns, now_ns, section.odom_frame, between(episode.start, goal))
