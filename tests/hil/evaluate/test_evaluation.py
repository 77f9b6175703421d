"""An evaluation under signals: a valid part is left, and the same again goes on to the same end."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hil.commands.judge.evaluate import load_robot
from hil.evaluate.campaign import DriveResult, Job, jobs_of
from hil.evaluate.episode import Run
from hil.evaluate.episode_selection import Source
from hil.evaluate.evaluation import Evaluation, Plan, evaluate, partial_path
from onboard.values.errors import InputError, OnboardError
from tests.rigs.evaluate_rows import made_up

PLAN = Plan(Run("reactive"), load_robot(None), [Source("gdc1", "gdc1", 5), Source("willow", "willow", 3)], seed=7)
WHOLE = 8


def reported(evaluation: Evaluation) -> dict:
    """Return all of the result that must not depend on how it came about."""
    table = evaluation.as_json()
    del table["run"]
    return json.loads(json.dumps(table, allow_nan=False))


class Signalled:
    """Drives made-up jobs; sends this process a signal in the middle of one."""

    def __init__(self, number: signal.Signals, at: Job) -> None:
        self._number, self._at = number, at

    def __call__(self, job: Job) -> DriveResult:
        """Drive, or be interrupted."""
        if job == self._at:
            signal.raise_signal(self._number)
        return made_up(job)


def job_of(number: int) -> Job:
    return [job for source in PLAN.sources for job in jobs_of(source.name, source.indices, PLAN.seed)][number]


def test_all_at_once(tmp_path: Path) -> None:
    done = evaluate(PLAN, tmp_path / "run.jsonl", drive=made_up)
    assert (done.exit_code, len(done.rows), done.resumed) == (0, WHOLE, 0)
    assert [(row.map, row.index) for row in done.rows] == [("gdc1", i) for i in range(5)] + [
        ("willow", i) for i in range(3)
    ]
    assert (tmp_path / "run.jsonl").exists()  # until it has been told
    done.forget()
    assert list(tmp_path.iterdir()) == []


def test_noise_seeds_drive_each_episode_again(tmp_path: Path) -> None:
    """A row for each episode and seed; the drives of the first seed are those of an evaluation with this seed alone."""
    plan = replace(PLAN, sources=[replace(source, noise_seeds=3) for source in PLAN.sources])
    done = evaluate(plan, tmp_path / "run.jsonl", drive=made_up)
    assert (len(done.rows), len({row.seed for row in done.rows}), plan.drives) == (3 * WHOLE, 3 * WHOLE, 3 * WHOLE)
    for number in range(3):
        alone = evaluate(replace(PLAN, seed=PLAN.seed + number), tmp_path / f"{number}.jsonl", drive=made_up)
        assert set(alone.rows) <= set(done.rows)
    assert plan.configuration() != PLAN.configuration()
    again = evaluate(plan, tmp_path / "run.jsonl", drive=made_up)
    assert (again.resumed, again.rows) == (3 * WHOLE, done.rows)


@pytest.fixture
def heard() -> Iterator[None]:
    """A hang-up is heard, though the tests themselves may have been started by `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("heard")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_a_valid_part_that_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "run.jsonl"
    part = evaluate(PLAN, file, drive=Signalled(number, job_of(4)))
    assert (part.exit_code, len(part.rows)) == (128 + number, 4)
    assert reported(part)["complete"] is False
    assert reported(part)["episodes"] == 4
    rest = evaluate(PLAN, file, drive=made_up)
    assert (rest.exit_code, rest.resumed) == (0, 4)
    assert reported(rest) == reported(evaluate(PLAN, tmp_path / "other.jsonl", drive=made_up))


@pytest.mark.usefixtures("heard")
def test_a_drive_that_a_signal_spoiled_is_not_kept(tmp_path: Path) -> None:
    """A compiled kernel turns the signal's exception into another one, and the policy counts as failed."""
    signalled = Signalled(signal.SIGTERM, job_of(4))

    def drops(job: Job) -> DriveResult:
        try:
            return signalled(job)
        except SystemExit:
            return made_up(job)

    part = evaluate(PLAN, tmp_path / "run.jsonl", drive=drops)
    assert (part.exit_code, len(part.rows)) == (128 + signal.SIGTERM, 4)


def test_under_nohup_a_hang_up_is_not_heard(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        done = evaluate(PLAN, tmp_path / "run.jsonl", drive=Signalled(signal.SIGHUP, job_of(2)))
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (done.exit_code, len(done.rows)) == (0, WHOLE)


def test_a_job_that_cannot_be_driven_keeps_what_was(tmp_path: Path) -> None:
    def refuse(job: Job) -> DriveResult:
        if job.index == 2:
            raise InputError("no")
        return made_up(job)

    with pytest.raises(OnboardError, match="gdc1 episode 2: no"):
        evaluate(PLAN, tmp_path / "run.jsonl", drive=refuse)
    assert evaluate(PLAN, tmp_path / "run.jsonl", drive=made_up).resumed == 2


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (Plan(Run("reactive", scan="lidar"), PLAN.robot, PLAN.sources, 7), "scan"),
        (Plan(PLAN.run, PLAN.robot, PLAN.sources, 8), "seed"),
        (Plan(PLAN.run, PLAN.robot, PLAN.sources[:1], 7), "sets"),
    ],
)
def test_another_configuration_is_not_mixed_in(tmp_path: Path, other: Plan, expected: str) -> None:
    evaluate(PLAN, tmp_path / "run.jsonl", drive=Signalled(signal.SIGINT, job_of(4)))
    with pytest.raises(InputError, match=f"another configuration \\({expected}"):
        evaluate(other, tmp_path / "run.jsonl", drive=made_up)
    assert partial_path(other, None) != partial_path(PLAN, None)


def test_the_keys_that_were_promised(tmp_path: Path) -> None:
    table = reported(evaluate(PLAN, tmp_path / "run.jsonl", drive=made_up))
    promised = {
        "episodes", "success_rate", "spl", "sct", "contacts_per_episode", "ci95", "per_map", "per_episode"
    }  # fmt: skip
    assert promised <= set(table)
    assert set(table["per_map"]) == {"gdc1", "willow"}
    assert all(len(interval) == 2 for interval in table["ci95"].values())
