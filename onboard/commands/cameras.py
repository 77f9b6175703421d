"""`onboard cameras`: which RealSense devices are plugged in, beside those that the mounts expect."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, print_table, write_json
from onboard.config.config import load_config
from onboard.config.mounts import load_mounts
from onboard.drivers.realsense.device import list_devices

ABSENT = "-"


def cameras(config: ConfigOption = None, json_file: JsonOption = None) -> None:
    """List the RealSense devices that are plugged in, beside the serial numbers that the mounts expect."""
    check_json_target(json_file)
    loaded = load_config(config)
    mounts = load_mounts(loaded.robot.mounts)
    expected = {mount.serial: mount.name for mount in [*mounts.depth.values(), *mounts.color.values()] if mount.serial}
    found = list_devices()
    result = {
        "devices": [
            {
                "serial": device.serial,
                "name": device.name,
                "firmware": device.firmware,
                "usb": device.usb_type,
                "mount": expected.get(device.serial),
            }
            for device in found
        ],
        "missing": sorted(set(expected) - {device.serial for device in found}),
    }
    if json_file is not None:
        write_json(json_file, result)
    if json_file == STANDARD_OUTPUT:
        return
    if found or expected:
        print_table(camera_table(result, expected))
    if not found:
        sys.stdout.write("no RealSense is plugged in\n")
    if not expected:
        sys.stdout.write(f"{mounts.path} names no serial number: its cameras send images over DDS\n")


def camera_table(result: Mapping[str, Any], expected: Mapping[str, str]) -> Table:
    """Return a row for each device, and for each that is missing. expected: serial number -> camera of mounts.toml"""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("camera", "serial", "device", "firmware", "USB", "state"):
        table.add_column(heading, overflow="fold")
    for one in result["devices"]:
        state = "plugged in" if one["mount"] else "plugged in; no camera of mounts.toml has this number"
        table.add_row(one["mount"] or ABSENT, one["serial"], one["name"], one["firmware"], one["usb"], state)
    for serial in result["missing"]:
        table.add_row(expected[serial], serial, *[ABSENT] * 3, "missing: is it plugged in, is the number right?")
    return table
