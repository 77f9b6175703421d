"""`onboard-engines export` writes the network as ONNX; `build` and `check` are for a TensorRT engine of it."""

from __future__ import annotations

import importlib.util
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engines.cli_options import MOST_SEED, code_of, ended_by_signals, require_range
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, write_json
from onboard.config.pretrained import MODEL_SUFFIX, model_path
from onboard.policy.manifest import Weights, manifest_path
from onboard.values.errors import DisagreementError, InputError, MissingExtraError, OnboardError

if TYPE_CHECKING:
    from engines.export.engine_check import Checked
    from engines.network.network import PolicyNetwork

JsonTarget = Annotated[str | None, typer.Option("--json", metavar="FILE|-", help="Write the result as JSON.")]
REFUSED = 2
"""Exit code of a refused command."""
DISAGREES = 1
"""Exit code if the two engines disagree."""


TRAINED_DRIVES = 20
"""Drives for the comparison of half weights: about 1200 decisions of a good policy."""
UNNAMED = "paper1"
"""Default name of a policy."""


class Stored(str, Enum):
    """How a model stores its weights."""

    fp32 = "fp32"
    fp16 = "fp16"


MANIFEST_NAMES: dict[Stored, Weights] = {Stored.fp32: "float32", Stored.fp16: "float16"}


def export(
    out: Annotated[Path, typer.Option(help="The .onnx file to write, with its manifest next to it.")],
    seed: Annotated[
        int, typer.Option(help=f"Seed of the initial weights of an untrained network; 0 to {MOST_SEED}.")
    ] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Trained weights: a checkpoint of the trainer, or a saved state dict.")
    ] = None,
    tiny: Annotated[
        bool, typer.Option("--tiny", help="Use small widths behind the same contract, for a trial.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="Name of the policy in the manifest. Without it: the training's, or paper1.")
    ] = None,
    weights: Annotated[
        Stored, typer.Option(help="fp16 halves the file; refused if under 99.5 % of the actions equal fp32's.")
    ] = Stored.fp32,
    drives: Annotated[
        int | None,
        typer.Option(
            help="Compare fp16 on the decisions of this many committed drives, 0: on random sequences. Default: a "
            "checkpoint on 20 drives, an untrained network on random sequences.",
        ),
    ] = None,
    json_target: JsonTarget = None,
) -> None:
    """Write the network as ONNX with its manifest. Exit 1, nothing written: its decisions differ in ONNX Runtime."""
    compared = (0 if checkpoint is None else TRAINED_DRIVES) if drives is None else drives
    try:
        require_range("--seed", seed, 0, MOST_SEED)
        require_range("--drives", compared, 0)
        _check_targets(out, json_target)
        with _stopped_in_one_line(out):
            _require_training_libraries()
            result = _export(out, _weights(seed, checkpoint, tiny), name, MANIFEST_NAMES[weights], compared)
            _report(result, json_target)
    except OnboardError as error:
        raise _refused(error) from error


CacheOption = Annotated[
    Path | None,
    typer.Option("--cache", help="Folder of engines, as the runtime uses it. Without it: this user's."),
]
HalfOption = Annotated[bool, typer.Option("--fp16/--no-fp16", help="Half precision where the manifest allows it.")]
RandomOption = Annotated[int, typer.Option("--sequences", help="Random sequences without a recording, at least 1.")]
RANDOM = 20


def build(
    model: Annotated[str, typer.Argument(help="A shipped policy, or an .onnx file with its manifest next to it.")],
    cache: CacheOption = None,
    fp16: HalfOption = True,
    sequences: RandomOption = RANDOM,
    recording: Annotated[
        list[Path] | None, typer.Option(help="Compare on the inputs of this recording; repeatable.")
    ] = None,
    json_target: JsonTarget = None,
) -> None:
    """On the robot: build the TensorRT engine; install it if its decisions match ONNX Runtime. Exit 1: they do not."""
    from engines.export.engine_check import build_and_check

    _judge(build_and_check, model, cache, fp16, recording or [], sequences, json_target)


def check(
    model: Annotated[str, typer.Argument(help="A shipped policy, or an .onnx file with its manifest next to it.")],
    recordings: Annotated[
        list[Path] | None, typer.Argument(metavar="[RECORDING]...", help="Recordings. Without them: random sequences.")
    ] = None,
    cache: CacheOption = None,
    fp16: HalfOption = True,
    sequences: RandomOption = RANDOM,
    json_target: JsonTarget = None,
) -> None:
    """On the robot: compare the installed TensorRT engine with ONNX Runtime on recordings. Exit 1: it is removed."""
    from engines.export.engine_check import check_installed

    _judge(check_installed, model, cache, fp16, recordings or [], sequences, json_target)


