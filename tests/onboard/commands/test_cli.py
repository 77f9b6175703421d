"""The tables of commands: each row names a function that is there, in its own words, and `--help` imports none."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import engines.__main__
import hil.__main__
import onboard.__main__
from onboard import __version__
from onboard.commands.cli import Command, command_of, with_new_names

TABLES = {
    "onboard": onboard.__main__.COMMANDS,
    "hil": hil.__main__.COMMANDS,
    "engines": engines.__main__.COMMANDS,
}
ROWS = [(package, name, row) for package, table in TABLES.items() for name, row in table.items()]
RENAMED = [
    ("onboard", onboard.__main__.RENAMED),
    ("hil", hil.__main__.RENAMED),
]
HEAVY = ("numpy", "numba", "cyclonedds", "torch", "scipy", "onnxruntime")


@pytest.mark.parametrize(("package", "name", "row"), ROWS, ids=[f"{package} {name}" for package, name, _ in ROWS])
def test_a_row_says_what_its_function_says(package: str, name: str, row: Command) -> None:
    module, function = row.target.split(":")
    doc = inspect.getdoc(getattr(importlib.import_module(module), function))
    assert doc is not None
    assert " ".join(doc.split("\n\n")[0].split()) == row.line


@pytest.mark.parametrize("package", TABLES)
def test_help_and_version_import_nothing_heavy(package: str) -> None:
    for option in ("--help", "--version"):
        program = (
            f"import runpy, sys\nsys.argv = [{package!r}, {option!r}]\n"
            f"try: runpy.run_module({package!r}, run_name='__main__')\n"
            "except SystemExit: pass\n"
            f"print('heavy:', sorted(set({HEAVY!r}) & set(sys.modules)))"
        )
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        assert done.stdout.endswith("heavy: []\n"), done.stdout
        assert option == "--help" or done.stdout.split()[-3] == __version__


@pytest.mark.parametrize("package", TABLES)
def test_help_names_every_command(package: str) -> None:
    done = subprocess.run([sys.executable, "-m", package, "--help"], capture_output=True, text=True, check=True)
    assert [name for name in TABLES[package] if f" {name} " not in done.stdout] == []


@pytest.mark.parametrize("package", TABLES)
def test_an_unknown_command_is_named_in_the_error(package: str) -> None:
    done = subprocess.run([sys.executable, "-m", package, "nonsense"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "nonsense" in done.stderr


@pytest.mark.parametrize(("package", "renamed"), RENAMED)
def test_an_old_name_stands_for_one_that_there_is(package: str, renamed: dict[str, str]) -> None:
    commands = [command_of(row, name) for name, row in TABLES[package].items()]
    known = {*TABLES[package], *(option for one in commands for parameter in one.params for option in parameter.opts)}
    assert set(renamed.values()) <= known
    assert not set(renamed) & known


#   arguments                              today                                    told
OLD = [
    (["accept", "accept", "--old", "x"],     ["update-reference", "accept", "--new", "x"], ["accept", "--old"]),
    (["update-reference", "--old=accept"],   ["update-reference", "--new=accept"],         ["--old"]),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "today", "told"), OLD)
def test_old_names_go_on_and_each_is_told(
    arguments: list[str], today: list[str], told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert with_new_names(arguments, {"accept": "update-reference", "--old": "--new"}) == today
    assert [line.split()[1] for line in capsys.readouterr().err.splitlines()] == told


def test_an_old_command_runs_and_says_its_new_name() -> None:
    done = subprocess.run([sys.executable, "-m", "hil", "accept", "--help"], capture_output=True, text=True, check=True)
    assert "REFERENCE" in done.stdout
    assert done.stderr.startswith("warning: accept is now called update-reference")
