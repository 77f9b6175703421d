"""Objects per area: they stay in their rectangle and repeat by seed; invalid files are refused."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from hil.maps.world_grid import World
from hil.scene.areas import KIND_NAMES, Area, load_areas, respawn
from onboard.values.errors import OnboardError
from onboard.values.messages import Pose
from tests.rigs.rooms import room

HALL = room(20.0, 12.0)
LEFT = Area("left", (0.0, 8.0), (0.0, 12.0), count=30)


def new_cells(bare: World, world: World) -> np.ndarray:
    """Return (n, 2) x, y of the centres of newly solid cells, in the map frame."""
    return np.array([bare.centre_of((int(r), int(c))) for r, c in np.argwhere((world.gap == 0) & (bare.gap > 0))])


def test_objects_are_within_their_area():
    xy = new_cells(HALL, respawn(HALL, [LEFT], 1))
    assert len(xy) > 100
    assert xy[:, 0].max() < 8.0


def test_an_area_is_in_the_map_frame_however_the_grid_is_turned():
    """The grid of the hall is rotated by 90 deg, so the hall reaches from the origin towards -x."""
    turned = room(20.0, 12.0, map_from_grid=Pose(0.0, 0.0, math.pi / 2))
    xy = new_cells(turned, respawn(turned, [Area("near", (-6.0, 0.0), (0.0, 20.0), count=30)], 1))
    assert len(xy) > 100
    assert xy[:, 0].min() > -6.0
    assert xy[:, 1].max() > 12.0


def test_an_area_contains_only_its_kinds():
    xy = new_cells(HALL, respawn(HALL, [Area("poles", (0.0, 20.0), (0.0, 12.0), count=10, kinds=("pole",))], 1))
    assert len(xy) == 10


def test_an_area_outside_the_building_is_refused():
    with pytest.raises(OnboardError, match="area far: map room has no free indoor floor in it"):
        respawn(HALL, [Area("far", (100.0, 110.0), (0.0, 1.0))], 1)


def test_a_file_of_areas(tmp_path: Path):
    file = tmp_path / "areas.toml"
    file.write_text(
        '[[area]]\nname = "hall"\nrectangle_m = [8, 0, 2.5, 3]\ndensity = 2\n'
        '[[area]]\nname = "corner"\nrectangle_m = [0, 0, 1, 1]\ncount = 4\nkinds = ["box", "chair"]\n'
    )
    assert load_areas(file) == (
        Area("hall", (2.5, 8.0), (0.0, 3.0), None, 2.0, KIND_NAMES),
        Area("corner", (0.0, 1.0), (0.0, 1.0), 4, 1.0, ("box", "chair")),
    )


AREA = '[[area]]\nname = "hall"\nrectangle_m = [0, 0, 8, 3]\n'

# name, text, words of the line
BAD = [
    ("empty", "", ["area", "required"]),
    ("not TOML", "[[area", ["not valid TOML"]),
    ("unknown key", AREA + "colour = 1", ["unknown key area.0.colour"]),
    ("no rectangle", '[[area]]\nname = "hall"', ["area.0.rectangle_m"]),
    ("a rectangle of three", AREA.replace("8, 3", "8"), ["area.0.rectangle_m"]),
    ("NaN", AREA.replace("8, 3", "nan, 3"), ["area.0.rectangle_m.2", "nan"]),
    ("a line", AREA.replace("8, 3", "0, 3"), ["area.0", "two different corners"]),
    ("fewer than none", AREA + "count = -1", ["area.0.count", "-1"]),
    ("too many", AREA + "count = 1000000", ["area.0.count", "10000"]),
    ("both", AREA + "count = 3\ndensity = 1", ["only one of them"]),
    ("density below zero", AREA + "density = -1", ["area.0.density", "-1"]),
    ("an unknown kind", AREA + 'kinds = ["cow"]', ["unknown 'cow'", "shelf"]),
    ("no kind", AREA + "kinds = []", ["area.0.kinds"]),
]


@pytest.mark.parametrize(("name", "text", "words"), BAD, ids=[row[0] for row in BAD])
def test_a_bad_file_is_refused_in_one_line(name, text, words, tmp_path: Path):
    (tmp_path / "areas.toml").write_text(text)
    with pytest.raises(OnboardError) as refused:
        load_areas(tmp_path / "areas.toml")
    line = str(refused.value)
    assert line.startswith(str(tmp_path / "areas.toml"))
    assert "\n" not in line
    for word in words:
        assert word in line