def _judge(
    judge: Callable[..., Checked],
    model: str,
    cache: Path | None,
    fp16: bool,
    recordings: Sequence[Path],
    random: int,
    json_target: str | None,
) -> None:
    from onboard.assembly.policies import engine_cache

    try:
        check_json_target(json_target)
        require_range("--sequences", random, 1)
        for file in recordings:
            if not file.is_file():
                raise InputError(f"{file}: no such recording")
        where = cache or engine_cache()
        found = judge(model_path(model), where, fp16=fp16, recordings=recordings, random=random)
    except OnboardError as error:
        raise _refused(error) from error
    _report(found.plain(), json_target)
    typer.echo(found.line(), err=True)
    if not found.agrees:
        raise typer.Exit(DISAGREES)


def wrap(
    model: Annotated[Path, typer.Argument(metavar="FILE.onnx", help="The model.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Folder for the copy and its manifest.")],
    name: Annotated[str | None, typer.Option(help="Name of the policy. Without it: the file's name.")] = None,
    v_range: Annotated[
        tuple[float, float] | None,
        typer.Option("--v", metavar="LOW HIGH", help="Speed of a continuous action (m/s)."),
    ] = None,
    w_range: Annotated[
        tuple[float, float] | None,
        typer.Option("--w", metavar="LOW HIGH", help="Turning speed of a continuous action (rad/s)."),
    ] = None,
    fov: Annotated[
        tuple[float, float] | None,
        typer.Option("--fov", metavar="BEGIN END", help="Bearings of a scan's ends (deg)."),
    ] = None,
    max_range: Annotated[float, typer.Option(min=0.1, help="Range up to which a scan is fed (m).")] = 10.0,
    twist: Annotated[
        list[str] | None, typer.Option(metavar="V,W", help="A row of the table of actions; repeatable.")
    ] = None,
    json_target: JsonOption = None,
) -> None:
    """Copy a model from another trainer, propose its manifest from its tensors, and list every guess."""
    try:
        check_json_target(json_target)
        _require_onnx()
        from engines.export import own_model

        twists = tuple(_pair(text) for text in twist or ())
        options = own_model.WrapOptions(name, v_range, w_range, twists, fov, max_range)
        written, proposal = own_model.wrap(model, out, options)
    except OnboardError as error:
        raise _refused(error) from error
    if json_target is not None:
        manifest = str(manifest_path(written))
        reported = {"guesses": proposal.guesses, "missing": proposal.missing}
        write_json(json_target, {"model": str(written), "manifest": manifest, **reported})
    if json_target != STANDARD_OUTPUT:
        typer.echo(f"{written}\n{manifest_path(written)}\nnot known from the model, so check each line:")
        for line in proposal.guesses:
            typer.echo(f"  {line}")
    for line in proposal.missing:
        typer.echo(f"error: {manifest_path(written)}: {line}", err=True)
    if proposal.missing:
        raise typer.Exit(REFUSED)
    if json_target != STANDARD_OUTPUT:
        typer.echo(f"next: onboard-engines validate {written}")


def validate(
    model: Annotated[str, typer.Argument(metavar="FILE.onnx", help="A model with its manifest, or a shipped policy.")],
    config: ConfigOption = None,
    json_target: JsonOption = None,
) -> None:
    """Check a model, its manifest and a robot against each other, and show how each tensor is fed.

    Exit 2 if something does not fit.
    """
    try:
        check_json_target(json_target)
        _require_onnx()
        from engines.export import own_model
        from onboard.config.config import load_config

        checked = own_model.validate(model_path(model), load_config(config))
    except OnboardError as error:
        raise _refused(error) from error
    write_json(json_target, {"model": model, **asdict(checked)})
    for line in () if json_target == STANDARD_OUTPUT else (*checked.fed, *checked.notes):
        typer.echo(line)
    for line in checked.wrong:
        typer.echo(f"error: {line}", err=True)
    if checked.wrong:
        raise typer.Exit(REFUSED)


