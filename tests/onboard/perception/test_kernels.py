"""The fusion kernel and its definition: exact small cases for both, then equality on random input."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numba import types
from numba.core.runtime import _nrt_python, rtsys
from PIL import Image

from onboard.perception import fusion_kernel
from onboard.perception.fusion_kernel import BLOCK, lower_ranges, projection_of
from onboard.perception.kernels import EDGES, bins_of, fuse_plain, planar
from onboard.values.geometry import IDENTITY, rotation_from_quaternion
from onboard.values.messages import BIN_DEG, BINS, Pose
from tests.rigs.fusion.plain_fusion import by_kernel, pixel_by_pixel

FRAMES = sorted((Path(__file__).parents[2] / "data" / "realsense-office").glob("*.png"))
LEVEL = np.array([[0.0, 0, 1, 0], [-1, 0, 0, 0], [0, -1, 0, 0.5], [0, 0, 0, 1]])
"""A level camera 0.5 m above the base's origin that looks ahead: pixel (cx, cy) at depth d is the point (d, 0, 0.5)."""
UPSIDE_DOWN = LEVEL @ np.diag([-1.0, -1, 1, 1])
NO_BOXES = np.empty((0, 6))
FUSIONS = [pytest.param(by_kernel, id="kernel"), pytest.param(fuse_plain, id="definition")]
Fusion = Callable[..., None]


def ranges(fuse: Fusion, depth: np.ndarray, **changes: Any) -> np.ndarray:
    """Return the ranges of one image of a camera with f = 10 and its optical axis at pixel (1, 1), 1 mm a unit."""
    given_ = {
        "f": (10.0, 10.0),
        "c": (1.0, 1.0),
        "scale": 0.001,
        "base_from_camera": LEVEL,
        "now_from_then": IDENTITY,
        "near_far": (0.1, 10.0),
        "band": (0.05, 1.2),
        "boxes": NO_BOXES,
        "noise_per_m": 0.0,
    } | changes
    ranges_m = np.full(BINS, np.inf, dtype=np.float32)
    fuse(
        ranges_m,
        depth,
        *given_["f"],
        *given_["c"],
        given_["scale"],
        given_["base_from_camera"],
        planar(given_["now_from_then"]),
        *given_["near_far"],
        *given_["band"],
        given_["boxes"],
        given_["noise_per_m"],
    )
    return ranges_m


def pixel(u: int, v: int, depth: int) -> np.ndarray:
    """Return a 3x3 image with one return."""
    image = np.zeros((3, 3), dtype=np.uint16)
    image[v, u] = depth
    return image


def turned_about_z(azimuth_rad: float) -> np.ndarray:
    """Return `base_from_camera` of a level camera that looks along an azimuth; pi has a sine of 1e-16."""
    c, s = math.cos(azimuth_rad), math.sin(azimuth_rad)
    return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]) @ LEVEL


def facing(azimuth_deg: float, height_m: float = 0.5) -> np.ndarray:
    """Return the same at a height, exact for quarter turns."""
    turned = np.round(turned_about_z(math.radians(azimuth_deg)), 15)
    turned[2, 3] = height_m
    return turned


