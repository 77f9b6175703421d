"""A robot's own ROS 2 as one process: its base, a lidar that always sees walls 5 m away, a client of Nav2's actions.

Told by JSON lines on standard input; answers and reports on standard output. An argument is the robot's namespace.

    {"op": "go", "id": N, "poses": [[x, y, yaw], ...], "frame": F}   -> {"accepted": N, "ok": bool}, {"result": N, ...}
        one pose by NavigateToPose, several by NavigateThroughPoses; between, {"feedback": N, ...}
    {"op": "cancel", "id": N}                                        -> {"cancelled": N, "ok": bool}
    {"op": "say", "topic": T, "value": bool}                         -> {"said": T}
    {"op": "bump", "value": bool}      a Kobuki's bumper is pressed or released                  -> {"bumped": bool}
    {"op": "hazards", "kinds": [N]}    what a Create 3 repeats from now on, of HazardDetection   -> {"hazards": [N]}
    {"op": "base"}                -> {"base": [x, y, yaw], "commands": [[time, v, w], ...]} since the last time
    {"op": "stream", "seconds": S}     publishes its monotonic time on `direct` at 30 Hz         -> {"streamed": count}
    {"op": "latencies"}           -> {"latencies": {"cmd_vel": [s, ...], "direct": [s, ...]}}, of times in linear.z
"""

import json
import math
import random
import sys
import threading
import time

import rclpy
from diagnostic_msgs.srv import AddDiagnostics
from geometry_msgs.msg import PoseStamped, Twist
from irobot_create_msgs.msg import HazardDetection, HazardDetectionVector
from kobuki_ros_interfaces.msg import BumperEvent
from nav2_msgs.action import NavigateThroughPoses, NavigateToPose
from nav_msgs.msg import Odometry
from rclpy.action import ActionClient
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor
from rclpy.node import Node
from rclpy.qos import qos_profile_sensor_data
from sensor_msgs.msg import Imu, LaserScan
from std_msgs.msg import Bool

BASE_TIMEOUT_S = 0.5
PERIOD_S = 1.0 / 30.0


TELLING = threading.Lock()


def tell(**line):
    """Write one line; several threads do."""
    with TELLING:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


