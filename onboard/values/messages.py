"""Messages of the runtime. Names carry frame and unit (REP-103: x forward, y left)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.values.images import without_false_depth
from onboard.values.reasons import Said

BINS = 180
"""Bins of a scan; bin i covers azimuth [-180 + 2i, -180 + 2i + 2) degrees in the base frame."""
BIN_DEG = 360.0 / BINS
BIN_RAD = 2.0 * math.pi / BINS


def bins_within(angle_deg: float) -> int:
    """Return how many bins an angle covers, rounded; at least 1."""
    return max(1, round(angle_deg / BIN_DEG))


Memory = npt.NDArray[np.float32]
"""Recurrent state of a policy, passed into a decision and returned by it; (2, 1024) for the paper's GRU."""


@dataclass(frozen=True, slots=True)
class Twist:
    """Velocity of the base in its own frame: v along x [m/s], w about z [rad/s]."""

    v_mps: float
    w_radps: float


STOP = Twist(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Pose:
    """Planar pose; also the transform `parent_from_child` of a child frame at this pose. yaw in (-pi, pi]."""

    x_m: float
    y_m: float
    yaw_rad: float


@dataclass(frozen=True, slots=True)
class Motion:
    """A pose and the body twist at the same time: the five numbers of the contract's `odom` and `loc`."""

    pose: Pose
    twist: Twist


@dataclass(frozen=True, slots=True)
class DepthFrame:
    """A raw depth image of a camera.

    camera:   name of the mount
    number:   identity of the frame, ascending; equal numbers of a camera are the same frame
    stamp_ns: capture time (arrival if the driver has no capture time), monotonic [ns]
    depth:    (height, width) uint16 in units of the mount's depth scale; 0 is no return, and so is `FALSE_DEPTH`,
              which becomes 0 here
    """

    camera: str
    number: int
    stamp_ns: int
    depth: npt.NDArray[np.uint16]

    def __post_init__(self) -> None:
        """Drop false depth, wherever the image is from: a camera, a file or a recording."""
        object.__setattr__(self, "depth", without_false_depth(self.depth))


@dataclass(frozen=True, slots=True)
class ColorFrame:
    """The forward colour image, already at the policy's size: (144, 256, 3) uint8 RGB; stamp monotonic [ns]."""

    number: int
    stamp_ns: int
    image: npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Scan:
    """Distance to the nearest obstacle in each bearing bin, seen from the base.

    stamp_ns:   capture time of the oldest frame used, monotonic [ns]; for a ready-made scan arrival minus latency
    ranges_m:   (180,) float32; bin i covers [-180 + 2i, -180 + 2i + 2) deg; inf where nothing was seen [m]
    seen:       (180,) bool; False where no working camera looks
    from_m:     (180,) float32, minimum range at which a bin's obstacles are seen (`onboard/perception/min_range.py`);
                None: 0
    arrival_ns: start of the tick that took a ready-made scan, monotonic [ns]; None for a fused scan
    heights_m:  heights that cameras see near the robot (`onboard/perception/min_range.py`); None: all
    memory_m:   how far obstacles are to be remembered (`onboard/perception/height_coverage.py`); 0: as far as at least
    """

    stamp_ns: int
    ranges_m: npt.NDArray[np.float32]
    seen: npt.NDArray[np.bool_]
    from_m: npt.NDArray[np.float32] | None = None
    arrival_ns: int | None = None
    heights_m: npt.NDArray[np.float32] | None = None
    memory_m: float = 0.0


@dataclass(frozen=True, slots=True)
class OdometryMessage:
    """Wheel odometry from the base.

    stamp_ns:   time stamp in the sender's clock [ns]
    arrival_ns: arrival at the runtime, monotonic [ns]
    pose:       the base's own integrated pose in its odom frame, or None
    twist:      measured body velocity
    speed_variance, yaw_variance: of the twist's v [m^2/s^2] and w [rad^2/s^2]; None if not stated
    """

    stamp_ns: int
    arrival_ns: int
    pose: Pose | None
    twist: Twist
    yaw_variance: float | None = None
    speed_variance: float | None = None


@dataclass(frozen=True, slots=True)
class ImuSample:
    """Yaw rate of an IMU about the base's z axis.

    stamp_ns, arrival_ns: as in `OdometryMessage`
    yaw_radps: with the sensor's bias [rad/s]
    variance:  [rad^2/s^2]; None if the sensor does not state it
    """

    stamp_ns: int
    arrival_ns: int
    yaw_radps: float
    variance: float | None = None


@dataclass(frozen=True, slots=True)
class Fix:
    """An external localisation (`/amcl_pose`): the base's pose in the map frame at `stamp_ns` (sender's clock).

    covariance: (3, 3) of x, y, yaw [m^2, m rad, rad^2]; None if the sender does not state it
    """

    stamp_ns: int
    arrival_ns: int
    pose: Pose
    covariance: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class GoalRequest:
    """A requested goal (`/goal_pose`, `/onboard/goals`), not yet checked.

    arrival_ns: start of the tick that took the goal, minus its latency, monotonic [ns]
    heading:    whether the robot must turn to the yaw of `pose` at its end; otherwise any heading will do
    through:    poses to pass before, each with its frame, in their order; their yaw is not used
    """

    stamp_ns: int
    arrival_ns: int
    frame_id: str
    pose: Pose
    heading: bool = False
    through: tuple[tuple[str, Pose], ...] = ()


@dataclass(frozen=True, slots=True)
class Teleop:
    """An operator's command (`/cmd_vel_teleop`), valid for `limits.teleop_dead_man_s` after `arrival_ns`.

    arrival_ns: start of the tick that took the command, minus its latency, monotonic [ns]
    """

    arrival_ns: int
    twist: Twist


@dataclass(frozen=True, slots=True)
class Inputs:
    """All inputs of a tick. A tick depends on nothing else, so recorded inputs replay the run.

    now_ns:    time of the tick, monotonic [ns]
    depth:     newest frame of each working camera, by name
    color:     newest colour frame, or None
    odometry:  messages since the last tick, oldest first; likewise fixes and goals
    cancel:    a cancel arrived since the last tick
    pause:     whether any sender's last word since the last tick is a pause (True) or not (False); None: no word
    imu:       samples since the last tick, oldest first
    battery:   lowest charge of the newest `/battery_state`, 0 to 1; None while none is stated
    obstacle:  last state of `/obstacle` (bumper or notice), None before the first message
    e_stop:    last state of `/e_stop`, None before the first message
    teleop:    newest operator command so far, or None
    scans:     newest ready-made scan of each topic, by its name in the configuration
    speed_limit_mps: lowest limit of all senders on `/speed_limit`, 0 for no limit; None before the first message
    """

    now_ns: int
    depth: Mapping[str, DepthFrame] = field(default_factory=dict)
    color: ColorFrame | None = None
    odometry: tuple[OdometryMessage, ...] = ()
    fixes: tuple[Fix, ...] = ()
    goals: tuple[GoalRequest, ...] = ()
    cancel: bool = False
    obstacle: bool | None = None
    e_stop: bool | None = None
    teleop: Teleop | None = None
    scans: Mapping[str, Scan] = field(default_factory=dict)
    speed_limit_mps: float | None = None
    pause: bool | None = None
    battery: float | None = None
    imu: tuple[ImuSample, ...] = ()


@dataclass(frozen=True, slots=True)
class Observation:
    """Input of a policy's decision. All poses are in the start frame: the robot's pose when the goal came.

    goal_xy_m:           the static goal, never updated with motion (paper 1, section 3)
    odometry:            raw integrated wheel motion
    localization:        newest external fix with the wheels' v and w at its time; None without a fix
    localization_age_ns: age of that fix; None without a fix
    filtered:            EKF of both, for policies that transform the goal into the robot's frame
    previous_action:     index of the last action, contract.NO_ACTION at the start, after recovery and override
    set_point:           velocity pair in force; not recorded, as a replay makes it again
    deviations:          standard deviations of `filtered`: position in its worst direction [m], yaw [rad]; None without
                         a covariance; not recorded either
    map_from_start:      pose of the start frame in the map, for policies with a map; None while the robot is not
                         localised, or the scan contradicts the map; not recorded either
    """

    stamp_ns: int
    color: ColorFrame | None
    scan: Scan
    odometry: Motion
    localization: Motion | None
    localization_age_ns: int | None
    filtered: Motion
    goal_xy_m: tuple[float, float]
    previous_action: int
    set_point: Twist = STOP
    deviations: tuple[float, float] | None = None
    map_from_start: Pose | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's choice; `contract.twist_of` returns its velocity pair.

    action: index in contract.ACTIONS, 7 * linear + angular; of an own velocity pair, the nearest of these
    logits: output of the policy; (28,) float32, any scale, for the paper's actions
    own:    velocity pair of a policy with other actions; None: the action's
    left_m: path left to the goal by a map, with obstacles near it counted as more path [m]; inf without a map
    """

    action: int
    logits: npt.NDArray[np.float32]
    own: Twist | None = None
    left_m: float = math.inf


@dataclass(frozen=True, slots=True)
class CameraHealth:
    """State of a camera for `/diagnostics`. reason: why it does not work; frames, restarts: counts so far."""

    camera: str
    working: bool
    reason: Said
    frames: int
    restarts: int
    detail: Mapping[str, Any] = field(default_factory=dict)
