"""A training in the batched world from the command: it resumes, exports, and says what is wrong in one line."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch
from typer.testing import CliRunner

from engines.__main__ import main
from engines.network.policy_checkpoint import load_training, save_training
from engines.train import stages
from engines.train.batched import training
from engines.train.batched.learner import Learner, Settings
from engines.train.batched.policy import policy_of
from engines.train.batched.training import Task, room_for
from engines.train.config import rules_of
from onboard.policy.manifest import load_manifest
from onboard.values.errors import DriverError, MissingExtraError
from tests.rigs.train_rig import BATCHED, BATCHED_RECIPE, batched, journal_rows

RECIPE = [part for key, value in BATCHED.items() for part in ("--set", f"{key}={json.dumps(value)}")]
CUDA = torch.device("cuda")


def run(*arguments: str):
    return CliRunner().invoke(main, ["train", "--config", str(BATCHED_RECIPE), *RECIPE, *arguments])


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """Return the folder of a training of at least one iteration, whose time is over."""
    folder = tmp_path_factory.mktemp("training") / "run"
    first = run("--out", str(folder), "--set", "batched.within_s=0.1")
    assert first.exit_code == 0, first.output
    assert first.stdout == f"{folder / 'policy.onnx'}\n"
    return folder


def test_it_makes_a_model_that_says_how_it_was_trained(out):
    reported = load_manifest(out / "policy.onnx").extra["training"]
    assert (reported["policy"], reported["seed"], reported["device"]) == ("onboard-s", 71, "cpu")
    assert reported["digest"] == batched().digest()
    assert reported["decisions"] == 64
    assert reported["seconds"] > 0.1


def test_it_goes_on_for_as_long_as_it_is_given_and_without_work_once_it_is_over(out):
    before = load_training(out / "batched.ckpt", batched().digest(), training.NO_NETWORK)
    longer = ("--out", str(out), "--set", f"batched.within_s={before['spent_s'] + 1e-3}")
    assert run(*longer).exit_code == 0
    after = load_training(out / "batched.ckpt", batched().digest(), training.NO_NETWORK)
    assert run(*longer).exit_code == 0
    again = load_training(out / "batched.ckpt", batched().digest(), training.NO_NETWORK)
    assert after["spent_s"] > before["spent_s"]
    assert after["learning_s"] - before["learning_s"] < after["spent_s"] - before["spent_s"]
    assert (again["spent_s"], again["iteration"]) == (after["spent_s"], after["iteration"])


def test_it_begins_with_a_model(out, tmp_path):
    arguments = ("--out", str(tmp_path), "--init", str(out / "policy.onnx"))
    assert run(*arguments, "--set", "batched.within_s=0.1", "--set", "batched.rate=1e-12").exit_code == 0
    first, after = (policy_of(folder / "policy.onnx").actor.weight for folder in (out, tmp_path))
    assert float((first - after).detach().abs().max()) < 1e-6
    reported = load_manifest(tmp_path / "policy.onnx").extra["training"]
    assert reported["init"] == str(out / "policy.onnx")
    assert reported["began"]["decisions"] == 64


def test_the_papers_network_learns_from_a_policy(out, tmp_path, monkeypatch):
    monkeypatch.setattr(Settings, "teacher_at", lambda settings, _: settings.teacher)  # the time is over at once
    sizes = {"channels": [32, 64, 128], "scan": 256, "hidden": 8, "memory": 16, "layers": 2}
    values = {"network": sizes, "teacher.policy": str(out / "policy.onnx"), "teacher.weight": 1.0, "within_s": 0.1}
    changes = [part for key, value in values.items() for part in ("--set", f"batched.{key}={json.dumps(value)}")]
    trained = run("--out", str(tmp_path), *changes)
    assert trained.exit_code == 0, trained.output
    assert policy_of(tmp_path / "policy.onnx").memory_shape == (2, 16)
    (row,) = [json.loads(row) for row in journal_rows(tmp_path)]
    assert row["teacher_loss"] > 0.0


def test_the_critic_of_the_checkpoint_beside_a_model_joins(out, tmp_path, monkeypatch):
    taken = []

    def take(learner, file, content):
        taken.append((file, learn(learner, file, content)))

    learn = Learner.take_critic
    monkeypatch.setattr(Learner, "take_critic", take)
    arguments = ("--out", str(tmp_path), "--init", str(out / "policy.onnx"))
    assert run(*arguments, "--set", "batched.within_s=0.1", "--set", "batched.sharpen=2.0").exit_code == 0
    assert taken == [(out / "batched.ckpt", True)]


def test_two_iterations_follow_each_other_and_their_rate_falls(tmp_path, monkeypatch):
    learn, made = Learner.iterate, []

    def stopped(learner, progress):
        if len(made) in (1, 3):
            made.append(None)
            raise KeyboardInterrupt
        made.append(progress)
        return learn(learner, progress)

    monkeypatch.setattr(Learner, "iterate", stopped)
    arguments = ("--out", str(tmp_path), "--set", "batched.within_s=60")
    for iterations in (1, 2):
        ended = run(*arguments)
        assert (ended.exit_code, ended.stdout) == (130, "")
        assert ended.stderr == f"stopped; run the same command again to resume from the last checkpoint in {tmp_path}\n"
        kept = load_training(tmp_path / "batched.ckpt", batched().digest(), training.NO_NETWORK)
        assert (kept["iteration"], kept["decisions"]) == (iterations, 64 * iterations)
    assert made[0] < made[2] < 1.0
    rows = [json.loads(row) for row in journal_rows(tmp_path)]
    assert [(row["stage"], row["step"], row["call"]) for row in rows] == [("batched", 1, 1), ("batched", 2, 2)]
    assert rows[1]["rate"] < rows[0]["rate"]
    assert not (tmp_path / "policy.onnx").exists()


#   arguments                               what the line says
WRONG = [
    (["--set", "batched.lanes=0"],          "--set batched.lanes: Input should be greater than or equal to 1 (is 0)"),
    (["--set", "network.size=tiny"],        "--set network.size: unknown key network"),
    (["--init", "onboard-v2"],              "sees images, which the batched world lacks: train"),
    (["--init", "none.onnx"],               "none.onnx"),
    (["--set", "batched.teacher.policy=none.onnx"], "none.onnx"),
    (["--map", "apartment"],                     "places.maps: apartment belongs to the test split"),
    (["--map", "atlantis"],                 "map atlantis: no such map"),
    (["--set", "batched.lanes=9"],          "made with another configuration"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "line"), WRONG)
def test_what_is_wrong_is_said_in_one_line(out, arguments, line):
    before = (out / "batched.ckpt").read_bytes()
    result = run("--out", str(out), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    (reported,) = result.stderr.splitlines()
    assert reported.startswith("error: ")
    assert line in reported
    assert (out / "batched.ckpt").read_bytes() == before


def test_a_checkpoint_with_impossible_times_is_refused(tmp_path):
    save_training(tmp_path / "batched.ckpt", "batched", batched().digest(), training.NO_NETWORK, {"spent_s": -1.0})
    result = run("--out", str(tmp_path))
    assert result.stderr == (
        f"error: {tmp_path}/batched.ckpt: spent_s: expected a number of seconds, found -1.0; use another --out, or "
        "remove it\n"
    )


# ---- A GPU, which this machine need not have


def task() -> Task:
    config = batched()
    return Task(config.batched, rules_of(config), 0, config.digest())


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_is_refused(tmp_path):
    result = run("--out", str(tmp_path), "--device", "cuda")
    assert result.stderr == "error: --device cuda: PyTorch finds no CUDA device here\n"


@pytest.mark.skipif(importlib.util.find_spec("numba_cuda") is not None, reason="numba-cuda is installed")
def test_without_numba_cuda_the_extra_is_named(tmp_path):
    with pytest.raises(MissingExtraError, match=r"^numba-cuda is not installed: pip install 'onboard\[gpu\]'$"):
        training.train(task(), tmp_path, CUDA, lambda *_: None)


class CudaAPIError(Exception):
    """Named as numba-cuda's, which does not derive from RuntimeError."""


