"""Places of recordings (files, folders, patterns, URLs) and the grouping into sessions."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.reader import make_reader
from typer.testing import CliRunner

from hil.__main__ import app
from hil.recordings import locate
from hil.recordings.locate import found_in, takes_of
from hil.recordings.recording import open_recording
from hil.replay.recorded_policy import Policies
from hil.replay.replay import Replayer, ReplayOptions, UnreadableFile
from hil.replay.tick_selection import Span
from onboard.perception import scan_fusion
from onboard.values.errors import MissingExtraError
from onboard.values.messages import BINS
from tests.rigs.recordings.replay_mutations import join_sessions, put_together, taken_apart
from tests.rigs.recordings.replay_rig import puppet, recorded, short_drive


def replayed(files: list[Path], **options: Any) -> list[Any]:
    """Return what comes of files by a rig's puppet, one by one."""
    replayer = Replayer(ReplayOptions(**options), Policies(puppet()))
    return [answer for take in takes_of([str(file) for file in files]) for answer in replayer(take).answers]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """One session over several files."""
    found, _ = recorded(tmp_path_factory.mktemp("drive"), record={"max_file_mb": 1})
    assert len(found) > 2
    return found


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return short_drive(tmp_path_factory.mktemp("short"))


def test_a_session_over_several_files_goes_on_from_file_to_file(files: list[Path]) -> None:
    answers = replayed(files)
    assert [answer.source for answer in answers] == [str(file) for file in files]
    assert all(answer.identical and answer.ticks > 0 and answer.skipped == answer.gaps == 0 for answer in answers)
    alone = replayed(files[1:2])[0]
    assert isinstance(alone, UnreadableFile) or alone.skipped > 0
    assert len({answer.as_json()["sessions"][0]["session"] for answer in answers}) == 1
    assert [answer.as_json()["sessions"][0]["part"] for answer in answers] == [*range(len(files))]


def within_a_chunk(file: Path) -> int:
    """Return where in a file the messages of its longest chunk are; indices lie between chunks."""
    with file.open("rb") as stream:
        summary = make_reader(stream).get_summary()
    assert summary is not None
    chunk = max(summary.chunk_indexes, key=lambda index: index.chunk_length)
    assert chunk.chunk_length > 4000
    return chunk.chunk_start_offset + chunk.chunk_length // 2


def test_a_file_that_is_missing_is_a_gap_and_one_that_is_torn_is_named(files: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copy(file, tmp_path)) for file in files]
    assert [one.gaps for one in replayed([copies[0], *copies[2:]])][1] == 1
    content, middle = copies[1].read_bytes(), within_a_chunk(copies[1])
    copies[1].write_bytes(content[:middle] + bytes(1000) + content[middle + 1000 :])
    first, torn, *others = replayed(copies)
    assert first.identical
    assert isinstance(torn, UnreadableFile)
    assert torn.reason.startswith(f"{copies[1]}: damaged after the messages of ")
    assert all(isinstance(other, UnreadableFile) or other.first is None for other in others)


def test_a_part_of_a_session_is_played_wherever_it_stands(files: list[Path]) -> None:
    whole = replayed(files)
    middle = whole[1].sessions[0].from_s + 0.2
    part = replayed(files, span=Span(middle, middle + 0.5))
    assert str(files[1]) in [one.source for one in part]
    assert sum(one.ticks for one in part) < sum(one.ticks for one in whole)
    assert all(one.identical for one in part)


def test_sessions_in_one_folder_are_told_apart_and_copies_too(files: list[Path], short: Path, tmp_path: Path) -> None:
    for file in files[:2]:
        shutil.copy(file, tmp_path / f"b{file.name}")
    shutil.copy(files[0], tmp_path / "copy.mcap")
    whole = taken_apart(short.read_bytes())
    (tmp_path / "a.mcap").write_bytes(put_together(replace(whole, session={**whole.session, "session": "x"})))
    takes = takes_of(found_in([str(tmp_path)]))
    assert [[Path(source).name for source in take.sources] for take in takes] == [
        ["a.mcap"], [f"b{file.name}" for file in files[:2]], ["copy.mcap"],
    ]  # fmt: skip


