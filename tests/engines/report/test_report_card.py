"""A model card: what its manifest and the results tell, where it was trained, and the commands that made it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from engines.export.export import export, manifest_of
from engines.network.network import TINY, Variant, untrained
from engines.report.card import make_card
from engines.report.card_sections import PARTS
from engines.report.results.result_files import gather
from engines.report.sections.splits import places_of
from hil.jobs.code_digest import file_digest
from onboard.config import config
from onboard.policy.manifest import Weights, save_manifest, sha256_of
from onboard.values.errors import InputError
from tests.engines.report.trained_files import given_default_robot, manifest_in, recipe_training, shipped_plant
from tests.rigs.result_rows import evaluated, put, report, results_in


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


@pytest.fixture(autouse=True)
def shipped(tmp_path, monkeypatch) -> None:
    """Let one policy ship, whatever the release has."""
    monkeypatch.setattr(config, "PRETRAINED", tmp_path / "pretrained")
    (tmp_path / "pretrained").mkdir()
    model = tmp_path / "pretrained" / "first.onnx"
    model.write_bytes(FIRST)
    save_manifest(model, manifest_of(NETWORK, sha256_of(model), "first", {"training": SEEN_FIRST}))


NETWORK = untrained(0, TINY, Variant(rgb=False))
SEEN_FIRST = {"init": None, "config": {"places": {"maps": ["gdc1"]}}}
SEEN = {"init": None, "config": {"places": {"maps": ["gdc1", "gdc3"]}}}
TRAINED = {"init": None, "config": {"places": {"maps": ["gdc1", "/home/me/ahg2.yaml"]}}}
FLOOR_BELOW = {"init": None, "config": {"places": {"maps": ["ahg1"]}}}
VIEWS = {"init": None, "config": {**SEEN["config"], "encoder": {"views": {"maps": ["willow"]}}}}
FIRST = onnx.ModelProto(graph=onnx.GraphProto(name="first")).SerializeToString()
"""A policy that ships, under the name first; it was trained in gdc1."""
SHIPPED = {"init": "first", "init_sha256": hashlib.sha256(FIRST).hexdigest(),
           "config": {"places": {"maps": ["/home/me/office.yaml"]}}}  # fmt: skip
RENAMED = {**SHIPPED, "init": "/home/me/copy.onnx"}
REPLACED = {**SHIPPED, "init_sha256": "0" * 64}
OLDER = {name: value for name, value in SHIPPED.items() if name != "init_sha256"}
UNKNOWN = {**OLDER, "init": "/home/me/first.onnx"}
TOLD = {**UNKNOWN, "began": {**SEEN_FIRST, "weights": "float16", "seed": 4, "stages": ["imitation"]}}
TOLD_TWICE = {**SEEN, "init": "fine/policy.pt", "seed": 9, "stages": ["reinforce"], "began": TOLD}
SHIPPED_TOLD = {**SHIPPED, "began": SEEN_FIRST}
FOREIGN = {**SEEN, "encoder_sha256": "ab" * 32}
NOT_ALL = "it was trained in none of them as far as that is known, which is not all."


#    what the manifest says           what the card says
ORIGINS = [
    ({}, "does not state in which buildings it was trained", "is not known."),
    (SEEN, "trained in UT Austin, Gates Dell Complex.", "in none of them."),
    (TRAINED, "trained in UT Austin, Gates Dell Complex; UT Austin, Anna Hiss Gymnasium.",
     "**It was trained in UT Austin, Anna Hiss Gymnasium: figures from there are not of unseen buildings.**"),
    (FLOOR_BELOW, "| began with | an untrained network |", "**It was trained in UT Austin, Anna Hiss Gymnasium: "),
    (VIEWS, "trained in UT Austin, Gates Dell Complex; Willow Garage.", "**It was trained in Willow Garage: "),
    (SHIPPED, "By its manifest trained in office (not shipped).\nIts training began with the weights of `first`, "
     "trained in UT Austin, Gates Dell Complex.", "in none of them."),
    (RENAMED, "weights of `copy.onnx`, trained in UT Austin, Gates Dell Complex.", "in none of them."),
    (REPLACED, "weights of `first`, of which it is not known where they were trained.", NOT_ALL),
    (OLDER, "weights of `first`, of which it is not known where they were trained.", NOT_ALL),
    (UNKNOWN, "weights of `first.onnx`, of which it is not known where they were trained.", NOT_ALL),
    (TOLD, "Its training began with the weights of `first.onnx`, trained in UT Austin, Gates Dell Complex.",
     "in none of them."),
    (TOLD_TWICE, "weights of `policy.pt`, trained in UT Austin, Gates Dell Complex; office (not shipped).",
     "in none of them."),
    (SHIPPED_TOLD, "weights of `first`, trained in UT Austin, Gates Dell Complex.", "in none of them."),
    (FOREIGN, "encoder came from another training, of which it is not known where it was.", NOT_ALL),
    ({"config": SEEN["config"]}, "| began with | not stated |", NOT_ALL),
]  # fmt: skip


@pytest.mark.parametrize(("training", "said", "of_both"), ORIGINS)
def test_a_card_says_where_the_model_was_trained_and_only_if_it_is_known(folder, tmp_path, training, said, of_both):
    card = card_of(folder, tmp_path, training)
    assert said in card
    assert of_both in card
    assert "/home/me" not in card
    assert ("onboard-engines train --config RECIPE" in card) is bool(training)


def test_a_building_of_the_first_policys_training_is_not_unseen(folder, tmp_path):
    card = card_of(folder, tmp_path, SHIPPED, sets=[["gdc1", 6, "", None, "validation"]])
    assert "It was trained in UT Austin, Gates Dell Complex: figures from there are not of unseen buildings." in card


def test_an_episode_file_of_ones_own_does_not_hide_its_building(tmp_path):
    tour = evaluated(sets=[["tour", 12, "", None, ""]])
    rows = [{**row, "map": "tour", "building": "UT Austin, Gates Dell Complex"} for row in tour["per_episode"]]
    put(tmp_path / "own" / "evaluate" / "tour.json", {**tour, "per_episode": rows})
    places = places_of(SEEN, gather(tmp_path / "own"))
    assert places.driven == places.shared == ("UT Austin, Gates Dell Complex",)


def test_a_training_that_ended_sooner_says_so(folder, tmp_path):
    for until, words in (("imitation", " --until imitation"), ("reinforce", "")):
        card = card_of(folder, tmp_path, {**SEEN, "until": until})
        assert f"onboard-engines train --config RECIPE{words} --out training\n" in card


def test_the_command_of_several_policies_is_that_of_the_baselines(folder, tmp_path):
    both = {name: evaluated(policy=name, sets=[["depot", 12, "", None, "committed"]]) for name in ("planner", "blind")}
    put(folder / "others" / "both.json", {"baselines": both})
    assert "onboard-hil baselines --episodes=12 --maps depot --seed=1 --json RESULTS/others/both.json\n" in card_of(
        folder, tmp_path, SEEN
    )


@pytest.mark.parametrize(("init", "named"), [("first", "first"), ("/home/me/first.onnx", "first.onnx")])
def test_the_command_of_a_training_says_what_it_began_with(folder, tmp_path, init, named):
    card = card_of(folder, tmp_path, {**SEEN, "init": init})
    assert f"onboard-engines train --config RECIPE --init {named} --out training\n" in card
    assert f"| began with | {named} |" in card


def test_the_commands_make_all_that_does_not_ship(folder, tmp_path):
    card = card_of(folder, tmp_path, TOLD_TWICE)
    commands = card[card.index("```\n") :].splitlines()[1:6]
    train, export_ = "onboard-engines train --config RECIPE", "onboard-engines export --checkpoint"
    assert commands[:4] == [
        f"{train} --out before-1",
        f"{export_} before-1/policy.pt --out before-1/first.onnx --weights fp16",
        f"{train} --init before-1/first.onnx --out before-2",
        f"{train} --init before-2/policy.pt --out training",
    ]
    assert commands[4].startswith(f"{export_} training/policy.pt --out ")
    assert "| table | key | of `first.onnx` | of `policy.pt` | of this |\n|---|---|---|---|---|\n" in card
    assert "| places | maps | gdc1 | office.yaml | gdc1, gdc3 |\n" in card
    assert "which made `first.onnx`, by seed 4: imitation." in card
    assert "train --config RECIPE --init first --out training\n" in card_of(folder, tmp_path, SHIPPED_TOLD)


def test_the_commands_make_every_policy_whose_manifest_lies_beside_its_results(folder, tmp_path):
    """Its plant's file lies there too: evaluations tell the digest of that robot."""
    plant = shipped_plant(folder / "finetune" / "slow.toml", acceleration_max="1.25")
    fine = recipe_training("finetune.toml", 3, maps=["home", "/home/me/hall.yaml"], plant=str(plant), init="first",
                           init_sha256=SHIPPED["init_sha256"])  # fmt: skip
    manifest_in(folder / "finetune", "fine.onnx", fine)
    manifest_in(folder / "seeds", "seed-2.onnx", recipe_training("default.toml", 2, encoder_sha256="e"))
    slow = evaluated(policy="/home/me/fine.onnx", robot=given_default_robot(plant))
    put(folder / "finetune" / "after.json", slow)
    put(folder / "finetune" / "elsewhere.json", evaluated(policy="/home/me/fine.onnx"))
    card, sets = card_of(folder, tmp_path, SEEN), "--set=unseen --episodes=6 --maps ahg2 willow"
    for said in (
        "train --config engines/train/default.toml --seed 2 --encoder encoder/encoder.pt --out seed-2\n",
        "export --checkpoint seed-2/policy.pt --out seed-2.onnx --weights fp32\n",
        "train --config engines/train/finetune.toml --seed 3 --maps home hall.yaml --plant slow.toml --init first "
        "--out fine\n",
        "export --checkpoint fine/policy.pt --out fine.onnx --weights fp32\n",
        f"--policy fine.onnx {sets} --condition=paper --plant slow.toml --seed=1 --json RESULTS/finetune/after.json\n",
        f"--policy fine.onnx {sets} --condition=paper --seed=1 --json RESULTS/finetune/elsewhere.json\n",
    ):
        assert said in card
    assert "/home/me" not in card


