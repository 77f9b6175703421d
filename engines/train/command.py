"""`onboard-engines train`: trains a policy from a recipe in the batched world, and resumes an earlier call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from engines.cli_options import MOST_SEED, device_of, in_one_line, require_range
from hil.evaluate.episode_selection import given_maps
from onboard.values.errors import InputError, MissingExtraError

DEFAULT_CONFIG = Path(__file__).parent / "batched" / "taught.toml"
FINE_CONFIG = Path(__file__).parent / "batched" / "finetune.toml"
LOWER = "batched.lanes, batched.horizon or batched.most_goals"
"""Values to lower when memory runs out."""
OPTIONS = {"seed": "--seed", "places.maps": "--map", "robot.plant": "--plant"}
"""Options other than --set that change a value of the recipe."""


def train(
    config: Annotated[
        Path | None,
        typer.Option(
            help="The recipe. Without it: engines/train/batched/taught.toml; with --init finetune.toml there."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of this training; the same command resumes.")] = Path("training"),
    seed: Annotated[int | None, typer.Option(help=f"Seed that replaces the recipe's; 0 to {MOST_SEED}.")] = None,
    init: Annotated[
        str | None, typer.Option(help="Start from a policy of this trainer: a shipped name, or a model.")
    ] = None,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="NAME|FILE...", help="Maps by name or file that replace the recipe's."),
    ] = None,
    more_maps: Annotated[list[str] | None, typer.Argument(hidden=True, help="The second and further --map.")] = None,
    plant: Annotated[Path | None, typer.Option(help="plant.toml that replaces the robot's.")] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda: where the robots drive and the policy learns.")] = "cpu",
    threads: Annotated[int, typer.Option(help="Number of PyTorch's threads in the learning process.")] = 1,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Change a value of the recipe.")
    ] = None,
) -> None:
    """Train a policy of scan and state, resumable; the result is OUT/policy.onnx.

    Colour joins in a last stage, which is a script: see docs/evaluation.md.
    """
    with in_one_line(out, LOWER):
        require_range("--threads", threads, 1)
        changes, given = _changes(change or []), _given(seed, given_maps(maps, more_maps), plant)
        options = {key: f"--set {key}" for key in changes} | {key: OPTIONS[key] for key in given}
        recipe = config or (DEFAULT_CONFIG if init is None else FINE_CONFIG)
        file = _train(recipe, {**changes, **given}, options, out, init, device, threads)
    typer.echo(str(file))


def _train(
    recipe: Path, changes: dict[str, Any], options: dict[str, str], out: Path, init: str | None, device: str,
    threads: int,
) -> Path:  # fmt: skip
    try:
        import torch

        from engines.train import stages
        from engines.train.config import load_train_config
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "onnx", "tensorboard"):
            raise
        raise MissingExtraError(error.name, "train") from error
    torch.set_num_threads(threads)
    return stages.train(load_train_config(recipe, changes, options), out, device_of(device), init)


def _changes(texts: list[str]) -> dict[str, Any]:
    """Return changes by key. A value is JSON, or else text. Raises InputError."""
    changes = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InputError(f"--set {text}: must be TABLE.KEY=VALUE")
        try:
            changes[key] = json.loads(value)
        except ValueError:
            changes[key] = value
    return changes


def _given(seed: int | None, maps: list[str], plant: Path | None) -> dict[str, Any]:
    given: dict[str, Any] = {}
    if seed is not None:
        given["seed"] = seed
    if maps:
        given["places.maps"] = maps
    if plant is not None:
        given["robot.plant"] = str(plant)
    return given
