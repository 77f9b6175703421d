"""A real ROS 2 node, told by JSON lines on standard input what to do; it answers and reports on standard output.

Runs under the interpreter of the ROS 2 environment, not under the project's. Operations:

    {"op": "serialize", "type": T, "fields": {...}}                  -> {"cdr": hex}
    {"op": "publish", "topic": N, "type": T, "qos": Q, "fields": {}} -> {"published": N, "readers": count}
    {"op": "publish_raw", "topic": N, "type": T, "cdr": hex}         -> {"published": N, "readers": count}
    {"op": "subscribe", "topic": N, "type": T, "qos": Q}             -> {"subscribed": N}
    for everything that is heard                                     -> {"heard": N, "qos": Q, "fields": {}, "cdr": hex}
    for what a subscription that insists on a rate is told           -> {"event": "deadline"} or
                                                                        {"event": "liveliness", "alive": count}

`publish` waits up to PATIENCE_S for a reader. Bytes travel as {"hex": "..."}.
"""

import array
import importlib
import json
import select
import sys
import time

import rclpy
from rclpy.duration import Duration
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.qos import (
    QoSDurabilityPolicy,
    QoSLivelinessPolicy,
    QoSProfile,
    QoSReliabilityPolicy,
    qos_profile_sensor_data,
)
from rclpy.serialization import deserialize_message, serialize_message

PATIENCE_S = 5.0
MATCHED_S = 0.1
"""A writer knows its reader before that reader knows it. `ros2 topic pub` looks every 0.1 s, so it waits as well."""
LATCHED = QoSProfile(depth=1, durability=QoSDurabilityPolicy.TRANSIENT_LOCAL, reliability=QoSReliabilityPolicy.RELIABLE)
HALF_A_SECOND = Duration(seconds=0.5)
BASE = QoSProfile(
    depth=1,
    deadline=HALF_A_SECOND,
    liveliness=QoSLivelinessPolicy.MANUAL_BY_TOPIC,
    liveliness_lease_duration=HALF_A_SECOND,
)
QOS = {"default": 10, "sensor": qos_profile_sensor_data, "latched": LATCHED, "base": BASE}


def message_type(name):
    package, _, kind = name.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), kind)


def element_type(message, field):
    """The class of the elements of a sequence field, by its declaration `sequence<package/Kind>`."""
    package, kind = message.get_fields_and_field_types()[field].removeprefix("sequence<").removesuffix(">").split("/")
    return message_type(f"{package}/msg/{kind}")


def fill(message, fields):
    for name, value in fields.items():
        now = getattr(message, name)
        if isinstance(value, dict) and "hex" in value:
            setattr(message, name, array.array("B", bytes.fromhex(value["hex"])))
        elif isinstance(value, dict):
            fill(now, value)
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            kind = element_type(message, name)
            setattr(message, name, [fill(kind(), element) for element in value])
        else:
            setattr(message, name, bytes([value]) if isinstance(now, bytes) else value)
    return message


def plain(value):
    if hasattr(value, "get_fields_and_field_types"):
        return {name: plain(getattr(value, name)) for name in value.get_fields_and_field_types()}
    if isinstance(value, bytes) and len(value) == 1:
        return value[0]
    if isinstance(value, array.array) and value.typecode == "B":
        return {"hex": value.tobytes().hex()}
    if isinstance(value, str | int | float | bool):
        return value
    return [plain(element) for element in value]


def say(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


class Peer:
    def __init__(self):
        self.node = rclpy.create_node("peer")
        self.publishers = {}

    def serialize(self, order):
        say(cdr=serialize_message(fill(message_type(order["type"])(), order["fields"])).hex())

    def publish(self, order):
        self._send(order, order["qos"], fill(message_type(order["type"])(), order["fields"]))

    def publish_raw(self, order):
        self._send(order, "default", bytes.fromhex(order["cdr"]))

    def _send(self, order, qos, message):
        key = order["topic"], order["type"], qos
        if key not in self.publishers:
            self.publishers[key] = self.node.create_publisher(message_type(order["type"]), order["topic"], QOS[qos])
        publisher = self.publishers[key]
        deadline = time.monotonic() + PATIENCE_S
        while not publisher.get_subscription_count() and time.monotonic() < deadline:
            rclpy.spin_once(self.node, timeout_sec=0.02)
        time.sleep(MATCHED_S)
        publisher.publish(message)
        say(published=order["topic"], readers=publisher.get_subscription_count())

    def subscribe(self, order):
        kind, topic, qos = message_type(order["type"]), order["topic"], order["qos"]

        def heard(cdr):
            say(heard=topic, qos=qos, fields=plain(deserialize_message(cdr, kind)), cdr=cdr.hex())

        callbacks = SubscriptionEventCallbacks(
            deadline=lambda event: say(event="deadline"),
            liveliness=lambda event: say(event="liveliness", alive=event.alive_count),
        )
        insists = {"event_callbacks": callbacks} if qos == "base" else {}
        self.node.create_subscription(kind, topic, heard, QOS[qos], raw=True, **insists)
        say(subscribed=topic)


def main():
    rclpy.init()
    peer = Peer()
    say(ready=True)
    while True:
        rclpy.spin_once(peer.node, timeout_sec=0.005)
        if select.select([sys.stdin], [], [], 0.0)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            order = json.loads(line)
            getattr(peer, order["op"])(order)


main()
