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
    action_counts,
    bootstrap,
    paired_rates,
    summarise,
    summarise_by,
    wilson,
    wilson_of_shares,
)
from onboard.policy.contract import ACTIONS
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


def test_without_hard_episodes_their_rate_is_not_claimed() -> None:
    summary = summarise(ROWS[:1])
    assert (summary.hard_share, summary.hard_success_rate) == (0.0, None)
    assert "hard_success_rate" not in summary.ci95


def test_no_way_at_all_has_no_contacts_per_metre() -> None:
    summary = summarise([row(path_m=0.0, contacts=1)])
    assert summary.contacts_per_m is None
    assert "contacts_per_m" not in summary.ci95


def test_no_contact_is_not_taken_for_never() -> None:
    rows = [row(index, path_m=10.0) for index in range(20)]
    most = stats.chi2.ppf(0.975, 2) / 2.0  # the exact bound of a Poisson count of nothing
    assert summarise(rows).ci95["contacts_per_episode"] == pytest.approx((0.0, most / 20.0))
    assert summarise(rows).ci95["contacts_per_m"] == pytest.approx((0.0, most / 200.0))


def test_no_success_is_not_taken_for_never() -> None:
    found = summarise([row(index, success=False, ended="time") for index in range(10)]).ci95
    theirs = stats.binomtest(0, 10).proportion_ci(confidence_level=0.95, method="wilson")
    assert found["spl"] == found["sct"] == found["success_rate"] == pytest.approx((0.0, theirs.high))


def test_one_success_is_enough_for_a_bootstrap() -> None:
    found = summarise([row(index, success=index == 0) for index in range(10)]).ci95
    assert 0.0 == found["sct"][0] < found["sct"][1] < found["spl"][1] <= 0.5


def test_actions_are_added_up() -> None:
    one, two = tuple(range(len(ACTIONS))), tuple([1] * len(ACTIONS))
    assert action_counts([row(actions=one), row(actions=two)]) == tuple(count + 1 for count in one)


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


def test_wilson_of_nothing() -> None:
    assert wilson(0, 0) is None


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


@given(values=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=30), seed=st.integers(0, 9))
def test_bootstrap_is_repeatable_and_around_the_mean(values: list[float], seed: int) -> None:
    sample = np.array(values)
    low, high = bootstrap(mean, (sample,), seed, resamples=200)
    assert (low, high) == bootstrap(mean, (sample,), seed, resamples=200)
    assert sample.min() - 1e-9 <= low <= high <= sample.max() + 1e-9


def test_order_does_not_matter_to_the_figures() -> None:
    ahead, back = summarise(ROWS), summarise(ROWS[::-1])
    assert (ahead.success_rate, ahead.spl, ahead.contacts_per_m) == (back.success_rate, back.spl, back.contacts_per_m)


# ---- Intervals of shares over episodes with several draws, and of differences of rates on the same episodes

#    shares of each episode                draws of all   as many trials
WORTH = [
    ([1.0] * 50, 200, 50),  # nothing varies: the episodes
    ([0.0] * 50, 200, 50),
    ([0.5] * 50, 200, 50),
    ([0.25, 0.75] * 50, 400, 396),  # as little as draws that know nothing of each other do
    ([0.25, 0.25, 0.25, 0.25, 0.5] * 10, 200, 200),  # still less: never more than the draws
    ([0.0, 1.0] * 50, 400, 100),  # the draws of an episode are all alike: nothing is learnt from a second one
    ([1.0], 4, 1),
]


@pytest.mark.parametrize(("shares", "draws", "trials"), WORTH)
def test_draws_of_one_episode_count_as_far_as_they_differ(shares, draws, trials):
    found = wilson_of_shares(np.array(shares), draws)
    assert found == pytest.approx(wilson(np.mean(shares) * trials, trials))


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


@pytest.mark.parametrize(("better", "worse", "n", "interval"), RATES)
def test_the_difference_of_rates_has_a_width_also_where_all_agree(better, worse, n, interval):
    assert paired_rates(better, worse, n) == pytest.approx(interval, abs=1e-4)


def test_the_interval_of_a_difference_holds_the_truth_as_often_as_it_says():
    rng, episodes, held = np.random.default_rng(2), 50, 0
    for _ in range(1000):
        _, better, worse = rng.multinomial(episodes, (0.86, 0.02, 0.12))
        low, high = paired_rates(int(better), int(worse), episodes)
        held += low <= 0.02 - 0.12 <= high
    assert held >= 0.93 * 1000