def test_what_a_policy_beside_the_results_began_with_is_made_too(folder, tmp_path):
    manifest_in(folder / "finetune", "fine.onnx", TOLD_TWICE)
    card, train = card_of(folder, tmp_path, SEEN), "onboard-engines train --config RECIPE"
    assert [line for line in card.splitlines() if "fine" in line and line.startswith("onboard-engines")] == [
        f"{train} --out fine-before-1",
        "onboard-engines export --checkpoint fine-before-1/policy.pt --out fine-before-1/first.onnx --weights fp16",
        f"{train} --init fine-before-1/first.onnx --out fine-before-2",
        f"{train} --init fine-before-2/policy.pt --out fine",
        "onboard-engines export --checkpoint fine/policy.pt --out fine.onnx --weights fp32",
    ]


def test_a_card_names_every_code_that_drove(folder, tmp_path):
    put(folder / "finetune" / "after.json", evaluated(code="d"))
    put(folder / "others" / "a.json", evaluated(code="d"))
    put(folder / "others" / "b.json", evaluated())
    card = card_of(folder, tmp_path, SEEN)
    told = "c (evaluate/, seeds/, others/b.json); d (finetune/, others/a.json)"
    assert f"| code that drove the evaluations | {told} |" in card
    put(folder / "others" / "c.json", evaluated())
    told = "c (evaluate/, seeds/, the rest of others/); d (finetune/, others/a.json)"
    assert f"| code that drove the evaluations | {told} |" in card_of(folder, tmp_path, SEEN)


