"""Which base was driven: an evaluation tells a digest of its robot, and a plant's file may lie beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engines.report.gathered import Evaluated
from hil.evaluate.command import load_robot
from hil.evaluate.episode_driver import Run
from hil.evaluate.evaluation import Plan

ANY_RUN = Run("reactive")
"""A robot's digest is the same for whatever drives."""


def base_of(one: Evaluated) -> str:
    """Return the name of the plant's file beside an evaluation that its robot had; "" where none agrees.

    Raises ConfigError for a file there that is no plant's.
    """
    return _robots_of(one.file.parent).get(str(one.configuration.get("robot")), "")


def _robots_of(folder: Path) -> Mapping[str, str]:
    """Return the digests of the default robot on the bases whose plants lie in a folder, with the files' names."""
    return {
        str(Plan(ANY_RUN, load_robot(None, file), (), 0).configuration()["robot"]): file.name
        for file in sorted(folder.glob("*.toml"))
    }
