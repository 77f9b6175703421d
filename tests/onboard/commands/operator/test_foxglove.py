"""The bridge to Foxglove by its own protocol: topics, schemas, latched state, images at most five times a second."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
import threading
import time
from collections.abc import Coroutine, Iterator
from typing import Any

import numpy as np
import pytest

from onboard.commands.operator.foxglove import BACKLOG, IMAGE_S, UNREAD, names_of
from onboard.config.config import Config, DdsSection
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_goal, ros_image
from onboard.drivers.dds.ros_types import BY_ROS_NAME, Image, PoseStamped, String, from_cdr, to_cdr
from onboard.drivers.dds.topics import BY_NAME
from onboard.values.errors import InputError
from onboard.values.messages import Pose
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain, hear

aiohttp = pytest.importorskip("aiohttp", reason="the client of this test is aiohttp's")
foxglove = pytest.importorskip("onboard.commands.operator.foxglove", reason="no foxglove-sdk here")

PROTOCOL = "foxglove.sdk.v1"
LIMIT_S = 20.0


class Bridged:
    """A bridge with its server and the robot's side of the wire."""

    def __init__(self, publishing: bool) -> None:
        self.config = Config(dds=DdsSection(domain=free_domain()))
        self.robot, self.ours = Wire(self.config.dds), Wire(self.config.dds)
        self.bridge = foxglove.Bridge(self.config, self.ours, publishing)
        self.server = self.bridge.serve("127.0.0.1", 0)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._ended.wait(0.01):
            self.bridge.pass_on()

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        self.server.stop()
        self.robot.close()
        self.ours.close()


@contextlib.contextmanager
def bridged(publishing: bool = False) -> Iterator[Bridged]:
    with contextlib.closing(Bridged(publishing)) as made:
        yield made


class Client:
    """A client of Foxglove's protocol."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket
        self.info: dict[str, Any] = {}
        self.channels: dict[str, dict[str, Any]] = {}

    async def until_announced(self, count: int) -> None:
        while len(self.channels) < count:
            text = json.loads((await self.socket.receive(LIMIT_S)).data)
            if text["op"] == "serverInfo":
                self.info = text
            elif text["op"] == "advertise":
                self.channels |= {channel["topic"]: channel for channel in text["channels"]}

    async def subscribe(self, topic: str, number: int = 1) -> None:
        channel = self.channels[topic]["id"]
        await self.socket.send_json({"op": "subscribe", "subscriptions": [{"id": number, "channelId": channel}]})

    async def message(self) -> bytes:
        """Return the next message's bytes."""
        while True:
            came = await self.socket.receive(LIMIT_S)
            if came.type == aiohttp.WSMsgType.BINARY and came.data[0] == 1:
                return bytes(came.data[13:])


def talk(made: Bridged, what: Any) -> Any:
    async def run() -> Any:
        address = f"ws://127.0.0.1:{made.server.port}"
        async with aiohttp.ClientSession() as session, session.ws_connect(address, protocols=[PROTOCOL]) as socket:
            client = Client(socket)
            await client.until_announced(len(names_of(made.config)))
            return await what(client)

    told: Coroutine[Any, Any, Any] = run()
    return asyncio.run(told)


def test_every_topic_has_its_schema_and_commands_are_not_offered() -> None:
    with bridged() as made:

        async def look(client: Client) -> tuple[dict[str, Any], dict[str, Any]]:
            return client.info, client.channels

        info, channels = talk(made, look)
    assert info["capabilities"] == [], "no publishing"
    assert {"/scan", "/onboard/path", "/onboard/markers", "/tf", "/front/depth/image"} <= set(channels)
    assert not {f"/{BY_NAME[name].wire}" for name in UNREAD} & set(channels)
    for channel in channels.values():
        assert (channel["encoding"], channel["schemaEncoding"]) == ("cdr", "ros2msg")
        assert channel["schemaName"] in BY_ROS_NAME
        assert channel["schema"] or channel["schemaName"] == "std_msgs/msg/Empty"


def test_a_late_client_gets_the_state_and_each_next_one() -> None:
    with bridged() as made:
        made.robot.writer("state").write(String("idle"))

        async def look(client: Client) -> list[str]:
            await client.subscribe("/onboard/state")
            first = from_cdr(String, await client.message()).data
            made.robot.writer("state").write(String("navigating"))
            return [first, from_cdr(String, await client.message()).data]

        assert talk(made, look) == ["idle", "navigating"]

        async def again(client: Client) -> str:
            await client.subscribe("/onboard/state")
            return str(from_cdr(String, await client.message()).data)

        assert talk(made, again) == "navigating"


def test_images_are_read_only_while_subscribed_and_at_most_five_times_a_second() -> None:
    with bridged() as made:
        writer = made.robot.writer("front/depth/image")
        assert not writer.wait_for_reader(0.3), "nobody asked for it"
        ended = threading.Event()

        def publish() -> None:
            while not ended.wait(0.02):
                writer.write(ros_image(1, "front", "16UC1", np.zeros((6, 8), np.uint16)))

        sender = threading.Thread(target=publish)
        sender.start()

        async def look(client: Client) -> float:
            await client.subscribe("/front/depth/image")
            began_s = time.monotonic()
            for _ in range(5):
                image = from_cdr(Image, await client.message())
                assert (image.height, image.width) == (6, 8)
            return time.monotonic() - began_s

        took_s = talk(made, look)
        ended.set()
        sender.join()
        assert took_s >= 3.5 * IMAGE_S
        until(lambda: writer.readers() == 0)


GOAL = ros_goal(7, "base_link", Pose(3.0, 0.0, 0.0))


@pytest.mark.parametrize("publishing", [False, True])
def test_a_client_publishes_only_where_that_was_asked_for(publishing: bool) -> None:
    with bridged(publishing) as made:
        made.robot.writer("state").write(String("idle"))
        goals, stops = made.robot.reader("goal_pose"), made.robot.reader("e_stop")

        async def send(client: Client) -> list[str]:
            for number, (topic, kind) in enumerate(
                [("/goal_pose", "geometry_msgs/msg/PoseStamped"), ("/e_stop", "std_msgs/msg/Bool")], 1
            ):
                channel = {"id": number, "topic": topic, "encoding": "cdr", "schemaName": kind, "schema": ""}
                await client.socket.send_json({"op": "advertise", "channels": [channel]})
                for data in (b"", b"\x00\x01\x00\x00damaged", to_cdr(GOAL)):
                    await client.socket.send_bytes(struct.pack("<BI", 1, number) + data)
            await client.subscribe("/onboard/state")  # the server handles a client's messages in their order
            await client.message()
            return list(client.info["capabilities"])

        capabilities = talk(made, send)
        assert capabilities == (["clientPublish"] if publishing else [])
        came = hear(goals) if publishing else goals.take()
        assert [message.sample for message in came] == [from_cdr(PoseStamped, to_cdr(GOAL))][: int(publishing)]
        assert stops.take() == []


def test_a_taken_port_gets_a_line() -> None:
    with bridged() as made, pytest.raises(InputError, match="choose another with --port"):
        made.bridge.serve("127.0.0.1", made.server.port)
    assert BACKLOG == 32
