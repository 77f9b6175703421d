"""The ROS 2 messages that we exchange, as DDS types: final, keyless, XCDR1, fields as in the .msg files.

Names on the wire follow `rmw`: `geometry_msgs/msg/Twist` is `geometry_msgs::msg::dds_::Twist_`. Fields are annotated
here and now, not as strings: cyclonedds resolves only names of this module, and `float`, `str`, `bool` are not.

`sequence<uint8>` is `bytes` here and passes without a loop over its elements; other sequences of numbers must be lists
or tuples (cyclonedds tests their truth, which a numpy array refuses).
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from cyclonedds.idl import IdlStruct
from cyclonedds.idl._builder import Builder
from cyclonedds.idl._machinery import BytesMachine
from cyclonedds.idl._support import Buffer
from cyclonedds.idl.types import array, float32, float64, int8, int32, sequence, uint8, uint32

from onboard.values.errors import InputError


class ByteSequence(sequence):
    """`sequence<uint8>` (or of another type of one byte) to the type system, one slice of `bytes` to the serializer.

    cyclonedds (11.0.1) has no such type: `sequence[uint8]` becomes a list of numbers, and plain `bytes` has no type
    description for other participants.
    """

    def __init__(self, kind: Any = uint8) -> None:
        super().__init__(kind)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByteSequence) and other.subtype == self.subtype

    def __hash__(self) -> int:
        return hash(ByteSequence)


Builder.easy_types[ByteSequence()] = BytesMachine
Builder.easy_types[ByteSequence(int8)] = BytesMachine

Bytes = Annotated[bytes, ByteSequence()]
Int8Bytes = Annotated[bytes, ByteSequence(int8)]
"""`sequence<int8>` as the bytes of its numbers."""
Float32s = Annotated[Sequence[float], sequence(float32)]
Float64s = Annotated[Sequence[float], sequence(float64)]
Float64x9 = Annotated[Sequence[float], array(float64, 9)]
Float64x12 = Annotated[Sequence[float], array(float64, 12)]
Float64x36 = Annotated[Sequence[float], array(float64, 36)]


def _zeros(count: int) -> Callable[[], Sequence[float]]:
    return lambda: [0.0] * count


@dataclass
class Time(IdlStruct, typename="builtin_interfaces.msg.dds_.Time_"):
    sec: int32 = 0
    nanosec: uint32 = 0


@dataclass
class Header(IdlStruct, typename="std_msgs.msg.dds_.Header_"):
    stamp: Time = field(default_factory=Time)
    frame_id: str = ""


@dataclass
class String(IdlStruct, typename="std_msgs.msg.dds_.String_"):
    data: str = ""


@dataclass
class Bool(IdlStruct, typename="std_msgs.msg.dds_.Bool_"):
    data: bool = False


@dataclass
class Empty(IdlStruct, typename="std_msgs.msg.dds_.Empty_"):
    structure_needs_at_least_one_member: uint8 = 0


@dataclass
class Vector3(IdlStruct, typename="geometry_msgs.msg.dds_.Vector3_"):
    x: float64 = 0.0
    y: float64 = 0.0
    z: float64 = 0.0


@dataclass
class Point(IdlStruct, typename="geometry_msgs.msg.dds_.Point_"):
    x: float64 = 0.0
    y: float64 = 0.0
    z: float64 = 0.0


@dataclass
class Quaternion(IdlStruct, typename="geometry_msgs.msg.dds_.Quaternion_"):
    x: float64 = 0.0
    y: float64 = 0.0
    z: float64 = 0.0
    w: float64 = 1.0


@dataclass
class Twist(IdlStruct, typename="geometry_msgs.msg.dds_.Twist_"):
    linear: Vector3 = field(default_factory=Vector3)
    angular: Vector3 = field(default_factory=Vector3)


@dataclass
class TwistStamped(IdlStruct, typename="geometry_msgs.msg.dds_.TwistStamped_"):
    header: Header = field(default_factory=Header)
    twist: Twist = field(default_factory=Twist)


@dataclass
class TwistWithCovariance(IdlStruct, typename="geometry_msgs.msg.dds_.TwistWithCovariance_"):
    twist: Twist = field(default_factory=Twist)
    covariance: Float64x36 = field(default_factory=_zeros(36))


@dataclass
class Pose(IdlStruct, typename="geometry_msgs.msg.dds_.Pose_"):
    position: Point = field(default_factory=Point)
    orientation: Quaternion = field(default_factory=Quaternion)


@dataclass
class PoseStamped(IdlStruct, typename="geometry_msgs.msg.dds_.PoseStamped_"):
    header: Header = field(default_factory=Header)
    pose: Pose = field(default_factory=Pose)


PoseStampeds = Annotated[Sequence[PoseStamped], sequence(PoseStamped)]


@dataclass
class Path(IdlStruct, typename="nav_msgs.msg.dds_.Path_"):
    header: Header = field(default_factory=Header)
    poses: PoseStampeds = field(default_factory=list)


@dataclass
class PoseWithCovariance(IdlStruct, typename="geometry_msgs.msg.dds_.PoseWithCovariance_"):
    pose: Pose = field(default_factory=Pose)
    covariance: Float64x36 = field(default_factory=_zeros(36))


@dataclass
class PoseWithCovarianceStamped(IdlStruct, typename="geometry_msgs.msg.dds_.PoseWithCovarianceStamped_"):
    header: Header = field(default_factory=Header)
    pose: PoseWithCovariance = field(default_factory=PoseWithCovariance)


@dataclass
class Transform(IdlStruct, typename="geometry_msgs.msg.dds_.Transform_"):
    translation: Vector3 = field(default_factory=Vector3)
    rotation: Quaternion = field(default_factory=Quaternion)


@dataclass
class TransformStamped(IdlStruct, typename="geometry_msgs.msg.dds_.TransformStamped_"):
    header: Header = field(default_factory=Header)
    child_frame_id: str = ""
    transform: Transform = field(default_factory=Transform)


TransformStampeds = Annotated[Sequence[TransformStamped], sequence(TransformStamped)]


@dataclass
class TFMessage(IdlStruct, typename="tf2_msgs.msg.dds_.TFMessage_"):
    transforms: TransformStampeds = field(default_factory=list)


@dataclass
class Odometry(IdlStruct, typename="nav_msgs.msg.dds_.Odometry_"):
    header: Header = field(default_factory=Header)
    child_frame_id: str = ""
    pose: PoseWithCovariance = field(default_factory=PoseWithCovariance)
    twist: TwistWithCovariance = field(default_factory=TwistWithCovariance)


@dataclass
class LaserScan(IdlStruct, typename="sensor_msgs.msg.dds_.LaserScan_"):
    header: Header = field(default_factory=Header)
    angle_min: float32 = 0.0
    angle_max: float32 = 0.0
    angle_increment: float32 = 0.0
    time_increment: float32 = 0.0
    scan_time: float32 = 0.0
    range_min: float32 = 0.0
    range_max: float32 = 0.0
    ranges: Float32s = field(default_factory=list)
    intensities: Float32s = field(default_factory=list)


@dataclass
class PointField(IdlStruct, typename="sensor_msgs.msg.dds_.PointField_"):
    name: str = ""
    offset: uint32 = 0
    datatype: uint8 = 0
    count: uint32 = 0


PointFields = Annotated[Sequence[PointField], sequence(PointField)]


@dataclass
class PointCloud2(IdlStruct, typename="sensor_msgs.msg.dds_.PointCloud2_"):
    header: Header = field(default_factory=Header)
    height: uint32 = 0
    width: uint32 = 0
    fields: PointFields = field(default_factory=list)
    is_bigendian: bool = False
    point_step: uint32 = 0
    row_step: uint32 = 0
    data: Bytes = b""
    is_dense: bool = False


@dataclass
class SpeedLimit(IdlStruct, typename="nav2_msgs.msg.dds_.SpeedLimit_"):
    header: Header = field(default_factory=Header)
    percentage: bool = False
    speed_limit: float64 = 0.0


@dataclass
class BatteryState(IdlStruct, typename="sensor_msgs.msg.dds_.BatteryState_"):
    header: Header = field(default_factory=Header)
    voltage: float32 = 0.0
    temperature: float32 = 0.0
    current: float32 = 0.0
    charge: float32 = 0.0
    capacity: float32 = 0.0
    design_capacity: float32 = 0.0
    percentage: float32 = 0.0
    power_supply_status: uint8 = 0
    power_supply_health: uint8 = 0
    power_supply_technology: uint8 = 0
    present: bool = False
    cell_voltage: Float32s = field(default_factory=list)
    cell_temperature: Float32s = field(default_factory=list)
    location: str = ""
    serial_number: str = ""


@dataclass
class Imu(IdlStruct, typename="sensor_msgs.msg.dds_.Imu_"):
    header: Header = field(default_factory=Header)
    orientation: Quaternion = field(default_factory=Quaternion)
    orientation_covariance: Float64x9 = field(default_factory=_zeros(9))
    angular_velocity: Vector3 = field(default_factory=Vector3)
    angular_velocity_covariance: Float64x9 = field(default_factory=_zeros(9))
    linear_acceleration: Vector3 = field(default_factory=Vector3)
    linear_acceleration_covariance: Float64x9 = field(default_factory=_zeros(9))


@dataclass
class Image(IdlStruct, typename="sensor_msgs.msg.dds_.Image_"):
    header: Header = field(default_factory=Header)
    height: uint32 = 0
    width: uint32 = 0
    encoding: str = ""
    is_bigendian: uint8 = 0
    step: uint32 = 0
    data: Bytes = b""


@dataclass
class CompressedImage(IdlStruct, typename="sensor_msgs.msg.dds_.CompressedImage_"):
    header: Header = field(default_factory=Header)
    format: str = ""
    data: Bytes = b""


@dataclass
class RegionOfInterest(IdlStruct, typename="sensor_msgs.msg.dds_.RegionOfInterest_"):
    x_offset: uint32 = 0
    y_offset: uint32 = 0
    height: uint32 = 0
    width: uint32 = 0
    do_rectify: bool = False


@dataclass
class CameraInfo(IdlStruct, typename="sensor_msgs.msg.dds_.CameraInfo_"):
    header: Header = field(default_factory=Header)
    height: uint32 = 0
    width: uint32 = 0
    distortion_model: str = ""
    d: Float64s = field(default_factory=list)
    k: Float64x9 = field(default_factory=_zeros(9))
    r: Float64x9 = field(default_factory=_zeros(9))
    p: Float64x12 = field(default_factory=_zeros(12))
    binning_x: uint32 = 0
    binning_y: uint32 = 0
    roi: RegionOfInterest = field(default_factory=RegionOfInterest)


@dataclass
class Duration(IdlStruct, typename="builtin_interfaces.msg.dds_.Duration_"):
    sec: int32 = 0
    nanosec: uint32 = 0


@dataclass
class MapMetaData(IdlStruct, typename="nav_msgs.msg.dds_.MapMetaData_"):
    map_load_time: Time = field(default_factory=Time)
    resolution: float32 = 0.0
    width: uint32 = 0
    height: uint32 = 0
    origin: Pose = field(default_factory=Pose)


@dataclass
class OccupancyGrid(IdlStruct, typename="nav_msgs.msg.dds_.OccupancyGrid_"):
    header: Header = field(default_factory=Header)
    info: MapMetaData = field(default_factory=MapMetaData)
    data: Int8Bytes = b""


@dataclass
class Point32(IdlStruct, typename="geometry_msgs.msg.dds_.Point32_"):
    x: float32 = 0.0
    y: float32 = 0.0
    z: float32 = 0.0


Point32s = Annotated[Sequence[Point32], sequence(Point32)]
Points = Annotated[Sequence[Point], sequence(Point)]


@dataclass
class Polygon(IdlStruct, typename="geometry_msgs.msg.dds_.Polygon_"):
    points: Point32s = field(default_factory=list)


@dataclass
class PolygonStamped(IdlStruct, typename="geometry_msgs.msg.dds_.PolygonStamped_"):
    header: Header = field(default_factory=Header)
    polygon: Polygon = field(default_factory=Polygon)


@dataclass
class ColorRGBA(IdlStruct, typename="std_msgs.msg.dds_.ColorRGBA_"):
    r: float32 = 0.0
    g: float32 = 0.0
    b: float32 = 0.0
    a: float32 = 0.0


ColorRGBAs = Annotated[Sequence[ColorRGBA], sequence(ColorRGBA)]


@dataclass
class UVCoordinate(IdlStruct, typename="visualization_msgs.msg.dds_.UVCoordinate_"):
    u: float32 = 0.0
    v: float32 = 0.0


UVCoordinates = Annotated[Sequence[UVCoordinate], sequence(UVCoordinate)]


@dataclass
class MeshFile(IdlStruct, typename="visualization_msgs.msg.dds_.MeshFile_"):
    filename: str = ""
    data: Bytes = b""


@dataclass
class Marker(IdlStruct, typename="visualization_msgs.msg.dds_.Marker_"):
    header: Header = field(default_factory=Header)
    ns: str = ""
    id: int32 = 0
    type: int32 = 0
    action: int32 = 0
    pose: Pose = field(default_factory=Pose)
    scale: Vector3 = field(default_factory=Vector3)
    color: ColorRGBA = field(default_factory=ColorRGBA)
    lifetime: Duration = field(default_factory=Duration)
    frame_locked: bool = False
    points: Points = field(default_factory=list)
    colors: ColorRGBAs = field(default_factory=list)
    texture_resource: str = ""
    texture: CompressedImage = field(default_factory=CompressedImage)
    uv_coordinates: UVCoordinates = field(default_factory=list)
    text: str = ""
    mesh_resource: str = ""
    mesh_file: MeshFile = field(default_factory=MeshFile)
    mesh_use_embedded_materials: bool = False


Markers = Annotated[Sequence[Marker], sequence(Marker)]


@dataclass
class MarkerArray(IdlStruct, typename="visualization_msgs.msg.dds_.MarkerArray_"):
    markers: Markers = field(default_factory=list)


@dataclass
class KeyValue(IdlStruct, typename="diagnostic_msgs.msg.dds_.KeyValue_"):
    key: str = ""
    value: str = ""


KeyValues = Annotated[Sequence[KeyValue], sequence(KeyValue)]


@dataclass
class DiagnosticStatus(IdlStruct, typename="diagnostic_msgs.msg.dds_.DiagnosticStatus_"):
    level: uint8 = 0
    name: str = ""
    message: str = ""
    hardware_id: str = ""
    values: KeyValues = field(default_factory=list)


DiagnosticStatuses = Annotated[Sequence[DiagnosticStatus], sequence(DiagnosticStatus)]


@dataclass
class DiagnosticArray(IdlStruct, typename="diagnostic_msgs.msg.dds_.DiagnosticArray_"):
    header: Header = field(default_factory=Header)
    status: DiagnosticStatuses = field(default_factory=list)


MESSAGES: tuple[type[IdlStruct], ...] = (
    BatteryState, Bool, CameraInfo, CompressedImage, DiagnosticArray, Empty, Image, Imu, LaserScan, MarkerArray,
    OccupancyGrid, Odometry, Path, PointCloud2, PolygonStamped, PoseStamped, PoseWithCovarianceStamped, SpeedLimit,
    String, TFMessage, Twist, TwistStamped,
)  # fmt: skip
"""The types of whole messages; all other types are their parts."""

HEADER_BYTES = 4
"""The encapsulation header in front of every serialised message: representation and options."""

Sample = TypeVar("Sample", bound=IdlStruct)


def ros_name(kind: type[IdlStruct]) -> str:
    """Return the name that ROS users type: `geometry_msgs/msg/Twist`."""
    package, _, _, name = kind.__idl_typename__.split(".")
    return f"{package}/msg/{name.removesuffix('_')}"


BY_ROS_NAME: dict[str, type[IdlStruct]] = {ros_name(kind): kind for kind in MESSAGES}


def to_cdr(sample: IdlStruct) -> bytes:
    """Return the sample as `rclpy.serialization.serialize_message` gives it: 4-byte header, XCDR1, little endian."""
    return sample.serialize(use_version_2=False)


def from_cdr(kind: type[Sample], data: bytes) -> Sample:
    """Return the sample in bytes of `to_cdr`, of either byte order. Raises InputError for invalid bytes."""
    if len(data) <= HEADER_BYTES:
        raise InputError(f"{len(data)} bytes are not a {ros_name(kind)}: there is nothing after the header")
    buffer = Buffer(data, align_offset=HEADER_BYTES)
    try:
        sample = kind.deserialize(buffer)  # type: ignore[arg-type]  # takes a Buffer too, which tells how far it read
    except (struct.error, UnicodeDecodeError, OverflowError) as error:
        raise InputError(f"{len(data)} bytes are not a {ros_name(kind)}: {error}") from error
    if buffer.tell() > len(data):  # cyclonedds silently returns a shorter string or bytes
        raise InputError(f"{len(data)} bytes are not a {ros_name(kind)}: it is cut off, {buffer.tell()} were announced")
    return sample


# ---- The ROS graph, which has no message of ours

GUID_BYTES = 16
GID_BYTES = (GUID_BYTES, 24)
"""Size of an endpoint's identity in ROS 2 since Iron, and before. It begins with DDS's GUID."""


@dataclass
class NodeGraph(IdlStruct, typename="rmw_dds_common.msg.dds_.ParticipantEntitiesInfo_"):
    """The nodes of one ROS 2 process. The type has two layouts, so `deserialize` reads it.

    nodes: name of the node of each writer, by the writer's GUID
    """

    gid: Annotated[Sequence[int], array(uint8, GUID_BYTES)] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.process = b""
        self.nodes: dict[bytes, str] = {}

    @classmethod
    def deserialize(cls, data: bytes, *_: Any, **__: Any) -> "NodeGraph":
        """Return the graph in a message; an empty graph for other bytes."""
        graph = cls()
        for gid_bytes in GID_BYTES:
            try:
                graph.process, graph.nodes = _nodes(data, gid_bytes)
                break
            except (struct.error, ValueError):  # the other layout, or no such message
                continue
        return graph


def _nodes(data: bytes, gid_bytes: int) -> tuple[bytes, dict[bytes, str]]:
    """Return the process's GUID and its writers' nodes. Raises struct.error or ValueError for another layout."""
    order, at = "<" if data[1] & 1 else ">", 4 + gid_bytes
    nodes: dict[bytes, str] = {}

    def number() -> int:
        nonlocal at
        at += -at % 4
        at += 4
        return int(struct.unpack_from(f"{order}I", data, at - 4)[0])

    def block(size: int) -> bytes:
        nonlocal at
        if at + size > len(data):
            raise ValueError("longer than the message")
        at += size
        return data[at - size : at]

    for _ in range(number()):
        namespace, name = (block(number()).rstrip(b"\0").decode(errors="replace") for _ in range(2))
        block(number() * gid_bytes)  # its readers
        full = f"{namespace.strip('/')}/{name}".strip("/")
        nodes |= dict.fromkeys((block(gid_bytes)[:GUID_BYTES] for _ in range(number())), full)
    if len(data) - at >= 4:
        raise ValueError("shorter than the message")
    return data[4 : 4 + GUID_BYTES], nodes
