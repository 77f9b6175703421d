"""What is told of the same episodes: conditions minus the paper's, fine-tuning, what a policy began with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engines.report.card_sections import headline
from engines.report.results.columns import read_table
from engines.report.results.result_files import gather
from engines.report.results.section import LOOPS
from engines.report.sections.differences import paired, pairs_of, verdict
from engines.report.sections.lineage import base_of
from engines.report.sections.robustness import in_conditions, robustness
from engines.report.sections.trainings import choice, fine_tuning, seeds
from hil.evaluate.metrics import paired_rates, summarise
from onboard.values.errors import InputError
from tests.engines.report.trained_files import given_default_robot, manifest_in, recipe_training, shipped_plant
from tests.rigs.evaluate_rows import row
from tests.rigs.result_rows import SETS, evaluated, part_of, put, report, results_in


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with some results of one model: of twelve episodes two fail, four without a front camera."""
    return results_in(tmp_path / "results")


def rows_of(part) -> dict[str, list[str]]:
    """Return the cells of a table's rows by the first of them."""
    lines = [line.strip("| ").split(" | ") for line in part.markdown.splitlines() if line.startswith("| ")]
    return {cells[0]: cells for cells in lines}


# ---- conditions --------------------------------------------------------------------------------------------------


def test_a_condition_is_told_minus_the_papers_on_the_same_episodes(folder):
    low, high = paired_rates(0, 2, 12)
    cells = rows_of(robustness(gather(folder)))
    assert cells["`no_front`"][4] == f"-16.7 ({100 * low:+.1f} to {100 * high:+.1f})"
    assert cells["`paper`"][4] == "-"
    assert cells["`paper`, through the whole runtime, cameras rendered"][4].startswith("-8.3 (")


def test_a_part_of_the_episodes_is_paired_with_that_part_alone(folder):
    """The first two of the six that are lost are not among them: of the others all arrive under the paper's noise."""
    whole = evaluated(6, condition="no_rear", sets=[[*one[:1], 5, *one[2:]] for one in SETS])
    put(folder / "evaluate" / "few.json", part_of(whole, range(2, 12)))
    (one,) = [each for each in in_conditions(gather(folder)) if each.one.condition == "no_rear"]
    assert (one.less.mean, one.paired) == (-4 / 10, 10)


#    sets of the other                                                 episodes in common
OTHER_SETS = [
    ([["ahg2", 105, "", None, "unseen"], SETS[1]], 12),
    ([["ahg2", 6, "digest", None, "unseen"], SETS[1]], 6),
    ([["ahg2", 6, "", None, "validation"], ["willow", 6, "", 3, ""]], 0),
]


@pytest.mark.parametrize(("sets", "common"), OTHER_SETS)
def test_only_episodes_of_the_same_sets_are_paired(folder, sets, common):
    put(folder / "evaluate" / "other.json", evaluated(4, condition="no_rear", sets=sets))
    found = gather(folder)
    (other,) = [one for one in found.evaluations if one.name == "other"]
    assert len(pairs_of(other, found.headline)) == common
    (one,) = [each for each in in_conditions(found) if each.one is other]
    assert (one.paired, one.less is None) == (common, common == 0)


def test_with_another_robot_there_is_no_difference_to_the_papers(folder):
    put(folder / "evaluate" / "other.json", evaluated(4, condition="no_rear", robot="other"))
    assert rows_of(robustness(gather(folder)))["`no_rear`"][4] == "-"


def test_a_difference_between_two_states_of_the_code_is_marked(folder):
    assert "†" not in robustness(gather(folder)).markdown + seeds(gather(folder)).markdown
    put(folder / "evaluate" / "other.json", evaluated(4, condition="no_rear", code="newer"))
    put(folder / "seeds" / "other.json", evaluated(1, policy="other.onnx", code="newer"))
    found = gather(folder)
    assert rows_of(robustness(found))["`no_rear`"][4].endswith(") †")
    assert not rows_of(robustness(found))["`no_front`"][4].endswith("†")
    assert "this policy minus other †" in rows_of(seeds(found))
    for part in (robustness(found), seeds(found)):
        assert part.markdown.count("†: two states of the code") == 1


