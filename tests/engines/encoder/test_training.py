"""The encoder's training: learns, goes on where it ended to the same bits, and stops at what is not finite."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from engines.encoder.config import PhaseSection
from engines.encoder.schedule import batch_of, steps_of
from engines.encoder.training import (
    CHECKPOINT_FILE,
    ENCODER_FILE,
    HEAD_FILE,
    VIEWS_FOLDER,
    Checkpoint,
    LossError,
    Predictor,
    load_checkpoint,
    loss_of,
    save_checkpoint,
)
from engines.encoder.training import train_encoder as train
from engines.network.network import TINY
from engines.runs.torch_file import read_torch, write_torch
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


# ---- Checkpoints: whole or not there, read back as they were, and never mistaken

CHECKPOINT = Checkpoint("mine", 7, {"weight": torch.arange(3.0)}, {"state": {0: {"step": torch.tensor(7.0)}}})


def test_a_checkpoint_comes_back_as_it_was(tmp_path):
    file = tmp_path / "new" / "checkpoint.pt"
    assert load_checkpoint(file, "mine") is None
    save_checkpoint(file, CHECKPOINT)
    found = load_checkpoint(file, "mine")
    assert found is not None
    assert found.step == 7
    assert torch.equal(found.model["weight"], CHECKPOINT.model["weight"])
    assert found.optimizer["state"][0]["step"] == 7.0
    assert [path.name for path in file.parent.iterdir()] == ["checkpoint.pt"]


def test_another_training_s_checkpoint_is_refused_in_one_line(tmp_path):
    save_checkpoint(tmp_path / "checkpoint.pt", CHECKPOINT)
    with pytest.raises(InputError, match=r"checkpoint\.pt: a checkpoint of another configuration \(\w{12}, ") as caught:
        load_checkpoint(tmp_path / "checkpoint.pt", "yours")
    assert "\n" not in str(caught.value)


def test_a_file_of_something_else_is_refused(tmp_path):
    write_torch(tmp_path / "weights.pt", {"weight": torch.zeros(1)})
    with pytest.raises(InputError, match="not a checkpoint of the encoder's training"):
        load_checkpoint(tmp_path / "weights.pt", "mine")


def test_code_in_a_file_is_not_run(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("ran",))

    torch.save({"identity": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(InputError, match=r"trap\.pt: not a file by torch\.save"):
        read_torch(tmp_path / "trap.pt")
