"""Where the base was, by the odometry, in the last second: to know where it stood when something was seen."""

from __future__ import annotations

from onboard.geometry import interpolate
from onboard.messages import Pose

TRACK_NS = 1_000_000_000
"""How far back poses are remembered."""

Track = tuple[tuple[int, Pose], ...]
"""(time [ns], pose), oldest first."""


def followed(track: Track, now_ns: int, pose: Pose) -> Track:
    """Return the track with the newest pose, without what is too old or (after a clock's jump) not older than now."""
    return (*(then for then in track if now_ns - TRACK_NS <= then[0] < now_ns), (now_ns, pose))


def pose_at(track: Track, stamp_ns: int) -> Pose:
    """Return the pose at a time: between two remembered poses on the straight line, beyond the ends the end's."""
    after = next((i for i, (time_ns, _) in enumerate(track) if time_ns >= stamp_ns), len(track) - 1)
    if after == 0 or track[after][0] < stamp_ns:
        return track[after][1]
    (start_ns, start), (end_ns, end) = track[after - 1], track[after]
    return interpolate(start, end, (stamp_ns - start_ns) / (end_ns - start_ns))
