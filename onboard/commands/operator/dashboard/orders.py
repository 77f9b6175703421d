"""What the page says to the robot: goals, its pose, places, and pause, resume and cancel."""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from onboard.assembly.places_in_map import name_place
from onboard.commands.operator.dashboard.feed import NO_RUNTIME, Feed
from onboard.commands.operator.dashboard.stop import Stop
from onboard.config.config import Config
from onboard.config.places import TOLD_SD, place_name, place_of, places_file
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_convert import ros_fix, ros_goal, ros_goals
from onboard.drivers.dds.ros_types import Bool, Empty
from onboard.navigation.mission import drives
from onboard.recording.scene import is_lost
from onboard.values import reasons
from onboard.values.clock import wall_ns
from onboard.values.errors import InputError, OnboardError
from onboard.values.geometry import distance, wrap
from onboard.values.messages import Pose
from onboard.values.reasons import JOIN, row_of

ANSWER_S = 3.0
"""Longest wait for the runtime's answer to a goal."""
SEEN_S, PAUSE_S = 0.3, 0.5
"""Between the release of the stop and the goal, so that the runtime has a tick without it; before another attempt."""
AT_STOP = (reasons.GOAL_AT_E_STOP, reasons.GOAL_AT_RELEASE)
ORDERS = {"pause": ("pause", Bool(True)), "resume": ("pause", Bool(False)), "cancel": ("cancel", Empty())}
WRITTEN = ("goal_pose", "goals", "pause", "cancel", "initialpose")
ACK_S = 1.0
NEAR_M, SURE = 2.0, 0.5
"""The runtime has taken a stated pose when its own is off (a radian counts as a metre) by less than NEAR_M, and by less
than SURE or half as much as before: its tracker corrects the stated one."""
NOBODY = {
    "initialpose": "nothing accepts a pose: no localisation reads /initialpose, and there is no tracker (map.tracker)"
}
"""Why nothing reads a topic while the runtime lives."""
STOPPED_AFTER = "the stop was pressed after this order"
CANCELLED_AFTER = "it was cancelled"


@dataclass(frozen=True, slots=True)
class Operator:
    """A person who gives an order. address: of his browser; presses: of the stop, as far as he knew"""

    address: str
    presses: int


class Destination(NamedTuple):
    """Where to drive. heading: whether the yaw counts; words: for people"""

    frame: str
    pose: Pose
    heading: bool
    words: str