#   name,                            image,            changes,                                  bin or None, range
CASES = [
    ("nothing", pixel(1, 1, 0), {}, None, None),
    ("straight ahead", pixel(1, 1, 2000), {}, 90, 2.0),
    ("right of ahead", pixel(2, 1, 2000), {}, 87, math.hypot(2.0, 0.2)),
    ("left of ahead", pixel(0, 1, 2000), {}, 92, math.hypot(2.0, 0.2)),
    ("above: radius is on the ground", pixel(1, 0, 2000), {}, 90, 2.0),
    ("upside down", pixel(2, 1, 2000), {"base_from_camera": UPSIDE_DOWN}, 92, math.hypot(2.0, 0.2)),
    ("other scale", pixel(1, 1, 2000), {"scale": 0.0001}, 90, 0.2),
    ("own focal length a side", pixel(2, 2, 2000), {"f": (5.0, 20.0)}, 84, math.hypot(2.0, 0.4)),
    ("left is +90", pixel(1, 1, 1000), {"base_from_camera": facing(90)}, 135, 1.0),
    ("right is -90", pixel(1, 1, 1000), {"base_from_camera": facing(-90)}, 45, 1.0),
    ("behind, +180, is bin 0", pixel(1, 1, 1000), {"base_from_camera": facing(180)}, 0, 1.0),
    ("behind, -180, is bin 0", pixel(1, 1, 1000), {"base_from_camera": facing(-180)}, 0, 1.0),
    ("behind by a rounded rotation is bin 0", pixel(1, 1, 1000), {"base_from_camera": turned_about_z(math.pi)}, 0, 1.0),
    ("just short of +180", pixel(2, 1, 1000), {"base_from_camera": facing(180)}, 177, math.hypot(1.0, 0.1)),
    ("at near", pixel(1, 1, 100), {}, 90, 0.1),
    ("nearer", pixel(1, 1, 99), {}, None, None),
    ("at far", pixel(1, 1, 10_000), {}, 90, 10.0),
    ("farther", pixel(1, 1, 10_001), {}, None, None),
    ("limits are of depth, not of range", pixel(2, 1, 10_000), {}, 87, math.hypot(10.0, 1.0)),
    ("greatest depth", pixel(1, 1, 65_535), {"near_far": (0.0, 100.0)}, 90, 65.535),
    ("zero is no return even at near 0", pixel(1, 1, 0), {"near_far": (0.0, 10.0)}, None, None),
    ("at the floor of the band", pixel(1, 1, 1000), {"base_from_camera": facing(0, 0.05)}, 90, 1.0),
    ("one unit below the band", pixel(1, 1, 1000), {"base_from_camera": facing(0, 0.049)}, None, None),
    ("at the ceiling of the band", pixel(1, 1, 1000), {"base_from_camera": facing(0, 1.2)}, 90, 1.0),
    ("one unit above the band", pixel(1, 1, 1000), {"base_from_camera": facing(0, 1.201)}, None, None),
    ("0.3 - 0.25 m is 0.05 m", pixel(1, 2, 2500), {"base_from_camera": facing(0, 0.3)}, 90, 2.5),
    ("0.8 + 0.4 m is 1.2 m", pixel(1, 0, 4000), {"base_from_camera": facing(0, 0.8)}, 90, 4.0),
    ("1.1 + 0.1 m is 1.2 m", pixel(1, 0, 1000), {"base_from_camera": facing(0, 1.1)}, 90, 1.0),
    ("on the axis is ahead", pixel(1, 1, 1000), {"now_from_then": Pose(-1.0, 0.0, 0.0)}, 90, 0.0),
    ("seen before a step ahead", pixel(1, 1, 2000), {"now_from_then": Pose(-0.5, 0.0, 0.0)}, 90, 1.5),
    ("seen before a left turn", pixel(1, 1, 2000), {"now_from_then": Pose(0.0, 0.0, -math.pi / 2)}, 45, 2.0),
    ("inside a body box", pixel(1, 1, 1000), {"boxes": [(0.9, -0.1, 0.4, 1.1, 0.1, 0.6)]}, None, None),
    ("on a body box's side", pixel(1, 1, 1000), {"boxes": [(1.0, 0.0, 0.5, 1.1, 0.1, 0.6)]}, None, None),
    ("beside a body box", pixel(1, 1, 1000), {"boxes": [(0.9, 0.01, 0.4, 1.1, 0.1, 0.6)]}, 90, 1.0),
    ("above a body box", pixel(1, 1, 1000), {"boxes": [(0.9, -0.1, 0.0, 1.1, 0.1, 0.49)]}, 90, 1.0),
    ("in the second box", pixel(1, 1, 1000), {"boxes": [(-1, -1, -1, 0, 0, 0), (0, -1, 0, 2, 1, 1)]}, None, None),
    (
        "boxes are judged at capture",
        pixel(1, 1, 1000),
        {"boxes": [(0.4, -0.1, 0.4, 0.6, 0.1, 0.6)], "now_from_then": Pose(-0.5, 0.0, 0.0)},
        90,
        0.5,
    ),
]


