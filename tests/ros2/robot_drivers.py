"""Plays the ROS 2 driver of a robot that one can buy, around the project's simulated base. Runs under ROS 2's Python.

    robot_drivers.py ROBOT SIM_DOMAIN ROBOT_DOMAIN TOPICS

The simulated base is on one domain, under the names in TOPICS (JSON: odom, scan, cmd_vel). On the other domain are the
robot's own topics, with the names, types, QoS, frames and rays of its driver (the sources are in the README.md of its
folder in examples/robots). The base takes commands as the driver would: late ones count as zero. Prints "heard"
once the robot listens. Ends when standard input is closed, and then prints what it received as JSON.
"""

import json
import math
import sys
import threading
import time
from dataclasses import dataclass, field

import numpy as np
import rclpy
from geometry_msgs.msg import Twist
from nav_msgs.msg import Odometry
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, qos_profile_sensor_data, qos_profile_system_default
from sensor_msgs.msg import LaserScan
from std_msgs.msg import Bool

SENSOR, SYSTEM = qos_profile_sensor_data, qos_profile_system_default


@dataclass(frozen=True)
class Lidar:
    """Topic, QoS, frame and rays of a driver's scan.

    rays:   number, from `first_rad` on, `step_rad` apart
    near_m, far_m: its range_min and range_max; where the simulated lidar (10 m) sees nothing, it sends `nothing`
    hidden: sectors (from, to) [rad] and the value that it sends there: filtered out, or something of the robot itself
    """

    topic: str
    qos: QoSProfile | int
    frame: str
    rays: int
    first_rad: float
    step_rad: float
    near_m: float
    far_m: float
    nothing: float = math.inf
    hidden: tuple[tuple[float, float, float], ...] = ()

    def message(self, simulated: LaserScan) -> LaserScan:
        """Return the driver's scan of what the simulated lidar saw."""
        angles = self.first_rad + self.step_rad * np.arange(self.rays)
        index = np.round((angles - simulated.angle_min) / simulated.angle_increment).astype(int)
        ranges = np.asarray(simulated.ranges, np.float32)[index % len(simulated.ranges)]
        ranges = np.where(ranges > self.far_m, self.nothing, ranges)
        for low, high, value in self.hidden:
            ranges[(angles >= low) & (angles <= high)] = value
        message = LaserScan(
            angle_min=self.first_rad, angle_max=self.first_rad + self.step_rad * (self.rays - 1),
            angle_increment=self.step_rad, range_min=self.near_m, range_max=self.far_m, scan_time=0.1,
            ranges=ranges.astype(np.float32).tolist(), intensities=[47.0] * self.rays,
        )  # fmt: skip
        message.header.stamp, message.header.frame_id = simulated.header.stamp, self.frame
        return message


@dataclass(frozen=True)
class Driver:
    """What the driver of one robot publishes and takes. Topics have no namespace here; `namespace` goes in front."""

    lidar: Lidar
    odometry: str = "odom"
    odometry_qos: QoSProfile | int = 10
    base_frame: str = "base_link"
    command: str = "cmd_vel"
    command_qos: QoSProfile | int = 10
    timeout_s: float = 0.5
    namespace: str = ""
    stop: str | None = None
    stop_qos: QoSProfile | int = field(default_factory=lambda: SENSOR)
    reverses: bool = True


def turn(topic: str, qos: QoSProfile | int, frame: str, near_m: float, *hidden: tuple[float, float, float]) -> Lidar:
    """Return an RPLIDAR A1: one ray a degree, from behind."""
    return Lidar(topic, qos, frame, 360, -math.pi, math.radians(1.0), near_m, 12.0, hidden=hidden)


def fan(topic: str) -> Lidar:
    """Return a Hokuyo UST: 270 degrees."""
    step = math.radians(0.25)
    return Lidar(topic, 20, "lidar2d_0_laser", 1081, -2.35619, step, 0.06, 30.0, nothing=30.0)


def post(bearing_deg: float, range_m: float) -> tuple[float, float, float]:
    """Return what hides one of the posts of a TurtleBot 4's tower, nearer than the lidar's range_min."""
    return math.radians(bearing_deg - 2.0), math.radians(bearing_deg + 2.0), range_m