class Orders:
    """Goals and words of the operators. One order at a time; `newest` says which, and whose."""

    def __init__(self, config: Config, wire: Wire, feed: Feed, stop: Stop) -> None:
        """Open the writers. Raises ConfigError, DriverError."""
        self._config, self._feed, self._stop = config, feed, stop
        self._writers = {name: wire.writer(name) for name in WRITTEN}
        self._lock = threading.Lock()
        self._cancels = 0
        self.newest = ""

    def note(self, what: str, operator: Operator) -> None:
        """Note an order for all pages, so that two operators see each other."""
        self.newest = f"{time.strftime('%H:%M:%S')} {what} from {operator.address}"

    def give(self, order: str, operator: Operator) -> str:
        """Give one of ORDERS, without waiting for a goal that is being sent; return what was done.

        Raises OnboardError without a runtime.
        """
        topic, sample = ORDERS[order]
        self._cancels += order == "cancel"
        self._send(topic, sample)
        self.note(order, operator)
        return f"{order}: sent"

    def goal(self, table: Any, operator: Operator, accepted: Callable[[], None]) -> str:
        """Release the stop and send a goal; return the runtime's answer. Raises as `drive_to`."""
        self.drive_to(self.destination(table), operator, accepted)
        return "goal accepted"

    def destination(self, table: Any) -> Destination:
        """Return where to drive, of {"place": name} or of a goal (`goal_of`). Raises ConfigError, InputError."""
        if isinstance(table, dict) and set(table) == {"place"}:
            name = str(table["place"])
            return Destination(self._config.dds.map_frame, place_of(self._config, name).pose, True, f"goal {name}")
        frame, pose, heading = goal_of(table, self._config)
        return Destination(frame, pose, heading, f"goal {pose.x_m:.2f} {pose.y_m:.2f} in {frame}")

    def drive_to(self, where: Destination, operator: Operator, accepted: Callable[[], None]) -> int:
        """Send a person's goal; return its stamp [ns]. It releases the stop, once the runtime accepts it.

        accepted: called then, before any other order; a refused goal changes nothing
        Raises InputError for a refused goal, OnboardError without a runtime, and after a stop that the operator did
        not know.
        """
        cancels = self._cancels
        with self._lock:
            self._check(operator)
            asked = self._released if self._stop.pressed else self._asked
            stamp_ns = asked(where, operator, cancels)
            accepted()
            return stamp_ns

    def drive_on(self, where: Destination, operator: Operator, ended: threading.Event) -> int:
        """Send the next goal of a route, which releases no stop; return its stamp [ns]. Raises as `drive_to`.

        ended: of the route; set, nothing is sent
        """
        cancels = self._cancels
        with self._lock:
            if ended.is_set():
                raise OnboardError("it was ended")
            self._check(operator)
            if self._stop.pressed:
                raise OnboardError("the stop is pressed")
            return self._asked(where, operator, cancels)

    def _check(self, operator: Operator) -> None:
        if not self._feed.live:
            raise OnboardError(NO_RUNTIME)
        if self._stop.presses != operator.presses:
            raise OnboardError(STOPPED_AFTER)

    def _released(self, where: Destination, operator: Operator, cancels: int) -> int:
        self.note(f"{where.words} (the stop is being released)", operator)
        by, until_s = self._stop.by, time.monotonic() + self._stop.lingers_s
        try:
            while True:
                if not self._stop.release(operator.presses):
                    raise OnboardError(STOPPED_AFTER)
                time.sleep(SEEN_S)
                try:
                    return self._asked(where, operator, cancels)
                except InputError as error:
                    if row_of(str(error)) not in AT_STOP or time.monotonic() > until_s:
                        raise
                time.sleep(PAUSE_S)
        except OnboardError:  # only an accepted goal takes the stop back
            self._stop.press(by)
            raise

    def pose(self, table: Any, operator: Operator) -> str:
        """State the robot's pose in the map; return what the runtime took. Raises InputError, OnboardError."""
        if isinstance(table, dict) and table.get("yaw_deg") is None:
            raise InputError("yaw_deg: a pose needs its heading")
        frame, pose, _ = goal_of(table, self._config)
        if frame != self._config.dds.map_frame:
            raise InputError('frame: the frame of a pose is "map"')
        with self._lock:
            if drives(self._feed.status()["state"]) and self._feed.drive().get("paused") != "True":
                raise InputError("the robot drives: pause or stop it before you set its pose")
            before = self._error(pose)
            self._send("initialpose", ros_fix(wall_ns(), frame, pose, TOLD_SD))
            self.note(f"pose {pose.x_m:.2f} {pose.y_m:.2f}", operator)
        if not wait_until(lambda: self._error(pose) < min(NEAR_M, max(SURE, 0.5 * before)), ANSWER_S):
            rows = [part["message"] for part in self._feed.snapshot()["parts"] if part["name"] == "pose"]
            raise OnboardError(
                JOIN.join(["the robot did not accept the pose (map.tracker, or its localisation)", *rows])
            )
        return "pose taken"

    def _error(self, pose: Pose) -> float:
        """Return how far the robot's belief is from a pose, inf without one."""
        now = self.believed()
        return math.inf if now is None else distance(now, pose) + abs(wrap(now.yaw_rad - pose.yaw_rad))

    def takes_no_pose(self) -> str:
        """Return why a stated pose is taken by nothing, "" where something takes it."""
        return "" if not self._feed.live or self._writers["initialpose"].readers() else NOBODY["initialpose"]

    def add_place(self, table: Any, operator: Operator) -> str:
        """Give the place where the robot stands a name. Raises InputError, ConfigError, OnboardError."""
        if not isinstance(table, dict) or not isinstance(table.get("name"), str):
            raise InputError('a place is {"name": "kitchen"}')
        name, _ = place_name(table["name"]), places_file(self._config)
        with self._lock:
            here = self.believed()
            if here is None or is_lost(self._feed.drive()):
                raise OnboardError("the robot is not localised, so its place cannot be named")
            name_place(self._config, name, here)
            self.note(f"place {name}", operator)
        return f"{name}: x {here.x_m:.2f} m, y {here.y_m:.2f} m"

    def believed(self) -> Pose | None:
        """Return the robot's pose in the map, None while it has none."""
        row = self._feed.drive()
        if not self._feed.live or row.get("frame") != "map":
            return None
        return Pose(float(row["x_m"]), float(row["y_m"]), float(row["yaw_rad"]))

    def _asked(self, where: Destination, operator: Operator, cancels: int) -> int:
        stamp_ns = wall_ns()
        asked = ros_goal(stamp_ns, where.frame, where.pose)
        if not where.heading:
            asked.pose.orientation.w = 0.0
        if self._stop.presses != operator.presses:
            raise OnboardError(STOPPED_AFTER)
        if self._cancels == cancels:
            self._send(*(("goals", ros_goals(stamp_ns, [asked])) if where.heading else ("goal_pose", asked)))
            self.note(where.words, operator)
            self._answer(stamp_ns)
        if self._cancels != cancels:
            self._send(*ORDERS["cancel"])  # the first may have overtaken the goal
            raise OnboardError(CANCELLED_AFTER)
        return stamp_ns

    def _send(self, topic: str, sample: Any) -> None:
        if not self._feed.live:
            raise OnboardError(NO_RUNTIME)
        if not self._writers[topic].wait_for_reader(ACK_S):
            raise OnboardError(NOBODY.get(topic, NO_RUNTIME))
        self._writers[topic].write(sample)

    def _answer(self, stamp_ns: int) -> None:
        def answered(key: str) -> bool:
            return self._feed.drive().get(key) == str(stamp_ns)

        if not wait_until(lambda: answered("goal") or answered("refused"), ANSWER_S):
            raise OnboardError(f"the runtime did not answer the goal within {ANSWER_S:g} s")
        if answered("refused"):
            raise InputError(f"goal refused: {self._feed.drive().get('refusal', '')}")


def goal_of(table: Any, config: Config) -> tuple[str, Pose, bool]:
    """Return frame, pose and whether the heading counts, of {"x", "y", "frame", "yaw_deg"}. Raises InputError."""
    frames = {"base": config.dds.base_frame, "odom": config.dds.odom_frame, "map": config.dds.map_frame}
    if not isinstance(table, dict) or set(table) - {"x", "y", "frame", "yaw_deg"}:
        raise InputError('a goal is {"x": m, "y": m, "frame": "base", "odom" or "map", "yaw_deg": deg or null}')
    frame, yaw = table.get("frame", "base"), table.get("yaw_deg")
    if not isinstance(frame, str) or frame not in frames:
        raise InputError(f"frame: {str(frame)[:20]!r}, expected base, odom or map")
    for name in ("x", "y", *(() if yaw is None else ("yaw_deg",))):
        value = table.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
            raise InputError(f"{name}: {str(value)[:20]}, expected a finite number")
    yaw_rad = math.radians(yaw or 0.0)
    return (
        frames[frame],
        Pose(float(table["x"]), float(table["y"]), math.atan2(math.sin(yaw_rad), math.cos(yaw_rad))),
        yaw is not None,
    )
