"""`onboard-engines wrap` and `validate`: guesses from names and sizes, gaps, and all that does not fit at once."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import onnx
import pytest
import structlog
from onnx import TensorProto, helper, numpy_helper

from engines.export.own_model import WrapOptions, validate, wrap
from hil.evaluate.baselines.registry import check_rates
from onboard.assembly.policies import check_model
from onboard.config.config import Config, LimitsSection, PolicySection
from onboard.drivers.engines.onnx_engine import OnnxEngine
from onboard.policy.encode import GoalFeed, MotionFeed, ScanFeed
from onboard.policy.inference import blank_observation
from onboard.policy.manifest import load_manifest, manifest_path
from onboard.policy.network_policy import load_policy
from onboard.values.errors import ConfigError, EngineError, InputError

Shapes = dict[str, list[int | str]]


def model(file: Path, inputs: Shapes, outputs: Shapes, last: str = "Identity") -> Path:
    """Write a model whose outputs are constants, each through the operation `last`."""
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    taken = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
    weights, nodes = [], []
    for name, shape in outputs.items():
        values = np.full([size if isinstance(size, int) else 1 for size in shape], 0.25, np.float32)
        weights.append(numpy_helper.from_array(values, f"{name}_value"))
        nodes.append(helper.make_node(last, [f"{name}_value"], [name]))
    graph = helper.make_graph(nodes, "own", given, taken, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


def test_names_and_sizes_are_guessed_and_the_copy_drives(tmp_path):
    inputs = {
        "laser": ["n", 90],
        "target_polar": ["n", 2],
        "velocity": ["n", 2],
        "h_in": [1, "n", 8],
        "c_in": [1, "n", 8],
    }
    outputs = {"mu": ["n", 2], "c_out": [1, "n", 8], "h_out": [1, "n", 8]}
    own = model(tmp_path / "own.onnx", inputs, outputs, last="Tanh")
    copy, proposal = wrap(own, tmp_path / "out", WrapOptions(v_mps=(0.0, 0.8)))
    manifest = load_manifest(copy)
    scan, goal, velocity = manifest.feeds
    assert isinstance(scan, ScanFeed)
    assert (scan.shape, scan.fov_deg, scan.unit) == ((1, 90), (-180.0, 180.0), "m")
    assert isinstance(goal, GoalFeed)
    assert (goal.frame, goal.fields) == ("robot", ("distance", "bearing"))
    assert isinstance(velocity, MotionFeed)
    assert velocity.fields == ("v", "w")
    assert [(one.input, one.output, one.shape) for one in manifest.memory] == [
        ("h_in", "h_out", (1, 1, 8)),
        ("c_in", "c_out", (1, 1, 8)),
    ]
    assert (manifest.action.v_mps, manifest.action.squash) == ((0.0, 0.8), "unit")
    assert len(proposal.guesses) == 9
    flat = model(tmp_path / "flat.onnx", {"ranges": ["n", 12], "goal_xy": ["n", 2]}, {"cmd": ["n", 2]})
    scan, goal = load_manifest(wrap(flat, tmp_path / "out", WrapOptions(max_range_m=4.0))[0]).feeds
    assert isinstance(scan, ScanFeed)
    assert isinstance(goal, GoalFeed)
    assert (scan.max_range_m, goal.fields) == (4.0, ("x", "y"))
    checked = validate(copy, Config())
    assert checked.wrong == ()
    assert len(checked.fed) == 7
    policy = load_policy(copy, lambda path, _: OnnxEngine(path, 1))
    decision, memory = policy.decide(blank_observation(), policy.initial_memory())
    assert decision.own.v_mps == pytest.approx(0.4 * (1 + np.tanh(0.25)), abs=1e-6)
    assert memory == pytest.approx(np.tanh(0.25), abs=1e-6)


def test_a_table_of_actions_is_said_by_hand(tmp_path):
    own = model(tmp_path / "q.onnx", {"scan": [1, 180]}, {"q": [1, 3]})
    copy, _ = wrap(own, tmp_path / "out", WrapOptions(twists=((0.0, 0.0), (0.5, 0.0), (0.0, 1.0))))
    assert [one.v_mps for one in load_manifest(copy).actions] == [0.0, 0.5, 0.0]
    (missing,) = wrap(own, tmp_path / "again", WrapOptions(twists=((0.0, 0.0),)))[1].missing
    assert "3 values, --twist was given 1 times" in missing


def test_what_cannot_be_guessed_is_told_at_once_and_left_as_a_gap(tmp_path):
    own = model(tmp_path / "own.onnx", {"obs": [1, 38], "x": [1, 7]}, {"q": [1, 5]})
    _, proposal = wrap(own, tmp_path / "out", WrapOptions())
    assert [line.split(": ")[0] for line in proposal.missing] == ["input obs", "input x", "output q"]
    wrong = validate(tmp_path / "out" / "own.onnx", Config()).wrong
    assert len(wrong) == 3
    assert all(str(manifest_path(tmp_path / "out" / "own.onnx")) in line for line in wrong)


def test_a_corrected_manifest_is_kept_for_a_newer_model(tmp_path):
    copy = wrapped(tmp_path, policy="mine", decision_hz=10.0)
    newer = model(tmp_path / "own.onnx", {"scan": [1, 9]}, {"action": [1, 2]}, last="Tanh")
    wrap(newer, tmp_path / "out", WrapOptions())
    manifest = load_manifest(copy)
    assert (manifest.policy, manifest.decision_hz) == ("mine", 10.0)
    with pytest.raises(InputError, match="is kept; delete it to use options"):
        wrap(newer, tmp_path / "out", WrapOptions(v_mps=(0.0, 0.5)))
    manifest_path(copy).write_text("[]")
    wrap(newer, tmp_path / "out", WrapOptions())
    assert load_manifest(copy).policy == "own"
    assert manifest_path(copy).with_suffix(".old").read_text() == "[]"


#   inputs                         outputs              words
REFUSED = [
    ({"scan": [1, "rays"]}, {"action": [1, 2]}, r"tensor scan: axis 1 \(rays\) has no fixed size"),
    ({"scan": [1, 9], "hidden": [1, 4]}, {"hidden_out": [1, 4]}, "no output beside its recurrent states"),
]


@pytest.mark.parametrize(("inputs", "outputs", "words"), REFUSED)
def test_a_model_that_no_manifest_can_describe_is_refused(tmp_path, inputs, outputs, words):
    with pytest.raises(InputError, match=words):
        wrap(model(tmp_path / "own.onnx", inputs, outputs), tmp_path / "out", WrapOptions())


#   shape of the scan     history, sectors
SCANS = [([1, 90], 1, 90), ([1, 3, 72], 3, 72), ([1, 4, 90], 4, 90), ([1, 1, 180], 1, 180), ([1, 9, 4], 1, 36)]


@pytest.mark.parametrize(("shape", "history", "sectors"), SCANS)
def test_a_few_longer_rows_are_guessed_to_be_the_newest_scans(tmp_path, shape, history, sectors):
    own = model(tmp_path / "own.onnx", {"scan": shape}, {"action": [1, 2]}, last="Tanh")
    copy, proposal = wrap(own, tmp_path / "out", WrapOptions())
    (scan,) = load_manifest(copy).feeds
    assert isinstance(scan, ScanFeed)
    assert (scan.history, len(scan.sectors_deg)) == (history, sectors)
    assert any(f"history {history}, sectors {sectors}" in line for line in proposal.guesses)


#   options that no action or scan can have                       the line has
NO_RANGES = [
    (WrapOptions(v_mps=(1.0, 0.0)), "v_mps: .*is no range"),
    (WrapOptions(w_radps=(math.nan, 1.0)), "finite"),
    (WrapOptions(fov_deg=(0.0, 0.0)), "fov_deg"),
]


@pytest.mark.parametrize(("options", "words"), NO_RANGES)
def test_options_that_fit_no_manifest_leave_nothing(tmp_path, options, words):
    own = model(tmp_path / "own.onnx", {"scan": [1, 9]}, {"action": [1, 2]}, last="Tanh")
    with pytest.raises(InputError, match=words):
        wrap(own, tmp_path / "out", options)
    assert not list((tmp_path / "out").iterdir())


def test_check_config_tells_an_output_that_the_model_does_not_give(tmp_path):
    action = {"kind": "continuous", "output": "twist", "v_mps": [0.0, 1.0], "w_radps": [-1.0, 1.0]}
    good, wrong = wrapped(tmp_path / "good"), wrapped(tmp_path / "wrong", action=action)
    check_model(Config(policy=PolicySection(model=str(good))))
    with pytest.raises(EngineError, match="output twist: expected 2 values, found none of action"):
        check_model(Config(policy=PolicySection(model=str(wrong))))


def wrapped(folder: Path, **changes: object) -> Path:
    folder.mkdir(exist_ok=True)
    copy, _ = wrap(model(folder / "own.onnx", {"scan": [1, 9]}, {"action": [1, 2]}), folder / "out", WrapOptions())
    table = json.loads(manifest_path(copy).read_text())
    manifest_path(copy).write_text(json.dumps(table | changes))
    return copy


def test_other_rates_than_the_robots_are_refused_with_those_that_fit(tmp_path):
    own = wrapped(tmp_path, decision_hz=10.0)
    (line,) = validate(own, Config()).wrong
    assert "rates.ticks_per_decision" in line
    assert line.endswith("3 would fit")
    with pytest.raises(ConfigError, match=r"rates.ticks_per_decision.*3 would fit"):
        check_rates(str(own), Config())
    quicker = wrapped(tmp_path / "quicker", decision_hz=10.0, training_delay_ticks=2)
    check_rates(str(quicker), Config(rates={"ticks_per_decision": 3, "delay_ticks": 2}))


def test_a_range_beyond_the_limits_is_clipped_and_said_once(tmp_path):
    own = wrapped(tmp_path, action={"kind": "continuous", "output": "action", "v_mps": [0, 9], "w_radps": [-1, 1]})
    assert validate(own, Config()).notes == ("clipped to the robot's limits: 0 to 9 m/s, limits -0.3 to 1 m/s",)
    with structlog.testing.capture_logs() as logged:
        policy = load_policy(own, lambda path, _: OnnxEngine(path, 1), limits=LimitsSection(v_max_mps=0.2))
        for _ in range(3):
            decision, _ = policy.decide(blank_observation(), policy.initial_memory())
    assert decision.own.v_mps == 0.2
    assert [one["event"] for one in logged] == ["policy_beyond_limits"]
