"""The command `onboard-hil view`."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from hil.view.queue import ViewCounts
from hil.view.viewer import ViewOptions, run_view
from onboard.commands.cli import ConfigOption, JsonOption, SecondsOption, check_json_target, write_json
from onboard.values.errors import InputError

NICENESS = 10
"""Niceness of the live view: a runtime on the same cores has priority."""


def view(
    recording: Annotated[
        Path | None, typer.Argument(help="A recording (.mcap). Without it: the live DDS topics.")
    ] = None,
    map_name: Annotated[str | None, typer.Option("--map", help="Building to draw, by name or file.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the building's furniture, as for `sim`.")] = 1,
    episode: Annotated[int | None, typer.Option(min=0, help="Furniture of this committed episode instead.")] = None,
    bare: Annotated[bool, typer.Option("--bare", help="Draw no furniture, as for a real building.")] = False,
    config: ConfigOption = None,
    save: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write an .rrd file, for `rerun FILE.rrd`.")
    ] = None,
    serve: Annotated[bool, typer.Option("--serve", help="Serve the view to a browser of this machine.")] = False,
    images: Annotated[bool, typer.Option(help="Show the camera images.")] = True,
    seconds: SecondsOption = None,
    json_file: JsonOption = None,
) -> None:
    """View a live or recorded drive: building, robot, scan, cameras, path, commands. It never slows the runtime."""
    if bare and episode is not None:
        raise InputError("--bare draws no furniture, and --episode is in a furnished building: use one of them")
    check_json_target(json_file)
    check_json_target(None if save is None else str(save))
    options = ViewOptions(recording, map_name, seed, episode, bare, config, save, serve, images, seconds, NICENESS)
    shown = run_view(options)
    if json_file is not None:
        write_json(json_file, asdict(shown))
    sys.stderr.write(summary(shown))


def summary(shown: ViewCounts) -> str:
    """Return lines for the operator: the numbers of messages shown, dropped, waiting, and not displayable."""
    lost = ", ".join(f"{count} of {topic}" for topic, count in sorted(shown.dropped.items()))
    lines = [f"{shown.shown} messages shown, {sum(shown.dropped.values())} dropped{f': {lost}' if lost else ''}"]
    if shown.waiting:
        lines.append(f"{shown.waiting} were waiting for the viewer at the end")
    if shown.unshowable:
        lines.append(f"{shown.unshowable} could not be shown, the last: {shown.problem}")
    return "".join(f"{line}\n" for line in lines)
