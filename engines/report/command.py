"""`onboard-engines report`: tables, pictures and model card of a policy, from result files."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.config.pretrained import model_path
from onboard.values.errors import InputError, OnboardError

if TYPE_CHECKING:
    from engines.report.results.result_files import Gathered

REFUSED = 2
MAP = "ahg2"
NO_DRIVES = "not what onboard-engines report --drive writes"


def report(
    folder: Annotated[
        Path, typer.Argument(help="Folder of results, as engines/report/results/result_files.py describes it.")
    ],
    pictures: Annotated[Path | None, typer.Option(help="Write the pictures into this folder.")] = None,
    drive: Annotated[
        str | None,
        typer.Option(
            metavar="NAME|FILE",
            help="Drive 20 episodes with the policy of the results, shipped or an .onnx, into "
            "FOLDER/trajectories.json, for a picture.",
        ),
    ] = None,
    map_name: Annotated[str, typer.Option("--map", help="Unseen map of --drive.")] = MAP,
    card: Annotated[
        Path | None,
        typer.Option(help="Write the model card of --model, and its tables to NAME-tables.md."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Policy of the card: a shipped one, or an .onnx.")
    ] = None,
    pack: Annotated[bool, typer.Option("--pack", help="Compress the results into columns, in place.")] = False,
    json_file: JsonOption = None,
) -> None:
    """Print the tables in Markdown. The end names tables without files.

    `--json`: each evaluation with its figures, and the tables without files. With `-` no Markdown is printed.
    """
    try:
        check_json_target(json_file)
        text, found = _report(folder, pictures, drive, map_name, card, model)
        if pack:
            from engines.report.results.columns import pack as into_columns

            into_columns(folder)
    except OnboardError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(REFUSED) from error
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(text)
    if json_file is not None:
        write_json(json_file, found)


def _report(
    folder: Path, pictures: Path | None, drive: str | None, map_name: str, card: Path | None, model: str | None
) -> tuple[str, dict[str, Any]]:
    """Write what is asked for. Return the tables in Markdown, and the figures for JSON."""
    from engines.report.card import make_card, tables_file
    from engines.report.results.result_files import TRAJECTORIES, gather
    from engines.report.tables import figures_json, tables_text

    if (card is None) != (model is None):
        raise InputError("--card and --model: give both or none")
    there = gather(folder)
    _check(there, pictures, card, model)  # before the drives
    _check_driver(there, drive)
    if drive is not None:
        check_json_target(str(folder / TRAJECTORIES))
        from engines.report.plots import drive_trajectories

        _write(folder / TRAJECTORIES, json.dumps(drive_trajectories(drive, map_name)) + "\n")
    found = gather(folder)
    text = tables_text(found)
    if pictures is not None:
        _draw(found, pictures)
    if card is not None and model is not None:
        written = make_card(found, model_path(model), tables_file(card).name)
        _write(card, written.card)
        _write(tables_file(card), written.tables)
    return text, figures_json(found)


def _check(found: Gathered, pictures: Path | None, card: Path | None, model: str | None) -> None:
    """Raise OnboardError for outputs that cannot be written, and for a card of another model than the results."""
    from engines.report.card import manifest_for

    check_json_target(None if card is None else str(card))
    if model is not None:
        manifest_for(found, model_path(model))
    if pictures is not None:
        from hil.evaluate.ways_picture import check_pictures

        check_pictures(pictures)


def _check_driver(found: Gathered, drive: str | None) -> None:
    """Raise OnboardError if the drives are of another policy than the results."""
    from engines.report.plots import driver_of, require_drives_of
    from engines.report.results.checks import shaped
    from engines.report.results.result_files import TRAJECTORIES

    if drive is not None:
        require_drives_of(found.headline, driver_of(drive), f"--drive {drive}")
    elif found.trajectories is not None:
        file = found.folder / TRAJECTORIES
        with shaped(file, NO_DRIVES):
            require_drives_of(found.headline, found.trajectories, str(file))


def _draw(found: Gathered, pictures: Path) -> None:
    from engines.report.plots import ACTIONS_FILE, TRAJECTORIES_FILE, save_actions, save_trajectories
    from engines.report.results.checks import shaped
    from engines.report.results.result_files import TRAJECTORIES

    if found.headline is not None:
        save_actions(found.headline.summary.actions, pictures / ACTIONS_FILE)
    if found.trajectories is not None:
        with shaped(found.folder / TRAJECTORIES, NO_DRIVES):
            save_trajectories(found.trajectories, pictures / TRAJECTORIES_FILE)


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror}") from error
