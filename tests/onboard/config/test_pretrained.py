"""Shipped policies: found by name; each is small, complete, has a manifest and decides."""

from __future__ import annotations

from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from engines.report.card import make_card, tables_file
from engines.report.results import gather
from hil.commands.judge.evaluate import load_robot
from hil.evaluate.campaign import jobs_of
from hil.evaluate.episode import EpisodeDriver, Run, check_run
from hil.evaluate.episode_selection import find_sets
from onboard.assembly.assembly import check_files
from onboard.assembly.policies import policy_maker
from onboard.config import pretrained as shipping
from onboard.config.config import Config, load_config
from onboard.config.plant_model import load_plant
from onboard.config.pretrained import is_name, model_path, pretrained, pretrained_names
from onboard.policy.manifest import delay_complaint, load_manifest
from onboard.values.errors import InputError
from tests.rigs.devices.small_model import small_policy_files

ROOT = Path(__file__).parents[3]
FIRST = "onboard-v2"
MOST_BYTES = 30e6
SHIPPED = [FIRST, *(name for name in pretrained_names() if name != FIRST)]


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Ship the small model instead of the real policies."""
    model = small_policy_files(tmp_path)
    monkeypatch.setattr(shipping, "PRETRAINED", tmp_path)
    return model


#    text                    a name?
TEXTS = [
    ("onboard-v2", True),
    ("reactive", True),
    ("a.onnx", False),
    ("./onboard-v2", False),
    ("models/onboard-v2", False),
    ("/models/onboard-v2", False),
]


@pytest.mark.parametrize(("text", "named"), TEXTS)
def test_a_name_has_neither_a_folder_nor_a_suffix(text, named):
    assert is_name(text) is named


def test_a_name_is_its_file_and_a_path_is_itself(small):
    assert pretrained("small") == model_path("small") == small
    assert model_path("models/a.onnx") == Path("models/a.onnx")
    assert pretrained_names() == ["small"]


def test_another_name_is_one_line_that_lists_what_ships(small):
    with pytest.raises(InputError, match=r"^policy onboard-v9: no shipped policy has this name; available: small$"):
        model_path("onboard-v9")


def test_a_policy_that_left_names_its_successor_and_where_it_still_is(small):
    with pytest.raises(InputError, match=r"^policy onboard-v1: no longer ships: use onboard-v2; commit \w+ has"):
        model_path("onboard-v1")


def test_an_installation_without_policies_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(shipping, "PRETRAINED", tmp_path / "none")
    with pytest.raises(InputError, match=r"available: none in this release"):
        pretrained(FIRST)


def test_the_runtime_takes_a_name(small):
    config = Config()
    config = config.model_copy(update={"policy": config.policy.model_copy(update={"model": "small"})})
    check_files(config)
    policy = policy_maker(config, load_plant(config.robot.plant))()
    assert policy.name == "small"
    policy.close()
    unknown = config.model_copy(update={"policy": config.policy.model_copy(update={"model": "smal"})})
    with pytest.raises(InputError, match="policy smal: "):
        check_files(unknown)


def test_the_folder_is_packed_into_the_wheel():
    """Include the same files as a build: all files that git does not ignore."""
    packed = {entry.distribution_path for entry in WheelBuilder(str(ROOT)).recurse_included_files()}
    assert "engines/pretrained/README.md" in packed
    assert {f"engines/pretrained/{path.name}" for path in shipping.PRETRAINED.iterdir()} <= packed


# ---- the shipped policies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHIPPED)
def test_it_is_small_and_whole(name):
    model = pretrained(name)
    assert model.stat().st_size < MOST_BYTES
    manifest = load_manifest(model)
    assert manifest.policy == name
    assert "untrained" not in manifest.extra["origin"]


@pytest.mark.parametrize("name", SHIPPED)
def test_its_card_names_the_same_file(name):
    card = pretrained(name).with_suffix(".md").read_text(encoding="utf-8")
    assert load_manifest(pretrained(name)).sha256 in card
    assert "never driven on a real robot" in card.lower()


@pytest.mark.parametrize("name", SHIPPED)
def test_its_card_is_printed_from_the_results_beside_it(name):
    card = pretrained(name).with_suffix(".md")
    printed = make_card(gather(ROOT / "docs/results" / name), pretrained(name), tables_file(card).name)
    assert tuple(file.read_text(encoding="utf-8") for file in (card, tables_file(card))) == printed


@pytest.mark.parametrize("name", SHIPPED)
def test_it_fits_the_default_robots_rates(name):
    rates = load_config(None).rates
    manifest = load_manifest(pretrained(name))
    assert delay_complaint(manifest, rates.delay_ticks, rates.control_hz, rates.ticks_per_decision) is None


@pytest.mark.parametrize("name", SHIPPED)
def test_it_drives_to_goals_in_buildings_that_it_never_saw(name):
    """Greedy, with colour, drift and limits: a wrong sign or order anywhere would fail this drive."""
    robot, run = load_robot(None), Run(name, condition="paper")
    check_run(run, robot)
    sources = find_sets(["ahg2", "lgrc1", "warehouse"], 1, 1, robot.body, "unseen")
    drive = EpisodeDriver(run, robot, {source.name: source for source in sources})
    driven = [drive(job).row for source in sources for job in jobs_of(source.name, source.indices, 1)]
    assert [(row.map, row.index, row.ended) for row in driven if not row.success or row.contacts] == []
    assert len(driven) == 3
