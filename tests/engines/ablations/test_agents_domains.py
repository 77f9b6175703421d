"""Training domains of the ablations' agents: what a teacher may wait for, and robots that differ, driven as drawn."""

from __future__ import annotations

import numpy as np
import pytest

from engines.ablations import trial as trials_module
from engines.ablations.agents import OWN, load_agents
from engines.ablations.command import board
from engines.ablations.trial import DrawnEpisodes, engines_digest, make_agent, run_trial, trials
from engines.report.ablation_table import ablation_table
from engines.train.config import rules_of
from engines.train.rollout.collector import make_buildings
from engines.train.rollout.expert import WAITING
from engines.train.rollout.vector_env import Lane
from hil.drive.fast.drive import FastDrive
from hil.evaluate.campaign import Job
from hil.evaluate.result import fastest_time_s
from hil.jobs.code_digest import code_digest
from onboard.policy.contract import STOP_ACTION
from tests.rigs.ablation_rig import write_agents

DIFFERING = """
[agents.differing]
what = "robots that differ"
changes = { "domain.plant_spread" = 0.3, "domain.delay_ticks" = [2, 4], "domain.scan_holes" = 0.5 }
"""


@pytest.mark.parametrize(("name", "waits"), [("reference", True), ("no_localization", False)])
def test_without_fixes_the_teacher_waits_for_none(name, waits):
    config = load_agents().agents[name].config
    places = config.places.model_copy(update={"maps": ("depot",), "most_m": 3.0, "furniture": 0.0})
    rules = rules_of(config.model_copy(update={"places": places}))
    lane = Lane(rules.lanes(), make_buildings(rules, [1]), np.random.default_rng(5))
    waited, stopped = 0, 0
    for _ in range(120):
        request = lane.wait()
        assert request.scores is not None
        action = int(np.argmax(request.scores))
        waited, stopped = waited + (request.scores is WAITING), stopped + (action == STOP_ACTION)
        lane.answer(action)
    assert stopped > 0
    assert (waited > 0) is waits


#   a change of the recipe                                     whether robots of such a training differ
CHANGES = [
    ('"domain.drift_scale" = [0.0, 3.0], "domain.drift_paper" = 0.5', True),
    ('"domain.no_localization" = 0.05', True),
    ('"domain.often_localized" = 0.15', True),
    ('"domain.late_localization" = 0.1', True),
    ('"domain.camera_gone" = 0.15', True),
    ('"domain.scan_noise" = 0.02', True),
    ('"domain.scan_holes" = 0.02', True),
    ('"domain.pedestrians" = 0.05', True),
    ('"domain.plant_spread" = 0.3', True),
    ('"domain.delay_ticks" = [2, 4]', True),
    ('"domain.delay_ticks" = [1, 1]', False),
    ('"domain.limits" = 0.0', False),
    ('"domain.no_localization" = 1.0', False),
]


@pytest.mark.parametrize(("change", "differ"), CHANGES)
def test_robots_that_differ_in_anything_have_no_condition_for_their_domain(tmp_path, change, differ):
    changed = f'\n[agents.changed]\nwhat = "changed"\nchanges = {{ {change} }}\n'
    agents = load_agents(write_agents(tmp_path, after=changed))
    agent = agents.agents["changed"]
    assert agent.is_randomised is differ
    own = differ or "delay" in change
    assert (agent.own_robot() is not None, agent.places()[-1].where == OWN) == (own, own)
    (row, *_) = board(agents, [agent], tmp_path / "none")["rows"]
    assert row["same_domain"] is (not own and agent.own_condition == "paper")


@pytest.mark.long
def test_robots_that_differ_drive_as_the_training_draws_them(tmp_path, monkeypatch):
    agents = load_agents(write_agents(tmp_path, after=DIFFERING))
    agent, driven = agents.agents["differing"], []

    class Noted(FastDrive):
        """A drive that is remembered."""

        def __init__(self, setting, *rest):
            super().__init__(setting, *rest)
            driven.append(setting)

    monkeypatch.setattr(trials_module, "FastDrive", Noted)
    make_agent(agent, tmp_path / "differing", None)
    common, own = trials(agents, agent, tmp_path / "differing")
    assert (common.place.where, common.drive, own.place.where) == ("paper", None, OWN)
    assert isinstance(own.drive, DrawnEpisodes)
    assert "engines" not in common.plan.configuration()  # only rows that the engines drive depend on their code
    assert run_trial(own) == 0
    result = own.done()
    assert result is not None
    assert result["episodes"] == len(driven) == 1
    assert board(agents, [agent], tmp_path)["rows"][-1]["code"] == code_digest()
    monkeypatch.setattr(trials_module, "engines_digest", lambda: "f" * 16)
    reported = board(agents, [agent], tmp_path)
    assert reported["rows"][-1]["code"] == f"{code_digest()} with {engines_digest()}"
    assert "Another state of the code drove: `differing` in its own training domain" in ablation_table(reported)
    source = own.plan.sources[0]
    again = [own.drive(Job(source.name, 0, seed)) for seed in (1, 2, 1)]
    delays = [setting.config.rates.delay_ticks for setting in driven[1:]]
    assert all(2 <= ticks <= 4 for ticks in delays)
    assert driven[1].base_plant.linear.f_up != driven[2].base_plant.linear.f_up
    assert driven[1].base_plant == driven[3].base_plant
    assert driven[1].senses == driven[3].senses
    assert again[0].row == again[2].row
    # What could be done at best in so much time is judged by the robot that drove, which has not the believed plant.
    for one, setting in zip(again, driven[1:], strict=True):
        assert one.row.fastest_s == fastest_time_s(one.row.shortest_m, setting.base_plant.linear)
        assert one.row.fastest_s != fastest_time_s(one.row.shortest_m, setting.plant.linear)
