"""Learned dynamics at simulation speed: equal to their plain definition, and files that do not fit are refused."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hil.physics.motion.learned import MODELS, LearnedModel, advance_learned, model_arrays, read_learned, write_arrays
from hil.physics.motion.motion_model import memory_of, motion_of
from hil.physics.simulated_base import STEP_NS, base_at, send_command, step_base
from onboard.config.plant_model import MotionTable, load_plant, step_axis
from onboard.config.toml_text import as_toml
from onboard.values.errors import InputError
from onboard.values.messages import Pose, Twist
from tests.rigs.learned_models import LAGS, PLANT, learned_plant, random_model

STEPS = 90


def plain(model: LearnedModel, commands: np.ndarray) -> np.ndarray:
    """Return (n, 3) the motions, by numpy and lists: the definition."""
    h, late = model.period_s, model.delay_s / model.period_s
    padded = np.concatenate([np.zeros((LAGS + 2, 2)), commands])
    nominal, state, motions = np.zeros(4), np.zeros(4), []
    for now in range(LAGS + 2, len(padded)):
        share = late - math.floor(late)
        command = (1.0 - share) * padded[now - math.floor(late)] + share * padded[now - math.floor(late) - 1]
        x = padded[now - LAGS : now + 1][::-1].ravel()
        nominal = stepped(command, nominal, model, h)
        if model.model == "hybrid-dynamic":
            state = stepped(command + network(model, np.concatenate([x, nominal])), state, model, h)
            motions.append(moved(state, h))
        elif model.model == "hybrid-kinematic":
            motions.append(network(model, np.concatenate([x, moved(nominal, h)])))
        else:
            motions.append(network(model, x))
    return np.array(motions)


def moved(state: np.ndarray, h: float) -> np.ndarray:
    turned = h * state[1]
    return np.array([h * state[0] * math.cos(turned), h * state[0] * math.sin(turned), turned])


def stepped(command: np.ndarray, state: np.ndarray, model: LearnedModel, h: float) -> np.ndarray:
    v, dv = step_axis(command[0], state[0], state[2], model.linear, h)
    w, dw = step_axis(command[1], state[1], state[3], model.angular, h)
    return np.array([v, w, dv, dw])


def network(model: LearnedModel, x: np.ndarray) -> np.ndarray:
    at = 0
    for layer, (rows, columns) in enumerate(zip(model.sizes[:-1], model.sizes[1:], strict=True)):
        matrix = model.weights[at : at + rows * columns].reshape(rows, columns)
        at += rows * columns
        x = x @ matrix + model.weights[at : at + columns]
        at += columns
        if layer < len(model.sizes) - 2:
            x = np.maximum(x, 0.0)
    return x


@pytest.mark.parametrize("name", MODELS)
def test_the_kernel_equals_its_definition(name: str) -> None:
    model = random_model(name)
    commands = np.random.default_rng(1).uniform(-1.0, 1.0, (STEPS, 2))
    memory, state, numbers = model.memory(), np.zeros(4), model.numbers()
    found = [
        advance_learned(model.kind, numbers, model.weights, model.sizes, memory, state, v, w, model.period_s)
        for v, w in commands
    ]
    np.testing.assert_allclose(found, plain(model, commands), rtol=0.0, atol=1e-12)
    assert np.abs(found).max() > 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_a_simulated_tick_is_two_steps_of_the_model(tmp_path, name: str) -> None:
    plant = learned_plant(tmp_path, name)
    state = base_at(Pose(1.0, 2.0, 0.5))
    model, memory, rates = motion_of(plant), memory_of(plant), np.zeros(4)
    x, y, yaw = 1.0, 2.0, 0.5
    for tick in range(30):
        state = send_command(state, Twist(0.6, 1.0), tick * STEP_NS, plant)
        state = step_base(state, tick * STEP_NS, plant)
        for _ in range(2):
            dx, dy, turned = advance_learned(
                model.kind, model.numbers, model.weights, model.sizes, memory, rates, 0.6, 1.0, 1.0 / 60.0
            )
            x, y = x + math.cos(yaw) * dx - math.sin(yaw) * dy, y + math.sin(yaw) * dx + math.cos(yaw) * dy
            yaw += turned
    pose = state.motion.pose
    np.testing.assert_allclose(
        (pose.x_m, pose.y_m, math.remainder(yaw - pose.yaw_rad, 2 * math.pi)), (x, y, 0), atol=1e-9
    )


def test_a_plant_names_its_model_in_its_own_folder(tmp_path) -> None:
    plant = learned_plant(tmp_path, "mlp")
    relative = plant.model_copy(update={"motion": MotionTable(model="mlp", file="mlp.npz")})
    (tmp_path / "plant.toml").write_text(as_toml(relative, ""))
    assert load_plant(tmp_path / "plant.toml") == plant


# what is changed, what the message says
BAD = [
    ({"model": "quartic"}, "model 'quartic', must be one of linear"),
    ({"model": "linear"}, "holds a linear, but mlp is expected"),
    ({"transform": "polar"}, "transform 'polar'"),
    ({"period_s": 0.0}, "period_s"),
    ({"lags": 3}, "26 inputs and 3 outputs, a mlp has 8, 3"),
    ({"weights": np.zeros(5)}, "5 weights, its layers have"),
    ({"linear": np.full(7, np.nan)}, "linear: not all numbers are finite"),
]


@pytest.mark.parametrize(("changed", "expected"), BAD)
def test_a_file_that_does_not_fit_is_refused(tmp_path, changed, expected) -> None:
    file = tmp_path / "model.npz"
    write_arrays(file, *model_arrays(replace(random_model("mlp"), **changed)))
    with pytest.raises(InputError, match=expected) as refused:
        read_learned(file, "mlp")
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("content", [b"", b"weights", b"PK\x03\x04 torn"])
def test_another_file_is_refused(tmp_path, content) -> None:
    file = tmp_path / "model.npz"
    file.write_bytes(content)
    with pytest.raises(InputError, match="not a model of"):
        read_learned(file)


def test_the_base_takes_no_model_of_another_rate_or_transform(tmp_path) -> None:
    for name, changed, expected in (
        ("slow", {"period_s": 0.05}, "must be a whole number of it"),
        ("posed", {"transform": "none"}, "transform is none"),
    ):
        file = tmp_path / f"{name}.npz"
        write_arrays(file, *model_arrays(replace(random_model("linear"), **changed)))
        with pytest.raises(InputError, match=expected):
            motion_of(PLANT.model_copy(update={"motion": MotionTable(model="linear", file=str(file))}))
    with pytest.raises(InputError, match=r"motion.file: missing"):
        motion_of(PLANT.model_copy(update={"motion": MotionTable(model="linear")}))
