"""A model card: what its manifest and the results tell, where it was trained, and the commands that made it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from result_rows import evaluated, put, report, results_in

from engines.export import export, manifest_of
from engines.network import TINY, Variant, untrained
from engines.report.card import make_card
from engines.report.gathered import gather
from engines.report.parts import PARTS
from hil.evaluate.code import file_digest
from onboard.manifest import save_manifest, sha256_of


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with some results of one model."""
    return results_in(tmp_path / "results")


def test_a_card_is_filled_from_the_model_and_the_results(folder, tmp_path):
    extra = {"origin": "here", "training": {"seed": 7, "digest": "d", "stages": ["imitation"],
                                            "config": {"network": {"size": "tiny"}}}}  # fmt: skip
    model = tmp_path / "onboard-v9.onnx"
    manifest = export(model, untrained(1, TINY, Variant(rgb=False)), "onboard-v9", extra, steps=2).manifest
    refused = report(folder, "--card", tmp_path / "card.md", "--model", model)
    assert refused.exit_code == 2
    assert "is not of" in refused.stderr
    digest = file_digest(model)
    for name, one in (("all", evaluated(model=digest)), ("rendered", evaluated(3, model=digest, loop="rendered"))):
        put(folder / "evaluate" / f"{name}.json", one)
    (folder / "hardware.txt").write_text("two cores\n")
    assert report(folder, "--card", tmp_path / "card.md", "--model", model).exit_code == 0
    card = (tmp_path / "card.md").read_text()
    assert card.startswith("# onboard-v9\n")
    told = ["never driven", "83.3 (55.2 to 95.3)", "| network | size | tiny |", "two cores", "| seed | 7 |"]
    told += [manifest.sha256, "Not measured yet (ablations.json)", "| code that drove the evaluations | c |"]
    assert [one for one in told if one not in card] == []
    assert str(tmp_path) not in card
    assert report(folder, "--card", tmp_path / "card.md").stderr == "error: --card and --model: give both or none\n"


SEEN = {"config": {"places": {"maps": ["gdc1", "gdc3"]}}}
TRAINED = {"config": {"places": {"maps": ["gdc1", "/home/me/ahg2.yaml"]}}}


#    what the manifest says           what the card says
ORIGINS = [
    ({}, "does not state in which buildings it was trained", "is not known."),
    (SEEN, "trained in UT Austin, Gates Dell Complex.", "in none of them."),
    (TRAINED, "trained in UT Austin, Gates Dell Complex; UT Austin, Anna Hiss Gymnasium.",
     "**It was trained in UT Austin, Anna Hiss Gymnasium: figures from there are not of unseen buildings.**"),
]  # fmt: skip


@pytest.mark.parametrize(("training", "said", "of_both"), ORIGINS)
def test_a_card_says_where_the_model_was_trained_and_only_if_it_is_known(folder, tmp_path, training, said, of_both):
    card = card_of(folder, tmp_path, training)
    assert said in card
    assert of_both in card
    assert "/home/me" not in card
    assert ("onboard-engines train --config RECIPE" in card) is bool(training)


def test_the_commands_of_a_card_are_those_that_made_its_files(folder, tmp_path):
    card = card_of(folder, tmp_path, TRAINED)
    sets = "--set=unseen --episodes=6 --maps ahg2 willow"
    for said in (
        "export --checkpoint training/policy.pt --out m.onnx --weights fp32\n",
        f"--policy m.onnx {sets} --condition=paper --condition=no_front --json RESULTS/evaluate/all.json\n",
        f"--policy m.onnx {sets} --condition=paper --runtime --rendered --json RESULTS/evaluate/rendered.json\n",
        "onboard-hil ceiling --set=unseen --episodes=6 --maps willow ahg2 --json RESULTS/ceiling.json\n",
    ):
        assert said in card
    assert "ablations --out" not in card


def card_of(folder: Path, tmp_path: Path, training: dict[str, Any]) -> str:
    """Return the card of a model whose manifest says this of its training; no model is loaded."""
    model = tmp_path / "m.onnx"
    model.write_bytes(onnx.ModelProto(graph=onnx.GraphProto(name="none")).SerializeToString())
    network = untrained(0, TINY, Variant(rgb=False))
    save_manifest(model, manifest_of(network, sha256_of(model), "m", {"training": training}))
    digest = file_digest(model)
    conditions = {name: evaluated(model=digest, condition=name) for name in ("paper", "no_front")}
    put(folder / "evaluate" / "all.json", {"conditions": conditions})
    put(folder / "evaluate" / "rendered.json", evaluated(3, model=digest, loop="rendered"))
    found = gather(folder)
    return make_card(found, [part(found) for part in PARTS], model)
