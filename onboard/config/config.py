"""The configuration of one robot: a TOML file, checked at load; an unknown key is an error.

A relative path in the file is relative to the file's folder. A default path is relative to the working directory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from onboard.config.footprint import Corners, Footprint, polygon
from onboard.config.pretrained import is_name, model_and_fallback
from onboard.config.toml_file import Finite, Fraction, NonNegative, Positive, Section, read_toml, validation_lines
from onboard.values.errors import ConfigError
from onboard.values.topic_name import full_name

Sd = Annotated[float, Field(ge=1e-4, allow_inf_nan=False)]
"""Standard deviation of a localisation [m, rad]. The lower bound keeps the filter numerically stable."""
WheelFactor = Annotated[float, Field(ge=0.5, le=2.0, allow_inf_nan=False)]
"""Beyond these a base's own settings, or the unit or sign of its odometry, are wrong."""
DEFAULT_ROBOT = Path(__file__).parent / "robots" / "default"
ENGINE_CACHE = Path(".cache") / "onboard" / "engines"
"""In the home folder of the user that runs the policy."""


class RobotSection(Section):
    """The robot's name, files and size. The footprint is a circle about the base frame's origin, or a polygon.

    name:   in /diagnostics and in the names of recordings
    mounts: file of the cameras
    plant:  file of how the base answers a command
    footprint_radius_m: radius of the circle [m]. Only one of circle and polygon may be given
    footprint_m: corners [x, y] of the polygon in the base frame, in either direction, as `footprint` of Nav2
    height_m: highest point above the floor [m]
    """

    name: str = "robot"
    mounts: Path = Field(DEFAULT_ROBOT / "mounts.toml", json_schema_extra={"default": "mounts.toml"})
    plant: Path = Field(DEFAULT_ROBOT / "plant.toml", json_schema_extra={"default": "plant.toml"})
    footprint_radius_m: Positive | None = 0.25
    footprint_m: Corners | None = Field(None, examples=[[[0.6, 0.25], [-0.6, 0.25], [-0.6, -0.25], [0.6, -0.25]]])
    height_m: Positive = 1.0

    @field_validator("footprint_m")
    @classmethod
    def _is_footprint(cls, corners: Corners | None) -> Corners | None:
        return None if corners is None else polygon(corners).corners_m

    @model_validator(mode="before")
    @classmethod
    def _without_default(cls, table: Any) -> Any:
        """Drop the default radius beside a polygon."""
        if isinstance(table, dict) and table.get("footprint_m") is not None:
            return {"footprint_radius_m": None, **table}
        return table

    @model_validator(mode="after")
    def _one_footprint(self) -> RobotSection:
        if (self.footprint_radius_m is None) == (self.footprint_m is None):
            found = "none" if self.footprint_m is None else "both"
            raise ValueError(f"expected one of footprint_radius_m and footprint_m, found {found}")
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
    """The grid of ticks. A decision always acts `delay_ticks` after the tick that senses.

    control_hz: ticks and commands a second; a base with a timeout of 0.5 s must hear several in it
    ticks_per_decision: ticks from one decision of the policy to the next
    delay_ticks: ticks from sensing to acting, as the policy was trained
    lead_ms: a tick in which a decision acts begins this early and sends on time; more than the tick's work takes, and
             at most half of a tick [ms]
    fifo_priority: priority under SCHED_FIFO outside of the service, if this user may have it (the unit has 40);
                   0 leaves the scheduler as it is
    core: processor core for the tick alone; all other threads and the camera processes keep off it
    budget_ms: time for sensing, fusing and inferring; longer is counted [ms]
    deadline_misses_to_stop: late decisions in a row after which the command is zero
    """

    control_hz: float = Field(30.0, ge=10.0, le=200.0)
    ticks_per_decision: int = Field(10, ge=1)
    delay_ticks: int = Field(3, ge=1)
    lead_ms: float = Field(8.0, ge=0.0, le=10.0)
    fifo_priority: int = Field(0, ge=0, le=98)
    core: int | None = Field(None, ge=0, examples=[3])
    budget_ms: Positive = 70.0
    deadline_misses_to_stop: int = Field(3, ge=1, le=10)

    @model_validator(mode="after")
    def _delay_within_decision(self) -> RatesSection:
        if self.delay_ticks >= self.ticks_per_decision:
            raise ValueError(
                f"delay_ticks {self.delay_ticks} must be below ticks_per_decision {self.ticks_per_decision}"
            )
        return self


