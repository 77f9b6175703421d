"""The encoder's training: learns, goes on where it ended to the same bits, and stops at what is not finite."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engines.encoder import training
from engines.encoder.config import PhaseSection
from engines.encoder.schedule import batch_of, steps_of
from engines.encoder.training import (
    CHECKPOINT_FILE,
    ENCODER_FILE,
    HEAD_FILE,
    VIEWS_FOLDER,
    LossError,
    Predictor,
    loss_of,
)
from engines.encoder.training import train_encoder as train
from engines.network.network import TINY
from engines.runs.locks import alone_in
from engines.runs.torch_file import read_torch
from onboard.values.errors import InputError
from tests.engines.encoder.encoder_rows import SMALL, STEPS, copied


class StoppedError(Exception):
    """Stands for Ctrl-C."""


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A whole training, and what it told."""
    folder = tmp_path_factory.mktemp("whole")
    reported: list[tuple[int, int, dict[str, float]]] = []
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    file = train(SMALL, 5, folder, TINY, report=lambda *row: reported.append(row))
    torch.set_num_threads(threads)
    return folder, file, reported


def interrupted(folder, at: int, section=SMALL):
    """Train until a step is done, and no further."""

    def report(step: int, total: int, metrics: object) -> None:
        if step == at:
            raise StoppedError

    with pytest.raises(StoppedError):
        train(section, 5, folder, TINY, report=report)


def assert_same_weights(file, other):
    first, second = read_torch(file), read_torch(other)
    assert list(first) == list(second)
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def test_steps_are_told_with_their_figures(trained):
    steps = [(step, total) for step, total, metrics in trained[2] if "loss" in metrics]
    assert steps == [(step, STEPS) for step in range(1, STEPS + 1)]
    assert [metrics["shrink"] for *_, metrics in trained[2] if "shrink" in metrics] == [4, 4, 4, 1, 1]
    assert trained[2][0] == (0, STEPS, {"views": 0, "views_wanted": 6})


def test_the_file_holds_the_weights_of_rgb_alone(trained):
    weights = read_torch(trained[1])
    expected = Predictor(TINY, 0, np.zeros(45, np.float32)).rgb.state_dict()
    assert list(weights) == [f"rgb.{name}" for name in expected]
    assert all(weights[f"rgb.{name}"].shape == value.shape for name, value in expected.items())


@pytest.mark.parametrize("at", [1, 3, 5])
def test_an_interrupted_training_ends_with_the_same_bits(trained, tmp_path, at):
    folder = copied(trained[0], tmp_path, VIEWS_FOLDER)
    interrupted(folder, at)
    assert not (folder / ENCODER_FILE).exists()
    file = train(SMALL, 5, folder, TINY)
    assert_same_weights(file, trained[1])
    assert_same_weights(folder / HEAD_FILE, trained[0] / HEAD_FILE)


def test_another_seed_ends_with_other_weights(trained, tmp_path):
    other = read_torch(train(SMALL, 6, tmp_path, TINY))
    assert any(not torch.equal(value, other[name]) for name, value in read_torch(trained[1]).items())


def test_a_training_that_ended_is_not_repeated(trained, tmp_path):
    folder = copied(trained[0], tmp_path, CHECKPOINT_FILE, ENCODER_FILE)
    assert train(SMALL, 5, folder, TINY) == folder / ENCODER_FILE
    assert not (folder / VIEWS_FOLDER).exists()


def test_the_checkpoint_of_another_configuration_is_refused(trained, tmp_path):
    folder = copied(trained[0], tmp_path, VIEWS_FOLDER, CHECKPOINT_FILE)
    other = SMALL.model_copy(update={"learning_rate": 2e-3})
    with pytest.raises(InputError, match=r"checkpoint\.pt: a checkpoint of another configuration") as caught:
        train(other, 5, folder, TINY)
    assert "\n" not in str(caught.value)
    assert (folder / CHECKPOINT_FILE).read_bytes() == (trained[0] / CHECKPOINT_FILE).read_bytes()


def test_what_only_the_report_sees_is_no_other_configuration(trained, tmp_path):
    folder = copied(trained[0], tmp_path, CHECKPOINT_FILE, ENCODER_FILE)
    assert train(SMALL.model_copy(update={"test_count": 9, "checkpoint_every": 1}), 5, folder, TINY)


