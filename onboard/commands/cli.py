"""Shared by all command lines of this project: lazy commands, options, writing of results."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import logging
import math
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from onboard import __version__
from onboard.values.errors import MissingExtraError, OnboardError, naming

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EXIT_BAD_INPUT = 2
LOG_JSON = "--log-json"
STANDARD_OUTPUT = "-"
DRIVE, LOOK, JUDGE, DEVELOP = "Drive", "Look", "Judge", "Develop"
"""Headings in the list of commands."""
PX_PER_INCH = 100.0

_NUMBERS = re.compile(r"\[\n[-+.\deE,\s]*\]")
"""An array of numbers over several lines; a JSON string never contains a line break."""

ConfigOption = Annotated[Path | None, typer.Option("--config", help="TOML file. Without it: the default robot.")]
JsonOption = Annotated[
    str | None, typer.Option("--json", metavar="FILE|-", help="Write the result to this file; - is standard output.")
]


class Command(NamedTuple):
    """A row of a table of commands.

    target:  the function as "module:function"
    line:    its line in `--help`
    group:   heading in the list of commands, in the order of their first rows
    example: arguments after the program's name, shown in the command's own help
    numbers: whether arguments may be negative numbers, which look like options
    """

    target: str
    line: str
    group: str = ""
    example: str = ""
    numbers: bool = False


def commands_app(program: str, table: Mapping[str, Command], about: str, version_text: str) -> typer.Typer:
    """Return an application whose commands are imported when they run, so that `--help` imports none of them.

    program: its name on the command line
    about: first text of `--help`; version_text: text of `--version`
    """

    class Commands(TyperGroup):
        # `Any`: newer releases of typer bring their own copy of click.
        def main(self, *args: Any, **options: Any) -> Any:
            if completion_variable(program) in os.environ:
                from typer.completion import completion_init  # type: ignore[attr-defined]  # typer has no __all__

                completion_init()
            return super().main(*args, **{**options, "prog_name": program})

        def list_commands(self, ctx: Any) -> list[str]:
            return list(table)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            row = table.get(cmd_name)
            return None if row is None else TyperCommand(cmd_name, help=row.line, rich_help_panel=row.group or None)

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            name, found, rest = super().resolve_command(ctx, [with_one_spelling(one) for one in args])
            return name, found and command_of(table[str(found.name)], str(found.name), program), rest

    app = typer.Typer(
        cls=Commands,
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(invoke_without_command=True, help=about)
    def _root(
        version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    ) -> None:
        if version:
            sys.stdout.write(f"{version_text}\n")
            raise typer.Exit

    return app


SPELLINGS = {"--maps": "--map", "--write": "--out"}
"""Other spellings of options, accepted in silence: one thing has one spelling in all commands."""


def with_one_spelling(argument: str) -> str:
    """Return an argument with the spelling of its option that all commands have."""
    name, equals, value = argument.partition("=")
    return f"{SPELLINGS.get(name, name)}{equals}{value}"


def command_of(row: Command, name: str, program: str = "") -> Any:
    """Import a command and return it as a click command. program: the name in its example."""
    module, function = row.target.split(":")
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    example = f"Example: {program} {row.example}" if row.example else None
    settings = {"ignore_unknown_options": True} if row.numbers else None
    gc.disable()  # an import leaves next to no garbage, and looking for it takes a tenth of its time
    try:
        target = getattr(importlib.import_module(module), function)
    finally:
        gc.enable()
    app.command(name, epilog=example, context_settings=settings)(target)
    return typer.main.get_command(app)


def version_line() -> str:
    """Return the text of `--version`."""
    return f"onboard {__version__}"


def run_app(commands: typer.Typer) -> None:
    """Run a typer application; an OnboardError becomes a line for each mistake and exit code 2."""
    with contextlib.nullcontext() if LOG_JSON in sys.argv else _compilation_shown():
        try:
            commands()
        except OnboardError as error:
            sys.stderr.write(error_lines(error))
            sys.exit(EXIT_BAD_INPUT)


@contextlib.contextmanager
def _compilation_shown() -> Iterator[None]:
    """Make `onboard/values/kernel.py` report on standard error that it compiles, at the first use of a version."""
    reported, handler = logging.getLogger("onboard.kernel"), logging.StreamHandler()
    reported.addHandler(handler)
    reported.setLevel(logging.INFO)
    try:
        yield
    finally:
        reported.removeHandler(handler)


def completion_variable(program: str) -> str:
    """Return the variable by which a shell asks a program for completions, as typer names it."""
    return f"_{program}_COMPLETE".replace("-", "_").upper()


def error_lines(error: OnboardError) -> str:
    """Return what the operator reads of an error: a line for each mistake."""
    return "".join(f"error: {line}\n" for line in str(error).splitlines())


def finite(value: float | None) -> float | None:
    """Return an option's value. Raises typer's usage error for NaN and infinity, which typer's ranges accept."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is not finite")
    return value


