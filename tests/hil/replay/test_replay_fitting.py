"""Inconsistent or incomplete recordings: refused by name, or not called identical."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.recordings.locate import found_in
from hil.recordings.recording import open_recording
from hil.replay.replay import replay
from onboard.assembly.policies import policy_maker
from onboard.recording.tick_message import TICK_TOPIC
from onboard.values.errors import InputError
from tests.rigs.recordings.replay_mutations import Message, Whole, put_together, taken_apart
from tests.rigs.recordings.replay_rig import recorded, short_drive
from tests.rigs.runtime_bench import PLANT, plain_config

DEPTH = "/depth/image"


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return taken_apart(short_drive(tmp_path_factory.mktemp("drive")).read_bytes())


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Whole]:
    """The files of one session."""
    policy = policy_maker(plain_config(), PLANT)()
    files, _ = recorded(tmp_path_factory.mktemp("parts"), record={"max_file_mb": 1}, policy=policy)
    return [taken_apart(file.read_bytes()) for file in files]


def written(whole: Whole, file: Path, **more: Any) -> Path:
    file.write_bytes(put_together(whole, **more))
    return file


def saying(whole: Whole, name: str, change: Callable[[str], str]) -> Whole:
    return replace(whole, session={**whole.session, name: change(whole.session[name])})


def renamed(mounts: str) -> str:
    return mounts.replace("cameras.front_left]", "cameras.other]")


def moved(mounts: str) -> str:
    assert "translation_m = [" in mounts
    return mounts.replace("translation_m = [", "translation_m = [0.001, 0.0, 0.5]\n# before: [", 1)


def test_a_camera_that_is_not_in_the_mounts_is_refused_unless_it_is_meant(whole: Whole, tmp_path: Path) -> None:
    file = written(saying(whole, "mounts", renamed), tmp_path / "drive.mcap")
    done = run(file)
    assert done.exit_code == 2
    expected = f"error: {file}: tick 0: camera front_left is not in the recorded mounts, which have "
    assert done.stderr.startswith(expected)
    meant = run(file, "--force")
    assert meant.exit_code == 1
    assert meant.stdout.startswith(f"{file}: too little compared, ")
    assert " decisions, 0 scans fused again, 7 not (images missing), " in meant.stdout


def test_a_session_whose_files_say_otherwise_is_refused_unless_it_is_meant(parts: list[Whole], tmp_path: Path) -> None:
    first = written(parts[0], tmp_path / "a.mcap")
    second = written(saying(parts[1], "mounts", moved), tmp_path / "b.mcap")
    done = run(tmp_path)
    assert done.exit_code == 2
    assert done.stdout.startswith(f"{first}: identical, ")
    assert done.stderr == f"error: {second}: its mounts differs from {first} of the same session; --force continues\n"
    meant = run(tmp_path, "--force")
    assert (meant.exit_code, meant.stderr) == (0, "")


def images(whole: Whole) -> list[Message]:
    found = [message for message in whole.messages if message.topic.endswith(DEPTH)]
    assert found
    return found


def without(whole: Whole, lost: list[Message]) -> Whole:
    kept = tuple(message for message in whole.messages if not any(message is other for other in lost))
    return replace(whole, messages=kept)


def test_a_scan_whose_images_are_missing_is_counted_and_not_called_identical(whole: Whole, tmp_path: Path) -> None:
    one = replay(written(without(whole, images(whole)[:1]), tmp_path / "one.mcap"))
    assert (one.first, one.identical, one.too_little) == (None, False, False)
    assert one.unfused == {"images missing": 1}
    assert one.outcome == "no difference in what was compared"
    assert one.as_json()["sessions"][0]["scans_not_fused"] == {"images missing": 1}
    every = written(without(whole, images(whole)), tmp_path / "all.mcap")
    assert replay(every).too_little
    assert run(every).exit_code == 1


def test_a_session_that_stands_twice_in_a_file_is_refused(whole: Whole, parts: list[Whole], tmp_path: Path) -> None:
    twice = written(whole, tmp_path / "twice.mcap", more_sessions=[whole.session])
    name = whole.session["session"]
    with pytest.raises(InputError, match=f"it contains part 0 of session {name} twice"):
        replay(twice)
    two = replace(parts[0], messages=parts[0].messages + parts[1].messages)
    with open_recording(written(two, tmp_path / "two.mcap", more_sessions=[parts[1].session])) as recording:
        assert len(recording.sessions) == 1


def test_where_most_cannot_be_compared_the_answer_is_no_success(whole: Whole, tmp_path: Path) -> None:
    """Every message of the drive twice, as another tool joins a recording with itself: no tick follows the other."""
    doubled = tuple(sorted((*whole.messages, *whole.messages), key=lambda one: one.time_ns))
    file = written(replace(whole, messages=doubled), tmp_path / "doubled.mcap")
    found = replay(file)
    assert found.first is None
    assert found.ticks < found.skipped
    done = run(file)
    assert done.exit_code == 1
    ticks = sum(one.topic == TICK_TOPIC for one in doubled)
    assert done.stdout.startswith(f"{file}: too little compared, {found.ticks} of {ticks} ticks, {found.gaps} gaps, ")


def test_what_a_crash_has_left_is_replayed_without_a_repair_and_stays_as_it_is(whole: Whole, tmp_path: Path) -> None:
    torn, page = tmp_path / "torn.mcap", tmp_path / "page.html"
    content = put_together(whole)
    torn.write_bytes(content[: len(content) * 3 // 4])
    left = torn.read_bytes()
    with pytest.raises(InputError, match="unfinished"):
        replay(torn)
    done = run(torn, "--report", page)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{torn}: identical, ")
    assert done.stdout.endswith(", cut off: what is left was replayed from a repaired copy\n")
    by_policy = run(torn, "--policy", "reactive")
    assert by_policy.stdout.endswith(" decisions, cut off: what is left was replayed from a repaired copy\n")
    assert torn.read_bytes() == left
    assert page.stat().st_size > 0


def test_what_is_being_recorded_is_not_replayed(whole: Whole, tmp_path: Path) -> None:
    torn = tmp_path / "torn.mcap"
    torn.write_bytes(whole.content[:-100])
    with torn.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = run(torn)
    assert (done.exit_code, done.stderr) == (2, f"error: {torn}: unfinished: is being recorded\n")


def test_a_folder_is_searched_with_its_folders(tmp_path: Path) -> None:
    places = [tmp_path / "robot1" / "a.mcap", tmp_path / "robot2" / "today" / "b.mcap"]
    for place in places:
        place.parent.mkdir(parents=True)
        place.touch()
    assert found_in([str(tmp_path)]) == found_in([f"{tmp_path}/**/*.mcap"]) == [str(place) for place in places]