class Robot(Node):
    """Base, lidar and client."""

    def __init__(self, namespace):
        super().__init__("robot", namespace=namespace)
        group = ReentrantCallbackGroup()
        self.x = self.y = self.yaw = 0.0
        self.moved_s = time.monotonic()
        self.command, self.heard_s, self.commands = Twist(), 0.0, []
        self.latencies = {"cmd_vel": [], "direct": []}
        self.handles, self.calls = {}, []
        self.odometry = self.create_publisher(Odometry, "wheel/odom", qos_profile_sensor_data)
        self.scan = self.create_publisher(LaserScan, "scan", qos_profile_sensor_data)
        self.imu = self.create_publisher(Imu, "imu", qos_profile_sensor_data)
        self.hazard = self.create_publisher(HazardDetectionVector, "hazard_detection", qos_profile_sensor_data)
        self.bumper = self.create_publisher(BumperEvent, "events/bumper", 10)
        self.kinds = ()
        self.words = {name: self.create_publisher(Bool, name, 10) for name in ("e_stop", "onboard/pause")}
        self.create_subscription(Twist, "cmd_vel", self._command, 10, callback_group=group)
        self.create_subscription(Twist, "direct", lambda one: self._latency("direct", one), 10, callback_group=group)
        self.create_timer(PERIOD_S, self._move)
        for name in ("to_navigation", "to_rest"):
            self.create_service(
                AddDiagnostics, name, lambda asked, answer, name=name: self._called(asked, answer, name)
            )
        self.actions = {
            kind: ActionClient(self, kind, name, callback_group=group)
            for kind, name in ((NavigateToPose, "navigate_to_pose"), (NavigateThroughPoses, "navigate_through_poses"))
        }

    def _called(self, asked, answer, name):
        tell(service=name, field=asked.load_namespace)
        answer.success = True
        return answer

    def _latency(self, topic, twist):
        if twist.linear.z:
            self.latencies[topic].append(time.monotonic() - twist.linear.z)

    def _command(self, twist):
        self._latency("cmd_vel", twist)
        self.command, self.heard_s = twist, time.monotonic()
        self.commands.append((self.heard_s, twist.linear.x, twist.angular.z))

    def _move(self):
        now_s = time.monotonic()
        alive, elapsed_s, self.moved_s = now_s - self.heard_s < BASE_TIMEOUT_S, now_s - self.moved_s, now_s
        v, w = (self.command.linear.x, self.command.angular.z) if alive else (0.0, 0.0)
        self.yaw += w * elapsed_s
        self.x += v * elapsed_s * math.cos(self.yaw)
        self.y += v * elapsed_s * math.sin(self.yaw)
        odometry = Odometry()
        odometry.header.stamp = self.get_clock().now().to_msg()
        odometry.header.frame_id, odometry.child_frame_id = "odom", "base_link"
        odometry.pose.pose.position.x, odometry.pose.pose.position.y = self.x, self.y
        odometry.pose.pose.orientation.z = math.sin(self.yaw / 2.0)
        odometry.pose.pose.orientation.w = math.cos(self.yaw / 2.0)
        odometry.twist.twist.linear.x, odometry.twist.twist.angular.z = v, w
        self.odometry.publish(odometry)
        imu = Imu(header=odometry.header)
        imu.header.frame_id, imu.angular_velocity.z = "imu_link", w
        self.imu.publish(imu)
        if self.kinds:
            detections = [HazardDetection(type=kind) for kind in self.kinds]
            self.hazard.publish(HazardDetectionVector(detections=detections))
        scan = LaserScan(angle_min=-math.pi, angle_max=math.pi, angle_increment=math.pi / 180.0, range_max=10.0)
        scan.header.stamp, scan.header.frame_id = imu.header.stamp, "laser"
        scan.ranges = [random.gauss(5.0, 0.01) for _ in range(361)]
        self.scan.publish(scan)

    # ---- what it is told

    def go(self, order):
        number, poses = order["id"], [self._pose(order["frame"], *one) for one in order["poses"]]
        kind = NavigateToPose if len(poses) == 1 else NavigateThroughPoses
        goal = kind.Goal()
        if len(poses) == 1:
            goal.pose = poses[0]
        else:
            goal.poses = poses
        if not self.actions[kind].wait_for_server(10.0):
            tell(accepted=number, ok=False)
            return

        def fed(message):
            one = message.feedback
            left = getattr(one, "number_of_poses_remaining", 0)
            at = one.current_pose
            tell(
                feedback=number, distance_m=one.distance_remaining, left=left, frame=at.header.frame_id,
                x=at.pose.position.x, seconds=one.navigation_time.sec,
            )  # fmt: skip

        def answered(future):
            handle = self.handles[number] = future.result()
            tell(accepted=number, ok=handle.accepted)
            if handle.accepted:
                handle.get_result_async().add_done_callback(ended)

        def ended(future):
            result = future.result()
            tell(
                result=number,
                status=result.status,
                code=getattr(result.result, "error_code", None),
                text=getattr(result.result, "error_msg", None),
            )

        self.actions[kind].send_goal_async(goal, feedback_callback=fed).add_done_callback(answered)

    def _pose(self, frame, x, y, yaw):
        pose = PoseStamped()
        pose.header.frame_id = frame
        pose.pose.position.x, pose.pose.position.y = float(x), float(y)
        pose.pose.orientation.z, pose.pose.orientation.w = math.sin(yaw / 2.0), math.cos(yaw / 2.0)
        return pose

    def cancel(self, order):
        future = self.handles[order["id"]].cancel_goal_async()
        future.add_done_callback(lambda one: tell(cancelled=order["id"], ok=bool(one.result().goals_canceling)))

    def say(self, order):
        self.words[order["topic"]].publish(Bool(data=order["value"]))
        tell(said=order["topic"])

    def bump(self, order):
        self.bumper.publish(BumperEvent(bumper=1, state=order["value"]))
        tell(bumped=order["value"])

    def hazards(self, order):
        self.kinds = order["kinds"]
        tell(hazards=self.kinds)

    def base(self, _):
        commands, self.commands = self.commands, []
        tell(base=[self.x, self.y, self.yaw], commands=commands)

    def latencies_of(self, _):
        tell(latencies=self.latencies)


class Sender(Node):
    """A node that only sends commands, as the gateway does, so that their delay can be compared."""

    def __init__(self, namespace):
        super().__init__("sender", namespace=namespace)
        self.direct = self.create_publisher(Twist, "direct", 10)

    def stream(self, order):
        count, twist = 0, Twist()
        until_s = time.monotonic() + order["seconds"]
        while time.monotonic() < until_s:
            twist.linear.z = time.monotonic()
            self.direct.publish(twist)
            count += 1
            time.sleep(PERIOD_S)
        tell(streamed=count)


def main():
    rclpy.init()
    namespace, sends = sys.argv[1], sys.argv[2:] == ["sender"]
    node = Sender(namespace) if sends else Robot(namespace)
    executor = MultiThreadedExecutor(4)
    executor.add_node(node)
    threading.Thread(target=executor.spin, daemon=True).start()
    operations = {"stream": node.stream} if sends else {"go": node.go, "cancel": node.cancel, "say": node.say,
                                                        "base": node.base, "bump": node.bump, "hazards": node.hazards,
                                                        "latencies": node.latencies_of}  # fmt: skip
    tell(ready=True)
    for line in sys.stdin:
        order = json.loads(line)
        operations[order["op"]](order)


if __name__ == "__main__":
    main()
