"""What a mounts file leaves out is taken from the robot at the start, kept beside the file, and used offline."""

from __future__ import annotations

import contextlib
import json
import math
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.assembly.robot import lasers_of, session_of
from onboard.assembly.taken_mounts import take_mounts
from onboard.config.config import Config, RobotSection, ScanSection
from onboard.config.mounts import completed_text, load_mounts
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_types import LaserScan, String
from onboard.drivers.dds.topics import LATCHED, Topic, scan_source
from onboard.drivers.realsense.device import Device, StreamInfo
from onboard.values.errors import ConfigError, DriverError
from onboard.values.geometry import quaternion_from_rpy
from tests.onboard.assembly.test_published_mounts import LENS, TREE, header, info, joint, robot
from tests.rigs.network.loopback import SECTION

__all__ = ["robot"]
BY_TF = '[cameras.front]\npose = "tf"\n'
PLACED = "[cameras.front]\ntranslation_m = [0.1, 0.0, 0.4]\nlook_deg = [0.0, 5.0, 0.0]\n"


def robot_with(mounts: Path, text: str, config: Config | None = None, **cameras) -> Config:
    mounts.write_text(text)
    config = config or Config(dds=SECTION.model_dump())
    changes = {"robot": RobotSection(mounts=mounts), "cameras": config.cameras.model_copy(update=cameras)}
    return config.model_copy(update=changes)


def test_lens_and_pose_are_taken_kept_used_offline_and_recorded(robot, tmp_path):
    config = robot_with(tmp_path / "mounts.toml", BY_TF, robot(info()), color="none")
    take_mounts(config, wait_s=2.0)
    front = load_mounts(config.robot.mounts).depth["front"]
    assert (front.width, front.height, front.fx, front.cy, front.depth_scale_m) == (848, 480, 421.5, 239.75, 0.001)
    assert front.base_from_camera[:3, 3] == pytest.approx([0.2, 0.01, 0.36])
    assert front.lens_taken
    assert front.pose_taken
    (tmp_path / "replayed").mkdir()
    elsewhere = tmp_path / "replayed" / "mounts.toml"
    elsewhere.write_text(session_of(config)["mounts"])
    replayed = load_mounts(elsewhere).depth["front"]
    assert (replayed.fx, replayed.lens_taken) == (421.5, False)
    assert (replayed.base_from_camera == front.base_from_camera).all()


def test_a_whole_file_asks_nothing(tmp_path):
    text = PLACED + "width = 80\nheight = 60\nfx = 40.0\nfy = 40.0\ncx = 39.5\ncy = 29.5\n"
    config = robot_with(tmp_path / "mounts.toml", text)
    take_mounts(config, wait_s=0.0)
    assert list(tmp_path.iterdir()) == [config.robot.mounts]
    assert completed_text(config.robot.mounts) == text


@pytest.mark.parametrize(
    ("later", "static", "words"),
    [
        (info(k=[410.0, *LENS[1:]]), TREE, "fx was 421.5, is 410"),
        (info(width=640), TREE, "width was 848, is 640"),
        (info(), [*TREE[:1], joint("base_link", "oak_link", (0.2, 0.0, 0.5)), TREE[2]], "pose was [0.2"),
    ],
    ids=["lens", "size", "pose"],
)
def test_another_camera_than_in_the_last_run_ends_the_start(robot, tmp_path, later, static, words):
    config = robot_with(tmp_path / "mounts.toml", BY_TF, robot(later, static), color="none")
    (tmp_path / "mounts.last_run.toml").write_text(LAST)
    with pytest.raises(ConfigError, match=r"differs from the last run .* Remove mounts\.last_run\.toml") as error:
        take_mounts(config, wait_s=2.0)
    assert words in str(error.value)


LAST = (
    "[cameras.front]\nwidth = 848\nheight = 480\nfx = 421.5\nfy = 420.5\ncx = 423.25\ncy = 239.75\n"
    "translation_m = [0.2, 0.01, 0.36]\nrotation_xyzw = [-0.5, 0.5, -0.5, 0.5]\n"
)


#   camera_info, static transforms, text of the file                                    words
WRONG = [
    (info(k=[0.0] * 9), TREE, BY_TF, "states focal lengths 0, 0"),
    (info(), TREE, PLACED + "width = 640\nheight = 480\n", "states 848x480, the file 640x480"),
    (info(header=header(1, "nowhere")), TREE, BY_TF, "/tf_static connects no base_link with 'nowhere'"),
    (info(), [*TREE, joint("other", "oak_link", (0.0, 0.0, 0.0))], BY_TF, "oak_link has two parents"),
    (info(), [TREE[2], joint("oak_optical", "oak_link", (0.0, 0.0, 0.0))], BY_TF, "is a loop"),
]