def test_where_the_digests_of_the_code_stand_is_said_alike_with_and_without_a_card(folder):
    """Of a report in the terminal there is no card: the results themselves have the digests."""
    put(folder / "evaluate" / "other.json", evaluated(4, condition="no_rear", code="newer"))
    (note,) = [line for line in report(folder).stdout.splitlines() if line.startswith("†")]
    assert "the `code` in the `configuration` of each result, and stand at the head of a model card" in note
    assert "this card" not in note
    assert [one.configuration["code"] for one in gather(folder).evaluations if one.name == "other"] == ["newer"]


def test_without_colour_images_is_told_minus_with_them(folder):
    put(folder / "evaluate" / "bare.json", evaluated(1, color=False, code="newer"))
    (words,) = [one for one in verdict(gather(folder), (97.4, 82.2, 51.0)) if "colour" in one]
    assert words.startswith(
        "On the same 12 episodes this policy without colour images minus itself with them, in points: SR +8.3 ("
    )
    assert words.endswith(". Two states of the code drove them.")


def test_behind_doors_the_difference_is_of_the_episodes_behind_doors(folder):
    """Of four with a door two do not arrive, of which one did not under the paper's noise either."""
    whole = evaluated(condition="blocked")
    doors = ["shut", "shut", "none", "open", "open", *["none"] * 7]
    lost = (0, 3, 5, 6)
    driven = [
        row(n, map="ahg2" if n % 2 else "willow", door=door, success=n not in lost) for n, door in enumerate(doors)
    ]
    told = {**whole, **summarise(driven).as_json(), "per_episode": [one.as_json() for one in driven]}
    put(folder / "evaluate" / "blocked.json", told)
    (one,) = [each for each in in_conditions(gather(folder)) if each.one.condition == "blocked"]
    assert (one.summary.success_rate, one.less.mean, one.paired) == (0.5, 0.0, 4)


def with_values(lost: int, reset: float | str | None, **changes):
    """Return a result that tells its condition's values, so far as they matter for the clock's reset."""
    blocked_s = 20.0 if "blocked" in changes["condition"] else 0.0
    return evaluated(lost, condition_values={"blocked_s": blocked_s, "memory_reset_s": reset}, **changes)


def test_the_clocks_reset_is_told_beside_the_same_without_it(folder):
    """Without doors on all episodes; the doors' conditions on those behind them, of which one more arrives."""
    assert "What the memory's reset" not in robustness(gather(folder)).markdown
    put(folder / "evaluate" / "paper.json", with_values(2, None, condition="paper"))
    put(folder / "evaluate" / "no_reset.json", with_values(5, "never", condition="no_reset"))
    for name, reset, lost in (("blocked", 10.0, (0, 5)), ("blocked_no_reset", "never", (0, 1, 6, 7))):
        driven = [
            row(n, map="ahg2" if n % 2 else "willow", door="shut" if n < 4 else "none", success=n not in lost)
            for n in range(12)
        ]
        told = {"per_episode": [one.as_json() for one in driven], **summarise(driven).as_json()}
        put(folder / "evaluate" / f"{name}.json", {**with_values(0, reset, condition=name), **told})
    words = robustness(gather(folder)).markdown
    assert words.count("What the memory's reset by the clock does") == 1
    assert "On the same 12 episodes `paper` minus `no_reset`, in points: SR +25.0 (" in words
    both = "`blocked` behind doors minus `blocked_no_reset` behind doors"
    assert f"On the same 4 episodes {both}, in points: SR +25.0 (" in words


@pytest.mark.parametrize(
    "changes", [{"robot": "other"}, {"color": False}, {"loop": "runtime"}], ids=["robot", "colour", "loop"]
)
def test_the_clocks_reset_is_told_of_the_same_drives_alone(folder, changes):
    put(folder / "evaluate" / "paper.json", with_values(2, None, condition="paper"))
    put(folder / "evaluate" / "no_reset.json", with_values(5, "never", condition="no_reset", **changes))
    assert "What the memory's reset" not in robustness(gather(folder)).markdown


def test_the_quoted_figures_come_before_others_of_their_condition(folder):
    put(folder / "evaluate" / "a.json", evaluated(1, color=False))
    found = gather(folder)
    assert headline(found).data["ours"][0]["color"]
    assert in_conditions(found)[0].one is found.headline


