"""`onboard-engines report`: every figure is from a file, and a wrong file is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engines.report.differences import main_differences, pairs_of
from engines.report.results import gather
from hil.evaluate.metrics import paired_rates, summarise
from onboard.values.errors import InputError
from tests.engines.report.result_rig import SETS, evaluated, put, results_in
from tests.engines.report.result_rig import report as run
from tests.rigs.evaluate_rows import row


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with some results of one model."""
    return results_in(tmp_path / "results")


def rows_of(text: str, heading: str) -> dict[str, list[str]]:
    """Return the cells of a table's rows by the first of them."""
    part = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    cells = [line.strip("| ").split(" | ") for line in part.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in reversed(cells)}


def test_a_folder_prints_its_tables_and_names_those_without_files(folder):
    text = run(folder).stdout
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert headings == ["## Evaluations", "## Paired differences", "## Robustness"]
    row = rows_of(text, "Evaluations")["this policy"]
    assert row[:3] == ["set `unseen`, fast simulation", "12", "83.3 (55.2 to 95.3)"]


def test_json_has_each_evaluation_with_its_figures_and_the_tables_without_files(folder, tmp_path):
    values = json.loads(run(folder, "--json", "-").stdout)
    named = {value["name"]: value for value in values["evaluations"]}
    headline = next(
        value for value in values["evaluations"] if (value["condition"], value["loop"]) == ("paper", "fast")
    )
    assert (headline["all"]["episodes"], round(headline["all"]["success_rate"], 3)) == (12, 0.833)
    assert sum(one["episodes"] for one in headline["maps"].values()) == 12
    assert len(named) == len(values["evaluations"]) == 3
    assert values["missing"] == {}
    assert run(folder, "--json", str(tmp_path / "none" / "x.json")).exit_code == 2


def test_every_map_and_detour_has_a_row_and_each_episode_is_in_one_class(folder):
    lines = [line for line in run(folder).stdout.splitlines() if line.startswith("| this policy | ")]
    assert sum(" | map " in line for line in lines) == 2
    assert sum(int(line.split(" | ")[2]) for line in lines if "shortest way / straight line" in line) == 12


def test_a_condition_has_its_difference_and_its_failures(folder):
    low, high = paired_rates(0, 2, 12)
    rows = rows_of(run(folder).stdout, "Robustness")
    assert rows["`no_front`"][0].startswith("no front camera, ")
    assert rows["`no_front`"][3] == f"-16.7 ({100 * low:+.1f} to {100 * high:+.1f})"
    assert rows["`no_front`"][-2:] == ["3 (4.00 m)", "1 (2.00 m)"]
    assert "`paper`, whole runtime, rendered cameras" in rows


def test_behind_doors_the_figures_are_of_the_episodes_behind_doors(folder):
    """Of four with a door two do not arrive, of which one did not under the paper's noise either."""
    doors, lost = ["shut", "shut", "none", "open", "open", *["none"] * 7], (0, 3, 5, 6)
    there = [row(n, map="ahg2" if n % 2 else "willow", door=door, success=n not in lost)
             for n, door in enumerate(doors)]  # fmt: skip
    values = {**evaluated(condition="blocked"), **summarise(there).as_json()}
    put(folder / "evaluate" / "blocked.json", {**values, "per_episode": [one.as_json() for one in there]})
    cells = rows_of(run(folder).stdout, "Robustness")["`blocked`"]
    assert cells[1] == "4 of 12 behind doors, 2 shut"
    assert (cells[2].split()[0], cells[3].split()[0]) == ("50.0", "+0.0")


def test_policies_are_compared_on_the_same_episodes(folder):
    put(folder / "others" / "reactive.json", evaluated(4, model=None, policy="reactive"))
    put(folder / "evaluate" / "blind.json", evaluated(1, color=False, code="newer"))
    for name, lost in (("before", 4), ("after", 1), ("after-home", 1), ("reactive-home", 3)):
        put(folder / "finetune" / f"{name}.json", evaluated(lost, model=name))
    rows = rows_of(run(folder).stdout, "Paired differences")
    assert {name: cells[1].split()[0] for name, cells in rows.items() if "minus" in name} == {
        "this policy minus reactive": "+16.7",
        "this policy minus seed1": "-8.3",
        "seed1 minus reactive": "+25.0",
        "this policy without colour images minus with them †": "+8.3",
        "after minus before": "+25.0",
        "after-home minus reactive-home": "+16.7",
    }


