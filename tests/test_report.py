"""`onboard-engines report`: every figure from a file, what is missing is said, wrong files are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from evaluate_rows import row
from PIL import Image
from typer.testing import CliRunner

from engines.__main__ import main
from engines.export import export, manifest_of
from engines.network import TINY, Variant, untrained
from engines.report import pictures
from engines.report.card import make_card
from engines.report.gathered import gather
from engines.report.journals import training_of
from engines.report.markdown import hours, summary_of_json, table
from engines.report.parts import PARTS, ceilings, detours, failures, headline, robustness, seeds, throughput
from hil.evaluate.code import file_digest
from hil.evaluate.metrics import summarise, summarise_by
from hil.evaluate.sets import Source, load_set
from onboard.contract import ACTIONS
from onboard.errors import InputError
from onboard.manifest import save_manifest, sha256_of

COUNTS = tuple(range(len(ACTIONS)))
SETS = [["ahg2", 6, "", None, "unseen"], ["willow", 6, "", None, "unseen"]]


def rows(lost: int) -> list[Any]:
    """Return twelve episodes on two maps, a third of them detours, of which some are lost."""
    return [
        row(number, map="ahg2" if number % 2 else "willow", success=number >= lost, ended="stop" if number else "time",
            straight_m=10.0 if number % 3 else 8.0, distance_m=0.1 if number >= lost else 2.0 + number, actions=COUNTS)
        for number in range(12)
    ]  # fmt: skip


def evaluated(lost: int = 2, **changes: Any) -> dict[str, Any]:
    """Return what `onboard-hil evaluate --json` writes."""
    episodes = rows(lost)
    configuration = {
        "condition": "paper", "loop": "fast", "color": True, "model": "m", "code": "c",
        "sets": SETS, **changes,
    }  # fmt: skip
    return {
        **summarise(episodes).as_json(),
        "complete": True,
        "configuration": configuration,
        "per_map": {name: one.as_json() for name, one in summarise_by("map", episodes).items()},
        "per_episode": [one.as_json() for one in episodes],
    }


def put(file: Path, value: Any) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(value))
    return file


CEILING = {"sets": SETS[::-1], "episodes": {"ahg2": list(range(1, 12, 2)), "willow": list(range(0, 12, 2))},
           "conditions": {"paper": {"ideal": 0.948, "ideal_median_m": 0.051, "own": 0.944},
                          "drift_3": {"ideal": 0.788, "ideal_median_m": 0.088, "own": 0.628}}}  # fmt: skip


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with some results of one model."""
    found = tmp_path / "results"
    conditions = {"paper": evaluated(), "no_front": evaluated(4, condition="no_front")}
    put(found / "evaluate" / "all.json", {"conditions": conditions})
    put(found / "evaluate" / "rendered.json", evaluated(3, loop="rendered"))
    put(found / "seeds" / "seed1.json", evaluated(1, model="n"))
    put(found / "ceiling.json", CEILING)
    return found


def run(*arguments: str | Path):
    return CliRunner().invoke(main, ["report", *map(str, arguments)], catch_exceptions=False)


def test_the_headline_is_that_of_the_files_beside_the_papers(folder):
    part = headline(gather(folder))
    assert part.missing == ""
    assert [(one["loop"], one["success_rate"]) for one in part.data["ours"]] == [("fast", 10 / 12), ("rendered", 0.75)]
    assert "| set unseen, policy and base stepped directly | 12 | 83.3 (55.2 to 95.3) |" in part.markdown
    assert "(quoted) | 2500 | 97.4 | 82.2 | 51 | - |" in part.markdown


def test_every_condition_has_a_row_with_what_it_is(folder):
    part = robustness(gather(folder))
    assert [one["condition"] for one in part.data] == ["paper", "no_front", "paper"]
    assert "| `no_front` | no front camera; " in part.markdown


def test_a_row_without_colour_says_so(folder):
    put(folder / "evaluate" / "blind.json", evaluated(3, color=False))
    assert "fast" in {one["loop"] for one in robustness(gather(folder)).data}
    assert "policy and base stepped directly, without colour images | " in robustness(gather(folder)).markdown


def test_a_ceiling_has_the_success_rate_of_its_condition_beside_it(folder):
    part = ceilings(gather(folder))
    assert [(one["condition"], one["success_rate"]) for one in part.data] == [("paper", 10 / 12), ("drift_3", None)]
    assert "| `paper` | 94.8 | 5.1 | 94.4 | 83.3 (55.2 to 95.3) | 12 of 12 |" in part.markdown
    assert "| `drift_3` | 78.8 | 8.8 | 62.8 | - | - |" in part.markdown


UNSEEN, OTHER_SEED = ["ahg2", 9, "", None, "unseen"], ["ahg2", 9, "", 7, ""]