def test_others_are_told_minus_what_they_did_themselves(folder):
    put(folder / "others" / "a.json", evaluated(7, condition="no_front", policy="reactive"))
    assert rows_of(robustness(gather(folder)))["`no_front`, for comparison reactive"][4] == "-"
    put(folder / "others" / "b.json", evaluated(1, policy="reactive"))
    assert rows_of(robustness(gather(folder)))["`no_front`, for comparison reactive"][4].startswith("-50.0 (")


def test_conditions_of_a_low_rate_are_named_the_worst_first(folder):
    put(folder / "others" / "a.json", evaluated(12, condition="no_front", policy="reactive"))
    put(folder / "evaluate" / "b.json", evaluated(1, condition="no_rear"))
    told = robustness(gather(folder)).markdown
    assert "SR is below 90 % in 3 of the policy's 4 rows, the worst first: `no_front` 66.7, `paper`, through" in told
    for name, loop in (("all", "fast"), ("rendered", "rendered")):
        put(folder / "evaluate" / f"{name}.json", evaluated(0, loop=loop))
    assert "SR is 90 % or more in every condition." in robustness(gather(folder)).markdown


# ---- fine-tuning -------------------------------------------------------------------------------------------------


def test_each_pair_stands_together_and_is_compared(folder):
    for name, lost, color in (("before", 4, True), ("after", 1, True), ("before-x", 3, False), ("after-x", 2, False)):
        put(folder / "finetune" / f"{name}.json", evaluated(lost, color=color, model=name.split("-")[0]))
    put(folder / "finetune" / "another.json", evaluated())
    part = fine_tuning(gather(folder))
    assert [one["name"] for one in part.data] == ["before", "after", "before-x", "after-x", "another"]
    assert "On the same 12 episodes after minus before, in points: SR +25.0 (" in part.markdown
    assert "On the same 12 episodes after-x minus before-x, in points: SR +8.3 (" in part.markdown
    assert "On the same 12 episodes before-x minus before, in points: SR +8.3 (" in part.markdown
    assert "On the same 12 episodes after-x minus after, in points: SR -8.3 (" in part.markdown
    assert part.markdown.count("On the same") == 4


@pytest.mark.parametrize("other", [{"color": False}, {"robot": "other"}, {"seed": 2}])
def test_a_pair_that_was_not_driven_alike_is_not_compared(folder, other):
    put(folder / "finetune" / "before.json", evaluated(4))
    put(folder / "finetune" / "after.json", evaluated(1, **other))
    found = gather(folder)
    assert paired(*found.fine) == {}
    assert "after and before were not driven alike" in fine_tuning(found).markdown


def test_the_base_is_named_where_the_digest_of_its_plant_agrees(folder):
    plant = shipped_plant(folder / "finetune" / "slow.toml", acceleration_max="1.25")
    put(folder / "finetune" / "before.json", evaluated(robot=given_default_robot(plant)))
    put(folder / "finetune" / "after.json", evaluated(robot=given_default_robot(None)))
    found = gather(folder)
    assert [(one.name, base_of(one)) for one in found.fine] == [("after", ""), ("before", "slow.toml")]
    told = fine_tuning(found).markdown
    assert "| ahg2, willow, base `slow.toml` | " in told
    assert "Beside these results, in `finetune/`: `slow.toml`." in told


def test_a_plant_that_changed_since_it_was_asked_for_is_read_anew(folder):
    put(folder / "finetune" / "after.json", evaluated(robot=given_default_robot(None)))
    (one,) = gather(folder).fine
    shipped_plant(folder / "finetune" / "slow.toml", acceleration_max="1.25")
    assert base_of(one) == ""
    shipped_plant(folder / "finetune" / "slow.toml")
    assert base_of(one) == "slow.toml"


def test_a_file_that_is_no_plant_is_refused_in_one_line(folder):
    put(folder / "finetune" / "before.json", evaluated())
    (folder / "finetune" / "recipe.toml").write_text("seed = 1\n")
    done = report(folder)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {folder / 'finetune' / 'recipe.toml'}: ")
    assert done.stderr.count("\n") == 1


