"""The reward is the paper's, and the advantages are those of the definition."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.train.ppo_config import ReinforceSection, RewardSection
from engines.train.ppo_rollouts import (
    ADVANTAGE,
    LOG_PROBABILITY,
    REFERENCE,
    RETURN,
    Progress,
    RolloutBuffer,
    RolloutCollector,
    RolloutDecision,
    advantages,
    progress,
    reward,
)
from engines.train.ppo_update import policy_terms
from engines.train.rollout.optimizer_step import weights_of
from engines.train.rollout.sequences import batch_of, unroll
from engines.train.rollout.vector_env import DecisionRequest, FinishedDrive
from tests.rigs.train_rig import depot, network_of, small

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


# ---- What a lane's decisions earned, and that what is learned from is what was driven

SECTION = ReinforceSection(decisions=6)
MEMORY = np.zeros((2, 4), np.float32)


def request(geodesic_m, contacts=0, ended=None):
    return DecisionRequest({}, None, False, None, np.zeros(3, np.float32), geodesic_m, contacts, ended)


def end(left_m, reached=False, contacts=0):
    return FinishedDrive(SimpleNamespace(reached=reached, contacts=contacts), 5.0, left_m)


def played(buffer, requests, fresh=(), value=0.0, first=0):
    """Let a buffer see requests and decide on each of them with a value; rows carry the number of the decision."""
    for number, one in enumerate(requests, first):
        buffer.see(one)
        row = {"number": np.array([number])}
        buffer.add(RolloutDecision(row, number in fresh, MEMORY + number, value))
    return buffer.take()


def test_every_decision_earns_what_follows_it():
    drives = [
        request(5.0),
        request(4.8),
        request(inf, contacts=1),
        request(3.0, ended=end(0.1, reached=True, contacts=1)),
        request(2.9),
        request(2.5, ended=end(inf)),
    ]
    _, rewards = played(RolloutBuffer(SECTION, 10), drives)
    # 0.2 nearer; a contact where no way is known; arrived; 0.1 nearer; stopped falsely where no way is known.
    assert rewards == pytest.approx([0.19, -0.11, 2.5 + 4.7 - 0.01, 0.09, -0.01])


def test_the_last_decision_waits_for_the_next_round():
    buffer = RolloutBuffer(SECTION, 10)
    runs, rewards = played(buffer, [request(5.0), request(4.0)])
    assert (runs[0].rows["number"].tolist(), rewards) == ([0], pytest.approx([0.99]))
    runs, rewards = played(buffer, [request(3.5), request(3.5)], first=2)
    assert (runs[0].rows["number"].tolist(), rewards) == ([1, 2], pytest.approx([0.49, -0.01]))
    np.testing.assert_array_equal(runs[0].memory, MEMORY + 1)


def test_a_memory_reset_cuts_the_run_but_not_what_is_expected():
    requests = [request(way) for way in (5.0, 4.9, 4.7, 4.4, 4.0)]
    runs, rewards = played(RolloutBuffer(SECTION, 10), requests, fresh=(0, 2), value=0.3)
    assert [run.rows["number"].tolist() for run in runs] == [[0, 1], [2, 3]]
    assert [run.memory is None for run in runs] == [True, True]
    expected = advantages(np.array(rewards), np.full(5, 0.3), np.zeros(4, bool), SECTION.discount, SECTION.trace)
    found = np.concatenate([run.rows[ADVANTAGE] for run in runs])
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_allclose(np.concatenate([run.rows[RETURN] for run in runs]), expected + 0.3, rtol=1e-6)


def collector(seed=0, reference=None):
    """Return a collector in the depot with the network that it drives."""
    network = network_of(small())
    rules, _ = depot()
    began = weights_of(network if reference is None else reference)
    return RolloutCollector(SECTION, began, rules, network, [seed], 0, torch.device("cpu")), network


def test_what_is_learned_from_is_what_was_driven():
    one, network = collector()
    first = one.collect(weights_of(network))
    assert first.decisions == 3 * (SECTION.decisions - 1)
    rollout = one.collect({})
    assert rollout.decisions == 3 * SECTION.decisions == sum(map(len, rollout.runs))
    batch = batch_of(rollout.runs, network.memory_shape, torch.device("cpu"))
    with torch.no_grad():
        logits = network.actor(unroll(network, batch)) / SECTION.temperature
    terms = policy_terms(logits, batch.rows, 0.2)
    # Memories and the reference are kept in half precision.
    assert float(terms.moved) < 1e-5
    assert float(terms.imitation) < 1e-5
    torch.testing.assert_close(logits, batch.rows[REFERENCE], atol=2e-3, rtol=0.0)


def test_one_seed_gives_one_round():
    runs = [collector(seed)[0].collect({}).runs[0].rows for seed in (0, 0, 1)]
    assert all(np.array_equal(runs[0][name], runs[1][name]) for name in runs[0])
    assert not np.array_equal(runs[0][LOG_PROBABILITY], runs[2][LOG_PROBABILITY])


def test_the_beginning_is_asked_beside_the_driver():
    began = network_of(small(seed=7))
    rollout = collector(reference=began)[0].collect({})
    batch = batch_of(rollout.runs, began.memory_shape, torch.device("cpu"))
    fresh = replace(batch, memory=torch.zeros_like(batch.memory))
    with torch.no_grad():
        logits = began.actor(unroll(began, fresh)) / SECTION.temperature
    torch.testing.assert_close(logits, batch.rows[REFERENCE], atol=2e-3, rtol=0.0)
