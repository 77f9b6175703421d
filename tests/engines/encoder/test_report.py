"""The encoder's report: errors computed by hand, and the predictors that do not look at the image."""

from __future__ import annotations

import json

import numpy as np
import pytest

from engines.encoder.report import errors_of, evaluate_encoder, load_predictor, report_views
from engines.encoder.training import ENCODER_FILE, HEAD_FILE, train_encoder
from engines.network.network import TINY
from onboard.values.errors import InputError
from tests.engines.encoder.encoder_rows import SMALL, copied


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    train_encoder(SMALL, 5, folder, TINY)
    return folder, evaluate_encoder(SMALL, 5, folder, TINY)


def test_errors_by_hand():
    true, predicted = np.full((2, 45), 2.0, np.float32), np.full((2, 45), 2.0, np.float32)
    true[1, :44], predicted[1, :44] = 10.0, 5.0
    predicted[:, 44] = 2.5, 1.0
    found = errors_of(predicted, true)
    assert found["ranges"] == {"count": 88, "median_relative": 0.25, "mean_relative": 0.25, "mean_m": 2.5}
    assert found["ranges_2_to_4_m"] == {"count": 44, "median_relative": 0.0, "mean_relative": 0.0, "mean_m": 0.0}
    assert found["ranges_beyond_10_m"]["median_relative"] == 0.5
    assert found["ranges_0_to_1_m"] == {"count": 0, "median_relative": None, "mean_relative": None, "mean_m": None}
    assert found["free_way"]["mean_m"] == 0.75


def test_every_range_is_in_one_class():
    true = np.random.default_rng(0).uniform(0.1, 10.0, (50, 45)).astype(np.float32)
    found = errors_of(true, true)
    assert sum(table["count"] for name, table in found.items() if name.startswith("ranges_")) == 50 * 44


def test_the_report_has_three_sorts_of_views_and_three_predictors(trained):
    result = trained[1]
    assert json.loads(json.dumps(result)) == result
    assert list(result) == ["unseen", "unseen_plain", "known"]
    for table in result.values():
        assert table["views"] == SMALL.test_count
        assert table["encoder"]["ranges"]["count"] == 44 * SMALL.test_count
        assert table["mean_of_bin"] != table["median_of_bin"]


def test_the_plain_predictors_are_those_of_the_training_views(trained):
    labels = np.load(trained[0] / "views" / "00000-labels.npy")
    plain = load_predictor(trained[0], 5, TINY)[1]
    np.testing.assert_allclose(plain.mean_m, labels.mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(plain.median_m, np.median(labels, axis=0))


def test_plain_views_are_exact_and_plain(trained):
    views = report_views(SMALL, 5, trained[0], 1)["unseen_plain"]
    assert len(np.unique(views.images([0]).reshape(-1, 3) // 32, axis=0)) < 40


def test_a_missing_or_wrong_head_is_refused_by_name(trained, tmp_path):
    folder = copied(trained[0], tmp_path, ENCODER_FILE)
    with pytest.raises(InputError, match=r"head\.pt: there is no such file"):
        load_predictor(folder, 5, TINY)
    (folder / HEAD_FILE).write_bytes((folder / ENCODER_FILE).read_bytes())
    with pytest.raises(InputError, match=r"head\.pt: not the head of this encoder: 'mean_m'"):
        load_predictor(folder, 5, TINY)
