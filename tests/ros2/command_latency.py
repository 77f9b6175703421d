"""Two real ROS 2 nodes that measure commands, under the interpreter of the ROS 2 environment, not under the project's.

    command_latency.py read TOPIC COUNT...    hears so many commands of each topic; prints {topic: [latency_ns, ...]}
    command_latency.py send TOPIC COUNT HZ    waits for a reader, reads a line, then sends so many commands at HZ

A command has the time at which it was sent in linear.x: CLOCK_MONOTONIC [ns], exact in a double for 104 days.
"""

import json
import sys
import time

import rclpy
from geometry_msgs.msg import Twist
from rclpy.node import Node

NS_PER_S = 1_000_000_000
LIMIT_S = 300.0


def tell(line):
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def read(node, topics):
    latencies = {topic: [] for topic in topics}

    def hear(topic, message):
        now_ns = time.monotonic_ns()
        latencies[topic].append(now_ns - int(message.linear.x))

    for topic in topics:
        node.create_subscription(Twist, topic, lambda message, topic=topic: hear(topic, message), 10)
    tell("ready")
    deadline_s = time.monotonic() + LIMIT_S
    while any(len(latencies[topic]) < count for topic, count in topics.items()) and time.monotonic() < deadline_s:
        rclpy.spin_once(node, timeout_sec=0.1)
    tell(json.dumps(latencies))


def send(node, topic, count, hz):
    publisher = node.create_publisher(Twist, topic, 10)
    while publisher.get_subscription_count() == 0:
        time.sleep(0.01)
    tell("ready")
    begun_ns = int(sys.stdin.readline())
    message = Twist()
    for number in range(count):
        left_ns = begun_ns + round(number * NS_PER_S / hz) - time.monotonic_ns()
        time.sleep(max(0.0, left_ns / NS_PER_S))
        message.linear.x = float(time.monotonic_ns())
        publisher.publish(message)
    sys.stdin.readline()


def main():
    what, *rest = sys.argv[1:]
    rclpy.init()
    node = Node(f"command_latency_{what}")
    if what == "read":
        read(node, {topic: int(count) for topic, count in zip(rest[::2], rest[1::2], strict=True)})
    else:
        send(node, rest[0], int(rest[1]), float(rest[2]))


if __name__ == "__main__":
    main()
