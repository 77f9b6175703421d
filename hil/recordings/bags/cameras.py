"""Cameras of a bag as mounts: from CameraInfo and transforms, or from a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hil.recordings.bags.bag import IMAGE, Bag, uncompressed
from hil.recordings.bags.topics import camera_name, info_topic
from hil.recordings.bags.transforms import Frames, Transform
from onboard.config.mounts import Mount, Mounts
from onboard.drivers.dds import ros_types as ros
from onboard.drivers.dds.camera_input import RGB_ENCODINGS, UINT16_ENCODINGS

DEPTH_ENCODINGS = (*UINT16_ENCODINGS, "32FC1")
READ = (*DEPTH_ENCODINGS, *RGB_ENCODINGS)
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
        color = next((name for name, one in samples.items() if one is not None and one.encoding in RGB_ENCODINGS), "")
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
    return _toml(name, sample.width, sample.height, k, base_from_camera), ""


def _toml(name: str, width: int, height: int, k: list[float], base_from_camera: Transform) -> str:
    rotation = [float(value) for value in quaternion_of(base_from_camera[:3, :3])]
    translation = [float(value) for value in base_from_camera[:3, 3]]
    return (
        f"[cameras.{name}]\nwidth = {width}\nheight = {height}\n"
        f"fx = {k[0]!r}\nfy = {k[4]!r}\ncx = {k[2]!r}\ncy = {k[5]!r}\ndepth_scale_m = {MILLIMETRE_M}\n"
        f"translation_m = {translation}\nrotation_xyzw = {rotation}\n"
    )


def quaternion_of(rotation: Transform) -> Transform:
    """Return (x, y, z, w) of a (3, 3) rotation: the main eigenvector of the matrix K of Bar-Itzhack (2000)."""
    r = rotation
    k = np.array(
        [
            [r[0, 0] - r[1, 1] - r[2, 2], r[1, 0] + r[0, 1], r[2, 0] + r[0, 2], r[2, 1] - r[1, 2]],
            [r[1, 0] + r[0, 1], r[1, 1] - r[0, 0] - r[2, 2], r[2, 1] + r[1, 2], r[0, 2] - r[2, 0]],
            [r[2, 0] + r[0, 2], r[2, 1] + r[1, 2], r[2, 2] - r[0, 0] - r[1, 1], r[1, 0] - r[0, 1]],
            [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], r[0, 0] + r[1, 1] + r[2, 2]],
        ]
    )
    main: Transform = np.linalg.eigh(k)[1][:, -1]
    return main if main[3] >= 0.0 else -main
