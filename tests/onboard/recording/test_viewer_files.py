"""What the layout for Foxglove and the configuration for RViz name is in a recording, with the type that they need."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rosbags.highlevel import AnyReader

from onboard.drivers.dds.ros_types import BY_ROS_NAME
from onboard.perception.building.occupancy_grid import OccupancyGrid
from onboard.recording.ros_schema import message_type
from onboard.recording.scene import Scene
from onboard.recording.tick_writer import TickRecorder
from onboard.values.messages import Pose
from tests.onboard.recording.test_tick_writer import tape_in
from tests.rigs.runtime_bench import MOUNTS, Bench

ROOT = Path(__file__).parents[3]
LAYOUT, RVIZ = ROOT / "docs" / "foxglove-layout.json", ROOT / "docs" / "onboard.rviz"
KINDS = {
    "LaserScan": "sensor_msgs/msg/LaserScan", "Path": "nav_msgs/msg/Path", "Image": "sensor_msgs/msg/Image",
    "Polygon": "geometry_msgs/msg/PolygonStamped", "MarkerArray": "visualization_msgs/msg/MarkerArray",
    "SetGoal": "geometry_msgs/msg/PoseStamped", "Map": "nav_msgs/msg/OccupancyGrid",
}  # fmt: skip
"""What a display or a tool of RViz subscribes to or publishes."""
IN_3D = {*KINDS.values(), "tf2_msgs/msg/TFMessage"}
OFFERED = ("/clicked_point", "/initialpose")
"""Topics that Foxglove's own buttons would publish; nothing here reads them."""


GRID = OccupancyGrid(0.05, Pose(-1.0, -2.0, 0.1), np.array([[0, 100, -1], [0, 0, 100]], np.int8))


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tape = tape_in(tmp_path_factory.mktemp("viewers"))
    bench = Bench(listeners=[tape])
    tape._writer = TickRecorder(tape.recorder, bench.config.dds, MOUNTS, 10.0, Scene(bench.config, building=GRID))
    bench.ticks(5)
    bench.ask()
    bench.seconds(2.0)
    return tape.close()


@pytest.fixture(scope="module")
def topics(recording: Path) -> dict[str, str]:
    with AnyReader([recording]) as reader:
        return {connection.topic: connection.msgtype for connection in reader.connections}


def texts(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """Yield each text of a layout with its key; a key that is a topic counts too."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.startswith("/"):
                yield "topics", name
            yield from texts(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from texts(inner, key)
    elif isinstance(value, str):
        yield key, value


def panels(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    else:
        yield from (*panels(node["first"]), *panels(node["second"]))


def field_of(kind: str, path: str) -> bool:
    """Return whether a message path (`.twist.twist.linear.x`, `.status[0].values`) leads to a field of a type."""
    text = message_type(BY_ROS_NAME[kind]).definition
    parts = {"": text.partition("=" * 80)[0]}
    for part in text.split("=" * 80)[1:]:
        name, _, body = part.strip().partition("\n")
        parts[name.removeprefix("MSG: ")] = body
    at = ""
    for step in filter(None, re.sub(r"\[\d+\]", "", path).split(".")):
        found = re.search(rf"^(\S+?)(?:\[\d*\])? {step}$", parts.get(at, ""), re.MULTILINE)
        if found is None:
            return False
        at = found[1]
    return True


def test_each_panel_of_the_layout_has_its_topic_in_a_recording(topics: dict[str, str]) -> None:
    layout = json.loads(LAYOUT.read_text())
    assert set(panels(layout["layout"])) == set(layout["configById"])
    named = [(key, text) for key, text in texts(layout["configById"]) if text.startswith("/") and text not in OFFERED]
    assert len(named) >= 10
    for key, text in named:
        topic = next((name for name in sorted(topics, key=len, reverse=True) if re.match(rf"{name}(\.|$)", text)), None)
        assert topic is not None, f"{key}: {text} is in no recording"
        assert field_of(topics[topic], text.removeprefix(topic)), text
        if key == "topics":
            assert topics[topic] in IN_3D, text


def test_each_display_of_rviz_has_its_topic_and_type_in_a_recording(topics: dict[str, str]) -> None:
    manager = yaml.safe_load(RVIZ.read_text())["Visualization Manager"]
    found = [one for one in (*manager["Displays"], *manager["Tools"]) if "Topic" in one]
    assert len(found) >= 6
    for one in found:
        assert topics[one["Topic"]["Value"]] == KINDS[one["Class"].partition("/")[2]], one["Class"]


PACKAGES = ("@mcap/core@2", "@foxglove/rosmsg@5", "@foxglove/rosmsg2-serialization@3", "fzstd@0.1")
SCRIPT = """
import { McapStreamReader } from "@mcap/core";
import { parse } from "@foxglove/rosmsg";
import { MessageReader } from "@foxglove/rosmsg2-serialization";
import { decompress } from "fzstd";
import { readFileSync } from "node:fs";
const stream = new McapStreamReader({ decompressHandlers: { zstd: (data) => decompress(data) } });
stream.append(readFileSync(process.argv[2]));
const schemas = new Map(), channels = new Map(), counts = {};
for (let record; (record = stream.nextRecord()); ) {
  if (record.type === "Schema") schemas.set(record.id, parse(new TextDecoder().decode(record.data), { ros2: true }));
  if (record.type === "Channel")
    channels.set(record.id, { topic: record.topic, reader: new MessageReader(schemas.get(record.schemaId)) });
  if (record.type !== "Message") continue;
  const { topic, reader } = channels.get(record.channelId);
  reader.readMessage(record.data);
  counts[topic] = (counts[topic] ?? 0) + 1;
}
console.log(JSON.stringify(counts));
"""


@pytest.mark.long
def test_foxgloves_own_readers_decode_every_message(recording: Path, tmp_path: Path) -> None:
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("no node and npm here: apt-get install nodejs npm")
    install = ["npm", "install", "--no-audit", "--no-fund", "--silent", *PACKAGES]
    try:
        installed = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        pytest.skip("npm does not reach its registry from here within 60 s")
    if installed.returncode != 0:
        pytest.skip(f"npm cannot install Foxglove's readers here: {installed.stderr.strip()[-200:]}")
    (tmp_path / "read.mjs").write_text(SCRIPT)
    read = subprocess.run(
        ["node", "read.mjs", str(recording)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert read.returncode == 0, read.stderr[-2000:]
    with AnyReader([recording]) as reader:
        expected = {topic: found.msgcount for topic, found in reader.topics.items()}
    assert json.loads(read.stdout) == expected


def test_the_map_is_read_back_as_it_was(recording: Path) -> None:
    with AnyReader([recording]) as reader:
        (connection,) = [one for one in reader.connections if one.topic == "/map"]
        ((_, _, data),) = reader.messages([connection])
        found = reader.deserialize(data, connection.msgtype)
    assert (found.info.width, found.info.height) == (3, 2)
    assert found.info.resolution == pytest.approx(GRID.cell_m)
    assert found.data.tolist() == GRID.percent.ravel().tolist()
    assert (found.info.origin.position.x, found.header.frame_id) == (-1.0, "map")
