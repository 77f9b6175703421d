"""What the page says to the robot: a latched stop, goals, routes, its pose, and pause, resume and cancel."""

from __future__ import annotations

import contextlib
import math
import sys
import threading
import time
from pathlib import Path
from typing import Any

from onboard.commands.operator.dashboard.feed import NO_RUNTIME, Feed
from onboard.config.config import Config
from onboard.config.places import TOLD_SD, add_place, place_of, places_file
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_convert import ros_fix, ros_goal, ros_goals
from onboard.drivers.dds.ros_types import Bool, Empty
from onboard.navigation.mission import State, drives, state_word
from onboard.values.clock import wall_ns
from onboard.values.errors import InputError, OnboardError
from onboard.values.geometry import distance, wrap
from onboard.values.messages import Pose
from onboard.values.reasons import JOIN, STOPPED_BY_OPERATOR, row_of

REPEAT_S = 0.1
ANSWER_S = 3.0
"""Longest wait for the runtime's answer to a goal."""
RELEASED_S = 0.3
"""Between the release of the stop and the goal: the runtime must have had a tick with the e-stop released."""
ORDERS = {"pause": ("pause", Bool(True)), "resume": ("pause", Bool(False)), "cancel": ("cancel", Empty())}
WRITTEN = ("goal_pose", "goals", "pause", "cancel", "initialpose")
ACK_S = 1.0
POLL_S = 0.1
NEAR_M, SURE = 2.0, 0.5
"""The runtime has taken a stated pose when its own is off (a radian counts as a metre) by less than NEAR_M, and by less
than SURE or half as much as before: its tracker corrects the stated one."""
MOST_PLACES = 50


class Stop:
    """The latched stop: one more sender of the e-stop (`dds.remap.e_stop`), which says "pressed" until released.

    The runtime keeps its own latch besides: it drives only after a release *and* an accepted goal (R2 of `limits.py`).
    A sender that dies pressed stays pressed there. So that the next dashboard can release it, a file marks the stop.
    Between stops this sender says nothing: it must not stand in for a robot's own e-stop (`dds.e_stop_required`).
    """

    def __init__(self, config: Config, mark: Path) -> None:
        """Open the sender; press at once if the dashboard before this one was stopped. Raises DriverError."""
        self._config, self._mark = config, mark
        self._lock = threading.Lock()
        self._wire = Wire(config.dds)
        self._writer = self._wire.writer("e_stop")
        self.pressed = self._speaks = False
        self.presses = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="stop", daemon=True)
        self._thread.start()
        if mark.exists():
            self.press()

    def press(self) -> None:
        """Stop the robot, and keep it stopped. Never waits for a release."""
        with self._lock:
            self.pressed = self._speaks = True
            self.presses += 1
            self._say()
        with contextlib.suppress(OSError):  # the folder may be read-only: the stop itself must not depend on it
            self._mark.parent.mkdir(parents=True, exist_ok=True)
            self._mark.touch()

    def release(self) -> None:
        """Take the stop back: the robot stands until it accepts a goal. A new sender is ready for the next stop.

        A press meanwhile wins.
        """
        with self._lock:
            if not self.pressed:
                return
            self.pressed = False
            self._say()
        self._writer.wait_for_acks(ACK_S)
        fresh = Wire(self._config.dds)
        writer = fresh.writer("e_stop")
        writer.wait_for_reader(ACK_S)
        with self._lock:
            old = fresh if self.pressed else self._wire
            if not self.pressed:
                self._wire, self._writer, self._speaks = fresh, writer, False
                with contextlib.suppress(OSError):
                    self._mark.unlink()
        old.close()

    def close(self) -> None:
        """End the thread and the sender; a pressed stop stays with the runtime. Safe to call twice."""
        self._ended.set()
        self._thread.join()
        self._wire.close()

    def _say(self) -> None:
        self._writer.write(Bool(self.pressed == self._config.dds.e_stop_pressed))

    def _repeat(self) -> None:
        while not self._ended.wait(REPEAT_S):
            with self._lock:
                if self._speaks:
                    self._say()


