"""Observation -> tensors, by table; the normalisation's laws."""

from __future__ import annotations

from dataclasses import replace
from math import cos, inf, pi, sin, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onboard.policy.contract import (
    ACTIONS,
    INPUTS,
    MEMORY_SHAPE,
    NO_ACTION,
    OUTPUTS,
    STOP_ACTION,
    TensorType,
    check_tensors,
    nearest_action,
)
from onboard.policy.encode import RgbScale, next_memory, rgb_tensor, tensors
from onboard.policy.inference import blank_observation
from onboard.policy.manifest import Manifest, TensorEntry
from onboard.values.errors import EngineError, InputError
from onboard.values.messages import BINS, ColorFrame, Motion, Pose, Scan, Twist


def full_manifest(**changes: object) -> Manifest:
    """Return a manifest that uses every tensor of the contract."""
    table = {
        "contract_version": 1,
        "sha256": "0" * 64,
        "policy": "all",
        "inputs": [TensorEntry(name=n, shape=t.type.shape, dtype=t.type.dtype) for n, t in INPUTS.items()],
        "outputs": [TensorEntry(name=n, shape=t.type.shape, dtype=t.type.dtype) for n, t in OUTPUTS.items()],
        "training_delay_ticks": 3,
        "control_hz": 30,
        "decision_hz": 3,
        "memory_shape": MEMORY_SHAPE,
    }
    return Manifest.model_validate(table | changes)


SCAN_FEED = next(feed for feed in full_manifest().feeds if feed.name == "scan")
MEMORY = np.arange(2 * 1024, dtype=np.float32).reshape(MEMORY_SHAPE)


def test_actions_are_linear_times_angular_both_ascending():
    assert len(ACTIONS) == 28
    assert ACTIONS[0] == Twist(0.0, -3.0)
    assert ACTIONS[7 * 2 + 5] == Twist(0.6, 2.0)
    assert ACTIONS[27] == Twist(1.0, 3.0)
    assert ACTIONS[STOP_ACTION] == Twist(0.0, 0.0)
    assert NO_ACTION == 28


#    tensor         shape               dtype, as in paper 1, section 3
PAPER = [
    ("rgb", (1, 3, 144, 256), "float32"),
    ("scan", (1, 1, 180), "float32"),
    ("odom", (1, 5), "float32"),
    ("loc", (1, 5), "float32"),
    ("pose", (1, 5), "float32"),  # not the paper's: what the runtime's filter makes of odom and loc
    ("goal", (1, 3), "float32"),
    ("prev_action", (1,), "int64"),
    ("memory_in", (2, 1, 1024), "float32"),
]


@pytest.mark.parametrize(("name", "shape", "dtype"), PAPER)
def test_tensor_has_the_contracts_shape_and_dtype(name, shape, dtype):
    given_tensors = tensors(blank_observation(), MEMORY, full_manifest())
    assert INPUTS[name].type == TensorType(shape, dtype)
    assert (given_tensors[name].shape, given_tensors[name].dtype) == (shape, dtype)
    assert given_tensors[name].flags["C_CONTIGUOUS"]


def test_only_what_the_manifest_lists_is_made():
    scan_only = full_manifest(
        inputs=[{"name": "scan", "shape": [1, 1, 180], "dtype": "float32"}],
        memory_shape=None,
        outputs=[{"name": "logits", "shape": [1, 28], "dtype": "float32"}],
    )
    assert list(tensors(blank_observation(), MEMORY, scan_only)) == ["scan"]


#    range seen  expected, with a maximum of 5 m
RANGES = [
    (2.5, True, 0.5),
    (5.0, True, 1.0),
    (7.0, True, 1.0),
    (inf, True, 0.9),
    (inf, False, -1.0),
    (2.5, False, 0.5),  # ground that was seen free a moment ago ends there
]


@pytest.mark.parametrize(("range_m", "seen", "expected"), RANGES)
def test_scan_value(range_m, seen, expected):
    scan = Scan(0, np.full(BINS, range_m, np.float32), np.full(BINS, seen))
    manifest = full_manifest(scan={"max_range_m": 5.0, "inf_value": 0.9, "blind_value": -1.0})
    values = tensors(replace(blank_observation(), scan=scan), MEMORY, manifest)["scan"]
    np.testing.assert_allclose(values, expected)


@given(
    st.lists(st.one_of(st.floats(1 / 128, 50.0, width=32), st.just(inf)), min_size=BINS, max_size=BINS),
    st.lists(st.booleans(), min_size=BINS, max_size=BINS),
)
def test_a_blind_bin_is_never_taken_for_a_range(ranges, seen):
    scan = Scan(0, np.array(ranges, np.float32), np.array(seen))
    values = SCAN_FEED.values(replace(blank_observation(), scan=scan), ACTIONS)
    np.testing.assert_array_equal(values > 0.0, seen | np.isfinite(scan.ranges_m))
    assert values.max(initial=0.0) <= 1.0


