"""A route of the page: drives to places one after the other, while the dashboard lives."""

from __future__ import annotations

import threading
from typing import Any

from onboard.commands.operator.dashboard.feed import NO_RUNTIME, Feed
from onboard.commands.operator.dashboard.orders import Destination, Operator, Orders
from onboard.config.places import DWELL_S
from onboard.navigation.mission import State, drives, state_word
from onboard.recording.scene import is_e_stopped
from onboard.values.errors import InputError, OnboardError
from onboard.values.reasons import E_STOP, STOPPED_BY_OPERATOR, row_of

POLL_S = 0.1
MOST_PLACES = 50
REPLACED = "another goal took its place, or the runtime started again"


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

    def start(self, table: Any, operator: Operator) -> str:
        """Begin a route {"places": [...], "loop": false}; it ends the one before. Raises InputError, OnboardError."""
        places, loop = (table.get("places"), table.get("loop", False)) if isinstance(table, dict) else (None, False)
        named = isinstance(places, list) and all(isinstance(one, str) for one in places)
        if not named or not places or len(places) > MOST_PLACES or not isinstance(loop, bool):
            raise InputError(
                f'a route is {{"places": ["kitchen", ...], "loop": false}} of at most {MOST_PLACES} places'
            )
        stops = [self._orders.destination({"place": name}) for name in places]
        with self._lock:
            stamp_ns = self._orders.drive_to(stops[0], operator, lambda: self.end("another route"))
            if self._thread is not None:
                self._thread.join()
            self._ended = threading.Event()
            self.places, self.at, self.lap, self.said = list(places), 0, 1, ""
            arguments = (stops, loop, operator, stamp_ns)
            self._thread = threading.Thread(target=self._run, args=arguments, name="route", daemon=True)
            self._thread.start()
        return f"route of {len(places)} places: {places[0]}"

    def end(self, why: str) -> None:
        """End the route, if there is one; nothing is sent to the robot. Safe to call twice."""
        if self.runs:
            self.said = f"route ended: {why}"
            self._ended.set()

    def give_way(self) -> None:
        """End the route for another goal, and forget what the last one ended with."""
        if self.runs:
            self.end("another goal")
        else:
            self.said = ""

    def _run(self, stops: list[Destination], loop: bool, operator: Operator, stamp_ns: int) -> None:
        reached, goal = 0, str(stamp_ns)
        try:
            while True:
                end = self._end_of(stamp_ns)
                if self._ended.is_set() or row_of(end) in STOPPED_BY_OPERATOR:
                    return self.end(end)
                reached += state_word(end) == State.REACHED.value
                self.at += 1
                if self.at == len(stops):
                    if not loop or not reached:
                        return self.end(end if reached else f"no place was reached, {end}")
                    self.at, self.lap, reached = 0, self.lap + 1, 0
                self._ended.wait(DWELL_S)
                if is_e_stopped(row := self._feed.drive()):
                    return self.end(f"{State.STOPPED.value}: {E_STOP.named}")
                if row.get("goal") != goal:
                    raise OnboardError(REPLACED)
                try:
                    stamp_ns = self._orders.drive_on(stops[self.at], operator, self._ended)
                    goal = str(stamp_ns)
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
                raise OnboardError(REPLACED)
            if not drives(row["state"]):
                return f"{row['state']}: {row['reason']}" if row["reason"] else row["state"]
        return self.said
