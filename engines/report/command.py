"""`onboard-engines report`: every table and picture that tells how good a policy is, from what measured it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard.commands.cli import check_json_target
from onboard.config.config import model_path
from onboard.values.errors import InputError, OnboardError

if TYPE_CHECKING:
    from engines.report.results.result_files import Gathered

REFUSED = 2
STANDARD_OUTPUT = "-"
MAP = "ahg2"
NO_DRIVES = "not what onboard-engines report --drive writes"


def report(
    folder: Annotated[
        Path, typer.Argument(help="Folder of results, as engines/report/results/result_files.py describes it.")
    ],
    json_target: Annotated[
        str | None, typer.Option("--json", metavar="FILE|-", help="Write the same figures as JSON.")
    ] = None,
    pictures: Annotated[Path | None, typer.Option(help="Write the pictures into this folder.")] = None,
    drive: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Let the policy of the results, one that ships or an .onnx, drive 20 episodes, into "
            "FOLDER/trajectories.json, for a picture.",
        ),
    ] = None,
    map_name: Annotated[str, typer.Option("--map", help="Unseen map of --drive.")] = MAP,
    card: Annotated[Path | None, typer.Option(help="Write the model card of --model there.")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="What the card is about: a policy that ships, or an .onnx.")
    ] = None,
    pack: Annotated[
        bool, typer.Option("--pack", help="Put the results into compressed columns, in place, and read them again.")
    ] = False,
) -> None:
    """Print every table in Markdown, only from files; what was not measured yet is said at the end."""
    try:
        check_json_target(json_target)
        if pack:
            _pack(folder)
        text, data = _report(folder, pictures, drive, map_name, card, model)
        if json_target not in (None, STANDARD_OUTPUT):
            _write(Path(json_target), json.dumps(data, indent=1) + "\n")
    except OnboardError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(REFUSED) from error
    sys.stdout.write(json.dumps(data, indent=1) + "\n" if json_target == STANDARD_OUTPUT else text)


def _pack(folder: Path) -> None:
    """Put results into columns, after all of them were read as what they are."""
    from engines.report.results.columns import pack
    from engines.report.results.result_files import gather

    gather(folder)
    pack(folder)


def _report(
    folder: Path, pictures: Path | None, drive: str | None, map_name: str, card: Path | None, model: str | None
) -> tuple[str, dict[str, Any]]:
    from engines.report.card import make_card
    from engines.report.card_sections import all_parts
    from engines.report.results.result_files import TRAJECTORIES, gather

    if (card is None) != (model is None):
        raise InputError("--card and --model: give both or none")
    there = gather(folder)
    _check(there, pictures, card, model)  # nothing is driven for what is refused afterwards
    _check_driver(there, drive)
    if drive is not None:
        check_json_target(str(folder / TRAJECTORIES))
        from engines.report.plots import drive_trajectories

        _write(folder / TRAJECTORIES, json.dumps(drive_trajectories(drive, map_name)) + "\n")
    found = gather(folder)
    parts = all_parts(found)
    if pictures is not None:
        _draw(found.headline, found.trajectories, folder / TRAJECTORIES, pictures)
    if card is not None and model is not None:
        _write(card, make_card(found, parts, model_path(model)))
    texts = [f"## {part.title}\n\n{part.markdown}" for part in parts if not part.missing]
    missing = [f"* {part.title}: {part.missing}" for part in parts if part.missing]
    if missing:
        texts.append("\n".join([f"## Not measured yet, as far as {folder} tells", "", *missing, ""]))
    return "\n".join(texts), {part.name: None if part.missing else part.data for part in parts}


def _check(found: Gathered, pictures: Path | None, card: Path | None, model: str | None) -> None:
    """Raise OnboardError for what could not be written at the end, or for a card of another model than the results."""
    from engines.report.card import manifest_for

    check_json_target(None if card is None else str(card))
    if model is not None:
        manifest_for(found, model_path(model))
    if pictures is not None:
        there = next(one for one in (pictures, *pictures.absolute().parents) if one.exists())
        if not there.is_dir():
            raise InputError(f"{pictures}: cannot be written: {there} is not a folder")
        if not os.access(there, os.W_OK):
            raise InputError(f"{pictures}: cannot be written: Permission denied")


def _check_driver(found: Gathered, drive: str | None) -> None:
    """Raise OnboardError where another policy than the one whose figures are quoted drove, or is to drive."""
    from engines.report.plots import driver_of, require_drives_of
    from engines.report.results.checks import shaped
    from engines.report.results.result_files import TRAJECTORIES

    if drive is not None:
        require_drives_of(found.headline, driver_of(drive), f"--drive {drive}")
    elif found.trajectories is not None:
        file = found.folder / TRAJECTORIES
        with shaped(file, NO_DRIVES):
            require_drives_of(found.headline, found.trajectories, str(file))


def _draw(headline: Any, trajectories: Any, file: Path, pictures: Path) -> None:
    from engines.report.plots import ACTIONS_FILE, TRAJECTORIES_FILE, save_actions, save_trajectories
    from engines.report.results.checks import shaped

    if headline is not None:
        save_actions(headline.summary.actions, pictures / ACTIONS_FILE)
    if trajectories is not None:
        with shaped(file, NO_DRIVES):
            save_trajectories(trajectories, pictures / TRAJECTORIES_FILE)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from error
