"""Topics of the twin, beside those that it has as any robot (`onboard/drivers/dds/topics.py`), all under its own
namespace.

As a robot has: odom, amcl_pose, scan, <camera>/depth/image, color/image. Their stamps are those of the robot's odometry
that they follow from, so that frames and poses can be matched.
"""

from __future__ import annotations

from onboard.config.config import DdsSection
from onboard.drivers.dds.topics import EVENT, LATCHED, NEWEST, Topic

POSE = Topic("twin pose", "pose", "geometry_msgs/msg/PoseStamped", NEWEST)
"""Where the twin is, in the frame of its map."""
COLLISION = Topic("twin collision", "collision", "std_msgs/msg/Bool", EVENT)
"""With every frame, after its sensors: whether the twin touches something. After a true one it is reset."""
STATE = Topic("twin state", "state", "std_msgs/msg/String", LATCHED)
"""RUNNING, or PAUSED and why."""
RESET = Topic("twin reset", "reset", "std_msgs/msg/Empty", EVENT)
PAUSE = Topic("twin pause", "pause", "std_msgs/msg/Empty", EVENT)
RESUME = Topic("twin resume", "resume", "std_msgs/msg/Empty", EVENT)

RUNNING = "running"
PAUSED = "paused"
NAMESPACE = "twin"


def twin_section(robot: DdsSection) -> DdsSection:
    """Return the twin's end of the wire: the robot's, in a namespace below its own, nothing renamed."""
    above = robot.namespace.strip("/")
    namespace = f"{above}/{NAMESPACE}" if above else NAMESPACE
    return robot.model_copy(update={"namespace": namespace, "remap": {}})


def robot_section(robot: DdsSection, odometry: str) -> DdsSection:
    """Return the end of the real base, of a configuration whose runtime hears the twin in its place by remapping.

    What is remapped into the twin's namespace has its own name again; the base's odometry is `odometry`.
    """
    own = {name: target for name, target in robot.remap.items() if NAMESPACE not in target.split("/")[:-1]}
    return robot.model_copy(update={"remap": {**own, "odom": odometry}})
