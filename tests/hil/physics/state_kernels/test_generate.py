"""Kernels of two small worlds whose difference is known: found where it is, with its map and its probability."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.physics.state_kernels.generate import chance, generate
from hil.physics.state_kernels.kernel_set import KernelSet, effect, first_active, load_kernels, save_kernels
from hil.physics.state_kernels.state_table import StateTable
from hil.physics.state_kernels.transitions import Log, distances, merge, state_distance
from onboard.values.errors import InputError

TABLE = StateTable.model_validate(
    {
        "period_s": 0.1, "eps_c": 0.2, "sigma": 0.2, "rollouts": 300, "actions": 2, "run": 1, "least_rows": 3,
        "state": {"x": {"weight": 1.0, "settable": True}, "yaw": {"weight": 0.5, "kind": "angle"},
                  "flag": {"weight": 0.01, "kind": "flag", "settable": True}},
    }
)  # fmt: skip
BEGIN, END = 4.0, 6.0


def walk(seed: int, real: bool, often: float = 1.0, runs: int = 200, uneven: float = 0.0) -> Log:
    """Return runs of a walker in steps of 0.5, by action 1 of 1; in reality it makes 0.1 between `BEGIN` and `END`.

    uneven: how much longer or shorter a step may be
    """
    rng = np.random.default_rng(seed)
    rows = []
    for run in range(runs):
        x, flag, slow = rng.uniform(0.0, 1.0), 0.0, real and rng.random() < often
        for _ in range(40):
            action = int(rng.random() < 0.3)
            inside = slow and BEGIN <= x <= END
            step = (1.0 if action else 0.5) + (rng.uniform(-uneven, uneven) if uneven else 0.0)
            following = x + step * (0.2 if inside else 1.0)
            rows.append((x, flag, action, following, float(slow and BEGIN <= following <= END), run))
            x, flag = rows[-1][3], rows[-1][4]
            if x > 10.0:
                break
    table = np.array(rows)
    yaw = np.full(len(table), np.pi)
    states = np.column_stack([table[:, 0], yaw, table[:, 1]])
    nexts = np.column_stack([table[:, 3], yaw, table[:, 4]])
    return Log(states, table[:, 2].astype(int), np.zeros(len(table)), nexts, table[:, 5].astype(int))


def test_kernels_lie_where_reality_differs_and_map_as_it_does() -> None:
    made = generate(walk(1, False), walk(2, True), TABLE)
    arrays = made.kernels.arrays
    assert 0 < len(made.kernels) <= made.divergences
    inside = (arrays.centers[:, 0] > BEGIN + 0.2) & (arrays.centers[:, 0] < END - 0.2)
    assert inside.sum() >= 4
    assert arrays.physical[inside] == pytest.approx(1.0)
    out = np.full(3, 7.0)  # yaw is not settable: it stays the simulator's
    for x in np.linspace(BEGIN + 0.3, END - 0.6, 9):
        for action, step in ((0, 0.1), (1, 0.2)):
            state = np.array([x, -np.pi, 0.0])  # -pi is pi
            number = first_active(state, action, arrays)
            if number >= 0 and inside[number]:
                assert effect(state, action, arrays, 0.0, out) == number
                assert out == pytest.approx([x + step, 7.0, 1.0], abs=0.02)


def test_a_kernel_is_drawn_as_often_as_reality_differs() -> None:
    made = generate(walk(1, False, runs=800), walk(2, True, often=0.6, runs=800), TABLE)
    arrays = made.kernels.arrays
    at = first_active(np.array([4.6, np.pi, 0.0]), 0, arrays)
    p_p = arrays.physical[at]
    assert 0.3 < p_p < 1.0
    out = np.empty(3)
    draws = np.random.default_rng(3).random(4000)
    drawn = np.mean([effect(np.array([4.6, np.pi, 0.0]), 0, arrays, float(draw), out) >= 0 for draw in draws])
    assert drawn == pytest.approx(p_p, abs=0.04)


def kernels_of(table: StateTable, real: bool) -> int:
    logs = (walk(1, False, runs=60, uneven=0.3), walk(2, real, runs=60, uneven=0.3))
    try:
        return len(generate(*logs, table).kernels)
    except InputError:
        return 0


def test_equal_worlds_yield_few_kernels_by_the_test_of_counts() -> None:
    by_frequency = TABLE.model_copy(update={"significance": 1.0})
    assert kernels_of(by_frequency, False) > 0.5 * kernels_of(by_frequency, True)
    assert kernels_of(TABLE, False) <= 0.2 * kernels_of(TABLE, True)


def test_chance_is_small_only_where_the_worlds_differ() -> None:
    merged = merge(walk(1, False), walk(2, True), TABLE)
    places = {
        state: merged.states[state, 0] for state in merged.common.tolist() if len(merged.physical.rows(state)) > 20
    }
    inside = [chance(merged, state) for state, x in places.items() if BEGIN + 0.3 < x < END - 0.3]
    before = [chance(merged, state) for state, x in places.items() if x < BEGIN - 1.0]
    assert max(inside) < 0.01
    assert min(before) > 0.01
    assert len(inside) >= 3


def test_a_log_against_itself_yields_no_kernel() -> None:
    """Equal states have one number, wherever in the two logs they stand."""
    rng = np.random.default_rng(4)
    log = walk(1, False, runs=60)
    away = rng.uniform(-0.5, 0.5, (2, *log.states.shape))
    scattered = replace(log, states=log.states + away[0], nexts=log.nexts + away[1])
    merged = merge(scattered, scattered, TABLE)
    assert np.array_equal(merged.simulated.before, merged.physical.before)
    for same in (log, scattered):
        with pytest.raises(InputError, match="rollouts: none of 300"):
            generate(same, same, TABLE)


def test_the_same_seed_gives_the_same_kernels_through_a_file(tmp_path: Path) -> None:
    one, other = (generate(walk(1, False), walk(2, True), TABLE).kernels for _ in range(2))
    save_kernels(one, tmp_path / "k.npz")
    read = load_kernels(tmp_path / "k.npz")
    assert read.table == TABLE
    for name in ("centers", "physical", "known", "maps"):
        np.testing.assert_array_equal(getattr(one.arrays, name), getattr(other.arrays, name))
        np.testing.assert_array_equal(getattr(one.arrays, name), getattr(read.arrays, name))


floats = st.floats(-20.0, 20.0)


@given(st.tuples(floats, floats, floats), st.tuples(floats, floats, floats))
def test_distance_equals_its_plain_definition(s: tuple[float, ...], other: tuple[float, ...]) -> None:
    one, two = np.array(s), np.array(other)
    c = state_distance(one, two, TABLE.weights, TABLE.circular)
    assert c == pytest.approx(distances(one, two[None], TABLE)[0], abs=1e-9)
    assert c == pytest.approx(state_distance(two, one, TABLE.weights, TABLE.circular), abs=1e-9)
    assert c <= abs(s[0] - other[0]) + 0.5 * np.pi + 0.01 * abs(s[2] - other[2]) + 1e-9


def test_probabilities_count_transitions_and_merged_states_are_apart() -> None:
    merged = merge(walk(1, False), walk(2, True), TABLE)
    for counted in (merged.simulated, merged.physical):
        for state in merged.common[:20]:
            rows = counted.rows(state)
            following = np.unique(counted.after[rows])
            assert sum(counted.probability(state, int(one)) for one in following) == pytest.approx(1.0)
            assert np.all(counted.before[rows] == state)
    for number, state in enumerate(merged.states):
        others = np.delete(merged.states, number, axis=0)
        assert distances(state, others, TABLE).min() > TABLE.eps_c


def damaged(log: Log, what: str) -> Log:
    states, actions = log.states.copy(), log.actions.copy()
    if what == "nan":
        states[7, 0] = np.nan
    elif what == "action":
        actions[3] = 2
    elif what == "elsewhere":
        states[:, 1] += 1.5
    return Log(states, actions, log.rewards, log.nexts, log.runs)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("nan", "the real runs: transition 7: x is nan, must be finite"),
        ("action", "the real runs: transition 3: action 2, must be 0 to 1"),
        ("elsewhere", "no common state: .* they differ most in yaw"),
    ],
)
def test_bad_runs_get_one_line(what: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        generate(walk(1, False), damaged(walk(2, True), what), TABLE)
    assert "\n" not in str(caught.value)


def test_too_little_data_for_a_map_is_told() -> None:
    with pytest.raises(InputError, match="least_rows: none of"):
        generate(walk(1, False), walk(2, True), TABLE.model_copy(update={"least_rows": 10_000}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": {"x": {"weight": 0.0, "settable": True}}}, "weights of all state dimensions sum to 0"),
        ({"state": {"x": {"weight": 1.0}}}, "no state dimension is settable"),
        ({"rollouts": 5}, "greater than or equal to 10"),
        ({"eps_c": float("nan")}, "finite"),
        ({"action": {"linear_mps": [0.0, 1.0], "angular_radps": [0.0, 1.0]}}, "actions 2 is not the size"),
    ],
)
def test_a_bad_table_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        StateTable.model_validate({**TABLE.model_dump(exclude_none=True), **change})


def test_damaged_files_get_one_line(tmp_path: Path) -> None:
    file = tmp_path / "k.npz"
    kernels = generate(walk(1, False), walk(2, True), TABLE).kernels
    save_kernels(kernels, file)
    whole = file.read_bytes()
    rng = np.random.default_rng(1)
    for cut in (b"", b"x", whole[: len(whole) // 2], whole[:-1], rng.bytes(500)):
        file.write_bytes(cut)
        with pytest.raises(InputError, match=r"k\.npz") as caught:
            load_kernels(file)
        assert "\n" not in str(caught.value)
    bad = kernels.arrays._replace(maps=np.full_like(kernels.arrays.maps, np.nan))
    save_kernels(KernelSet(TABLE, bad), file)
    with pytest.raises(InputError, match="maps: must be finite"):
        load_kernels(file)
    with pytest.raises(InputError, match="cannot be read"):
        load_kernels(tmp_path / "none.npz")
