"""Topics of the twin, in the namespace of the twin.

The twin also publishes the usual topics of a robot (`onboard/drivers/dds/topics.py`): odom, amcl_pose, scan,
<camera>/depth/image, color/image. Each message has the stamp of the robot's odometry message that caused it. So a
reader can match frames and poses.
"""

from __future__ import annotations

from onboard.config.config import DdsSection
from onboard.drivers.dds.topics import EVENT, LATCHED, LOG, NEWEST, Topic

POSE = Topic("twin pose", "pose", "geometry_msgs/msg/PoseStamped", NEWEST)
"""Pose of the twin, in the frame of its map."""
POINTS = Topic("twin points", "points", "sensor_msgs/msg/PointCloud2", LOG)
"""Cloud of the lidar of paper 4, in the base frame. Sent while somebody listens."""
COLLISION = Topic("twin collision", "collision", "std_msgs/msg/Bool", EVENT)
"""Whether the twin touches an object. Sent with every frame, after the sensor data. After true, the twin is reset."""
STATE = Topic("twin state", "state", "std_msgs/msg/String", LATCHED)
"""RUNNING, or PAUSED and the reason."""
RESET = Topic("twin reset", "reset", "std_msgs/msg/Empty", EVENT)
PAUSE = Topic("twin pause", "pause", "std_msgs/msg/Empty", EVENT)
RESUME = Topic("twin resume", "resume", "std_msgs/msg/Empty", EVENT)

RUNNING = "running"
PAUSED = "paused"
NAMESPACE = "twin"


def twin_section(robot: DdsSection) -> DdsSection:
    """Return the twin's DDS section: the robot's section with a namespace below the robot's, without remapping."""
    above = robot.namespace.strip("/")
    namespace = f"{above}/{NAMESPACE}" if above else NAMESPACE
    return robot.model_copy(update={"namespace": namespace, "remap": {}})


def robot_section(robot: DdsSection, odometry: str) -> DdsSection:
    """Return the DDS section of the real base. In the given section, remapping leads the runtime to the twin's topics.

    The result drops every remapping into the twin's namespace. It maps `odom` to `odometry`, the base's topic.
    """
    own = {name: target for name, target in robot.remap.items() if NAMESPACE not in target.split("/")[:-1]}
    return robot.model_copy(update={"remap": {**own, "odom": odometry}})
