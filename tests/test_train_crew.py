"""Collectors in processes of their own say what went wrong, however much was on its way to them."""

from __future__ import annotations

import numpy as np
import pytest

from engines.network import TINY, Variant, untrained
from engines.train.config import rules_of
from engines.train.crew import ProcessCrew
from onboard.errors import InputError, OnboardError
from tests.train_rig import small

BIG = {"weight": np.zeros(8_000_000, np.float32)}
"""Far more than a pipe holds."""


def no_building(*_):
    raise InputError("map atlantis: no such map")


def test_who_fails_at_the_opening_says_why_although_weights_are_on_their_way():
    crew = ProcessCrew(no_building, rules_of(small()), untrained(0, TINY, Variant(rgb=False)), 1)
    try:
        with pytest.raises(OnboardError, match=r"^a collector failed: map atlantis: no such map$"):
            open_and_request(crew)
    finally:
        crew.close()


def open_and_request(crew):
    crew.open([0])
    crew.request(BIG)
    crew.result()
