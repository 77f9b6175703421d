"""The configuration of the demo's runtime: the one that was given, with its cameras and base over DDS, as a file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from onboard.config import Config
from onboard.pretrained import is_name

BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
HEAD = "# Written by `onboard-hil demo`: everything that is in effect.\n"


def demo_config(given: Config, model: str | None, *, depth_noise: bool = True) -> Config:
    """Return the given configuration for a robot whose devices are simulated, driven by `model` where that is given.

    depth_noise: whether the simulated cameras have any; the picture of one without may rightly stay the same
    Paths are absolute: those that the configuration does not state are taken from where the command was typed.
    """
    chosen = given.policy.model if model is None else model
    policy = {"model": chosen if is_name(chosen) else str(Path(chosen).resolve())}
    robot = {"mounts": given.robot.mounts.resolve(), "plant": given.robot.plant.resolve()}
    cameras: dict[str, Any] = {"source": "dds", "sources": {}, "recordings": {}, "color": "dds"}
    cameras |= {} if depth_noise else {"unchanged_m": 0.0}
    return given.model_copy(
        update={
            "robot": given.robot.model_copy(update=robot),
            "cameras": given.cameras.model_copy(update=cameras),
            "odometry": given.odometry.model_copy(update={"input": "dds"}),
            "policy": given.policy.model_copy(update=policy),
            "record": given.record.model_copy(update={"directory": given.record.directory.resolve()}),
        }
    )


def as_toml(config: Config, head: str = HEAD, stated_only: bool = False) -> str:
    """Return the text of which `load_config` makes the same configuration. What is None is left out.

    stated_only: leave out what is as it would be anyway
    """
    values = config.model_dump(mode="json", exclude_defaults=stated_only)
    tables = [f"\n[{name}]\n{_rows(table)}" for name, table in values.items() if table]
    return head + "".join(tables)


def _rows(table: dict[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items() if value is not None)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_value(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return json.dumps(value)


def _key(name: str) -> str:
    return name if BARE_KEY.fullmatch(name) else _string(name)


def _string(text: str) -> str:
    """Return a basic string of TOML, which escapes as JSON does, and DEL besides."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
