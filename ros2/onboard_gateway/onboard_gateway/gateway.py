"""The node: topics both ways, NavigateToPose, NavigateThroughPoses, and services at start and end.

Its topics have the names of the runtime's configuration, relative: a namespace (`-r __ns:=/robot1`) and more remappings
are ROS's own. The runtime's scan is `onboard/scan` unless the configuration names it, because a lidar may have `scan`.
"""

import importlib
import math
import signal
import threading
import time

import rclpy
import rclpy.signals
import yaml
from builtin_interfaces.msg import Duration
from diagnostic_msgs.msg import DiagnosticArray
from geometry_msgs.msg import PoseStamped, Twist
from nav2_msgs.action import NavigateThroughPoses, NavigateToPose
from nav_msgs.msg import Path
from rclpy.action import ActionServer, CancelResponse, GoalResponse
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.executors import MultiThreadedExecutor
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from rclpy.serialization import deserialize_message, serialize_message
from rclpy.subscription import Subscription
from std_msgs.msg import Bool, Empty

from onboard_gateway.drive import Drive, Report
from onboard_gateway.hazards import TOPICS as HAZARDS
from onboard_gateway.hazards import Hazards
from onboard_gateway.runtime_link import RuntimeLink, StopWatch

BEST_EFFORT = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
RELIABLE = QoSProfile(depth=10)
LATCHED = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
EVERY = (LATCHED, BEST_EFFORT)
"""A latched sender's last value, and every other sender; best effort matches all."""
SUBSCRIBED = {
    "goal_pose": (RELIABLE,), "goals": (RELIABLE,), "cancel": (RELIABLE,), "pause": (RELIABLE,),
    "e_stop": EVERY, "obstacle": EVERY, "speed_limit": EVERY, "amcl_pose": EVERY,
}  # fmt: skip
KEPT = ("e_stop", "obstacle", "speed_limit", "amcl_pose")
"""Sent again to a new link."""
HOLD_S = 1.0
"""With several senders of a state (e-stop, obstacle), their messages are one stream here: a press holds for so long."""
STAMPED = "geometry_msgs/msg/TwistStamped"
FEEDBACK_S = 0.5
HAZARD_S = 0.1
"""Period in which the end of a hazard is looked for."""
AGAIN_S = 1.0
"""Time after which a goal or a cancel is sent again while the runtime has not answered."""
SERVICE_S = 10.0
PARAMETERS = {
    "socket": "/run/onboard/gateway.sock", "publish_tf": False, "start_services": [""], "stop_services": [""],
}  # fmt: skip


def kind_of(name):
    """Return the class of `std_msgs/msg/Bool` or `std_srvs/srv/Trigger`. Raises ImportError or AttributeError."""
    package, folder, kind = name.split("/")
    return getattr(importlib.import_module(f"{package}.{folder}"), kind)


def with_source_time(act):
    """Return a callback that calls `act(message, written_ns)`; 0 with rclpy of Humble, which passes no time."""
    if hasattr(Subscription, "CallbackType"):
        return lambda message, info: act(message, info["source_timestamp"])
    return lambda message: act(message, 0)


