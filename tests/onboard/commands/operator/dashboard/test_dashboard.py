"""The dashboard by real HTTP before a real runtime: it shows, it stops, it takes orders with its token alone."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import io
import json
import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from onboard.commands.operator.dashboard import recordings as recordings_module
from onboard.commands.operator.dashboard import server as server_module
from onboard.commands.operator.dashboard.command import _listening, _token
from onboard.commands.operator.dashboard.metrics import Webhook
from onboard.commands.operator.dashboard.recordings import Recordings
from onboard.commands.operator.dashboard.server import FILES, GIVEN, MOST_OF_CLIENT, MOST_PAGES, MOST_STROKE_BYTES
from onboard.commands.operator.dashboard.stop import Stop
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_types import MapMetaData, OccupancyGrid
from onboard.recording.retention import is_marked
from onboard.system.signals import KILLED_BY
from onboard.values.errors import InputError
from onboard.values.messages import STOP
from onboard.values.reasons import TABLE
from tests.rigs.machine.waiting import until
from tests.rigs.network.dashboard_rig import TOKEN, LiveRobot, Server, in_building, live_robot, lonely_config, serving


@pytest.fixture(scope="module")
def robot() -> Iterator[LiveRobot]:
    with live_robot() as started:
        yield started


@pytest.fixture(scope="module")
def server(robot: LiveRobot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(robot.config, tmp_path_factory.mktemp("recordings")) as started:
        assert started.feed.heard(20.0)
        yield started


@pytest.fixture(scope="module")
def lonely(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(lonely_config(), tmp_path_factory.mktemp("lonely")) as started:
        yield started


def drive(server: Server, robot: LiveRobot) -> None:
    status, said = server.order("goal", {"x": 50.0, "y": 0.0, "frame": "base"})
    assert (status, said) == (200, {"said": "goal accepted"})
    until(lambda: robot.moves)


def test_it_shows_what_the_robot_publishes(server: Server, robot: LiveRobot) -> None:
    drive(server, robot)
    until(lambda: bool(server.feed.snapshot()["arc"]) and bool(server.feed.snapshot()["parts"]))
    until(lambda: server.feed.snapshot()["odom_from_base"][0] > 0.1)
    until(lambda: server.feed.snapshot()["arc"][-1][0] > 0.1 and "goal" in server.feed.snapshot()["markers"])
    until(lambda: "battery" in server.feed.values())
    status, seen = server.ask("GET", "/api/robot")
    assert status == 200
    assert (seen["robot"], seen["word"], seen["live"], seen["stopped"]) == (
        robot.config.robot.name,
        "navigating",
        True,
        False,
    )
    assert len(seen["scan"]) == 180
    assert seen["odom_from_base"][0] > 0.0
    assert seen["arc"][-1][0] > 0.0
    assert float(seen["figures"]["battery"]) == 0.8
    assert seen["ages_ms"]["scan"]
    assert seen["markers"]["goal"]["points"]
    until(lambda: all(server.feed.shape()[name] for name in ("footprint", "path", "plan")))


def test_stop_needs_no_token_is_latched_and_ends_with_a_goal_alone(server: Server, robot: LiveRobot) -> None:
    drive(server, robot)
    assert server.ask("POST", "/api/stop")[1] == {"stopped": True, "live": True, "presses": 1}
    until(lambda: robot.command == STOP)
    until(lambda: server.feed.status()["state"].startswith("stopped"))
    seen = server.ask("GET", "/api/robot")[1]
    assert seen["stopped"]
    assert [row["code"] for row in seen["why"]] == ["e_stop"]
    assert seen["clears"]
    for order in ("resume", "pause", "resume", "cancel"):
        assert server.order(order)[0] == 200
    before = len(robot.sent)
    until(lambda: len(robot.sent) > before + 30)
    assert all(command == STOP for _, command in robot.sent[before:]), "it stays"
    drive(server, robot)
    assert not server.ask("GET", "/api/robot")[1]["stopped"]


def test_a_stop_outlives_its_dashboard_and_the_next_one_can_release_it(robot: LiveRobot, tmp_path: Path) -> None:
    with serving(robot.config, tmp_path) as first:
        assert first.feed.heard(20.0)
        drive(first, robot)
        first.ask("POST", "/api/stop")
        until(lambda: robot.command == STOP)
    before = len(robot.sent)
    until(lambda: len(robot.sent) > before + 30)
    assert all(command == STOP for _, command in robot.sent[before:])
    with serving(robot.config, tmp_path) as second:
        assert second.feed.heard(20.0)
        assert second.ask("GET", "/api/robot")[1]["stopped"]
        drive(second, robot)
    assert not (tmp_path / ".stop").exists()


def test_the_stop_of_a_killed_dashboard_is_shown_and_ends_with_the_first_goal(robot: LiveRobot, tmp_path: Path) -> None:
    with contextlib.closing(Wire(robot.config.dds)) as wire:
        killed = Stop(robot.config, wire, tmp_path / ".stop")
        killed.press("10:22:31 from 10.0.0.7")
        killed._ended.set()  # it says nothing more, and is in the domain until its lease ends
        until(lambda: robot.command == STOP)
        (tmp_path / "other").mkdir()
        with serving(robot.config, tmp_path) as second, serving(robot.config, tmp_path / "other") as third:
            assert second.feed.heard(20.0)
            seen = second.ask("GET", "/api/robot")[1]
            assert (seen["stopped"], seen["stopped_by"]) == (True, "10:22:31 from 10.0.0.7")
            until(lambda: [row["code"] for row in second.feed.status()["why"]] == ["e_stop"])
            asked = threading.Thread(target=drive, args=(second, robot))
            asked.start()
            until(lambda: "e-stop is pressed" in second.feed.drive().get("refusal", ""))
            killed.close()
            asked.join()
            assert robot.moves
            assert not second.ask("GET", "/api/robot")[1]["stopped"]
            until(lambda: not third.stop.pressed)


def test_a_goal_on_one_dashboard_releases_the_stop_of_another(robot: LiveRobot, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with serving(robot.config, tmp_path) as one, serving(robot.config, tmp_path / "other") as other:
        assert one.feed.heard(20.0)
        assert other.feed.heard(20.0)
        drive(one, robot)
        known = other.ask("GET", "/api/robot")[1]["presses"]
        one.ask("POST", "/api/stop")
        until(lambda: other.ask("GET", "/api/robot")[1]["stopped"])
        assert f":{one.port}" in other.ask("GET", "/api/robot")[1]["stopped_by"]
        goal, headers = {"x": 9.0, "y": 0.0}, {"Authorization": f"Bearer {TOKEN}"}
        assert other.ask("POST", "/api/goal", goal, **headers, X_Stops=str(known))[0] != 200, (
            "its page had not shown it"
        )
        drive(other, robot)
        until(lambda: not one.ask("GET", "/api/robot")[1]["stopped"])
        one.ask("POST", "/api/stop")
        until(lambda: robot.command == STOP)
        drive(one, robot)
        assert not other.ask("GET", "/api/robot")[1]["stopped"]


FORGED = [
    ("", 401), ("Bearer", 401), ("Bearer wrong", 401), ("Basic " + TOKEN, 401), (f"Bearer {TOKEN}x", 401),
    ("Bearer ü", 401),
]  # fmt: skip


@pytest.mark.parametrize(("authorization", "status"), FORGED)
@pytest.mark.parametrize("order", list(GIVEN))
def test_no_order_without_the_token(server: Server, order: str, authorization: str, status: int) -> None:
    headers = {"Authorization": authorization.encode("latin-1", "replace").decode("latin-1")} if authorization else {}
    goal = {"x": 1.0, "y": 0.0}
    assert server.ask("POST", f"/api/{order}", goal, **headers)[0] == status


def test_without_allow_control_there_are_no_orders_but_the_stop(tmp_path: Path) -> None:
    with serving(lonely_config(), tmp_path, token=None) as server:
        assert server.order("goal", {"x": 1.0, "y": 0.0})[0] == 403
        assert server.order("resume")[0] == 403
        assert server.ask("POST", "/api/stop") == (200, {"stopped": True, "live": False, "presses": 1})


BAD_GOALS: list[tuple[Any, int, str]] = [
    ("{", 400, "not JSON"),
    ("[" * 3000, 400, "not JSON"),
    ([], 400, "a goal is"),
    ({"x": 1.0}, 400, "y: None"),
    ({"x": 1.0, "y": "0"}, 400, "y: 0"),
    ('{"x": NaN, "y": 0}', 400, "x: nan"),
    ({"x": 1e400, "y": 0}, 400, "x: inf"),
    ({"x": True, "y": 0}, 400, "x: True"),
    ({"x": 10**400, "y": 0}, 400, "x: 1000"),
    ({"x": 1.0, "y": 0.0, "frame": ["map"]}, 400, "frame: "),
    ({"x": 1.0, "y": 0.0, "frame": "mars"}, 400, "frame: 'mars'"),
    ({"x": 1.0, "y": 0.0, "speed": 9}, 400, "a goal is"),
    ({"x": 1e6, "y": 0.0}, 400, "goal refused: the goal is 1e+06 m away"),
    ({"x": 1.0, "y": 0.0, "frame": "map"}, 400, "goal refused: frame 'map' needs a localised robot"),
    ("x" * 5000, 413, "at most"),
]


@pytest.mark.parametrize(("body", "status", "said"), BAD_GOALS, ids=range(len(BAD_GOALS)))
def test_a_bad_goal_gets_a_line(server: Server, body: Any, status: int, said: str) -> None:
    got, reply = server.order("goal", body)
    assert (got, said in reply["error"]) == (status, True), reply
    assert "\n" not in reply["error"]


NASTY: list[Any] = [
    None, True, 0, -1, 10**400, 1e308, 1e400, float("nan"), "", "x" * 300, "\ud800", "a\x00b", "é", "../x", [], {},
    ["hall", "\ud800"], [[[[]]]], {"\ud800": 1}, [None] * 60, [["x"]], [{"points": [[1e308, -1e308]], "radius_m": 1}],
]  # fmt: skip
KEYS = {
    "goal": ("x", "y", "frame", "yaw_deg", "place"), "pose": ("x", "y", "frame", "yaw_deg"), "place": ("name",),
    "route": ("places", "loop"), "keep_out": ("strokes",), "pause": (), "resume": (), "cancel": (),
}  # fmt: skip
GOOD = {"x": 1.0, "y": 1.0, "frame": "map", "yaw_deg": 0.0}


def test_no_body_and_no_query_ends_in_a_traceback(tmp_path: Path) -> None:
    assert set(KEYS) == set(GIVEN)
    with serving(in_building(lonely_config(), tmp_path), tmp_path) as server:
        for order, keys in KEYS.items():
            given = {key: GOOD[key] for key in keys if key in GOOD}
            bodies = [*NASTY, *({**given, key: value} for key in keys for value in NASTY)]
            bodies += [{key: value} for key in keys for value in NASTY]
            for body in [*(json.dumps(body).encode() for body in bodies), b"\xff\xfe", b'{"a": "\xed\xa0\x80"}']:
                status, reply = server.order(order, body)
                assert status in (400, 413, 503), (order, body, status, reply)
                assert "\n" not in reply["error"], (order, body, reply)
        for value in ("%ED%A0%80", "%00", "%FF", "x" * 5000, "?" * 10):
            for path in ("/api/robot?a=", "/api/recordings?", "/metrics?", "/api/recordings/", "/api/map.png?"):
                assert server.ask("GET", path + value)[0] in (200, 307, 400, 404), (path, value)
        assert server.order("recordings/%ED%A0%80.mcap/keep")[0] == 400


@pytest.mark.parametrize("goal", [{"x": "no"}, {"x": 1e6, "y": 0.0}], ids=["malformed", "refused"])
def test_a_bad_goal_does_not_release_the_stop(server: Server, robot: LiveRobot, goal: dict[str, Any]) -> None:
    server.ask("POST", "/api/stop")
    assert server.order("goal", goal)[0] == 400
    assert server.stop.pressed
    drive(server, robot)


class Meanwhile:
    """A lock of the orders, during the wait for which somebody does something."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def __enter__(self) -> None:
        self._act()

    def __exit__(self, *_: object) -> None:
        pass


