"""What a chapter is furnished by."""

from __future__ import annotations

from engines.train import collector
from engines.train.collector import furniture_seeds


def test_no_training_has_the_furniture_of_an_evaluation(monkeypatch):
    drawn = furniture_seeds([0, 1, 2], 5)
    assert drawn == furniture_seeds([0, 1, 2], 5)
    assert not set(drawn) & collector.RESERVED_SEEDS
    monkeypatch.setattr(collector, "RESERVED_SEEDS", frozenset(drawn[1:3]))
    others = furniture_seeds([0, 1, 2], 5)
    assert (others[0], others[3:]) == (drawn[0], drawn[3:])
    assert not set(others) & set(drawn[1:3])
