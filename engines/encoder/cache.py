"""Rendered views on disk, for later epochs and later runs: two .npy files per building.

Each file is written atomically, frames before labels, so a building with labels is complete.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from engines.encoder.augmentation import Frame
from engines.encoder.config import ViewsSection
from engines.encoder.views import LABELS, Labels, Split, building_count, color_mount, draw_view, make_viewpoints
from engines.runs.input_files import map_content
from hil.drive.episode_sets import building_of, split_of
from hil.jobs.executor import executor
from onboard.policy.contract import RGB_HEIGHT, RGB_WIDTH
from onboard.values.errors import InputError

IDENTITY_FILE = "views.json"
LAYOUT = 1
"""Increment if the same section and seed give other views."""

Rendered = Callable[[int, int], None]
"""Called with (views so far, all views)."""


def _silent(done: int, total: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Views:
    """Views of a split. frames: per building a memory map (n, 144, 256, 3) uint8; labels: (views, 45) float32 [m]."""

    frames: tuple[Frame, ...]
    labels: Labels
    per_building: int

    def __len__(self) -> int:
        return len(self.labels)

    def images(self, indices: Sequence[int] | npt.NDArray[np.int64]) -> Frame:
        """Return a copy of views, (k, 144, 256, 3) uint8 RGB."""
        return np.stack([self.frames[i // self.per_building][i % self.per_building] for i in indices])


@dataclass(frozen=True, slots=True)
class _Order:
    section: ViewsSection
    split: Split
    seed: int
    folder: Path
    building: int
    map: str = ""

    def __str__(self) -> str:
        return f"views of building {self.building}"


def identity_of(section: ViewsSection, split: Split, seed: int) -> str:
    """Return the identity of views as JSON: section, camera parameters, split and seed.

    Map files count by content, not by path. Raises ConfigError for a file that cannot be read.
    """
    mount = color_mount(section)
    lens = [mount.width, mount.height, mount.fx, mount.fy, mount.cx, mount.cy, mount.base_from_camera.round(9).tolist()]
    table: dict[str, Any] = {"layout": LAYOUT, "split": split, "seed": seed, "camera": lens}
    maps = [map_content(place) for place in section.maps]
    table["section"] = {**section.model_dump(mode="json", exclude={"mounts"}), "maps": maps}
    return json.dumps(table, sort_keys=True)


def render_views(
    section: ViewsSection, split: Split, seed: int, folder: Path, jobs: int = 1, report: Rendered = _silent
) -> Views:
    """Return the views of a split; render missing views into `folder` in `jobs` processes.

    Raises InputError for a folder with other views, a folder that cannot be written, and a map of the other split.
    """
    check_split("encoder.views.maps", section.maps, split)
    _claim(folder, identity_of(section, split, seed))
    orders = [_Order(section, split, seed, folder, number) for number in range(building_count(section))]
    missing = [order for order in orders if not _labels_file(order).exists()]
    done = section.count - sum(_size(order) for order in missing)
    report(done, section.count)
    with contextlib.closing(executor(min(jobs, len(missing)), None)(_render, missing)) as rendered:
        for order in rendered:
            done += _size(order)
            report(done, section.count)
    return _load(section, orders)


def _render(order: _Order) -> _Order:
    section, first = order.section, order.building * order.section.per_building
    viewpoints = make_viewpoints(section, order.split, order.seed, order.building)
    images = np.empty((_size(order), RGB_HEIGHT, RGB_WIDTH, 3), np.uint8)
    labels = np.empty((_size(order), LABELS), np.float32)
    for place in range(_size(order)):
        view = draw_view(section, order.split, order.seed, first + place, viewpoints)
        images[place], labels[place] = view.image, view.labels
    _save(_frames_file(order), images)
    _save(_labels_file(order), labels)
    return order


def _load(section: ViewsSection, orders: Sequence[_Order]) -> Views:
    frames, labels = list[Frame](), list[Labels]()
    for order in orders:
        frames.append(_read(_frames_file(order), (_size(order), RGB_HEIGHT, RGB_WIDTH, 3), mapped=True))
        labels.append(_read(_labels_file(order), (_size(order), LABELS), mapped=False))
    return Views(tuple(frames), np.concatenate(labels), section.per_building)


def _read(file: Path, shape: tuple[int, ...], mapped: bool) -> npt.NDArray[Any]:
    try:
        array: npt.NDArray[Any] = np.load(file, mmap_mode="r" if mapped else None, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{file}: not views: {error}; delete the folder to render them again") from error
    if array.shape != shape:
        raise InputError(f"{file}: holds {array.shape}, expected {shape}; delete the folder to render them again")
    return array


def _save(file: Path, array: npt.NDArray[np.generic]) -> None:
    """Write an array atomically. Raises InputError."""
    part = file.with_name(file.name + ".part")
    try:
        with part.open("wb") as target:
            np.save(target, array)
        os.replace(part, file)
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from error


def _claim(folder: Path, identity: str) -> None:
    """Mark the folder with the views' identity. Raises InputError if it has another identity."""
    file, digest = folder / IDENTITY_FILE, hashlib.sha256(identity.encode()).hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(json.dumps({"sha256": digest, "views": json.loads(identity)}, indent=1), encoding="utf-8")
        found = json.loads(file.read_text(encoding="utf-8")).get("sha256")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
    except (ValueError, AttributeError) as error:
        raise InputError(f"{file}: not the description of a folder of views: {error}") from error
    if found != digest:
        raise InputError(f"{folder}: holds views of another configuration or seed: delete it or name another folder")


def check_split(field: str, places: Sequence[str], split: Split) -> None:
    """Raise InputError for a map of the other split's buildings. field: that lists the maps, for the message."""
    for place in places:
        found = split_of(place)
        if found not in (None, split):
            raise InputError(
                f"{field}: {place} belongs to the {found} split, not to {split}: by its name it is in "
                f"{building_of(place)} (rename the file if it is another building)"
            )


def _size(order: _Order) -> int:
    """Return the number of views of a building; the last building may have fewer."""
    return min(order.section.per_building, order.section.count - order.building * order.section.per_building)


def _frames_file(order: _Order) -> Path:
    return order.folder / f"{order.building:05d}-frames.npy"


def _labels_file(order: _Order) -> Path:
    return order.folder / f"{order.building:05d}-labels.npy"
