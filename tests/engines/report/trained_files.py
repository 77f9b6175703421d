"""Made-up manifests of trainings by recipes that ship, and plants of bases, for reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engines.export.export import manifest_of
from engines.network.network import TINY, Variant, untrained
from engines.train.config import described, load_train_config
from hil.commands.evaluate import load_robot
from hil.evaluate.episode import Run
from hil.evaluate.evaluation import Plan
from hil.jobs.code_digest import file_digest
from onboard.config.config import DEFAULT_ROBOT
from onboard.policy.manifest import manifest_path, save_manifest

RECIPES = Path(__file__).parents[3] / "engines" / "train"
NETWORK = untrained(0, TINY, Variant(rgb=False))


def recipe_training(
    recipe: str, seed: int, maps: list[str] | None = None, plant: str | None = None, **more: Any
) -> dict[str, Any]:
    """Return what a manifest says of a training by a recipe that ships; the plant's file need not be there."""
    stages = ["imitation"]
    training = described(load_train_config(RECIPES / recipe, {"seed": seed}), stages)
    if maps is not None:
        training["config"]["places"]["maps"] = maps
    training["config"]["robot"]["plant"] = plant
    return {**training, **more}


def manifest_in(folder: Path, name: str, training: dict[str, Any], sha256: str = "0" * 64, **more: Any) -> str:
    """Write the manifest of a model that is not there and return its digest, as evaluations tell it."""
    folder.mkdir(parents=True, exist_ok=True)
    save_manifest(folder / name, manifest_of(NETWORK, sha256, name, {"training": training, **more}))
    return file_digest(manifest_path(folder / name))


def shipped_plant(file: Path, **changes: str) -> Path:
    """Write the default robot's plant with other values of the first keys of these names."""
    lines = (DEFAULT_ROBOT / "plant.toml").read_text(encoding="utf-8").splitlines()
    for key, value in changes.items():
        number = next(number for number, line in enumerate(lines) if line.startswith(f"{key} "))
        lines[number] = f"{key} = {value}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def given_default_robot(plant: Path | None) -> str:
    """Return the digest by which an evaluation tells the default robot on this base."""
    return str(Plan(Run("reactive"), load_robot(None, plant), (), 0).configuration()["robot"])