class Gateway(Node):
    """The gateway of one robot."""

    def __init__(self):
        super().__init__("onboard_gateway")
        self._settings = {name: self.declare_parameter(name, value).value for name, value in PARAMETERS.items()}
        self.drive = Drive()
        self._group = ReentrantCallbackGroup()
        self._types = None
        self._to_ros, self._kept, self._true_s = {}, {}, {}
        self._hazards, self._said = Hazards(), {"obstacle": False, "e_stop": False}
        self._hazard_lock = threading.Lock()
        self._began = threading.Event()
        self._stop_message = serialize_message(Twist())
        self._watch = StopWatch(self._stop)
        servers = ((NavigateToPose, "navigate_to_pose"), (NavigateThroughPoses, "navigate_through_poses"))
        self._actions = [
            ActionServer(
                self, kind, name, self._execute, callback_group=self._group, goal_callback=self._judge,
                cancel_callback=lambda _: CancelResponse.ACCEPT,
            )
            for kind, name in servers
        ]  # fmt: skip
        path = self._settings["socket"]
        self.get_logger().info(f"waiting for `onboard gateway` on {path}")
        self._link = RuntimeLink(path, self._found, self._heard, self._lost)

    # ---- topics

    def _found(self, types):
        """Open the topics at the first connection; send again what the runtime must know."""
        if self._types is None:
            self._types = types
            for name, kind in types["from_runtime"].items():
                wanted = name != "tf" or self._settings["publish_tf"]
                if wanted and (found := self._kind(name, kind)):
                    qos = LATCHED if name in ("state", "drive", "map") else RELIABLE
                    self._to_ros[name] = self.create_publisher(found, types["names"][name], qos)
            stop = kind_of(types["from_runtime"]["cmd_vel"])()
            self._stop_message = serialize_message(stop)
            for name, kind in types["to_runtime"].items():
                if found := self._kind(name, kind):
                    self._subscribe(name, found)
            self._subscribe_hazards()
            self._teleop_timer = self.create_timer(1.0, self._follow_teleop, callback_group=self._group)
        elif types != self._types:
            self.get_logger().error("the runtime's configuration has other topics now: restart this node")
        for name, message in list(self._kept.items()):
            self._link.send(name, message)
        self.get_logger().info("found `onboard gateway`")
        if not self._began.is_set():
            self._began.set()
            threading.Thread(target=self.call, args=("start_services",), daemon=True).start()

    def _full(self, name):
        """Return the full name of a topic in the robot's ROS."""
        return self.resolve_topic_name(self._types["names"][name])

    def _kind(self, name, kind):
        """Return the class of a topic's messages; None, and a line, where it is not installed."""
        try:
            return kind_of(kind)
        except (ImportError, AttributeError):
            self.get_logger().warning(f"{name} is not carried: {kind} is not installed here")
            return None

    def _follow_teleop(self):
        """Subscribe to an operator's TwistStamped once there is one; the subscription to Twist stays."""
        kinds = dict(self.get_topic_names_and_types()).get(self._full("cmd_vel_teleop"), ())
        if STAMPED in kinds:
            self._teleop_timer.cancel()
            self.create_subscription(
                kind_of(STAMPED), self._types["names"]["cmd_vel_teleop"],
                with_source_time(
                    lambda message, written_ns: self._pass_on(
                        "cmd_vel_teleop", serialize_message(message.twist), written_ns
                    )
                ),
                BEST_EFFORT, callback_group=self._group,
            )  # fmt: skip

    def _subscribe_hazards(self):
        """Subscribe to the base's hazards whose messages are installed; a base has at most one kind."""
        for topic, name in HAZARDS.items():
            try:
                kind = kind_of(name)
            except (ImportError, AttributeError):
                continue
            self.create_subscription(
                kind, topic, lambda message, topic=topic: self._hear_hazard(topic, message), BEST_EFFORT,
                callback_group=self._group,
            )  # fmt: skip
        self.create_timer(HAZARD_S, self._say_hazards, callback_group=self._group)

    def _hear_hazard(self, topic, message):
        if self._hazards.hear(topic, message):
            self._say_hazards()

    def _say_hazards(self):
        """Send `obstacle` and `e_stop` at each change of the hazards; the end only if no node presses them."""
        with self._hazard_lock:
            for name, said in self._said.items():
                active = self._hazards.active(name)
                if active != said:
                    self._said[name] = active
                    pressed = self._types["pressed"][name]
                    held = time.monotonic() - self._true_s.get(name, -HOLD_S) < HOLD_S
                    message = serialize_message(Bool(data=pressed if active or held else not pressed))
                    self._kept[name] = message
                    self._link.send(name, message, time.time_ns())

    def _subscribe(self, name, kind):
        for qos in SUBSCRIBED.get(name, (BEST_EFFORT,)):
            self.create_subscription(
                kind, self._types["names"][name],
                with_source_time(lambda message, written_ns: self._pass_on(name, message, written_ns)),
                qos, raw=True, callback_group=self._group,
            )  # fmt: skip

    def _pass_on(self, name, message, written_ns):
        if name in self._types["pressed"]:
            message = self._one_state(name, message)
        if name in KEPT:
            if name == "amcl_pose" and self._kept.get(name) == message:
                return  # by the other of the two subscriptions
            self._kept[name] = message
        self._link.send(name, message, written_ns)

    def _one_state(self, name, message):
        """Return a state of one sender; of several the press for HOLD_S after the last press."""
        now_s, pressed = time.monotonic(), self._types["pressed"][name]
        if deserialize_message(message, Bool).data == pressed:
            self._true_s[name] = now_s
            return message
        held = now_s - self._true_s.get(name, -HOLD_S) < HOLD_S and self.count_publishers(self._full(name)) > 1
        held = held or self._hazards.active(name)
        return serialize_message(Bool(data=pressed)) if held else message

    def _heard(self, name, message):
        if name == "cmd_vel":
            self._watch.note()
        elif name == "drive":
            values = deserialize_message(message, DiagnosticArray).status[0].values
            self.drive.note(Report.read({pair.key: pair.value for pair in values}))
        if name in self._to_ros:
            self._to_ros[name].publish(message)

    def _lost(self):
        self.drive.note(None)
        self.get_logger().warning("lost `onboard gateway`: the base is stopped, and goals end")

    def _stop(self):
        if rclpy.ok() and "cmd_vel" in self._to_ros:
            self._to_ros["cmd_vel"].publish(self._stop_message)

    # ---- actions

    def _judge(self, goal):
        if not self._link.connected:
            self.get_logger().warning("goal rejected: `onboard gateway` is not there")
            return GoalResponse.REJECT
        return GoalResponse.ACCEPT if poses_of(goal) else GoalResponse.REJECT

    def _execute(self, handle):
        """Drive one goal to its end. A newer one takes its place in the runtime, which ends this one."""
        result = NavigateToPose.Result() if hasattr(handle.request, "pose") else NavigateThroughPoses.Result()
        end = self._driven(handle)
        if hasattr(result, "error_code"):
            result.error_code = end.error_code
        if hasattr(result, "error_msg"):
            result.error_msg = end.reason
        if end.outcome == "reached":
            handle.succeed()
        elif end.outcome == "cancelled":
            handle.canceled()
        else:
            handle.abort()
            self.get_logger().warning(f"goal not reached: {end.reason}")
        return result

    def _driven(self, handle):
        stamp = self.drive.new_stamp(time.time_ns())
        path = Path(poses=poses_of(handle.request))
        path.header.frame_id = path.poses[0].header.frame_id
        path.header.stamp.sec, path.header.stamp.nanosec = divmod(stamp, 10**9)
        began_s = time.monotonic()
        accepted, cancelled, sent_s, told_s, first = False, False, 0.0, 0.0, None
        while True:
            if not accepted and time.monotonic() - sent_s >= AGAIN_S:  # a new link may lose the first message
                sent_s = time.monotonic()
                self._link.send("goals", serialize_message(path), time.time_ns())
            end = self.drive.end_of(stamp, began_s, accepted, cancelled)
            if end is not None:
                return end
            report = self.drive.report
            accepted = accepted or report.goal == stamp
            if accepted and handle.is_cancel_requested and time.monotonic() - sent_s >= AGAIN_S * cancelled:
                cancelled, sent_s = True, time.monotonic()
                self._link.send("cancel", serialize_message(Empty()))
            if accepted and time.monotonic() - told_s >= FEEDBACK_S:
                told_s, first = time.monotonic(), first or report
                handle.publish_feedback(self._feedback(handle, report, first, told_s - began_s))
            self.drive.wait(0.1)

    def _feedback(self, handle, report, first, spent_s):
        """Return the feedback; the time that remains is by the mean speed towards the goal so far."""
        sequence = not hasattr(handle.request, "pose")
        feedback = (NavigateThroughPoses if sequence else NavigateToPose).Feedback()
        feedback.current_pose = self._pose(report)
        feedback.navigation_time = duration(spent_s)
        nearer_m = first.distance_m - report.distance_m
        if nearer_m > 0.1:
            feedback.estimated_time_remaining = duration(spent_s * report.distance_m / nearer_m)
        feedback.number_of_recoveries = max(0, report.recoveries - first.recoveries)
        feedback.distance_remaining = report.distance_m
        if sequence:
            feedback.number_of_poses_remaining = report.goals_left
        return feedback

    def _pose(self, report):
        """Return the robot's pose in the map, in the odometry frame while it is not localised."""
        pose = PoseStamped()
        pose.header.stamp = self.get_clock().now().to_msg()
        pose.header.frame_id = self._types["frames"].get(report.frame, "")
        pose.pose.position.x, pose.pose.position.y = report.x_m, report.y_m
        pose.pose.orientation.z, pose.pose.orientation.w = math.sin(report.yaw_rad / 2), math.cos(report.yaw_rad / 2)
        return pose

    # ---- services

    def call(self, parameter):
        """Call the services of a parameter one after the other; log what does not work."""
        for text in filter(None, self._settings[parameter]):
            try:
                name, kind, *fields = text.split(maxsplit=2)
                service = kind_of(kind)
                request = service.Request()
                for field, value in (yaml.safe_load(fields[0]) if fields else {}).items():
                    setattr(request, field, value)
                self._call(self.create_client(service, name, callback_group=self._group), request, name)
            except (ValueError, ImportError, AttributeError, AssertionError, TypeError, yaml.YAMLError) as error:
                self.get_logger().error(f'{parameter}: {text!r}: {error}; expected "NAME TYPE {{field: value}}"')

    def _call(self, client, request, name):
        done = threading.Event()
        if not client.wait_for_service(SERVICE_S):
            self.get_logger().error(f"service {name} is not there after {SERVICE_S:g} s")
            return
        future = client.call_async(request)
        future.add_done_callback(lambda _: done.set())
        if not done.wait(SERVICE_S):
            self.get_logger().error(f"service {name}: no answer within {SERVICE_S:g} s")
        elif not getattr(future.result(), "success", True):
            self.get_logger().error(f"service {name} failed: {getattr(future.result(), 'message', '')}")
        else:
            self.get_logger().info(f"service {name} called")

    def close(self):
        """Cancel the drive, stop the base, call the services of the end."""
        self._link.send("cancel", serialize_message(Empty()))
        self._link.close()
        self._watch.close()
        self.call("stop_services")


def poses_of(goal):
    """Return the poses of a goal of either action, also where they are a nav_msgs/Goals."""
    if hasattr(goal, "pose"):
        return [goal.pose]
    return list(getattr(goal.poses, "goals", getattr(goal.poses, "poses", goal.poses)))


def duration(seconds):
    """Return a time as a message."""
    whole = int(seconds)
    return Duration(sec=whole, nanosec=int((seconds - whole) * 1e9))


def main():
    """Run the node until a signal."""
    rclpy.init(signal_handler_options=rclpy.signals.SignalHandlerOptions.NO)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    node, executor = Gateway(), MultiThreadedExecutor(8)
    executor.add_node(node)
    spinning = threading.Thread(target=executor.spin, daemon=True)
    spinning.start()
    ended.wait()
    node.close()
    executor.shutdown(1.0)
    spinning.join(1.0)  # a thread that still spins at the end aborts the process
    node.destroy_node()
    rclpy.try_shutdown()


if __name__ == "__main__":
    main()
