"""The tables of commands: each row names a function that is there, in its own words, and `--help` imports none."""

from __future__ import annotations

import importlib
import inspect
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import calib.__main__
import engines.__main__
import hil.__main__
import onboard.__main__
from onboard import __version__
from onboard.commands.cli import Command, command_of, with_one_spelling
from tests.rigs.machine.processes import ROOT, environment

TABLES = {
    "onboard": onboard.__main__.COMMANDS,
    "hil": hil.__main__.COMMANDS,
    "engines": engines.__main__.COMMANDS,
    "calib": calib.__main__.COMMANDS,
}
ROWS = [(package, name, row) for package, table in TABLES.items() for name, row in table.items()]
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


PROGRAMS = {"onboard": "onboard", "hil": "onboard-hil", "engines": "onboard-engines", "calib": "onboard-calib"}
EACH_ROW = pytest.mark.parametrize(
    ("package", "name", "row"), ROWS, ids=[f"{package} {name}" for package, name, _ in ROWS]
)


@EACH_ROW
def test_an_example_is_what_the_command_takes(package: str, name: str, row: Command) -> None:
    assert row.group
    command, *arguments = shlex.split(row.example.partition(" > ")[0])
    assert command == name
    command_of(row, name, PROGRAMS[package]).make_context(name, arguments)


@EACH_ROW
def test_the_help_of_a_command_is_whole_with_its_example_and_no_path_of_this_machine(
    package: str, name: str, row: Command, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    app = importlib.import_module(f"{package}.__main__")
    with pytest.raises(SystemExit) as ended:
        getattr(app, "app", app.main)([name, "-h"])
    printed = capsys.readouterr().out
    assert not ended.value.code
    words = " ".join(printed.replace("│", " ").split())
    assert f"Example: {PROGRAMS[package]} {row.example}" in words
    for parameter in command_of(row, name).params:  # Rich takes a word in square brackets for markup
        whole = " ".join((getattr(parameter, "help", None) or "").replace(r"\[", "[").split())
        assert parameter.hidden or whole in words, parameter.name
    assert str(ROOT) not in printed
    assert str(Path.home()) not in printed


@pytest.mark.parametrize("package", TABLES)
def test_the_list_of_commands_is_grouped(package: str) -> None:
    done = subprocess.run([sys.executable, "-m", package, "-h"], capture_output=True, text=True, check=True)
    groups = list(dict.fromkeys(row.group for row in TABLES[package].values()))
    places = [done.stdout.index(f"─ {group} ─") for group in groups]
    assert places == sorted(places)
    assert f"Usage: {PROGRAMS[package]} " in done.stdout


#   program, words before the cursor, a completion
COMPLETED = [
    ("onboard", "onboard che", "check-config"),
    ("onboard", "onboard goal --frame ", "odom"),
    ("hil", "onboard-hil twin-l", "twin-latency"),
    ("engines", "onboard-engines build --h", "--help"),
]


@pytest.mark.parametrize(("package", "typed", "offered"), COMPLETED)
def test_bash_is_offered_commands_and_options(package: str, typed: str, offered: str) -> None:
    words = typed.split(" ")
    variable = f"_{PROGRAMS[package]}_COMPLETE".replace("-", "_").upper()
    asked = {variable: "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, "-m", package], capture_output=True, text=True, check=True, env={**environment(None), **asked}
    )
    assert offered in done.stdout.split()


@pytest.mark.parametrize("package", TABLES)
def test_the_script_of_completion_is_what_bash_reads(package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", package, "completion", "bash"],
        capture_output=True,
        text=True,
        check=True,
        env=dict(os.environ),
    )
    printed = subprocess.run(
        ["bash", "-c", f"{done.stdout}\ncomplete -p {PROGRAMS[package]}"], capture_output=True, text=True, check=True
    )
    assert PROGRAMS[package] in printed.stdout


def test_another_spelling_of_an_option_is_taken_in_silence() -> None:
    given = ["evaluate", "--maps", "home", "--write=x"]
    assert list(map(with_one_spelling, given)) == ["evaluate", "--map", "home", "--out=x"]