class CamerasSection(Section):
    """Sources of depth and colour images, and the limits at which a camera counts as blind.

    source:      where depth images come from: plugged into this computer, over DDS, or no camera
    sources:     camera name -> source of this camera, if it is not `source`
    recordings:  camera name -> .db3 or .bag file, played in place of the live device
    loop_recordings: begin a recording again at its end
    fps:         images a second that a RealSense is asked for
    stale_ms:    an image older than this counts as none [ms]
    stall_restart_s: silence after which a RealSense is restarted [s]
    restart_backoff_s: first and longest wait between restarts [s]
    min_valid_fraction: share of pixels with a depth below which a camera counts as covered
    unchanged_m: a depth camera is blind if its image stays identical while the robot moves this far; a radian counts
                 as a metre. 0 turns this check off, for simulated cameras without noise
    color:       where colour images come from; none: the policy sees no colour
    color_serial: serial number of the RealSense for colour
    """

    source: Literal["realsense", "dds", "none"] = "dds"
    sources: dict[str, Literal["realsense", "dds", "none"]] = Field(default_factory=dict)
    recordings: dict[str, Path] = Field(default_factory=dict)
    loop_recordings: bool = False
    fps: int = Field(30, ge=1)
    stale_ms: Positive = 300.0
    stall_restart_s: Positive = 2.0
    restart_backoff_s: tuple[Positive, Positive] = (0.5, 10.0)
    min_valid_fraction: Fraction = 0.05
    unchanged_m: NonNegative = 0.15
    color: Literal["realsense", "dds", "none"] = "dds"
    color_serial: str = ""

    def source_of(self, camera: str) -> str:
        """Return the source of a depth camera's frames."""
        return self.sources.get(camera, self.source)


NoReturn = Literal["zero", "nan", "beyond"]
"""Values of a laser's ray: 0.0, NaN, beyond its range_max."""


