"""Writes the three files of a robot and its page: checked first, whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from onboard.assembly.assembly import check_files
from onboard.config.config import Config, load_config
from onboard.config.mounts import MountsFile, note_taken
from onboard.config.plant_model import Plant
from onboard.config.toml_file import Section
from onboard.config.toml_text import template
from onboard.values.errors import InputError, OnboardError, naming

HEAD = """\
# {what} Written by `onboard init`.
# A key behind `#` has this value by default. Remove the `#` to change it.

"""
README = """\
# {name}

| file | content |
|---|---|
| `onboard.toml` | rates, cameras, limits, policy, network, recorder |
| `mounts.toml` | each camera: position, intrinsics, serial number, nearest depth |
| `plant.toml` | how the base answers a velocity command |

Each key has its comment. The next three commands:

    onboard check-config --config {folder}/onboard.toml --files-only
    onboard-hil demo --config {folder}/onboard.toml
    onboard doctor --config {folder}/onboard.toml

The first checks all files and prints what drives. The second drives this robot in simulation. The third is for the
robot itself: green, amber or red, and what to do. The wheels turn with `onboard run --config {folder}/onboard.toml`.

An own building is a ROS map (`map.yaml` and its image). In it, drive once among furniture that a seed places, then
count ten drives in the map as it is:

    onboard-hil demo --config {folder}/onboard.toml --map map.yaml
    onboard-hil evaluate --config {folder}/onboard.toml --map map.yaml --furniture 0 --episodes 10 --limit {limit_s}

A drive ends after `--limit` seconds, or `goal.progress_timeout_s` without getting nearer. Both are longer for a robot
that its speed limit or blind sectors slow.

An editor with taplo (Even Better TOML) completes and checks keys with `#:schema ./onboard.schema.json` as first line of
`onboard.toml`, after:

    onboard config-schema --json {folder}/onboard.schema.json
"""


class File(str, Enum):
    """A file that describes the robot."""

    ONBOARD = "onboard"
    MOUNTS = "mounts"
    PLANT = "plant"


SECTIONS: dict[File, type[Section]] = {File.ONBOARD: Config, File.MOUNTS: MountsFile, File.PLANT: Plant}
WHAT = {
    File.ONBOARD: "What this robot is.",
    File.MOUNTS: "Where the cameras of this robot sit, seen from the base frame.",
    File.PLANT: "How the base of this robot answers a velocity command.",
}


def file_text(file: File, stated: Mapping[str, Any]) -> str:
    return HEAD.format(what=WHAT[file]) + template(SECTIONS[file], stated)


@contextlib.contextmanager
def trial(folder: Path, values: Mapping[File, Mapping[str, Any]]) -> Iterator[tuple[Config, Path]]:
    """Yield the content of the files, and their temporary folder. Raises OnboardError for a mistake."""
    with naming(folder, "written", OnboardError):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".onboard-init-") as beside:
            for other in folder.iterdir() if folder.is_dir() else ():  # a map that is there already
                (Path(beside) / other.name).symlink_to(other.resolve())
            for file in File:
                (Path(beside) / f"{file.value}.toml").unlink(missing_ok=True)
                (Path(beside) / f"{file.value}.toml").write_text(file_text(file, values[file]), encoding="utf-8")
            try:
                made = Path(beside).resolve() / "onboard.toml"
                note_taken(made.with_name("mounts.toml"))  # the line about its lens is about the file that stays
                check_files(config := load_config(made), made)
            except OnboardError as error:
                raise InputError(
                    str(error).replace(str(Path(beside).resolve()), str(folder)).replace(beside, str(folder))
                ) from error
            yield config, Path(beside)


def write_files(folder: Path, values: Mapping[File, Mapping[str, Any]], readme: str) -> Config:
    """Write the files and return what they say. If they have a mistake, nothing is written. Raises OnboardError."""
    with trial(folder, values) as (_, beside):
        (beside / "README.md").unlink(missing_ok=True)
        (beside / "README.md").write_text(readme, encoding="utf-8")
        folder.mkdir(exist_ok=True)
        for name in (*(f"{file.value}.toml" for file in File), "README.md"):
            os.replace(beside / name, folder / name)
    return load_config(folder / "onboard.toml")