#    what it is of                  its episodes                      in common: which and of how many
CEILINGS = [
    (SETS[:1], {}, [1, 3, 5], 6),  # the first six, as a ceiling of before its episodes were told; ahg2 has odd numbers
    ([UNSEEN], {"ahg2": [0, 3, 7]}, [3, 7], 3),
    ([UNSEEN, SETS[1]], {"ahg2": [0, 1], "willow": [0, 2, 4]}, [0, 1, 2, 4], 5),
    ([UNSEEN], {"ahg2": [0, 20]}, [], 2),
    ([["ahg2", 6, "", None, "validation"]], {}, [], 6),
    ([["ahg2", 6, "d", None, "unseen"]], {}, [], 6),
    ([OTHER_SEED], {}, [], 9),
    ([[*SETS[0], 0.0]], {}, [], 6),  # in other furniture
    ([], {}, [], 0),
]


@pytest.mark.parametrize(("sets", "episodes", "common", "whole"), CEILINGS)
def test_a_ceiling_is_joined_on_the_episodes_that_were_driven(folder, sets, episodes, common, whole):
    put(folder / "ceiling.json", {**CEILING, "sets": sets, "episodes": episodes})
    part = ceilings(gather(folder))
    rate = sum(number >= 2 for number in common) / len(common) if common else None
    assert [(one["success_rate"], one["episodes"]) for one in part.data] == [(rate, len(common)), (None, 0)]
    assert (f" | {len(common)} of {whole} |" in part.markdown) is bool(common)


def test_beside_a_ceiling_stands_the_evaluation_that_has_most_of_its_episodes(folder):
    """With all senses: one without colour comes first by its name, and has all of them."""
    put(folder / "ceiling.json", {**CEILING, "episodes": {"ahg2": [1, 3, 5, 7], "willow": [2]}})
    put(folder / "evaluate" / "a_blind.json", evaluated(12, color=False))
    put(folder / "evaluate" / "a_part.json", evaluated(12, sets=SETS[:1]))
    assert [(one["success_rate"], one["episodes"]) for one in ceilings(gather(folder)).data] == [(0.8, 5), (None, 0)]


@pytest.mark.parametrize(
    "other", [{"condition": "no_front"}, {"loop": "runtime"}, {"color": False}, {"sets": [["ahg2", 6, "", None, ""]]}]
)
def test_a_seed_that_was_driven_otherwise_is_no_row(folder, other):
    put(folder / "seeds" / "other.json", evaluated(5, **other))
    assert [one["name"] for one in seeds(gather(folder)).data] == ["this policy", "seed1"]


def test_all_seeds_are_told(folder):
    assert [(one["name"], one["success_rate"]) for one in seeds(gather(folder)).data] == [
        ("this policy", 10 / 12),
        ("seed1", 11 / 12),
    ]


def test_detours_count_every_episode_once(folder):
    classes = detours(gather(folder)).data["classes"]
    assert sum(one["episodes"] for one in classes) == 12
    assert {one["from"]: (one["episodes"], one["SR"]) for one in classes if one["episodes"]} == {
        1.0: (8, 7 / 8),
        1.2: (4, 3 / 4),
    }


def test_failures_say_how_and_how_far(folder):
    assert failures(gather(folder)).data == [
        {"ended": "stop", "episodes": 1, "distance_m": [3.0, 3.0]},
        {"ended": "time", "episodes": 1, "distance_m": [2.0, 2.0]},
    ]
    put(folder / "evaluate" / "all.json", evaluated(0))
    assert "None of the episodes failed." in failures(gather(folder)).markdown


def test_of_an_empty_folder_nothing_is_told_but_what_is_missing(tmp_path):
    found = gather(tmp_path)
    parts = [part(found) for part in PARTS]
    assert all(part.missing for part in parts)
    done = run(tmp_path, "--json", "-")
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {part.name: None for part in parts}
    assert run(tmp_path).stdout.count("\n* ") == len(parts)


def test_the_command_prints_tables_and_writes_json_and_pictures(folder, tmp_path):
    done = run(folder, "--json", tmp_path / "a.json", "--pictures", tmp_path / "pictures")
    assert done.exit_code == 0
    assert "## How good" in done.stdout
    assert "* Ablations: ablations.json" in done.stdout
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["actions"] == list(np.array(COUNTS) * 12)
    assert data["ablations"] is None
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == [pictures.ACTIONS_FILE]


#    file                         content                              what is said
WRONG = [
    ("evaluate/a.json", "{", "a.json: not valid JSON"),
    ("evaluate/a.json", "[]", "a.json: not a JSON object"),
    ("evaluate/a.json", "{}", "a.json: a: not the result of onboard-hil evaluate"),
    ("evaluate/a.json", json.dumps({"complete": False}), "a: the evaluation was interrupted"),
    ("evaluate/z.json", json.dumps(evaluated(model="n")), "z.json: is of another model than .*all.json"),
    ("ceiling.json", "{}", "ceiling.json: has no conditions"),
    ("training/journal.jsonl", "{}\n", "journal.jsonl: line 1: not a row of a training's journal"),
    ("training/journal.jsonl", "x\n", "journal.jsonl: line 1: not valid JSON"),
]