def test_a_card_says_of_which_results_the_code_is_not_stated(folder, tmp_path):
    told = evaluated()
    del told["configuration"]["code"]
    put(folder / "others" / "a.json", told)
    card = card_of(folder, tmp_path, SEEN)
    assert "| code that drove the evaluations | c (evaluate/, seeds/); not stated (others/) |" in card


#    weights    what the manifest says of their agreement                   what the card says, and the export's options
AGREEMENTS = [
    ("float16", {"decisions": 1204, "same_action": 1203, "drives": 20},
     "| decisions as with float32 weights | 1203 of 1204 (99.92%), on 20 drives |", "--weights fp16 --drives=20\n"),
    ("float16", {"decisions": 300, "same_action": 300, "drives": 0},
     "| decisions as with float32 weights | 300 of 300 (100.00%), on random sequences |",
     "--weights fp16 --drives=0\n"),
    ("float16", None, "| decisions as with float32 weights | not stated |", "--weights fp16\n"),
    ("float32", None, "| origin |", "--weights fp32\n"),
]  # fmt: skip


@pytest.mark.parametrize(("weights", "agreement", "said", "options"), AGREEMENTS)
def test_a_card_says_how_half_weights_were_judged(folder, tmp_path, weights, agreement, said, options):
    card = card_of(folder, tmp_path, SEEN, weights, {} if agreement is None else {"agreement": agreement})
    assert said in card
    assert f"--out m.onnx {options}" in card
    assert ("decisions as with float32" in card) is (weights == "float16")


