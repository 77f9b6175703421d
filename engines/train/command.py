"""`onboard-engines train`: trains a policy from a recipe, and resumes an earlier call."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from engines.cli_options import MOST_SEED, device_of, in_one_line, require_range
from engines.export.restore import initial_weights
from engines.network.network import PolicyNetwork
from engines.network.policy_checkpoint import PolicyFile
from engines.runs.input_files import encoder_file
from engines.train.config import TrainConfig
from hil.evaluate.episode_selection import given_maps
from onboard.config.pretrained import MODEL_SUFFIX, model_path
from onboard.policy.contract import CONTRACT_VERSION
from onboard.policy.manifest import load_manifest
from onboard.values.errors import InputError, MissingExtraError

DEFAULT_CONFIG = Path(__file__).parent / "default.toml"
FINE_CONFIG = Path(__file__).parent / "finetune.toml"
SMALL_FINE_CONFIG = Path(__file__).parent / "batched" / "finetune.toml"
LOWER = (
    "driving.lanes or driving.decisions; in the encoder's stage encoder.batch; in the imitation imitation.batch, "
    "imitation.rounds or imitation.collectors; in the reinforcement reinforce.batch, reinforce.decisions or "
    "reinforce.collectors; in the batched world batched.lanes, batched.horizon or batched.most_goals"
)
"""Values to lower when memory runs out. As many processes render views as collect later."""
OPTIONS = {"seed": "--seed", "places.maps": "--map", "robot.plant": "--plant"}
"""Options other than --set that change a value of the recipe."""
SMALL_CONFIGS = (
    Path(__file__).parent / "onboard-s.toml",
    Path(__file__).parent / "batched" / "taught.toml",
    SMALL_FINE_CONFIG,
)


def train(
    config: Annotated[
        Path | None,
        typer.Option(
            help="The recipe. Without it: engines/train/default.toml; with --init its network's finetune.toml."
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder of this training; the same command resumes.")] = Path("training"),
    seed: Annotated[int | None, typer.Option(help=f"Seed that replaces the recipe's; 0 to {MOST_SEED}.")] = None,
    init: Annotated[
        str | None, typer.Option(help="Start from a policy: a shipped name, a model, or a checkpoint of the trainer.")
    ] = None,
    encoder: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Begin with a trained colour encoder: a shipped policy, or OUT/encoder/encoder.pt of a training.",
        ),
    ] = None,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="NAME|FILE...", help="Maps by name or file that replace the recipe's."),
    ] = None,
    more_maps: Annotated[list[str] | None, typer.Argument(hidden=True, help="The second and further --map.")] = None,
    plant: Annotated[Path | None, typer.Option(help="plant.toml that replaces the robot's.")] = None,
    until: Annotated[str, typer.Option(help="Last stage: encoder, imitation or reinforce.")] = "reinforce",
    device: Annotated[
        str,
        typer.Option(
            help="cpu or cuda. Collectors drive on the CPU: set imitation.collectors=0 and reinforce.collectors=0 to "
            "drive on this too. The batched world drives on it."
        ),
    ] = "cpu",
    threads: Annotated[int, typer.Option(help="Number of PyTorch's threads in the learning process.")] = 1,
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="TABLE.KEY=VALUE", help="Change a value of the recipe.")
    ] = None,
) -> None:
    """Train a policy in resumable stages; the result is OUT/policy.pt, for `onboard-engines export --checkpoint`.

    With a recipe that has a table "batched", train in the batched world; the result is OUT/policy.onnx.
    """
    with in_one_line(out, LOWER):
        require_range("--threads", threads, 1)
        changes, given = _changes(change or []), _given(seed, given_maps(maps, more_maps), plant)
        options = {key: f"--set {key}" for key in changes} | {key: OPTIONS[key] for key in given}
        recipe = config or (DEFAULT_CONFIG if init is None else fine_config(init))
        file = _train(recipe, {**changes, **given}, options, out, init, encoder, until, device, threads)
    typer.echo(str(file))


def _train(
    recipe: Path,
    changes: dict[str, Any],
    options: dict[str, str],
    out: Path,
    init: str | None,
    encoder: str | None,
    until: str,
    device: str,
    threads: int,
) -> Path:
    try:
        import torch

        from engines.train import stages
        from engines.train.config import load_train_config
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "onnx", "tensorboard"):
            raise
        raise MissingExtraError(error.name, "train") from error
    torch.set_num_threads(threads)
    loaded, chosen = load_train_config(recipe, changes, options), device_of(device)
    given = encoder_file(encoder)
    if init is None:
        return stages.train(loaded, out, chosen, until, encoder=given)
    return stages.train(loaded, out, chosen, until, lambda wanted: initial_policy(init, wanted), init, given)


def fine_config(init: str) -> Path:
    """Return the recipe that fine-tunes a policy. Raises ConfigError for a manifest that cannot be read."""
    model = model_path(init)
    if model.suffix != MODEL_SUFFIX or load_manifest(model).contract_version == CONTRACT_VERSION:
        return FINE_CONFIG
    return SMALL_FINE_CONFIG


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


# ---- The initial policy of a training: `onboard-engines train --init`


def initial_policy(init: str | Path, config: TrainConfig) -> PolicyFile:
    """Return the initial policy and its training. init: name of a policy that ships, an .onnx, or the trainer's file.

    The recipe decides on the auxiliary head, because an exported model has none.
    Raises InputError for a file that cannot be read or has another network than the recipe, ConfigError for a manifest.
    """
    found = initial_weights(str(init))
    _require_same(init, "sizes", asdict(config.network.widths), asdict(found.network.widths))
    _require_same(init, "network", asdict(config.network.variant), asdict(found.network.variant))
    if found.network.variant == config.network.variant:
        return found
    network = PolicyNetwork(config.network.widths, config.network.variant)
    network.load_state_dict(found.network.state_dict())
    return replace(found, network=network.eval())


def _require_same(init: str | Path, table: str, wanted: dict[str, Any], found: dict[str, Any]) -> None:
    for name, value in wanted.items():
        if name != "auxiliary" and found[name] != value:
            raise InputError(
                f"--init {init}: {table}.{name}: the recipe has {value}, this policy was made with {found[name]}"
            )
