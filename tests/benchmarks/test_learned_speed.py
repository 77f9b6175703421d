"""Steps a second of a simulated base that runs learned dynamics, beside the step of the plain definition.

`make bench ARGS=tests/benchmarks/test_learned_speed.py` prints them. A step of the models is 1/60 s.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from hil.physics.motion.learned import MODELS, advance_learned
from tests.hil.physics.motion.test_learned import plain
from tests.rigs.learned_models import random_model

STEPS, PLAIN_STEPS = 100_000, 300
FASTER = 10.0


@pytest.mark.parametrize("name", MODELS)
def test_the_compiled_step_is_faster_than_its_definition(name: str) -> None:
    model = random_model(name)
    memory, state, numbers = model.memory(), np.zeros(4), model.numbers()

    def run(steps: int) -> None:
        whole_s = steps * model.period_s
        advance_learned(model.kind, numbers, model.weights, model.sizes, memory, state, 0.5, 0.3, whole_s)

    run(10)
    rates = {}
    for kind, steps, work in (
        ("compiled", STEPS, lambda: run(STEPS)),
        ("plain", PLAIN_STEPS, lambda: plain(model, np.full((PLAIN_STEPS, 2), 0.4))),
    ):
        begun = time.process_time()
        work()
        rates[kind] = steps / (time.process_time() - begun)
    ratio = rates["compiled"] / rates["plain"]
    print(f"{name}: {rates['compiled']:,.0f} steps/s a core, {ratio:.0f} times the definition")
    assert ratio > FASTER
