"""What the page says to the robot: a latched stop, and goals, pause, resume and cancel."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from pathlib import Path
from typing import Any

from onboard.commands.operator.dashboard.feed import NO_RUNTIME, Feed
from onboard.config.config import Config
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_convert import ros_goal, ros_goals
from onboard.drivers.dds.ros_types import Bool, Empty
from onboard.values.clock import wall_ns
from onboard.values.errors import InputError, OnboardError
from onboard.values.messages import Pose

REPEAT_S = 0.1
ANSWER_S = 3.0
"""Longest wait for the runtime's answer to a goal."""
RELEASED_S = 0.3
"""Between the release of the stop and the goal: the runtime must have had a tick with the e-stop released."""
ORDERS = {"pause": ("pause", Bool(True)), "resume": ("pause", Bool(False)), "cancel": ("cancel", Empty())}
ACK_S = 1.0


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
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="stop", daemon=True)
        self._thread.start()
        if mark.exists():
            self.press()

    def press(self) -> None:
        """Stop the robot, and keep it stopped. Never waits for a release."""
        with self._lock:
            self.pressed = self._speaks = True
            self._say()
        with contextlib.suppress(OSError):  # the folder may be read-only: the stop itself must not depend on it
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
        self._writers = {name: wire.writer(name) for name in ("goal_pose", "goals", "pause", "cancel")}
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

    def goal(self, table: Any, sender: str) -> str:
        """Release the stop and send a goal; return the runtime's answer. Raises InputError if it is bad or refused."""
        frame, pose, heading = goal_of(table, self._config)
        with self._lock:
            if not self._feed.live:
                raise OnboardError(NO_RUNTIME)
            if self._stop.pressed:
                self._stop.release()
                time.sleep(RELEASED_S)
            stamp_ns = wall_ns()
            asked = ros_goal(stamp_ns, frame, pose)
            if not heading:
                asked.pose.orientation.w = 0.0
            self._send(*(("goals", ros_goals(stamp_ns, [asked])) if heading else ("goal_pose", asked)))
            self.note(f"goal {pose.x_m:.2f} {pose.y_m:.2f} in {frame}", sender)
            return self._answer(stamp_ns)

    def _send(self, topic: str, sample: Any) -> None:
        if not self._feed.live or not self._writers[topic].wait_for_reader(ACK_S):
            raise OnboardError(NO_RUNTIME)
        self._writers[topic].write(sample)

    def _answer(self, stamp_ns: int) -> str:
        def answered(key: str) -> bool:
            return self._feed.drive().get(key) == str(stamp_ns)

        if not wait_until(lambda: answered("goal") or answered("refused"), ANSWER_S):
            raise OnboardError(f"the runtime did not answer the goal within {ANSWER_S:g} s")
        if answered("refused"):
            raise InputError(f"goal refused: {self._feed.drive().get('refusal', '')}")
        return "goal accepted"


def goal_of(table: Any, config: Config) -> tuple[str, Pose, bool]:
    """Return frame, pose and whether the heading counts, of {"x", "y", "frame", "yaw_deg"}. Raises InputError."""
    frames = {"base": config.dds.base_frame, "odom": config.dds.odom_frame, "map": config.dds.map_frame}
    if not isinstance(table, dict) or set(table) - {"x", "y", "frame", "yaw_deg"}:
        raise InputError('a goal is {"x": m, "y": m, "frame": "base", "odom" or "map", "yaw_deg": deg or null}')
    frame, yaw = table.get("frame", "base"), table.get("yaw_deg")
    if frame not in frames:
        raise InputError(f"frame: {str(frame)[:20]!r}, expected base, odom or map")
    for name in ("x", "y", *(() if yaw is None else ("yaw_deg",))):
        value = table.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise InputError(f"{name}: {str(value)[:20]}, expected a finite number")
    yaw_rad = math.radians(yaw or 0.0)
    return (
        frames[frame],
        Pose(float(table["x"]), float(table["y"]), math.atan2(math.sin(yaw_rad), math.cos(yaw_rad))),
        yaw is not None,
    )
