"""What can be known of a place, beside what was driven: the table of ceilings."""

from __future__ import annotations

from pathlib import Path

import pytest

from engines.report.card_sections import ceilings
from engines.report.results.result_files import gather
from tests.rigs.result_rows import CEILING, SETS, evaluated, put, results_in
from tests.rigs.result_rows import report as run


@pytest.fixture
def folder(tmp_path) -> Path:
    """Return a folder with some results of one model."""
    return results_in(tmp_path / "results")


def test_a_ceiling_has_the_success_rate_of_its_condition_beside_it(folder):
    part = ceilings(gather(folder))
    assert [(one["condition"], one["success_rate"]) for one in part.data] == [("paper", 10 / 12), ("drift_3", None)]
    assert "| `paper` | 94.8 | 12 of 12 | 94.8 | 5.1 | - | 94.4 | 83.3 (55.2 to 95.3) |" in part.markdown
    assert "| `drift_3` | 78.8 | - | 78.8 | 8.8 | - | 62.8 | - |" in part.markdown


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
    assert (f" | {len(common)} of {whole} | " in part.markdown) is bool(common)


def test_a_ceilings_own_figures_are_of_the_same_episodes_as_the_rate_beside_them(folder):
    """Of the third and fifth episode of ahg2 alone; what was driven under no evaluation is of all."""
    near, far, own = [0.05, 0.1, 0.05], [0.5, 0.6, 0.1], [0.3, 0.05, 0.3]
    ends = {"paper": {"ahg2": [far, near, own]}, "drift_3": {"ahg2": [far, far, near]}}
    kept = {name: {"ahg2": [[one, one] for one in each["ahg2"]]} for name, each in ends.items()}
    put(folder / "ceiling.json", {**CEILING, "sets": [UNSEEN], "episodes": {"ahg2": [0, 3, 5]}, "ends": kept})
    part = ceilings(gather(folder))
    assert [(one["ideal"], one["own"], one["episodes"], one["of_driven"]) for one in part.data] == [
        (0.5, 1.0, 2, True),
        (1 / 3, 1 / 3, 0, False),
    ]
    whole, half, sure = "33.3 (6.1 to 79.2)", "50.0 (9.5 to 90.5)", "100.0 (34.2 to 100.0)"
    assert f"| `paper` | {whole} | 2 of 3 | {half} | 17.5 | {half} | {sure} | {sure} |" in part.markdown
    assert [one["ideal_of_all"] for one in part.data] == [1 / 3, 1 / 3]
    assert "All others of a row are of those episodes" in part.markdown


def test_where_the_runtimes_filter_is_lost_is_said(folder):
    near, lost, off = [0.1, 1.0, 0.1], [0.05, 4.0, 0.05], [1.5, 1.5, 0.1]
    kept = {"paper": {"ahg2": [[near, near]] * 2}, "drift_3": {"ahg2": [[lost, lost], [off, near]]}}
    put(folder / "ceiling.json", {**CEILING, "sets": [UNSEEN], "episodes": {"ahg2": [0, 3]}, "ends": kept})
    said = "the runtime's filter (the ideal estimator), in % of all drives: `drift_3` 75.0 (25.0)."
    assert said in ceilings(gather(folder)).markdown


def test_the_code_that_made_a_ceiling_is_named_where_the_file_tells_it(folder):
    assert "\nCode that made the ceiling: not stated.\n" in ceilings(gather(folder)).markdown
    put(folder / "ceiling.json", {**CEILING, "code": "c"})
    assert "\nCode that made the ceiling: c.\n" in ceilings(gather(folder)).markdown


def test_a_rate_that_another_state_of_the_code_drove_than_made_the_ceiling_is_marked(folder):
    put(folder / "ceiling.json", {**CEILING, "code": "c0de"})
    told = ceilings(gather(folder)).markdown
    assert "\nCode that made the ceiling: c0de. †: another state of the code drove these episodes.\n" in told
    (paper,) = [line for line in told.splitlines() if line.startswith("| `paper`")]
    (undriven,) = [line for line in told.splitlines() if line.startswith("| `drift_3`")]
    assert paper.endswith(") † |")
    assert "†" not in undriven


def test_a_rate_of_which_nobody_knows_what_drove_is_not_marked(tmp_path):
    put(tmp_path / "evaluate" / "paper.json", evaluated(code=None))
    put(tmp_path / "ceiling.json", {**CEILING, "code": "c0de"})
    told = ceilings(gather(tmp_path)).markdown
    assert "| `paper` | 94.8 | 12 of 12 |" in told
    assert "†" not in told


def test_intervals_of_an_older_ceiling_are_not_told(folder):
    """They were sure of what never varied."""
    sure = {"ideal": 1.0, "ideal_ci95": [1.0, 1.0], "ideal_median_m": 0.01}
    put(folder / "ceiling.json", {**CEILING, "conditions": {"paper": sure}})
    assert "| `paper` | 100.0 | 12 of 12 | 100.0 | 1.0 | - | - | " in ceilings(gather(folder)).markdown


def test_of_an_older_ceiling_it_is_said_that_its_figures_are_of_all_episodes(folder):
    put(folder / "ceiling.json", {**CEILING, "sets": [UNSEEN], "episodes": {"ahg2": [0, 3, 5]}})
    part = ceilings(gather(folder))
    assert {"condition": "paper", "ideal": 0.948, "episodes": 2, "of_driven": False}.items() <= part.data[0].items()
    assert (
        "Under `paper` the estimators' figures are of all episodes of the ceiling, the SR of those driven."
        in part.markdown
    )


@pytest.mark.parametrize("ends", [[], {}, {"paper": {"ahg2": []}}, {"paper": {"ahg2": [1, 2]}}, {"paper": {"b": []}}])
def test_a_ceiling_with_damaged_ends_is_refused_in_one_line(folder, ends):
    put(folder / "ceiling.json", {**CEILING, "sets": [UNSEEN], "episodes": {"ahg2": [0, 3]}, "ends": ends})
    done = run(folder)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {folder / 'ceiling.json'}: ends of paper: not what onboard-hil ceiling ")


def test_beside_a_ceiling_stands_the_evaluation_that_has_most_of_its_episodes(folder):
    """With all senses: one without colour comes first by its name, and has all of them."""
    put(folder / "ceiling.json", {**CEILING, "episodes": {"ahg2": [1, 3, 5, 7], "willow": [2]}})
    put(folder / "evaluate" / "a_blind.json", evaluated(12, color=False))
    put(folder / "evaluate" / "a_part.json", evaluated(12, sets=SETS[:1]))
    assert [(one["success_rate"], one["episodes"]) for one in ceilings(gather(folder)).data] == [(0.8, 5), (None, 0)]


@pytest.mark.parametrize("other", [{"pedestrians": 3}, {"scan": "lidar"}, {"robot": "other"}])
def test_beside_a_ceiling_stands_no_evaluation_of_another_kind(folder, other):
    """Though it has more of the ceiling's episodes than that whose figures are quoted."""
    put(folder / "evaluate" / "all.json", evaluated(sets=SETS[:1], robot="one"))
    put(folder / "evaluate" / "other.json", evaluated(12, **{"robot": "one", **other}))
    found = gather(folder)
    assert found.headline.name == "all"
    assert [one["success_rate"] for one in ceilings(found).data] == [5 / 6, None]
