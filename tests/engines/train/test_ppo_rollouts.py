"""The reward is the paper's, and the advantages are those of the definition."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.train.ppo_config import RewardSection
from engines.train.ppo_rollouts import Progress, advantages, progress, reward

#   what happened                before             after              reached  expected
REWARDS = [
    ("nothing",                  Progress(4.0, 0),  Progress(4.0, 0),  False, -0.01),
    ("0.3 m nearer",             Progress(4.0, 0),  Progress(3.7, 0),  False, 0.29),
    ("0.3 m farther",            Progress(4.0, 0),  Progress(4.3, 0),  False, -0.31),
    ("two more contacts",        Progress(4.0, 1),  Progress(4.0, 3),  False, -0.21),
    ("arrived",                  Progress(0.1, 0),  Progress(0.05, 0), True,  2.54),
    ("stopped somewhere else",   Progress(4.0, 0),  Progress(4.0, 0),  False, -0.01),
    ("no way was ever known",    Progress(inf, 0),  Progress(3.0, 0),  False, -0.01),
    ("and still is not",         Progress(inf, 0),  Progress(inf, 0),  False, -0.01),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after", "reached", "expected"), [row[1:] for row in REWARDS], ids=[r[0] for r in REWARDS]
)
def test_reward(before, after, reached, expected):
    assert reward(RewardSection(), before, after, reached) == pytest.approx(expected)


def test_off_the_field_the_last_known_way_is_held():
    ways = [3.0, inf, inf, 2.5]
    current, earned = progress(ways[0], 0), []
    for way in ways[1:]:
        after = progress(way, 0, current)
        earned.append(reward(RewardSection(step=0.0), current, after, False))
        current = after
    assert earned == [0.0, 0.0, 0.5]


def plainly(rewards, values, last, discount, trace, t=0):
    """Return the advantage of decision t by its definition: the sum of all later surprises of the same drive."""
    total, weight = 0.0, 1.0
    for k in range(t, len(rewards)):
        coming = 0.0 if last[k] else values[k + 1]
        total += weight * (rewards[k] + discount * coming - values[k])
        if last[k]:
            break
        weight *= discount * trace
    return total


NUMBERS = st.floats(-5.0, 5.0)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), min_size=1, max_size=12),
    NUMBERS,
    st.floats(0.0, 1.0),
    st.floats(0.0, 1.0),
)
def test_advantages_are_those_of_the_definition(steps, after, discount, trace):
    rewards, values, last = (np.array(column) for column in zip(*steps, strict=True))
    values = np.append(values, after)
    expected = [plainly(rewards, values, last, discount, trace, t) for t in range(len(rewards))]
    np.testing.assert_allclose(advantages(rewards, values, last, discount, trace), expected, atol=1e-9)


def test_nothing_of_the_next_drive_counts():
    last = np.array([False, True, False])
    values = np.array([0.5, 0.2, 0.1, 0.7])
    one = advantages(np.array([1.0, 2.0, 3.0]), values, last, 0.99, 0.95)
    other = advantages(np.array([1.0, 2.0, -9.0]), values * [1, 1, 4, -3], last, 0.99, 0.95)
    assert one[:2] == pytest.approx(other[:2])
    assert one[2] != pytest.approx(other[2])
