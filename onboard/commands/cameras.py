"""`onboard cameras`: the RealSense devices that are plugged in, compared with those that the mounts expect."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from onboard.assembly.published_mounts import published_mounts
from onboard.commands.cli import (
    STANDARD_OUTPUT,
    ConfigOption,
    JsonOption,
    check_json_target,
    print_table,
    write_json,
    write_text,
)
from onboard.config.config import load_config
from onboard.config.mounts import load_mounts
from onboard.drivers.realsense.device import list_devices
from onboard.values.errors import InputError

ABSENT = "-"


def cameras(
    config: ConfigOption = None,
    json_file: JsonOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "--write", metavar="FILE", help="Write a mounts file from what topics, tf and devices report."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """List the RealSense devices that are plugged in and the serial numbers that the mounts expect.

    With --out, size and lens come from the camera_info next to each image topic of dds.remap, or from the plugged-in
    device; the pose comes from /tf_static, with heights from base_footprint. Lidars are said with their poses.
    """
    check_json_target(json_file)
    loaded = load_config(config)
    if out is not None:
        if out.exists() and not force:
            raise InputError(f"{out}: already exists; --force replaces it with what the robot publishes now")
        text, notes = published_mounts(loaded)
        if text:
            write_text(out, text)
        sys.stderr.writelines(f"{note}\n" for note in notes)
        return
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
    write_json(json_file, result)
    if json_file == STANDARD_OUTPUT:
        return
    if found or expected:
        print_table(camera_table(result, expected))
    if not found:
        sys.stdout.write("no RealSense is plugged in\n")
    if not expected:
        sys.stdout.write(f"{mounts.path} has no serial number: these cameras publish their images over DDS\n")


def camera_table(result: Mapping[str, Any], expected: Mapping[str, str]) -> Table:
    """Return a row for each device, and for each that is missing. expected: serial number -> camera of mounts.toml"""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("camera", "serial", "device", "firmware", "USB", "state"):
        table.add_column(heading, overflow="fold")
    for one in result["devices"]:
        state = "plugged in" if one["mount"] else "plugged in, but no camera in mounts.toml has this serial number"
        table.add_row(one["mount"] or ABSENT, one["serial"], one["name"], one["firmware"], one["usb"], state)
    for serial in result["missing"]:
        table.add_row(
            expected[serial], serial, *[ABSENT] * 3, "not found: is it plugged in? Is the serial number right?"
        )
    return table
