"""`onboard cameras --out`: what a running robot says of its cameras becomes a mounts file that loads."""

from __future__ import annotations

import contextlib
import math
import threading

import pytest
from typer.testing import CliRunner

from onboard.__main__ import app
from onboard.assembly import published_mounts as module
from onboard.assembly.robot import lidar_rows
from onboard.config.config import Config, ScanSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import header
from onboard.drivers.dds.ros_types import (
    CameraInfo,
    LaserScan,
    PointCloud2,
    Quaternion,
    TFMessage,
    Transform,
    TransformStamped,
    Vector3,
)
from onboard.drivers.dds.topics import BY_NAME, LATCHED, SENSOR, Topic
from onboard.values.errors import InputError
from onboard.values.geometry import quaternion_from_rpy
from tests.rigs.network.loopback import DOMAIN, SECTION

IMAGES = {"front/depth/image": "/oak/depth/image_rect/compressedDepth", "color/image": "/oak/rgb/image_raw/compressed"}
OPTICAL = quaternion_from_rpy(-math.pi / 2, 0.0, -math.pi / 2)
LENS = [421.5, 0.0, 423.25, 0.0, 420.5, 239.75, 0.0, 0.0, 1.0]


def joint(parent: str, child: str, xyz: tuple[float, float, float], xyzw=(0.0, 0.0, 0.0, 1.0)) -> TransformStamped:
    return TransformStamped(header(1, parent), child, Transform(Vector3(*xyz), Quaternion(*xyzw)))


TREE = [
    joint("base_footprint", "base_link", (0.0, 0.0, 0.06)),
    joint("base_link", "oak_link", (0.2, 0.0, 0.3)),
    joint("oak_link", "oak_optical", (0.0, 0.01, 0.0), OPTICAL),
]


def info(**changes) -> CameraInfo:
    whole = {"header": header(1, "oak_optical"), "width": 848, "height": 480, "k": LENS, "d": [0.0] * 5}
    return CameraInfo(**{**whole, "distortion_model": "plumb_bob", **changes})


@pytest.fixture
def robot(monkeypatch):
    """A robot that publishes until the test ends; `say` takes its camera_info, static and moving transforms."""
    monkeypatch.setattr(module, "WAIT_S", 2.0)
    wire, over = Wire(SECTION), threading.Event()
    threads: list[threading.Thread] = []

    def say(info: CameraInfo | None, static=TREE, moving=()) -> Config:
        kind = BY_NAME["color/camera_info"].kind
        infos = [wire.writer(Topic(at, f"/oak/{at}/camera_info", kind, SENSOR)) for at in ("depth", "rgb")]
        writers = [
            wire.writer(Topic(f"static {number}", "/tf_static", "tf2_msgs/msg/TFMessage", LATCHED)) for number in static
        ]
        for writer, one in zip(writers, static, strict=True):  # as several publishers do, each keeps its last message
            writer.write(TFMessage([one]))
        tf = wire.writer("tf")

        def repeat() -> None:
            while not over.wait(0.05):
                for writer in infos if info is not None else ():
                    writer.write(info)
                if moving:
                    tf.write(TFMessage(list(moving)))

        threads.append(threading.Thread(target=repeat))
        threads[-1].start()
        return Config(dds={**SECTION.model_dump(), "remap": IMAGES})

    yield say
    over.set()
    for thread in threads:
        thread.join()
    wire.close()


def test_size_lens_and_pose_are_those_that_the_robot_publishes(robot, tmp_path):
    text, notes = module.published_mounts(robot(info()))
    (tmp_path / "mounts.toml").write_text(text)
    mounts = load_mounts(tmp_path / "mounts.toml")
    front = mounts.depth["front"]
    assert (front.width, front.height, front.depth_scale_m) == (848, 480, 0.001)
    assert (front.fx, front.fy, front.cx, front.cy) == (421.5, 420.5, 423.25, 239.75)
    assert front.base_from_camera[:3, 3] == pytest.approx([0.2, 0.01, 0.36])
    assert front.base_from_camera[:3, 2] == pytest.approx([1.0, 0.0, 0.0])  # it looks ahead
    assert mounts.color["color"].width == 848
    assert notes == []


