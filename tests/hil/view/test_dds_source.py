"""The live source reads all shown topics, and no sender waits for it."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from hil.live.twin.topics import POSE, twin_section
from hil.recordings.recording import TopicMessage
from hil.view.dds_source import IMAGE_PERIOD_S, PLAIN, DdsSource, listen, shown_topics
from hil.view.queue import ScreenQueue
from onboard.config.config import DEFAULT_ROBOT, DdsSection
from onboard.config.mounts import load_mounts
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_convert import ros_goal, ros_image, ros_twist
from onboard.drivers.dds.ros_types import String
from onboard.drivers.dds.topics import ros_topic
from onboard.values.messages import Pose, Twist
from tests.rigs.network.loopback import PATIENCE_S, SECTION

MOUNTS = load_mounts(DEFAULT_ROBOT / "mounts.toml")
IMAGE = ros_image(0, "front", "16UC1", np.full((60, 80), 1234, np.uint16))


def test_the_robots_topics_and_those_of_its_twin_are_listened_to():
    topics = shown_topics(DdsSection(namespace="robot7"), MOUNTS, images=True)
    assert set(PLAIN) <= set(topics)
    wires = {name: ros_topic(DdsSection(namespace="robot7"), row) for name, row in topics.items()}
    assert wires["front/depth/image"] == "/robot7/front/depth/image"
    assert wires["twin/front/depth/image"] == "/robot7/twin/front/depth/image"
    assert wires["twin/pose"] == "/robot7/twin/pose"
    assert wires["tf"] == "/tf"


def test_without_images_no_camera_is_asked():
    assert not [name for name in shown_topics(SECTION, MOUNTS, images=False) if "image" in name]


def test_a_topic_that_the_robot_hears_from_the_twin_is_there_once():
    section = DdsSection(remap={"color/image": "twin/color/image"})
    topics = shown_topics(section, MOUNTS, images=True)
    assert "twin/color/image" not in topics
    assert ros_topic(section, topics["color/image"]) == "/twin/color/image"


def test_no_reader_asks_for_acknowledgement():
    assert not [name for name, row in shown_topics(SECTION, MOUNTS, True).items() if row.quality.read_reliable]


@pytest.fixture
def twin():
    wire = Wire(twin_section(SECTION))
    yield wire
    wire.close()


def test_what_is_published_is_heard_under_our_names(wires, twin):
    ears = DdsSource(wires[0], MOUNTS, images=True)
    writers = {
        "cmd_vel": (wires[1].writer("cmd_vel"), ros_twist(Twist(0.5, -0.25))),
        "state": (wires[1].writer("state"), String("navigating")),
        "front/depth/image": (wires[1].writer("front/depth/image"), IMAGE),
        "twin/pose": (twin.writer(POSE), ros_goal(0, "map", Pose(1.0, 2.0, 0.0))),
    }
    received: dict[str, TopicMessage] = {}

    def all_received() -> bool:
        for name, (writer, sample) in writers.items():
            if name not in received:
                writer.write(sample)
        received.update({message.topic: message for message in ears.take()})
        return set(writers) <= set(received)

    assert wait_until(all_received, PATIENCE_S)
    assert received["cmd_vel"].sample.linear.x == 0.5
    assert received["front/depth/image"].sample.data == IMAGE.data
    assert received["twin/pose"].sample.pose.position.y == 2.0


class Stalled:
    """A screen that never shows anything."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def show(self, received: TopicMessage) -> None:
        self.go.wait()

    def close(self) -> None:
        self.go.set()


def test_a_stalled_screen_stops_neither_the_listener_nor_the_sender(wires):
    """The sender's words are taken from the wire all the same: what the queue does not hold is dropped and counted."""
    screen, over = Stalled(), threading.Event()
    pump = ScreenQueue(screen, most_messages=5)
    ears = DdsSource(wires[0], MOUNTS, images=False)
    listener = threading.Thread(target=listen, args=(ears, pump, over, None, lambda: True))
    listener.start()
    writer, sent = wires[1].writer("cmd_vel"), 0

    def dropped() -> int:
        nonlocal sent
        writer.write(ros_twist(Twist(sent * 0.01, 0.0)))
        sent += 1
        return pump.stats().dropped.get("cmd_vel", 0)

    assert wait_until(lambda: dropped() >= 20, PATIENCE_S)
    over.set()
    listener.join(PATIENCE_S)
    assert not listener.is_alive()
    screen.close()
    counts = pump.close()
    assert counts.shown + sum(counts.dropped.values()) <= sent
    assert counts.shown == 5


#   why it ends              over    seconds  watched
ENDS = [
    ("it was asked to",      True,   None,    True),
    ("its time is over",     False,  0.05,    True),
    ("nobody looks",         False,  None,    False),
]  # fmt: skip


@pytest.mark.parametrize(("name", "asked", "seconds", "watched"), ENDS, ids=[row[0] for row in ENDS])
def test_listening_ends_when(wires, name, asked, seconds, watched):
    over = threading.Event()
    if asked:
        over.set()
    screen = Stalled()
    pump = ScreenQueue(screen)
    listen(DdsSource(wires[0], MOUNTS, images=False), pump, over, seconds, lambda: watched)
    screen.close()
    assert pump.close().shown == 0


def test_cameras_are_not_asked_more_often_than_is_shown(wires):
    ears = DdsSource(wires[0], MOUNTS, images=True)
    writer = wires[1].writer("front/depth/image")
    count, began_s = 0, time.monotonic()

    def shown() -> bool:
        nonlocal count
        writer.write(IMAGE)
        count += sum(message.topic == "front/depth/image" for message in ears.take())
        return count >= 4

    assert wait_until(shown, PATIENCE_S)
    assert time.monotonic() - began_s >= 3 * IMAGE_PERIOD_S
