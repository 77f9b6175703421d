"""Every parser of bytes from outside, fed damaged ones: each is understood, or refused by the error that it promises.

A few of each here, and all that once went wrong; `make fuzz` feeds more, by time (`fuzz_run.py`).
"""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.strategies import SearchStrategy

from onboard.drivers.dds import ros_types as ros
from onboard.values.errors import InputError, OnboardError
from tests.fuzz.fuzz_parsers import KEPT, Parser
from tests.fuzz.fuzz_recordings import a_drive
from tests.fuzz.fuzz_run import PARSERS
from tests.fuzz.fuzz_wire import damaged_message, read_message
from tests.rigs.recordings.replay_mutations import MUTATIONS, Whole, a_bomb, mutant

FUZZED = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "40")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
FIRST = settings(FUZZED, phases=[Phase.generate], max_examples=300)
SLOW = settings(FUZZED, max_examples=10)
"""Tenths of a second each."""
SLOW_ONES = {"replay", "page of a recording", "episodes", "episodes of an evaluation", "ROS 1 bag", "checkpoint"}
CASES = [(parser, file) for parser in PARSERS.values() for file in sorted(parser.kept.glob("*"))]


Draw = Callable[[str], SearchStrategy[bytes]]
Spoil = Callable[[Whole, np.random.Generator], bytes]


@pytest.fixture(scope="module")
def draw(tmp_path_factory: pytest.TempPathFactory) -> Draw:
    """What draws inputs of a parser, its valid ones made once."""
    return cache(lambda name: PARSERS[name].draw(tmp_path_factory.mktemp("seeds")))


@pytest.mark.parametrize("name", PARSERS)
def test_some_of_what_is_drawn_is_read(name: str, tmp_path: Path, draw: Draw) -> None:
    """Otherwise all that is tested is the refusal of nonsense."""

    def is_read(content: bytes) -> bool:
        try:
            PARSERS[name].read(content, tmp_path)
        except OnboardError:
            return False
        return True

    assert is_read(find(draw(name), is_read, settings=FIRST))


@pytest.mark.parametrize("name", PARSERS)
def test_what_is_damaged_is_read_or_refused_in_one_line(name: str, tmp_path: Path, draw: Draw) -> None:
    parser = PARSERS[name]

    @SLOW if name in SLOW_ONES else FUZZED
    @given(draw(name))
    def fed(content: bytes) -> None:
        parser.feed(content, tmp_path)

    fed()


@pytest.mark.parametrize(("parser", "case"), CASES, ids=[f"{file.parent.name}-{file.name}" for _, file in CASES])
def test_what_once_went_wrong_is_read_or_refused_in_one_line(parser: Parser, case: Path, tmp_path: Path) -> None:
    parser.feed(case.read_bytes(), tmp_path)


def test_every_case_is_of_a_parser() -> None:
    assert {folder.name for folder in KEPT.glob("*")} <= {parser.kept.name for parser in PARSERS.values()}


@pytest.mark.parametrize("kind", ros.MESSAGES, ids=lambda kind: kind.__name__)
def test_a_message_is_understood_or_counted_as_undecodable(kind: type, tmp_path: Path) -> None:
    @FUZZED
    @given(damaged_message((kind,)))
    def heard(content: bytes) -> None:
        with contextlib.suppress(OnboardError):
            read_message(content, tmp_path)

    heard()


MUTANTS = 2_000
MOST_MB, KB_PER_MB = 400, 1024


def peak_mb() -> float:
    """Return the most memory that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KB_PER_MB


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    return a_drive(tmp_path_factory.mktemp("drive"))


@pytest.mark.parametrize("spoil", MUTATIONS, ids=lambda spoil: spoil.__name__)
def test_a_drive_spoiled_in_each_way_is_replayed_or_refused(spoil: Spoil, whole: Whole, tmp_path: Path) -> None:
    for seed in range(2):
        spoiled = spoil(whole, np.random.default_rng(seed))
        assert spoiled != whole.content
        PARSERS["replay"].feed(spoiled, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(7200)
def test_no_mutant_of_2000_crashes_the_replay_or_fills_the_memory(whole: Whole, tmp_path: Path) -> None:
    begun_mb = peak_mb()
    for number in range(MUTANTS):
        PARSERS["replay"].feed(mutant(whole, number), tmp_path)
    assert peak_mb() - begun_mb < MOST_MB


def test_a_chunk_that_grows_without_end_is_not_believed(whole: Whole, tmp_path: Path) -> None:
    PARSERS["replay"].read(whole.content, tmp_path)
    begun_mb = peak_mb()
    for seed in range(3):
        with pytest.raises(InputError):
            PARSERS["replay"].read(a_bomb(whole, np.random.default_rng(seed)), tmp_path)
    assert peak_mb() - begun_mb < MOST_MB
