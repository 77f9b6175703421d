"""The committed checkpoints: all that the page needs is there, small, and read by the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from calib.__main__ import app
from calib.learned.evaluation import posed_rmse_m, rmse_m
from calib.learned.experiment import CHECKPOINTS, checkpoint_file, husky_data, load_experiment, trained_lengths
from calib.learned.report import chart, curves_of, error_table, errors_of, shown_of
from hil.physics.motion.learned import MODELS, read_learned
from onboard.config.plant_model import load_plant
from onboard.values.errors import InputError
from tests.calib.learned.small_drive import series
from tests.rigs.learned_models import random_model

HUSKY = Path(__file__).parents[2] / "data" / "husky-steps"
TABLE = load_experiment()


def test_they_are_small() -> None:
    assert sum(file.stat().st_size for file in CHECKPOINTS.rglob("*") if file.is_file()) < 1 << 20


@pytest.mark.parametrize("data", ["hidden", "husky"])
def test_each_model_of_the_table_is_there(data: str) -> None:
    row = TABLE.hidden if data == "hidden" else TABLE.husky
    load_plant(CHECKPOINTS / data / "plant.toml")
    for model in MODELS:
        for length in trained_lengths(TABLE, row.max_length):
            assert len(read_learned(checkpoint_file(CHECKPOINTS, data, model, length), model).weights) > 0
    assert set(curves_of(data, CHECKPOINTS)["cpu_s"]) >= set(MODELS)


def test_the_hybrid_predicts_the_husky_better_than_its_plant() -> None:
    errors = errors_of(TABLE, husky_data(TABLE, HUSKY), CHECKPOINTS)["models"]
    assert list(errors["identified plant"]) == [1, 8, 39]
    assert errors["hybrid-dynamic 39"][39] < 0.8 * errors["identified plant"][39]
    assert "hybrid-dynamic 39" in error_table(errors, "model")
    assert len(chart(errors).axes[0].get_lines()) == 7


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


SHORT = {1: 0.01, 512: 0.1, 4096: 0.2, 32768: 0.3}


def test_what_is_shown_follows_the_figures() -> None:
    models = {name: dict.fromkeys(SHORT, 1.0) for name in ("identified plant", "mlp 4096")}
    models["hybrid-dynamic 4096"] = SHORT
    frames = {
        name: dict.fromkeys(SHORT, value) for name, value in (("egocentric", 1), ("translational", 2), ("none", 3))
    }
    assert [yes for yes, _ in shown_of(TABLE, {"models": models, "transforms": frames}).values()] == [True, True, True]
    models["mlp 4096"] = {**SHORT, 4096: 0.1}
    models["hybrid-dynamic 4096"] = {**SHORT, 32768: 0.7}
    frames["none"] = dict.fromkeys(SHORT, 1.5)
    assert [yes for yes, _ in shown_of(TABLE, {"models": models, "transforms": frames}).values()] == [False] * 3


def test_another_folder_is_named(tmp_path) -> None:
    done = CliRunner().invoke(app, ["learned-gap", "--husky", str(HUSKY), "--experiment", str(tmp_path / "none.toml")])
    assert "none.toml" in str(done.exception)
    (tmp_path / "steps.csv").write_bytes((HUSKY / "steps.csv").read_bytes())
    with pytest.raises(InputError, match=r"poses.csv"):
        husky_data(TABLE, tmp_path)