SecondsOption = Annotated[
    float | None, typer.Option("--for", min=0.1, help="Stop after this many seconds.", callback=finite)
]


def write_json(target: str | None, value: Any) -> None:
    """Write a result as JSON to a file; "-" is standard output, None nothing. Arrays of numbers take one line.

    Raises OnboardError naming the file.
    """
    if target is None:
        return
    text = _NUMBERS.sub(_in_one_line, json.dumps(value, indent=2, allow_nan=False)) + "\n"
    if target == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return
    write_text(Path(target), text)


def write_result(target: str | None, value: Any, text: str) -> None:
    """Write a result as `write_json`, and its text to standard output if that has no JSON."""
    write_json(target, value)
    if target != STANDARD_OUTPUT:
        sys.stdout.write(text)


PIPED_COLUMNS = 1000


def print_table(table: Any, on_standard_error: bool = False) -> None:
    """Print a table of rich: folded to the width of a terminal; elsewhere each row on one line."""
    from rich.console import Console

    console = Console(stderr=on_standard_error, highlight=False)
    if not console.is_terminal:
        console = Console(stderr=on_standard_error, highlight=False, width=PIPED_COLUMNS)
    console.print(table)


def write_text(file: Path, text: str) -> None:
    """Write a file. Raises OnboardError naming it."""
    with naming(file, "written", OnboardError):
        file.write_text(text, encoding="utf-8")


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """Return a Markdown table: `words` columns of text, then right-aligned numbers. Cells are escaped."""
    cells = [[one.replace("|", "\\|").replace("\n", " ") for one in row] for row in (headings, *rows)]
    first, *others = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([first, f"|{'---|' * words}{'---:|' * (len(headings) - words)}", *others])


def _in_one_line(array: re.Match[str]) -> str:
    return "[" + ", ".join(array[0][1:-1].replace(",", " ").split()) + "]"


def check_json_target(target: str | None) -> None:
    """Raise OnboardError if the result could not be written; called before a drive begins."""
    if target is None or target == STANDARD_OUTPUT:
        return
    file = Path(target)
    if file.is_dir():
        raise OnboardError(f"{target}: cannot be written: is a folder")
    if not file.parent.is_dir():
        raise OnboardError(f"{target}: cannot be written: there is no folder {file.parent}")
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        raise OnboardError(f"{target}: cannot be written: Permission denied")


# ---- Static pictures of reports, drawn by matplotlib


def new_figure(width_px: float, height_px: float) -> Figure:
    """Return an empty figure. Raises MissingExtraError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "plots") from error
    return Figure(figsize=(width_px / PX_PER_INCH, height_px / PX_PER_INCH), dpi=PX_PER_INCH, layout="constrained")


def check_figures() -> None:
    """Raise MissingExtraError without matplotlib, before a command takes hours for what it could not draw."""
    new_figure(1.0, 1.0)


def svg_text(figure: Figure) -> str:
    """Return a figure as an SVG element with its words as text, the same bytes for the same figure."""
    import matplotlib as mpl

    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "onboard", "font.family": "sans-serif"}):
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