def _pair(text: str) -> tuple[float, float]:
    """Return V,W of an option. Raises InputError."""
    parts = text.split(",")
    try:
        v, w = (float(part) for part in parts)
    except ValueError as error:
        raise InputError(f"--twist {text}: must be two numbers, V,W") from error
    if not (math.isfinite(v) and math.isfinite(w)):
        raise InputError(f"--twist {text}: must be two finite numbers")
    return v, w


def _require_onnx() -> None:
    """Raise MissingExtraError without onnx, for a command that needs no PyTorch."""
    if importlib.util.find_spec("onnx") is None:
        raise MissingExtraError("onnx", "wrap")


def _check_targets(out: Path, json_target: str | None) -> None:
    """Raise OnboardError if the model or the report cannot be written."""
    if not out.parent.is_dir():
        raise InputError(f"{out}: cannot be written: there is no folder {out.parent}")
    if out.suffix != MODEL_SUFFIX:
        raise InputError(f"--out {out}: must end in {MODEL_SUFFIX}, by which --init and --policy know a model")
    if not os.access(out.parent, os.W_OK | os.X_OK):
        raise InputError(f"{out}: cannot be written: Permission denied")
    check_json_target(json_target)


@contextmanager
def _stopped_in_one_line(out: Path) -> Iterator[None]:
    """On a signal, print the files written so far and exit with its code."""
    before = _files(out)
    try:
        with ended_by_signals():
            yield
    except (KeyboardInterrupt, SystemExit) as end:
        written = ", ".join(file.name for file, number in _files(out).items() if number != before[file])
        typer.echo(f"stopped; {f'written: {written}' if written else 'nothing was written'}", err=True)
        raise typer.Exit(code_of(end)) from end


def _files(out: Path) -> dict[Path, int | None]:
    """Return the inodes of model and manifest, None for a missing file.

    A new inode means that `staged` has replaced the file.
    """
    return {file: file.stat().st_ino if file.exists() else None for file in (out, manifest_path(out))}


def _require_training_libraries() -> None:
    """Raise MissingExtraError without PyTorch or onnx."""
    for name in ("torch", "onnx"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError(name, "train")


def _weights(seed: int, checkpoint: Path | None, tiny: bool) -> tuple[PolicyNetwork, dict[str, Any]]:
    """Return the network to export, and its `extra`. Raises ConfigError, InputError."""
    from engines.export import export as exporting
    from engines.network.network import PAPER, TINY
    from engines.network.policy_checkpoint import load_policy_file

    widths = TINY if tiny else PAPER
    if checkpoint is None:
        return exporting.untrained_network(seed, widths)
    trained = load_policy_file(checkpoint, widths)
    return trained.network, exporting.manifest_extra(trained)


def _export(
    out: Path, source: tuple[PolicyNetwork, dict[str, Any]], name: str | None, weights: Weights, drives: int
) -> dict[str, Any]:
    """Export and return the report. Raises InputError, DisagreementError."""
    from engines.export import export as exporting
    from engines.export.agreement_drives import recorded_drives
    from engines.network.network import parameter_count

    network, extra = source
    judged_by = drives if weights == "float16" else 0
    if judged_by:
        typer.echo(f"comparing fp16 with fp32 on {judged_by} drives", err=True)
    recorded = recorded_drives(network, judged_by, extra)
    called = name or str(extra.get("training", {}).get("policy", UNNAMED))
    done = exporting.export(out, network, called, extra, weights=weights, recorded=recorded, drives=drives)
    return {
        "model": str(out),
        "megabytes": round(out.stat().st_size / 1e6, 1),
        "sha256": done.manifest.sha256,
        "parameters": parameter_count(network),
        "weights": weights,
        "origin": extra["origin"],
        "agreement": f"{done.agreement} of {f'{drives} drives' if recorded else 'random sequences'}",
        "parity": asdict(done.parity),
    }


def _refused(error: OnboardError) -> typer.Exit:
    for line in str(error).splitlines():
        typer.echo(f"error: {line}", err=True)
    return typer.Exit(DISAGREES if isinstance(error, DisagreementError) else REFUSED)


def _report(result: dict[str, Any], target: str | None) -> None:
    """Write the result as JSON to a file or to standard output."""
    text = json.dumps(result, indent=2)
    if target in (None, "-"):
        typer.echo(text)
        return
    try:
        Path(target).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        typer.echo(f"error: {target}: cannot be written: {error.strerror}", err=True)
        raise typer.Exit(REFUSED) from error
