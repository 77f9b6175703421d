"""The keep-out brush: strokes in nav2's mask, read again by the runtime's own reader; bad strokes change nothing."""

from __future__ import annotations

import io
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from onboard.commands.operator.dashboard.keep_out import MOST_POINTS, KeepOut
from onboard.config.config import Config, MapSection, ZonesSection
from onboard.config.footprint import Footprint
from onboard.perception.building.map_image import OCCUPIED, occupied_cells
from onboard.perception.building.occupancy_grid import OccupancyGrid, load_grid, write_grid
from onboard.safety import keepout_zones
from onboard.values.errors import ConfigError, InputError
from onboard.values.messages import Pose

CORNER = Pose(-2.123456, 1.5, 0.3)
ROOM = OccupancyGrid(0.05, CORNER, np.zeros((100, 200), np.int8))
INSIDE = [[1.0, 3.0], [2.0, 3.5]]


def with_map(folder: Path, zones: ZonesSection | None = None) -> KeepOut:
    write_grid(ROOM, folder / "map.yaml", folder / "map.pgm")
    return KeepOut(Config(map=MapSection(file=folder / "map.yaml"), zones=zones or ZonesSection()))


def stroke(points: Any = None, radius_m: Any = 0.3, **more: Any) -> dict[str, Any]:
    return {"strokes": [{"points": INSIDE if points is None else points, "radius_m": radius_m, **more}]}


def test_a_stroke_forbids_at_least_its_width_and_erasing_frees_it(tmp_path: Path) -> None:
    brush = with_map(tmp_path)
    assert not (tmp_path / "keep_out.yaml").exists()
    said = brush.paint(stroke())
    assert "set zones.keep_out" in said
    mask = load_grid(tmp_path / "keep_out.yaml", occupied_cells)
    assert mask.map_from_grid == CORNER
    centres = mask.centres_m(Pose(0.0, 0.0, 0.0), np.argwhere(np.ones_like(mask.percent)), (0, 0))
    (ax, ay), (bx, by) = INSIDE
    along = np.clip(((centres - [ax, ay]) @ [bx - ax, by - ay]) / ((bx - ax) ** 2 + (by - ay) ** 2), 0.0, 1.0)
    away = np.hypot(*(centres - [ax, ay] - along[:, None] * [bx - ax, by - ay]).T).reshape(mask.percent.shape)
    assert mask.occupied[away < 0.3 - 0.05].all()
    assert not mask.occupied[away > 0.3 + 0.1].any()
    painted = Image.open(io.BytesIO(brush.mask().picture)).convert("RGBA")  # type: ignore[union-attr]
    assert ((np.asarray(painted)[::-1, :, 3] > 0) == mask.occupied).all()
    brush.paint(stroke([*INSIDE, [2.5, 3.6]], 1.0, erase=True))
    assert not load_grid(tmp_path / "keep_out.yaml", occupied_cells).occupied.any()
    assert len(list(tmp_path.glob("keep_out-*.pgm"))) == 1, "the image before is gone"


def test_the_configured_mask_is_changed_and_the_runtime_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "own.yaml"
    before = np.zeros((60, 80), np.int8)
    before[:5] = OCCUPIED
    write_grid(OccupancyGrid(0.05, Pose(0.0, 0.0, 0.0), before), file, tmp_path / "own.pgm")
    zones = ZonesSection(keep_out=file)
    brush = with_map(tmp_path, zones)
    assert "when the runtime starts again" in brush.paint(stroke([[2.0, 2.0]], 0.2))
    masks = keepout_zones.load_zones(zones, 1.0, Footprint(0.25))
    assert masks is not None
    assert masks.keep_out is not None
    assert masks.keep_out.occupied[:5].all()
    assert masks.keep_out.occupied[40, 40]
    digest = keepout_zones.diagnostic(masks)[3][keepout_zones.KEEP_OUT]
    assert digest == brush.mask().grid.digest[: keepout_zones.DIGITS]  # type: ignore[union-attr]
    assert (tmp_path / "own.pgm").exists(), "an image of others stays"
    brush.paint(stroke([[1.0, 1.0]], 0.2))
    assert digest != brush.mask().grid.digest[: keepout_zones.DIGITS]  # type: ignore[union-attr]