POSTS = [post(58.3 - 90.0, 0.134), post(-58.3 - 90.0, 0.134), post(111.7 - 90.0, 0.098), post(158.3, 0.098)]
MAST = (-1.34, -0.78, 13.0)
CLEARPATH = {"odometry": "platform/odom/filtered", "stop": "platform/emergency_stop", "command_qos": SYSTEM}
DRIVERS = {
    "turtlebot4": Driver(
        turn("scan", 10, "rplidar_link", 0.15, *POSTS), odometry_qos=SENSOR, command_qos=SENSOR, reverses=False
    ),
    "jackal": Driver(fan("sensors/lidar2d_0/scan"), namespace="j100_0000", **CLEARPATH),
    "husky": Driver(fan("sensors/lidar2d_0/scan"), namespace="a200_0000", **CLEARPATH),
    "stretch": Driver(
        turn("scan_filtered", 1000, "laser", 0.05, MAST), odometry_qos=1, command="stretch/cmd_vel", command_qos=1,
        stop="is_runstopped", stop_qos=1,
    ),
    "kobuki": Driver(
        turn("scan", 10, "laser", 0.15), odometry_qos=50, base_frame="base_footprint", command="commands/velocity",
        timeout_s=0.6,
    ),
}  # fmt: skip
"""QoS as in the drivers' sources: a number is the depth of a reliable stream."""
STEP_S = 0.05
STOP_S = 0.1
SETTLED = 30
"""Messages of odometry, while the robot listens, after which the test may send a goal."""


def say(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class Robot:
    """The driver, between the two domains."""

    def __init__(self, driver, sim, robot, topics):
        self._driver, self._heard_s, self._moving, self._passed_on = driver, 0.0, False, 0
        self.received = {"commands": 0, "reverse": 0, "fastest_mps": 0.0, "fastest_radps": 0.0}
        named = lambda topic: f"/{driver.namespace}/{topic}" if driver.namespace else f"/{topic}"  # noqa: E731
        lidar = driver.lidar
        self._base = sim.create_publisher(Twist, topics["cmd_vel"], 1)
        self._odometry = robot.create_publisher(Odometry, named(driver.odometry), driver.odometry_qos)
        self._scans = robot.create_publisher(LaserScan, named(lidar.topic), lidar.qos)
        sim.create_subscription(Odometry, topics["odom"], self._on_odometry, SENSOR)
        sim.create_subscription(
            LaserScan, topics["scan"], lambda scan: self._scans.publish(lidar.message(scan)), SENSOR
        )
        robot.create_subscription(Twist, named(driver.command), self._on_command, driver.command_qos)
        robot.create_timer(STEP_S, self._watch)
        if driver.stop is not None:
            stop = robot.create_publisher(Bool, named(driver.stop), driver.stop_qos)
            robot.create_timer(STOP_S, lambda: stop.publish(Bool(data=False)))

    def _on_odometry(self, message):
        message.header.frame_id, message.child_frame_id = "odom", self._driver.base_frame
        self._odometry.publish(message)
        heard = self._odometry.get_subscription_count() and self._scans.get_subscription_count()
        self._passed_on += bool(heard)
        if heard and self._passed_on == SETTLED:
            say("heard")

    def _on_command(self, command):
        seen = self.received
        seen["commands"] += 1
        seen["reverse"] += command.linear.x < 0.0
        seen["fastest_mps"] = max(seen["fastest_mps"], abs(command.linear.x))
        seen["fastest_radps"] = max(seen["fastest_radps"], abs(command.angular.z))
        if not self._driver.reverses:
            command.linear.x = max(command.linear.x, 0.0)
        self._heard_s, self._moving = time.monotonic(), True
        self._base.publish(command)

    def _watch(self):
        """Stop the base when the driver hears nothing for its timeout."""
        if self._moving and time.monotonic() - self._heard_s > self._driver.timeout_s:
            self._moving = False
            self._base.publish(Twist())


def node_on(domain, name):
    context = Context()
    rclpy.init(context=context, domain_id=domain)
    node = rclpy.create_node(name, context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    return node, executor


def main():
    name, sim_domain, robot_domain, topics = sys.argv[1:]
    sim, of_sim = node_on(int(sim_domain), "simulated_base")
    driver, of_driver = node_on(int(robot_domain), f"{name}_driver")
    robot = Robot(DRIVERS[name], sim, driver, json.loads(topics))
    for executor in (of_sim, of_driver):
        threading.Thread(target=executor.spin, daemon=True).start()
    sys.stdin.read()
    say(json.dumps(robot.received))
    for executor in (of_sim, of_driver):
        executor.shutdown()


main()
