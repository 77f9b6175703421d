"""Smaller images with the true field of view, so that the simulation renders them at the rate of the cameras."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from onboard.config.mounts import Mount, Mounts
from onboard.config.toml_text import toml_key, toml_value

SIZE = ("width", "height", "fx", "fy", "cx", "cy")
MOST_PIXELS = 4 * 160 * 120
"""Of all depth cameras together. Two cores render and fuse these at 15 Hz next to a runtime."""


def reduced(mounts: Mounts) -> Mounts:
    """Return the mounts with depth images of at most about MOST_PIXELS together, and the same view of each camera."""
    pixels = sum(mount.width * mount.height for mount in mounts.depth.values())
    factor = math.ceil(math.sqrt(pixels / MOST_PIXELS))
    if factor <= 1:
        return mounts
    small = {
        name: resized(mount, max(1, round(mount.width / factor)), max(1, round(mount.height / factor)))
        for name, mount in mounts.depth.items()
    }
    return replace(mounts, depth=small)


def resized(mount: Mount, width: int, height: int) -> Mount:
    """Return the camera with images of another size; their edges are the same rays."""
    across, down = width / mount.width, height / mount.height
    return replace(
        mount,
        width=width,
        height=height,
        fx=mount.fx * across,
        fy=mount.fy * down,
        cx=(mount.cx + 0.5) * across - 0.5,
        cy=(mount.cy + 0.5) * down - 0.5,
    )


def enlarged(image: npt.NDArray[np.uint16], mount: Mount) -> npt.NDArray[np.uint16]:
    """Return an image of a `resized` camera in the size of the camera itself: each pixel is repeated."""
    if image.shape == (mount.height, mount.width):
        return image
    rows, columns = (
        ((np.arange(many) + 0.5) * few / many).astype(np.intp)
        for many, few in zip((mount.height, mount.width), image.shape, strict=True)
    )
    return np.ascontiguousarray(image[rows][:, columns])


def sizes_text(full: Mounts, small: Mounts) -> str:
    """Return the sizes of both, as `640x480 -> 213x160`; "" where all are equal."""
    pairs = [(full.depth[name], mount) for name, mount in small.depth.items() if mount is not full.depth[name]]
    return ", ".join(dict.fromkeys(f"{a.width}x{a.height} -> {b.width}x{b.height}" for a, b in pairs))


def mounts_text(tables: Mapping[str, Any], small: Mounts, head: str) -> str:
    """Return a mounts file with the sizes of `small`. tables: the plain values of the file."""
    rows = [head]
    for group, table in tables.items():
        for name, row in table.items():
            mount = small.depth.get(name) if group == "cameras" else None
            size = {} if mount is None else {key: getattr(mount, key) for key in SIZE}
            rows.append(f"\n[{group}.{toml_key(name)}]\n")
            rows += [f"{toml_key(key)} = {toml_value(value)}\n" for key, value in {**row, **size}.items()]
    return "".join(rows)
