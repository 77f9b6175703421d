"""`onboard-hil soak`: several processes joined, ended by a signal; its tables; mistakes."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.reliability.soak.report import joined, lines, passed
from onboard.drivers.dds.participant import wait_until

pytestmark = pytest.mark.timeout(600)

PATIENCE_S = 400.0


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["soak", *map(str, arguments)])


def test_a_signal_ends_all_processes_with_what_they_have_found(tmp_path: Path) -> None:
    def interrupt() -> None:
        if wait_until(lambda: len(list(tmp_path.glob("seed*/recordings/*.mcap"))) == 2, PATIENCE_S):
            os.kill(os.getpid(), signal.SIGINT)

    where = ["--map", "apartment", "--policy", "reactive", "--pedestrians", 0, "--out", tmp_path]
    files = ["--json", tmp_path / "out.json", "--markdown", tmp_path / "out.md"]
    threading.Thread(target=interrupt, daemon=True).start()
    done = run("--hours", 99, "--jobs", 2, "--seed", 7, *where, *files)
    assert done.exit_code == 0, done.output
    values = json.loads((tmp_path / "out.json").read_text())
    assert [one["seed"] for one in values["processes"]] == [7, 8]
    assert values["ticks"] == values["recordings"]["ticks"] == sum(one["ticks"] for one in values["processes"]) > 0
    assert values["violations"] == {}
    assert "| violations | 0 |" in (tmp_path / "out.md").read_text().splitlines()


#   arguments                             said
BAD = [
    ([], "soak: say how long: --hours of the robot, --minutes of the wall clock, or both"),
    (["--minutes", "inf"], "inf is not finite"),
    (["--hours", 1, "--map", "nowhere"], "nowhere"),
    (["--hours", 1, "--policy", "nobody"], "nobody"),
]


@pytest.mark.parametrize(("arguments", "expected"), BAD)
def test_a_mistake_is_one_line(arguments: list[object], expected: str) -> None:
    done = run(*arguments)
    assert done.exit_code != 0
    assert expected in str(done.exception) + done.output


def process(seed: int, **changes: Any) -> dict[str, Any]:
    """Return a process's result."""
    numbers = ("robot_s", "processor_s", "driven_m", "goals", "reached", "stuck", "bumps", "recoveries", "runtimes")
    read = {"files": 1, "bytes": 10, "messages": 20, "ticks": 30, "full_disks": 0, "kept": []}
    return {
        **dict.fromkeys(numbers, 3600.0), "seed": seed, "wall_s": 600.0, "ticks": 100, "moving_share": 0.5,
        "buildings": 2, "faults": {"e_stop": 2}, "violations": {}, "broken": [], "problems": [], "contacts": [],
        "recordings": read, "growth": [], **changes,
    }  # fmt: skip


GREW = {"what": "files", "middle": 9.0, "last": 12.0, "grown": 3.0, "per_hour": 1.0, "allowed": 0.0, "held": False}


def test_figures_of_processes_are_joined() -> None:
    values = joined([process(1, faults={"e_stop": 2, "goal_lost": 1}), process(2, wall_s=900.0)])
    assert (values["robot_hours"], values["wall_s"], values["speed"]) == (2.0, 900.0, 8.0)
    assert values["faults"] == {"e_stop": 4, "goal_lost": 1}
    assert values["recordings"]["ticks"] == 60
    assert passed(values)


def test_one_process_that_grows_or_breaks_a_rule_fails_all() -> None:
    grew = joined([process(1), process(2, growth=[GREW])])
    assert not passed(grew)
    assert "seed 2: files 9.0 -> 12.0: +3.00, allowed 0.00 (+1.00 an hour)  GREW" in list(lines(grew))
    assert not passed(joined([process(1, violations={"speed": 3}), process(2)]))
