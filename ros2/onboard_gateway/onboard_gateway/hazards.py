"""What a base reports of bumps, cliffs and dropped wheels, as the runtime's `obstacle` and `e_stop`. No ROS here.

    base       topics                                     counts as
    Create 3   hazard_detection                           bump, cliff, stall: obstacle; wheel drop: e-stop
    Kobuki     events/bumper, events/cliff, wheel_drop    bumper, cliff: obstacle; wheel drop: e-stop

A Create 3 repeats its hazards, so each counts for HOLD_S after the last message with it. A Kobuki sends an event at
each change, so each sensor counts until it is released.
"""

import time

HOLD_S = 0.5
CREATE3 = {1: "obstacle", 2: "obstacle", 3: "obstacle", 4: "e_stop"}
"""HazardDetection.type: BUMP, CLIFF, STALL, WHEEL_DROP. BACKUP_LIMIT (0) and OBJECT_PROXIMITY (5) stop nothing."""
TOPICS = {
    "hazard_detection": "irobot_create_msgs/msg/HazardDetectionVector",
    "events/bumper": "kobuki_ros_interfaces/msg/BumperEvent",
    "events/cliff": "kobuki_ros_interfaces/msg/CliffEvent",
    "events/wheel_drop": "kobuki_ros_interfaces/msg/WheelDropEvent",
}
EVENTS = {"events/bumper": "obstacle", "events/cliff": "obstacle", "events/wheel_drop": "e_stop"}
SENSOR = {"events/bumper": "bumper", "events/cliff": "sensor", "events/wheel_drop": "wheel"}


class Hazards:
    """The hazards that count now."""

    def __init__(self, now_s=time.monotonic):
        self._now_s = now_s
        self._until_s = {}

    def hear(self, topic, message):
        """Note one message of TOPICS; return what it touches: `obstacle`, `e_stop`."""
        if topic in EVENTS:
            key = (EVENTS[topic], f"{topic}/{getattr(message, SENSOR[topic])}")
            if message.state:
                self._until_s[key] = float("inf")
            else:
                self._until_s.pop(key, None)
            return {key[0]}
        found = {CREATE3[one.type] for one in message.detections if one.type in CREATE3}
        for name in found:
            self._until_s[name, topic] = self._now_s() + HOLD_S
        return found

    def active(self, name):
        """Return whether a hazard makes `obstacle` or `e_stop` true."""
        now_s = self._now_s()
        return any(until_s > now_s for (kind, _), until_s in self._until_s.items() if kind == name)
