"""The configuration of one robot: a TOML file, checked at load; an unknown key is an error.

A relative path in the file is relative to the file's folder. A default path is relative to the working directory.
"""

from __future__ import annotations

import logging
import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from onboard.config.fixed_keys import without_fixed
from onboard.config.footprint import Corners, Footprint, polygon
from onboard.config.pretrained import is_name, model_and_fallback
from onboard.config.toml_file import Finite, NonNegative, Positive, Section, checked, read_toml
from onboard.values.topic_name import full_name

Sd = Annotated[float, Field(ge=1e-4, allow_inf_nan=False)]
"""Standard deviation of a localisation [m, rad]. The lower bound keeps the filter numerically stable."""
Charge = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
WheelFactor = Annotated[float, Field(ge=0.5, le=2.0, allow_inf_nan=False)]
"""Beyond these a base's own settings, or the unit or sign of its odometry, are wrong."""
log = logging.getLogger("onboard.config")
"""Without a handler it writes to the standard error, for each command alike."""
DEFAULT_ROBOT = Path(__file__).parent / "robots" / "default"


class RobotSection(Section):
    """The robot's name, files and size. The footprint is a circle about the base frame's origin, or a polygon."""

    name: str = Field("robot", description="in /diagnostics and in the names of recordings")
    mounts: Path = Field(
        DEFAULT_ROBOT / "mounts.toml",
        json_schema_extra={"default": "mounts.toml"},
        description="file that describes the cameras",
    )
    plant: Path = Field(
        DEFAULT_ROBOT / "plant.toml",
        json_schema_extra={"default": "plant.toml"},
        description="file that describes how the base responds to a command",
    )
    footprint_radius_m: Positive | None = Field(
        0.25, description="radius of the circle [m]. Only one of circle and polygon may be given"
    )
    footprint_m: Corners | None = Field(
        None,
        examples=[[[0.6, 0.25], [-0.6, 0.25], [-0.6, -0.25], [0.6, -0.25]]],
        description="corners [x, y] of the polygon in the base frame, in either direction, as `footprint` of Nav2",
    )
    height_m: Positive = Field(1.0, description="highest point above the floor [m]")

    @field_validator("footprint_m")
    @classmethod
    def _is_footprint(cls, corners: Corners | None) -> Corners | None:
        return None if corners is None else polygon(corners).corners_m

    @model_validator(mode="before")
    @classmethod
    def _without_default(cls, table: Any) -> Any:
        """Drop the default radius if there is a polygon."""
        if isinstance(table, dict) and table.get("footprint_m") is not None:
            return {"footprint_radius_m": None, **table}
        return table

    @model_validator(mode="after")
    def _one_footprint(self) -> RobotSection:
        if (self.footprint_radius_m is None) == (self.footprint_m is None):
            found = "none" if self.footprint_m is None else "both"
            raise ValueError(f"set one of footprint_radius_m and footprint_m, not {found}")
        return self

    @model_serializer(mode="wrap")
    def _one_key(self, table: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the footprint that is not given, so that recordings and results of a circle stay as they are."""
        absent = [name for name in ("footprint_radius_m", "footprint_m") if getattr(self, name) is None]
        return {key: value for key, value in table(self).items() if key not in absent}

    @property
    def footprint(self) -> Footprint:
        """Return the circle or the polygon."""
        if self.footprint_m is not None:
            return Footprint(0.0, self.footprint_m)
        return Footprint(self.footprint_radius_m or 0.0)


class RatesSection(Section):
    """The grid of ticks. A decision always acts `delay_ticks` after the tick that senses."""

    control_hz: float = Field(
        30.0,
        ge=10.0,
        le=200.0,
        description="ticks and commands per second; a base with a timeout of 0.5 s must receive several within it",
    )
    ticks_per_decision: int = Field(10, ge=1, description="ticks from one decision of the policy to the next")
    delay_ticks: int = Field(3, ge=1, description="ticks from sensing to acting, as the policy was trained")
    core: int | None = Field(
        None,
        ge=0,
        examples=[3],
        description="CPU core reserved for the tick; all other threads and the camera processes stay off it",
    )

    @model_validator(mode="after")
    def _delay_within_decision(self) -> RatesSection:
        if self.delay_ticks >= self.ticks_per_decision:
            raise ValueError(
                f"delay_ticks {self.delay_ticks} must be below ticks_per_decision {self.ticks_per_decision}"
            )
        return self


CameraSource = Literal["realsense", "dds", "none"]
"""Where images come from: a vendor's driver, topics, or nowhere."""


class CamerasSection(Section):
    """Sources of depth and colour images, and the limits at which a camera counts as blind."""

    source: CameraSource = Field(
        "dds", description="where depth images come from: plugged into this computer, over DDS, or no camera"
    )
    sources: dict[str, CameraSource] = Field(
        default_factory=dict, description="camera name -> source of this camera, if it is not `source`"
    )
    recordings: dict[str, Path] = Field(
        default_factory=dict,
        description="camera name -> .db3 or .bag file, played again and again instead of the live device",
    )
    fps: int = Field(30, ge=1, description="frame rate requested from a RealSense [Hz]")
    stale_ms: Positive = Field(300.0, description="an image older than this is not used [ms]")
    unchanged_m: NonNegative = Field(
        0.15,
        description="a depth camera is blind if its image stays identical while the robot moves this far; a radian "
        "counts as a metre. 0 turns this check off, for simulated cameras without noise",
    )
    color: CameraSource = Field("dds", description="where colour images come from; none: the policy sees no colour")
    color_serial: str = Field("", description="serial number of the RealSense for colour")

    def source_of(self, camera: str) -> str:
        """Return the source of a depth camera's frames."""
        return self.sources.get(camera, self.source)


NoReturn = Literal["zero", "nan", "beyond"]
"""Values of a laser's ray: 0.0, NaN, beyond its range_max."""


LIDARS = "onboard/lidars"
"""Name of the scan that is fused from several lidars; no topic."""
LaserPose = tuple[Finite, Finite, Finite, Finite, Finite, Finite]
MOST_TILT_DEG = 5.0


def tilt_fault(topic: str, pose: LaserPose | Literal["tf"]) -> str:
    """Return why a LaserScan from this pose cannot be used; "" if it can, or if the pose is not known yet."""
    if pose == "tf":
        return ""
    roll, pitch = math.radians(pose[3]), math.radians(pose[4])
    tilt_deg = math.degrees(math.acos(min(abs(math.cos(roll) * math.cos(pitch)), 1.0)))
    if tilt_deg <= MOST_TILT_DEG:
        return ""
    return (
        f"{topic} is tilted by {tilt_deg:.1f} deg, limit {MOST_TILT_DEG:g} deg: its rays meet the floor; level it, or "
        "send a PointCloud2 (clouds)"
    )


class ScanSource(Section):
    """What a scan is made of: depth images of cameras, the ready-made scan of a laser, or both."""

    topic: str = Field(
        "",
        description="topic of a ready-made LaserScan; of this table the runtime then uses only `laser` and "
        "`no_return`, unless `cameras` names cameras: their images are fused with it, and the robot stands while one "
        'is silent. "": depth images alone',
    )
    laser: tuple[Finite, Finite, Finite] | None = Field(
        None,
        examples=[(0.1, 0.0, 180.0)],
        description="pose of the laser of `topic` in the base frame: x, y [m], yaw [deg]; its scans may be in any "
        "frame, and a scan in the base frame is used as it is. Without this key, scans in other frames are refused: "
        "the runtime reads no TF. The laser is level and upright; for another one use `lasers`",
    )
    no_return: list[NoReturn] = Field(
        default_factory=list,
        description='what the laser of `topic` sends where nothing is in range: "zero" (0.0), "nan", "beyond" (its '
        "range_max). Such rays then count as free; without this key they are blind. Not for a laser that "
        "sends the same where an obstacle is black or very near",
    )
    cameras: list[str] = Field(
        default_factory=list, description="names of the mounts to fuse; empty means all, with a lidar none"
    )
    lasers: dict[str, LaserPose | Literal["tf"]] = Field(
        default_factory=dict,
        examples=[{"/scan_front": (0.2, 0.0, 0.3, 0.0, 0.0, 0.0), "/scan_rear": (-0.2, 0.0, 0.3, 180.0, 0.0, 180.0)}],
        description="topics of several lidars, fused into one scan, each with its pose in the base frame: x, y, height "
        'above the floor [m], roll, pitch, yaw [deg]; roll 180 for one that hangs upside down. "tf" takes it from '
        "`/tf_static` at each start. `no_return` holds for all. Depth images are then used only of the cameras that "
        "`cameras` names",
    )
    clouds: list[str] = Field(
        default_factory=list,
        examples=[["/points"]],
        description="topics of PointCloud2 that are fused in the same way; `lasers` states the pose of each. A cloud "
        "without a pose must be in the base frame",
    )

    @property
    def uses_cameras(self) -> bool:
        """Return whether depth images are part of the scan."""
        return not self.topic or bool(self.cameras)

    @property
    def sources(self) -> dict[str, bool]:
        """Return the topics that make the ready-made scan, and whether each is a PointCloud2."""
        if self.topic != LIDARS:
            return {self.topic: False} if self.topic else {}
        return dict.fromkeys(self.lasers, False) | dict.fromkeys(self.clouds, True)

    @model_validator(mode="after")
    def _one_scan_of_lidars(self) -> ScanSource:
        """Name the fused scan; check the poses."""
        if not (self.lasers or self.clouds):
            return self
        if self.topic not in ("", LIDARS) or self.laser is not None:
            raise ValueError(f"with lasers or clouds, write the pose of {self.topic or 'the laser'} into lasers")
        for topic, pose in self.lasers.items():
            if topic not in self.clouds and (fault := tilt_fault(topic, pose)):
                raise ValueError(f"lasers: {fault}")
        object.__setattr__(self, "topic", LIDARS)
        return self

    @model_serializer(mode="wrap")
    def _without_empty(self, table: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out empty later keys, so that recordings and results from before them stay as they are."""
        later = ("no_return", "lasers", "clouds")
        return {key: value for key, value in table(self).items() if key not in later or value}


class ScanSection(ScanSource):
    """Heights and ranges at which a depth point is an obstacle (paper 1, Appendix C)."""

    z_min_m: float = Field(0.05, allow_inf_nan=False, description="lowest obstacle above the floor [m]")
    z_max_m: float = Field(1.2, allow_inf_nan=False, description="highest obstacle above the floor [m]")
    drop_m: NonNegative = Field(
        0.08,
        description="a point this far below the floor is an obstacle (`onboard/perception/cliff.py`). Needs mounts "
        "that are accurate to one or two degrees. 0 turns this check off",
    )
    far_m: Positive = Field(10.0, description="farther points are not used [m]")
    noise_per_m: NonNegative = Field(
        0.005,
        description="standard deviation of 1/depth of the depth cameras [1/m]. A wall is then measured by many pixels "
        "(`onboard/perception/kernels.py`). 0 takes the nearest pixel",
    )
    history: int = Field(1, ge=1, le=30, description="images of each camera that are fused")
    move_images: bool = Field(
        True,
        description="move each image by odometry to the time of the policy's decision. The limits take it as it is, "
        "and so does a scan of lidars and cameras",
    )
    body_boxes_m: list[tuple[float, float, float, float, float, float]] = Field(
        default_factory=list,
        description="boxes of the robot's own body in the base frame, (x_min, y_min, z_min, x_max, y_max, z_max) [m]",
    )

    @model_validator(mode="after")
    def _ordered(self) -> ScanSection:
        if self.z_min_m >= self.z_max_m:
            raise ValueError(f"z_min_m {self.z_min_m} must be below z_max_m {self.z_max_m}")
        for box in self.body_boxes_m:
            if not all(low < high for low, high in zip(box[:3], box[3:], strict=True)):
                raise ValueError(f"body_boxes_m {box} must be (x_min, y_min, z_min, x_max, y_max, z_max)")
        return self


class OdometrySection(Section):
    """Integration of wheel motion. Limits for valid odometry and external localisation."""

    input: Literal["dds", "serial"] = Field(
        "dds", description="odometry and commands over DDS, or a Kobuki on a serial port"
    )
    source: Literal["twist", "pose"] = Field("twist", description="part of the Odometry message that is integrated")
    serial_port: str = Field("/dev/base", description='device of the base for `input = "serial"`')
    stale_ms: float = Field(200.0, gt=0.0, le=1000.0, description="odometry older than this stops the robot [ms]")
    judge_late: bool = Field(
        True,
        description="add the latency of odometry to its age. Latency is relative to the fastest message so far, by "
        "the stamps. Turn it off for a base whose clock does not keep real time",
    )
    localization_sd: tuple[Sd, Sd, Sd] = Field(
        (0.03, 0.03, 0.05), description="minimum standard deviation of a fix: x, y [m], yaw [rad]"
    )
    correction: tuple[WheelFactor, WheelFactor, Finite] | None = Field(
        None,
        examples=[(1.01, 0.99, 0.002)],
        description="corrections to the base's odometry: factor on its speed, factor on its turning, and turn "
        "for each metre [rad/m]. `onboard-calib odometry` measures them",
    )
    imu: str = Field(
        "",
        examples=["/imu/data"],
        description="topic of a sensor_msgs/Imu whose yaw rate joins the wheels' (`onboard/navigation/gyro.py`), for "
        "wheels that slip sideways",
    )
    imu_rpy_deg: tuple[Finite, Finite, Finite] | None = Field(
        None,
        examples=[(180.0, 0.0, 0.0)],
        description="roll, pitch, yaw of the IMU in the base frame [deg]; without it by its frame: the base frame "
        "itself, or one of /tf_static",
    )
    scan_matching: bool = Field(
        True, description="correct wheel odometry by matching consecutive scans while the robot drives to a goal"
    )

    @model_serializer(mode="wrap")
    def _without_correction(self, table: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out later keys without a value, so that recordings and results from before them stay as they are."""
        later = ("correction", "imu", "imu_rpy_deg")
        return {key: value for key, value in table(self).items() if key not in later or value}


class PolicySection(Section):
    """The policy and its inference engine."""

    model: str = Field(
        "reactive",
        description='"reactive", "mapped" (which needs `map.file`), the name of a shipped policy, or the path of an '
        ".onnx file with its manifest next to it",
    )
    fallback: Literal["none", "reactive"] = Field(
        "none",
        description='"reactive" drives where the model makes no progress or has too few inputs '
        "(`onboard/policy/fallback.py`)",
    )
    engine: Literal["onnxruntime", "tensorrt"] = Field(
        "onnxruntime",
        description="what computes the network; tensorrt needs `onboard-engines build` on the robot first",
    )

    @field_validator("model")
    @classmethod
    def _alone(cls, model: str) -> str:
        """Refuse the name that the commands take."""
        first, fallback = model_and_fallback(model)
        if fallback != "none":
            raise ValueError(f'state model = "{first}" and fallback = "{fallback}"')
        return model

    @property
    def name(self) -> str:
        """Return the policy as a command takes it: a model, or a model and `+reactive`."""
        return (
            self.model
            if self.fallback == "none" or self.model in ("reactive", "mapped")
            else f"{self.model}+{self.fallback}"
        )

    def driven_by(self, policy: str) -> PolicySection:
        """Return the section for another policy, given as `name` returns it."""
        model, fallback = model_and_fallback(policy)
        return self.model_copy(update={"model": model, "fallback": fallback})


class RecoverySection(Section):
    """Back off when blocked (paper 1, section 5): 5 s without motion -> backward 0.2 m/s for 2 s, bounded."""

    blocked_s: Positive = Field(
        5.0, description="time without the commanded motion after which the robot is blocked [s]"
    )
    backward_mps: Positive = Field(0.2, description="speed while backing off [m/s]")
    backward_s: float = Field(2.0, gt=0.0, le=10.0, description="duration of backing off [s]")
    tries: int = Field(
        3, ge=1, description="recoveries within `window_s`; if the robot is blocked after these, the drive ends"
    )
    back_off: bool = Field(
        True,
        description="off for a base that refuses to drive backward (Create 3): the robot then turns in place instead",
    )
    rear_clearance_m: Positive = Field(
        0.15, description="distance that must be free behind the robot, beyond the backing-off distance [m]"
    )


class LimitsSection(Section):
    """Limits of every command. The defaults are the identified saturations; in free space they limit no policy."""

    v_min_mps: float = Field(-0.3, le=0.0, allow_inf_nan=False, description="fastest backward speed [m/s]")
    v_max_mps: Positive = Field(1.0, le=2.7, description="fastest forward speed [m/s]; odometry above 3 m/s is refused")
    w_max_radps: Positive = Field(3.0, le=9.0, description="fastest turn [rad/s]; odometry above 10 rad/s is refused")
    acceleration_mps2: Positive = Field(
        2.5,
        description="ramp of the set point, if lower than the base's own limit "
        "(`onboard/config/robots/default/plant.toml`)",
    )
    angular_acceleration_radps2: Positive = Field(
        12.0,
        description="ramp of the set point, if lower than the base's own limit "
        "(`onboard/config/robots/default/plant.toml`)",
    )
    teleop_dead_man_s: float = Field(
        0.5,
        gt=0.0,
        le=1.0,
        description="at most 1 s, like `odometry.stale_ms`; until then the robot drives on the last command or scan",
    )
    stop_margin_m: NonNegative = Field(0.05, description="nearest distance of the footprint to an obstacle [m]")
    slow_margin_m: NonNegative = Field(
        0.25,
        description="the robot is slowed if an obstacle is this near to the footprint anywhere along the braking "
        "distance [m]",
    )
    slow_steps: int = Field(
        4,
        ge=1,
        le=8,
        description="number of steps in which the speed falls between `slow_margin_m` and `stop_margin_m`; 1 falls "
        "at once",
    )
    battery_min: tuple[Charge, Charge] = Field(
        (0.0, 0.0),
        description="charge of `/battery_state`, 0 to 1: below the first new goals are refused, below the second the "
        "drive ends. 0: never",
    )
    time_to_contact_s: NonNegative = Field(
        1.0, description="the speed is at most the distance to contact over this time [s]"
    )
    reaction_s: float = Field(
        0.15,
        ge=0.05,
        allow_inf_nan=False,
        description="latency from an obstacle in view to the braking wheels, part of the braking distance. No base "
        "brakes within 0.05 s",
    )
    creep_mps: float = Field(0.1, ge=0.0, le=0.3, description="maximum speed of an operator where no camera looks")
    remember_s: NonNegative = Field(
        60.0, description="time for which a near obstacle is remembered where no camera looks; 0 remembers nothing"
    )
    seen_free_s: float = Field(
        5.0,
        ge=0.0,
        le=10.0,
        description="time for which ground that a camera saw free may be driven over where no camera looks now, at "
        "most `remember_s`. The robot turns to look at such ground (`onboard/safety/looking.py`). 0: "
        "never",
    )
    scan_stale_ms: float = Field(
        400.0,
        gt=0.0,
        le=1000.0,
        description="at most 1 s, like `odometry.stale_ms`; until then the robot drives on the last command or scan",
    )

    @property
    def ground_s(self) -> float:
        """Return the time for which ground that was seen free counts [s]: no longer than obstacles are remembered."""
        return min(self.seen_free_s, self.remember_s)

    @field_validator("battery_min")
    @classmethod
    def _refuses_before_it_ends(cls, limits: tuple[float, float]) -> tuple[float, float]:
        if limits[1] > limits[0]:
            raise ValueError(
                f"the drive must not end at a higher charge ({limits[1]}) than goals are refused ({limits[0]})"
            )
        return limits

    @model_validator(mode="after")
    def _slow_beyond_stop(self) -> LimitsSection:
        if self.slow_margin_m < self.stop_margin_m:
            raise ValueError(f"slow_margin_m {self.slow_margin_m} must not be below stop_margin_m {self.stop_margin_m}")
        return self


class ZonesSection(Section):
    """Keep-out and speed zones, from nav2's filter masks (`onboard/safety/keepout_zones.py`).

    Zones apply only while the robot is localised.
    """

    keep_out: Path | None = Field(None, examples=["keep_out.yaml"], description="yaml files of masks in the map frame")
    speed: Path | None = Field(None, examples=["speed.yaml"], description="yaml files of masks in the map frame")
    required: bool = Field(False, description="stop the robot while it is not localised; an operator may creep")


class MapSection(Section):
    """The map of the building, and what the runtime does with it (docs/building.md)."""

    file: Path | None = Field(
        None,
        examples=["map.yaml"],
        description="map of the building, as map_server reads it: the policy `mapped` plans in it, and goals that it "
        "shows to be out of reach are refused",
    )
    topic: bool = Field(
        False,
        description="take the map from `/map` at each start, and keep it as `file`, which nothing else may write",
    )
    tracker: bool = Field(
        False,
        description="localise by comparing the scan with the map, in place of `/amcl_pose`. It starts at "
        "`/initialpose`, at the pose of the last stop, or where `onboard locate` finds the robot",
    )

    subgoals: bool = Field(
        False,
        description="policies without a map get points 6 m ahead on the map's path in place of the goal",
    )

    @model_validator(mode="after")
    def _with_file(self) -> MapSection:
        for name in ("topic", "tracker", "subgoals"):
            if getattr(self, name) and self.file is None:
                raise ValueError(f"{name} needs the map of the building: set map.file")
        return self

    @model_serializer(mode="wrap")
    def _without_defaults(self, table: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is as without a map, so that recordings and results from before the keys stay as they are."""
        return {key: value for key, value in table(self).items() if value != type(self).model_fields[key].default}


class GoalSection(Section):
    """Conditions for a valid goal, for its end and for a drive without progress."""

    tolerance_m: Positive = Field(0.2, description="distance at which a goal is reached [m]")
    max_distance_m: Positive = Field(100.0, description="a goal farther away is refused [m]")
    timeout_s: Positive = Field(600.0, description="longest drive to a goal [s]")
    progress_timeout_s: Positive = Field(
        120.0, description="time without getting nearer after which the drive ends [s]"
    )
    arrival_confidence: float = Field(
        0.9,
        ge=0.0,
        lt=1.0,
        allow_inf_nan=False,
        description="the robot stops at a goal if the filter's covariance gives at least this probability of being "
        "within `tolerance_m`; else it turns and waits for a fix, for a bounded time "
        "(`onboard/navigation/arrival.py`). 0 stops at once",
    )
    use_yaw: bool = Field(
        False,
        description="at a goal of `/goal_pose` the robot turns to the goal's heading, unless its orientation is all "
        "zero; goals of `onboard goal --yaw` and of `/onboard/goals` state it themselves",
    )


class DdsSection(Section):
    """DDS: domain, network, topics and frames."""

    domain: int | None = Field(
        None, ge=0, le=232, examples=[0], description="without it ROS_DOMAIN_ID applies (0 when unset)"
    )
    interface: str = Field("lo", description="the only network interface that is used")
    peers: list[str] = Field(["127.0.0.1"], description="hosts to contact for discovery, by name or address")
    multicast: bool = Field(False, description="discover participants by multicast too")
    namespace: str = Field("", description="prefix of topic names; not of /tf, /tf_static, /diagnostics")
    namespace_frames: bool = Field(
        False,
        description="the namespace is also the prefix of `odom_frame`, `base_frame` and the frames of cameras; not "
        "of `map_frame`, which robots share",
    )
    remap: dict[str, str] = Field(default_factory=dict, description="our topic -> topic on the wire")
    stamped_cmd_vel: bool = Field(False, description="send TwistStamped instead of Twist")
    publish_tf: bool = Field(True, description="publish /tf and /tf_static")
    resend: bool = Field(
        False,
        description="for a network that loses packets (radio): reliable delivery of streams and images too, in "
        "packets that the network does not fragment. Every sender and receiver must do the same",
    )
    judge_late: bool = Field(
        True,
        description="add the latency of images, ready-made scans, goals and operator commands to their age. Latency "
        "is relative to the fastest message so far, by stamp or write time. Turn it off for senders "
        "whose clock does not keep real time, such as a simulator",
    )
    e_stop_required: bool = Field(
        False,
        description='the e-stop counts as pressed while no sender says "released", and while any sender is silent '
        "for longer than `e_stop_timeout_s`. Each sender must repeat its state",
    )
    e_stop_pressed: bool = Field(True, description="value of the Bool that means pressed; `remap.e_stop` is its topic")
    e_stop_timeout_s: float = Field(
        0.5, gt=0.0, le=10.0, allow_inf_nan=False, description="longest silence of a sender of the e-stop [s]"
    )
    other_drivers: Literal["warn", "refuse"] = Field(
        "warn",
        description='reaction to another participant that writes our commands or our state: "warn" only logs it, '
        '"refuse" counts as a pressed e-stop, and the state names it (`onboard/drivers/dds/discovery.py`)',
    )
    security: Path | None = Field(
        None,
        examples=["keys/onboard"],
        description="folder of one role of a keystore (`onboard secure-setup`). The runtime ignores participants "
        "without a certificate of this keystore",
    )
    odom_frame: str = Field("odom", description="names of the frames")
    map_frame: str = Field("map", description="names of the frames")
    base_frame: str = Field("base_link", description="names of the frames")

    @model_validator(mode="after")
    def _namespaced(self) -> DdsSection:
        for name in ("odom_frame", "base_frame"):
            frame = str(getattr(self, name))
            if not frame.startswith(self.frame_prefix):
                object.__setattr__(self, name, f"{self.frame_prefix}{frame}")
        return self

    @property
    def odometry_topic(self) -> str:
        """Return the name of the odometry's topic as ROS users see it."""
        return full_name(self.namespace, self.remap.get("odom", "odom"))

    @property
    def frame_prefix(self) -> str:
        """Return what stands before the robot's own frames: "robot1/", or nothing."""
        namespace = self.namespace.strip("/")
        return f"{namespace}/" if self.namespace_frames and namespace else ""


class RecordSection(Section):
    """Recording to MCAP files. The recorder starts a new file at `max_file_mb` and deletes the oldest unmarked files.

    See `onboard/recording/retention.py`.
    """

    enabled: bool = Field(True, description="record every tick")
    directory: Path = Field(
        Path("recordings"),
        description="folder of the recordings, from the folder of this file on; without this key `recordings`, from "
        "the working folder on",
    )
    max_file_mb: Positive = Field(512.0, description="size of a file after which the next one begins [MB]")
    max_total_mb: Positive = Field(
        10_000.0,
        description="maximum size of all files of this robot, marked files too; a new file counts with its full size",
    )


class Config(Section):
    """The whole configuration of one robot."""

    robot: RobotSection = RobotSection()
    rates: RatesSection = RatesSection()
    cameras: CamerasSection = CamerasSection()
    scan: ScanSection = ScanSection()
    limits_scan: ScanSource | None = Field(
        None, description="scan of limits and recovery, with the heights and ranges of `scan`; without it the same scan"
    )
    odometry: OdometrySection = OdometrySection()
    policy: PolicySection = PolicySection()
    recovery: RecoverySection = RecoverySection()
    limits: LimitsSection = LimitsSection()
    map: MapSection = MapSection()
    zones: ZonesSection = ZonesSection()
    goal: GoalSection = GoalSection()
    dds: DdsSection = DdsSection()
    record: RecordSection = RecordSection()

    @model_validator(mode="after")
    def _own_scans_next_to_a_lidar(self) -> Config:
        """Publish the runtime's scans on onboard/... if a lidar has their name, unless `dds.remap` names a topic."""
        sections = [section for section in (self.scan, self.limits_scan) if section is not None]
        heard = {full_name(self.dds.namespace, topic) for section in sections for topic in section.sources}
        ours = {"scan", "limits_scan"} - self.dds.remap.keys()
        moved = {name: f"onboard/{name}" for name in sorted(ours) if full_name(self.dds.namespace, name) in heard}
        if moved:
            object.__setattr__(self, "dds", self.dds.model_copy(update={"remap": {**self.dds.remap, **moved}}))
        return self

    @property
    def own_scan(self) -> ScanSection | None:
        """Return the whole section of `limits_scan`; None without it."""
        own = self.limits_scan
        return (
            None
            if own is None
            else self.scan.model_copy(update={name: getattr(own, name) for name in ScanSource.model_fields})
        )


def load_config(path: Path | None) -> Config:
    """Return the checked configuration of a file; None is the default robot. Raises ConfigError with one line."""
    path = path or DEFAULT_ROBOT / "onboard.toml"
    table, fixed = without_fixed(read_toml(path))
    for line in fixed:
        log.warning("warning: %s: %s", path, line)
    with checked(path):
        config = Config.model_validate(table)
    return _absolute_paths(config, path.resolve().parent)


def _absolute_paths(config: Config, folder: Path) -> Config:
    """Return the configuration with the file's relative paths joined to `folder`."""
    robot, policy, cameras, record = config.robot, config.policy, config.cameras, config.record
    masks = {name: folder / file for name in ("keep_out", "speed") if (file := getattr(config.zones, name)) is not None}
    changes: dict[str, Section] = {
        "robot": robot.model_copy(update={"mounts": folder / robot.mounts, "plant": folder / robot.plant}),
        "cameras": cameras.model_copy(
            update={"recordings": {name: folder / file for name, file in cameras.recordings.items()}}
        ),
    }
    if config.map.file is not None:
        changes["map"] = config.map.model_copy(update={"file": folder / config.map.file})
    if masks:
        changes["zones"] = config.zones.model_copy(update=masks)
    if not is_name(policy.model):
        model = folder / policy.model
        changes["policy"] = policy.model_copy(update={"model": str(model.parent.resolve() / model.name)})
    if config.dds.security is not None:
        changes["dds"] = config.dds.model_copy(update={"security": folder / config.dds.security})
    if "directory" in record.model_fields_set:
        changes["record"] = record.model_copy(update={"directory": folder / record.directory})
    return config.model_copy(update=changes)
