"""Spoiled recordings: each is replayed as far as it can be, or refused in one line that names it."""

from __future__ import annotations

import contextlib
import json
import resource
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hil.commands.replay import as_json
from hil.recordings.locate import takes_of
from hil.replay.replay import Asked, Replayer, Unread
from tests.rigs.recordings.replay_mutations import MUTATIONS, Whole, a_bomb, mutant, taken_apart
from tests.rigs.recordings.replay_rig import short_drive

MUTANTS = 2_000
LONGEST_S = 60
"""A replay of a drive of two seconds that takes so long hangs."""
KB_PER_MB = 1024
MOST_MB = 400


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return taken_apart(short_drive(tmp_path_factory.mktemp("drive")).read_bytes())


@pytest.fixture(scope="module")
def replayer() -> Iterator[Replayer]:
    with contextlib.closing(Replayer(Asked())) as one:
        yield one


def outcome(replayer: Replayer, file: Path) -> str:
    """Return what came of a file, "refused" or a word; fail unless it came in time, in one line."""

    def late(*_: Any) -> None:
        raise AssertionError(f"{file}: hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST_S)
    try:
        answers = [one for take in takes_of([str(file)]) for one in replayer(take).answers]
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    json.dumps(as_json(answers), allow_nan=False)
    (answer,) = answers
    if isinstance(answer, Unread):
        assert answer.reason.startswith(f"{file}: "), answer.reason
        assert "\n" not in answer.reason
        return "refused"
    return answer.outcome


def fuzzed(whole: Whole, replayer: Replayer, folder: Path, numbers: range) -> Counter[tuple[str, str]]:
    came: Counter[tuple[str, str]] = Counter()
    file = folder / "mutant.mcap"
    for number in numbers:
        name, content = mutant(whole, number)
        file.write_bytes(content)
        try:
            came[name, outcome(replayer, file)] += 1
        except Exception as error:
            raise AssertionError(f"mutant {number}, {name}") from error
    return came


def test_the_drive_itself_is_identical(whole: Whole, replayer: Replayer, tmp_path: Path) -> None:
    (tmp_path / "drive.mcap").write_bytes(whole.content)
    assert outcome(replayer, tmp_path / "drive.mcap") == "identical"


def test_a_mutant_of_each_kind_is_replayed_or_refused(whole: Whole, replayer: Replayer, tmp_path: Path) -> None:
    came = fuzzed(whole, replayer, tmp_path, range(len(MUTATIONS)))
    assert {name for name, _ in came} == {one.__name__ for one in MUTATIONS}


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_no_mutant_of_2000_crashes_the_tool_or_hangs_it(whole: Whole, replayer: Replayer, tmp_path: Path) -> None:
    begun_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    came = fuzzed(whole, replayer, tmp_path, range(MUTANTS))
    assert came.total() == MUTANTS
    grown_mb = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun_kb) / KB_PER_MB
    assert grown_mb < MOST_MB


def test_a_chunk_that_grows_without_end_is_not_believed(whole: Whole, replayer: Replayer, tmp_path: Path) -> None:
    file = tmp_path / "bomb.mcap"
    begun_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for seed in range(3):
        file.write_bytes(a_bomb(whole, np.random.default_rng(seed)))
        assert outcome(replayer, file) == "refused"
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - begun_kb) / KB_PER_MB < MOST_MB