@pytest.mark.parametrize(("said", "static", "text", "words"), WRONG, ids=[row[3] for row in WRONG])
def test_what_cannot_be_taken_is_a_line_of_the_file(robot, tmp_path, said, static, text, words):
    config = robot_with(tmp_path / "mounts.toml", text, robot(said, static), color="none")
    with pytest.raises(ConfigError) as error:
        take_mounts(config, wait_s=1.0)
    assert words in str(error.value)
    assert str(error.value).startswith(f"{config.robot.mounts}: camera front: ")
    assert not (tmp_path / "mounts.last_run.toml").exists()


URDF = """<robot name="r"><link name="base_link"/><link name="head"/><link name="oak_optical"/>
<joint name="head_pan" type="revolute"><parent link="base_link"/><child link="head"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="1" velocity="1"/></joint>
<joint name="lens" type="fixed"><parent link="head"/><child link="oak_optical"/></joint></robot>"""


def test_a_moving_joint_is_named_by_the_robot_description(robot, tmp_path):
    config = robot_with(tmp_path / "mounts.toml", BY_TF, robot(info(), TREE[:1]), color="none")
    wire = Wire(SECTION)
    wire.writer(Topic("urdf", "/robot_description", "std_msgs/msg/String", LATCHED)).write(String(URDF))
    with pytest.raises(ConfigError, match=r"oak_optical moves against base_link \(head_pan"):
        take_mounts(config, wait_s=1.0)
    wire.close()


def test_a_silent_camera_is_waited_for_and_named(tmp_path):
    config = robot_with(tmp_path / "mounts.toml", BY_TF)
    with pytest.raises(DriverError, match=r"camera front: /front/depth/camera_info: nothing is received"):
        take_mounts(config, wait_s=0.1)


def test_a_device_states_lens_and_unit(tmp_path, monkeypatch):
    monkeypatch.setattr("onboard.assembly.taken_mounts.require_library", lambda: None)
    config = robot_with(tmp_path / "mounts.toml", PLACED + 'serial = "123"\n', source="realsense", color="none")
    asked = []

    def info(source) -> StreamInfo:
        asked.append(source)
        device = Device("123", "D435", "", "3.2")
        return StreamInfo(device, source.width, source.height, 30, 420.0, 421.0, 422.0, 239.0, "", (), 0.0001)

    take_mounts(config, info)
    front = load_mounts(config.robot.mounts).depth["front"]
    assert [(source.serial, source.width, source.height) for source in asked] == [("123", 848, 480)]
    assert (front.fx, front.cy, front.depth_scale_m) == (420.0, 239.0, 0.0001)
    assert front.base_from_camera[:3, 3] == pytest.approx([0.1, 0.0, 0.4])


def test_offline_a_d435_stands_in_and_a_line_says_so(tmp_path, caplog):
    config = robot_with(tmp_path / "mounts.toml", BY_TF)
    front = load_mounts(config.robot.mounts).depth["front"]
    assert (front.width, front.height) == (848, 480)
    load_mounts(config.robot.mounts)
    assert [record.message for record in caplog.records] == [
        f"{config.robot.mounts}: cameras.front: not taken from a robot yet: lens a RealSense D435's at 848x480; "
        "pose level, 0.3 m high, 0 deg to the left"
    ]
    (tmp_path / "mounts.last_run.toml").write_text(LAST)
    assert load_mounts(config.robot.mounts).depth["front"].fx == 421.5
    assert caplog.records[-1].message.endswith("lens and pose of the last run (mounts.last_run.toml)")


@pytest.mark.parametrize(("name", "view"), [("rear", (-1.0, 0.0)), ("head_left", (0.0, 1.0)), ("cam0", (1.0, 0.0))])
def test_the_stand_in_looks_where_its_name_says(name, view, tmp_path):
    config = robot_with(tmp_path / "mounts.toml", BY_TF.replace("front", name))
    assert load_mounts(config.robot.mounts).depth[name].base_from_camera[:2, 2] == pytest.approx(view)


def test_the_service_keeps_the_numbers_in_its_state_folder(robot, tmp_path, monkeypatch):
    state = tmp_path / "state"
    state.mkdir()
    monkeypatch.setenv("STATE_DIRECTORY", str(state))
    config = robot_with(tmp_path / "mounts.toml", PLACED, robot(info()), color="none")
    take_mounts(config, wait_s=2.0)
    assert (state / "mounts.last_run.toml").exists()
    assert load_mounts(config.robot.mounts).depth["front"].fx == 421.5


