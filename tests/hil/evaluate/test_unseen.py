"""Contacts with what is below or above all that the scan sees."""

from __future__ import annotations

import pytest

from hil.commands.judge.evaluate import load_robot
from hil.drive.setting import Setting
from hil.evaluate.episode import unseen_contacts
from hil.sensors.direct_scan import ScanKind
from tests.rigs.rooms import room, with_box

ROBOT = load_robot(None)
AT_BOX, AT_WALL = (5.74, 3.0), (7.74, 3.0)
#   heights of the box, scan, places of contacts, unseen ones
CONTACTS: list[tuple[tuple[float, float], ScanKind, list[tuple[float, float]], int]] = [
    ((0.0, 0.15), "lidar", [AT_BOX, AT_WALL, AT_BOX], 2),
    ((0.3, 0.8), "lidar", [AT_BOX], 1),
    ((0.0, 0.4), "lidar", [AT_BOX], 0),
    ((0.0, 0.15), "fused", [AT_BOX], 0),
    ((0.0, 0.15), "lidar", [(1.0, 1.0)], 0),
]


@pytest.mark.parametrize(("heights_m", "scan", "places_m", "unseen"), CONTACTS)
def test_a_contact_outside_of_the_scans_heights_is_counted(
    heights_m: tuple[float, float], scan: ScanKind, places_m: list[tuple[float, float]], unseen: int
) -> None:
    world = with_box(room(8.0, 6.0), (6.0, 6.3), (2.0, 4.0), heights_m)
    setting = Setting(world, ROBOT.plant, ROBOT.body, ROBOT.mounts, ROBOT.config, scan=scan)
    assert unseen_contacts(setting, places_m) == unseen