# ---- trainings ---------------------------------------------------------------------------------------------------


def test_every_training_is_told_with_its_recipe(folder):
    seed2 = manifest_in(folder / "seeds", "seed-2.onnx", recipe_training("default.toml", 2, encoder_sha256="e"))
    put(folder / "seeds" / "two.json", evaluated(1, policy="/home/me/seed-2.onnx", manifest=seed2))
    fine = recipe_training("finetune.toml", 0, maps=["home"], plant="/home/me/slow.toml", init="first.onnx")
    manifest_in(folder / "finetune", "fine.onnx", fine)
    found = gather(folder)
    assert {one["name"]: one["recipe"] for one in seeds(found).data} == {
        "this policy": "not stated",
        "seed1": "not stated",
        "two": "`default.toml`, seed 2, the colour encoder of another training",
    }
    told = "How `fine.onnx` was trained: `first.onnx`, then `finetune.toml`, seed 0, maps home, base `slow.toml`."
    put(folder / "finetune" / "after.json", evaluated(policy="fine.onnx"))
    assert told in fine_tuning(gather(folder)).markdown


def test_a_recipe_of_which_more_differs_is_ones_own(folder):
    training = recipe_training("default.toml", 3)
    training["config"]["imitation"]["rate"] = 1.0
    manifest_in(folder / "seeds", "own.onnx", training)
    put(folder / "seeds" / "one.json", evaluated(1, policy="own.onnx"))
    recipes = {one["name"]: one["recipe"] for one in seeds(gather(folder)).data}
    assert recipes["one"] == "a recipe of its own, seed 3"


def test_a_manifest_of_another_policy_than_was_driven_is_refused(folder):
    file = folder / "seeds" / "seed-2.onnx.manifest.json"
    digest = manifest_in(folder / "seeds", "seed-2.onnx", recipe_training("default.toml", 2))
    put(folder / "seeds" / "two.json", evaluated(policy="seed-2.onnx", manifest="other"))
    with pytest.raises(InputError, match=rf"{file}: is not that of .*two.json \(digest {digest}, expected other\)"):
        gather(folder)


# ---- what a policy began with ------------------------------------------------------------------------------------

BASE = "b" * 64


@pytest.fixture
def onward(folder) -> dict[str, str]:
    """Return the configuration of a policy that began with base.onnx, whose episodes are those of the headline."""
    training = recipe_training("onward.toml", 7, init="/home/me/base.onnx", init_sha256=BASE)
    told = {"policy": "onward.onnx", "manifest": manifest_in(folder / "finetune", "onward.onnx", training)}
    put(folder / "evaluate" / "all.json", evaluated(**told))
    put(folder / "evaluate" / "rendered.json", evaluated(3, loop="rendered", **told))
    return told


def test_what_a_policy_began_with_is_found_by_its_digest(folder, onward):
    """Not by its name: the one of that name is another, and the one that it is has another name."""
    zero = manifest_in(folder / "seeds", "zero.onnx", recipe_training("default.toml", 0), BASE)
    put(folder / "seeds" / "a.json", evaluated(5, policy="base.onnx", manifest="other"))
    put(folder / "seeds" / "b.json", evaluated(4, policy="zero.onnx", manifest=zero))
    told = seeds(gather(folder)).markdown
    assert "On the same 12 episodes this policy minus b, which it began with, in points: SR +16.7 (" in told
    assert told.count("On the same") == 1


def test_what_a_policy_began_with_is_found_by_its_name_where_no_manifest_is_there(folder, onward):
    put(folder / "seeds" / "a.json", evaluated(5, policy="base.onnx", manifest="any"))
    assert "this policy minus a, which it began with by its name, in points" in seeds(gather(folder)).markdown


def test_a_manifest_that_is_not_of_what_a_policy_began_with_is_refused_in_one_line(folder, onward):
    manifest_in(folder / "seeds", "base.onnx", recipe_training("default.toml", 0), "a" * 64)
    done = report(folder)
    file = folder / "seeds" / "base.onnx.manifest.json"
    said = f"is not that of the base.onnx with which the training began (sha256 {'a' * 64}, expected {BASE})"
    assert (done.exit_code, done.stderr) == (2, f"error: {file}: {said}\n")


