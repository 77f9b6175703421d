"""`onboard cameras`: which RealSense devices are plugged in, beside those that the mounts expect."""

from __future__ import annotations

from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, write_json
from onboard.config.config import load_config
from onboard.config.mounts import load_mounts
from onboard.drivers.realsense.device import list_devices


def cameras(config: ConfigOption = None, json_file: JsonOption = None) -> None:
    """List the RealSense devices that are plugged in, beside the serial numbers that the mounts expect."""
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
    write_json(json_file or STANDARD_OUTPUT, result)
