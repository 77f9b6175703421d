"""What the runtime reports of its drive, and how a goal waits for its end. Standard library only."""

import threading
import time
from dataclasses import dataclass

SILENT_S = 3.0
"""Without a report for so long the runtime counts as gone; it reports three times a second."""
ANSWER_S = 10.0
"""Time in which the runtime must accept or refuse a goal."""
UNKNOWN, TIMEOUT = 9000, 9003
"""Error codes of NavigateToPose in nav2_msgs."""
TIME_CODES = ("no_progress", "out_of_time")
DRIVING = ("navigating", "recovering")


@dataclass(frozen=True)
class Report:
    """One report of `/onboard/drive`; its fields are described at `drive_row` in `onboard/recording/scene.py`."""

    goal: int = 0
    state: str = "idle"
    reason: str = ""
    code: str = ""
    refused: int = 0
    refusal: str = ""
    goals_left: int = 0
    distance_m: float = 0.0
    recoveries: int = 0
    frame: str = ""
    x_m: float = 0.0
    y_m: float = 0.0
    yaw_rad: float = 0.0

    @classmethod
    def read(cls, values):
        """Return the report in the values of the message: text by name."""
        defaults = cls()
        given = {}
        for name in cls.__dataclass_fields__:
            kind, text = type(getattr(defaults, name)), values.get(name, "")
            given[name] = kind(text) if text else kind()
        return cls(**given)


@dataclass(frozen=True)
class End:
    """How a goal ended. outcome: "reached", "failed" or "cancelled"; reason: in the words of `onboard status`"""

    outcome: str
    reason: str = ""
    error_code: int = 0


class Drive:
    """The newest report, for threads that wait for the next one."""

    def __init__(self):
        self._changed = threading.Condition()
        self._report, self._heard_s = Report(), 0.0
        self._last_stamp = 0

    def note(self, report):
        """Keep a report, None when the connection is gone."""
        with self._changed:
            self._report = report or Report()
            self._heard_s = time.monotonic() if report else 0.0
            self._changed.notify_all()

    @property
    def report(self):
        """The newest report."""
        return self._report

    def new_stamp(self, now_ns):
        """Return a stamp that no other goal of this gateway has."""
        with self._changed:
            self._last_stamp = max(now_ns, self._last_stamp + 1)
            return self._last_stamp

    def wait(self, timeout_s):
        """Wait for a report, or for the time."""
        with self._changed:
            self._changed.wait(timeout_s)

    def end_of(self, stamp, since_s, accepted, cancelled):
        """Return how the goal of a stamp ended, None while it is driven or waits for its answer.

        since_s:   when it was sent
        accepted:  whether a report had this goal before
        cancelled: whether a cancel was sent for it
        """
        report, now_s = self._report, time.monotonic()
        if report.refused == stamp:
            return End("failed", f"goal refused: {report.refusal}", UNKNOWN)
        if now_s - max(self._heard_s, since_s) > SILENT_S or (accepted and not self._heard_s):
            return End("failed", "the runtime is silent: is `onboard run` running, and `onboard gateway`?", UNKNOWN)
        if report.goal != stamp and (accepted or report.goal > stamp):
            return End("failed", "another goal took its place", UNKNOWN)
        if report.goal != stamp:
            late = now_s - since_s > ANSWER_S
            return End("failed", f"no answer of the runtime within {ANSWER_S:g} s", UNKNOWN) if late else None
        if report.state in DRIVING:
            return None
        if report.state == "reached":
            return End("reached")
        reason = f"{report.state}: {report.reason}" if report.reason else report.state
        if cancelled and report.state == "idle":
            return End("cancelled", reason)
        return End("failed", reason, TIMEOUT if report.code in TIME_CODES else UNKNOWN)
