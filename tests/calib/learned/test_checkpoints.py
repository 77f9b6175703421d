"""The committed checkpoints: all that the page needs is there, small, and read by the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from calib.learned.evaluation import posed_rmse_m, rmse_m
from calib.learned.experiment import CHECKPOINTS, husky_data, load_experiment, pack_file, read_pack
from calib.learned.report import Found, chart, claims_of, error_table, found_of
from calib.learned.train_all import tasks_of
from calib.learned.training import lengths_of
from hil.physics.motion.learned import write_arrays
from onboard.commands.cli import svg_text
from onboard.config.plant_model import load_plant
from onboard.values.errors import InputError
from tests.calib.learned.small_drive import series
from tests.rigs.learned_models import random_model

HUSKY = Path(__file__).parents[2] / "data" / "husky-steps"
TABLE = load_experiment()


@pytest.mark.parametrize("data", ["hidden", "husky"])
def test_each_model_of_the_tables_is_there(data: str) -> None:
    for name in ("plant", "posed"):
        load_plant(CHECKPOINTS / f"{data}-{name}.toml")
    for seed in TABLE.seeds:
        trainings, models = read_pack(pack_file(CHECKPOINTS, data, seed))
        for task in tasks_of(TABLE, data, seed):
            assert len(trainings[task.name]["patient"]) == len(lengths_of(task.recipe.max_length))
            assert all(len(models[f"{task.name} {length}"].weights) for length in task.kept)


def test_the_hybrid_predicts_the_husky_better_than_its_plant() -> None:
    errors = found_of(TABLE, husky_data(TABLE, HUSKY), CHECKPOINTS).models
    assert list(errors["identified plant"]) == [1, 8, 39]
    assert np.mean(errors["hybrid-dynamic 39"][39]) < 0.8 * errors["identified plant"][39][0]
    assert "hybrid-dynamic 39" in error_table(errors, "model")
    assert svg_text(chart(errors)).startswith("<")


def test_a_damaged_pack_is_one_line(tmp_path) -> None:
    file = tmp_path / "hidden-1.npz"
    write_arrays(file, {"trainings": {}, "models": {"mlp 1": {}}}, {})
    with pytest.raises(InputError, match="not a pack of") as refused:
        read_pack(file)
    assert "\n" not in str(refused.value)


def test_steps_are_held_out_whole() -> None:
    data = husky_data(TABLE, HUSKY)
    starts = {name: {int(a) for a, _ in getattr(data, name)} for name in ("train", "validation", "test")}
    assert sum(map(len, starts.values())) == len(data.series.first) - 1 == 603
    assert not starts["train"] & starts["test"]


def test_a_perfect_model_has_no_error_and_a_posed_one_is_rolled_out() -> None:
    one = series(600)
    spans = one.spans(0.0, 1.0)
    still = np.zeros((len(one), 3))
    far = rmse_m(one, still, spans, (1, 64))
    assert 0.0 < far[1] < far[64]
    posed = random_model("linear", transform="none", scale=0.0)
    assert posed_rmse_m(one, posed, spans, (1, 64)) == pytest.approx(far)


SHORT = {1: [0.01], 512: [0.1], 4096: [0.2], 32768: [0.3, 0.5]}
CURVES = [{"loss-mse": {"curve": [(1, 1, 9.0), (64, 5, 2.0), (64, 9, 1.0)]},
           "loss-chamfer-3": {"curve": [(64, 5, 1.05)]}}]  # fmt: skip


def test_a_claim_holds_or_not_by_the_figures() -> None:
    models = {name: {key: [1.0] for key in SHORT} for name in ("plant fitted to poses", "mlp 4096")}
    models["hybrid-kinematic 4096"] = {key: [2.0] for key in SHORT}
    models["hybrid-dynamic 4096"] = SHORT
    frames = {name: {key: [value] for key in SHORT} for name, value in
              (("egocentric", 1), ("translational", 2), ("none", 3))}  # fmt: skip
    found = Found(models, frames, {"mse": {}, "chamfer-3": {}}, CURVES)
    claims = claims_of(TABLE, found)
    assert [yes for yes, _ in claims.values()] == [True] * 5
    assert "0.40 ± 0.14" in {figure for _, figure in claims.values()}
    models["mlp 4096"] = {**SHORT, 4096: [0.1]}
    models["hybrid-dynamic 4096"] = {**SHORT, 32768: [0.7]}
    models["hybrid-kinematic 4096"] = {key: [0.9] for key in SHORT}
    frames["none"] = {key: [1.5] for key in SHORT}
    slow = [{**CURVES[0], "loss-chamfer-3": {"curve": [(64, 5, 1.2)]}}]
    other = claims_of(TABLE, Found(models, frames, {"mse": {}, "chamfer-3": {}}, slow))
    assert [yes for yes, _ in other.values()] == [False] * 5
