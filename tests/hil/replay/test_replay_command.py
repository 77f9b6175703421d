"""`onboard-hil replay`: output and exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.replay.summary import opinion_lines
from onboard.assembly.policies import policy_maker
from onboard.safety import limits
from tests.rigs.recordings.replay_rig import opinion_of, recorded
from tests.rigs.runtime_bench import FORWARD, PLANT, Puppet, plain_config


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A drive of the policy that its configuration names."""
    folder = tmp_path_factory.mktemp("drive")
    (file,), _ = recorded(folder, policy=policy_maker(plain_config(), PLANT)())
    return file


def test_a_folder_of_recordings_is_identical(drive: Path, tmp_path: Path) -> None:
    for name in ("a.mcap", "b.mcap"):
        shutil.copy(drive, tmp_path / name)
    done = run(tmp_path, "--jobs", 2, "--json", tmp_path / "out.json")
    assert done.exit_code == 0, done.output
    assert [line.partition(": ")[2][:10] for line in done.stdout.splitlines()] == ["identical,", "identical,"]
    rows = json.loads((tmp_path / "out.json").read_text())["recordings"]
    assert [Path(row["file"]).name for row in rows] == ["a.mcap", "b.mcap"]
    assert all(row["identical"] and row["within_tolerance"] and row["first_difference"] is None for row in rows)
    assert all(row["ticks"] > 400 for row in rows)
    sessions = [row["sessions"] for row in rows]
    assert all(one["decisions"] == one["same_actions"] > 10 for (one,) in sessions)


def test_a_difference_is_exit_code_1_and_named(drive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scaled = limits._scaled
    monkeypatch.setattr(limits, "_scaled", lambda twist, factor: scaled(twist, 0.9 * factor))
    done = run(drive)
    assert done.exit_code == 1
    assert ": differs, " in done.stdout
    assert "stage limits, field command.v_mps, recorded 0." in done.stdout


def test_what_cannot_be_read_is_exit_code_2_and_the_others_are_replayed(drive: Path, tmp_path: Path) -> None:
    (tmp_path / "torn.mcap").write_bytes(drive.read_bytes()[:5000])
    done = run(tmp_path / "torn.mcap", drive)
    assert done.exit_code == 2
    (torn,), (whole,) = done.stderr.splitlines(), done.stdout.splitlines()
    assert torn.startswith(f"error: {tmp_path / 'torn.mcap'}: not a recording of onboard: ")
    assert whole.startswith(f"{drive}: identical, ")
    assert float(whole.removesuffix(" times real time").rpartition(" ")[2]) > 0.0


def test_another_policy_is_asked_and_not_judged(drive: Path) -> None:
    done = run(drive, "--policy", "reactive")
    assert done.exit_code == 0
    (line,) = done.stdout.splitlines()
    same, of, decisions = line.removesuffix(" decisions").split()[-3:]
    assert "reactive would have done the same in " in line
    assert (same, of) == (decisions, "of")


def test_another_that_disagrees_says_how_and_where(drive: Path) -> None:
    opinion = opinion_of(drive, Puppet(FORWARD))
    head, otherwise, moments = opinion_lines(opinion)
    assert head == f"{drive}: puppet would have done the same in {opinion.same} of {opinion.decisions} decisions"
    rows = [row for row in opinion.as_json()["confusion"] if row["recorded"] != row["now"]]
    pairs = otherwise.removeprefix("  most often otherwise: ").split("; ")
    assert len(pairs) == min(3, len(rows))
    for text, row in zip(pairs, rows, strict=False):
        done = f"{row['recorded']['v_mps']:g} m/s {row['recorded']['w_radps']:g} rad/s"
        assert text == f"0.6 m/s 0 rad/s for {done} {row['decisions']} times"
    first = opinion.as_json()["moments"][0]
    assert moments.startswith(f"  disagrees most at tick {first['tick']} ({first['t_s']:.3f} s) 0.6 m/s 0 rad/s for ")


#   arguments                                   said
BAD = [
    (["nothing.mcap"], 2, "error: nothing.mcap: cannot be read: No such file or directory"),
    (["nothing*.mcap"], 1, "nothing*.mcap: no recording there (*.mcap)"),
    (["nothing.mcap", "--from", "3", "--to", "2"], 1, "--to 2: must not be before --from 3"),
    (
        ["x.mcap", "--model", ".", "--policy", "reactive"],
        1,
        "--model .: is the recorded policy, but --policy asks for another one; use only one of them",
    ),
]


@pytest.mark.parametrize(("arguments", "code", "expected"), BAD)
def test_a_mistake_is_one_line(arguments: list[str], code: int, expected: str) -> None:
    done = run(*arguments)
    assert done.exit_code == code
    assert expected in (done.stderr + str(done.exception))
    assert done.stdout == ""


def test_a_replay_imports_little(tmp_path: Path) -> None:
    """Neither the simulator nor evaluation nor the page: a replay is the runtime and what reads a recording."""
    recording = Path(__file__).parents[2] / "data" / "replay" / "demo.mcap"
    program = (
        "import sys\nfrom hil.__main__ import app\n"
        f"try: app(['replay', {str(recording)!r}, '--to', '1'])\nexcept SystemExit as end: assert end.code == 0, end\n"
        "ours = [name for name in sys.modules if name.split('.')[0] in ('onboard', 'hil', 'engines')]\n"
        "print('imported:', len(ours), any(name.startswith(('hil.evaluate', 'hil.report')) for name in ours))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    count, others = done.stdout.split("imported: ")[1].split()
    assert int(count) < 140
    assert others == "False"