class ScanSection(Section):
    """Heights and ranges at which a depth point is an obstacle (paper 1, Appendix C).

    topic:   topic of a ready-made LaserScan; of this table the runtime then uses only `laser` and
             `no_return`. "": fuse depth images
    laser:   pose of the laser of `topic` in the base frame: x, y [m], yaw [deg]; its scans may be in any frame, and one
             in the base frame is taken as it is. Without this key no other is taken: the runtime reads no TF. The laser
             is level and upright; the driver of one that hangs upside down must invert its scan
    no_return: what the laser of `topic` sends where nothing is in range: "zero" (0.0), "nan", "beyond" (its range_max).
             Such rays then count as free; without this key they are blind. Not for a laser that sends the same where an
             obstacle is black or very near
    z_min_m: lowest obstacle above the floor [m]
    z_max_m: highest obstacle above the floor [m]
    drop_m:  a point this far below the floor is an obstacle (`onboard/perception/cliff.py`). Needs mounts that are
             accurate to one or two degrees. 0 turns this check off
    near_m:  nearer points are not used [m]
    far_m:   farther points are not used [m]
    history: images of each camera that are fused
    cameras: names of the mounts to fuse; empty means all
    body_boxes_m: boxes of the robot's own body in the base frame, (x_min, y_min, z_min, x_max, y_max, z_max) [m]
    """

    topic: str = ""
    laser: tuple[Finite, Finite, Finite] | None = Field(None, examples=[(0.1, 0.0, 180.0)])
    no_return: list[NoReturn] = Field(default_factory=list)
    z_min_m: float = Field(0.05, allow_inf_nan=False)
    z_max_m: float = Field(1.2, allow_inf_nan=False)
    drop_m: NonNegative = 0.08
    near_m: NonNegative = 0.1
    far_m: Positive = 10.0
    history: int = Field(1, ge=1, le=30)
    cameras: list[str] = Field(default_factory=list)
    body_boxes_m: list[tuple[float, float, float, float, float, float]] = Field(default_factory=list)

    @model_validator(mode="after")
    def _ordered(self) -> ScanSection:
        if self.z_min_m >= self.z_max_m:
            raise ValueError(f"z_min_m {self.z_min_m} must be below z_max_m {self.z_max_m}")
        if self.near_m >= self.far_m:
            raise ValueError(f"near_m {self.near_m} must be below far_m {self.far_m}")
        for box in self.body_boxes_m:
            if not all(low < high for low, high in zip(box[:3], box[3:], strict=True)):
                raise ValueError(f"body_boxes_m {box} must be (x_min, y_min, z_min, x_max, y_max, z_max)")
        return self

    @model_serializer(mode="wrap")
    def _without_no_return(self, table: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out an empty `no_return`, so that recordings and results from before the key stay as they are."""
        return {key: value for key, value in table(self).items() if key != "no_return" or value}


class OdometrySection(Section):
    """Integration of wheel motion. Limits for valid odometry and external localisation.

    input:       odometry and commands over DDS, or a Kobuki on a serial port
    source:      part of the Odometry message that is integrated
    serial_port: device of the base for `input = "serial"`
    stale_ms:    odometry older than this stops the robot [ms]
    judge_late:  add the latency of odometry to its age. Latency is relative to the fastest message so far, by the
                 stamps. Turn it off for a base whose clock does not keep real time
    max_gap_ms:  motion is integrated over at most this much of a gap between two messages [ms]
    max_speed_mps: faster odometry is refused [m/s]
    max_yaw_rate_radps: faster turning is refused [rad/s]
    localization_max_age_s: an older fix of the localisation is not shown to the policy [s]
    localization_sd: least standard deviation of a fix: x, y [m], yaw [rad]
    correction:  the base's wheels are not as it believes: factor on its speed, factor on its turning, and turn for
                 each metre [rad/m]. `onboard-calib odometry` measures them
    scan_matching: correct the wheels by the scans, from one to the next, while the robot drives to a goal
    """

    input: Literal["dds", "serial"] = "dds"
    source: Literal["twist", "pose"] = "twist"
    serial_port: str = "/dev/base"
    stale_ms: float = Field(200.0, gt=0.0, le=1000.0)
    judge_late: bool = True
    max_gap_ms: Positive = 500.0
    max_speed_mps: Positive = 3.0
    max_yaw_rate_radps: Positive = 10.0
    localization_max_age_s: Positive = 8.0
    localization_sd: tuple[Sd, Sd, Sd] = (0.03, 0.03, 0.05)
    correction: tuple[WheelFactor, WheelFactor, Finite] | None = Field(None, examples=[(1.01, 0.99, 0.002)])
    scan_matching: bool = True

    @model_serializer(mode="wrap")
    def _without_correction(self, table: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out a correction of None, so that recordings and results from before the key stay as they are."""
        return {key: value for key, value in table(self).items() if key != "correction" or value is not None}


class PolicySection(Section):
    """The policy and its inference engine.

    model:   "reactive", the name of a shipped policy, or the path of an .onnx file with its manifest beside it
    fallback: "reactive" drives where the model gets nowhere or senses too little (`onboard/policy/fallback.py`)
    engine:  what computes the network; tensorrt needs `onboard-engines build` on the robot first
    threads: threads of onnxruntime. Two threads have a lower median latency of the full network, but wait for each
             other on a busy machine. One thread has less jitter (`onboard-hil demo --policy` prints the latency)
    memory_reset_s: period of memory resets of a model of contract version 1 whose manifest states none [s]
    engine_cache: folder of built TensorRT engines
    """

    model: str = "reactive"
    fallback: Literal["none", "reactive"] = "none"
    engine: Literal["onnxruntime", "tensorrt"] = "onnxruntime"
    threads: int = Field(1, ge=1)
    memory_reset_s: Positive = 10.0
    engine_cache: Annotated[Path, AfterValidator(Path.expanduser)] = Field(
        Path.home() / ENGINE_CACHE, json_schema_extra={"default": f"~/{ENGINE_CACHE}"}
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
        return self.model if self.fallback == "none" or self.model == "reactive" else f"{self.model}+{self.fallback}"

    def driven_by(self, policy: str) -> PolicySection:
        """Return the section for another policy, given as `name` returns it."""
        model, fallback = model_and_fallback(policy)
        return self.model_copy(update={"model": model, "fallback": fallback})


class RecoverySection(Section):
    """Back off when blocked (paper 1, section 5): 5 s without motion -> backward 0.2 m/s for 2 s, bounded.

    blocked_s:    time without the commanded motion after which the robot is blocked [s]
    backward_mps: speed of backing off [m/s]
    backward_s:   time of backing off [s]
    tries:        times of backing off within `window_s`; blocked after these, the drive ends
    window_s:     time in which tries count [s]
    cool_down_s:  wait between two tries [s]
    rear_clearance_m: room that must be free behind the robot, beyond the way of backing off [m]
    moving_mps:   slower counts as not moving [m/s]
    moving_radps: slower counts as not turning [rad/s]
    commanded_mps: a command below this asks for no motion [m/s]
    commanded_radps: a command below this asks for no turn [rad/s]
    """

    blocked_s: Positive = 5.0
    backward_mps: Positive = 0.2
    backward_s: float = Field(2.0, gt=0.0, le=10.0)
    tries: int = Field(3, ge=1)
    window_s: Positive = 60.0
    cool_down_s: NonNegative = 2.0
    rear_clearance_m: Positive = 0.15
    moving_mps: Positive = 0.02
    moving_radps: Positive = 0.05
    commanded_mps: Positive = 0.05
    commanded_radps: Positive = 0.1


class LimitsSection(Section):
    """Limits of every command. The defaults are the identified saturations: in free space they do not limit the policy.

    v_min_mps:   fastest backward speed [m/s]
    v_max_mps:   fastest forward speed [m/s]
    w_max_radps: fastest turn [rad/s]
    acceleration_mps2, angular_acceleration_radps2: ramp of the set point, if lower than the base's own limit
                 (`onboard/config/robots/default/plant.toml`)
    teleop_dead_man_s, scan_stale_ms: at most 1 s, like `odometry.stale_ms`; until then the robot drives on the last
                 command or scan
    stop_margin_m: nearest distance of the footprint to an obstacle [m]
    slow_margin_m: the robot is slowed if an obstacle is this near to the footprint anywhere along the braking
                 distance [m]
    slow_fraction: share of `v_max_mps` that is left there
    slow_steps:  number of steps in which the speed falls between `slow_margin_m` and `stop_margin_m`; 1 falls at once
    time_to_contact_s: the speed is at most the distance to contact over this time [s]
    reaction_s:  latency from an obstacle in view to the braking wheels, part of the braking distance. No base brakes
                 within 0.05 s
    creep_mps:   maximum speed of an operator where no camera looks
    remember_s:  time for which a near obstacle is remembered where no camera looks; 0 remembers nothing
    seen_free_s: time for which ground that a camera saw free may be driven over where no camera looks now, at most
                 `remember_s`. The robot turns to look at such ground (`onboard/safety/looking.py`). 0: never
    """

    v_min_mps: float = Field(-0.3, le=0.0, allow_inf_nan=False)
    v_max_mps: Positive = 1.0
    w_max_radps: Positive = 3.0
    acceleration_mps2: Positive = 2.5
    angular_acceleration_radps2: Positive = 12.0
    teleop_dead_man_s: float = Field(0.5, gt=0.0, le=1.0)
    stop_margin_m: NonNegative = 0.05
    slow_margin_m: NonNegative = 0.25
    slow_fraction: Fraction = 0.3
    slow_steps: int = Field(4, ge=1, le=8)
    time_to_contact_s: NonNegative = 1.0
    reaction_s: float = Field(0.15, ge=0.05, allow_inf_nan=False)
    creep_mps: float = Field(0.1, ge=0.0, le=0.3)
    remember_s: NonNegative = 60.0
    seen_free_s: float = Field(5.0, ge=0.0, le=10.0)
    scan_stale_ms: float = Field(400.0, gt=0.0, le=1000.0)

    @property
    def ground_s(self) -> float:
        """Return the time for which ground that was seen free counts [s]: no longer than obstacles are remembered."""
        return min(self.seen_free_s, self.remember_s)

    @model_validator(mode="after")
    def _slow_beyond_stop(self) -> LimitsSection:
        if self.slow_margin_m < self.stop_margin_m:
            raise ValueError(f"slow_margin_m {self.slow_margin_m} must not be below stop_margin_m {self.stop_margin_m}")
        return self


class ZonesSection(Section):
    """Keep-out and speed zones, from nav2's filter masks (`onboard/safety/keepout_zones.py`).

    Zones apply only while the robot is localised.
    keep_out, speed: yaml files of masks in the map frame
    required:        stop the robot while it is not localised; an operator may creep
    """

    keep_out: Path | None = Field(None, examples=["keep_out.yaml"])
    speed: Path | None = Field(None, examples=["speed.yaml"])
    required: bool = False


class GoalSection(Section):
    """Conditions for a valid goal, for its end and for a drive without progress.

    tolerance_m:    distance at which a goal is reached [m]
    max_distance_m: a goal farther away is refused [m]
    timeout_s:      longest drive to a goal [s]
    rest_mps:       slower counts as standing [m/s]
    rest_radps:     slower counts as not turning [rad/s]
    rest_decisions: decisions at rest within `tolerance_m` after which the goal is reached
    stop_short_s:   time at rest away from the goal after which the drive ends [s]
    progress_timeout_s: time without getting nearer after which the drive ends [s]
    lost_input_s:   time without odometry or scan after which the drive ends [s]
    arrival_confidence: the robot stops at a goal if the filter's covariance gives at least this probability of being
                    within `tolerance_m`; else it turns and waits for a fix, for a bounded time
                    (`onboard/navigation/arrival.py`). 0 stops at once
    """

    tolerance_m: Positive = 0.2
    max_distance_m: Positive = 100.0
    timeout_s: Positive = 600.0
    rest_mps: Positive = 0.02
    rest_radps: Positive = 0.05
    rest_decisions: int = Field(2, ge=1)
    stop_short_s: Positive = 5.0
    progress_timeout_s: Positive = 120.0
    lost_input_s: Positive = 5.0
    arrival_confidence: float = Field(0.9, ge=0.0, lt=1.0, allow_inf_nan=False)


class DdsSection(Section):
    """DDS: domain, network, topics and frames.

    domain:          without it ROS_DOMAIN_ID holds (0 when unset)
    interface:       the only network interface that is used
    peers:           hosts that are asked for participants, by name or address
    multicast:       find participants by multicast too
    namespace:       stands before the names of topics; not before /tf, /tf_static, /diagnostics
    namespace_frames: the namespace stands before `odom_frame`, `base_frame` and the frames of cameras too; not before
                     `map_frame`, which robots share
    remap:           our topic -> topic on the wire
    stamped_cmd_vel: send TwistStamped in place of Twist
    publish_tf:      publish /tf and /tf_static
    resend:          for a network that loses packets (radio): reliable delivery of streams and images too, in packets
                     that the network does not fragment. Every sender and receiver must do the same
    judge_late:      add the latency of images, ready-made scans, goals and operator commands to their age. Latency is
                     relative to the fastest message so far, by stamp or write time. Turn it off for senders whose
                     clock does not keep real time, such as a simulator
    publish_used:    publish which images each tick used, with its command, on `onboard/used` (`onboard-hil target`)
    e_stop_required: the e-stop counts as pressed while no sender says "released", and while any sender is silent
                     for longer than `e_stop_timeout_s`. Each sender must repeat its state
    e_stop_timeout_s: longest silence of a sender of the e-stop [s]
    other_drivers:   reaction to another participant that writes our commands or our state: "warn" only logs it,
                     "refuse" counts as a pressed e-stop, and the state names it (`onboard/drivers/dds/discovery.py`)
    security:        folder of one role of a keystore (`onboard secure-setup`). The runtime ignores participants
                     without a certificate of this keystore
    odom_frame, map_frame, base_frame: names of the frames
    """

    domain: int | None = Field(None, ge=0, le=232, examples=[0])
    interface: str = "lo"
    peers: list[str] = Field(["127.0.0.1"])
    multicast: bool = False
    namespace: str = ""
    namespace_frames: bool = False
    remap: dict[str, str] = Field(default_factory=dict)
    stamped_cmd_vel: bool = False
    publish_tf: bool = True
    resend: bool = False
    judge_late: bool = True
    publish_used: bool = False
    e_stop_required: bool = False
    e_stop_timeout_s: float = Field(0.5, gt=0.0, le=10.0, allow_inf_nan=False)
    other_drivers: Literal["warn", "refuse"] = "warn"
    security: Path | None = Field(None, examples=["keys/onboard"])
    odom_frame: str = "odom"
    map_frame: str = "map"
    base_frame: str = "base_link"

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
    enabled:      record every tick
    directory:    folder of the recordings, from the folder of this file on; without this key `recordings`, from the
                  working folder on
    max_file_mb:  size of a file after which the next one begins [MB]
    max_files:    maximum number of unmarked files of this robot
    max_total_mb: maximum size of all files of this robot, marked files too; a new file counts with its full size
    min_free_mb:  free disk space at which recording ends
    queue_messages: messages that may wait for the disk; more are dropped and counted
    queue_mb:     size of the messages that may wait [MB]
    flush_s:      longest time until a message is on the disk [s]
    """

    enabled: bool = True
    directory: Path = Path("recordings")
    max_file_mb: Positive = 512.0
    max_files: int = Field(20, ge=1)
    max_total_mb: Positive = 10_000.0
    min_free_mb: NonNegative = 500.0
    queue_messages: int = Field(2000, ge=1)
    queue_mb: Positive = 256.0
    flush_s: Positive = 1.0


class Config(Section):
    """The whole configuration of one robot.

    limits_scan: scan of limits and recovery; without it the same as `scan`
    """

    robot: RobotSection = RobotSection()
    rates: RatesSection = RatesSection()
    cameras: CamerasSection = CamerasSection()
    scan: ScanSection = ScanSection()
    limits_scan: ScanSection | None = None
    odometry: OdometrySection = OdometrySection()
    policy: PolicySection = PolicySection()
    recovery: RecoverySection = RecoverySection()
    limits: LimitsSection = LimitsSection()
    zones: ZonesSection = ZonesSection()
    goal: GoalSection = GoalSection()
    dds: DdsSection = DdsSection()
    record: RecordSection = RecordSection()


def load_config(path: Path | None) -> Config:
    """Return the checked configuration of a file; None is the default robot. Raises ConfigError with one line."""
    path = path or DEFAULT_ROBOT / "onboard.toml"
    table = read_toml(path)
    try:
        config = Config.model_validate(table)
    except ValidationError as error:
        raise ConfigError(validation_lines(path, error)) from error
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
