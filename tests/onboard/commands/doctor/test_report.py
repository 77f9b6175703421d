"""`onboard-engines report`: every figure from a file, what is missing is said, wrong files are refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from engines.report import plots
from engines.report.card_sections import PARTS, detours, failures, headline, robustness, seeds
from engines.report.results.markdown import hours, summary_of_json, table
from engines.report.results.result_files import TOLD, gather
from engines.report.results.section import LOOPS
from engines.report.sections.differences import paired
from hil.evaluate.episode_selection import Source, load_set
from hil.evaluate.metrics import summarise
from hil.evaluate.result import row_of_json
from onboard.values.errors import InputError
from tests.rigs.result_rows import COUNTS, SETS, evaluated, part_of, put, results_in, rows
from tests.rigs.result_rows import report as run


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with some results of one model."""
    return results_in(tmp_path / "results")


def test_the_headline_is_that_of_the_files_beside_the_papers(folder):
    part = headline(gather(folder))
    assert part.missing == ""
    assert [(one["loop"], one["success_rate"]) for one in part.data["ours"]] == [("fast", 10 / 12), ("rendered", 0.75)]
    assert "| set unseen, policy and base stepped directly | 12 | 83.3 (55.2 to 95.3) |" in part.markdown
    assert "(quoted) | 2500 | 97.4 | 82.2 | 51 | - |" in part.markdown


def test_every_condition_has_a_row_with_what_it_is(folder):
    part = robustness(gather(folder))
    assert [one["condition"] for one in part.data] == ["paper", "paper", "no_front"]
    assert "| `no_front` | no front camera; " in part.markdown


def test_a_row_without_colour_says_so(folder):
    put(folder / "evaluate" / "blind.json", evaluated(3, color=False))
    assert "fast" in {one["loop"] for one in robustness(gather(folder)).data}
    assert "\n| `paper`, without colour images | as the paper trains" in robustness(gather(folder)).markdown


@pytest.mark.parametrize("other", [{"pedestrians": 3}, {"scan": "lidar"}])
def test_figures_among_people_or_by_another_scan_are_not_quoted(folder, other):
    put(folder / "evaluate" / "a.json", evaluated(12, **other))
    assert gather(folder).headline.name == "all, paper"


def test_an_evaluation_with_more_than_its_condition_says_so(folder):
    put(folder / "evaluate" / "b.json", evaluated(pedestrians=3, scan="lidar"))
    assert "policy and base stepped directly, scan lidar, pedestrians 3 | " in headline(gather(folder)).markdown


@pytest.mark.parametrize(
    "other",
    [{"condition": "no_front"}, {"loop": "runtime"}, {"color": False}, {"sets": [["ahg2", 6, "", None, ""]]},
     {"pedestrians": 3}, {"scan": "lidar"}],
)  # fmt: skip
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
    told = failures(gather(folder))
    assert told.data[:2] == [
        {"condition": "`paper`", "ended": "time", "episodes": 1, "median_m": 2.0, "most_m": 2.0},
        {"condition": "`paper`", "ended": "stop", "episodes": 1, "median_m": 3.0, "most_m": 3.0},
    ]
    assert "2 of 12 episodes did not arrive. 11 ended by the stop action, 1 of these not within" in told.markdown
    for name, loop in (("all", "fast"), ("rendered", "rendered")):
        put(folder / "evaluate" / f"{name}.json", evaluated(0, loop=loop))
    assert "None of the episodes failed." in failures(gather(folder)).markdown


def test_two_files_of_one_condition_are_two_rows(folder):
    put(folder / "evaluate" / "once.json", evaluated(9, condition="no_rear"))
    put(folder / "evaluate" / "twice.json", evaluated(3, condition="no_rear"))
    lines = [line for line in failures(gather(folder)).markdown.splitlines() if line.startswith("| `no_rear`")]
    assert [line.split(" | ")[1] for line in lines] == ["9 of 12", "3 of 12"]


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
    assert [file.name for file in (tmp_path / "pictures").iterdir()] == [plots.ACTIONS_FILE]


#    what is given                                           what is said
TARGETS = [
    (("--card", "none/card.md", "--model", "m.onnx"), "none/card.md: cannot be written: there is no folder "),
    (("--card", ".", "--model", "m.onnx"), ": cannot be written: is a folder"),
    (("--card", "card.md", "--model", "m.onnx"), "m.onnx.manifest.json: cannot be read: "),
    (("--json", "none/a.json"), "none/a.json: cannot be written: there is no folder "),
    (("--pictures", "file/pictures"), "file/pictures: cannot be written: "),
]


@pytest.mark.parametrize(("given", "said"), TARGETS)
def test_nothing_is_driven_where_the_result_could_not_be_written(folder, tmp_path, monkeypatch, given, said):
    monkeypatch.setattr(plots, "drive_trajectories", lambda *_: pytest.fail("was driven"))
    (tmp_path / "file").touch()
    done = run(folder, "--drive", "m.onnx", *(one if one.startswith("--") else tmp_path / one for one in given))
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


