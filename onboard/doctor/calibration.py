"""Where the cameras sit: how old the measurement is, what it leaves out, and whose lens is in the mounts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from onboard.config import CamerasSection
from onboard.doctor.finding import Complaint, Finding, Level, amber, judged
from onboard.mounts import Mount, Mounts, calibration_dates

OLD_DAYS = 180
"""Half a year of driving loosens screws."""
LENS_TOLERANCE = 0.01
"""Of the focal length, and of the image's width for the principal point: a pixel or so at the image's edge."""
MEASURE = "measure the mounts again and write `calibrated = YYYY-MM-DD` into their tables"


def age(mounts: Path, today: date) -> Finding:
    """Return how long ago the cameras were measured, by the dates in the mounts file. Raises ConfigError."""
    dates = calibration_dates(mounts)
    told = {name: day for name, day in dates.items() if day is not None}
    changed = datetime.fromtimestamp(mounts.stat().st_mtime, tz=timezone.utc).date()
    complaints = []
    undated = sorted(set(dates) - set(told))
    if undated:
        said = f"no date of calibration for {', '.join(undated)} (the file was last changed on {changed})"
        complaints.append(Complaint(Level.AMBER, said, MEASURE))
    for name, day in sorted(told.items()):
        days = (today - day).days
        if days < 0:
            complaints.append(
                Complaint(Level.AMBER, f"{name} is of {day}, in the future", "set the clock, or the date")
            )
        elif days > OLD_DAYS:
            complaints.append(Complaint(Level.AMBER, f"{name} is {days} days old", MEASURE))
    oldest = min(told.values(), default=None)
    summary = "" if oldest is None else f"oldest of {oldest}, {(today - oldest).days} days ago"
    days_of = {name: None if day is None else day.isoformat() for name, day in dates.items()}
    return judged("calibration", summary, complaints, file=str(mounts), calibrated=days_of, changed=changed.isoformat())


def nearness(mounts: Mounts, section: CamerasSection) -> list[Finding]:
    """Return whether it is known how near each camera sees.

    A RealSense on the cable is taken for the one that sees least near by; one over DDS may be any camera.
    """
    silent = [name for name, one in mounts.depth.items() if one.least_m is None and section.source_of(name) == "dds"]
    if not silent:
        return []
    said = f"mounts.toml states no least_m for {', '.join(silent)}: what comes nearer than they see is forgotten"
    return [amber("least distance", said, "measure it and write `least_m = METRES` into their tables", cameras=silent)]


def lens(mount: Mount, info: Mapping[str, Any]) -> list[Complaint]:
    """Return what is wrong when a device (`info`: fx, fy, cx, cy of `realsense.StreamInfo`) has another lens."""
    if not {"fx", "fy", "cx", "cy"} <= set(info):
        return []
    apart = [
        f"{name} {info[name]:.1f} (mounts: {stated:.1f})"
        for name, stated, scale in (
            ("fx", mount.fx, mount.fx),
            ("fy", mount.fy, mount.fy),
            ("cx", mount.cx, mount.width),
            ("cy", mount.cy, mount.width),
        )
        if abs(info[name] - stated) > LENS_TOLERANCE * scale
    ]
    if not apart:
        return []
    return [
        Complaint(Level.RED, f"its lens has {', '.join(apart)}", f"put the camera's own lens into {mount.name}'s table")
    ]