@pytest.mark.parametrize("fuse", FUSIONS)
@pytest.mark.parametrize(("image", "changes", "bin_", "range_m"), [pytest.param(*c[1:], id=c[0]) for c in CASES])
def test_one_pixel(fuse: Fusion, image: np.ndarray, changes: dict[str, Any], bin_: int | None, range_m: float) -> None:
    if "boxes" in changes:
        changes = changes | {"boxes": np.array(changes["boxes"], dtype=np.float64)}
    expected = np.full(BINS, np.inf, dtype=np.float32)
    if bin_ is not None:
        expected[bin_] = range_m
    result = ranges(fuse, image, **changes)
    assert np.flatnonzero(np.isfinite(result)).tolist() == np.flatnonzero(np.isfinite(expected)).tolist()
    assert result == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("fuse", FUSIONS)
def test_the_nearest_point_of_a_bin_counts(fuse: Fusion) -> None:
    image = np.array([[3000, 1500, 4000], [0, 2000, 0], [0, 1800, 0]], dtype=np.uint16)
    assert ranges(fuse, image)[90] == np.float32(1.5)


@pytest.mark.parametrize("fuse", FUSIONS)
def test_ranges_are_only_lowered(fuse: Fusion) -> None:
    ranges_m = np.full(BINS, 1.0, dtype=np.float32)
    limits = (0.1, 10.0, 0.05, 1.2, NO_BOXES)
    fuse(ranges_m, pixel(1, 1, 2000), 10.0, 10.0, 1.0, 1.0, 0.001, LEVEL, planar(IDENTITY), *limits)
    assert (ranges_m == 1.0).all()
    fuse(ranges_m, pixel(1, 1, 500), 10.0, 10.0, 1.0, 1.0, 0.001, LEVEL, planar(IDENTITY), *limits)
    assert ranges_m[90] == 0.5
    assert (np.delete(ranges_m, 90) == 1.0).all()


def test_read_only_arrays_are_taken_and_inputs_stay_as_they_are() -> None:
    image, transform = pixel(1, 1, 2000), LEVEL.copy()
    image.setflags(write=False)
    transform.setflags(write=False)
    assert ranges(by_kernel, image, base_from_camera=transform)[90] == 2.0


def test_a_frame_allocates_nothing_and_an_eye_survives_a_copy() -> None:
    depth = np.asarray(Image.open(FRAMES[0])).astype(np.uint16)
    projection = projection_of(depth.shape, 384.0, 384.0, 320.0, 240.0, 0.001, LEVEL, 0.1, 10.0, 0.05, 1.2, NO_BOXES)
    ranges_m, motion = np.full(BINS, np.inf, dtype=np.float32), planar(IDENTITY)
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats().alloc
    lower_ranges(ranges_m, depth, projection, motion)
    handles = sum(isinstance(signature, types.Array) for signature in fusion_kernel._lower.signatures[0])
    assert rtsys.get_allocation_stats().alloc - before == handles  # numba's own, one for each array that it is given
    _nrt_python.memsys_disable_stats()
    again_m = np.full(BINS, np.inf, dtype=np.float32)
    lower_ranges(again_m, depth, pickle.loads(pickle.dumps(projection)), motion)
    assert np.isfinite(ranges_m).sum() > 30
    assert np.array_equal(ranges_m, again_m)


def attitude(yaw_deg: float, down_deg: float, roll_deg: float) -> np.ndarray:
    """Return `base_from_camera` of a camera 0.6 m up and 0.2 m ahead of the axis, then turned to its yaw."""
    turns = (("z", yaw_deg), ("y", down_deg), ("x", roll_deg))
    transform = np.eye(4)
    for axis, degrees in turns:
        half = math.radians(degrees) / 2
        vector = [math.sin(half) * (axis == one) for one in "xyz"]
        turn = np.eye(4)
        turn[:3, :3] = rotation_from_quaternion((*vector, math.cos(half)))
        transform = transform @ turn
        if axis == "z":
            transform[:3, 3] = transform[:3, :3] @ (0.2, 0.0, 0.6)
    return transform @ [[0.0, 0, 1, 0], [-1, 0, 0, 0], [0, -1, 0, 0], [0, 0, 0, 1]]


NOISE = pytest.mark.parametrize("noise_per_m", [0.0, 0.005], ids=["nearest", "mean"])