def test_a_stop_is_not_undone_by_an_older_order(
    server: Server, robot: LiveRobot, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(server.robot.orders, "_lock", Meanwhile(server.stop.press))
        status, reply = server.order("goal", {"x": 3.0, "y": 0.0})
    assert "pressed after this order" in reply["error"]
    assert status != 200
    assert server.stop.pressed
    drive(server, robot)


def test_a_cancel_does_not_wait_for_an_older_order_and_ends_it(
    server: Server, robot: LiveRobot, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []
    with monkeypatch.context() as patch:
        patch.setattr(server.robot.orders, "_lock", Meanwhile(lambda: said.append(server.order("cancel"))))
        assert server.order("goal", {"x": 3.0, "y": 0.0}) == (503, {"error": "it was cancelled"})
    assert said == [(200, {"said": "cancel: sent"})]
    until(lambda: robot.command == STOP)
    drive(server, robot)


def test_a_stop_wins_over_an_order_whose_rest_comes_later(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its head was sent before the stop, as over a network that stalls."""
    arrived, known = threading.Event(), server_module._operator

    def noted(*about: Any) -> int:
        operator = known(*about)
        arrived.set()
        return operator

    monkeypatch.setattr(server_module, "_operator", noted)
    body = b'{"x": 3.0, "y": 0.0}'
    head = (
        f"POST /api/goal HTTP/1.1\r\nHost: [::]\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port)) as late:
        late.sendall(head.encode() + body[:4])
        assert arrived.wait(10.0)
        server.ask("POST", "/api/stop")
        late.sendall(body[4:])
        reply = http.client.HTTPResponse(late)
        reply.begin()
        assert b"pressed after this order" in reply.read()
    assert server.stop.pressed


def test_a_stop_wins_over_the_order_of_a_page_that_had_not_seen_it(server: Server, robot: LiveRobot) -> None:
    known = server.ask("GET", "/api/robot")[1]["presses"]
    server.ask("POST", "/api/stop")
    headers = {"Authorization": f"Bearer {TOKEN}"}
    status, reply = server.ask("POST", "/api/goal", {"x": 3.0, "y": 0.0}, **headers, X_Stops=str(known))
    assert status != 200
    assert "pressed after this order" in reply["error"]
    assert server.stop.pressed
    assert server.ask("POST", "/api/goal", {"x": 3.0, "y": 0.0}, **headers, X_Stops=str(known + 1))[0] == 200
    assert not server.stop.pressed


@pytest.mark.parametrize("said", ["", "abc", "-1", "1.0", "1" * 10, "²"])
def test_a_count_of_stops_that_is_none_is_refused(server: Server, said: str) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    status, reply = server.ask("POST", "/api/resume", {}, **headers, X_Stops=said)
    assert (status, reply["error"].startswith("X-Stops: ")) == (400, True)


def test_the_map_is_a_picture_of_its_obstacles(server: Server) -> None:
    until(lambda: bool(server.feed.picture()))
    meta = server.ask("GET", "/api/robot")[1]["map"]
    assert meta == {"cell_m": 0.5, "columns": 40, "rows": 40, "corner": [-10.0, -10.0, 0.0], "number": 1}
    status, data = server.ask("GET", "/api/map.png")
    assert status == 200
    with Image.open(io.BytesIO(data)) as picture:
        assert picture.size == (40, 40)
        alpha = np.asarray(picture.convert("RGBA"))[:, :, 3]
    assert (alpha[0] == 255).all()
    assert (alpha[1:-1, 1:-1] == 0).all()


def test_a_damaged_map_is_left_out(lonely: Server) -> None:
    for cells, wide in ((b"\0" * 5, 2), (b"", 0)):
        lonely.feed._map(OccupancyGrid(info=MapMetaData(resolution=0.05, width=wide, height=2), data=cells))
    assert lonely.ask("GET", "/api/map.png") == (404, {"error": "there is no map"})


def test_what_is_not_finite_is_left_out(lonely: Server) -> None:
    bad, feed = ros.Point(float("nan"), float("inf")), lonely.feed
    posed = ros.PoseStamped(pose=ros.Pose(position=bad))
    moved = ros.TransformStamped(
        child_frame_id="base_link", transform=ros.Transform(translation=ros.Vector3(float("nan"), 0.0, 0.0))
    )
    feed._tf(ros.TFMessage([moved]))
    feed._line("path", ros.Path(poses=[posed]))
    feed._markers(ros.MarkerArray([ros.Marker(ns="goal", points=[bad]), ros.Marker(ns="state", pose=posed.pose)]))
    feed._footprint(ros.PolygonStamped(polygon=ros.Polygon([ros.Point32(float("nan"), 0.0)])))
    feed._scan(ros.LaserScan(ranges=[float("nan"), float("inf"), float("-inf")]))
    info = MapMetaData(resolution=float("nan"), width=1, height=1)
    feed._map(OccupancyGrid(info=info, data=b"\0"))
    assert json.dumps([feed.snapshot(), feed.shape()], allow_nan=False)
    assert lonely.ask("GET", "/api/robot")[0] == 200
    assert not feed.picture()


def test_a_map_of_200_m_is_packed_while_pages_and_the_stop_go_on(
    lonely: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    packing, go_on = threading.Event(), threading.Event()
    made = Image.Image.save

    def save(*arguments: Any, **options: Any) -> None:
        packing.set()
        assert go_on.wait(60.0)
        made(*arguments, **options)

    monkeypatch.setattr(Image.Image, "save", save)
    grid = OccupancyGrid(info=MapMetaData(resolution=0.05, width=4000, height=4000), data=bytes(4000 * 4000))
    thread = threading.Thread(target=lonely.feed._map, args=(grid,))
    thread.start()
    assert packing.wait(60.0)
    assert lonely.ask("POST", "/api/stop")[0] == 200
    assert not lonely.feed.snapshot()["live"]
    go_on.set()
    thread.join()
    with Image.open(io.BytesIO(lonely.ask("GET", "/api/map.png")[1])) as picture:
        assert picture.size == (4000, 4000)


def test_a_pose_that_nothing_takes_gets_the_reason(lonely: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lonely.feed, "_heard_s", math.inf)
    reply = lonely.order("pose", {"x": 1.0, "y": 0.0, "frame": "map", "yaw_deg": 0.0})[1]
    assert reply["error"].startswith("nothing accepts a pose: no localisation reads /initialpose")
    assert lonely.order("place", {"name": "desk"})[1]["error"].startswith("map.file: places need the map")


def test_pause_and_resume(server: Server, robot: LiveRobot) -> None:
    drive(server, robot)
    assert server.order("pause")[0] == 200
    until(lambda: robot.command == STOP)
    until(lambda: "paused" in [row["code"] for row in server.feed.status()["why"]])
    server.order("resume")
    until(lambda: robot.moves)


def test_places_routes_and_the_pose_of_a_building(robot: LiveRobot, tmp_path: Path) -> None:
    with serving(in_building(robot.config, tmp_path), tmp_path) as server:
        assert server.feed.heard(20.0)
        server.order("cancel")
        until(lambda: server.feed.status()["word"] == "idle")
        assert server.order("place", {"name": "here"})[1] == {
            "error": "the robot is not localised, so its place cannot be named"
        }
        assert server.order("pose", {"x": 1.0, "y": -3.0, "frame": "map", "yaw_deg": 90.0}) == (
            200,
            {"said": "pose taken"},
        )
        seen = server.ask("GET", "/api/robot")[1]
        assert seen["places"]["hall"] == [2.0, 4.0, pytest.approx(np.pi / 2)]
        assert server.order("place", {"name": "here"})[0] == 200
        assert server.order("place", {"name": "here"})[1]["error"].endswith("choose another name")
        assert server.order("place", {"name": "../x"})[0] == 400
        assert server.order("pose", {"x": -9.9, "y": 1.0, "frame": "map", "yaw_deg": 0.0})[0] == 200
        assert "wall: the map shows an obstacle at (-9." in server.order("place", {"name": "wall"})[1]["error"]
        x, y, yaw = server.ask("GET", "/api/robot")[1]["places"]["here"]
        assert (x, y, yaw) == (
            pytest.approx(1.0, abs=0.1),
            pytest.approx(-3.0, abs=0.1),
            pytest.approx(np.pi / 2, abs=0.1),
        )
        assert server.order("goal", {"place": "nowhere"})[0] == 400
        assert server.order("goal", {"place": "hall"}) == (200, {"said": "goal accepted"})
        until(lambda: robot.moves)
        assert (
            "pause or stop it" in server.order("pose", {"x": 1.0, "y": 0.0, "frame": "map", "yaw_deg": 0.0})[1]["error"]
        )
        assert server.order("route", {"places": ["hall", "dock"], "loop": True})[0] == 200
        assert server.ask("GET", "/api/robot")[1]["route"]["runs"]
        server.ask("POST", "/api/stop")
        assert server.ask("GET", "/api/robot")[1]["route"] | {"lap": 1} == {
            "runs": False, "places": ["hall", "dock"], "at": 0, "lap": 1, "said": "route ended: stop",
        }  # fmt: skip
        until(lambda: robot.command == STOP)
        assert server.order("route", {"places": ["hall", "dock"]})[0] == 200, "a person with the token releases it"
        server.order("cancel")
        until(lambda: not server.robot.route.runs)
        (tmp_path / "places.toml").write_text("[hall]\nx_m = 'x'\n")
        until(lambda: "places.toml" in server.ask("GET", "/api/robot")[1]["problems"][0])


def test_the_brush_changes_the_mask_with_the_token_alone(tmp_path: Path) -> None:
    with serving(in_building(lonely_config(), tmp_path), tmp_path) as server:
        strokes = {"strokes": [{"points": [[0.0, 0.0], [3.0, 0.0]], "radius_m": 0.5, "erase": False}]}
        assert server.order("keep_out", strokes, token="forged")[0] == 401
        assert server.ask("GET", "/api/robot")[1]["keep_out"]["effect"] == ""
        status, reply = server.order("keep_out", strokes)
        assert (status, "m² forbidden" in reply["said"]) == (200, True)
        layer = server.ask("GET", "/api/robot")[1]["keep_out"]
        assert (layer["columns"], layer["rows"]) == (400, 400)
        assert "set zones.keep_out" in layer["effect"]
        with Image.open(io.BytesIO(server.ask("GET", "/api/keep_out.png")[1])) as picture:
            assert picture.size == (400, 400)
        server.feed._values = {"keep_out": layer["number"]}  # as the runtime says after its next start
        assert server.ask("GET", "/api/robot")[1]["keep_out"]["effect"] == ""
        assert server.order("keep_out", "x" * (MOST_STROKE_BYTES + 1))[0] == 413
        assert (
            server.order("keep_out", {"strokes": [{"points": [[99.0, 0.0]], "radius_m": 0.5}], "file": "/etc/x"})[0]
            == 400
        )


def test_the_table_of_reasons_is_the_one_of_all(lonely: Server) -> None:
    rows = lonely.ask("GET", "/api/reasons")[1]["reasons"]
    assert [(row["code"], row["clears"]) for row in rows] == [(row.code, row.clears) for row in TABLE.values()]


def test_one_event_is_made_for_all_pages(lonely: Server) -> None:
    made = []
    texts = {lonely.robot.event("test", lambda: made.append(1) or {"a": 1}) for _ in range(10)}
    assert (texts, len(made)) == ({'event: test\ndata: {"a":1}\n\n'}, 1)


def test_two_operators_see_each_others_orders(server: Server) -> None:
    server.order("pause")
    assert "pause from 127.0.0.1" in server.ask("GET", "/api/robot")[1]["order"]
    server.order("resume")
    assert "resume from 127.0.0.1" in server.ask("GET", "/api/robot")[1]["order"]


def test_the_page_of_another_site_cannot_order(server: Server) -> None:
    status, _ = server.ask("POST", "/api/stop", Origin="http://elsewhere.example")
    assert (status, server.stop.pressed) == (403, False)
    own = server.address.rstrip("/")
    headers = {"Authorization": f"Bearer {TOKEN}", "Origin": own}
    assert server.ask("POST", "/api/pause", {}, **headers)[0] == 200
    assert server.ask("POST", "/api/resume", {}, **headers | {"Origin": "http://elsewhere.example"})[0] == 403
    server.order("resume")


NAMES = [
    "..%2F..%2Fetc%2Fpasswd",
    "%2e%2e",
    "a.mcap%00",
    "..mcap",
    "other.mcap",
    "-x.mcap",
    "link.mcap",
    "x.html",
    "a" * 300 + ".mcap",
]


def test_a_recording_has_a_safe_name(lonely: Server, tmp_path: Path) -> None:
    folder = lonely.robot.recordings._folder
    (folder / "robot_1.mcap").write_bytes(b"\x89MCAP0\r\n")
    (folder / "link.mcap").symlink_to("/etc/passwd")
    assert lonely.ask("GET", "/api/recordings/robot_1.mcap") == (200, b"\x89MCAP0\r\n")
    for name in NAMES:
        status, reply = lonely.ask("GET", f"/api/recordings/{name}")
        assert status in (400, 404), (name, reply)
        assert "\n" not in reply["error"]
    listed = lonely.ask("GET", "/api/recordings")[1]
    assert "link.mcap" not in [file["name"] for file in listed["files"]]
    status, reply = lonely.ask("GET", "/api/recordings/robot_1.mcap/report")
    assert status == 400
    assert "robot_1.mcap" in reply["error"]


def test_a_report_of_a_running_recording_is_refused_at_once(lonely: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("a process"))
    (lonely.robot.recordings._folder / "runs_1.mcap").write_bytes(b"\x89MCAP0\r\n" + bytes(1000))
    status, reply = lonely.ask("GET", "/api/recordings/runs_1.mcap/report")
    assert (status, "is being written" in reply["error"]) == (400, True)


def test_a_report_is_waited_for_made_once_and_kept(lonely: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    recordings, made, go_on = lonely.robot.recordings, [], threading.Event()

    def run(command: list[str], name: str) -> None:
        made.append(name)
        assert go_on.wait(20.0)
        if name == "bad.mcap":
            raise InputError("bad.mcap: no ticks")
        Path(command[-1]).write_text("<p>the report")

    def ask(name: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", lonely.port, timeout=20.0)
        connection.request("GET", f"/api/recordings/{name}/report", headers={"Accept": "text/html"})
        reply = connection.getresponse()
        return reply.status, reply.read().decode()

    monkeypatch.setattr(recordings, "_run", run)
    monkeypatch.setattr(recordings_module, "REPORTER", Path(sys.executable).name)
    monkeypatch.setattr(recordings_module, "is_finished", lambda file: True)
    for name in ("good.mcap", "bad.mcap"):
        (recordings._folder / name).touch()
    for _ in range(2):
        status, page = ask("good.mcap")
        assert (status, "is being made: 0 s so far" in page, 'http-equiv="refresh"' in page) == (202, True, True), page
    assert "after that of good.mcap" in ask("bad.mcap")[1]
    go_on.set()
    until(lambda: ask("good.mcap") == (200, "<p>the report"))
    until(lambda: ask("bad.mcap")[0] == 400)
    status, page = ask("bad.mcap")
    assert ("bad.mcap: no ticks" in page, "refresh" in page) == (True, False)
    assert lonely.ask("GET", "/api/recordings/bad.mcap/report") == (400, {"error": "bad.mcap: no ticks"})
    assert made == ["good.mcap", "bad.mcap"]
    monkeypatch.setattr(recordings_module, "AGAIN_S", 0.0)
    ask("bad.mcap")
    until(lambda: made == ["good.mcap", "bad.mcap", "bad.mcap"])


def test_a_recording_is_kept_with_the_token_alone(lonely: Server) -> None:
    folder = lonely.robot.recordings._folder
    (folder / "kept_1.mcap").touch()
    assert lonely.order("recordings/kept_1.mcap/keep", token="forged")[0] == 401
    assert not is_marked(folder / "kept_1.mcap")
    assert lonely.order("recordings/kept_1.mcap/keep") == (200, {"said": "kept_1.mcap is protected"})
    assert is_marked(folder / "kept_1.mcap")
    assert lonely.order("recordings/none.mcap/keep")[0] == 400
    assert next(file["kept"] for file in lonely.robot.recordings.listed()["files"] if file["name"] == "kept_1.mcap")


def test_ten_thousand_recordings_are_a_short_list(lonely: Server) -> None:
    folder = lonely.robot.recordings._folder
    for number in range(10_000):
        (folder / f"many_{number:05d}.mcap").touch()
    listed = lonely.ask("GET", "/api/recordings")[1]
    assert listed["count"] >= 10_000
    assert len(listed["files"]) == 200


def test_without_a_runtime_it_says_so(lonely: Server) -> None:
    seen = lonely.ask("GET", "/api/robot")[1]
    assert (seen["live"], seen["sentence"]) == (False, "no runtime found")
    assert "onboard run" in seen["clears"]
    assert lonely.order("goal", {"x": 1.0, "y": 0.0}) == (503, {"error": "no runtime found"})
    assert b"onboard_up 0" in lonely.ask("GET", "/metrics")[1]


def test_pages_of_one_client_shut_no_other_out(lonely: Server) -> None:
    robot = lonely.robot
    greedy = [robot.opened("greedy") for _ in range(3 * MOST_PAGES)]
    other = robot.opened("other")
    assert (len(robot.pages), other.open) == (MOST_OF_CLIENT + 1, True)
    assert [page.open for page in greedy] == [False] * (3 * MOST_PAGES - MOST_OF_CLIENT) + [True] * MOST_OF_CLIENT
    crowd = [robot.opened(f"client {number}") for number in range(2 * MOST_PAGES)]
    assert (len(robot.pages), other.open, crowd[-1].open) == (MOST_PAGES, False, True)
    assert sum(page.client == "greedy" for page in robot.pages) <= 1
    for page in [*robot.pages]:
        robot.close(page)


def test_browsers_that_never_read_keep_nobody_from_page_and_stop(lonely: Server) -> None:
    opened = [lonely.never_read() for _ in range(MOST_PAGES)]
    until(lambda: len(lonely.robot.pages) == MOST_OF_CLIENT)
    assert lonely.ask("POST", "/api/stop")[0] == 200
    with contextlib.closing(lonely.never_read()) as reading:
        assert b"event: robot" in reading.makefile("rb").read(2000)
    for one in opened:
        one.close()
    until(lambda: not lonely.robot.pages)


def test_metrics_are_prometheus_text(server: Server) -> None:
    until(lambda: bool(server.feed.values()))
    text = server.ask("GET", "/metrics")[1].decode()
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert "onboard_up 1" in samples
    assert "onboard_battery_ratio 0.8" in samples
    assert any(line.startswith('onboard_input_age_seconds{input="scan"} ') for line in samples)
    assert sum(line.startswith("onboard_state{") for line in samples) == 5
    for line in samples:
        name, _, value = line.rpartition(" ")
        assert name.startswith("onboard_")
        float(value)


def test_the_page_is_small_loads_nothing_from_elsewhere_and_has_its_headers(lonely: Server) -> None:
    sizes = []
    for path in FILES:
        status, data = lonely.ask("GET", path)
        assert status == 200
        assert b"http://" not in data
        assert b"https://" not in data
        sizes.append(len(data))
    assert sum(sizes) < 300_000
    assert lonely.ask("GET", "/nowhere")[0] == 404
    connection = socket.create_connection(("127.0.0.1", lonely.port))
    connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    head = connection.makefile("rb").read().lower()
    assert b"content-security-policy: default-src 'self'" in head
    assert b"x-content-type-options: nosniff" in head


class Receiver(http.server.BaseHTTPRequestHandler):
    came: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        self.came.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None: ...


def test_a_change_of_state_is_posted(tmp_path: Path) -> None:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as receiver, live_robot() as robot:
        threading.Thread(target=receiver.serve_forever, daemon=True).start()
        hook = f"http://127.0.0.1:{receiver.server_port}/hook"
        with serving(robot.config, tmp_path, webhook=hook) as server:
            assert server.feed.heard(20.0)
            drive(server, robot)
            server.ask("POST", "/api/stop")
            until(lambda: any(one["word"] == "stopped" for one in Receiver.came))
        receiver.shutdown()
    words = list(dict.fromkeys(one["word"] for one in Receiver.came if one["live"]))
    assert words == ["idle", "navigating", "stopped"]
    assert Receiver.came[-1]["robot"] == robot.config.robot.name


def test_bad_options_get_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in (
        "ftp://x",
        "http://",
        "http://[::1",
        "http://x:y",
        "http://x:99999",
        "http://a b",
        "http://é",
        "x\n",
        "",
    ):
        with pytest.raises(InputError, match="is not an http or https address"):
            Webhook(url, "robot")
    taken = _listening("127.0.0.1", 0)
    port = taken.getsockname()[1]
    with pytest.raises(InputError, match=rf"--port {port}: .*in use; choose another"):
        _listening("127.0.0.1", port)
    taken.close()
    with pytest.raises(InputError, match=r"--host nowhere\.invalid"):
        _listening("nowhere.invalid", 1)
    monkeypatch.setenv("ONBOARD_TOKEN", "short")
    with pytest.raises(InputError, match="at least 16"):
        _token()
    monkeypatch.delenv("ONBOARD_TOKEN")
    assert len(_token()) >= 16


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_the_command_serves_and_a_signal_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    config, reports = tmp_path / "onboard.toml", tmp_path / "tmp"
    config.write_text(f"[dds]\ndomain = {lonely_config().dds.domain}\n")
    reports.mkdir()
    command = [sys.executable, "-m", "onboard", "dashboard", "--config", str(config), "--port", "0", "--allow-control"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(reports)}) as it:
        assert it.stderr is not None
        first, second = it.stderr.readline(), it.stderr.readline()
        assert "#token=" in first
        assert second.startswith("no runtime found yet on domain")
        assert list(reports.iterdir())
        it.send_signal(number)
        assert it.wait(30.0) in (0, KILLED_BY + number), "the second while it starts"
        assert it.stderr.read() == ""
    assert not list(reports.iterdir())


def test_the_end_of_the_dashboard_ends_a_report_that_is_being_made(tmp_path: Path) -> None:
    recordings = Recordings(tmp_path)
    with subprocess.Popen(["sleep", "60"], text=True) as child:
        recordings._child = child
        recordings.close()
        assert child.returncode == -signal.SIGKILL
    recordings.close()