#    file                         content                              what is said
WRONG = [
    ("evaluate/a.json", "{", "a.json: not valid JSON"),
    ("evaluate/a.json", "[]", "a.json: not a JSON object"),
    ("evaluate/a.json", "{}", "a.json: a: not the result of onboard-hil evaluate"),
    ("evaluate/a.json", json.dumps({"complete": False}), "a: the evaluation was interrupted"),
    ("evaluate/z.json", json.dumps(evaluated(model="n")), "z.json: is of another model than .*all.json"),
    (
        "evaluate/z.json",
        json.dumps({"conditions": {"a": evaluated(manifest="1"), "b": evaluated(manifest="2")}}),
        "z.json: is of another manifest than .*z.json",
    ),
    ("ceiling.json", "{}", "ceiling.json: has no conditions"),
    ("training/journal.jsonl", "{}\n", "journal.jsonl: line 1: not a row of a training's journal"),
    ("training.json", "{}", "training.json: has no throughput"),
    ("training.json", '{"throughput": [{"training": "a"}]}', "training.json: throughput: not what a report tells"),
    ("training.json", '{"throughput": true}', "training.json: throughput: not what a report tells of trainings: True"),
    ("training.json", '{"throughput": {}}', "training.json: throughput: not what a report tells of trainings: {}"),
    ("training/journal.jsonl", "x\n", "journal.jsonl: line 1: not valid JSON"),
    (
        "training/journal.jsonl",
        '{"stage": "a", "step": [1], "decisions": 1}\n',
        "journal.jsonl: not a training's journal",
    ),
    (
        "training/journal.jsonl",
        '{"stage": "a", "step": 1, "decisions": "x"}\n',
        "journal.jsonl: not a training's journal",
    ),
    ("evaluate/a.json", '{"conditions": [1]}', "a.json: not the result of onboard-hil evaluate"),
    ("evaluate/a.json", '{"conditions": {"paper": 1}}', "a.json: a, paper: not the result of onboard-hil evaluate"),
    (
        "evaluate/a.json",
        json.dumps({**evaluated(), "per_map": []}),
        "a.json: a: not the result of onboard-hil evaluate",
    ),
    (
        "evaluate/a.json",
        json.dumps({**evaluated(), "configuration": 5}),
        "a.json: a: not the result of onboard-hil evaluate: TypeError",
    ),
    ("others/a.json", json.dumps({**evaluated(), "configuration": None}), "a.json: a: not the result of onboard-hil"),
    ("seeds/a.onnx.manifest.json", "{}", "a.onnx.manifest.json: contract_version: "),
    ("finetune/a.onnx.manifest.json", "[", "a.onnx.manifest.json: "),
    ("others/a.json", '{"baselines": []}', "a.json: not the result of onboard-hil evaluate"),
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


#    file                content                             what is said
OF_ANOTHER_SHAPE = [
    ("encoder.json", '{"a": 1}', "encoder.json: not what its place says"),
    ("ceiling.json", '{"conditions": []}', "ceiling.json: not what its place says"),
    ("ceiling.json", '{"conditions": {"paper": {}}}', "ceiling.json: not what its place says"),
    ("ablations.json", '{"rows": [{}]}', "ablations.json: not what its place says"),
    ("training.json", json.dumps({"throughput": [dict.fromkeys(TOLD, "a")]}), "training: not what its place says"),
    ("trajectories.json", '{"drives": [{}]}', "trajectories.json: not what onboard-engines report --drive writes"),
]


@pytest.mark.parametrize(("name", "content", "said"), OF_ANOTHER_SHAPE)
def test_values_of_another_shape_are_refused_in_one_line(folder, tmp_path, name, content, said):
    (folder / name).write_text(content)
    done = run(folder, "--pictures", tmp_path / "pictures")
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {folder / said.split(':')[0]}: {said.split(': ')[1]}")
    assert done.stderr.count("\n") == 1


def test_an_earlier_report_may_tell_of_no_training(tmp_path):
    put(tmp_path / "training.json", json.loads(run(tmp_path, "--json", "-").stdout))
    assert gather(tmp_path).trainings == {}


def test_a_line_that_is_no_text_is_refused(folder):
    (folder / "hardware.txt").write_bytes(b"\xff\xfe\0")
    assert run(folder).stderr.startswith(f"error: {folder / 'hardware.txt'}: not a line of text: ")


def test_what_is_not_reached_of_the_papers_figures_is_said(folder):
    """Of 12 episodes 10 arrived, SR 83.3."""
    assert "SR is not above its 97.4" in headline(gather(folder)).markdown


def test_another_policy_is_compared_on_the_same_episodes(folder):
    put(folder / "others" / "a.json", evaluated(5))
    found = gather(folder)
    (other,) = [one for one in found.others if one.name == "a"]
    pair = paired(found.headline, other)
    assert pair["SR"].mean == pytest.approx((10 - 7) / 12)
    assert pair["SR"].interval[0] <= pair["SR"].mean <= pair["SR"].interval[1]
    assert "On the same 12 episodes this policy minus a, in points: SR +25.0 (" in headline(found).markdown
    row = f"| for comparison: a, set unseen, {LOOPS['fast']} | 12 | 58.3 ("
    assert row in headline(found).markdown


def test_who_else_was_driven_in_a_condition_stands_beside_the_policy_in_it(folder):
    put(folder / "others" / "a.json", evaluated(5, condition="no_front", policy="reactive"))
    found = gather(folder)
    rows = [line for line in robustness(found).markdown.splitlines() if line.startswith("| `no_front`")]
    assert [line.split(" | ")[0] for line in rows] == ["| `no_front`", "| `no_front`, for comparison reactive"]
    assert "58.3 (" in rows[1]
    assert "for comparison" not in headline(found).markdown


@pytest.mark.parametrize(
    "other",
    [{"sets": SETS[:1]}, {"condition": "robot"}, {"condition_values": {"drift_scale": 2.0}}, {"loop": "runtime"},
     {"robot": "s"}, {"seed": 2}, {"scan": "lidar"}, {"pedestrians": 3}],
    ids=lambda one: next(iter(one)),
)  # fmt: skip
def test_who_was_driven_otherwise_is_not_compared_by_episodes(folder, other):
    put(folder / "others" / "a.json", evaluated(5, **other))
    found = gather(folder)
    assert paired(found.headline, found.others[0]) == {}
    assert "episodes this policy minus" not in headline(found).markdown
    assert ("for comparison: a, set unseen, `robot`, " in headline(found).markdown) is ("condition" in other)


def test_arrivals_without_contact_are_told_beside_all(folder):
    table = evaluated(2, condition="no_front")
    touched = [{**row, "contacts": int(number in (0, 5, 7))} for number, row in enumerate(table["per_episode"])]
    episodes = [row_of_json(row) for row in touched]
    one = {**table, **summarise(episodes).as_json(), "per_episode": touched}
    put(folder / "evaluate" / "all.json", {"conditions": {"no_front": one}})
    part = robustness(gather(folder))
    assert "| arrived without contact % |" in part.markdown
    (row,) = [line for line in part.markdown.splitlines() if line.startswith("| `no_front`")]
    assert "| 12 | 83.3 (" in row
    assert row.split(" | ")[8].startswith("66.7 ("), "ten arrived, two of them touched something; one that did is lost"


def test_the_headline_is_of_the_evaluation_that_has_most_episodes(folder):
    put(folder / "evaluate" / "a-try.json", part_of(evaluated(), range(3)))
    assert len(gather(folder).headline.rows) == 12


@pytest.mark.parametrize("name", ["success_rate", "spl", "sct", "contacts_per_episode"])
def test_figures_that_are_not_of_the_episodes_are_refused(folder, name):
    told = evaluated()
    file = put(folder / "evaluate" / "drawn.json", {**told, name: told[name] + 0.01})
    refused = run(folder)
    assert refused.exit_code == 2
    assert refused.stderr.startswith(f"error: {file}: drawn: states {name} {told[name] + 0.01}, its 12 episodes have ")


def test_episodes_that_are_missing_are_refused(folder):
    told = evaluated()
    file = put(folder / "evaluate" / "cut.json", {**told, "per_episode": told["per_episode"][1:]})
    assert run(folder).stderr == f"error: {file}: cut: states 12 episodes, tells 11\n"


def test_a_row_on_other_buildings_says_so(folder):
    put(folder / "evaluate" / "home.json", evaluated(sets=[["home", 12, "", None, ""]]))
    rows = [line for line in robustness(gather(folder)).markdown.splitlines() if line.startswith("|")]
    assert sum("episodes of one's own" in row for row in rows) == 1


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    assert run(tmp_path / "none").stderr == f"error: {tmp_path / 'none'}: no such folder\n"


def test_tables_and_times():
    assert table(("a", "b"), [["x", "1"]]) == "| a | b |\n|---|---:|\n| x | 1 |\n"
    assert [hours(value) for value in (None, 0.25, 1.5, 12.34)] == ["-", "15 min", "90 min", "12.3 h"]
    summary = summarise(rows(2))
    assert summary_of_json(json.loads(json.dumps(summary.as_json()))) == summary


TOUCHING_PX = 4


def test_drives_are_drawn_over_their_map(tmp_path):
    indices = (3, 7)  # drives are spread over a set: a goal is that of its own episode
    known = load_set(Source("depot", "depot", len(indices), set="validation")).episodes
    ways = [[[known[i].start.x_m, known[i].start.y_m, 0.0], [*known[i].goal_xy_m, 0.0]] for i in indices]
    drives = [
        {"index": i, "success": bool(n), "path": way} for n, (i, way) in enumerate(zip(indices, ways, strict=True))
    ]
    plots.save_trajectories(
        {"policy": "p", "map": "depot", "set": "validation", "drives": drives}, tmp_path / "a" / "t.png"
    )
    image = np.asarray(Image.open(tmp_path / "a" / "t.png")).astype(int)
    goal, *lines = (
        np.argwhere(np.abs(image - color).max(axis=2) < 20) for color in (plots.GOAL, plots.ARRIVED, plots.LOST)
    )
    assert len(goal) > 20
    for line in lines:
        assert len(line) > 20
        assert np.abs(line[:, None] - goal[None]).max(axis=2).min() < TOUCHING_PX
