"""Training: a hybrid learns what its plant does not know, what it exports is what it learned, and it resumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch

from calib.learned.evaluation import learned_motion, path_of, plant_motion, rmse_m
from calib.learned.networks import Roller, material_of
from calib.learned.onnx_export import export_onnx
from calib.learned.training import Recipe, Training, chamfer, offsets_of, training_of
from hil.physics.motion.learned import MODELS, STATE, advance_learned
from onboard.values.errors import InputError
from tests.calib.learned.small_drive import plant, series

SMALL = Recipe(max_length=64, steps=20, batch=32)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Keep PyTorch's threads from waiting for each other on a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def training(model: str = "hybrid-dynamic", recipe: Recipe = SMALL, transform: str = "egocentric") -> Training:
    one = series()
    spans = [one.spans(a, b) for a, b in ((0.0, 0.6), (0.6, 0.7))]
    return training_of(one, plant(), *spans, recipe, "data", model, transform)


def test_linear_at_length_1_is_as_good_as_closed_form_least_squares() -> None:
    """Within 2 % at one step, on rows that were not learned from."""
    one = series()
    material, done = material_of(one, plant()), training("linear", Recipe(max_length=1))
    rows = np.arange(*one.spans(0.0, 0.6)[0])
    inputs = np.column_stack([material.features("linear"), np.ones(len(one))])
    best, *_ = np.linalg.lstsq(inputs[rows[:-1]], one.relative(rows[:-1], np.array([1]))[:, 0], rcond=None)
    held_out = one.spans(0.7, 1.0)
    learned = rmse_m(one, learned_motion(one, done.run()), held_out, (1,))[1]
    assert learned <= 1.02 * rmse_m(one, inputs @ best, held_out, (1,))[1]


@pytest.mark.timeout(600)
def test_the_hybrid_learns_the_slip() -> None:
    one = series()
    held_out = one.spans(0.7, 1.0)
    found = training(recipe=replace(SMALL, max_length=512 // 2, steps=60)).run()
    ours = rmse_m(one, learned_motion(one, found), held_out, (64, 512))
    plain = rmse_m(one, plant_motion(one, plant()), held_out, (64, 512))
    assert ours[64] < 0.8 * plain[64]
    assert ours[512] < 0.5 * plain[512]


@pytest.mark.parametrize("model", MODELS)
def test_what_is_exported_is_what_was_learned(model: str) -> None:
    """The compiled step after batch normalisation was folded, against PyTorch's roll-outs."""
    done = training(model)
    found = done.run()
    one, starts, offsets = series(), np.array([700, 1500, 2600]), np.array([1, 8, 64])
    path = path_of(learned_motion(one, found))
    away = path[starts[:, None] + offsets] - path[starts][:, None]
    turn = -path[starts][:, None, 2]
    c, s = np.cos(turn), np.sin(turn)
    x, y = c * away[..., 0] - s * away[..., 1], s * away[..., 0] + c * away[..., 1]
    with torch.no_grad():
        roller = Roller(done.dynamics.eval(), material_of(one, plant()))
        for chosen in (slice(None), slice(0, 1)):  # windows side by side, and a window alone
            predicted = roller.poses(starts[chosen], offsets).numpy()
            np.testing.assert_allclose(predicted[..., 0], x[chosen], atol=2e-4)
            np.testing.assert_allclose(predicted[..., 1], y[chosen], atol=2e-4)
            np.testing.assert_allclose(predicted[..., 2], away[chosen][..., 2], atol=2e-4)
    assert np.abs(found.weights).max() > 0.0


@pytest.mark.parametrize("model", MODELS)
def test_onnx_steps_as_the_simulator_does(tmp_path: Path, model: str) -> None:
    found = training(model).run()
    file = tmp_path / "step.onnx"
    export_onnx(found, file)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    memory, state = found.memory(), np.zeros(STATE)
    nominal, held = np.zeros((1, STATE), np.float32), np.zeros((1, STATE), np.float32)
    for v, w in np.random.default_rng(2).uniform(-0.5, 0.8, (30, 2)):
        motion = advance_learned(
            found.kind, found.numbers(), found.weights, found.sizes, memory, state, v, w, found.period_s
        )
        commands = memory[STATE:].reshape(1, -1, 2).astype(np.float32)
        given = {"commands": commands, "nominal": nominal, "state": held}
        used = [input_.name for input_ in session.get_inputs()]  # the exporter leaves out what a model does not use
        theirs, nominal, held = session.run(None, {name: given[name] for name in used})
        np.testing.assert_allclose(theirs[0], motion, atol=1e-5)


class KilledError(Exception):
    """The training was ended from outside."""


def test_a_killed_training_resumes_to_the_same_model(tmp_path: Path) -> None:
    file, whole = tmp_path / "training.npz", training().run()
    looks = []

    def reported(one: Training) -> None:
        looks.append(one.steps_done)
        if len(looks) == 3:
            raise KilledError

    with pytest.raises(KilledError):
        training().run(file, reported)
    again = training()
    again.resume(file)
    assert again.steps_done == looks[-1] > 20, "in the second stage"
    np.testing.assert_array_equal(again.run(file).weights, whole.weights)


OTHERS = [
    ({"model": "mlp"}, "a checkpoint of another architecture: model is hybrid-dynamic, mlp is asked for"),
    ({"recipe": replace(SMALL, loss="mse")}, "another recipe: loss is gapped, mse is asked for"),
]


@pytest.mark.parametrize(("changed", "expected"), OTHERS)
def test_another_checkpoint_is_refused(tmp_path: Path, changed, expected) -> None:
    file = tmp_path / "training.npz"
    training().save(file)
    with pytest.raises(InputError, match=expected) as refused:
        training(**changed).resume(file)
    assert "\n" not in str(refused.value)


def test_a_checkpoint_that_is_not_finite_is_refused(tmp_path: Path) -> None:
    file, done = tmp_path / "training.npz", training()
    with torch.no_grad():
        next(done.dynamics.parameters())[0, 0] = torch.nan
    done.save(file)
    with pytest.raises(InputError, match="damaged checkpoint: weights"):
        training().resume(file)


def test_roll_outs_longer_than_the_data_are_refused() -> None:
    with pytest.raises(InputError, match="--max-length 4096: training and validation rows allow at most 399 steps"):
        training(recipe=Recipe())


# ---- The losses of paper 3 against their plain definitions

RNG = np.random.default_rng(5)
P, Q = (torch.from_numpy(RNG.normal(size=(4, 12, 3))) for _ in range(2))


@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("neighbours", [0, 2, 20])
def test_chamfer_is_the_mean_distance_to_the_nearest_neighbour(alpha: float, neighbours: int) -> None:
    squared = ((Q[:, :, None] - P[:, None]) ** 2).sum(-1)
    away = torch.arange(12)[:, None] - torch.arange(12)
    squared = torch.where(away.abs() <= neighbours, squared, torch.inf)
    expected = (1.0 - alpha) * squared.amin(2).mean() + alpha * squared.amin(1).mean()
    assert float(chamfer(P, Q, alpha, neighbours)) == pytest.approx(float(expected))


@pytest.mark.parametrize(
    ("loss", "length", "gap", "offsets"),
    [
        ("mse", 5, None, [1, 2, 3, 4, 5]),
        ("gapped", 5, 2, [1, 3, 5]),
        ("gapped", 5, 100, [5]),
        ("gapped", 3, None, [1, 2, 3]),
        ("chamfer", 256, None, list(range(4, 257, 4))),
    ],
)
def test_which_steps_count(loss, length, gap, offsets) -> None:
    assert offsets_of(loss, length, gap).tolist() == offsets
