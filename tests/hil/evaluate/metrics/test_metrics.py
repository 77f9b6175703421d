"""Figures of many episodes: by hand, and their intervals against SciPy's."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from hil.evaluate.metrics import (
    bootstrap,
    paired_rates,
    summarise,
    summarise_by,
    wilson,
    wilson_of_shares,
)
from tests.rigs.evaluate_rows import row

ROWS = [
    row(0),  # 10 m, all straight, in twice the fastest time
    row(1, path_m=12.5, straight_m=8.0, contacts=2, min_clearance_m=0.0, ended="stop"),
    row(2, success=False, ended="time", time_s=100.0, path_m=40.0, straight_m=8.0, min_clearance_m=0.1),
    row(3, success=False, ended="stop", path_m=7.5, contacts=1, min_clearance_m=math.inf, map="willow", split="test"),
]


def test_drives_of_an_episode_that_agree_say_no_more_than_one() -> None:
    """Three drives of each episode that end alike: the same figures, and the same intervals over episodes."""
    once, thrice = summarise(ROWS), summarise(ROWS * 3)
    assert (thrice.episodes, thrice.success_rate, thrice.spl) == (12, once.success_rate, pytest.approx(once.spl))
    for name, interval in once.ci95.items():
        assert thrice.ci95[name] == pytest.approx(interval), name


def test_drives_of_an_episode_that_differ_say_more_than_one_but_less_than_episodes() -> None:
    rng = np.random.default_rng(4)
    drives = [[row(i, success=bool(rng.random() < 0.6)) for _ in range(3)] for i in range(40)]
    by_drive = [one for three in drives for one in three]
    low, high = summarise(by_drive).ci95["success_rate"]
    as_episodes = wilson(sum(one.success for one in by_drive), 120)
    narrow, wide = as_episodes[1] - as_episodes[0], np.diff(wilson(24, 40))[0]
    assert narrow - 1e-9 <= high - low < wide


def test_by_hand() -> None:
    summary = summarise(ROWS)
    assert summary.episodes == 4
    assert summary.success_rate == 0.5
    assert summary.spl == pytest.approx((1.0 + 0.8) / 4.0)
    assert summary.sct == pytest.approx((0.5 + 0.5) / 4.0)
    assert summary.contacts_per_episode == 0.75
    assert summary.contacts_per_m == pytest.approx(3.0 / 70.0)
    assert (summary.episodes_with_contact, summary.successes_without_contact, summary.time_outs) == (2, 1, 1)
    assert summary.ends == {"stop": 3, "time": 1}
    assert summary.min_clearance_m == {"min": 0.0, "p5": pytest.approx(0.01), "median": pytest.approx(0.1)}
    # 10 / 8 is above 1.15: two episodes, of which one arrived.
    assert (summary.hard_episodes, summary.hard_share, summary.hard_success_rate) == (2, 0.5, 0.5)


def test_by_map_and_split() -> None:
    by_map, by_split = summarise_by("map", ROWS), summarise_by("split", ROWS)
    assert [(name, one.episodes) for name, one in by_map.items()] == [("gdc1", 3), ("willow", 1)]
    assert [(name, one.success_rate) for name, one in by_split.items()] == [
        ("train", pytest.approx(2 / 3)),
        ("test", 0),
    ]


def test_of_no_episode_nothing_is_claimed() -> None:
    summary = summarise([])
    assert (summary.episodes, summary.success_rate, summary.spl, summary.min_clearance_m) == (0, None, None, None)
    assert summary.ci95 == {}
    json.dumps(summary.as_json(), allow_nan=False)


def test_no_contact_is_not_taken_for_never() -> None:
    rows = [row(index, path_m=10.0) for index in range(20)]
    most = stats.chi2.ppf(0.975, 2) / 2.0  # the exact bound of a Poisson count of nothing
    assert summarise(rows).ci95["contacts_per_episode"] == pytest.approx((0.0, most / 20.0))
    assert summarise(rows).ci95["contacts_per_m"] == pytest.approx((0.0, most / 200.0))


@given(n=st.integers(1, 3000), part=st.floats(0.0, 1.0))
def test_wilson_is_scipys(n: int, part: float) -> None:
    successes = round(part * n)
    theirs = stats.binomtest(successes, n).proportion_ci(confidence_level=0.95, method="wilson")
    assert wilson(successes, n) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


@pytest.mark.parametrize(("successes", "low", "high"), [(0, 0.0, None), (7, None, 1.0)])
def test_wilson_at_the_ends_is_exact(successes: int, low: float | None, high: float | None) -> None:
    found = wilson(successes, 7)
    assert found is not None
    assert low in (None, found[0])
    assert high in (None, found[1])
    assert 0.0 <= found[0] < found[1] <= 1.0


def mean(samples):
    return samples[0].mean(axis=1)


def test_bootstrap_is_scipys_within_its_own_scatter() -> None:
    sample = np.random.default_rng(5).gamma(2.0, 1.0, 200)
    ours = bootstrap(mean, (sample,), seed=1, resamples=20_000)
    theirs = stats.bootstrap(
        (sample,), np.mean, n_resamples=20_000, method="percentile", rng=np.random.default_rng(2)
    ).confidence_interval
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.05 * sample.std(ddof=1) / math.sqrt(len(sample)) * 2)


def test_bootstrap_of_a_ratio_is_scipys() -> None:
    rng = np.random.default_rng(6)
    path_m = rng.uniform(2.0, 15.0, 150)
    contacts = rng.poisson(0.05 * path_m).astype(float)
    rows = [row(index, path_m=path_m[index], contacts=int(contacts[index])) for index in range(len(path_m))]
    theirs = stats.bootstrap(
        (contacts, path_m),
        lambda above, below, axis=-1: above.sum(axis=axis) / below.sum(axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    assert summarise(rows).ci95["contacts_per_m"] == pytest.approx((theirs.low, theirs.high), rel=0.05)


# ---- Intervals of shares over episodes with several draws, and of differences of rates on the same episodes


def test_of_nothing_there_is_no_interval():
    assert wilson_of_shares(np.array([]), 0) is None
    assert paired_rates(0, 0, 0) is None


@pytest.mark.parametrize("alike", [0.0, 0.6])
def test_the_interval_of_shares_holds_the_truth_as_often_as_it_says(alike):
    """Of 50 episodes with 4 draws; in some of them a share of the episodes is the same in all draws."""
    rng, episodes, draws, truth, held = np.random.default_rng(1), 50, 4, 0.9, 0
    for _ in range(400):
        own = rng.random((episodes, draws)) < truth
        first = rng.random(episodes) < alike
        own[first] = own[first, :1]
        low, high = wilson_of_shares(own.mean(axis=1), own.size)
        held += low <= truth <= high
    assert held >= 0.93 * 400


#    better, worse, of    interval, by the formula of the paper with half an episode more in each of four cells
RATES = [
    (0, 0, 50, (-0.0377, 0.0377)),
    (10, 0, 20, (0.2282, 0.6809)),
    (0, 10, 20, (-0.6809, -0.2282)),
    (0, 50, 50, (-1.0, -0.8971)),
]


def test_the_interval_of_a_difference_holds_the_truth_as_often_as_it_says():
    rng, episodes, held = np.random.default_rng(2), 50, 0
    for _ in range(1000):
        _, better, worse = rng.multinomial(episodes, (0.86, 0.02, 0.12))
        low, high = paired_rates(int(better), int(worse), episodes)
        held += low <= 0.02 - 0.12 <= high
    assert held >= 0.93 * 1000