#   error in the middle of a training                                 error that is raised in its place
FAILURES = [
    (CudaAPIError("[700] Call to cuMemcpyDtoH results in\nX"),        DriverError),
    (RuntimeError("CUDA error: unspecified launch failure\nFor"),     DriverError),
    (torch.AcceleratorError("CUDA error: an illegal access"),         DriverError),
    (CudaAPIError("[2] results in CUDA_ERROR_OUT_OF_MEMORY"),         MemoryError),
    (torch.OutOfMemoryError("CUDA out of memory."),                   torch.OutOfMemoryError),
    (ZeroDivisionError("division by zero"),                           ZeroDivisionError),
]  # fmt: skip


@pytest.mark.parametrize(("failure", "raised"), FAILURES)
def test_a_gpu_that_fails_names_the_checkpoint_that_the_cpu_goes_on_from(out, monkeypatch, failure, raised):
    def fails(*_):
        raise failure

    monkeypatch.setattr(training._Run, "run", fails)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    given = task()._replace(section=task().section.model_copy(update={"within_s": 1e6}))
    with pytest.raises(raised) as reported:
        training.train(given, out, CUDA, lambda *_: None)
    if raised is DriverError:
        assert str(reported.value).startswith(f"the GPU failed: {type(failure).__name__}: ")
        assert str(reported.value).endswith(
            f"; the last checkpoint is {out}/batched.ckpt: the same command resumes from it, also with --device cpu"
        )
        assert "\n" not in str(reported.value)


def test_the_room_for_fields_follows_from_the_first_goals(monkeypatch):
    class Goal:
        def __init__(self, size):
            self.field, self.priced = torch.zeros(size).numpy(), torch.zeros(size // 5).numpy()

    section = task().section
    goals = [Goal(10), Goal(20)]
    assert room_for(section, goals) == (0, 0, 0)
    assert room_for(section.model_copy(update={"processes": 2, "most_goals": 5}), goals) == (3, 45, 9)
    assert room_for(section.model_copy(update={"processes": 2, "most_goals": 1}), goals) == (0, 0, 0)
    assert stages.MODEL == "policy.onnx"
