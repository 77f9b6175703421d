"""`completion`, in each of the programs: what a shell reads to complete commands, options and files."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Annotated

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]  # typer has no __all__

from onboard.commands.cli import completion_variable


class Shell(str, Enum):
    """A shell."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(context: typer.Context, shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the completion script for a shell: commands, options and files."""
    program = str(context.find_root().info_name)
    script = get_completion_script(prog_name=program, complete_var=completion_variable(program), shell=shell.value)
    sys.stdout.write(f"{script}\n")