def test_edges_are_exact_and_symmetric() -> None:
    assert EDGES.shape == (BINS + 1, 2)
    azimuth = np.radians(np.arange(BINS + 1) * BIN_DEG - 180.0)
    assert np.stack([np.cos(azimuth), np.sin(azimuth)], axis=1) == pytest.approx(EDGES, abs=1e-15)
    assert np.array_equal(EDGES[BINS // 2 :], -EDGES[: BINS // 2 + 1])
    assert np.array_equal(EDGES[::-1] * [1, -1], EDGES)


def test_a_point_on_an_edge_belongs_to_the_bin_on_its_left() -> None:
    for scale in (0.1, 1.0, 7.3):
        x, y = scale * EDGES[:BINS].T
        assert np.array_equal(bins_of(x, y), np.arange(BINS))
        before = np.radians(np.arange(BINS) * BIN_DEG - 180.0 - 1e-5)
        assert np.array_equal(bins_of(scale * np.cos(before), scale * np.sin(before)), (np.arange(BINS) - 1) % BINS)


@given(st.floats(-math.pi, math.pi), st.floats(0.01, 100.0))
def test_bins_are_those_of_the_angle(azimuth: float, radius: float) -> None:
    place = (math.degrees(azimuth) + 180.0) / BIN_DEG
    bin_ = int(bins_of(np.array([radius * math.cos(azimuth)]), np.array([radius * math.sin(azimuth)]))[0])
    if abs(place - round(place)) > 1e-5:
        assert bin_ == math.floor(place)
    else:
        assert bin_ in {round(place) % BINS, (round(place) - 1) % BINS}


quaternions = st.tuples(*[st.floats(-1, 1)] * 4).filter(lambda q: np.linalg.norm(q) > 0.1)
metres = st.floats(-1.5, 1.5)
boxes = st.lists(st.tuples(*[st.floats(-1, 0)] * 3, *[st.floats(0.01, 1)] * 3), max_size=3)
sizes = st.tuples(st.integers(1, 40), st.sampled_from([1, 3, 12, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK - 1]))


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    size=sizes,
    deepest=st.sampled_from([3, 2000, 12_000, 65_535]),
    f=st.tuples(st.floats(0.5, 500), st.floats(0.5, 500)),
    c=st.tuples(st.floats(-20, 20), st.floats(-20, 20)),
    scale=st.sampled_from([0.001, 0.0001, 0.00025, 0.05]),
    quaternion=quaternions,
    position=st.tuples(metres, metres, metres),
    now_from_then=st.builds(Pose, metres, metres, st.floats(-math.pi, math.pi)),
    near_m=st.floats(0, 1),
    z_min_m=st.floats(-0.5, 0.5),
    boxes_m=boxes,
    noise_per_m=st.sampled_from([0.0, 0.005, 0.3]),
)
@example(0, (3, 3), 3, (1.0, 1.0), (1.0, 1.0), 0.001, (0, 0, 0, 1), (0, 0, 0), IDENTITY, 0.0, -0.5, [], 0.0)
@example(0, (3, 3), 3, (1.0, 1.0), (1.0, 1.0), 0.001, (0, 0, 1, 0), (0, 0, 0), IDENTITY, 0.0, -0.5, [], 0.0)
def test_kernel_is_its_definition(
    seed, size, deepest, f, c, scale, quaternion, position, now_from_then, near_m, z_min_m, boxes_m, noise_per_m
) -> None:
    depth = np.random.default_rng(seed).integers(0, deepest, size, dtype=np.uint16, endpoint=True)
    transform = np.eye(4)
    transform[:3, :3] = rotation_from_quaternion(tuple(np.array(quaternion) / np.linalg.norm(quaternion)))
    transform[:3, 3] = position
    setting = {
        "f": f,
        "c": c,
        "scale": scale,
        "base_from_camera": transform,
        "now_from_then": now_from_then,
        "near_far": (near_m, near_m + 8.0),
        "band": (z_min_m, z_min_m + 1.0),
        "boxes": np.array(boxes_m).reshape(-1, 6),
        "noise_per_m": noise_per_m,
    }
    kernel = ranges(by_kernel, depth, **setting)
    assert np.array_equal(kernel, ranges(fuse_plain, depth, **setting))
    assert np.array_equal(kernel, ranges(pixel_by_pixel, depth, **setting))


@NOISE
@pytest.mark.parametrize("motion", [IDENTITY, Pose(0.4, -0.2, 0.7)], ids=["now", "registered"])
@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
def test_kernel_is_its_definition_on_real_frames(path: Path, motion: Pose, noise_per_m: float) -> None:
    depth = np.asarray(Image.open(path)).astype(np.uint16)
    tilt = np.eye(4)
    tilt[:3, :3] = rotation_from_quaternion((0.0, math.sin(math.radians(10)), 0.0, math.cos(math.radians(10))))
    transform = tilt @ LEVEL  # pitched 20 deg down
    transform[:3, 3] = (0.2, 0.0, 0.6)
    box = np.array([(0.3, -0.2, 0.0, 0.8, 0.2, 0.5)])
    setting = {"f": (384.0, 384.0), "c": (320.0, 240.0), "base_from_camera": transform, "now_from_then": motion}
    setting["noise_per_m"] = noise_per_m
    for body in (NO_BOXES, box):
        kernel = ranges(by_kernel, depth, boxes=body, **setting)
        assert np.isfinite(kernel).sum() > 30
        assert np.array_equal(kernel, ranges(fuse_plain, depth, boxes=body, **setting))


def test_there_are_real_frames() -> None:
    assert len(FRAMES) == 6


def view(depth_m: np.ndarray, noise_per_m: float, seed: int = 0) -> np.ndarray:
    """Return the ranges ahead that a camera of 848x480 with this noise measures; depth_m: (480, 848)."""
    per_m = 1.0 / depth_m + np.random.default_rng(seed).normal(0.0, noise_per_m, depth_m.shape)
    image = np.clip(1000.0 / np.maximum(per_m, 1e-3), 0, 65_535).astype(np.uint16)
    return ranges(by_kernel, image, f=(424.0, 424.0), c=(423.5, 239.5), noise_per_m=0.005)


def columns(width: int = 848) -> np.ndarray:
    return (np.arange(width) - 423.5) / 424.0


@pytest.mark.parametrize(("wall_m", "within_m"), [(0.8, 0.005), (1.5, 0.01), (2.5, 0.02), (4.0, 0.05)])
@pytest.mark.parametrize("noise_per_m", [0.0, 0.003, 0.005])
def test_a_flat_wall_is_where_it_is(wall_m: float, within_m: float, noise_per_m: float) -> None:
    measured_m = view(np.full((480, 848), wall_m), noise_per_m)
    ahead = np.arange(BINS // 2 - 12, BINS // 2 + 12)
    bearing = np.radians((ahead + 0.5) * BIN_DEG - 180.0)
    assert np.abs(measured_m[ahead] * np.cos(bearing) - wall_m).max() < within_m


@pytest.mark.parametrize("noise_per_m", [0.0, 0.005])
@pytest.mark.parametrize("leg_m", [0.6, 1.0, 1.5, 2.0])
def test_a_thin_leg_before_a_wall_stays(leg_m: float, noise_per_m: float) -> None:
    """Legs of 1.5 cm, in every bin: none is lost, and none is farther than by the noise of one pixel."""
    for bin_ in range(BINS // 2 - 15, BINS // 2 + 15):
        slope = math.tan(math.radians((bin_ + 0.5) * BIN_DEG - 180.0))
        leg = np.abs(columns() - -slope) * leg_m < 0.0075
        depth_m = np.where(leg[np.newaxis], leg_m, 4.0) * np.ones((480, 1))
        measured_m = view(depth_m, noise_per_m, bin_)[bin_]
        assert measured_m < math.hypot(leg_m, leg_m * slope) + 0.005 + 2.5 * noise_per_m * leg_m**2


def test_a_mean_is_never_nearer_than_the_nearest_point_nor_farther_than_noise() -> None:
    for path in FRAMES:
        depth = np.asarray(Image.open(path)).astype(np.uint16)
        setting = {"f": (384.0, 384.0), "c": (320.0, 240.0), "base_from_camera": attitude(0, 20, 0)}
        nearest_m, mean_m = (ranges(by_kernel, depth, noise_per_m=noise, **setting) for noise in (0.0, 0.005))
        assert (mean_m >= nearest_m).all()
        assert (1.0 / mean_m >= 1.0 / nearest_m - 6.0 * 0.005 - 1e-6).all()
