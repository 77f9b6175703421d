"""What a chapter is furnished by, how much of it the expert drives, and what an action is drawn from."""

from __future__ import annotations

import numpy as np
import pytest

from engines.train.config import rules_of
from engines.train.rollout import collector
from engines.train.rollout.collector import DrivingSection, _spells, drawn, furniture_seeds, make_buildings
from onboard.values.errors import OnboardError
from tests.rigs.train_rig import small


def test_no_training_has_the_furniture_of_an_evaluation(monkeypatch):
    drawn = furniture_seeds([0, 1, 2], 5)
    assert drawn == furniture_seeds([0, 1, 2], 5)
    assert not set(drawn) & collector.RESERVED_SEEDS
    monkeypatch.setattr(collector, "RESERVED_SEEDS", frozenset(drawn[1:3]))
    others = furniture_seeds([0, 1, 2], 5)
    assert (others[0], others[3:]) == (drawn[0], drawn[3:])
    assert not set(others) & set(drawn[1:3])


def test_a_collector_may_furnish_some_of_the_maps(monkeypatch):
    monkeypatch.setattr(collector, "make_building", lambda places, place, seed, robot: (place, seed))
    names = ("ase1", "ase4", "depot", "gdc1", "gdc2")
    rules = rules_of(small(places__maps=names))
    every = make_buildings(rules, [0, 1])
    assert [place for place, _ in every] == list(names)
    assert make_buildings(rules, [0, 1], 9) == every
    chosen = {number: make_buildings(rules, [0, number], 2) for number in range(8)}
    assert all(len(some) == 2 for some in chosen.values())
    assert set(chosen[1]) < set(every)
    assert {place for some in chosen.values() for place, _ in some} == set(names)
    assert len({seed for some in chosen.values() for _, seed in some}) == 16


def test_the_expert_drives_the_share_that_is_said():
    for share, expected in ((0.15, 0.153), (0.5, 0.533), (0.9, 1.0)):
        rng, left, driven = np.random.default_rng(1), 0, 0
        chance = _spells(DrivingSection(expert=share, expert_spell=8))
        for draw in rng.random(200_000):
            left = 8 if left == 0 and draw < chance else left
            driven += left > 0
            left = max(0, left - 1)
        assert driven / 200_000 == pytest.approx(expected, abs=0.01)


#    logits                                    what is said
NO_NUMBERS = [([0.0, np.nan], "is nan"), ([0.0, np.inf], "is inf"), ([-np.inf, -np.inf], "is -inf")]


@pytest.mark.parametrize(("logits", "message"), NO_NUMBERS)
def test_no_action_is_drawn_from_what_is_no_number(logits, message):
    with pytest.raises(
        OnboardError, match=f"the largest logit of the policy that drives {message}: its weights"
    ) as failed:
        drawn(np.array(logits, np.float32), np.random.default_rng(0))
    assert "\n" not in str(failed.value)


def test_an_action_that_is_left_out_is_never_drawn():
    logits = np.array([-np.inf, 1.0, -np.inf], np.float32)
    assert drawn(logits, np.random.default_rng(0)) == (1, 0.0)
