"""Maps topics of a bag to inputs of the runtime, by type or by option. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hil.recordings.bags.bag import CLOUD, IMAGE, LASER, BagTopic, uncompressed
from onboard.values.errors import InputError


@dataclass(frozen=True, slots=True)
class Role:
    """Purpose of a topic.

    name:    role, and its option
    ours:    topic name in the runtime
    kinds:   ROS types
    words:   last parts of topic names that are preferred
    by_word: only topics with such a name fit, because other topics share the type
    without: consequence of a missing topic
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
    Role("laser", "", (LASER,), ("scan",), False, ""),
    Role("localization", "amcl_pose", ("geometry_msgs/msg/PoseWithCovarianceStamped",), ("amcl_pose",), True,
         "poses come from the odometry alone"),
    Role("goals", "goal_pose", ("geometry_msgs/msg/PoseStamped",), ("goal_pose", "goal", "move_base_simple_goal"), True,
         ""),
    Role("commands", "cmd_vel", ("geometry_msgs/msg/Twist", "geometry_msgs/msg/TwistStamped"), ("cmd_vel",), False,
         "there is nothing to compare decisions with"),
)  # fmt: skip


def choose(role: Role, topics: Sequence[BagTopic], named: str | None) -> str | None:
    """Return the topic of a role or None. named: the option; "" means no topic.

    Raises InputError for an unknown topic, and if several topics fit.
    """
    fitting = [topic.name for topic in topics if topic.kind in role.kinds]
    if named is not None:
        return _named(role.name, role.kinds, topics, named) if named else None
    called = [name for name in fitting if name.rsplit("/", 1)[-1] in role.words]
    found = called or ([] if role.by_word else fitting)
    if len(found) > 1:
        fuse = ", or fuse them, each with --lidar" if LASER in role.kinds else ""
        raise InputError(
            f"several topics can be the {role.name}: name one with --{role.name}{fuse}: {', '.join(found)}"
        )
    return found[0] if found else None


def named_cameras(topics: Sequence[BagTopic], named: Sequence[str]) -> dict[str, str]:
    """Return the topic by camera of texts "NAME=TOPIC". Raises InputError."""
    found: dict[str, str] = {}
    for text in named:
        name, equals, topic = text.partition("=")
        if not (name.isidentifier() and equals and topic):
            raise InputError(f"--depth {text}: must be NAME=TOPIC, the name of a camera and that of its topic")
        found[name] = _named("depth", (IMAGE,), topics, topic)
    return found


def named_lidars(topics: Sequence[BagTopic], named: Sequence[str]) -> list[str]:
    """Return the asked topics of lidars. Raises InputError for one that is none."""
    return [_named("lidar", (LASER, CLOUD), topics, topic) for topic in named]


def named_color(topics: Sequence[BagTopic], named: str | None) -> str | None:
    """Return the asked colour topic; "" (none) and None (find one) pass. Raises InputError for a bad topic."""
    return _named("color", (IMAGE,), topics, named) if named else named


def camera_name(topic: str, mounts: Mapping[str, object] | None) -> str | None:
    """Return the camera of an image topic: the only mount, or the mount whose name is a part of the topic.

    Without mounts, the name is the topic without the usual words. None if no mount fits.
    """
    parts = uncompressed(topic).strip("/").split("/")
    if mounts is None:
        return "_".join(part for part in parts if not set(part.split("_")) & USUAL_WORDS) or "camera"
    if len(mounts) == 1:
        return next(iter(mounts))
    return next((part for part in parts if part in mounts), None)


USUAL_WORDS = {"depth", "image", "raw", "rect", "aligned", "color"}


def info_topic(image_topic: str) -> str:
    """Return the CameraInfo topic of an image topic, by ROS convention."""
    return f"{uncompressed(image_topic).rsplit('/', 1)[0]}/camera_info"


def _named(option: str, kinds: Sequence[str], topics: Sequence[BagTopic], named: str) -> str:
    kind = next((topic.kind for topic in topics if topic.name == named), None)
    if kind is None:
        fitting = ", ".join(topic.name for topic in topics if topic.kind in kinds) or "none"
        raise InputError(f"--{option} {named}: there is no such topic; of that type there is {fitting}")
    if kind not in kinds:
        raise InputError(f"--{option} {named}: is a {kind}, must be {' or '.join(kinds)}")
    return named
