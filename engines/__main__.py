"""`onboard-engines`: export the network, build and check its TensorRT engine on the robot."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import onboard
from onboard.errors import InputError, MissingExtraError, OnboardError

main = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)

JsonTarget = Annotated[str | None, typer.Option("--json", metavar="FILE|-", help="Write the result as JSON.")]
REFUSED = 2
"""Exit code when a command could not do what was asked."""
DISAGREES = 1
"""Exit code when it did, and the two engines do not decide alike."""


@main.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version and leave.")] = False) -> None:
    if version:
        typer.echo(onboard.__version__)
        raise typer.Exit


@main.command()
def export(
    out: Annotated[Path, typer.Option(help="The .onnx file to write; its manifest goes beside it.")],
    seed: Annotated[int, typer.Option(help="Seed of the initial weights of an untrained network.")] = 0,
    checkpoint: Annotated[Path | None, typer.Option(help="Trained weights: a state dict by torch.save.")] = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="Small widths behind the same contract, for trying out.")
    ] = False,
    name: Annotated[str, typer.Option(help="Name of the policy in the manifest.")] = "paper1",
    json_target: JsonTarget = None,
) -> None:
    """Write the network as ONNX with its manifest, and compare it with PyTorch over a sequence of steps."""
    try:
        result = _export(out, seed, checkpoint, tiny, name)
    except OnboardError as error:
        raise _refused(error) from error
    _report(result, json_target)
    if result["parity"]["same_action"] != result["parity"]["steps"]:
        raise typer.Exit(DISAGREES)


@main.command()
def build(
    model: Annotated[Path, typer.Argument(help="The .onnx file, its manifest beside it.")],
    cache: Annotated[Path, typer.Option(help="Folder of engines, as policy.engine_cache in onboard.toml.")] = Path(
        "engine-cache"
    ),
    fp16: Annotated[bool, typer.Option(help="Half precision where the manifest allows it.")] = True,
    sequences: Annotated[int, typer.Option(min=1, help="Random sequences of 30 decisions to compare.")] = 20,
    json_target: JsonTarget = None,
) -> None:
    """On the robot: build the TensorRT engine into the cache and compare its decisions with ONNX Runtime's."""
    from engines.build import build_and_check

    try:
        result = build_and_check(model, cache, fp16=fp16, sequences=sequences)
    except OnboardError as error:
        raise _refused(error) from error
    _report(result, json_target)
    if not result["agrees"]:
        raise typer.Exit(DISAGREES)


def _export(out: Path, seed: int, checkpoint: Path | None, tiny: bool, name: str) -> dict[str, Any]:
    """Export and return what is reported. Raises InputError without the folder, MissingExtraError without PyTorch."""
    if not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written: there is no folder {out.parent}")
    try:
        from engines import export as exporting
        from engines.network import PAPER, TINY, parameter_count
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "onnx"):
            raise
        raise MissingExtraError(error.name, "train") from error
    widths = TINY if tiny else PAPER
    if checkpoint is None:
        network, extra = exporting.untrained_network(seed, widths)
    else:
        network, extra = exporting.trained_network(checkpoint, widths)
    manifest, parity = exporting.export(out, network, name, extra)
    return {
        "model": str(out),
        "megabytes": round(out.stat().st_size / 1e6, 1),
        "sha256": manifest.sha256,
        "parameters": parameter_count(network),
        "weights": manifest.extra["weights"],
        "parity": asdict(parity),
    }


def _refused(error: OnboardError) -> typer.Exit:
    typer.echo(f"error: {error}", err=True)
    return typer.Exit(REFUSED)


def _report(result: dict[str, Any], target: str | None) -> None:
    """Write the result to a file or to standard output; without a target, readable there."""
    text = json.dumps(result, indent=2)
    if target in (None, "-"):
        typer.echo(text)
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        typer.echo(f"error: {target}: cannot be written: {error.strerror}", err=True)
        raise typer.Exit(REFUSED) from error


if __name__ == "__main__":
    sys.exit(main())
