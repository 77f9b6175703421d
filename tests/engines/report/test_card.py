"""A model card: what the manifest and the results tell, and where the policy was trained and evaluated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engines.report.card import make_card
from engines.report.results import gather
from engines.train.batched.policy import manifest_of
from hil.jobs.code_digest import file_digest
from onboard.policy.manifest import save_manifest, sha256_of
from onboard.values.errors import InputError
from tests.engines.report.result_rig import evaluated, put, report, results_in
from tests.rigs.devices.small_model import small_policy_files

SEEN = {"init": None, "config": {"places": {"maps": ["gdc1", "gdc3"]}}}


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with some results of one model."""
    return results_in(tmp_path / "results")


def test_a_card_is_filled_from_the_model_and_the_results(folder, tmp_path):
    model = model_of(tmp_path, {"seed": 7, "digest": "d", "decisions": 9000, "config": {}})
    refused = report(folder, "--card", tmp_path / "card.md", "--model", model)
    assert refused.exit_code == 2
    assert "is not of" in refused.stderr
    digest = file_digest(model)
    for name, one in (("all", evaluated(model=digest)), ("rendered", evaluated(3, model=digest, loop="rendered"))):
        put(folder / "evaluate" / f"{name}.json", one)
    (folder / "hardware.txt").write_text("two cores\n")
    done = report(folder, "--card", tmp_path / "card.md", "--model", model)
    assert done.exit_code == 0
    card, tables = (tmp_path / "card.md").read_text(), (tmp_path / "card-tables.md").read_text()
    assert card.startswith("# onboard-v9\n")
    reported = [
        "never driven",
        "83.3 (55.2 to 95.3)",
        "two cores",
        "| 7 | ",
        "9,000",
        sha256_of(model),
        "card-tables.md",
    ]
    assert [one for one in reported if one not in card] == []
    assert str(tmp_path) not in card
    assert tables.endswith(done.stdout)
    assert report(folder, "--card", tmp_path / "card.md").stderr == "error: --card and --model: use both or none\n"


#    what the manifest says of the training                           rows of the card
PLACES = [
    ({}, ["| training | not stated |", "| in both | none |"]),
    (SEEN, ["| training | UT Austin, Gates Dell Complex |", "| in both | none |"]),
    ({"init": None, "config": {"places": {"maps": ["/home/me/office.yaml"]}}}, ["| training | office |"]),
    ({**SEEN, "init": "first.onnx", "began": {"init": None, "config": {"places": {"maps": ["depot"]}}}},
     ["| training | UT Austin, Gates Dell Complex; depot (simulated) |", "| `first.onnx` | "]),
    ({"init": None, "config": {"places": {"maps": ["gdc1"]}, "encoder": {"views": {"maps": ["nowhere"]}}}},
     ["| training | UT Austin, Gates Dell Complex; nowhere |"]),
]  # fmt: skip


@pytest.mark.parametrize(("training", "expected"), PLACES)
def test_a_card_says_where_the_policy_was_trained(folder, tmp_path, training, expected):
    card = card_of(folder, tmp_path, training)
    assert [one for one in expected if one not in card] == []
    assert "/home/me" not in card


def test_a_building_of_training_and_evaluation_is_named(folder, tmp_path):
    trained = {"init": None, "config": {"places": {"maps": ["office.yaml"]}}}
    reported = evaluated(model=file_digest(model_of(tmp_path, trained)))
    rows = [{**row, "building": "office"} for row in reported["per_episode"]]
    put(folder / "evaluate" / "office.json", {**reported, "per_episode": rows})
    assert "| in both | office |" in card_of(folder, tmp_path, trained)


def test_results_of_another_manifest_make_no_card(folder, tmp_path):
    with pytest.raises(InputError, match=r"is not of .*m\.onnx\.manifest\.json \(digest other, expected "):
        card_of(folder, tmp_path, SEEN, manifest="other")


def test_a_model_of_the_papers_contract_has_no_card(tmp_path):
    with pytest.raises(InputError, match=r"small\.onnx: a card is of a policy that `onboard-engines train` made"):
        make_card(gather(tmp_path), small_policy_files(tmp_path), "tables.md")


def card_of(folder: Path, tmp_path: Path, training: dict[str, Any], **changes: Any) -> str:
    """Return the card of a model whose manifest says this of its training; no model is loaded."""
    model = model_of(tmp_path, training)
    digest = file_digest(model)
    conditions = {name: evaluated(model=digest, condition=name, **changes) for name in ("paper", "no_front")}
    put(folder / "evaluate" / "all.json", {"conditions": conditions})
    put(folder / "evaluate" / "rendered.json", evaluated(3, model=digest, loop="rendered", **changes))
    return make_card(gather(folder), model, "m-tables.md").card


def model_of(tmp_path: Path, training: dict[str, Any]) -> Path:
    """Return the file of a model that nobody loads, the same each time, with its manifest."""
    model = tmp_path / "m.onnx"
    model.write_bytes(b"no model")
    extra = {"origin": "here", "training": training}
    save_manifest(model, manifest_of(sha256_of(model), "onboard-v9", extra))
    return model
