"""Intervals of shares over episodes with several draws, and of differences of rates on the same episodes."""

from __future__ import annotations

import numpy as np
import pytest

from hil.evaluate.metrics import paired_rates, wilson, wilson_of_shares
from hil.evaluate.upper_bound.upper_bound import EndErrors, ceiling_of

NEAR, FAR = EndErrors(0.1, 0.1, 0.1), EndErrors(0.5, 0.5, 0.5)

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


def test_a_ceiling_that_never_fails_is_not_sure():
    found = ceiling_of([[NEAR] * 4] * 50)
    assert found.ideal == 1.0
    assert found.ideal_ci95 == pytest.approx(wilson(50, 50))
    mixed = ceiling_of([[NEAR] * 4] * 49 + [[FAR] * 4])
    assert mixed.own_ci95[0] < mixed.own < mixed.own_ci95[1] < 1.0


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