BAD: list[tuple[Any, str]] = [
    (None, "strokes are"),
    ({"strokes": []}, "strokes are"),
    ({"strokes": [{}]}, "strokes are"),
    (stroke([[1.0, math.nan]]), "strokes are"),
    (stroke([[1.0]]), "strokes are"),
    (stroke([["1", 2.0]]), "strokes are"),
    (stroke(erase="no"), "strokes are"),
    (stroke(radius_m=0.0), "radius_m: 0.0, the limit is 5 m"),
    (stroke(radius_m=math.inf), "radius_m: inf"),
    (stroke(radius_m=True), "radius_m: True"),
    (stroke([[1.0, 3.0]] * (MOST_POINTS + 1)), f"the limit is {MOST_POINTS}"),
    (stroke([[1.0, 3.0], [100.0, 3.0]]), "(100.00, 3.00) is outside the mask"),
    (stroke([[1e300, -1e300]]), "is outside the mask"),
]


@pytest.mark.parametrize(("table", "said"), BAD, ids=range(len(BAD)))
def test_bad_strokes_change_nothing(tmp_path: Path, table: Any, said: str) -> None:
    brush = with_map(tmp_path)
    with pytest.raises(InputError) as caught:
        brush.paint(table)
    assert said in str(caught.value)
    assert not (tmp_path / "keep_out.yaml").exists()


def test_without_a_map_there_is_no_brush() -> None:
    brush = KeepOut(Config())
    assert brush.mask() is None
    with pytest.raises(ConfigError, match=r"map\.file"):
        brush.paint(stroke())


def test_weights_and_folders_that_cannot_be_written_get_a_line(tmp_path: Path) -> None:
    brush = with_map(tmp_path)
    brush.paint(stroke())
    text = (tmp_path / "keep_out.yaml").read_text().replace("trinary", "scale")
    (tmp_path / "keep_out.yaml").write_text(text)
    image = next(tmp_path.glob("keep_out-*.pgm"))
    grey = np.asarray(Image.open(image)).copy()
    grey[0, 0] = 128
    Image.fromarray(grey).save(image)
    with pytest.raises(InputError, match="it has weights"):
        brush.paint(stroke())
    (tmp_path / "keep_out.yaml").unlink()
    (tmp_path / ".keep_out.yaml.new").mkdir()
    with pytest.raises(InputError, match=r"keep_out\.yaml: cannot be written"):
        brush.paint(stroke())
    assert not (tmp_path / "keep_out.yaml").exists(), "the yaml is written last"


def test_a_map_of_200_m_is_painted_in_a_moment(tmp_path: Path) -> None:
    write_grid(
        OccupancyGrid(0.05, Pose(0.0, 0.0, 0.0), np.zeros((4000, 4000), np.int8)),
        tmp_path / "map.yaml",
        tmp_path / "map.pgm",
    )
    brush = KeepOut(Config(map=MapSection(file=tmp_path / "map.yaml")))
    assert "m² forbidden" in brush.paint(stroke([[1.0, 1.0], [199.0, 199.0]], 0.5))
    began_s, cpu_s = time.monotonic(), time.process_time()
    mask = brush.mask()
    assert mask is not None
    assert mask.grid.occupied[2000, 2000]
    os.utime(tmp_path / "map.yaml")
    again_s = time.process_time()
    assert brush.mask() is mask, "it is read again only when its file changes"
    assert time.process_time() - again_s < 0.1 * max(again_s - cpu_s, 0.1), time.monotonic() - began_s