def test_the_views_of_the_encoders_table_are_explained(folder, tmp_path):
    one = {"ranges": {"median_relative": 0.1, "mean_relative": 0.2}, "free_way": {"mean_m": 0.3}}
    sort = {"views": 600, "encoder": one, "mean_of_bin": one, "median_of_bin": one}
    put(folder / "encoder.json", dict.fromkeys(("unseen", "unseen_plain", "known"), sort))
    card = card_of(folder, tmp_path, SEEN)
    assert "| unseen_plain | encoder | 600 | 10.0 | 20.0 | 0.30 |" in card
    assert all(f"`{name}`: " in card for name in ("unseen", "unseen_plain", "known"))


def test_the_commands_of_a_card_are_those_that_made_its_files(folder, tmp_path):
    card = card_of(folder, tmp_path, TRAINED)
    sets, more = "--set=unseen --episodes=6 --maps ahg2 willow", "--runtime --rendered --seed=1"
    for said in (
        "export --checkpoint training/policy.pt --out m.onnx --weights fp32\n",
        f"--policy m.onnx {sets} --condition=paper --condition=no_front --seed=1 --json RESULTS/evaluate/all.json\n",
        f"--policy m.onnx {sets} --condition=paper {more} --json RESULTS/evaluate/rendered.json\n",
        "onboard-hil ceiling --set=unseen --episodes=6 --maps willow ahg2 --json RESULTS/ceiling.json\n",
    ):
        assert said in card
    assert "ablations --out" not in card


@pytest.mark.parametrize(
    ("given", "options"),
    [((), [""]), (("here",), [" --encoder encoder/encoder.pt"]),
     (("0", "model"), [" --encoder encoder/encoder.pt", " --encoder m.onnx"])],
)  # fmt: skip
def test_the_command_of_the_ablations_names_their_colour_encoder(folder, tmp_path, given, options):
    digests = [sha256_of(model_of(tmp_path)) if one == "model" else one for one in given]
    told = {"blind": None, **{f"agent {one}": one for one in digests}}
    put(folder / "ablations.json", {"set": "unseen", "seed": 1, "rows": [], "training": {}, "encoders": told})
    card = card_of(folder, tmp_path, TRAINED)
    calls = [f"onboard-engines ablations{encoder} --out ablations" for encoder in options]
    assert f"{' && '.join(calls)} && cp ablations/ablations.json RESULTS/\n" in card
    assert all(f"`{one}`" in card for one in digests)


