"""Bags through the runtime: the recording matches the bag, replays identically, and names missing inputs."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from mcap.reader import make_reader
from PIL import Image as Picture
from typer.testing import CliRunner

from hil.__main__ import app
from hil.recordings.bags.drive import COMMANDS_TOPIC, import_bag
from hil.recordings.bags.plan import ImportOptions
from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from hil.replay.replay import replay
from onboard.drivers.dds.ros_types import CompressedImage, Image
from onboard.recording.tick_message import has_images, only_with_images
from onboard.state import TickRecord
from onboard.values.errors import InputError, OnboardError
from tests.rigs.devices.small_model import small_policy_files
from tests.rigs.recordings.bag_rig import (
    CAMERA_TOPICS,
    SPEED_MPS,
    START_NS,
    WALL_M,
    drive,
    rvl,
    write_ros1,
    write_ros2,
    write_ros2_mcap,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(small_policy_files(tmp_path_factory.mktemp("model")))


def recorded(path: Path) -> list[TickRecord]:
    with open_recording(path) as recording:
        return list(ticks_of(recording))


WRITERS = [write_ros2, write_ros2_mcap, write_ros1]


@pytest.mark.parametrize("write", WRITERS, ids=lambda write: write.__name__)
def test_a_bag_with_a_laser_becomes_a_drive_that_replays_identically(write, model, tmp_path):
    bag = write(tmp_path / "bag", drive(4.0, CAMERA_TOPICS))
    imported = import_bag([bag], tmp_path / "drive.mcap", ImportOptions({}, policy=model))
    assert imported.topics == {
        "/robot/odom": "odom",
        "/robot/cmd_vel": "cmd_vel",
        "/robot/scan": "scan from imported/scan",
    }
    ticks = recorded(imported.file)
    assert (imported.ticks, len(ticks)) == (120, 120)
    stamps = [one.stamp_ns for tick in ticks for one in tick.inputs.odometry]
    assert stamps == [START_NS + n * 50_000_000 for n in range(80)]
    assert imported.driven_m == pytest.approx(SPEED_MPS * 3.95, abs=0.01)
    for tick in ticks[15:]:
        ahead_m = min(tick.scan.ranges_m[89:91])
        assert ahead_m == pytest.approx(WALL_M - SPEED_MPS * tick.slot.number / 30, abs=0.1)
    assert imported.decisions == sum(tick.acted is not None for tick in ticks) > 5
    assert imported.agreement is not None
    assert imported.agreement.decisions == imported.decisions
    again = replay(imported.file)
    assert (again.identical, again.ticks, again.decisions) == (True, 120, imported.decisions)


def test_a_bag_with_a_depth_camera_says_itself_where_it_sits(model, tmp_path):
    bag = write_ros2(tmp_path / "bag", drive(3.0, ["/robot/scan"]))
    imported = import_bag([bag], tmp_path / "drive.mcap", ImportOptions({}, policy=model))
    assert imported.topics["/camera/depth/image_raw"] == "camera/depth/image"
    assert imported.topics["/camera/color/image_raw"] == "color/image"
    with open_recording(imported.file) as recording:
        mount = recording.mounts.depth["camera"]
    assert mount.base_from_camera[:3, 3] == pytest.approx([0.1, 0.0, 0.4])
    assert (mount.width, mount.height, mount.fx, mount.cy) == (80, 60, 40.0, 29.5)
    ticks = recorded(imported.file)
    deciding = [tick for tick in ticks if has_images(tick)]
    assert len(deciding) == sum(tick.sensed is not None for tick in ticks) > 3
    for tick in deciding:
        assert min(tick.scan.ranges_m[89:91]) == pytest.approx(WALL_M - SPEED_MPS * tick.slot.number / 30, abs=0.1)
        assert only_with_images(tick.inputs).color is not None
    again = replay(imported.file)
    assert (again.identical, again.fused) == (True, len(deciding))


def in_form(form: str, image: Image) -> CompressedImage | Image:
    """Return a depth image in another encoding, or in a format of image_transport."""
    pixels = np.frombuffer(image.data, np.uint16).reshape(image.height, image.width)
    if form == "32FC1":
        return replace(image, encoding=form, step=4 * image.width, data=(pixels * np.float32(0.001)).tobytes())
    if form == "mono16":
        return replace(image, encoding=form)
    head, stream = bytes(12), io.BytesIO()
    if form.startswith("32FC1"):
        head = struct.pack("<iff", 0, 10_000.0, 0.0)
        pixels = np.rint(10_000.0 / (pixels * 0.001)).astype(np.uint16)
    Picture.fromarray(pixels).save(stream, "png")
    if "rvl" in form:
        return CompressedImage(image.header, form, head + struct.pack("<ii", image.width, image.height) + rvl(pixels))
    return CompressedImage(image.header, form, (head if "Depth" in form else b"") + stream.getvalue())


DEPTH_TOPIC = "/camera/depth/image_raw"


@pytest.mark.parametrize(
    "form",
    [
        "mono16",
        "32FC1",
        "16UC1; png compressed ",
        "16UC1; compressedDepth rvl",
        "32FC1; compressedDepth rvl",
        "32FC1; compressedDepth png",
    ],
)
def test_depth_in_every_form_is_seen_as_depth(form, model, tmp_path):
    suffix = "/compressedDepth" if "Depth" in form else "/compressed" if ";" in form else ""
    messages = [
        (topic + suffix, at_ns, in_form(form, sample)) if topic == DEPTH_TOPIC else (topic, at_ns, sample)
        for topic, at_ns, sample in drive(1.5, ["/robot/scan", "/camera/color/image_raw"])
    ]
    bag = write_ros2(tmp_path / "bag", messages)
    imported = import_bag([bag], tmp_path / "drive.mcap", ImportOptions({}, policy=model))
    assert imported.topics[DEPTH_TOPIC + suffix] == "camera/depth/image"
    assert "color/image" not in imported.topics.values()
    assert imported.scans > 30
    tick = recorded(imported.file)[-1]
    assert min(tick.scan.ranges_m[89:91]) == pytest.approx(WALL_M - SPEED_MPS * tick.slot.number / 30, abs=0.1)


def test_a_bag_without_a_valid_scan_ends_with_1_and_says_why(model, tmp_path):
    messages = drive(0.7, ["/robot/scan"])
    for topic, _, sample in messages:
        if topic == DEPTH_TOPIC:
            sample.encoding = "nv12"
    out = tmp_path / "drive.mcap"
    bag = write_ros2(tmp_path / "bag", messages)
    done = CliRunner().invoke(app, ["import", str(bag), "--out", str(out), "--policy", model])
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {out}: no tick has a valid scan, so the robot does not move: ")
    assert f"{DEPTH_TOPIC}: images of 'nv12' cannot be read" in line
    scans = drive(0.7, CAMERA_TOPICS)
    for topic, _, sample in scans:
        if topic == "/robot/scan":
            sample.angle_increment = 0.0
    lidar = write_ros2(tmp_path / "lidar", scans)
    done = CliRunner().invoke(app, ["import", str(lidar), "--out", str(tmp_path / "c.mcap"), "--policy", model])
    assert done.exit_code == 1
    assert "/robot/scan: its first scan is refused: " in done.stderr
    for _, _, sample in messages:
        if isinstance(sample, Image) and sample.encoding == "nv12":
            sample.encoding, sample.data = "16UC1", sample.data[:-7]
    cut = write_ros2(tmp_path / "cut", messages)
    done = CliRunner().invoke(app, ["import", str(cut), "--out", str(tmp_path / "b.mcap"), "--policy", model])
    assert done.exit_code == 1
    assert "camera: image refused: 9593 bytes in rows of 160 are no 80x60 16UC1" in done.stderr


def test_the_recorded_commands_stand_beside_those_of_the_runtime(model, tmp_path):
    bag = write_ros2(tmp_path / "bag", drive(1.0, CAMERA_TOPICS))
    imported = import_bag([bag], tmp_path / "drive.mcap", ImportOptions({}, policy=model))
    with imported.file.open("rb") as stream:
        times = [message.log_time for _, _, message in make_reader(stream).iter_messages([COMMANDS_TOPIC])]
    assert len(times) == 10
    assert all(abs(at_ns - START_NS - n * 100_000_000) < 40_000_000 for n, at_ns in enumerate(times))


def test_a_goal_is_asked_for_where_the_robot_went_or_where_one_says(model, tmp_path):
    bag = write_ros2(tmp_path / "bag", drive(2.0, CAMERA_TOPICS))
    for asked, x_m in (
        (ImportOptions({}, policy=model), 1.95 * SPEED_MPS),
        (ImportOptions({}, goal_xy_m=(7.0, 2.0), policy=model), 7.0),
    ):
        file = tmp_path / f"{x_m}.mcap"
        import_bag([bag], file, asked)
        (goal,) = [goal for tick in recorded(file) for goal in tick.inputs.goals]
        assert (goal.frame_id, goal.pose.x_m) == ("wheels", pytest.approx(x_m))


#   left out of the bag                                  said to be missing, the beginning of the lines
MISSING = [
    ([], ["localization", "goals"]),
    (["/robot/cmd_vel"], ["localization", "goals", "commands"]),
    (CAMERA_TOPICS, ["localization", "goals", "colour images"]),
    (
        ["/robot/odom", *CAMERA_TOPICS],
        ["odometry", "localization", "goals", "colour", "/robot/scan: no transform from"],
    ),
    (["/robot/scan", *CAMERA_TOPICS], ["localization", "goals", "colour", "depth images or a laser scan"]),
    (["/robot/scan", "/camera/depth/camera_info"], ["localization", "goals", "/camera/depth/image_raw: no intrinsics"]),
    (["/robot/scan", "/tf_static"], ["localization", "goals", "/camera/depth/image_raw: no transform from base to"]),
]


@pytest.mark.parametrize(("left_out", "lines"), MISSING)
def test_what_is_missing_is_said_in_one_line_each_and_the_rest_is_played(
    left_out: Iterable[str], lines, model, tmp_path
):
    bag = write_ros2(tmp_path / "bag", drive(1.0, left_out))
    imported = import_bag([bag], tmp_path / "drive.mcap", ImportOptions({}, policy=model))
    for line in lines:
        assert [one for one in imported.missing if one.startswith(line)], (line, imported.missing)
    assert not [one for one in imported.missing if "\n" in one]
    assert imported.ticks == len(recorded(imported.file)) >= 28
    assert replay(imported.file).identical


def config(folder: Path, **mounts: object) -> Path:
    """Write the configuration of a robot with one camera."""
    table = {"width": 80, "height": 60, "fx": 40.0, "fy": 40.0, "cx": 39.5, "cy": 29.5} | mounts
    lines = [f"{name} = {value}" for name, value in table.items()]
    lines += ["translation_m = [0.3, 0.0, 0.3]", "rotation_xyzw = [-0.5, 0.5, -0.5, 0.5]"]
    (folder / "mounts.toml").write_text("\n".join(["[cameras.nose]", *lines]))
    (folder / "robot.toml").write_text('[robot]\nmounts = "mounts.toml"\n')
    return folder / "robot.toml"


def test_the_mounts_of_a_configuration_come_first(model, tmp_path):
    bag = write_ros2(tmp_path / "bag", drive(1.0, ["/robot/scan"]))
    imported = import_bag([bag], tmp_path / "drive.mcap", ImportOptions({}, config=config(tmp_path), policy=model))
    assert imported.topics["/camera/depth/image_raw"] == "nose/depth/image"
    with open_recording(imported.file) as recording:
        assert recording.mounts.depth["nose"].base_from_camera[0, 3] == 0.3


OFFICE = Path(__file__).parents[2] / "data/realsense-recording/office_40f.db3"


def test_real_depth_images_that_librealsense_recorded_are_seen(model, tmp_path):
    asked = ImportOptions({}, config=config(tmp_path, width=640, height=480, fx=384.0, fy=384.0), policy=model)
    imported = import_bag([OFFICE], tmp_path / "drive.mcap", asked)
    assert list(imported.topics.values()) == ["nose/depth/image"]
    assert imported.scans > 0.9 * imported.ticks > 50
    assert any(line.startswith("odometry: ") for line in imported.missing)
    assert replay(imported.file).identical


def test_a_mount_of_another_size_is_said(model, tmp_path):
    bag = write_ros2(tmp_path / "bag", drive(0.5, ["/robot/scan"]))
    asked = ImportOptions({}, config=config(tmp_path, width=640), policy=model)
    imported = import_bag([bag], tmp_path / "drive.mcap", asked)
    assert "/camera/depth/image_raw: its images are 80x60, the mount nose says 640x60" in imported.missing


#   what is asked for                                          the line
REFUSED = [
    (
        ImportOptions({"odometry": "/none"}),
        "--odometry /none: there is no such topic; of that type there is /robot/odom",
    ),
    (ImportOptions({}, depth=["nose=/robot/odom"]), "--depth /robot/odom: is a nav_msgs/msg/Odometry"),
    (ImportOptions({}, policy="none-such"), "policy none-such: no shipped policy has this name"),
    (ImportOptions({}, config=Path("none.toml")), "none.toml: cannot be read"),
]


@pytest.mark.parametrize(("asked", "line"), REFUSED)
def test_what_cannot_be_done_leaves_nothing_behind(asked, line, tmp_path):
    bag = write_ros2(tmp_path / "bag", drive(0.5))
    before = sorted(tmp_path.iterdir())
    with pytest.raises(OnboardError) as raised:
        import_bag([bag], tmp_path / "drive.mcap", asked)
    assert str(raised.value).startswith(line)
    assert sorted(tmp_path.iterdir()) == before


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    bag = write_ros2(tmp_path / "bag", drive(0.5))
    with pytest.raises(InputError, match=r"no/drive\.mcap: cannot be written: there is no folder"):
        import_bag([bag], tmp_path / "no" / "drive.mcap", ImportOptions({}))
    (tmp_path / "drive.mcap").write_text("precious")
    with pytest.raises(InputError, match=r"drive\.mcap: exists already"):
        import_bag([bag], tmp_path / "drive.mcap", ImportOptions({}))
    assert (tmp_path / "drive.mcap").read_text() == "precious"


def test_a_recording_that_is_there_is_replaced_when_forced(model, tmp_path):
    bag = write_ros2(tmp_path / "bag", drive(0.5))
    (tmp_path / "drive.mcap").write_text("old")
    with pytest.raises(InputError, match="no-such"):
        import_bag([tmp_path / "no-such"], tmp_path / "drive.mcap", ImportOptions({}), force=True)
    assert (tmp_path / "drive.mcap").read_text() == "old"
    imported = import_bag([bag], tmp_path / "drive.mcap", ImportOptions({}, policy=model), force=True)
    assert len(recorded(imported.file)) == imported.ticks
    with pytest.raises(InputError, match="is the bag itself"):
        import_bag([imported.file], imported.file, ImportOptions({}), force=True)
    with pytest.raises(InputError, match="a folder"):
        import_bag([bag], tmp_path, ImportOptions({}), force=True)


def test_the_command_says_what_was_found_what_is_missing_and_what_came_of_it(model, tmp_path):
    bag = write_ros1(tmp_path / "bag", drive(2.0, CAMERA_TOPICS))
    out, result = tmp_path / "drive.mcap", tmp_path / "result.json"
    done = CliRunner().invoke(
        app, ["import", str(bag), "--out", str(out), "--policy", model, "--goal", "5,1", "--json", str(result)]
    )
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].split() == ["odom", "/robot/odom"]
    assert "missing: localization: poses come from the odometry alone" in lines
    assert f"{out}: 60 ticks in 2.0 s" in done.output
    assert "decisions are the action nearest to the recorded command" in lines[-1]
    values = json.loads(result.read_text())
    assert (values["file"], values["ticks"]) == (str(out), 60)
    assert values["agreement"]["decisions"] == values["decisions"]
    for goal in ("5", "5,x", "nan,1"):
        refused = CliRunner().invoke(app, ["import", str(bag), "--out", str(tmp_path / "b.mcap"), "--goal", goal])
        assert isinstance(refused.exception, InputError)
        assert str(refused.exception).startswith(f"--goal {goal}: must be")
