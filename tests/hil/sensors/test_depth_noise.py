"""The simulated depth camera against real frames, with the same statistics; and dependence on the seed alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from hil.commands.develop.depth_noise import compare, summary
from hil.sensors.depth_calibration.fit import FOCAL_PX, UNIT_M, as_toml, read_frames, same_scenes, slanted_planes
from hil.sensors.depth_calibration.kernels import blob_areas, fill_holes, runs_of
from hil.sensors.depth_calibration.statistics import measure_holes, measure_surfaces
from hil.sensors.depth_noise import DepthNoise, load_depth_noise
from hil.sensors.depth_noise_kernels import EDGE_PER_M
from onboard.values.errors import ConfigError, InputError

REAL = Path(__file__).parents[2] / "data" / "realsense-office"
"""Six of the hundred frames that the parameters were fitted to."""
MODEL = load_depth_noise()
SIX_FRAMES = 0.25
"""Relative tolerance, since six frames differ from the hundred frames of the fit."""


@pytest.fixture(scope="module")
def real():
    return read_frames(REAL)[1]


@pytest.fixture(scope="module")
def simulated(real):
    return same_scenes(MODEL, real)


def perfect(**changes: object) -> DepthNoise:
    """Return a model whose only faults are the given changes."""
    none = {
        "disparity_px_m": 1e-9, "step_per_m": 1e-9, "least_m": 0.0, "rim_px": 0.0, "rim_sd_px": 0.0, "band_px": 0.0,
        "depth_m": (1.0, 10.0), "sd_per_m": (0.0, 0.0), "dropout": (0.0, 0.0),
    }  # fmt: skip
    return DepthNoise(MODEL.numbers.model_copy(update={**none, **changes}))


def test_simulated_holes_match_real_holes_in_number_and_cause(real, simulated):
    ours, theirs = measure_holes(simulated), measure_holes(real)
    for cause in ("share", "band", "shadow"):
        assert getattr(ours, cause) == pytest.approx(getattr(theirs, cause), rel=SIX_FRAMES), cause
    assert ours.rim == pytest.approx(theirs.rim, abs=0.004)
    assert ours.dropout == pytest.approx(theirs.dropout, abs=0.004)
    assert ours.rim_px == pytest.approx(theirs.rim_px, abs=1.0)
    np.testing.assert_allclose(ours.band_px, theirs.band_px, atol=4.0)


def test_shadow_widths_follow_the_baseline(real, simulated):
    ours, theirs = measure_holes(simulated), measure_holes(real)
    known = (theirs.shadow_px > 0.0) & (ours.shadow_px > 0.0)
    assert known.sum() >= 5
    np.testing.assert_allclose(ours.shadow_px[known], theirs.shadow_px[known], atol=2.5)
    slope = np.polyfit(ours.jump_per_m[known], ours.shadow_px[known], 1)[0]
    assert slope == pytest.approx(MODEL.numbers.disparity_px_m, rel=0.15)


def test_noise_grows_with_depth_like_real_noise(real):
    ours, theirs = measure_surfaces(slanted_planes(MODEL, 6)), measure_surfaces(real)
    known = np.isfinite(ours.sd_per_m) & np.isfinite(theirs.sd_per_m)
    assert known.sum() >= 6
    np.testing.assert_allclose(ours.sd_per_m[known], theirs.sd_per_m[known], rtol=SIX_FRAMES)
    np.testing.assert_allclose(ours.correlation, theirs.correlation, atol=0.25)
    assert ours.step_per_m == pytest.approx(theirs.step_per_m, rel=0.01)
    assert (np.diff(ours.sd_m[known]) > 0.0).all()


@given(
    depth=st.lists(st.integers(0, 65535), min_size=12 * 16, max_size=12 * 16),
    seed=st.integers(0, 2**32 - 1),
    focal_px=st.floats(4.0, 400.0),
)
@settings(max_examples=50, deadline=None)
def test_noise_adds_no_depth_to_holes(depth, seed, focal_px):
    true = np.array(depth, np.uint16).reshape(12, 16)
    before = true.copy()
    seen = MODEL.apply(true, focal_px, UNIT_M, (seed,))
    assert seen.dtype == np.uint16
    assert not seen[true == 0].any()
    assert not seen[(seen > 0) & (seen * UNIT_M < MODEL.numbers.least_m)].any()
    np.testing.assert_array_equal(true, before)


def test_a_shadow_is_on_the_background_to_the_left():
    """A box at 1 m in front of a wall at 4 m: 20 px m (1/1 - 1/4) = 15 px."""
    scene = np.full((4, 100), 4000, np.uint16)
    scene[:, 50:70] = 1000
    seen = perfect(disparity_px_m=20.0).apply(scene, FOCAL_PX, UNIT_M, (1,))
    band, shadow = np.arange(5), np.arange(35, 50)
    hidden = np.flatnonzero(seen[0] == 0)
    assert set(shadow) <= set(hidden)
    assert set(hidden) <= {*band, *shadow, 34, 70}


def test_runs_and_blobs_of_a_drawn_frame():
    frame = np.array([[0.0, 0.0, 2.0, 0.0, 2.0, 0.0], [1.0, 0.0, 0.0, 2.0, 2.0, 0.5]])[np.newaxis]
    runs, bands = runs_of(frame, EDGE_PER_M)
    np.testing.assert_array_equal(runs, [[1, 2.0, 2.0], [2, 1.0, 2.0], [0, 2.0, 0.5]])
    np.testing.assert_array_equal(bands, [[2, 2.0], [0, 1.0]])
    assert sorted(blob_areas(frame == 0.0)) == [1, 1]
    filled = [[2.0, 2.0, 2.0, 2.0, 2.0, 2.0], [1.0, 2.0, 2.0, 2.0, 2.0, 0.5]]
    np.testing.assert_allclose(fill_holes(frame, EDGE_PER_M)[0], filled)


def test_the_parameters_round_trip_through_their_file(tmp_path):
    file = tmp_path / "numbers.toml"
    file.write_text(as_toml(MODEL.numbers))
    assert load_depth_noise(file).numbers == MODEL.numbers
    assert "MIT" in MODEL.numbers.licence


#  name, what is replaced, by what, what the line says
BAD_NUMBERS = [
    ("too few", "sd_per_m = [0.00354, ", "sd_per_m = [", "sd_per_m: must have 9 numbers"),
    ("not ascending", "depth_m = [0.592, 0.837", "depth_m = [0.837, 0.592", "depth_m: must ascend"),
    ("negative", "rim_px = 3.0", "rim_px = -3.0", "rim_px"),
    ("unknown", "rim_px", "rims_px", "unknown key rims_px|rim_px: Field required"),
]


@pytest.mark.parametrize(("name", "old", "new", "line"), BAD_NUMBERS)
def test_bad_numbers_are_refused(name, old, new, line, tmp_path):
    text = as_toml(MODEL.numbers)
    assert old in text
    (tmp_path / "numbers.toml").write_text(text.replace(old, new))
    with pytest.raises(ConfigError, match=line):
        load_depth_noise(tmp_path / "numbers.toml")


def test_the_command_measures_fits_and_draws(tmp_path):
    result = compare(REAL, tmp_path / "both.png", tmp_path / "numbers.toml")
    assert result["frames"] == 6
    assert json.loads(json.dumps(result)) == result
    assert (tmp_path / "both.png").stat().st_size > 0
    fitted = load_depth_noise(tmp_path / "numbers.toml").numbers
    assert fitted.disparity_px_m == pytest.approx(MODEL.numbers.disparity_px_m, rel=0.15)
    assert fitted.step_per_m == pytest.approx(MODEL.numbers.step_per_m, rel=0.01)
    assert "real" in summary(result)


#  name, frames of the folder, what the line says
BAD_FOLDERS = [
    ("nothing in it", [], "no .png or .pgm with depth in it"),
    ("no depth", [np.zeros((40, 40), np.uint16)], "no depth in any of 1 frames"),
    ("two sizes", [np.ones((40, 40), np.uint16), np.ones((30, 40), np.uint16)], r"1.png: \(30, 40\) pixels, 0.png has"),
    ("only a wall", [np.full((200, 200), 1500, np.uint16)] * 3, "planes in 1 of 9 classes .* shadows .* 0 of 6"),
]


@pytest.mark.parametrize(("name", "frames", "line"), BAD_FOLDERS)
def test_a_folder_with_too_little_data_is_refused(name, frames, line, tmp_path):
    for k, frame in enumerate(frames):
        Image.fromarray(frame).save(tmp_path / f"{k}.png")
    with pytest.raises(InputError, match=line):
        compare(tmp_path)