@pytest.mark.parametrize(("name", "content", "said"), WRONG)
def test_a_wrong_file_is_refused_in_one_line(folder, name, content, said):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=said):
        gather(folder)
    done = run(folder)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    assert run(tmp_path / "none").stderr == f"error: {tmp_path / 'none'}: no such folder\n"


def journal(folder: Path, *rows: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def step(number: int, at_s: float, **more: float) -> dict[str, Any]:
    return {"stage": "imitation", "step": number, "at_s": at_s, "decisions": 100.0, "drives": 2.0, **more}


def test_a_journal_tells_rounds_once_and_the_time_of_all_calls(tmp_path):
    judged = {"stage": "imitation", "step": 1, "at_s": 5.0, "SR": 50.0}
    folder = journal(tmp_path, step(0, 1.0), step(1, 3.0), judged, step(2, 1800.0), step(1, 2.0), step(2, 1802.0))
    figures = training_of(folder)["imitation"]
    assert (figures["rounds"], figures["decisions"], figures["drives"]) == (3, 300, 6)
    assert figures["hours"] == pytest.approx((1800.0 + 1802.0) / 3600.0)
    assert figures["decisions_per_s"] == pytest.approx(200.0 / 1802.0)  # 1 to 3 s and 2 to 1802 s
    assert figures["last"]["SR"] == 50.0
    assert training_of(tmp_path / "none") == {}


def test_a_journal_without_times_has_no_rate(folder):
    journal(folder / "training", {"stage": "imitation", "step": 0, "decisions": 7.0})
    (figures,) = throughput(gather(folder)).data
    assert (figures["decisions"], figures["hours"], figures["decisions_per_s"]) == (7, None, None)


def test_tables_and_times():
    assert table(("a", "b"), [["x", "1"]]) == "| a | b |\n|---|---:|\n| x | 1 |\n"
    assert [hours(value) for value in (None, 0.25, 1.5, 12.34)] == ["-", "15 min", "90 min", "12.3 h"]
    summary = summarise(rows(2))
    assert summary_of_json(json.loads(json.dumps(summary.as_json()))) == summary


def test_a_card_is_filled_from_the_model_and_the_results(folder, tmp_path):
    extra = {"origin": "here", "training": {"seed": 7, "digest": "d", "stages": ["imitation"],
                                            "config": {"network": {"size": "tiny"}}}}  # fmt: skip
    model = tmp_path / "onboard-v9.onnx"
    manifest = export(model, untrained(1, TINY, Variant(rgb=False)), "onboard-v9", extra, steps=2).manifest
    refused = run(folder, "--card", tmp_path / "card.md", "--model", model)
    assert refused.exit_code == 2
    assert "is not of" in refused.stderr
    digest = file_digest(model)
    for name, one in (("all", evaluated(model=digest)), ("rendered", evaluated(3, model=digest, loop="rendered"))):
        put(folder / "evaluate" / f"{name}.json", one)
    (folder / "hardware.txt").write_text("two cores\n")
    assert run(folder, "--card", tmp_path / "card.md", "--model", model).exit_code == 0
    card = (tmp_path / "card.md").read_text()
    assert card.startswith("# onboard-v9\n")
    told = ["never driven", "83.3 (55.2 to 95.3)", "| network | size | tiny |", "two cores", "| seed | 7 |"]
    told += [manifest.sha256, "Not measured yet (ablations.json)", "| code that drove the evaluations | c |"]
    assert [one for one in told if one not in card] == []
    assert str(tmp_path) not in card
    assert run(folder, "--card", tmp_path / "card.md").stderr == "error: --card and --model: give both or none\n"


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


TOUCHING_PX = 4


def test_drives_are_drawn_over_their_map(tmp_path):
    indices = (3, 7)  # drives are spread over a set: a goal is that of its own episode
    known = load_set(Source("depot", "depot", len(indices), set="validation")).episodes
    ways = [[[known[i].start.x_m, known[i].start.y_m, 0.0], [*known[i].goal_xy_m, 0.0]] for i in indices]
    drives = [
        {"index": i, "success": bool(n), "path": way} for n, (i, way) in enumerate(zip(indices, ways, strict=True))
    ]
    pictures.save_trajectories({"map": "depot", "set": "validation", "drives": drives}, tmp_path / "a" / "t.png")
    image = np.asarray(Image.open(tmp_path / "a" / "t.png")).astype(int)
    goal, *lines = (
        np.argwhere(np.abs(image - color).max(axis=2) < 20)
        for color in (pictures.GOAL, pictures.ARRIVED, pictures.LOST)
    )
    assert len(goal) > 20
    for line in lines:
        assert len(line) > 20
        assert np.abs(line[:, None] - goal[None]).max(axis=2).min() < TOUCHING_PX