def test_a_policy_driven_without_colour_on_other_sets_has_its_figures_and_differences(tmp_path):
    hard = [[*place[:4], "hard"] for place in SETS]
    put(tmp_path / "evaluate" / "hard.json", evaluated(3, color=False, sets=hard, known_map=""))
    put(tmp_path / "others" / "reactive.json", evaluated(4, model=None, policy="reactive", sets=hard))
    text = run(tmp_path).stdout
    driven, _, rate, *_ = rows_of(text, "Evaluations")["this policy"]
    assert (driven, rate[:6]) == ("set `hard`, fast simulation, without colour images", "75.0 (")
    (name,) = [name for name in rows_of(text, "Paired differences") if "minus" in name]
    assert name == "this policy without colour images, set `hard`, minus reactive"


def test_a_seed_is_compared_with_the_others_on_every_set(folder):
    hard = [[*place[:4], "hard"] for place in SETS]
    put(folder / "others" / "reactive-hard.json", evaluated(4, model=None, policy="reactive", sets=hard))
    put(folder / "seeds" / "seed2-hard.json", evaluated(3, model="n", sets=hard))
    rows = rows_of(run(folder).stdout, "Paired differences")
    assert {name: cells[1].split()[0] for name, cells in rows.items() if "reactive" in name} == {
        "seed2-hard minus reactive": "+8.3"
    }


def test_the_policy_with_a_fallback_is_compared_with_the_others(folder):
    put(folder / "others" / "reactive.json", evaluated(4, model=None, policy="reactive"))
    put(folder / "others" / "beside.json", evaluated(1, policy="small+reactive"))
    assert {name: cells[0].split()[0] for name, _, *cells in main_differences(gather(folder))} == {
        "this policy minus small+reactive": "-8.3",
        "this policy minus reactive": "+16.7",
        "small+reactive, set `unseen`, minus reactive": "+25.0",
    }


@pytest.mark.parametrize(
    "other",
    [{"sets": SETS[:1]}, {"condition_values": {"drift_scale": 2.0}}, {"loop": "runtime"}, {"robot": "s"}, {"seed": 2},
     {"scan": "lidar"}, {"pedestrians": 3}, {"color": False}],
    ids=lambda one: next(iter(one)),
)  # fmt: skip
def test_what_was_driven_otherwise_is_not_compared(folder, other):
    put(folder / "others" / "a.json", evaluated(5, **other))
    found = gather(folder)
    assert not (found.headline.is_driven_as(found.others[0]) and pairs_of(found.headline, found.others[0]))


#    file                         content                              what is said
WRONG = [
    ("evaluate/a.json", "{", "a.json: not valid JSON"),
    ("evaluate/a.json", "[]", "a.json: not a JSON object"),
    ("evaluate/a.json", "{}", "a.json: a: not the result of onboard-hil evaluate"),
    ("evaluate/a.json", json.dumps({"complete": False}), "a: the evaluation was interrupted"),
    ("evaluate/z.json", json.dumps(evaluated(model="n")), "z.json: has another model than .*all.json"),
    (
        "others/z.json",
        json.dumps(evaluated(arrival_confidence=0.9)),
        "z.json: driven with goal.arrival_confidence 0.9, .*json with 0: they share no table",
    ),
    (
        "others/z.json",
        json.dumps(evaluated(scan_matching=True)),
        "z.json: driven with odometry.scan_matching true, .*json with false: they share no table",
    ),
    (
        "evaluate/z.json",
        json.dumps({"conditions": {"a": evaluated(manifest="1"), "b": evaluated(manifest="2")}}),
        "z.json: has another manifest than .*z.json",
    ),
    ("evaluate/a.json", '{"conditions": [1]}', "a.json: not the result of onboard-hil evaluate"),
    ("evaluate/a.json", '{"conditions": {"paper": 1}}', "a.json: a, paper: not the result of onboard-hil evaluate"),
    ("others/a.json", json.dumps({**evaluated(), "configuration": None}), "a.json: a: not the result of onboard-hil"),
]


@pytest.mark.parametrize(("name", "content", "expected"), WRONG)
def test_a_wrong_file_is_refused_in_one_line(folder, name, content, expected):
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=expected):
        gather(folder)
    done = run(folder)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    assert run(tmp_path / "none").stderr == f"error: {tmp_path / 'none'}: no such folder\n"