def test_a_loss_that_is_not_finite_names_the_batch_and_the_checkpoint(trained, tmp_path):
    folder = copied(trained[0], tmp_path, VIEWS_FOLDER)
    interrupted(folder, 3)
    checkpoint = (folder / CHECKPOINT_FILE).read_bytes()
    bad = int(batch_of(SMALL, 5, 2).indices[0])
    file = folder / VIEWS_FOLDER / "00000-labels.npy"
    labels = np.load(file)
    labels[bad] = np.nan
    np.save(file, labels)
    with pytest.raises(LossError, match=rf"loss nan, .* in batch 2 \(views .*{bad}.*\).*checkpoint\.pt of step 2$"):
        train(SMALL, 5, folder, TINY)
    assert (folder / CHECKPOINT_FILE).read_bytes() == checkpoint


def test_a_gradient_that_is_not_finite_changes_no_checkpoint(trained, tmp_path, monkeypatch):
    folder = copied(trained[0], tmp_path, VIEWS_FOLDER)
    monkeypatch.setattr(training.nn.utils, "clip_grad_norm_", lambda *_: torch.tensor(float("inf")))
    with pytest.raises(LossError, match=r"gradient inf in batch 0 .* there is no checkpoint yet"):
        train(SMALL, 5, folder, TINY)
    assert not (folder / CHECKPOINT_FILE).exists()


@pytest.mark.parametrize("moment", [False, True])
def test_weights_or_moments_that_are_not_finite_change_no_checkpoint(trained, tmp_path, monkeypatch, moment):
    folder = copied(trained[0], tmp_path, VIEWS_FOLDER)
    interrupted(folder, 3)
    checkpoint = (folder / CHECKPOINT_FILE).read_bytes()
    step = torch.optim.AdamW.step

    @torch.no_grad()
    def overflowing(optimizer):
        step(optimizer)
        first = optimizer.param_groups[0]["params"][0]
        (optimizer.state[first]["exp_avg"] if moment else first).view(-1)[0] = torch.inf

    monkeypatch.setattr(torch.optim.AdamW, "step", overflowing)
    expected = "its optimizer, parameter 0: exp_avg" if moment else "its weights: rgb"
    with pytest.raises(InputError, match=rf"^encoder: after batch \d+: {expected}.*: 1 of .*checkpoint\.pt of step 2$"):
        train(SMALL.model_copy(update={"checkpoint_every": 1}), 5, folder, TINY)
    assert (folder / CHECKPOINT_FILE).read_bytes() == checkpoint


def test_a_small_encoder_learns_its_views(trained, tmp_path):
    folder = copied(trained[0], tmp_path, VIEWS_FOLDER)
    phases = (PhaseSection(shrink=4, epochs=60.0), PhaseSection(shrink=1, epochs=1.0))
    section = SMALL.model_copy(update={"phases": phases, "batch": 6, "learning_rate": 1e-2})
    losses: list[float] = []
    train(section, 5, folder, TINY, report=lambda step, total, metrics: losses.append(metrics.get("loss_ranges", 9.0)))
    assert steps_of(section) == 61
    assert np.mean(losses[-11:-1]) < 0.6 * np.mean(losses[1:6])


def test_the_loss_is_that_of_the_logarithm():
    labels = torch.full((2, 45), 2.0)
    predicted = labels.log()
    predicted[0, :44] += 0.3
    predicted[1, 44] -= 0.05
    ranges, way = loss_of(SMALL, predicted, labels)
    assert ranges.item() == pytest.approx((0.3 - SMALL.huber / 2) / 2)
    assert way.item() == pytest.approx(0.05**2 / (2 * SMALL.huber) / 2)


def test_a_new_predictor_says_what_is_usual():
    usual = np.linspace(0.0, 1.0, 45, dtype=np.float32)
    predicted = Predictor(TINY, 0, usual).eval()(torch.zeros(2, 3, 36, 64))
    np.testing.assert_array_equal(predicted.detach().numpy(), np.stack([usual, usual]))


def test_a_folder_is_one_trainings_at_a_time(tmp_path):
    with alone_in(tmp_path), pytest.raises(InputError, match="another training is writing it"):
        train(SMALL, 5, tmp_path, TINY)
    assert not (tmp_path / VIEWS_FOLDER).exists()