LIDAR_TREE = [
    TREE[0],
    joint("base_link", "laser", (0.12, 0.0, 0.2), quaternion_from_rpy(0.0, 0.0, math.pi / 2)),
    joint("base_link", "points", (0.0, 0.0, 0.6), quaternion_from_rpy(math.pi, 0.0, 0.0)),
]


def test_the_places_of_lidars_are_said_as_the_configuration_states_them(robot):
    scan = {"lasers": {name: [0.0, 0.0, 0.3, 0.0, 0.0, 0.0] for name in ("/scan", "/off")}, "clouds": ["/points"]}
    config = robot(None, LIDAR_TREE).model_copy(update={"dds": SECTION, "scan": ScanSection.model_validate(scan)})
    rows, over = lidar_rows(config), threading.Event()
    with contextlib.closing(Wire(SECTION)) as wire:
        scans, points = wire.writer(rows["/scan"]), wire.writer(rows["/points"])

        def send() -> None:
            while not over.wait(0.1):
                scans.write(LaserScan(header(1, "laser")))
                points.write(PointCloud2(header(1, "points")))

        thread = threading.Thread(target=send)
        thread.start()
        text, notes = module.published_mounts(config)
        over.set()
        thread.join()
    assert text == ""
    assert notes == [
        'lidar /scan: in [scan.lasers] "/scan" = [0.12, 0.0, 0.26, 0.0, 0.0, 90.0], or scan.laser = [0.12, 0.0, 90.0]',
        "lidar /off: nothing is received: is the lidar's driver running?",
        'lidar /points: in [scan.lasers] "/points" = [0.0, 0.0, 0.66, 180.0, 0.0, 0.0]',
    ]


def test_the_command_writes_the_file_once(robot, tmp_path):
    robot(info())
    config, out = tmp_path / "onboard.toml", tmp_path / "mounts.toml"
    remap = "\n".join(f'"{ours}" = "{theirs}"' for ours, theirs in IMAGES.items())
    config.write_text(f"[dds]\ndomain = {DOMAIN}\n[dds.remap]\n{remap}\n")
    command = ["cameras", "--config", str(config), "--out", str(out)]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, (done.stderr, done.exception)
    assert list(load_mounts(out).depth) == ["front"]
    again = CliRunner().invoke(app, command)
    assert again.exit_code != 0
    assert "already exists; --force" in str(again.exception)


#   camera_info, static, moving transforms           words of the mistake
REFUSED = [
    (info(k=[0.0] * 9), TREE, (), "states focal lengths 0, 0 for 848x480: calibrate the camera"),
    (info(width=0), TREE, (), "for 0x480"),
    (info(k=[math.nan] * 9), TREE, (), "states focal lengths nan"),
    (None, TREE, (), "/oak/depth/camera_info: nothing is received"),
    (info(), [*TREE[:1], TREE[2]], TREE[1:2], "oak_optical moves against base_link (/tf has base_link - oak_link)"),
]


@pytest.mark.parametrize(("said", "static", "moving", "words"), REFUSED, ids=[row[3] for row in REFUSED])
def test_what_cannot_be_written_is_a_line(robot, said, static, moving, words):
    config = robot(said, static, moving)
    with pytest.raises(InputError) as error:
        module.published_mounts(config)
    assert words in str(error.value)


#   camera_info, static transforms                   words of the note
DOUBTS = [
    (
        info(d=[0.1, 0.0, 0.0, 0.0, 0.0], p=[400.0, 0, 320.0, 0, 0, 401.0, 240.0, 0, 0, 0, 1, 0]),
        TREE,
        "has a distortion",
    ),
    (info(), TREE[1:], "tf has no base_footprint: heights are from base_link"),
    (
        info(header=header(1, "elsewhere")),
        TREE,
        "/tf_static connects no base_link with 'elsewhere'; its frames: base_footprint",
    ),
]


@pytest.mark.parametrize(("said", "static", "words"), DOUBTS, ids=[row[2] for row in DOUBTS])
def test_what_is_doubtful_is_a_note(robot, said, static, words):
    text, notes = module.published_mounts(robot(said, static))
    assert any(words in note for note in notes), notes
    assert ("fx = 400.0" in text) == ("distortion" in words)
    assert ("# translation_m" in text) == ("elsewhere" in words)


def test_without_a_topic_the_line_says_what_to_write():
    with pytest.raises(InputError, match="no camera: map its image topic"):
        module.published_mounts(Config())
