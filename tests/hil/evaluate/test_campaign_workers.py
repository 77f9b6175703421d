"""Jobs in processes: the same rows whatever the number of workers, and none lost when one is killed."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from hil.evaluate.campaign import DriveResult, jobs_of, noise_seed
from hil.jobs.process_pool import in_processes
from hil.jobs.work import MAX_ATTEMPTS, in_this_process
from onboard.values.errors import OnboardError
from tests.rigs.evaluate_rows import Killed, made_up, refused

SEEDS = [3773967713, 852908213, 1300332241, 3349512151]
"""What others' results were driven with."""
JOBS = [*jobs_of("gdc1", range(5), 7), *jobs_of("willow", range(3), 7)]


def ordered(driven: list[DriveResult]) -> list[DriveResult]:
    return sorted(driven, key=lambda one: one.key)


HERE = ordered(list(in_this_process(made_up, JOBS)))


def test_noise_depends_on_seed_map_and_index_alone() -> None:
    seeds = [noise_seed(*three) for three in [(1, "gdc1", 0), (1, "gdc1", 1), (1, "willow", 0), (2, "gdc1", 0)]]
    assert len(set(seeds)) == len(seeds)
    assert seeds == SEEDS


def test_any_number_of_workers_gives_the_same() -> None:
    assert ordered(list(in_processes(made_up, JOBS, 3))) == HERE
    assert multiprocessing.active_children() == []


def test_a_killed_worker_is_replaced_and_nothing_is_lost(tmp_path: Path) -> None:
    assert ordered(list(in_processes(Killed(tmp_path, (0, 3)), JOBS, 2))) == HERE
    tries = [len(list(tmp_path.glob(f"gdc1-{index}-*"))) for index in range(5)]
    assert tries == [2, 1, 1, 2, 1]


def test_a_job_that_always_kills_ends_the_campaign_by_name(tmp_path: Path) -> None:
    with pytest.raises(
        OnboardError, match=f"gdc1 episode 3: its worker ended {MAX_ATTEMPTS} times; last exit code: -9"
    ):
        list(in_processes(Killed(tmp_path, (3,), times=99), JOBS, 2))
    assert multiprocessing.active_children() == []


def test_where_a_death_is_a_finding_no_job_is_driven_twice(tmp_path: Path) -> None:
    with pytest.raises(OnboardError, match=r"gdc1 episode 3: its worker ended with exit code -9$"):
        list(in_processes(Killed(tmp_path, (3,)), JOBS, 2, attempts=1))
    assert len(list(tmp_path.glob("gdc1-3-*"))) == 1
    assert multiprocessing.active_children() == []


def test_a_job_that_cannot_be_driven_ends_the_campaign_by_name() -> None:
    for driven in (in_processes(refused, JOBS, 2), in_this_process(refused, JOBS)):
        with pytest.raises(OnboardError, match=r"episode 2: the body does not fit at \(1.00, 2.00\)"):
            list(driven)
    assert multiprocessing.active_children() == []


def test_who_stops_asking_leaves_no_worker() -> None:
    driven = in_processes(made_up, JOBS, 2)
    next(driven)
    driven.close()
    assert multiprocessing.active_children() == []
