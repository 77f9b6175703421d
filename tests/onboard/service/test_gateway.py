"""The runtime's half of the gateway. Its other half, with real ROS nodes: `tests/ros2/test_gateway.py`."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from pathlib import Path

from onboard.assembly.robot import lidar_rows
from onboard.config.config import Config
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_types import MapMetaData, OccupancyGrid
from onboard.drivers.dds.ros_types import Path as RosPath
from onboard.service.gateway import Gateway
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain


def test_every_lidar_and_cloud_is_carried_with_its_type_and_name(tmp_path: Path) -> None:
    front, rear, cloud = "scan", "/scan_rear", "/points"
    poses = {name: [0.2, 0.0, 0.3, 0.0, 0.0, 0.0] for name in (front, rear, cloud)}
    scan = {"lasers": {name: poses[name] for name in (front, rear)}}
    limits = {"lasers": {cloud: poses[cloud]}, "clouds": [cloud]}
    remap = {"scan": "onboard/scan", "odom": "platform/odom"}
    dds = {"domain": free_domain(), "interface": "lo", "remap": remap}
    config = Config.model_validate({"scan": scan, "limits_scan": limits, "dds": dds, "cameras": {"source": "none"}})
    gate = Gateway(config.dds, list(lidar_rows(config).values()), tmp_path / "socket")
    serving = threading.Thread(target=gate.run)
    serving.start()
    with contextlib.closing(gate), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as node:
        node.connect(str(tmp_path / "socket"))
        hello = json.loads(node.recv(1 << 20))
        gate.stop()
        serving.join()
    kinds, names = hello["to_runtime"], hello["names"]
    assert {names[row]: kind for row, kind in kinds.items() if names[row] in (front, rear, cloud)} == {
        front: "sensor_msgs/msg/LaserScan",
        rear: "sensor_msgs/msg/LaserScan",
        cloud: "sensor_msgs/msg/PointCloud2",
    }
    assert (names["scan"], names["odom"], names["pause"]) == ("onboard/scan", "platform/odom", "onboard/pause")


def test_a_node_that_starts_later_gets_the_map_and_what_viewers_show(tmp_path: Path) -> None:
    dds = {"domain": free_domain(), "interface": "lo"}
    config = Config.model_validate({"dds": dds, "cameras": {"source": "none"}})
    gate = Gateway(config.dds, (), tmp_path / "socket")
    serving = threading.Thread(target=gate.run)
    serving.start()
    with contextlib.closing(gate), contextlib.closing(Wire(config.dds)) as wire:
        wire.writer("map").write(OccupancyGrid(info=MapMetaData(resolution=0.05, width=2, height=1), data=b"\0d"))
        until(lambda: gate._map != b"")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as node:
            node.connect(str(tmp_path / "socket"))
            kinds = json.loads(node.recv(1 << 20))["from_runtime"]
            assert node.recv(1 << 20).startswith(b"map\0")
            plan = wire.writer("plan")
            plan.wait_for_reader(10.0)
            plan.write(RosPath())
            assert node.recv(1 << 20).startswith(b"plan\0")
            gate.stop()
            serving.join()
    assert kinds["markers"] == "visualization_msgs/msg/MarkerArray"
