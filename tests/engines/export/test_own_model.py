"""`onboard-engines wrap` and `validate`: guesses from names and sizes, gaps, and all that does not fit at once."""

from __future__ import annotations

import json
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
    assert [action.v_mps for action in load_manifest(copy).actions] == [0.0, 0.5, 0.0]
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
    ({"scan": [1, 9], "hidden": [1, 4]}, {"hidden_out": [1, 4]}, "no output except its recurrent states"),
]


@pytest.mark.parametrize(("inputs", "outputs", "words"), REFUSED)
def test_a_model_that_no_manifest_can_describe_is_refused(tmp_path, inputs, outputs, words):
    with pytest.raises(InputError, match=words):
        wrap(model(tmp_path / "own.onnx", inputs, outputs), tmp_path / "out", WrapOptions())


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


def graph_model(
    file: Path, nodes: list[onnx.NodeProto], outputs: dict[str, tuple[int, list[int | str]]], **more
) -> Path:
    """Write a model of `scan` (n, 9) to outputs of (type, shape)."""
    given = [helper.make_tensor_value_info("scan", TensorProto.FLOAT, ["n", 9])]
    taken = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in outputs.items()]
    fixed = [
        numpy_helper.from_array(np.full((9, 2), 0.01, np.float32), "w2"),
        numpy_helper.from_array(np.full((9, 5), 0.01, np.float32), "w5"),
        numpy_helper.from_array(np.array(True), "yes"),
        numpy_helper.from_array(np.array(False), "no"),
        numpy_helper.from_array(np.array(0.5, np.float32), "half"),
        numpy_helper.from_array(np.array(1, np.int64), "once"),
        numpy_helper.from_array(np.array([1], np.int64), "axis"),
        numpy_helper.from_array(np.array([1], np.int64), "first"),
        numpy_helper.from_array(np.array([2], np.int64), "two"),
        numpy_helper.from_array(np.array([-1, 1], np.int64), "column"),
        numpy_helper.from_array(np.full((5, 2), 0.1, np.float32), "twists"),
    ]
    graph = helper.make_graph(nodes, "own", given, taken, fixed)
    opset = [helper.make_opsetid("", 17), *(helper.make_opsetid(one.domain, 1) for one in more.get("functions", ()))]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8, **more), file)
    return file


def node(kind: str, inputs: list[str], output: str, **more) -> onnx.NodeProto:
    return helper.make_node(kind, inputs, [output], **more)


