"""A route of the page: on to the next place at any end of a drive, but for those by a person."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from onboard.commands.operator.dashboard import route as route_module
from onboard.commands.operator.dashboard.orders import Destination, Operator
from onboard.commands.operator.dashboard.route import MOST_PLACES, Route
from onboard.values.errors import InputError, OnboardError
from onboard.values.messages import Pose
from tests.rigs.machine.waiting import until


class Robot:
    """Stands for feed and orders. ends: state and reason of the end of each drive, "" for none."""

    def __init__(self, ends: dict[str, str]) -> None:
        self.ends, self.live = ends, True
        self.sent: list[str] = []
        self.row = {"goal": "0", "state": "idle", "reason": ""}

    def drive(self) -> dict[str, str]:
        return dict(self.row)

    def destination(self, table: dict[str, str]) -> Destination:
        if table["place"] not in self.ends:
            raise InputError("there is no such place")
        return Destination("map", Pose(0.0, 0.0, 0.0), True, table["place"])

    def drive_on(self, where: Destination, operator: Operator, ended: threading.Event) -> int:
        if ended.is_set():
            raise OnboardError("it was ended")
        return self.drive_to(where, operator, lambda: None)

    def drive_to(self, where: Destination, operator: Operator, accepted: Callable[[], None]) -> int:
        name = where.words
        self.sent.append(name)
        if self.ends[name].startswith("goal refused"):
            raise InputError(self.ends[name])
        state, _, reason = (self.ends[name] or "navigating").partition(": ")
        self.row = {"goal": str(len(self.sent)), "state": state, "reason": reason}
        accepted()
        return len(self.sent)


ME = Operator("me", 0)


@pytest.fixture(autouse=True)
def _no_dwell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_module, "DWELL_S", 0.0)


def route(robot: Robot) -> Route:
    return Route(robot, robot)  # type: ignore[arg-type]  # stands in for both


MISSED = "stopped: no progress for 10 s"
RUNS = [
    ({"a": "reached", "b": "reached"}, ["a", "b"], "reached"),
    ({"a": MISSED, "b": "reached"}, ["a", "b"], "reached"),
    (
        {"a": "reached", "b": "goal refused: the map shows an obstacle there", "c": "reached"},
        ["a", "b", "c"],
        "reached",
    ),
    ({"a": "stopped: e_stop", "b": "reached"}, ["a"], "e_stop"),
    ({"a": "idle: cancelled", "b": "reached"}, ["a"], "cancelled"),
    ({"a": "reached", "b": "stopped: e_stop", "c": "reached"}, ["a", "b"], "e_stop"),
]


@pytest.mark.parametrize(("ends", "sent", "said"), RUNS)
def test_it_drives_to_each_place_until_a_person_ends_it(ends: dict[str, str], sent: list[str], said: str) -> None:
    robot = Robot(ends)
    begun = route(robot)
    begun.start({"places": list(ends)}, ME)
    until(lambda: not begun.runs)
    assert robot.sent == sent
    assert said in begun.state()["said"]


def test_a_refused_route_does_not_end_the_one_before() -> None:
    robot = Robot({"a": "", "b": "goal refused: the map shows an obstacle there"})
    begun = route(robot)
    begun.start({"places": ["a"]}, ME)
    with pytest.raises(InputError, match="goal refused"):
        begun.start({"places": ["b"]}, ME)
    assert (begun.runs, begun.places) == (True, ["a"])
    begun.end("stop")


def test_a_loop_goes_on_and_ends_when_no_place_is_reached_any_more() -> None:
    robot = Robot({"a": "reached", "b": MISSED})
    begun = route(robot)
    begun.start({"places": ["a", "b"], "loop": True}, ME)
    until(lambda: begun.lap >= 3)
    robot.ends["a"] = MISSED
    until(lambda: not begun.runs)
    assert "no place was reached" in begun.said


def test_a_pause_holds_it_and_what_a_person_does_ends_it() -> None:
    robot = Robot({"a": "", "b": "reached"})
    begun = route(robot)
    begun.start({"places": ["a", "b"]}, ME)
    robot.row["state"] = "navigating"  # paused: the drive goes on
    assert begun.runs
    robot.row["goal"] = "77"
    until(lambda: not begun.runs)
    assert "another goal took its place" in begun.said
    begun.start({"places": ["a", "b"]}, ME)
    robot.live = False
    until(lambda: not begun.runs)
    assert "no runtime found" in begun.said
    robot.live = True
    begun.start({"places": ["a", "b"]}, ME)
    begun.end("stop")
    begun.end("twice")
    robot.row["state"] = "reached"
    until(lambda: begun._thread is not None and not begun._thread.is_alive())
    assert (robot.sent.count("b"), begun.said) == (0, "route ended: stop")
    begun.give_way()
    assert begun.said == "", "an old end is not the news after another goal"


def test_it_dwells_at_each_place_and_can_be_ended_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_module, "DWELL_S", 60.0)
    robot = Robot({"a": "reached"})
    begun = route(robot)
    for what in (lambda: begun.end("stop"), lambda: begun.start({"places": ["a"]}, ME)):
        begun.start({"places": ["a"], "loop": True}, ME)
        until(lambda: begun.lap == 2)
        count = len(robot.sent)
        what()
        until(lambda: not begun.runs)
        assert len(robot.sent) - count <= 1


def test_a_goal_of_a_person_while_it_dwells_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_module, "DWELL_S", 2.0)
    robot = Robot({"a": "reached", "b": "reached"})
    begun = route(robot)
    begun.start({"places": ["a", "b"]}, ME)
    until(lambda: begun.at == 1)
    robot.row["goal"] = "77"
    until(lambda: not begun.runs)
    assert (robot.sent, begun.said) == (["a"], f"route ended: {route_module.REPLACED}")


def test_an_e_stop_while_it_dwells_ends_it_though_it_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_module, "DWELL_S", 0.1)
    robot = Robot({"a": "reached", "b": "reached"})
    begun = route(robot)
    begun.start({"places": ["a", "b"]}, ME)
    until(lambda: begun.at == 1)
    robot.row["why"] = "e_stop, idle"  # until the next goal
    until(lambda: not begun.runs)
    assert (robot.sent, begun.said) == (["a"], "route ended: stopped: e_stop")


def test_a_second_route_takes_the_place_of_the_first() -> None:
    robot = Robot({"a": "", "b": "reached"})
    begun = route(robot)
    begun.start({"places": ["a"]}, ME)
    begun.start({"places": ["b"]}, ME)
    until(lambda: not begun.runs)
    assert robot.sent == ["a", "b"]


BAD: list[Any] = [
    None, {}, {"places": []}, {"places": "a"}, {"places": [1]}, {"places": ["a"], "loop": 1}, {"places": ["nowhere"]},
    {"places": ["a"] * (MOST_PLACES + 1)},
]  # fmt: skip


@pytest.mark.parametrize("table", BAD, ids=range(len(BAD)))
def test_a_bad_route_moves_nothing(table: Any) -> None:
    robot = Robot({"a": "reached"})
    with pytest.raises(InputError):
        route(robot).start(table, ME)
    assert robot.sent == []