def test_rgb_is_normalised_per_channel_and_planar():
    image = np.zeros((144, 256, 3), np.uint8)
    image[3, 5] = (255, 51, 0)
    values = rgb_tensor(ColorFrame(1, 0, image), RgbScale(mean=(0.5, 0.1, 0.25), std=(0.5, 0.1, 1.0)))
    np.testing.assert_allclose(values[0, :, 3, 5], [1.0, 1.0, -0.25], atol=1e-6)
    np.testing.assert_allclose(values[0, :, 0, 0], [-1.0, -1.0, -0.25], atol=1e-6)


def test_rgb_absent_is_the_manifests_value():
    assert (rgb_tensor(None, RgbScale(absent=-2.0)) == -2.0).all()


def test_odom_loc_and_pose_are_x_y_theta_v_w():
    seen = replace(
        blank_observation(),
        odometry=Motion(Pose(1.0, 2.0, 0.5), Twist(0.3, -1.0)),
        localization=Motion(Pose(3.0, 4.0, -0.5), Twist(0.6, 2.0)),
        filtered=Motion(Pose(1.5, 2.5, 0.25), Twist(0.3, -0.5)),
    )
    values = tensors(seen, MEMORY, full_manifest(loc_absent=[9, 9, 9, 9, 9]))
    np.testing.assert_allclose(values["odom"], [[1.0, 2.0, 0.5, 0.3, -1.0]])
    np.testing.assert_allclose(values["loc"], [[3.0, 4.0, -0.5, 0.6, 2.0]])
    np.testing.assert_allclose(values["pose"], [[1.5, 2.5, 0.25, 0.3, -0.5]])
    absent = tensors(replace(seen, localization=None), MEMORY, full_manifest(loc_absent=[9, 8, 7, 6, 5]))
    np.testing.assert_allclose(absent["loc"], [[9, 8, 7, 6, 5]])


#    goal            rho      phi
GOALS = [
    ((2.0, 0.0), 2.0, 0.0),
    ((0.0, 3.0), 3.0, pi / 2),
    ((-1.0, -1.0), sqrt(2.0), -3 * pi / 4),
    ((0.0, 0.0), 0.0, 0.0),
]


@pytest.mark.parametrize(("xy", "rho", "phi"), GOALS)
def test_goal_is_polar_with_cosine_and_sine(xy, rho, phi):
    values = tensors(replace(blank_observation(), goal_xy_m=xy), MEMORY, full_manifest())["goal"]
    np.testing.assert_allclose(values, [[rho, cos(phi), sin(phi)]], atol=1e-6)


def test_memory_goes_through_unchanged():
    values = tensors(blank_observation(), MEMORY, full_manifest())
    after = next_memory(values, {"memory_out": values["memory_in"]}, full_manifest())
    np.testing.assert_array_equal(after, MEMORY.ravel())


@pytest.mark.parametrize("action", range(len(ACTIONS)))
def test_the_nearest_action_to_an_action_is_itself(action):
    assert nearest_action(ACTIONS[action]) == action


@pytest.mark.parametrize("action", [-1, 29])
def test_an_action_out_of_range_is_refused(action):
    with pytest.raises(InputError, match=f"previous action is {action}"):
        tensors(replace(blank_observation(), previous_action=action), MEMORY, full_manifest())


def test_an_image_of_another_size_is_refused():
    with pytest.raises(InputError, match=r"uint8\[720, 1280, 3\]"):
        rgb_tensor(ColorFrame(1, 0, np.zeros((720, 1280, 3), np.uint8)), RgbScale())


def test_a_scan_of_another_size_is_refused():
    scan = Scan(0, np.ones(360, np.float32), np.ones(360, np.bool_))
    with pytest.raises(InputError, match="360"):
        SCAN_FEED.values(replace(blank_observation(), scan=scan), ACTIONS)


WANTED = {"scan": TensorType((1, 1, 180), "float32")}
#    given                                                     complaint
MISFITS = [
    ({}, r"input scan: expected float32\[1, 1, 180\], found none"),
    ({"scan": np.zeros((1, 180), np.float32)}, r"found float32\[1, 180\]"),
    ({"scan": np.zeros((1, 1, 180))}, r"found float64\[1, 1, 180\]"),
    ({"scan": np.zeros((1, 1, 180), np.float32), "odom": np.zeros(5)}, "input odom: the model has no such input"),
]


@pytest.mark.parametrize(("values", "complaint"), MISFITS)
def test_tensors_that_do_not_fit_are_named(values, complaint):
    with pytest.raises(EngineError, match=complaint):
        check_tensors(values, WANTED)
