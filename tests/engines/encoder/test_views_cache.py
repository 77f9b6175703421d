"""Views on disk: the same whoever renders them, not rendered twice, and not mistaken for others."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest
from PIL import Image

from engines.encoder import cache
from engines.encoder.cache import IDENTITY_FILE, identity_of, render_views
from engines.encoder.config import ViewsSection
from engines.train.command import DEFAULT_CONFIG
from engines.train.config import load_train_config
from onboard.values.errors import InputError

SECTION = ViewsSection(maps=("depot",), count=5, per_building=2)


@pytest.fixture(scope="module")
def rendered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    reported: list[tuple[int, int]] = []
    views = render_views(SECTION, "train", 3, folder, report=lambda done, total: reported.append((done, total)))
    return folder, views, reported


def test_progress_is_told_by_building(rendered):
    assert rendered[2] == [(0, 5), (2, 5), (4, 5), (5, 5)]


def test_images_come_by_number(rendered):
    views = rendered[1]
    assert len(views) == 5
    assert views.labels.shape == (5, 45)
    np.testing.assert_array_equal(views.images([4, 1]), np.stack([views.frames[2][0], views.frames[0][1]]))


IDENTITY = "2b4ed9103c275704ac3321c65b8053bede4bf8fe2c8743ad36f5b0efcce00dd6"
"""Of the views of the default recipe, so that trained encoders are not another training's."""


def test_the_default_recipes_views_are_what_they_were():
    section = load_train_config(DEFAULT_CONFIG).encoder.views
    assert hashlib.sha256(identity_of(section, "train", 0).encode()).hexdigest() == IDENTITY


def test_maps_of_ones_own_are_told_apart_by_what_is_in_them_and_in_their_images(tmp_path):
    of = []
    for folder, grey in (("one", 254), ("same", 254), ("other", 0)):
        (tmp_path / folder).mkdir()
        Image.fromarray(np.full((9, 9), grey, np.uint8)).save(tmp_path / folder / "room.pgm")
        (tmp_path / folder / "room.yaml").write_text("image: room.pgm\nresolution: 0.05\norigin: [0, 0, 0]\n")
        section = SECTION.model_copy(update={"maps": (str(tmp_path / folder / "room.yaml"),)})
        of.append(identity_of(section, "train", 0))
    assert of[0] == of[1] != of[2]


@pytest.fixture
def no_rendering(monkeypatch):
    """What is on disk must do."""

    def refuse(order: object) -> None:
        raise AssertionError(order)

    monkeypatch.setattr(cache, "_render", refuse)


def test_what_is_there_is_not_rendered_again(rendered, no_rendering):
    again = render_views(SECTION, "train", 3, rendered[0])
    np.testing.assert_array_equal(again.labels, rendered[1].labels)
    np.testing.assert_array_equal(again.images(range(5)), rendered[1].images(range(5)))


def test_only_what_is_missing_is_rendered_and_comes_out_the_same(rendered):
    folder, views, _ = rendered
    (folder / "00001-labels.npy").unlink()
    reported: list[tuple[int, int]] = []
    again = render_views(SECTION, "train", 3, folder, report=lambda done, total: reported.append((done, total)))
    assert reported == [(3, 5), (5, 5)]
    np.testing.assert_array_equal(again.labels, views.labels)


#    name                  section                                            split    seed
OTHERS = [
    ("another seed", SECTION, "train", 4),
    ("another section", SECTION.model_copy(update={"people": 0.9}), "train", 3),
]


@pytest.mark.parametrize(("name", "section", "split", "seed"), OTHERS, ids=[row[0] for row in OTHERS])
def test_a_folder_of_other_views_is_refused(rendered, name, section, split, seed):
    with pytest.raises(InputError, match="holds views of another configuration or seed"):
        render_views(section, split, seed, rendered[0])


def test_identity_knows_the_camera_but_not_where_its_file_lies(tmp_path):
    moved, changed = tmp_path / "moved.toml", tmp_path / "changed.toml"
    text = SECTION.mounts.read_text()
    moved.write_text(text)
    changed.write_text(text.replace("fx = 128.0", "fx = 120.0"))
    of = [identity_of(SECTION.model_copy(update={"mounts": file}), "train", 0) for file in (moved, changed)]
    assert of[0] == identity_of(SECTION, "train", 0) != of[1]


def test_a_damaged_file_is_refused_by_name(rendered, tmp_path):
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in rendered[0].iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    (folder / "00002-frames.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(InputError, match=r"00002-frames\.npy: not views"):
        render_views(SECTION, "train", 3, folder)
    (folder / IDENTITY_FILE).write_text(json.dumps([]))
    with pytest.raises(InputError, match=r"views\.json: not the description of a folder of views"):
        render_views(SECTION, "train", 3, folder)


@pytest.mark.long
def test_processes_render_the_same(rendered, tmp_path):
    views = render_views(SECTION, "train", 3, tmp_path, jobs=2)
    np.testing.assert_array_equal(views.images(range(5)), rendered[1].images(range(5)))
    np.testing.assert_array_equal(views.labels, rendered[1].labels)
