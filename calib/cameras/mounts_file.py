"""Writes `mounts.toml`: the poses of cameras replaced, all else as it was; the old file stays with its date."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import Rotation

from onboard.config.mounts import ROTATIONS, MountsFile
from onboard.config.toml_file import checked, read_toml
from onboard.config.toml_text import toml_key, toml_value
from onboard.values.errors import naming

DIGITS = 6, 12
"""Digits of a translation and a quaternion, as in `onboard mounts`."""


def placed(base_from_camera: npt.NDArray[np.float64]) -> dict[str, list[float]]:
    """Return translation_m and rotation_xyzw of a (4, 4) transform, as `mounts.toml` states them."""
    turned = Rotation.from_matrix(base_from_camera[:3, :3]).as_quat(canonical=True)
    return {
        "translation_m": [round(float(value), DIGITS[0]) for value in base_from_camera[:3, 3]],
        "rotation_xyzw": [round(float(value), DIGITS[1]) for value in turned],
    }


def mounts_text(source: Path, changed: Mapping[str, Mapping[str, Any]], head: str) -> str:
    """Return the text of a mounts file in which cameras have other values.

    changed: camera -> keys and values that replace the file's; a new pose replaces the rotation, however it was stated;
             None takes a key out
    head:    comment lines before the tables
    Raises ConfigError for a source that is no mounts file.
    """
    with checked(source):
        table = MountsFile.model_validate(read_toml(source))
    lines = [f"# {line}".rstrip() for line in head.splitlines()]
    for kind, cameras in table.model_dump(mode="json", exclude_unset=True).items():
        for name, row in cameras.items():
            new = changed.get(name, {}) if kind == "cameras" or name not in table.cameras else {}
            replaced = (*ROTATIONS, "pose") if "rotation_xyzw" in new else ()
            kept = {key: value for key, value in row.items() if key not in replaced}
            lines += ["", f"[{kind}.{toml_key(name)}]"]
            for key, value in (kept | dict(new)).items():
                if value is None:
                    continue
                lines.append(f"{key} = {value if key == 'calibrated' else toml_value(value)}")
    return "\n".join(lines) + "\n"


def replace_file(path: Path, text: str) -> Path | None:
    """Write a file in one step; return where the old file is now, with its date in the name, None if there was none.

    Raises InputError that names the file.
    """
    with naming(path, "written"):
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        kept = None
        if path.exists():
            os.chmod(file.name, path.stat().st_mode & 0o777)
            dated = datetime.fromtimestamp(path.stat().st_mtime).astimezone().strftime("%Y-%m-%d_%H%M%S")
            kept = path.with_name(f"{path.stem}.{dated}{path.suffix}")
            number = 1
            while kept.exists():
                number += 1
                kept = path.with_name(f"{path.stem}.{dated}-{number}{path.suffix}")
            os.link(path, kept)
        else:
            os.chmod(file.name, 0o644)
        os.replace(file.name, path)
    return kept
