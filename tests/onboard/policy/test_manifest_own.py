"""Manifests of version 2: how each input is fed, how an output becomes a decision, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.policy.actions import ContinuousAction, TableAction, beyond
from onboard.policy.contract import ACTIONS, NO_ACTION, STOP_ACTION, TensorType, apart, nearest_action, twist_of
from onboard.policy.encode import next_memory, tensors
from onboard.policy.inference import blank_observation
from onboard.policy.manifest import OwnManifest, load_manifest, manifest_path, misfits, sha256_of
from onboard.values.errors import ConfigError, EngineError
from onboard.values.messages import BINS, STOP, ColorFrame, Motion, Observation, Pose, Scan, Twist
from tests.rigs.devices.small_model import write_model

CONTINUOUS = {"kind": "continuous", "output": "action", "v_mps": [0.0, 1.0], "w_radps": [-0.5, 0.5]}


def table(*inputs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    head = {"contract_version": 2, "sha256": "0" * 64, "policy": "own", "training_delay_ticks": 3, "control_hz": 30.0}
    return {**head, "decision_hz": 3.0, "inputs": list(inputs), "action": CONTINUOUS, **changes}


def manifest(*inputs: dict[str, Any], **changes: Any) -> OwnManifest:
    return OwnManifest.model_validate(table(*inputs, **changes))


def seen(**changes: Any) -> Observation:
    """Return an observation with another value in every bin, robot and goal off the start."""
    scan = Scan(0, np.arange(1, BINS + 1, dtype=np.float32) / 20.0, np.ones(BINS, np.bool_))
    here = Motion(Pose(1.0, 2.0, math.pi / 2), Twist(0.3, -0.2))
    made = replace(blank_observation(), scan=scan, filtered=here, odometry=here, goal_xy_m=(1.0, 5.0))
    made = replace(made, set_point=Twist(0.4, 0.1), previous_action=3, deviations=(0.1, 0.2))
    return replace(made, **changes)


def fed(feed: dict[str, Any], observation: Observation | None = None, **changes: Any) -> list[float]:
    made = manifest({"name": "x", **feed}, **changes)
    values = tensors(observation or seen(), made.initial_memory, made)["x"]
    assert (list(values.shape), values.dtype.name) == (feed["shape"], feed.get("dtype", "float32"))
    return [round(float(value), 4) for value in values.reshape(-1)]


#   feed                                                                                  values
FEEDS = [
    # bin i is (i + 1) / 20 m; 0 deg is the border of the bins 89 and 90
    ({"feed": "scan", "shape": [1, 3], "bearings_deg": [-30, 0, 30], "unit": "m"}, [3.75, 4.5, 5.25]),
    ({"feed": "scan", "shape": [1, 4], "unit": "m"}, [0.05, 2.3, 4.55, 6.8]),
    ({"feed": "scan", "shape": [4], "unit": "m", "fov_deg": [180, -180]}, [6.8, 4.55, 2.3, 0.05]),
    ({"feed": "scan", "shape": [2], "fov_deg": [-90, 90], "max_range_m": 4.0}, [0.575, 1.0]),
    ({"feed": "scan", "shape": [1, 1], "bearings_deg": [179], "width_deg": 6, "unit": "m"}, [0.05]),
    ({"feed": "goal", "shape": [1, 3]}, [5.099, 0.1961, 0.9806]),
    ({"feed": "goal", "shape": [2], "frame": "robot", "fields": ["x", "y"]}, [3.0, 0.0]),
    ({"feed": "goal", "shape": [1, 1, 2], "frame": "robot", "fields": ["distance", "bearing"]}, [3.0, 0.0]),
    ({"feed": "pose", "shape": [1, 4], "fields": ["y", "sin_yaw", "v", "w"]}, [2.0, 1.0, 0.3, -0.2]),
    ({"feed": "pose_sd", "shape": [1, 2], "fields": ["yaw", "position"]}, [0.2, 0.1]),
    ({"feed": "localization", "shape": [2], "fields": ["x", "y"], "absent": [7, 8]}, [7.0, 8.0]),
    ({"feed": "last_action", "shape": [1, 2]}, [0.4, 0.1]),
    ({"feed": "goal", "shape": [3], "history": 3, "fields": ["x"]}, [1.0, 1.0, 1.0]),
    ({"feed": "goal", "shape": [1], "fields": ["x"], "dtype": "float64"}, [1.0]),
    (
        {
            "feed": "parts",
            "shape": [1, 3],
            "parts": [
                {"name": "scan", "feed": "scan", "shape": [1], "bearings_deg": [30], "unit": "m"},
                {"name": "goal", "feed": "goal", "shape": [2], "fields": ["x", "y"]},
            ],
        },
        [5.25, 1.0, 5.0],
    ),
]


@pytest.mark.parametrize(("feed", "values"), FEEDS, ids=[f"{row[0]['feed']} {n}" for n, row in enumerate(FEEDS)])
def test_a_feed_gives(feed, values):
    assert fed(feed) == values


def test_deviations_are_absent_without_a_covariance():
    feed, blank = {"feed": "pose_sd", "shape": [1]}, seen(deviations=None)
    assert (fed(feed, blank), fed({**feed, "absent": [9.0]}, blank)) == ([0.0], [9.0])
    with pytest.raises(ValueError, match="absent has 1 values, fields has 2"):
        manifest({"name": "x", "feed": "pose_sd", "shape": [2], "fields": ["position", "yaw"], "absent": [9.0]})


def test_a_sector_is_blind_only_where_no_camera_looks_in_it():
    looks = np.zeros(BINS, np.bool_)
    looks[90:135] = True
    far = np.where(looks & (np.arange(BINS) >= 100), np.float32(2.0), np.float32(np.inf))
    found = {"feed": "scan", "shape": [1, 4], "unit": "m", "inf_value": 9.0, "blind_value": -1.0}
    assert fed(found, seen(scan=Scan(0, far, looks))) == [-1.0, -1.0, 2.0, -1.0]
    assert fed({"feed": "scan", "shape": [1, 4]}, seen(scan=Scan(0, far, looks))) == [1.0, 1.0, 0.2, 1.0]
    far[10] = 0.7  # ground that was seen free a moment ago ends there
    assert fed(found, seen(scan=Scan(0, far, looks))) == [0.7, -1.0, 2.0, -1.0]


def test_the_last_action_of_an_own_table_is_its_row():
    own = {"kind": "table", "output": "q", "twists": [[0.0, 0.0], [0.4, 0.1], [0.4, -0.1]]}
    feed = {"feed": "last_action", "shape": [1], "dtype": "int64", "fields": ["index"]}
    assert fed(feed, action=own) == [1]
    assert fed(feed, seen(), action={**own, "twists": [[0.0, 0.0], [0.4, 0.0]]}) == [2], "halved by a miss"
    assert fed(feed, replace(seen(), previous_action=NO_ACTION, set_point=STOP), action=own) == [3]


@pytest.mark.parametrize(
    ("layout", "shape"), [("chw", [1, 3, 36, 64]), ("hwc", [1, 36, 64, 3]), ("chw", [1, 3, 84, 84])]
)
def test_an_image_is_resized_by_area(layout, shape):
    rng = np.random.default_rng(0)
    image = rng.integers(0, 256, (144, 256, 3), np.uint8)
    made = manifest(
        {"name": "x", "feed": "color", "shape": shape, "layout": layout, "scale": {"mean": [0, 0, 0], "std": [1, 1, 1]}}
    )
    values = tensors(seen(color=ColorFrame(1, 0, image)), made.initial_memory, made)["x"][0]
    planes = values if layout == "chw" else values.transpose(2, 0, 1)
    assert planes.mean(axis=(1, 2)) == pytest.approx(image.mean(axis=(0, 1)) / 255, abs=1e-4)
    if 144 % shape[-2] == 0 and layout == "chw":
        blocks = image.reshape(36, 4, 64, 4, 3).mean(axis=(1, 3)).transpose(2, 0, 1) / 255
        np.testing.assert_allclose(planes, blocks, atol=1e-5)


def test_a_history_holds_the_newest_steps_and_the_memory_beside_it():
    made = manifest(
        {"name": "goal", "feed": "goal", "shape": [1, 3], "history": 3, "fields": ["x"]},
        {"name": "v", "feed": "pose", "shape": [2], "history": 2, "fields": ["v"]},
        memory=[{"input": "h", "output": "h_next", "shape": [2, 1]}],
    )
    memory, given = made.initial_memory, []
    for step in range(1, 5):
        given.append(tensors(seen(goal_xy_m=(step, 0.0)), memory, made))
        memory = next_memory(given[-1], {"h_next": np.array([[step], [-step]], np.float32)}, made)
    assert [one["goal"][0].tolist() for one in given] == [[1, 1, 1], [1, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert [one["h"].reshape(-1).tolist() for one in given] == [[0, 0], [1, -1], [2, -2], [3, -3]]
    assert memory.shape == made.initial_memory.shape


#   settings                                                    output                     v, w
OUTPUTS = [
    ({}, [0.7, 0.2], (0.7, 0.2)),
    ({}, [1.7, -3.0], (1.0, -0.5)),
    ({"squash": "unit"}, [0.0, 1.0], (0.5, 0.5)),
    ({"squash": "fraction"}, [0.25, 0.75], (0.25, 0.25)),
    ({"squash": "tanh"}, [100.0, -100.0], (1.0, -0.5)),
    ({"squash": "sigmoid"}, [0.0, 100.0], (0.5, 0.5)),
    ({"distribution": "gaussian", "squash": "tanh"}, [0.0, 100.0, 5.0, 5.0], (0.5, 0.5)),
    ({"distribution": "beta"}, [2.0, 3.0, 4.0, 2.0], (0.25, 1 / 6)),
    ({"distribution": "beta"}, [1.0, 0.5, 1.0, 0.5], (0.5, 0.0)),
    ({}, [0.04, 0.09], (0.0, 0.0)),
    ({"stop_within_m": 0.2}, [0.04, 0.09], (0.04, 0.09)),
]


@pytest.mark.parametrize(("settings", "values", "pair"), OUTPUTS)
def test_a_continuous_output_becomes(settings, values, pair):
    action = ContinuousAction(**CONTINUOUS, **settings)
    decision = action.decide(np.array(values, np.float32), seen())
    assert (twist_of(decision).v_mps, twist_of(decision).w_radps) == pytest.approx(pair, abs=1e-6)
    assert decision.action == nearest_action(twist_of(decision))


NUMBERS = st.floats(-1e6, 1e6, width=32)


@given(st.lists(NUMBERS, min_size=2, max_size=2), st.sampled_from(["none", "unit", "fraction", "tanh", "sigmoid"]))
def test_no_output_leaves_the_range_nor_the_robots_limits(values, squash):
    action = ContinuousAction(**{**CONTINUOUS, "v_mps": [-1.0, 2.0], "w_radps": [-4.0, 4.0]}, squash=squash)
    twist = twist_of(action.within((-0.3, 0.6), 1.5).choose(np.array(values, np.float32)))
    assert -0.3 <= twist.v_mps <= 0.6
    assert abs(twist.w_radps) <= 1.5


def test_a_pair_that_is_clipped_to_a_stop_is_one():
    action = ContinuousAction(**{**CONTINUOUS, "v_mps": [-1.0, 0.0]}).within((0.0, 1.0), 1.0)
    assert twist_of(action.choose(np.array([-1.0, 0.0]))) == STOP


def test_the_runtime_stops_near_the_goal_for_a_model_that_does_not():
    action = ContinuousAction(**CONTINUOUS, stop_within_m=3.1)
    assert twist_of(action.decide(np.array([1.0, 0.0]), seen())) == STOP
    assert twist_of(action.decide(np.array([1.0, 0.0]), seen(goal_xy_m=(1.0, 5.2)))) == Twist(1.0, 0.0)
    paper = TableAction(
        kind="table", output="q", twists=tuple((a.v_mps, a.w_radps) for a in ACTIONS), stop_within_m=9.0
    )
    assert paper.decide(np.ones(28), seen()).action == STOP_ACTION


def test_a_distribution_that_does_not_exist_is_an_engine_fault():
    action = ContinuousAction(**CONTINUOUS, distribution="beta")
    with pytest.raises(EngineError, match="must be above 0"):
        action.choose(np.array([1.0, -1.0, 1.0, 1.0]))


def test_the_papers_table_in_version_2_decides_as_version_1():
    paper = TableAction(kind="table", output="q", twists=tuple((a.v_mps, a.w_radps) for a in ACTIONS))
    decision = paper.choose(np.eye(28)[17])
    assert (decision.action, decision.own) == (17, None)


@given(st.floats(-1, 2), st.floats(-4, 4))
def test_no_action_is_nearer_than_the_nearest(v, w):
    twist = Twist(v, w)
    least = apart(twist, ACTIONS[nearest_action(twist)])
    assert all(least <= apart(twist, other) for other in ACTIONS)


#   action's v, w         limits         words of it
REACHES = [
    ([0.0, 1.0], [-1, 1], (-0.3, 1.0), 1.0, ""),
    ([-0.5, 1.0], [-1, 1], (-0.3, 1.0), 1.0, "-0.5 to 1 m/s, limits -0.3 to 1 m/s"),
    ([0.0, 1.0], [-1, 2], (-0.3, 1.0), 1.0, "-1 to 2 rad/s, limit 1 rad/s"),
]


@pytest.mark.parametrize(("v", "w", "v_limits", "w_limit", "words"), REACHES)
def test_ranges_beyond_the_limits_are_told(v, w, v_limits, w_limit, words):
    action = ContinuousAction(**{**CONTINUOUS, "v_mps": v, "w_radps": w})
    assert beyond(action, v_limits, w_limit) == words


SCAN = {"name": "scan", "feed": "scan", "shape": [1, 3]}
NAN, INF = float("nan"), float("inf")
#   what is wrong with the table                                                  what the line says
REFUSED = [
    (table(SCAN, contract_version=3), ["contract_version", "expected 1 or 2, found 3"]),
    (
        table(SCAN, action={"kind": "table", "output": "q", "twists": [[0, 0], [NAN, 1]]}),
        ["action.twists.1.0", "finite"],
    ),
    (table(SCAN, action={**CONTINUOUS, "v_mps": [0, INF]}), ["action.v_mps.1", "finite"]),
    (table(SCAN, action={**CONTINUOUS, "v_mps": [1, 0]}), ["action", "v_mps: [1, 0] is no range"]),
    (table(SCAN, action={**CONTINUOUS, "squash": "tanh", "distribution": "beta"}), ["squash tanh"]),
    (table({**SCAN, "history": 2}), ["inputs.0", "does not hold 2 equal steps"]),
    (table({**SCAN, "bearings_deg": [0, 10]}), ["inputs.0", "3 values, bearings_deg has 2"]),
    (table({**SCAN, "fov_deg": [10, 10]}), ["inputs.0", "fov_deg"]),
    (table({**SCAN, "shape": [0, 3]}), ["inputs.0.shape.0"]),
    (table({"name": "g", "feed": "goal", "shape": [2]}), ["inputs.0", "fields has 3"]),
    (table({"name": "c", "feed": "color", "shape": [1, 1, 144, 256]}), ["inputs.0", "three colours"]),
    (table({"name": "c", "feed": "color", "shape": [9]}), ["inputs.0", "too few axes"]),
    (table({"name": "s", "feed": "sonar", "shape": [1]}), ["inputs.0.feed", "must be", "sonar"]),
    (table(SCAN, SCAN), ["the name scan is listed twice"]),
    (table({"name": "a", "feed": "last_action", "shape": [1], "fields": ["index"]}), ["no index"]),
    (table(SCAN, extra_key=1), ["unknown key extra_key"]),
    (
        table({**SCAN, "history": 2, "max_range_m": -1}, control_hz=0, action={**CONTINUOUS, "squash": "relu"}),
        ["control_hz", "inputs.0.max_range_m", "action.squash"],
    ),
]


@pytest.mark.parametrize(("wrong", "expected"), REFUSED, ids=[row[1][-1] for row in REFUSED])
def test_a_manifest_is_refused_in_one_line_with_all_that_is_wrong(tmp_path, wrong, expected):
    model = write_model(tmp_path / "m.onnx")
    manifest_path(model).write_text(json.dumps({**wrong, "sha256": sha256_of(model)}))
    with pytest.raises(ConfigError) as caught:
        load_manifest(model)
    line = str(caught.value)
    assert line.startswith(f"{manifest_path(model)}: ")
    assert "\n" not in line
    assert all(part in line for part in expected), line


FLOATS = TensorType((1, 3), "float32")
#   outputs of the model                              lines
MISFITS = [
    ({"action": TensorType((1, 2), "float32")}, []),
    ({"action": TensorType((1, 3), "float32")}, ["output action: expected 2 values"]),
    ({"q": TensorType((1, 2), "float32")}, ["output action: expected 2 values, found none of q"]),
]


@pytest.mark.parametrize(("outputs", "lines"), MISFITS)
def test_outputs_that_are_not_as_the_manifest_says_are_named(outputs, lines):
    found = list(misfits(manifest(SCAN), {"scan": FLOATS}, outputs))
    assert len(found) == len(lines)
    assert all(line in one for line, one in zip(lines, found, strict=True))


def test_only_its_own_manifest_resets_an_own_memory():
    assert manifest(SCAN).reset_s is None
    assert manifest(SCAN, memory_reset_s=4.0).reset_s == 4.0
