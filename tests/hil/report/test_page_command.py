"""`onboard-hil report`: pages of sessions, and one line for an error."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.recordings.recording import open_recording
from hil.replay.compare import Comparison, FieldCount, Mismatch, SessionCount
from hil.replay.compared_fields import Difference
from hil.report.page import write_report
from onboard.values.errors import OnboardError
from tests.rigs.recorded_drive import record_drive
from tests.rigs.recordings.replay_mutations import join_sessions


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_drive(tmp_path_factory.mktemp("drive")).path


def test_a_page_of_a_run(drive, tmp_path):
    done = run(drive, "--out", tmp_path / "run.html")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{tmp_path / 'run.html'}: 0.")
    page = (tmp_path / "run.html").read_text()
    assert "<h1>Stopped after " in page
    assert "1 e-stop" in page


def test_a_file_of_several_sessions_is_a_page_of_each(drive, tmp_path):
    join_sessions(drive, tmp_path / "both.mcap")
    done = run(tmp_path / "both.mcap", "--out", tmp_path / "new" / "pages")
    assert done.exit_code == 0, done.output
    first, second = sorted((tmp_path / "new" / "pages").iterdir())
    assert first.name.startswith("both-robot_")
    assert second.name == "both-second.html"
    assert "this page is about second." in second.read_text()
    assert done.stdout.splitlines() == [f"{page}: {page.stat().st_size / 1e6:.1f} MB" for page in (first, second)]


@pytest.mark.parametrize("place", [0, 1])
def test_of_the_replay_of_several_sessions_the_page_is_about_the_one_that_differs(drive, tmp_path, place):
    join_sessions(drive, tmp_path / "both.mcap")
    with open_recording(tmp_path / "both.mcap") as recording:
        counts = [SessionCount(session, ticks=90) for session in recording.sessions]
    counts[place].first = Mismatch(5, 0.2, Difference("scan", "ranges_m", "[0]", 1.0, 2.0, 1.0))
    outcome = Comparison("both.mcap", counts, counts[place].first, {"ranges_m": FieldCount(1, 1.0, 1)})
    write_report(tmp_path / "x.html", [tmp_path / "both.mcap"], outcome)
    assert f"this page is about {counts[place].session.name}." in (tmp_path / "x.html").read_text()


def test_what_cannot_be_read_keeps_no_other_from_its_page(drive, tmp_path):
    for name in ("a", "c"):
        (tmp_path / f"{name}.mcap").write_bytes(b"none of ours")
    shutil.copy(drive, tmp_path / "b.mcap")
    done = run(tmp_path, "--out", tmp_path / "pages")
    assert [file.name for file in (tmp_path / "pages").iterdir()] == ["b.html"]
    assert done.stderr == f"error: {tmp_path / 'a.mcap'}: not a recording: no MCAP file\n"
    assert str(done.exception) == f"{tmp_path / 'c.mcap'}: not a recording: no MCAP file"


#   arguments                                             said
BAD = [
    (["nothing.mcap", "--out", "x.html"], "nothing.mcap: cannot be read: No such file or directory"),
    (["nothing*.mcap", "--out", "x.html"], "nothing*.mcap: no recording there (*.mcap)"),
    (["DRIVE", "COPY", "--out", "x.html"], "--out x.html: a page covers one session, not 2: name a folder instead"),
    (["DRIVE", "--out", "DRIVE/pages"], "cannot be created: Not a directory"),
]


@pytest.mark.parametrize(("arguments", "expected"), BAD)
def test_a_mistake_is_one_line(drive, tmp_path, monkeypatch, arguments, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy").mkdir()
    copy = shutil.copy(drive, tmp_path / "copy" / "other.mcap")
    done = run(*(argument.replace("DRIVE", str(drive)).replace("COPY", str(copy)) for argument in arguments))
    assert isinstance(done.exception, OnboardError)
    assert expected in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "x.html").exists()