MEAN = node("MatMul", ["scan", "w2"], "mean")
TWO = (TensorProto.FLOAT, ["n", 2])
BRANCH = helper.make_graph(
    [node("RandomNormalLike", ["mean"], "branch")], "b", [], [helper.make_tensor_value_info("branch", 1, None)]
)
PLAIN_BRANCH = helper.make_graph(
    [node("Identity", ["mean"], "branch")], "b", [], [helper.make_tensor_value_info("branch", 1, None)]
)
NOISE = helper.make_function(
    "mine", "Noise", ["x"], ["y"], [node("RandomNormalLike", ["x"], "y")], [helper.make_opsetid("", 17)]
)
#   nodes after MEAN, functions, what is named
DRAWN = {
    "normal": ([node("RandomNormalLike", ["mean"], "n"), node("Add", ["mean", "n"], "action")], "RandomNormalLike"),
    "uniform": (
        [node("RandomUniform", [], "n", shape=[1, 2]), node("Add", ["mean", "n"], "action")], "RandomUniform"),
    "bernoulli": ([node("Sigmoid", ["mean"], "p"), node("Bernoulli", ["p"], "action")], "Bernoulli"),
    "dropout in training": ([node("Dropout", ["mean", "half", "yes"], "action")], "Dropout"),
    "in a branch": (
        [node("If", ["yes"], "n", then_branch=BRANCH, else_branch=PLAIN_BRANCH), node("Add", ["mean", "n"], "action")],
        "RandomNormalLike",
    ),
    "in a function": (
        [node("Noise", ["mean"], "n", domain="mine"), node("Add", ["mean", "n"], "action")], "RandomNormalLike"),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
def test_an_action_that_is_drawn_at_random_is_refused(name, tmp_path):
    nodes, named = DRAWN[name]
    functions = [NOISE] if "function" in name else []
    own = graph_model(tmp_path / "own.onnx", [MEAN, *nodes], {"action": TWO}, functions=functions)
    with pytest.raises(InputError, match=rf"output action: is drawn at random \({named}\)"):
        wrap(own, tmp_path / "out", WrapOptions())
    assert not list((tmp_path / "out").iterdir())


def test_a_deterministic_output_and_what_does_not_reach_it_pass(tmp_path):
    nodes = [
        MEAN,
        node("RandomNormalLike", ["mean"], "n"),
        node("Add", ["mean", "n"], "action"),
        node("Dropout", ["mean", "half", "no"], "steady"),
    ]
    own = graph_model(tmp_path / "own.onnx", nodes, {"action": TWO, "steady": TWO})
    copy, _ = wrap(own, tmp_path / "out", WrapOptions())
    assert load_manifest(copy).action.output == "steady"
    assert validate(copy, Config()).wrong == ()
    table = json.loads(manifest_path(copy).read_text())
    table["action"]["output"] = "action"
    manifest_path(copy).write_text(json.dumps(table))
    (line,) = validate(copy, Config()).wrong
    assert "output action: is drawn at random (RandomNormalLike)" in line


@pytest.mark.parametrize("twists", [(), ((0.0, 0.0),) * 5])
def test_an_index_in_place_of_the_values_is_named(twists, tmp_path):
    nodes = [node("MatMul", ["scan", "w5"], "q"), node("ArgMax", ["q"], "i", axis=1, keepdims=0)]
    nodes.append(node("Identity", ["i"], "action"))
    own = graph_model(tmp_path / "own.onnx", nodes, {"action": (TensorProto.INT64, ["n"])})
    copy, proposal = wrap(own, tmp_path / "out", WrapOptions(twists=twists))
    (missing,) = proposal.missing
    assert missing == "output action: is an index; export the values, tensor q, of which ArgMax takes the index"
    if twists:
        (line,) = validate(copy, Config()).wrong
        assert "output action: expected the 5 values, not an index of them" in line
    both = graph_model(
        tmp_path / "own.onnx", nodes, {"action": (TensorProto.INT64, ["n"]), "q": (TensorProto.FLOAT, ["n", 5])}
    )
    copy, _ = wrap(both, tmp_path / "both", WrapOptions(twists=((0.0, 0.0),) * 5))
    assert load_manifest(copy).action.output == "q"


F = TensorProto.FLOAT
Q, BEST = node("MatMul", ["scan", "w5"], "q"), node("ArgMax", ["q"], "i", axis=1, keepdims=0)
KEPT = node("ArgMax", ["q"], "j", axis=1, keepdims=1)


def branch(name: str) -> onnx.GraphProto:
    inner = [node("Cast", ["i"], name, to=F)]
    return helper.make_graph(inner, name, [], [helper.make_tensor_value_info(name, F, ["n"])])


CASTS = helper.make_function(
    "mine", "Casts", ["x"], ["y"], [node("Cast", ["x"], "y", to=F)], [helper.make_opsetid("", 17)]
)
#   nodes after Q, type and shape of the output, whether it is an index
INDICES = {
    "cast": ([BEST, node("Cast", ["i"], "action", to=F)], (F, ["n"]), True),
    "one column": ([KEPT, node("Cast", ["j"], "action", to=F)], (F, ["n", 1]), True),
    "narrow": ([BEST, node("Cast", ["i"], "action", to=TensorProto.INT32)], (TensorProto.INT32, ["n"]), True),
    "squeezed and cast": (
        [KEPT, node("Squeeze", ["j", "axis"], "s"), node("Cast", ["s"], "action", to=F)], (F, ["n"]), True),
    "reshaped, twice cast": (
        [BEST, node("Cast", ["i"], "a", to=TensorProto.DOUBLE), node("Reshape", ["a", "column"], "b"),
         node("Cast", ["b"], "action", to=F)], (F, ["n", 1]), True),
    "counted from one": (
        [BEST, node("Cast", ["i"], "a", to=F), node("Add", ["a", "half"], "action")], (F, ["n"]), True),
    "TopK": (
        [helper.make_node("TopK", ["q", "first"], ["best", "k"]), node("Cast", ["k"], "action", to=F)],
        (F, ["n", 1]), True),
    "the least": ([node("ArgMin", ["q"], "i", axis=1), node("Cast", ["i"], "action", to=F)], (F, ["n", 1]), True),
    "of two choices": (
        [KEPT, node("Concat", ["j", "j"], "a", axis=1), node("Cast", ["a"], "action", to=F)], (F, ["n", 2]), True),
    "in a branch": (
        [BEST, node("If", ["yes"], "action", then_branch=branch("a"), else_branch=branch("b"))], (F, ["n"]), True),
    "in a function": ([BEST, node("Casts", ["i"], "action", domain="mine")], (F, ["n"]), True),
    "the values of TopK": ([helper.make_node("TopK", ["q", "two"], ["action", "k"])], (F, ["n", 2]), False),
    "a row of a table": ([BEST, node("Gather", ["twists", "i"], "action")], (F, ["n", 2]), False),
    "the values": ([node("Identity", ["q"], "action")], (F, ["n", 5]), False),
}  # fmt: skip


@pytest.mark.parametrize("name", INDICES)
def test_an_index_is_found_behind_all_that_leaves_it_one(name, tmp_path):
    nodes, output, found = INDICES[name]
    functions = [CASTS] if "function" in name else []
    own = graph_model(tmp_path / "own.onnx", [Q, *nodes], {"action": output}, functions=functions)
    twists = ((0.0, 0.0),) * (0 if output[1][1:] == [2] else 5)
    copy, proposal = wrap(own, tmp_path / "out", WrapOptions(twists=twists))
    said = [one for one in proposal.missing if "output action: is an index; export the values, tensor q" in one]
    assert bool(said) == found, proposal.missing
    if output[1][1:] == [2]:
        values = {"kind": "continuous", "output": "action", "v_mps": [0.0, 1.0], "w_radps": [-1.0, 1.0]}
        table = json.loads(manifest_path(copy).read_text()) | {"action": values}
        manifest_path(copy).write_text(json.dumps(table))
        assert any("is an index" in one for one in validate(copy, Config()).wrong) == found


@pytest.mark.parametrize(("kind", "dtype"), [(TensorProto.DOUBLE, "float64"), (TensorProto.FLOAT16, "float16")])
def test_other_floats_are_fed_as_the_model_wants_them(kind, dtype, tmp_path):
    given = [helper.make_tensor_value_info("scan", kind, [1, 2])]
    taken = [helper.make_tensor_value_info("action", kind, [1, 2])]
    graph = helper.make_graph([node("Identity", ["scan"], "action")], "own", given, taken)
    file = tmp_path / "own.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    copy, _ = wrap(file, tmp_path / "out", WrapOptions(w_radps=(0.0, 20.0), v_mps=(0.0, 20.0), max_range_m=4.0))
    assert load_manifest(copy).feeds[0].dtype == dtype
    checked = validate(copy, Config())
    assert checked.wrong == ()
    assert "it decides v 4.00 m/s, w 4.00 rad/s" in checked.fed[-1]


#   shape of scan   of goal         of action     its sizes are fixed to 1
FIRST_AXES = [
    (["n_beams"], [2], [2], False),
    (["n_points", 3], [1, 2], [1, 2], False),
    (["n_points", 3], ["batch", 2], ["batch", 2], False),
    (["n", 9], [1, 2], [1, 2], False),
    (["batch", 9], ["batch", 2], [1, 2], True),
    (["envs", 9], ["envs", 2], ["envs", 2], True),
    (["scan_dynamic_axes_1", 9], ["goal_dynamic_axes_1", 2], ["Addaction_dim_0", 2], True),
    ([None, 9], [None, 2], [None, 2], True),
    ([None, 9], [None, 2], [1, 2], False),
]


@pytest.mark.parametrize(("scan", "goal", "action", "batch"), FIRST_AXES)
def test_a_first_axis_is_the_batch_only_where_an_output_has_it(scan, goal, action, batch, tmp_path):
    own = model(tmp_path / "own.onnx", {"scan": scan, "goal": goal}, {"action": action})
    if batch:
        assert (
            "the batch was variable: the copy has a batch of 1" in wrap(own, tmp_path / "out", WrapOptions())[1].guesses
        )
        return
    with pytest.raises(
        InputError, match=rf"tensor scan: axis 0 \({scan[0] or '.'}\) has no fixed size; export it fixed"
    ):
        wrap(own, tmp_path / "out", WrapOptions())
