"""`onboard-hil soak --processes`: the real process over DDS, measured from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.reliability.soak import live
from hil.reliability.soak.live import FAULTS, NAMES, live_lines, passed_live
from hil.reliability.soak.resources import growth, held_by
from onboard.values.errors import OnboardError
from tests.rigs.network.loopback import free_domain

MIB = 1 << 20
LEAKS = "import sys\nkept = []\nfor _ in sys.stdin: kept.append((open('/dev/null'), b'x' * 2**20)); print(flush=True)\n"


@pytest.fixture
def leaking() -> Iterator[subprocess.Popen[bytes]]:
    """Yield a process that opens a file and keeps a mebibyte for each line that it is told."""
    with subprocess.Popen([sys.executable, "-c", LEAKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        yield child
        child.kill()


def test_what_grows_is_seen_from_outside(leaking: subprocess.Popen[bytes]) -> None:
    assert leaking.stdin is not None
    assert leaking.stdout is not None
    samples = []
    for number in range(18):
        leaking.stdin.write(b"\n")
        leaking.stdin.flush()
        leaking.stdout.readline()
        samples.append(held_by(leaking.pid, 60.0 * number))
    rows = {row.what: row for row in growth(samples, NAMES)}
    assert (rows["files"].grown, rows["files"].held) == (6.0, False)
    assert rows["memory_mib"].grown == pytest.approx(6.0, abs=1.5)
    assert not rows["memory_mib"].held
    assert rows["threads"].held


def test_a_process_that_has_ended_is_said() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    with pytest.raises(OnboardError, match=f"process {child.pid} has ended"):
        held_by(child.pid, 0.0)
    assert held_by(os.getpid(), 1.0).threads >= 1


def result(*, held: bool = True, **changes: Any) -> dict[str, Any]:
    row = {"what": "files", "middle": 9.0, "last": 12.0, "grown": 3.0, "per_hour": 1.0, "allowed": 0.0, "held": held}
    sample = {"robot_s": 5.0, "memory_mib": 300.0, "files": 50, "threads": 20}
    plain = {
        "wall_s": 60.0, "commands": 1800, "goals": 2, "reached": 1, "faults": {"visitor": 1}, "violations": {},
        "broken": [], "growth": [row], "samples": [sample],
    }  # fmt: skip
    return {**plain, **changes}


def test_what_grew_or_broke_fails_it() -> None:
    assert passed_live(result())
    assert not passed_live(result(held=False))
    assert not passed_live(result(violations={"speed": 1}))
    assert not passed_live(result(reached=0))
    assert not passed_live(result(growth=[]))
    lines = list(live_lines(result(held=False, broken=["at 3.00 s: speed: too fast"])))
    assert any("files 9.0 -> 12.0" in line and line.endswith("GREW") for line in lines)
    assert lines[-1] == "at 3.00 s: speed: too fast"
    assert "too short" in list(live_lines(result(growth=[])))[2]


#   arguments
BAD = [["--hours", "1"], ["--minutes", "1", "--jobs", "2"], ["--minutes", "1", "--markdown", "x.md"]]


@pytest.mark.parametrize("arguments", BAD)
def test_options_that_it_does_not_take_are_refused(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["soak", "--processes", *arguments])
    assert done.exit_code != 0
    assert "--processes takes --minutes" in str(done.exception) + done.output


@pytest.mark.long
@pytest.mark.timeout(900)
def test_minutes_of_the_real_process_under_each_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    monkeypatch.setattr(live, "EVERY_S", 15.0)
    file = tmp_path / "out.json"
    done = CliRunner().invoke(
        app, ["soak", "--processes", "--minutes", "2", "--out", str(tmp_path), "--json", str(file)]
    )
    assert done.exit_code == 0, done.output
    read = json.loads(file.read_text())
    assert set(read["faults"]) == set(FAULTS)
    assert read["commands"] > 1000
    assert read["goals"] >= 1
    assert [row["what"] for row in read["growth"]] == list(NAMES)
