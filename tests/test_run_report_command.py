"""`onboard-hil report`: a page of a session, pages of several, and one line for what cannot be."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner
from view_bench import record_drive

from hil.__main__ import app
from hil.replay.sources import Take
from hil.report.command import pages_for
from onboard.errors import OnboardError


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_drive(tmp_path_factory.mktemp("drive")).path


def test_a_page_of_a_run_on_its_map(drive, tmp_path):
    done = run(drive, "--out", tmp_path / "run.html", "--map", "gdc1")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{tmp_path / 'run.html'}: 0.")
    page = (tmp_path / "run.html").read_text()
    assert "<h1>Stopped after " in page
    assert "1 e-stop" in page


def test_a_folder_of_sessions_is_a_folder_of_pages(drive, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(drive, tmp_path / name / "drive.mcap")
    done = run(tmp_path / "a", tmp_path / "b", "--out", tmp_path / "pages")
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in (tmp_path / "pages").iterdir()) == ["drive-2.html", "drive.html"]


def test_pages_are_told_apart():
    takes = [Take((name,)) for name in ("x/a.mcap", "x/b.mcap", "y/a.mcap", "z/a.mcap")]
    assert [page.name for page in pages_for(Path(), takes)] == ["a.html", "b.html", "a-2.html", "a-3.html"]


def test_damage_is_one_line(drive, tmp_path):
    (tmp_path / "torn.mcap").write_bytes(drive.read_bytes()[:5000])
    done = run(tmp_path / "torn.mcap", "--out", tmp_path / "x.html")
    assert isinstance(done.exception, OnboardError)
    assert str(done.exception).startswith(f"{tmp_path / 'torn.mcap'}: unfinished")
    assert not (tmp_path / "x.html").exists()


#   arguments                                             said
BAD = [
    (["nothing.mcap", "--out", "x.html"], "nothing.mcap: cannot be read: No such file or directory"),
    (["nothing*.mcap", "--out", "x.html"], "nothing*.mcap: no recording there (*.mcap)"),
    (["DRIVE", "--out", "x.html", "--map", "atlantis"], "map atlantis: no such map"),
    (["DRIVE", "COPY", "--out", "x.html"], "--out x.html: a page is about one session, not 2: name a folder instead"),
    (["DRIVE", "--out", "DRIVE/pages"], "cannot be made: Not a directory"),
]


@pytest.mark.parametrize(("arguments", "said"), BAD)
def test_a_mistake_is_one_line(drive, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy").mkdir()
    copy = shutil.copy(drive, tmp_path / "copy" / "other.mcap")
    done = run(*(one.replace("DRIVE", str(drive)).replace("COPY", str(copy)) for one in arguments))
    assert isinstance(done.exception, OnboardError)
    assert said in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "x.html").exists()
