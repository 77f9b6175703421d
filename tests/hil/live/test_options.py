"""Options that no document names: each reaches what the command runs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import hil.__main__
from engines.__main__ import main as engines_app
from hil.commands.drive.twin import PAPER_MOUNTS


class RanError(Exception):
    """The command has called what it runs, with these arguments."""


#   program, arguments, what the command runs, what the option changes in the arguments of the call
OPTIONS: list[tuple[Any, list[str], str, Callable[..., object], object]] = [
    (hil.__main__.app, ["sim", "--no-depth-noise"], "hil.commands.drive.simulation:SimulatedRobot",
     lambda *given: given[5].depth_noise, False),
    (hil.__main__.app, ["twin", "--image-every", "4"], "hil.commands.drive.twin:run_twin",
     lambda *given: given[4].image_every, 4),
    (hil.__main__.app, ["guard", "--margin", "0.5"], "hil.commands.drive.twin:run_guard",
     lambda *given: given[1].margin_m, 0.5),
    (hil.__main__.app, ["twin-latency", "--paper"], "hil.commands.drive.twin:run_latency",
     lambda *given: given[2].mounts, PAPER_MOUNTS),
    (hil.__main__.app, ["import", "bag", "--out", "a.mcap", "--laser", "/front", "--commands", "/cmd"],
     "hil.commands.judge.import_bag:import_bag",
     lambda *given, **_: [given[2].roles[role] for role in ("laser", "commands")], ["/front", "/cmd"]),
    (hil.__main__.app, ["target", "--target", "127.0.0.1", "--interface", "eth0", "--target-interface", "eth7"],
     "hil.commands.judge.target:check_files", lambda config: config.dds.interface, "eth7"),
    (engines_app, ["build", "onboard-v2", "--cache", "engines-here", "--no-fp16"],
     "engines.export.engine_check:build_and_check",
     lambda model, cache, **others: (cache, others["fp16"]), (Path("engines-here"), False)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("app", "arguments", "runs", "seen", "expected"), OPTIONS, ids=[" ".join(row[1][:3]) for row in OPTIONS]
)
def test_an_option_reaches_what_the_command_runs(
    app: Any, arguments: list[str], runs: str, seen: Callable[..., object], expected: object,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def stand_in(*given: Any, **named: Any) -> None:
        raise RanError(seen(*given, **named))

    module, name = runs.split(":")
    monkeypatch.setattr(importlib.import_module(module), name, stand_in)
    ended = CliRunner().invoke(app, arguments)
    assert isinstance(ended.exception, RanError), ended.output
    assert ended.exception.args == (expected,)
