"""What viewers show of a drive: path, arc, footprint, markers, and the typed state."""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest

from onboard.config.config import Config, MapSection
from onboard.config.footprint import Footprint, polygon
from onboard.config.places import add_place
from onboard.drivers.dds.ros_types import MarkerArray, PolygonStamped, from_cdr, ros_name, to_cdr
from onboard.drivers.dds.ros_types import Path as RosPath
from onboard.recording import scene as scene_rules
from onboard.recording.scene import MOST_POSES, Scene, arc, outline, why
from onboard.recording.tick_writer import SCENE, TickRecorder
from onboard.state import TickRecord
from onboard.values.messages import Pose, Twist
from tests.onboard.recording.test_tick_writer import read, tape_in
from tests.rigs.runtime_bench import LEFT, MOUNTS, Bench, Puppet

SQUARE = polygon(((0.3, 0.2), (-0.3, 0.2), (-0.3, -0.2), (0.3, -0.2)))


def driven(seconds: float = 4.0) -> tuple[Scene, TickRecord]:
    """Return the scene after a drive ahead with a failed rear camera, and the last tick."""
    bench = Bench()
    scene = Scene(bench.config)
    bench.ticks(5)
    bench.ask(8.0)
    del bench.images["rear"]
    for record in bench.seconds(seconds):
        scene.note(record)
    return scene, record


def messages(scene: Scene, record: TickRecord) -> dict[str, object]:
    return {name: make() for name, make in scene.messages(record, 7_000_000_000, SCENE)}


def test_a_drive_has_path_arc_footprint_and_markers_that_ros_can_read() -> None:
    scene, record = driven()
    made = messages(scene, record)
    path, arcs, footprint, markers = made["path"], made["arc"], made["footprint"], made["markers"]
    assert isinstance(path, RosPath)
    assert isinstance(arcs, RosPath)
    assert isinstance(footprint, PolygonStamped)
    assert isinstance(markers, MarkerArray)
    steps = np.diff([one.pose.position.x for one in path.poses])
    assert path.header.frame_id == "odom"
    assert len(path.poses) > 10
    assert (steps[:-1] >= scene_rules.STEP_M - 1e-9).all(), "a pose every step"
    assert path.poses[-1].pose.position.x == record.odometry.pose.x_m, "the last pose is the robot's"
    assert arcs.poses[-1].pose.position.x == pytest.approx(record.command.v_mps * scene_rules.ARC_S)
    radius_m = max(math.hypot(one.x, one.y) for one in footprint.polygon.points)
    assert radius_m == pytest.approx(Config().robot.footprint.reach_m, abs=1e-3)
    named = {marker.ns: marker for marker in markers.markers}
    assert {"stop_zone", "slow_zone", "blind", "goal", "state"} <= set(named)
    assert named["goal"].pose.position.x == pytest.approx(8.0, abs=0.05)
    assert named["goal"].header.frame_id == "odom"
    assert named["state"].text == "navigating"
    for message in (path, arcs, footprint, markers):
        assert from_cdr(type(message), to_cdr(message)) == from_cdr(type(message), to_cdr(message))
        assert ros_name(type(message)).count("/") == 2


def test_the_names_of_places_are_shown_as_their_file_is_now(tmp_path: Path) -> None:
    bench, file = Bench(), tmp_path / "places.toml"
    scene = Scene(bench.config.model_copy(update={"map": MapSection(file=tmp_path / "map.yaml")}))
    record = bench.tick(5)
    object.__setattr__(record, "map_from_odom", Pose(0.0, 0.0, 0.0))

    def names() -> list[tuple[int, str, float]]:
        markers = messages(scene, record)["markers"]
        assert isinstance(markers, MarkerArray)
        return [(one.id, one.text, one.pose.position.x) for one in markers.markers if one.ns == "places"]

    assert names() == []
    add_place(file, "dock", Pose(1.0, 2.0, 0.0))
    add_place(file, "Küche", Pose(3.0, 2.0, 0.0))
    assert names() == [(0, "dock", 1.0), (1, "Küche", 3.0)]
    file.write_text("[dock]\nx_m = 'x'\n")
    os.utime(file, (0.0, 0.0))
    assert names() == []


def test_the_path_is_bounded_however_long_the_drive_is() -> None:
    scene, record = driven(0.5)
    for number in range(20 * MOST_POSES):
        object.__setattr__(record.odometry, "pose", Pose(0.2 * number, 0.0, 0.0))
        scene.note(record)
    path = messages(scene, record)["path"]
    assert isinstance(path, RosPath)
    assert MOST_POSES / 2 <= len(path.poses) <= MOST_POSES + 1


OUTLINES = [
    (Footprint(0.25), 0.25, 0.25),
    (SQUARE, 0.3, 0.2),
    (SQUARE.grown(0.1), 0.4, 0.3),
]


@pytest.mark.parametrize(("footprint", "x_m", "y_m"), OUTLINES)
def test_an_outline_reaches_as_far_as_the_footprint(footprint: Footprint, x_m: float, y_m: float) -> None:
    line = outline(footprint)
    assert line[:, 0].max() == pytest.approx(x_m, abs=1e-9)
    assert line[:, 1].max() == pytest.approx(y_m, abs=1e-9)
    assert (footprint.covers(line, 1e-6)).all()


def test_the_arc_bends_as_the_command_turns() -> None:
    _, record = driven(0.5)
    object.__setattr__(record, "command", Twist(0.0, 1.0))
    poses = arc(record)
    assert [pose.x_m for pose in poses] == [0.0] * len(poses)
    assert poses[-1].yaw_rad == pytest.approx(scene_rules.ARC_S)


WHYS = [
    ("navigating", "none", []),
    ("idle", "idle", ["idle"]),
    ("navigating", "zone_stop", ["zone_stop"]),
    ("stopped: goal is occupied", "idle", ["goal_occupied"]),
    ("stopped: e_stop", "e_stop", ["e_stop"]),
    ("navigating; paused", "paused", ["paused"]),
]


@pytest.mark.parametrize(("state", "reason", "codes"), WHYS)
def test_the_typed_state_has_each_reason_once(state: str, reason: str, codes: list[str]) -> None:
    assert [row.code for row in why(state, reason)] == codes


def test_the_recording_has_them_once_a_second_and_replays_without_them(tmp_path: Path) -> None:
    tape = tape_in(tmp_path)
    config = Bench().config
    tape._writer = TickRecorder(tape.recorder, config.dds, MOUNTS, config.scan.far_m, Scene(config))
    bench = Bench(Puppet(LEFT), listeners=[tape])
    bench.ticks(5)
    bench.ask()
    bench.seconds(4.0)
    found = read(tape.close())
    counts = {topic: len(found[f"/onboard/{topic}"]) for topic in (*SCENE, "drive", "tick")}
    assert counts["tick"] > 120
    assert all(counts[topic] == 5 for topic in SCENE), counts
    assert 5 <= counts["drive"] <= 7, counts
    assert found["/onboard/markers"][-1][1].markers[-1].text == "navigating"
