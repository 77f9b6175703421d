"""`onboard-engines ablations --show` looks at what there is, and leaves every folder as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from engines.__main__ import main
from tests.rigs.ablation_rig import write_agents


def run(*arguments: str | Path):
    return CliRunner().invoke(main, ["ablations", *map(str, arguments)], catch_exceptions=False)


def contents(folder: Path) -> dict[Path, bytes | None]:
    """Return everything in a folder, files with what they hold."""
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Return a folder with a table of two tiny agents, the first of which has its results in `out`."""
    folder = tmp_path_factory.mktemp("show")
    done = run("--out", folder / "out", "--agents", write_agents(folder), "--only", "plain")
    assert done.exit_code == 0, done.output
    return folder


@pytest.mark.parametrize("lost", ["ablations.json", "ablations.json.lock"])
def test_what_is_shown_is_not_written(made, tmp_path, lost):
    out = shutil.copytree(made / "out", tmp_path / "out")
    (out / lost).unlink()
    before = contents(tmp_path)
    shown = run("--out", out, "--agents", made / "agents.toml", "--show")
    assert (shown.exit_code, shown.stderr) == (0, "")
    assert "| `plain` | paper (and its own domain) | 3 |" in shown.stdout
    assert contents(tmp_path) == before


#    what is in place of the results   agents that are asked for   what is said after the folder
NOTHING_THERE = [
    (None, [], "no such folder"),
    ("file", [], "no such folder"),
    ("folder", [], "no result there of plain, other"),
    ("folder", ["--only", "other"], "no result there of other"),
    ("results", ["--only", "other"], "no result there of other"),
]


@pytest.mark.parametrize(("there", "only", "expected"), NOTHING_THERE)
def test_a_folder_without_results_is_one_line_and_stays_so(made, tmp_path, there, only, expected):
    out = tmp_path / "abl"
    if there == "file":
        out.touch()
    elif there == "folder":
        out.mkdir()
    elif there == "results":
        shutil.copytree(made / "out", out)
    before = contents(tmp_path)
    shown = run("--out", out, "--agents", made / "agents.toml", *only, "--show")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert shown.stderr == f"error: --out {out}: {expected}\n"
    assert contents(tmp_path) == before