def test_the_set_for_choosing_is_told_of_the_policy_and_of_what_it_began_with(folder, onward):
    base = manifest_in(folder / "seeds", "base.onnx", recipe_training("default.toml", 0), BASE)
    sets = [[*one[:4], "validation"] for one in SETS]
    assert choice(gather(folder)).missing == "validation/*.json"
    put(folder / "validation" / "a.json", evaluated(5, policy="base.onnx", manifest=base, model="b", sets=sets))
    put(folder / "validation" / "b.json", evaluated(2, sets=sets, **{**onward, "policy": "/home/me/copy.onnx"}))
    part = choice(gather(folder))
    assert [(one["name"], one["success_rate"]) for one in part.data] == [("this policy", 10 / 12), ("a", 7 / 12)]
    assert rows_of(part)["a"][1:4] == [f"set validation, {LOOPS['fast']}", "12", "58.3 (32.0 to 80.7)"]
    gained = "On the same 12 episodes this policy minus a, which it began with, in points: SR +25.0 ("
    assert gained in part.markdown


def test_a_manifest_of_another_policy_than_was_driven_on_the_set_for_choosing_is_refused(folder):
    manifest_in(folder / "seeds", "base.onnx", recipe_training("default.toml", 0))
    put(folder / "validation" / "base.json", evaluated(policy="base.onnx", manifest="other"))
    with pytest.raises(InputError, match=r"is not that of .*validation/base\.json \(digest .*, expected other\)"):
        gather(folder)


def test_a_policy_that_ships_is_told_minus_what_it_began_with(folder):
    """By the manifest of what ships: its base is known by its name alone."""
    root = Path(__file__).parents[3]
    manifest = json.loads((root / "engines/pretrained/onboard-v1.onnx.manifest.json").read_text())
    first = Path(manifest["extra"]["training"]["init"]).name
    told = read_table(root / "docs/results/onboard-v1/evaluate/results.json")["paper"]["configuration"]["manifest"]
    put(folder / "evaluate" / "all.json", evaluated(manifest=told))
    put(folder / "evaluate" / "rendered.json", evaluated(3, loop="rendered"))
    put(folder / "seeds" / "base.json", evaluated(5, policy=first))
    part = seeds(gather(folder))
    assert (
        "On the same 12 episodes this policy minus base, which it began with by its name, in points: SR +25.0 ("
        in part.markdown
    )
    recipes = {one["name"]: one["recipe"] for one in part.data}
    assert recipes["this policy"].startswith(f"{recipes['base']}, then ")
    assert part.markdown.count("On the same") == 1


def test_each_training_is_compared_with_each_other_and_with_what_drove_beside(folder):
    put(folder / "seeds" / "seed2.json", evaluated(3, model="o"))
    put(folder / "others" / "reactive.json", evaluated(4, model=None, policy="reactive"))
    lines = seeds(gather(folder)).markdown.splitlines()
    told = {
        line.split(" | ")[0].removeprefix("| "): line.split(" | ")[1].split()[0] for line in lines if "minus" in line
    }
    assert told == {
        "this policy minus seed1": "-8.3",
        "this policy minus seed2": "+8.3",
        "seed1 minus seed2": "+16.7",
        "this policy minus reactive": "+16.7",
        "seed1 minus reactive": "+25.0",
        "seed2 minus reactive": "+8.3",
    }


@pytest.mark.parametrize(("kept", "word"), [(1.0, "after"), (0.0, "before")])
def test_what_a_training_chose_between_is_told(folder, kept, word):
    row = {"stage": "reinforce", "step": 80, "SR_before": 90.0, "SR_after": 91.67, "false_stops_before": 0.025,
           "false_stops_after": 0.0083, "kept_after": kept}  # fmt: skip
    journal = folder / "training" / "seed-1" / "journal.jsonl"
    journal.parent.mkdir(parents=True)
    journal.write_text(json.dumps({"stage": "reinforce", "step": 79}) + "\n" + json.dumps(row) + "\n")
    assert f"| training/seed-1 | 90.0 | 91.7 | 0.025 | 0.008 | {word} |" in choice(gather(folder)).markdown
