"""Views: by seed and number alone, labelled by what is there, by a camera that is nearly where it should be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engines.encoder.config import ViewsSection
from engines.encoder.views import (
    FARTHEST_M,
    FORWARD,
    FORWARD_BINS,
    LEAST_WAY_M,
    building_count,
    color_mount,
    draw_view,
    jittered,
    labels_of,
    make_viewpoints,
)
from hil.sensors.direct_scan import cast_scan
from onboard.values.errors import ConfigError, InputError
from onboard.values.messages import Pose

SECTION = ViewsSection(maps=("depot",), count=40, per_building=20)


@pytest.fixture(scope="module")
def viewpoints():
    return make_viewpoints(SECTION, "train", 0, 0)


def test_a_view_is_a_function_of_seed_and_number(viewpoints):
    again = make_viewpoints(SECTION, "train", 0, 0)
    first, same = draw_view(SECTION, "train", 0, 7, viewpoints), draw_view(SECTION, "train", 0, 7, again)
    np.testing.assert_array_equal(first.image, same.image)
    np.testing.assert_array_equal(first.labels, same.labels)


#    name             split    seed  number
OTHERS = [("another number", "train", 0, 8), ("another seed", "train", 1, 7), ("the other split", "test", 0, 7)]


@pytest.mark.parametrize(("name", "split", "seed", "number"), OTHERS, ids=[row[0] for row in OTHERS])
def test_another_view_is_another(viewpoints, name, split, seed, number):
    first, other = draw_view(SECTION, "train", 0, 7, viewpoints), draw_view(SECTION, split, seed, number, viewpoints)
    assert (first.labels != other.labels).any()
    assert (first.image != other.image).mean() > 0.5


def test_buildings_differ_by_furniture(viewpoints):
    other = make_viewpoints(SECTION, "train", 0, 1)
    assert (other.world.gap != viewpoints.world.gap).any()
    assert building_count(SECTION) == 2


def test_labels_are_the_scan_ahead_and_end_at_ten_metres(viewpoints):
    row, column = viewpoints.cells[len(viewpoints.cells) // 2]
    pose = Pose(*viewpoints.world.centre_of((int(row), int(column))), 0.3)
    labels = labels_of(viewpoints, pose)
    scan = cast_scan(viewpoints.world, pose)[FORWARD]
    np.testing.assert_array_equal(labels[:FORWARD_BINS], np.minimum(scan, FARTHEST_M))
    assert LEAST_WAY_M <= labels[-1] <= FARTHEST_M


def test_views_have_room_and_finite_labels(viewpoints):
    views = [draw_view(SECTION, "train", 0, number, viewpoints) for number in range(20)]
    labels = np.array([view.labels for view in views])
    assert np.isfinite(labels).all()
    assert labels[:, :FORWARD_BINS].min() > SECTION.footprint_m
    assert labels.max() <= FARTHEST_M


def test_few_views_look_at_a_wall_before_the_body(viewpoints):
    picky = SECTION.model_copy(update={"facing_m": 2.0, "facing": 0.0})
    assert all(draw_view(picky, "train", 0, number, viewpoints).labels[-1] >= 2.0 for number in range(8))


def test_people_shorten_what_is_ahead(viewpoints):
    crowded = SECTION.model_copy(update={"people": 1.0, "facing": 1.0})
    empty = SECTION.model_copy(update={"people": 0.0, "facing": 1.0})
    numbers = range(10)
    with_people = np.array([draw_view(crowded, "train", 0, i, viewpoints).labels for i in numbers])
    without = np.array([draw_view(empty, "train", 0, i, viewpoints).labels for i in numbers])
    assert (with_people <= without).all()
    assert (with_people < without).any()


def test_a_camera_is_never_far_from_its_mount():
    mount = color_mount(SECTION)
    axes = mount.base_from_camera[:3, 2]
    for seed in range(50):
        other = jittered(mount, SECTION, np.random.default_rng(seed))
        away = math.degrees(math.acos(min(1.0, float(axes @ other.base_from_camera[:3, 2]))))
        assert away <= math.hypot(SECTION.tilt_deg, SECTION.turn_deg) + 1e-6
        assert abs(other.base_from_camera[2, 3] - mount.base_from_camera[2, 3]) <= SECTION.height_m
        assert abs(other.fx / mount.fx - 1.0) <= SECTION.zoom
        np.testing.assert_allclose(
            other.base_from_camera[:3, :3] @ other.base_from_camera[:3, :3].T, np.eye(3), atol=1e-12
        )


def test_a_map_without_room_is_refused_by_name():
    with pytest.raises(InputError, match=r"map depot: no free space for a body of radius 9\.0 m"):
        make_viewpoints(SECTION.model_copy(update={"footprint_m": 9.0}), "train", 0, 0)


def test_a_robot_without_a_colour_camera_is_refused(tmp_path):
    text = SECTION.mounts.read_text()
    file = tmp_path / "mounts.toml"
    file.write_text(text[: text.index("[color_cameras")])
    with pytest.raises(ConfigError, match=r"mounts\.toml: color_cameras: expected one, found none"):
        color_mount(SECTION.model_copy(update={"mounts": file}))


def test_a_camera_of_another_size_is_refused(tmp_path):
    text = SECTION.mounts.read_text()
    file = tmp_path / "mounts.toml"
    file.write_text(text.replace("width = 256", "width = 320"))
    with pytest.raises(ConfigError, match=r"color_cameras\.color: 320x144 px, the policy needs 256x144"):
        color_mount(SECTION.model_copy(update={"mounts": file}))
