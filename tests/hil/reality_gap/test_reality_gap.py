"""The experiments of paper 2: what they must show, that a seed repeats, and the page that the command writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from hil.commands.judge.reality_gap import EXPERIMENTS
from hil.physics.state_kernels.kernel_set import no_kernels
from hil.physics.state_kernels.state_table import load_state_table
from hil.reality_gap.five_runs import RUNS, five_runs
from hil.reality_gap.report import check_page
from hil.reality_gap.result import GapResult, mean_of
from onboard.values.errors import InputError


@pytest.mark.long
@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_kernels_close_half_of_the_gap_and_the_redesign_is_better(name: str) -> None:
    make = EXPERIMENTS[name]
    table = load_state_table(make(1).kernels_file)
    result = GapResult(name, [five_runs(make(seed), table, seed) for seed in (1, 2)])
    assert all(result.shown.values()), result.as_json()
    assert result.left < 0.5
    again = five_runs(make(2), table, 2)
    assert again.atr == result.seeds[1].atr
    assert again.kernels == result.seeds[1].kernels


@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_rewards_of_a_log_add_up_and_a_run_goes_on_where_it_was(name: str) -> None:
    one = EXPERIMENTS[name](5)
    table = load_state_table(one.kernels_file)
    driven = one.drive(one.design, True, no_kernels(table), np.random.default_rng(1))
    log = driven.log
    assert driven.effects == 0
    assert np.bincount(log.runs, log.rewards, len(driven.rewards)) == pytest.approx(driven.rewards)
    same = log.runs[1:] == log.runs[:-1]
    np.testing.assert_array_equal(log.states[1:][same], log.nexts[:-1][same])


def test_an_interval_holds_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(2000):
        interval = mean_of(rng.normal(3.0, 2.0, 10)).interval
        assert interval is not None
        held += interval[0] <= 3.0 <= interval[1]
    assert held / 2000 == pytest.approx(0.95, abs=0.02)


def test_the_command_writes_json_and_its_part_of_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Title\n\n<!-- reality-gap 1d: written by the command -->\nBEFORE\n<!-- reality-gap 1d: end -->\n\nafter\n"
    )
    arguments = ["reality-gap", "1d", "--seeds", "1", "--seed", "1", "--json", "-", "--report", str(page)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert set(result["atr"]) == set(RUNS)
    assert result["gap_left"] <= 0.5
    assert result["kernels"] <= result["divergences"]
    assert {len(curve) for curve in result["curves"].values()} == {50}
    text = page.read_text()
    assert text.startswith("# Title\n\n<!-- reality-gap 1d")
    assert text.endswith("<!-- reality-gap 1d: end -->\n\nafter\n")
    assert "BEFORE" not in text
    assert f"{result['atr']['kernels']:.2f}" in text
    assert (tmp_path / "page-1d.svg").read_text().startswith("<svg")


def test_a_page_is_checked_before_anything_runs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- reality-gap 1d: written by the command -->\n")
    with pytest.raises(InputError, match="without <!-- reality-gap 1d: end -->"):
        check_page(page, "1d")
    with pytest.raises(InputError, match=r"must end in \.md"):
        check_page(tmp_path / "page.txt", "1d")
    with pytest.raises(InputError, match="cannot be written"):
        check_page(tmp_path / "none" / "page.md", "1d")
    with pytest.raises(InputError, match="must be one of 1d, ramp"):
        CliRunner().invoke(app, ["reality-gap", "2d"], catch_exceptions=False)
