"""A map from `/map`: kept as a file of map_server, refused with one line, and never over a file of another."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onboard.assembly.assembly import check_files
from onboard.assembly.robot import building_of
from onboard.assembly.taken_map import NewerMap, grid_of_ros, take_map
from onboard.config.config import Config, DdsSection, MapSection
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_convert import ros_pose
from onboard.perception.building.occupancy_grid import load_building
from onboard.values.errors import ConfigError, DriverError, InputError
from onboard.values.messages import Pose
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain
from tests.rigs.network.ros2_peer import ROS_PYTHON, Peer

CORNER = Pose(-1.0, 2.0, 0.3)
CELLS = np.array([[100, 0, 0], [-1, 19, 65]], np.int8)
KINDS = np.array([[100, 0, 0], [-1, 0, 100]], np.int8)


def message(cells: Any = CELLS, **info: Any) -> ros.OccupancyGrid:
    rows, columns = cells.shape
    given = {"resolution": 0.05, "width": columns, "height": rows, "origin": ros_pose(CORNER)} | info
    return ros.OccupancyGrid(ros.Header(frame_id="map"), ros.MapMetaData(**given), cells.tobytes())


def config_in(folder: Path, domain: int | None = None) -> Config:
    section = MapSection(file=folder / "map.yaml", topic=True)
    return Config(dds=DdsSection(domain=free_domain() if domain is None else domain), map=section)


def publish(config: Config, *messages: ros.OccupancyGrid) -> closing[Wire]:
    wire = Wire(config.dds)
    for one in messages:
        wire.writer("map").write(one)
    return closing(wire)


def test_the_newest_map_is_kept_and_a_later_start_takes_another(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    check_files(config)  # as the service before its first start
    assert building_of(config) is None
    for cells, kinds in ((CELLS, KINDS), (CELLS[::-1], KINDS[::-1])):
        with publish(config, message(CELLS[:1]), message(np.ascontiguousarray(cells))):
            take_map(config)
        kept = building_of(config)
        assert kept is not None
        assert (kept.cell_m, kept.percent.tolist()) == (0.05, kinds.tolist())
        assert (kept.map_from_grid.x_m, kept.map_from_grid.y_m, kept.map_from_grid.yaw_rad) == pytest.approx(
            (CORNER.x_m, CORNER.y_m, CORNER.yaw_rad)
        )


def test_another_map_during_a_run_is_named_until_the_first_one_is_back(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with publish(config, message()) as sender:
        take_map(config)
        building = building_of(config)
        assert building is not None
        with closing(Wire(config.dds)) as wire, closing(NewerMap(wire, building)) as watch:
            sender.writer("map").write(message(np.ascontiguousarray(CELLS[::-1])))
            until(lambda: bool(watch.faults()))
            (fault,) = watch.faults()
            assert (fault.row, fault.standing) == ("map", False)
            assert fault.reason == "/map is another map now than the one taken at the start"
            sender.writer("map").write(message(width=7))  # no map: nothing is known
            sender.writer("map").write(message())
            until(lambda: not watch.faults())


def test_without_a_publisher_it_says_so_and_a_file_of_another_stays(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    with pytest.raises(
        DriverError, match=r"map.topic: no map on /map within 0.1 s: is map_server running and active\?"
    ):
        take_map(config, 0.1)
    (tmp_path / "map.yaml").write_text("image: mine.pgm\n")
    with pytest.raises(ConfigError, match=r"map.yaml was not written by a run, .* name another file"):
        take_map(config, 0.1)
    assert (tmp_path / "map.yaml").read_text() == "image: mine.pgm\n"


#   what is published                                                              the line
BAD: list[tuple[Callable[[], ros.OccupancyGrid], str]] = [
    (lambda: message(resolution=0.0), "/map: resolution 0 m, expected 0.005 to 1 m"),
    (lambda: message(width=7), "/map: 6 cells of 7 x 2"),
    (lambda: message(width=0, height=0), "/map: 6 cells of 0 x 0"),
    (lambda: message(origin=ros_pose(Pose(np.inf, 0.0, 0.0))), "/map: its origin is not finite"),
    (lambda: message(np.full((2, 3), -1, np.int8)), "/map: no cell is free"),
    (lambda: replace(message(), header=ros.Header(frame_id="odom")), "/map: its frame is 'odom', expected 'map'"),
]


@pytest.mark.parametrize(("made", "line"), BAD, ids=[line for _, line in BAD])
def test_a_map_that_is_none_is_refused_with_one_line(made: Callable[[], ros.OccupancyGrid], line: str) -> None:
    with pytest.raises(InputError) as refused:
        grid_of_ros(made(), "/map", "map")
    assert str(refused.value).startswith(line)


@pytest.mark.skipif(ROS_PYTHON is None, reason="no ROS 2 here: `make test` prepares .venv-ros")
def test_a_node_of_ros_publishes_it(tmp_path: Path) -> None:
    config = config_in(tmp_path)
    fields = {
        "header": {"frame_id": "map"},
        "info": {"resolution": 0.05, "width": 3, "height": 2, "origin": {"position": {"x": -1.0, "y": 2.0}}},
        "data": CELLS.ravel().tolist(),
    }
    node = Peer(config.dds.domain or 0)
    try:
        with ThreadPoolExecutor() as pool:
            taken = pool.submit(take_map, config, 20.0)
            node.publish("/map", "nav_msgs/msg/OccupancyGrid", fields, qos="latched")
            taken.result()
    finally:
        node.close()
    assert load_building(tmp_path / "map.yaml").percent.tolist() == KINDS.tolist()
