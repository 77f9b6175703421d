"""Which topic of a bag is which input of ours: found by type, or named by who asks. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hil.recordings.bags.bag import IMAGE, BagTopic, uncompressed
from onboard.values.errors import InputError

TRANSFORMS = "tf2_msgs/msg/TFMessage"
CAMERA_INFO = "sensor_msgs/msg/CameraInfo"


@dataclass(frozen=True, slots=True)
class Role:
    """What a topic is for.

    name:    of the role, and of the option that names its topic
    ours:    our name of the topic
    kinds:   its ROS types
    words:   last parts of names by which one of several topics is chosen
    by_word: whether it takes such a name to be chosen at all, for others have these types as well
    without: what follows where there is none
    """

    name: str
    ours: str
    kinds: tuple[str, ...]
    words: tuple[str, ...]
    by_word: bool
    without: str


#    name            ours         types                                              words
ROLES = (
    Role("odometry", "odom", ("nav_msgs/msg/Odometry",), ("odom", "odometry"), False,
         "the runtime does not know that the robot moves, and stands still"),
    Role("laser", "", ("sensor_msgs/msg/LaserScan",), ("scan",), False, ""),
    Role("localization", "amcl_pose", ("geometry_msgs/msg/PoseWithCovarianceStamped",), ("amcl_pose",), True,
         "poses come from the odometry alone"),
    Role("goals", "goal_pose", ("geometry_msgs/msg/PoseStamped",), ("goal_pose", "goal", "move_base_simple_goal"), True,
         ""),
    Role("commands", "cmd_vel", ("geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped"), ("cmd_vel",), False,
         "there is nothing to compare decisions with"),
)  # fmt: skip


def choose(role: Role, topics: Sequence[BagTopic], asked: str | None) -> str | None:
    """Return the topic of a role, None where the bag has none; "" asks for none.

    Raises InputError for one that is asked for and not there, and where several are of its type.
    """
    fitting = [topic.name for topic in topics if topic.kind in role.kinds]
    if asked is not None:
        return _named(role.name, role.kinds, topics, asked) if asked else None
    called = [name for name in fitting if name.rsplit("/", 1)[-1] in role.words]
    found = called or ([] if role.by_word else fitting)
    if len(found) > 1:
        raise InputError(f"several topics can be the {role.name}: name one with --{role.name}: {', '.join(found)}")
    return found[0] if found else None


def named_cameras(topics: Sequence[BagTopic], asked: Sequence[str]) -> dict[str, str]:
    """Return the topic of each camera in texts "NAME=TOPIC". Raises InputError."""
    found: dict[str, str] = {}
    for text in asked:
        name, equals, topic = text.partition("=")
        if not (name.isidentifier() and equals and topic):
            raise InputError(f"--depth {text}: must be NAME=TOPIC, the name of a camera and that of its topic")
        found[name] = _named("depth", (IMAGE,), topics, topic)
    return found


def named_color(topics: Sequence[BagTopic], asked: str | None) -> str | None:
    """Return the topic of colour images as asked, "" for none, None for the one that is found. Raises InputError."""
    return _named("color", (IMAGE,), topics, asked) if asked else asked


def camera_name(topic: str, mounts: Mapping[str, object] | None) -> str | None:
    """Return which camera a topic of images is of: a mount whose name is a part of the topic's, or the only one.

    Without mounts it is what is left of the topic's name without the usual words. None where no mount fits.
    """
    parts = uncompressed(topic).strip("/").split("/")
    if mounts is None:
        return "_".join(part for part in parts if not set(part.split("_")) & USUAL_WORDS) or "camera"
    if len(mounts) == 1:
        return next(iter(mounts))
    return next((part for part in parts if part in mounts), None)


USUAL_WORDS = {"depth", "image", "raw", "rect", "aligned", "color"}


def info_topic(image_topic: str) -> str:
    """Return the topic on which a camera's intrinsics are, by ROS custom."""
    return f"{uncompressed(image_topic).rsplit('/', 1)[0]}/camera_info"


def _named(option: str, kinds: Sequence[str], topics: Sequence[BagTopic], asked: str) -> str:
    kind = next((topic.kind for topic in topics if topic.name == asked), None)
    if kind is None:
        fitting = ", ".join(topic.name for topic in topics if topic.kind in kinds) or "none"
        raise InputError(f"--{option} {asked}: there is no such topic; of that type there is {fitting}")
    if kind not in kinds:
        raise InputError(f"--{option} {asked}: is a {kind}, must be {' or '.join(kinds)}")
    return asked