def test_demos_of_another_policy_make_no_card(folder, tmp_path):
    times = {"decisions": 9, "decision_ms": {"p50": 1.0, "p99": 2.0}, "deadline_misses": 0, "missed_slots": 0}
    drive = {"reached": True, "contacts": 0, "policy": "m", **times}
    put(folder / "demos" / "home-1.json", drive)
    assert "do onboard-hil demo --policy m.onnx --map home --seed $seed " in card_of(folder, tmp_path, SEEN)
    put(folder / "demos" / "home-1.json", {**drive, "policy": "onboard-v1"})
    with pytest.raises(InputError, match=r"demos: by onboard-v1, the report is about m$"):
        card_of(folder, tmp_path, SEEN)


def test_what_it_began_with_is_made_once_and_judged_where_its_manifest_lies_beside_the_results(folder, tmp_path):
    """By its digest: the file's name there is another one."""
    judged = {"agreement": {"decisions": 9, "same_action": 9, "drives": 20}}
    manifest_in(folder / "seeds", "zero.onnx", recipe_training("default.toml", 0), "1" * 64, **judged)
    card = card_of(folder, tmp_path, {**TOLD, "init_sha256": "1" * 64})
    assert [line for line in card.splitlines() if line.startswith("onboard-engines") and "report" not in line] == [
        "onboard-engines train --config engines/train/default.toml --seed 0 --out zero",
        "onboard-engines export --checkpoint zero/policy.pt --out zero.onnx --weights fp32 --drives=20",
        "onboard-engines train --config RECIPE --init zero.onnx --out training",
        "onboard-engines export --checkpoint training/policy.pt --out m.onnx --weights fp32",
    ]


def test_results_under_another_manifest_of_the_same_model_make_no_card(folder, tmp_path):
    with pytest.raises(InputError, match=r"is not of .*m\.onnx\.manifest\.json \(digest other, expected "):
        card_of(folder, tmp_path, SEEN, manifest="other")


#    densities of the sets' furniture, "" as usual    options
FURNISHED = [
    ([0.0], "--furniture=0 --maps office0"),
    ([0.0, 0.0], "--furniture=0 --maps office0 office1"),
    ([0.0, 2.0], "--maps office0 office1"),  # of no single command
    ([0.0, ""], "--maps office0 office1"),
    (["", ""], "--maps office0 office1"),
]


@pytest.mark.parametrize(("densities", "options"), FURNISHED)
def test_the_command_of_an_evaluation_in_buildings_of_ones_own_names_their_furniture(
    folder, tmp_path, densities, options
):
    told = [[] if density == "" else [density] for density in densities]
    sets = [[f"office{number}", 25, "d", 1, "", *density] for number, density in enumerate(told)]
    card = card_of(folder, tmp_path, SEEN, sets=sets)
    assert f"--policy m.onnx --episodes=25 {options} --condition=paper " in card


def card_of(
    folder: Path,
    tmp_path: Path,
    training: dict[str, Any],
    weights: Weights = "float32",
    extra: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    """Return the card of a model whose manifest says this of its training; no model is loaded."""
    model = model_of(tmp_path, weights)
    save_manifest(model, manifest_of(NETWORK, sha256_of(model), "m", {"training": training, **(extra or {})}, weights))
    digest = file_digest(model)
    conditions = {name: evaluated(model=digest, condition=name, **changes) for name in ("paper", "no_front")}
    put(folder / "evaluate" / "all.json", {"conditions": conditions})
    put(folder / "evaluate" / "rendered.json", evaluated(3, model=digest, loop="rendered", **changes))
    found = gather(folder)
    return make_card(found, [part(found) for part in PARTS], model)


def model_of(tmp_path: Path, weights: Weights = "float32") -> Path:
    """Return the file of a model that nobody loads, the same each time."""
    model = tmp_path / "m.onnx"
    graph = onnx.GraphProto(name="none")
    if weights == "float16":
        graph.initializer.append(numpy_helper.from_array(np.zeros(1, np.float16), "one"))
    model.write_bytes(onnx.ModelProto(graph=graph).SerializeToString())
    return model
