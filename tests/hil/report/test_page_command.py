"""`onboard-hil report`: pages of sessions, and one line for an error."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.commands.look.report import Pages
from hil.recordings.recording import open_recording
from hil.replay.compare import Comparison, FieldCount, Mismatch, SessionCount
from hil.replay.compared_fields import Difference
from hil.report.page import write_report
from onboard.values.errors import OnboardError
from tests.hil.report.report_rows import timeline
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


def test_a_folder_of_sessions_is_a_folder_of_pages(drive, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        shutil.copy(drive, tmp_path / name / "drive.mcap")
    done = run(tmp_path / "a", tmp_path / "b", "--out", tmp_path / "pages")
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in (tmp_path / "pages").iterdir()) == ["drive-2.html", "drive.html"]


#   file, sessions in it and this one           names of their pages
NAMES = [
    ([("x/a.mcap", ["s"], "s"), ("x/b.mcap", ["t"], "t")], ["a", "b"]),
    ([("x/a.mcap", ["s"], "s"), ("y/a.mcap", ["t"], "t"), ("z/a.mcap", ["u"], "u")], ["a", "a-2", "a-3"]),
    ([("x/a.mcap", ["s"], "s"), ("x/a-2.mcap", ["t"], "t"), ("y/a.mcap", ["u"], "u")], ["a", "a-2", "a-3"]),
    ([("x/a.mcap", ["s"], "s"), ("y/a.mcap", ["t"], "t"), ("x/a-2.mcap", ["u"], "u")], ["a", "a-2", "a-2-2"]),
    ([("x/a.mcap", ["s", "t"], "s"), ("x/a.mcap", ["s", "t"], "t")], ["a-s", "a-t"]),
    ([("x/a.mcap", ["../../b", "t"], "../../b")], ["a-______b"]),
    ([("x/a.mcap", ["s" * 500, "t"], "s" * 500)], [f"a-{'s' * 80}"]),
]  # fmt: skip


@pytest.mark.parametrize(("sessions", "names"), NAMES)
def test_pages_are_told_apart(sessions, names):
    pages = Pages(Path("out"))
    timelines = [timeline(1, files=(Path(file),), sessions=(*all_of,), session={"session": name})
               for file, all_of, name in sessions]  # fmt: skip
    assert [page for one in timelines for page in pages.of([one])] == [Path("out") / f"{name}.html" for name in names]


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


@pytest.mark.parametrize("there", [False, True])
def test_a_refusal_leaves_nothing_behind_and_takes_nothing_away(tmp_path, there):
    (tmp_path / "torn.mcap").write_bytes(b"none of ours")
    if there:
        (tmp_path / "new").mkdir()
    done = run(tmp_path / "torn.mcap", "--out", tmp_path / "new" / "pages")
    assert isinstance(done.exception, OnboardError)
    assert sorted(file.name for file in tmp_path.rglob("*")) == ["new", "torn.mcap"][0 if there else 1 :]


def test_of_a_recording_that_was_cut_off_there_is_a_page_of_what_is_left(drive, tmp_path):
    torn = tmp_path / "torn.mcap"
    torn.write_bytes(drive.read_bytes()[:-100])
    before = torn.read_bytes()
    done = run(torn, "--out", tmp_path / "x.html")
    assert done.exit_code == 0, done.output
    assert done.stdout.endswith(" MB, from the rest of a recording that was cut off\n")
    assert "torn.mcap" in (tmp_path / "x.html").read_text()
    assert torn.read_bytes() == before


#   arguments                                             said
BAD = [
    (["nothing.mcap", "--out", "x.html"], "nothing.mcap: cannot be read: No such file or directory"),
    (["nothing*.mcap", "--out", "x.html"], "nothing*.mcap: no recording there (*.mcap)"),
    (["DRIVE", "COPY", "--out", "x.html"], "--out x.html: a page covers one session, not 2: name a folder instead"),
    (["DRIVE", "--out", "DRIVE/pages"], "cannot be made: Not a directory"),
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