class Orders:
    """Goals and words of the operators. One order at a time; `newest` says which, and whose."""

    def __init__(self, config: Config, wire: Wire, feed: Feed, stop: Stop) -> None:
        """Open the writers. Raises ConfigError, DriverError."""
        self._config, self._feed, self._stop = config, feed, stop
        self._writers = {name: wire.writer(name) for name in WRITTEN}
        self._lock = threading.Lock()
        self.newest = ""

    def note(self, what: str, sender: str) -> None:
        """Note an order for all pages, so that two operators see each other."""
        self.newest = f"{time.strftime('%H:%M:%S')} {what} from {sender}"

    def give(self, order: str, sender: str) -> str:
        """Give one of ORDERS; return what was done. Raises OnboardError without a runtime."""
        topic, sample = ORDERS[order]
        with self._lock:
            self._send(topic, sample)
            self.note(order, sender)
        return f"{order}: sent"

    def goal(self, table: Any, sender: str, presses: int | None = None) -> str:
        """Release the stop and send a goal; return the runtime's answer. Raises InputError if it is bad or refused.

        presses: of the stop, when the person asked; None for now. After a newer stop the goal is refused
        """
        self._drive(*self.destination(table), sender, presses=presses)
        return "goal accepted"

    def destination(self, table: Any) -> tuple[str, Pose, bool, str]:
        """Return frame, pose, whether the heading counts, and words for it, of a place or goal. Raises InputError."""
        if isinstance(table, dict) and set(table) == {"place"}:
            name = str(table["place"])
            return self._config.dds.map_frame, place_of(self._config, name).pose, True, f"goal {name}"
        frame, pose, heading = goal_of(table, self._config)
        return frame, pose, heading, f"goal {pose.x_m:.2f} {pose.y_m:.2f} in {frame}"

    def drive_to(
        self, name: str, sender: str, ended: threading.Event | None = None, presses: int | None = None
    ) -> int:  # fmt: skip
        """Send a place as a goal with its heading; return its stamp.

        ended: of a route, which releases no stop; None: a person asks. presses: of the stop, when the person asked;
        None for now. Raises InputError for an unknown place and for a refused goal, OnboardError without a runtime,
        after a newer stop, and for a route that has ended or is stopped.
        """
        return self._drive(*self.destination({"place": name}), sender, ended, presses)

    @property
    def presses(self) -> int:
        """Return how often this page's stop was pressed."""
        return self._stop.presses

    def pose(self, table: Any, sender: str) -> str:
        """State the robot's pose in the map; return what the runtime took. Raises InputError, OnboardError."""
        if isinstance(table, dict) and table.get("yaw_deg") is None:
            raise InputError("yaw_deg: a pose needs its heading")
        frame, pose, _ = goal_of(table, self._config)
        if frame != self._config.dds.map_frame:
            raise InputError('frame: a pose is stated in the frame "map"')
        with self._lock:
            if drives(self._feed.status()["state"]) and self._feed.drive().get("paused") != "True":
                raise InputError("the robot drives: pause or stop it before you state its pose")
            before = self._error(pose)
            self._send("initialpose", ros_fix(wall_ns(), frame, pose, TOLD_SD))
            self.note(f"pose {pose.x_m:.2f} {pose.y_m:.2f}", sender)
        if not wait_until(lambda: self._error(pose) < min(NEAR_M, max(SURE, 0.5 * before)), ANSWER_S):
            rows = [part["message"] for part in self._feed.snapshot()["parts"] if part["name"] == "pose"]
            raise OnboardError(
                JOIN.join(["the robot has not taken the pose (map.tracker, or its localisation)", *rows])
            )
        return "pose taken"

    def _error(self, pose: Pose) -> float:
        """Return how far the robot's belief is from a pose, inf without one."""
        now = self.believed()
        return math.inf if now is None else distance(now, pose) + abs(wrap(now.yaw_rad - pose.yaw_rad))

    def add_place(self, table: Any, sender: str) -> str:
        """Give the place where the robot stands a name. Raises InputError, ConfigError, OnboardError."""
        name = table.get("name") if isinstance(table, dict) else None
        if not isinstance(name, str):
            raise InputError('a place is {"name": "kitchen"}')
        with self._lock:
            here = self.believed()
            if here is None:
                raise OnboardError("the robot is not localised, so its place has no name")
            add_place(places_file(self._config), name, here)
            self.note(f"place {name}", sender)
        return f"{name}: x {here.x_m:.2f} m, y {here.y_m:.2f} m"

    def check_places(self, names: list[str]) -> None:
        """Raise InputError or ConfigError if one of the places is unknown."""
        for name in names:
            place_of(self._config, name)

    def believed(self) -> Pose | None:
        """Return the robot's pose in the map, None while it has none."""
        row = self._feed.drive()
        if not self._feed.live or row.get("frame") != "map":
            return None
        return Pose(float(row["x_m"]), float(row["y_m"]), float(row["yaw_rad"]))

    def _drive(
        self, frame: str, pose: Pose, heading: bool, what: str, sender: str, ended: threading.Event | None = None,
        presses: int | None = None,
    ) -> int:  # fmt: skip
        presses = self._stop.presses if presses is None else presses
        with self._lock:
            if not self._feed.live:
                raise OnboardError(NO_RUNTIME)
            if ended is not None and (ended.is_set() or self._stop.pressed):
                raise OnboardError("the stop of this page is pressed" if self._stop.pressed else "it was ended")
            if self._stop.presses != presses:
                raise OnboardError("the stop of this page was pressed after this order")
            released = self._stop.pressed
            if released:
                self._stop.release()
                time.sleep(RELEASED_S)
            stamp_ns = wall_ns()
            asked = ros_goal(stamp_ns, frame, pose)
            if not heading:
                asked.pose.orientation.w = 0.0
            try:
                if self._stop.pressed:
                    raise OnboardError("the stop of this page was pressed after this order")
                self._send(*(("goals", ros_goals(stamp_ns, [asked])) if heading else ("goal_pose", asked)))
                self.note(what, sender)
                self._answer(stamp_ns)
            except OnboardError:
                if released:  # only an accepted goal takes the stop back
                    self._stop.press()
                raise
            return stamp_ns

    def _send(self, topic: str, sample: Any) -> None:
        if not self._feed.live or not self._writers[topic].wait_for_reader(ACK_S):
            raise OnboardError(NO_RUNTIME)
        self._writers[topic].write(sample)

    def _answer(self, stamp_ns: int) -> None:
        def answered(key: str) -> bool:
            return self._feed.drive().get(key) == str(stamp_ns)

        if not wait_until(lambda: answered("goal") or answered("refused"), ANSWER_S):
            raise OnboardError(f"the runtime did not answer the goal within {ANSWER_S:g} s")
        if answered("refused"):
            raise InputError(f"goal refused: {self._feed.drive().get('refusal', '')}")


