"""Cameras of a bag as mounts: from CameraInfo and transforms, or from a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hil.recordings.bags.bag import IMAGE, Bag, uncompressed
from hil.recordings.bags.topics import camera_name, info_topic
from onboard.config.mounts import Mount, Mounts, camera_table
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.images.raw import CHANNELS, DEPTH_ENCODINGS
from onboard.values.frames import Frames

READ = (*DEPTH_ENCODINGS, *CHANNELS)
MILLIMETRE_M = 0.001


@dataclass(frozen=True, slots=True)
class Cameras:
    """Cameras of a bag: depth topics by camera, the colour topic, and problems.

    mounts: text of a mounts file from the bag, "" if the configuration's mounts apply
    """

    depth: Mapping[str, str]
    color: str | None
    mounts: str
    missing: tuple[str, ...]


def cameras_of(
    bag: Bag, frames: Frames, base: str, named: Mapping[str, str], color: str | None, mounts: Mounts | None
) -> Cameras:
    """Return the cameras.

    named:  depth topics by camera, empty to find them
    color:  colour topic, "" for none, None to find it
    mounts: mounts of a configuration, None to take them from the bag
    """
    samples = {topic.name: bag.first(topic.name) for topic in bag.topics if topic.kind == IMAGE}
    known = None if mounts is None else mounts.depth
    depth, missing = dict(named), []
    missing += [
        f"{topic}: images of {sample.encoding!r} are not read, or are damaged; read are {', '.join(READ)}"
        for topic, sample in samples.items()
        if sample is not None and sample.encoding not in READ
    ]
    if not named:
        for topic, sample in samples.items():
            if sample is None or sample.encoding not in DEPTH_ENCODINGS:
                continue
            name = camera_name(topic, known)
            if uncompressed(topic) in depth.values():
                continue
            if name is None or name in depth:
                missing.append(f"{topic}: its camera is unclear: name it with --depth NAME={topic}")
            else:
                depth[name] = topic
    if color is None:
        color = next((name for name, one in samples.items() if one is not None and one.encoding in CHANNELS), "")
    tables = []
    for name, topic in list(depth.items()):
        sample, problem = samples[topic], ""
        if sample is None:
            problem = "there is no message of it"
        elif mounts is not None:
            problem = _misfit(name, sample, known)
        else:
            table, problem = _table(bag, name, topic, sample, frames, base)
            tables.append(table)
        if problem:
            missing.append(f"{topic}: {problem}")
            del depth[name]
    return Cameras(depth, color or None, "\n".join(filter(None, tables)), tuple(missing))


def _misfit(name: str, sample: ros.Image, known: Mapping[str, Mount] | None) -> str:
    """Return why a configured mount does not fit a camera's images, or ""."""
    mount = (known or {}).get(name)
    if mount is None:
        return f"the mounts have no camera {name}, they have {', '.join(known or {})}"
    if (sample.width, sample.height) != (mount.width, mount.height):
        return f"its images are {sample.width}x{sample.height}, the mount {name} says {mount.width}x{mount.height}"
    return ""


def _table(bag: Bag, name: str, topic: str, sample: ros.Image, frames: Frames, base: str) -> tuple[str, str]:
    """Return a camera's table for a mounts file and "", or "" and the reason why there is none."""
    info = bag.first(info_topic(topic))
    if info is None:
        return "", f"no intrinsics on {info_topic(topic)}: give --config with the robot's mounts"
    base_from_camera = frames.between(base, sample.header.frame_id)
    if base_from_camera is None:
        where = f"no transform from {base} to {sample.header.frame_id}"
        return "", f"{where}: give --config with the robot's mounts"
    k = [float(value) for value in info.k]
    if not (np.isfinite(k).all() and k[0] > 0.0 and k[4] > 0.0):
        return "", f"invalid intrinsics on {info_topic(topic)}: focal lengths {k[0]}, {k[4]}"
    lens = k[0], k[4], k[2], k[5]
    return camera_table(name, (sample.width, sample.height), lens, MILLIMETRE_M, base_from_camera), ""
