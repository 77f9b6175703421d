"""The simulated robot with hidden effects: each effect alone does what its table says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hil.physics.motion.hidden_effects import HiddenEffects, advance_hidden, load_hidden_effects
from onboard.values.errors import ConfigError

STEP_S = 1.0 / 60.0
TABLE = load_hidden_effects()
NONE = {
    "slip": {"turn_per_radps": 0.0, "way_per_radps": 0.0},
    "caster": {"drag_per_s": 0.0, "way_m": 0.25},
    "battery": {"age_s": 0.0, "sag_per_s": 0.0, "sag_at_full_speed": 0.0, "least": 0.6},
}


def table(**changed: dict[str, float]) -> HiddenEffects:
    """Return the table with only the named effects."""
    values = TABLE.model_dump()
    for name, none in NONE.items():
        values[name] = {**none, **changed.get(name, {})}
    return HiddenEffects.model_validate(values)


def driven(
    effects: HiddenEffects, commands: list[tuple[float, float]], seconds: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return (n, 4) states of the wheels and (n, 3) motions, each command held for `seconds`."""
    numbers, memory, state = effects.as_array(), effects.memory(), np.zeros(4)
    states, motions = [], []
    for v, w in commands:
        for _ in range(round(seconds / STEP_S)):
            motions.append(advance_hidden(numbers, memory, state, v, w, STEP_S))
            states.append(state.copy())
    return np.array(states), np.array(motions)


def test_a_command_acts_after_its_latency() -> None:
    states, _ = driven(table(), [(0.5, 1.0)], 1.0)
    still = int(np.argmax(states[:, 0] > 0.0))
    assert still == pytest.approx(TABLE.delay_s / STEP_S, abs=1.0)


def test_without_effects_the_wheels_follow_and_the_body_follows_the_wheels() -> None:
    states, motions = driven(table(), [(0.5, 1.0)], 4.0)
    np.testing.assert_allclose(states[-1], (0.5, 1.0, 0.0, 0.0), atol=1e-3)
    np.testing.assert_allclose(motions[-1][2], states[-1, 1] * STEP_S, rtol=1e-6)


@pytest.mark.parametrize("w", [-2.0, -0.5, 0.5, 2.0])
def test_the_body_turns_less_the_faster_it_turns(w: float) -> None:
    states, motions = driven(table(slip={"turn_per_radps": 0.06, "way_per_radps": 0.02}), [(0.4, w)], 4.0)
    assert motions[-1][2] / STEP_S == pytest.approx(w * (1.0 - 0.06 * abs(w)), rel=1e-3)
    assert math.hypot(*motions[-1][:2]) / STEP_S == pytest.approx(0.4 * (1.0 - 0.02 * abs(w)), rel=1e-3)
    assert states[-1, 1] == pytest.approx(w, rel=1e-3), "the wheels do not notice"


def test_the_caster_drags_after_a_reversal_only() -> None:
    plain, _ = driven(table(), [(0.4, 0.0), (-0.4, 0.0)], 3.0)
    drag, _ = driven(table(caster={"drag_per_s": 3.0, "way_m": 0.25}), [(0.4, 0.0), (-0.4, 0.0)], 3.0)
    np.testing.assert_allclose(drag[:180], plain[:180])
    assert drag[180:, 0].sum() > plain[180:, 0].sum() + 1.0
    assert drag[-1, 0] == pytest.approx(-0.4, abs=0.01), "it ends"


def test_the_battery_lowers_the_greatest_speed_with_time_and_load() -> None:
    battery = {"age_s": 0.0, "sag_per_s": 1e-4, "sag_at_full_speed": 0.05, "least": 0.6}
    new, _ = driven(table(battery=battery), [(1.0, 0.0)], 5.0)
    old, _ = driven(table(battery={**battery, "age_s": 1000.0}), [(1.0, 0.0)], 5.0)
    assert new[-1, 0] == pytest.approx(1.0 / 1.05, abs=0.01)
    assert old[-1, 0] == pytest.approx(0.9 / 1.05, abs=0.01)


def test_a_bad_table_is_named(tmp_path) -> None:
    file = tmp_path / "hidden.toml"
    file.write_text("delay_s = -1.0\n")
    with pytest.raises(ConfigError, match=r"hidden.toml: delay_s"):
        load_hidden_effects(file)
