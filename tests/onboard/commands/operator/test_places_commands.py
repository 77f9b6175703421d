"""`onboard locate` states a pose, and says so only when the runtime has taken it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from PIL import Image

from onboard.assembly.assembly import check_files
from onboard.assembly.places_in_map import places_out_of_reach
from onboard.commands.operator import places, route_progress
from onboard.commands.operator.robot import DiagnosticsRow, RunningRobot, Status
from onboard.commands.run import check_config
from onboard.config.config import Config, load_config
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_types import Bool, Empty
from onboard.perception.building import map_fit
from onboard.perception.building.map_image import OCCUPIED
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.perception.building.reach import Reach, reach_in
from onboard.policy.contract import STOP_ACTION
from onboard.recording.scene import drive_row
from onboard.values.errors import ConfigError, InputError, OnboardError
from onboard.values.messages import BIN_RAD, BINS, GoalRequest, Pose, Scan
from onboard.values.reasons import in_words
from tests.rigs.machine.waiting import until
from tests.rigs.network.dashboard_rig import LiveRobot
from tests.rigs.network.loopback import free_domain
from tests.rigs.runtime_bench import Bench, Puppet

REFUSED = DiagnosticsRow("pose", "warning", "localisation refused: there is no odometry yet", {})
FINE = DiagnosticsRow("odometry", "ok", "in time", {})


class Robot:
    """A runtime that takes a pose, or refuses it."""

    def __init__(self, takes: bool) -> None:
        self.takes, self.sent = takes, ()

    def send(self, topic: str, sample: Any) -> None:
        at = sample.pose.pose.position
        self.sent = (topic, at.x, at.y)

    def drive(self) -> dict[str, str]:
        if not (self.takes and self.sent):
            return {"frame": "odom", "x_m": "0.0", "y_m": "0.0", "yaw_rad": "0.0"}
        return {"frame": "map", "x_m": str(self.sent[1]), "y_m": str(self.sent[2]), "yaw_rad": "0.0"}

    def status(self) -> Status:
        return Status("robot", 0, "idle", [FINE, REFUSED])


@pytest.fixture
def config(tmp_path: Path) -> Path:
    Image.fromarray(np.full((100, 100), 254, np.uint8)).save(tmp_path / "map.pgm")
    table = {"image": "map.pgm", "resolution": 0.1, "origin": [0.0, 0.0, 0.0]}
    table |= {"negate": 0, "occupied_thresh": 0.65, "free_thresh": 0.196}
    (tmp_path / "map.yaml").write_text(yaml.safe_dump(table), encoding="utf-8")
    (tmp_path / "onboard.toml").write_text('[map]\nfile = "map.yaml"\ntracker = true\n', encoding="utf-8")
    assert load_config(tmp_path / "onboard.toml").map.tracker
    return tmp_path / "onboard.toml"


def test_a_tracker_and_a_renamed_localisation_are_refused_together(config):
    with config.open("a", encoding="utf-8") as file:
        file.write('[dds.remap]\namcl_pose = "slam/pose"\n')
    with pytest.raises(ConfigError, match=r"dds.remap.amcl_pose names a localisation, but map.tracker = true"):
        check_files(load_config(config), config)


def running(monkeypatch: pytest.MonkeyPatch, takes: bool) -> Robot:
    robot = Robot(takes)
    monkeypatch.setattr(places, "running_robot", lambda _config: nullcontext(robot))
    monkeypatch.setattr(places, "TAKEN_S", 0.05)
    return robot


def test_a_first_pose_needs_no_place(config, monkeypatch, capsys):
    robot = running(monkeypatch, takes=True)
    places.locate("3", 4.0, yaw=90.0, config=config)
    assert robot.sent == ("initialpose", 3.0, 4.0)
    assert capsys.readouterr().out == "x 3.00 m, y 4.00 m, yaw 90 deg, as stated\n"


def test_a_pose_that_the_runtime_does_not_take_is_no_success(config, monkeypatch, capsys):
    running(monkeypatch, takes=False)
    with pytest.raises(OnboardError, match=r"did not accept the pose; localisation refused: there is no odometry yet"):
        places.locate("3", 4.0, config=config)
    assert capsys.readouterr().out == ""


def test_a_lost_robot_gives_no_place_its_name(config, monkeypatch):
    robot = running(monkeypatch, takes=True)
    robot.sent = ("initialpose", 3.0, 4.0)
    at = robot.drive()
    monkeypatch.setattr(robot, "drive", lambda: at | {"why": "lost_stands, idle"})
    with pytest.raises(OnboardError, match="the place has no name: lost in the map, so the robot stands"):
        places.place(places.PlaceAction.ADD, "here", config=config)
    assert not (config.parent / "places.toml").exists()


def test_a_pose_off_the_map_is_not_sent(config, monkeypatch):
    robot = running(monkeypatch, takes=True)
    with pytest.raises(InputError, match=r"\(300.00, 4.00\) is not free ground"):
        places.locate("300", 4.0, config=config)
    assert not robot.sent


#   states of the drives                                places that are driven to
ENDS = [
    (["reached", "reached"], 2),
    (["stopped: goal is occupied", "reached"], 2),
    (["idle: cancelled"], 1),
    (["stopped: e_stop"], 1),
    (["stopped: goal refused: the e-stop is pressed"], 1),
    (["stopped: goal refused: the e-stop has only just been released"], 1),
]


def walled(config: Path) -> None:
    """Two closed rooms in the map of `config`, and unknown ground at its top."""
    pixels = np.full((100, 100), 254, np.uint8)
    pixels[:, [0, 50, 99]] = pixels[[20, 99]] = 0
    pixels[:20] = 205
    Image.fromarray(pixels).save(config.parent / "map.pgm")


#   place          what is said of it; the rooms are 5 m x 8 m
WRONG = [
    ((11.0, 3.0), "nothing at (11.00, 3.00); the nearest place that can be reached is (4.7"),
    ((2.0, 0.02), "an obstacle at (2.00, 0.02); the nearest place that can be reached is (1.98"),
    ((2.0, 9.0), "unknown ground at (2.00, 9.00); the nearest place that can be reached is (1.98"),
    ((7.5, 4.0), "no path to it from the other places at (7.50, 4.00); the nearest place that can be reached is (4.7"),
]


@pytest.mark.parametrize(("at", "line"), WRONG, ids=["outside", "in a wall", "unknown", "cut off"])
def test_a_place_out_of_reach_is_named_with_the_nearest_one(config, monkeypatch, capsys, at, line):
    walled(config)
    file = config.parent / "places.toml"
    good = "".join(f"[{name}]\nx_m = {x_m}\ny_m = 3.0\n" for name, x_m in (("a", 1.0), ("b", 2.0)))
    file.write_text(good)
    assert places_out_of_reach(load_config(config)) == []
    monkeypatch.setattr(places, "running_robot", lambda _config: nullcontext(None))
    monkeypatch.setattr(places, "_place_of", lambda _robot: Pose(*at, 0.0))
    with pytest.raises(InputError) as refused:
        places.place(places.PlaceAction.ADD, "far", config=config)
    assert f"far: the map shows {line}" in str(refused.value)
    assert file.read_text() == good
    file.write_text(good + f"[far]\nx_m = {at[0]}\ny_m = {at[1]}\n")
    (wrong,) = places_out_of_reach(load_config(config))
    assert wrong.startswith(f"{file}: far: the map shows {line}")
    with pytest.raises(ConfigError, match="far: the map shows"):
        check_config(config=config)
    check_config(config=config, files_only=True)  # as the service before a start
    assert f"warning: {wrong}" in capsys.readouterr().err
    places.place(places.PlaceAction.LIST, config=config)
    listed = capsys.readouterr().out.splitlines()
    assert [": the map shows" in row for row in listed] == [False, False, True]


@pytest.mark.parametrize(("states", "driven"), ENDS, ids=[states[0] for states, _ in ENDS])
def test_a_route_goes_on_after_a_failure_but_not_after_a_cancel_or_e_stop(config, monkeypatch, states, driven):
    (config.parent / "places.toml").write_text("[a]\nx_m = 1.0\ny_m = 1.0\n[b]\nx_m = 2.0\ny_m = 1.0\n")
    left = list(states)
    monkeypatch.setattr(places, "_driven", lambda *_: left.pop(0))
    ended = pytest.raises(typer.Exit) if states != ["reached", "reached"] else nullcontext()
    with ended:
        places.route(["a", "b"], config=config)
    assert len(states) - len(left) == driven


def test_status_shows_how_far_the_route_is_and_a_second_one_is_refused(config, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (config.parent / "places.toml").write_text("[a]\nx_m = 1.0\ny_m = 1.0\n[b]\nx_m = 2.0\ny_m = 1.0\n")
    loaded, seen, ends = load_config(config), [], ["stopped: gave up", "reached"]

    def driven(*_):
        seen.append(route_progress.current(loaded))
        with pytest.raises(InputError, match=r"another onboard route drives .*: place \d of 2 .*; end it"):
            places.route(["a"], config=config)
        return ends.pop(0)

    monkeypatch.setattr(places, "_driven", driven)
    monkeypatch.setattr(places, "_ended_in", lambda *_: seen.append(route_progress.current(loaded)))
    assert route_progress.current(loaded) is None
    with pytest.raises(typer.Exit):
        places.route(["a", "b"], wait=12.0, config=config)
    assert seen == [
        "place 1 of 2 (a), driving",
        "place 1 of 2 (a), waiting 12 s, skipped: a",
        "place 2 of 2 (b), driving, skipped: a",
        "place 2 of 2 (b), waiting 12 s, skipped: a",
    ]
    assert route_progress.current(loaded) is None


class Driven(RunningRobot):
    """A runtime in process that reaches each place at once. after: what happens after a goal, and before a look."""

    def __init__(self, after: Callable[[Driven], None]) -> None:
        self.bench, self.after, self.goals = Bench(Puppet(STOP_ACTION)), after, 0
        self.tick()

    @contextmanager
    def open(self, _config: Config) -> Iterator[Driven]:
        yield self

    def tick(self, **inputs: Any) -> str:
        """Live a tick with these inputs; return the state."""
        self.bench.alter = lambda given: replace(given, **inputs)
        self.record = self.bench.tick()
        return self.record.state

    def press(self) -> None:
        """Press and release the e-stop."""
        self.tick(e_stop=True)
        self.tick(e_stop=False)

    def send(self, topic: str, sample: Any) -> None:
        stamp_ns, self.goals = self.bench.clock.now_ns(), self.goals + 1
        self.tick(goals=(GoalRequest(stamp_ns, stamp_ns, "odom", Pose(0.1, 0.0, 0.0)),))
        self.after(self)

    def answer(self, expected: Callable[[str], bool]) -> str:
        return self.record.state

    def next_state(self) -> str:
        return self.tick()

    def _reader(self, topic: str) -> Any:
        return SimpleNamespace(take=list)

    def drive(self) -> dict[str, str]:
        self.after(self)
        self.tick()
        after = self.record.after
        return {} if after is None else {k: str(v) for k, v in drive_row(self.record, after.mission, 0)[3].items()}


#   when the e-stop is pressed and released: before each look at the robot and after each goal; the route's wait [s]
STOPS: dict[str, tuple[Callable[[Driven], bool], float]] = {
    "on the way": (lambda robot: robot.record.state == "navigating", 0.0),
    "waiting": (lambda robot: robot.record.state.startswith("reached"), 60.0),
    "between goals": (lambda robot: robot.record.state.startswith("reached"), 0.0),
}


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("phase", STOPS)
def test_a_stop_in_any_phase_ends_the_route_though_it_is_released(config, monkeypatch, capsys, phase, paused):
    (config.parent / "places.toml").write_text("[a]\nx_m = 1.0\ny_m = 1.0\n[b]\nx_m = 2.0\ny_m = 1.0\n")

    happens, wait_s = STOPS[phase]

    def after(robot: Driven) -> None:
        if robot.goals == 1 and happens(robot):
            robot.tick(pause=paused)
            robot.press()

    robot = Driven(after)
    monkeypatch.setattr(places, "running_robot", robot.open)
    with pytest.raises(typer.Exit) as ended:
        places.route(["a", "b"], wait=wait_s, config=config)
    assert (ended.value.exit_code, robot.goals) == (1, 1)
    assert in_words("stopped: e_stop") in capsys.readouterr().out


def test_a_route_releases_the_stop_before_it_and_waits_without_one(config, monkeypatch):
    (config.parent / "places.toml").write_text("[a]\nx_m = 1.0\ny_m = 1.0\n[b]\nx_m = 2.0\ny_m = 1.0\n")
    robot = Driven(lambda robot: None)
    robot.press()
    robot.tick()
    monkeypatch.setattr(places, "running_robot", robot.open)
    places.route(["a", "b"], wait=0.05, config=config)
    assert robot.goals == 2


@pytest.mark.parametrize(("topic", "words"), [("e_stop", (True, False)), ("cancel", (None,))])
def test_a_stop_or_cancel_of_another_ends_a_waiting_route_on_the_wire(config, monkeypatch, capsys, topic, words):
    (config.parent / "places.toml").write_text("[a]\nx_m = 0.1\ny_m = 0.0\n")
    robot = LiveRobot(free_domain(), policy=Puppet(STOP_ACTION))
    loaded = load_config(config)
    loaded = loaded.model_copy(update={"dds": robot.config.dds})
    monkeypatch.setattr(places, "load_config", lambda _file: loaded)
    with closing(robot), closing(Wire(loaded.dds)) as other, ThreadPoolExecutor() as pool:
        robot.localise(Pose(0.0, 0.0, 0.0))
        writer = other.writer(topic)
        route = pool.submit(places.route, ["a"], wait=60.0, config=config)
        until(lambda: "reached" in capsys.readouterr().out)
        until(lambda: writer.readers() > 0)

        def ended() -> bool:
            for word in words:
                writer.write(Empty() if word is None else Bool(word))
            return route.done()

        until(ended)
        with pytest.raises(typer.Exit):
            route.result(60.0)
        assert in_words("stopped: e_stop" if topic == "e_stop" else "idle: cancelled") in capsys.readouterr().out


def rooms(*posts: tuple[float, float]) -> Reach:
    """Two rooms of 5 m x 4 m next to each other, with a post of 0.4 m at each of these places; 0.5 m around them."""
    percent = np.zeros((102, 222), np.int8)
    percent[10:92, [10, 110, 111, 211]] = percent[[10, 91], 10:212] = OCCUPIED
    for x_m, y_m in posts:
        row, column = round(y_m / 0.05) + 10, round(x_m / 0.05) + 10
        percent[row : row + 8, column : column + 8] = OCCUPIED
    return reach_in(OccupancyGrid(0.05, Pose(-0.5, -0.5, 0.0), percent), 0.25)


def seen_from(reach: Reach, x_m: float, y_m: float) -> Scan:
    """Cast the middle of each bin in the map, heading along x."""
    ranges_m = np.full(BINS, np.inf, np.float32)
    for k in range(BINS):
        angle = -math.pi + (k + 0.5) * BIN_RAD
        for away_m in np.arange(0.1, 8.0, 0.02):
            if reach.kind_at((x_m + away_m * math.cos(angle), y_m + away_m * math.sin(angle))) == "an obstacle":
                ranges_m[k] = away_m
                break
    return Scan(0, ranges_m, np.ones(BINS, np.bool_))


#   posts                                     another room explains the scan as well
RIVALS = [(((1.0, 1.0), (6.05, 1.0)), True), (((1.0, 1.0), (3.5, 2.5), (4.0, 0.5)), False)]


@pytest.mark.parametrize(("posts", "rival"), RIVALS, ids=["equal rooms", "rooms that differ"])
def test_a_scan_that_fits_two_rooms_does_not_tell_the_place(posts, rival):
    reach = rooms(*posts)
    scan, here = seen_from(reach, 2.5, 2.0), Pose(2.5, 2.0, 0.0)
    other = places._rival(scan, reach, here, map_fit.agreement(scan, reach, here))
    assert (other is not None) is rival
    if other is not None:
        assert (other.x_m, other.y_m) == pytest.approx((7.55, 2.0), abs=0.1)


def test_a_place_is_believed_where_furniture_has_moved_and_not_in_another_room():
    posts = ((1.0, 1.0), (4.0, 0.5), (6.3, 3.0), (8.0, 0.5))
    known, now = rooms((3.4, 1.8), *posts), rooms((3.0, 3.2), *posts)
    scan = seen_from(now, 2.3, 2.0)
    pose, agreed = map_fit.search(scan, known, Pose(3.0, 1.5, 1.0), 1.0, math.pi)
    assert (pose.x_m, pose.y_m) == pytest.approx((2.3, 2.0), abs=0.05)
    assert agreed.through > 0.04
    assert places._believable(agreed)
    _, elsewhere = map_fit.search(scan, known, Pose(7.5, 2.0, 0.0), 1.0, math.pi)
    assert elsewhere.explained > 0.8
    assert not places._believable(elsewhere)


def test_a_looping_route_waits_at_its_place(config, monkeypatch):
    (config.parent / "places.toml").write_text("[dock]\nx_m = 1.0\ny_m = 1.0\n")
    monkeypatch.setattr(places, "_driven", lambda *_: "reached")
    waited: list[float] = []

    def wait(_config: Config, time_s: float) -> None:
        waited.append(time_s)
        if len(waited) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(places, "_ended_in", wait)
    with pytest.raises(KeyboardInterrupt):
        places.route(["dock"], loop=True, wait=0.0, on_failure=places.OnFailure.SKIP, config=config)
    assert min(waited) >= 1.0
