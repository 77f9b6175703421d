"""`onboard-engines report`: tables and model card of a policy, from result files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, write_json
from onboard.config.pretrained import model_path
from onboard.values.errors import InputError, OnboardError

REFUSED = 2


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of results, as engines/report/results.py describes it.")],
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
    """Print the tables in Markdown, then the tables whose result files are missing.

    `--json`: each evaluation with its figures, and the tables without files. With `-` no Markdown is printed.
    """
    from engines.report.card import make_card, tables_file
    from engines.report.files import pack as into_columns
    from engines.report.files import shaped
    from engines.report.results import gather
    from engines.report.tables import figures_json, tables_text

    try:
        check_json_target(json_file)
        check_json_target(None if card is None else str(card))
        if (card is None) != (model is None):
            raise InputError("--card and --model: use both or none")
        with shaped(folder, "a result file has another shape"):
            found = gather(folder)
            text, figures = tables_text(found), figures_json(found)
        if card is not None and model is not None:
            written = make_card(found, model_path(model), tables_file(card).name)
            card.write_text(written.card, encoding="utf-8")
            tables_file(card).write_text(written.tables, encoding="utf-8")
        if pack:
            into_columns(folder)
    except OnboardError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(REFUSED) from error
    if json_file != STANDARD_OUTPUT:
        sys.stdout.write(text)
    write_json(json_file, figures)