class Route:
    """Drives to places one after the other, while the dashboard lives.

    `onboard pause` and the page's pause hold it. Cancel, any stop, another goal, a runtime that restarts, and a lap in
    which no place was reached end it: it never drives on by itself after a person has stopped the robot.
    """

    def __init__(self, feed: Feed, orders: Orders) -> None:
        self._feed, self._orders = feed, orders
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.places: list[str] = []
        self.at, self.lap, self.said = 0, 0, ""

    @property
    def runs(self) -> bool:
        """Return whether the robot is on a route."""
        return self._thread is not None and self._thread.is_alive() and not self._ended.is_set()

    def state(self) -> dict[str, Any]:
        """Return what the page shows."""
        return {"runs": self.runs, "places": self.places, "at": self.at, "lap": self.lap, "said": self.said}

    def start(self, table: Any, sender: str, presses: int | None = None) -> str:
        """Begin a route {"places": [...], "loop": false}; it ends the one before. Raises InputError, OnboardError.

        presses: as for `Orders.goal`
        """
        places, loop = (table.get("places"), table.get("loop", False)) if isinstance(table, dict) else (None, False)
        named = isinstance(places, list) and all(isinstance(one, str) for one in places)
        if not named or not places or len(places) > MOST_PLACES or not isinstance(loop, bool):
            raise InputError(
                f'a route is {{"places": ["kitchen", ...], "loop": false}} of at most {MOST_PLACES} places'
            )
        self._orders.check_places(places)
        presses = self._orders.presses if presses is None else presses
        with self._lock:
            self.end("another route")
            if self._thread is not None:
                self._thread.join()
            stamp_ns = self._orders.drive_to(places[0], sender, presses=presses)
            self._ended = threading.Event()
            self.places, self.at, self.lap, self.said = list(places), 0, 1, ""
            self._thread = threading.Thread(target=self._run, args=(stamp_ns, loop, sender), name="route", daemon=True)
            self._thread.start()
        return f"route of {len(places)} places: {places[0]}"

    def end(self, why: str) -> None:
        """End the route, if there is one; the robot is not told. Safe to call twice."""
        if self.runs:
            self.said = f"route ended: {why}"
            self._ended.set()

    def _run(self, stamp_ns: int, loop: bool, sender: str) -> None:
        reached = 0
        try:
            while True:
                end = self._end_of(stamp_ns)
                if self._ended.is_set() or row_of(end) in STOPPED_BY_OPERATOR:
                    return self.end(end)
                reached += state_word(end) == State.REACHED.value
                self.at += 1
                if self.at == len(self.places):
                    if not loop or not reached:
                        return self.end(end if reached else f"no place was reached, {end}")
                    self.at, self.lap, reached = 0, self.lap + 1, 0
                try:
                    stamp_ns = self._orders.drive_to(self.places[self.at], sender, self._ended)
                except InputError as error:  # refused: as a place that is not reached
                    stamp_ns, self.said = 0, str(error)
        except OnboardError as error:
            self.end(str(error))

    def _end_of(self, stamp_ns: int) -> str:
        """Return the state in which the drive to a goal ended. Raises OnboardError if it is replaced."""
        if stamp_ns == 0:
            return self.said
        while not self._ended.wait(POLL_S):
            row = self._feed.drive()
            if not self._feed.live:
                raise OnboardError(NO_RUNTIME)
            if row.get("goal") != str(stamp_ns):
                raise OnboardError("another goal took its place, or the runtime started again")
            if not drives(row["state"]):
                return f"{row['state']}: {row['reason']}" if row["reason"] else row["state"]
        return self.said


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