def test_two_sessions_joined_into_one_file_are_two(short: Path, tmp_path: Path) -> None:
    file = tmp_path / "joined.mcap"
    join_sessions(short, file)
    with open_recording(file) as recording:
        names = [session.name for session in recording.sessions]
    assert names[1] == "second"
    done = CliRunner().invoke(app, ["replay", str(file), "--json", str(tmp_path / "out.json")])
    assert done.exit_code == 0, done.output
    (row,) = json.loads((tmp_path / "out.json").read_text())["recordings"]
    assert [one["session"] for one in row["sessions"]] == names
    first, second = row["sessions"]
    assert row["identical"]
    assert first["ticks"] == second["ticks"] == row["ticks"] / 2 > 60


FAR = np.full(BINS, np.inf, np.float32)
FORM = {
    "file", "sessions", "cut_off", "ticks", "identical", "within_tolerance", "first_difference", "fields",
    "speed_x_realtime",
}  # fmt: skip


def test_the_json_has_the_form_that_is_promised(short: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = scan_fusion.fuse
    monkeypatch.setattr(scan_fusion, "fuse", lambda *given: (replace(seen(*given)[0], ranges_m=FAR), seen(*given)[1]))
    done = CliRunner().invoke(app, ["replay", str(short), str(tmp_path / "no.mcap"), "--json", "-"])
    assert done.exit_code == 2
    result = json.loads(done.stdout)
    (row,), (unreadable,) = result["recordings"], result["unreadable"]
    assert row.keys() == FORM
    assert row["first_difference"].keys() == {"tick", "t_s", "stage", "field", "recorded", "replayed"}
    assert row["first_difference"]["replayed"] == "inf", "JSON has no infinity"
    assert unreadable == {
        "file": str(tmp_path / "no.mcap"),
        "error": f"{tmp_path / 'no.mcap'}: cannot be read: No such file or directory",
    }


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A plain web server on loopback over the test's folder; one that cannot seek."""
    handler = functools.partial(Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


needs_fsspec = pytest.mark.skipif(locate.fsspec is None, reason="the extra `remote` is not installed")


@needs_fsspec
def test_recordings_are_replayed_from_a_web_server(short: Path, tmp_path: Path, server: str) -> None:
    shutil.copy(short, tmp_path / "a.mcap")
    shutil.copy(short, tmp_path / "b.mcap")
    assert found_in([f"{server}/*.mcap"]) == [f"{server}/a.mcap", f"{server}/b.mcap"]
    assert found_in([f"{server}/a.mcap"]) == [f"{server}/a.mcap"]
    done = CliRunner().invoke(app, ["replay", f"{server}/"])
    assert (done.exit_code, len(done.output.splitlines())) == (0, 2), done.output
    assert done.output.startswith(f"{server}/a.mcap: identical, ")
    (tmp_path / "torn.mcap").write_bytes(short.read_bytes()[:-100])
    (torn,) = Replayer(ReplayOptions())(takes_of([f"{server}/torn.mcap"])[0]).answers
    assert (torn.source, torn.cut_off, torn.identical) == (f"{server}/torn.mcap", True, True)
    (tmp_path / "torn.mcap").write_bytes(short.read_bytes()[:100])
    (torn,) = Replayer(ReplayOptions())(takes_of([f"{server}/torn.mcap"])[0]).answers
    assert torn.reason.startswith(f"{server}/torn.mcap: not a recording")


@needs_fsspec
def test_recordings_are_replayed_from_any_file_system(short: Path, tmp_path: Path) -> None:
    memory = locate.fsspec.filesystem("memory")
    memory.pipe_file("/robot7/a.mcap", short.read_bytes())
    assert found_in(["memory://robot7/*.mcap"]) == ["memory:///robot7/a.mcap"]
    assert found_in(["memory://robot7"]) == ["memory:///robot7/a.mcap"]
    shutil.copy(short, tmp_path / "a.mcap")
    for url in ("memory://robot7/a.mcap", f"file://{tmp_path}/a.mcap"):
        (answer,) = Replayer(ReplayOptions())(takes_of([url])[0]).answers
        assert (answer.source, answer.identical) == (url, True)


def test_without_the_library_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locate, "fsspec", None)
    with pytest.raises(MissingExtraError, match=r"onboard\[remote\]"):
        found_in(["http://127.0.0.1/a.mcap"])