# ---- poses of lidars

SCAN = {"lasers": {"/scan": "tf"}}
SIDE = quaternion_from_rpy(0.0, 0.0, math.pi / 2)
LASER = [TREE[0], joint("base_link", "laser", (0.12, 0.0, 0.2), SIDE)]


@contextlib.contextmanager
def scanning(frame: str) -> Iterator[None]:
    """A lidar that sends scans in a frame."""
    over = threading.Event()
    with contextlib.closing(Wire(SECTION)) as wire:
        scans = wire.writer(scan_source("/scan"))

        def send() -> None:
            while not over.wait(0.05):
                scans.write(LaserScan(header(1, frame)))

        thread = threading.Thread(target=send)
        thread.start()
        yield
        over.set()
        thread.join()


def with_lidar(robot, mounts: Path, static: list, scan: dict) -> Config:
    config = robot_with(mounts, BY_TF, robot(None, static), source="none", color="none")
    return config.model_copy(update={"scan": ScanSection.model_validate(scan), "dds": SECTION})


def test_the_pose_of_a_lidar_is_taken_kept_used_offline_and_recorded(robot, tmp_path, caplog):
    config = with_lidar(robot, tmp_path / "mounts.toml", LASER, SCAN)
    assert lasers_of(config)["/scan"][:3, 3] == pytest.approx([0.0, 0.0, 0.3])
    assert caplog.records[-1].message.endswith("scan.lasers /scan: pose not taken from a robot yet: level, 0.3 m high")
    with scanning("laser"):
        take_mounts(config, wait_s=5.0)
    placed = lasers_of(config)["/scan"]
    assert placed[:3, 3] == pytest.approx([0.12, 0.0, 0.26])
    assert placed[:2, 0] == pytest.approx([0.0, 1.0])
    recorded = json.loads(session_of(config)["configuration"])["scan"]["lasers"]
    assert recorded == {"/scan": [0.12, 0.0, 0.26, 0.0, 0.0, 90.0]}
    assert config.scan.lasers == SCAN["lasers"]


MOVED = [TREE[0], joint("base_link", "laser", (0.22, 0.0, 0.2), SIDE)]
HEAD = [TREE[0], joint("base_link", "laser", (0.0, 0.0, 0.2), quaternion_from_rpy(0.0, 0.2, 0.0))]
HIGH = [TREE[0], joint("base_link", "laser", (0.0, 0.0, 1.9), SIDE)]
LAST_LASER = f'{LAST}[lasers]\n"/scan" = [0.12, 0.0, 0.26, 0.0, 0.0, 90.0]\n'

#   static       frame      last run     words
WRONG_LASERS = [
    (MOVED,      "laser",   LAST_LASER,  r"pose was \[0\.12.*, is \[0\.22.*\]: was the lidar moved\? Remove mounts\."),
    (HEAD,       "laser",   "",          r"/scan: /scan is tilted by 11\.5 deg"),
    (HIGH,       "laser",   "",          r"/scan is 1\.96 m above the floor, not within"),
    (TREE[:1],   "nowhere", "",          r"connects no base_link with 'nowhere'.*write its pose into scan\.lasers"),
    (TREE[:1],   "laser",   "moving",    r"/scan: laser moves against base_link \(head_pan"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("static", "frame", "last", "words"), WRONG_LASERS, ids=["moved", "tilted", "high", "unknown", "joint"]
)
def test_a_lidar_that_cannot_be_placed_is_a_line(robot, tmp_path, static, frame, last, words):
    config = with_lidar(robot, tmp_path / "mounts.toml", static, SCAN)
    with contextlib.closing(Wire(SECTION)) as wire:
        if last == "moving":
            urdf = URDF.replace("oak_optical", "laser")
            wire.writer(Topic("urdf", "/robot_description", "std_msgs/msg/String", LATCHED)).write(String(urdf))
        elif last:
            (tmp_path / "mounts.last_run.toml").write_text(last)
        with scanning(frame), pytest.raises(ConfigError, match=words):
            take_mounts(config, wait_s=1.5)
    assert (tmp_path / "mounts.last_run.toml").exists() == (last == LAST_LASER)


def test_a_silent_lidar_is_named(robot, tmp_path):
    config = with_lidar(robot, tmp_path / "mounts.toml", LASER, SCAN)
    with pytest.raises(DriverError, match=r"scan\.lasers: /scan: nothing is received: is the lidar's driver running"):
        take_mounts(config, wait_s=0.2)
