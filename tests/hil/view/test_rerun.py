"""A recording in Rerun, read by Rerun's own reader and compared with the ticks."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rerun")


from hil.maps.world_grid import make_world
from hil.recordings.recording import TopicMessage, open_recording
from hil.view.draw_scene import blocks_of
from hil.view.rerun import Scene, screen_at
from hil.view.viewer_process import Outlet
from onboard.config.config import Config
from onboard.drivers.dds.ros_convert import ros_diagnostics, ros_goal, ros_image, ros_odometry, ros_scan
from onboard.drivers.dds.ros_types import Bool, String, TFMessage
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.geometry import compose
from onboard.values.messages import BINS, Pose, Scan, Twist
from tests.hil.view.rrd import TIMELINE, Saved
from tests.rigs.runtime_bench import MOUNTS
from tests.rigs.view_bench import COLOR, FAR_MM, FIX, GOAL, WALL_NS, Recorded, record_drive, wall_ns

FLOAT32 = 1e-5
START = Pose(7.0, -2.0, 1.0)


def saved(path: Path, messages: list[TopicMessage], scene: Scene | None = None) -> Saved:
    """Return what a screen makes of messages."""
    with screen_at(Outlet(path, False, False), scene or Scene(Config(), MOUNTS)) as (screen, viewer):
        assert viewer is None
        for message in messages:
            screen.show(message)
    return Saved(path)


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    return record_drive(tmp_path_factory.mktemp("drive"))


@pytest.fixture(scope="module")
def view(drive: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Saved:
    with open_recording(drive.path) as recording:
        messages = list(recording.read())
        scene = Scene(recording.config, recording.mounts, map_from_odom=START)
    return saved(tmp_path_factory.mktemp("view") / "drive.rrd", messages, scene)


def test_the_only_time_line_is_the_recordings(view, drive):
    assert view.timelines == {TIMELINE}
    assert view.blueprints == 1
    times = view.times("/map/odom/base")
    assert times == drive.times_ns


def test_commands_stand_at_their_ticks(view, drive):
    for name, of_tick in (("sent", lambda tick: tick.command), ("wanted", lambda tick: tick.wanted)):
        for axis, number in (("v", lambda twist: twist.v_mps), ("w", lambda twist: twist.w_radps)):
            entity = f"/commands/{axis}/{name}"
            assert view.times(entity) == drive.times_ns
            assert view.values(entity, "scalars") == [number(of_tick(tick)) for tick in drive.ticks]
    assert len(set(view.values("/commands/w/sent", "scalars"))) > 2
    assert view.values("/commands/v/operator", "scalars") == [0.1]


def test_the_robot_is_where_it_was(view, drive):
    poses = [tick.odometry.pose for tick in drive.ticks]
    rows = view.rows["/map/odom/base"]  # the base's odometry moves it too, in the first tick, before any transform
    places, turns = dict(rows["translation"]), dict(rows["rotation_axis_angle"])
    assert list(places) == list(turns) == drive.times_ns
    expected = np.array([(pose.x_m, pose.y_m, 0.0) for pose in poses])
    assert np.array([value[0] for value in places.values()]) == pytest.approx(expected, abs=FLOAT32)
    angles = [value[0]["angle"] for value in turns.values()]
    assert angles == pytest.approx([pose.yaw_rad for pose in poses], abs=FLOAT32)


def test_the_odometry_frame_lies_at_the_given_start_until_there_is_a_fix(view, drive):
    poses = {wall_ns(tick): tick.map_from_odom for tick in drive.ticks}
    places = view.rows["/map/odom"]["translation"]
    assert places[0][0] == drive.times_ns[0]  # with a time: what has none would hold for ever
    for at_ns, map_from_odom in poses.items():
        shown = [value[0][:2] for since_ns, value in places if since_ns <= at_ns][-1]
        expected = map_from_odom or START
        assert shown == pytest.approx([expected.x_m, expected.y_m], abs=FLOAT32)
    assert None in poses.values()
    assert poses[drive.times_ns[-1]] is not None
    last = compose(poses[drive.times_ns[-1]], drive.ticks[-1].odometry.pose)
    assert view.values("/map/here", "translation")[-1][:2] == pytest.approx([last.x_m, last.y_m], abs=FLOAT32)


def test_the_scan_shows_what_was_seen_and_nothing_else(view, drive):
    ticks = drive.ticks[20:]
    rows = dict(view.rows["/map/odom/base/scan/seen"]["positions"])
    assert len(rows) == len(drive.ticks)
    for tick in ticks:
        seen = tick.scan.seen & np.isfinite(tick.scan.ranges_m)
        points = np.array(rows[wall_ns(tick)])
        assert np.sort(np.hypot(points[:, 0], points[:, 1])) == pytest.approx(
            np.sort(tick.scan.ranges_m[seen]), abs=FLOAT32
        )
    blind = view.values("/map/odom/base/scan/blind", "strips")[-1]
    assert len(blind) > 0 if not drive.ticks[-1].scan.seen.all() else len(blind) == 0


def test_images_are_the_ones_that_were_decided_on(view, drive):
    decided = [tick for tick in drive.ticks if tick.sensed is not None]
    entity = "/map/odom/base/front/depth"
    assert view.times(entity) == [wall_ns(tick) for tick in decided]
    mount = MOUNTS.depth["front"]
    depth = np.array(view.values(entity, "buffer")[-1], np.uint8).view(np.uint16)
    assert depth.tolist() == [FAR_MM] * (mount.width * mount.height)
    assert view.values(entity, "meter")[-1] == 1000.0
    color = np.array(view.values("/map/odom/base/color/image", "buffer")[-1], np.uint8)
    assert (color == COLOR.ravel()).all()


def test_cameras_sit_where_the_mounts_say(view):
    for mount in MOUNTS.depth.values():
        rows = view.rows[f"/map/odom/base/{mount.name}"]
        assert rows["translation"][0][0] is None
        assert rows["translation"][0][1][0] == pytest.approx(mount.base_from_camera[:3, 3].tolist(), abs=FLOAT32)
        turned = np.array(rows["mat3x3"][0][1][0]).reshape(3, 3).T  # columns first
        assert turned == pytest.approx(mount.base_from_camera[:3, :3], abs=FLOAT32)
        assert rows["image_from_camera"][0][1][0][0] == mount.fx


def test_goal_fix_state_and_reason_are_told(view, drive):
    assert view.values("/map/goal", "translation") == [pytest.approx([GOAL.x_m, GOAL.y_m, 0.0])]
    assert view.values("/map/fix", "positions")[0][:2] == pytest.approx([FIX.x_m, FIX.y_m])
    assert view.values("/states/state", "state") == ["idle", "navigating", "stopped"]
    reasons = [tick.reason for tick in drive.ticks]
    changes = [reason for i, reason in enumerate(reasons) if i == 0 or reason != reasons[i - 1]]
    assert view.values("/states/reason", "state") == changes
    assert "e_stop" in changes
    assert view.values("/states/e_stop", "state") == ["true"]
    words = view.values("/words", "text")
    assert "state: stopped: e_stop" in words
    assert "| **state** | stopped: e_stop |" in view.values("/summary", "text")[-1]


def test_the_ticks_own_figures_are_plotted(view, drive):
    late = view.values("/figures/tick/late_ms", "scalars")
    assert late == pytest.approx([(t.slot.start_ns - t.slot.deadline_ns) / 1e6 for t in drive.ticks])
    assert len(view.times("/figures/tick/scan_ms")) == len(drive.ticks)


# ---- what only the wire brings


def at(seconds: float, topic: str, sample) -> TopicMessage:
    return TopicMessage(topic, WALL_NS + round(seconds * NS_PER_S), sample)


def test_diagnostics_are_plotted_and_their_troubles_told(tmp_path):
    rows = [
        ("runtime", 0, "navigating", {"missed_slots": 3, "scan_p99_ms": 1.5}),
        ("command", 0, "zone_slow", {"wanted_v_mps": 0.6, "wanted_w_radps": -1.0, "recovery": "", "e_stop": None}),
        ("pose", 0, "localized", {"goal_distance_m": 2.345, "localized": True}),
        ("camera front", 2, "no image for 400 ms", {"frames": 10, "age_ms": math.nan}),
    ]
    well = [("camera front", 0, "working", {"frames": 11})]
    view = saved(
        tmp_path / "a.rrd",
        [
            at(1, "diagnostics", ros_diagnostics(0, "robot", rows)),
            at(2, "diagnostics", ros_diagnostics(0, "robot", well)),
        ],
    )
    assert view.values("/figures/robot/runtime/missed_slots", "scalars") == [3.0]
    assert view.values("/figures/robot/camera\\ front/frames", "scalars") == [10.0, 11.0]
    assert "/figures/robot/camera\\ front/age_ms" not in view.rows
    assert "/figures/robot/command/recovery" not in view.rows
    assert view.values("/commands/w/wanted", "scalars") == [-1.0]
    assert view.values("/states/reason", "state") == ["zone_slow"]
    assert view.values("/words", "level")[-2:] == ["ERROR", "INFO"]
    assert "robot camera front: no image for 400 ms" in view.values("/words", "text")
    assert "2.35 m away" in view.values("/summary", "text")[-1]


def test_without_transforms_the_bases_own_odometry_moves_the_robot(tmp_path):
    odometry = ros_odometry(0, "odom", "base_link", Pose(1.0, 2.0, 0.0), Twist(0.5, 0.1))
    view = saved(tmp_path / "a.rrd", [at(1, "odom", odometry)])
    assert view.values("/map/odom/base", "translation") == [[1.0, 2.0, 0.0]]
    assert view.values("/commands/v/measured", "scalars") == [0.5]


def test_a_goal_in_the_robots_frame_stays_where_it_was_told(tmp_path):
    odometry = ros_odometry(0, "odom", "base_link", Pose(1.0, 0.0, math.pi / 2), Twist(0.0, 0.0))
    goal = ros_goal(0, "base_link", Pose(2.0, 0.0, 0.0))
    view = saved(tmp_path / "a.rrd", [at(1, "odom", odometry), at(2, "goal_pose", goal)])
    assert view.values("/map/odom/goal", "translation")[0] == pytest.approx([1.0, 2.0, 0.0], abs=FLOAT32)
    assert view.values("/map/goal", "is_recursive") == [True]


def test_the_way_is_drawn_in_pieces_without_the_jumps(tmp_path):
    stops = [0.0, 0.02, 0.06, 0.12, 3.0, 3.1]
    messages = [
        at(i, "odom", ros_odometry(0, "odom", "base_link", Pose(x, 0, 0), Twist(0, 0))) for i, x in enumerate(stops)
    ]
    pieces = saved(tmp_path / "a.rrd", messages).values("/map/path", "strips")
    ends = [[round(point[0], 2) for point in piece] for piece in pieces]
    assert ends == [[0.0, 0.06], [0.06, 0.12], [3.0, 3.1]]


def test_a_twin_stands_beside_the_robot_once_it_is_heard(tmp_path):
    scan = Scan(0, np.full(BINS, 2.0, np.float32), np.ones(BINS, np.bool_))
    view = saved(
        tmp_path / "a.rrd",
        [
            at(1, "twin/pose", ros_goal(0, "map", Pose(4.0, 5.0, 0.5))),
            at(1, "twin/scan", ros_scan(0, "base_link", scan, 10.0)),
            at(1, "twin/color/image", ros_image(0, "color", "rgb8", COLOR)),
            at(2, "twin/state", String("paused: safety stop")),
            at(2, "twin/collision", Bool(True)),
        ],
    )
    assert view.values("/map/twin", "translation") == [[4.0, 5.0, 0.0]]
    assert len(view.values("/map/twin/scan/seen", "positions")[0]) == BINS
    assert "/map/twin/color/image" in view.rows
    assert view.values("/states/twin", "state") == ["paused: safety stop"]
    assert view.values("/states/twin_collision", "state") == ["true"]
    assert "/map/odom/base/scan/seen" not in view.rows


def test_a_building_stands_where_its_map_says(tmp_path):
    high = np.full((4, 5, 1), -np.inf, np.float32)
    low = np.full((4, 5, 1), np.inf, np.float32)
    low[1, 1:4, 0], high[1, 1:4, 0] = 0.0, 2.5
    world = make_world("room", 0.05, START, low, high)
    view = saved(tmp_path / "a.rrd", [], Scene(Config(), MOUNTS, world))
    assert view.values("/map/building", "translation")[0][:2] == pytest.approx([START.x_m, START.y_m])
    boxes, blocks = view.rows["/map/building/boxes"], blocks_of(world)
    halves, centres = np.array(boxes["half_sizes"][0][1]), np.array(boxes["centers"][0][1])
    assert centres - halves == pytest.approx(blocks.low_m, abs=FLOAT32)
    assert centres + halves == pytest.approx(blocks.high_m, abs=FLOAT32)


def test_an_image_of_another_size_is_refused(tmp_path):
    wrong = at(1, "front/depth/image", ros_image(0, "front", "16UC1", np.zeros((4, 4), np.uint16)))
    with pytest.raises(InputError, match="image is 4x4, mounts say 80x60"):
        saved(tmp_path / "a.rrd", [wrong])


def test_transforms_of_other_robots_are_left_out(tmp_path, drive):
    with open_recording(drive.path) as recording:
        moved = next(message for message in recording.read() if message.topic == "tf")
    for transform in moved.sample.transforms:
        transform.child_frame_id = f"robot2/{transform.child_frame_id}"
    view = saved(tmp_path / "a.rrd", [moved])
    assert "/map/odom/base" not in {entity for entity, rows in view.rows.items() if "translation" in rows}


def test_topics_without_a_picture_are_passed_over(tmp_path):
    view = saved(tmp_path / "a.rrd", [at(1, "tf_static", TFMessage()), at(1, "front/depth/camera_info", None)])
    assert view.timelines == set()


def test_a_viewer_that_is_closed_while_it_is_shown_something_is_no_error(tmp_path):
    with screen_at(Outlet(tmp_path / "a.rrd", True, False), Scene(Config(), MOUNTS)) as (screen, viewer):
        viewer.end()
        for i in range(50):
            screen.show(at(i, "state", String(f"state {i}")))
    assert len(Saved(tmp_path / "a.rrd").times("/states/state")) == 50
