"""Position actions: steps that are exact or driven by a controller, their teacher, their training and evaluation."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from engines.ablations import trial as trials_module
from engines.ablations.agents import AGENTS_FILE, OWN, load_agents
from engines.ablations.command import board
from engines.ablations.position_actions import training
from engines.ablations.position_actions.drive import (
    AHEAD,
    COUNT,
    HALT,
    LEFT,
    MOST_STEP_S,
    RIGHT,
    STEP_M,
    TURN_RAD,
    PositionDrive,
    chosen_action,
)
from engines.ablations.position_actions.expert import position_scores
from engines.ablations.position_actions.training import PositionCollector, train_position
from engines.ablations.trial import engines_digest, make_agent, run_trial, trials
from engines.network.network import untrained
from engines.network.policy_checkpoint import save_policy
from engines.report.sections.ablations import ablation_table
from engines.runs.processes import alone_in
from engines.train.config import rules_of
from engines.train.rollout.collector import make_buildings
from engines.train.rollout.expert import soft_targets
from engines.train.rollout.optimizer_step import weights_of
from engines.train.rollout.places import draw_drives
from engines.train.rollout.sequences import TARGETS
from engines.train.rollout.vector_env import Seat
from hil.drive.fast.course import varied
from hil.evaluate.campaign import difference_of
from hil.jobs.code_digest import code_digest
from onboard.policy.contract import ACTIONS, NO_ACTION
from onboard.values.errors import InputError
from onboard.values.geometry import between
from tests.rigs.ablation_rig import write_agents
from tests.rigs.train_rig import small

POSITION = """
[agents.position]
what = "steps"
kind = "position"
conditions = ["no_limits"]
changes = {{ "robot.plant" = "{plant}", "domain.delay_ticks" = [1, 1], "domain.limits" = 0.0 }}
"""
INSTANT = AGENTS_FILE.parent / "instant.toml"


@pytest.fixture(scope="module")
def agents(tmp_path_factory):
    """Return the tiny table with a position agent."""
    return load_agents(write_agents(tmp_path_factory.mktemp("position"), after=POSITION.format(plant=INSTANT)))


@pytest.fixture(scope="module")
def rules(agents):
    """Return what the position agent's collector knows."""
    return rules_of(agents.agents["position"].config)


@pytest.fixture(scope="module")
def building(rules):
    """Return the depot without furniture."""
    return make_buildings(rules, [1])[0]


@pytest.fixture(scope="module")
def drawn(rules, building):
    """Return an episode with its goal."""
    return draw_drives(rules.places, building, np.random.default_rng(3))[0]


def begin(building, episode, *, exact, drift=0.0, max_s=100.0, reset_s=10.0):
    setting = replace(building.setting, senses=replace(building.setting.senses, drift_scale=drift), limits=False)
    if not exact:
        ordinary = load_agents().agents["reference"].robot()
        setting = replace(setting, plant=ordinary.plant, config=ordinary.config)
    return PositionDrive(setting, varied(building.course, setting), episode, Seat(reset_s, False), 1, max_s, exact)


#    action  by how far it goes ahead and turns
STEPS = [(AHEAD, STEP_M, 0.0), (LEFT, 0.0, TURN_RAD), (RIGHT, 0.0, -TURN_RAD)]


@pytest.mark.parametrize(("action", "ahead_m", "turn_rad"), STEPS)
def test_an_exact_step_is_exact_and_ends_at_rest_after_one_decision(building, drawn, action, ahead_m, turn_rad):
    drive = begin(building, drawn[0], exact=True)
    before, tick = drive.robot.pose, drive.robot.tick
    drive.act(action)
    moved = between(before, drive.robot.pose)
    assert (moved.x_m, moved.y_m, moved.yaw_rad) == pytest.approx((ahead_m, 0.0, turn_rad), abs=1e-6)
    assert drive.robot.tick - tick == building.setting.config.rates.ticks_per_decision
    assert abs(drive.robot.state.v) < 1e-6
    assert abs(drive.robot.state.w) < 1e-6


@pytest.mark.parametrize(("action", "ahead_m", "turn_rad"), STEPS)
def test_a_driven_step_comes_near_after_the_delay(building, drawn, action, ahead_m, turn_rad):
    drive = begin(building, drawn[0], exact=False)
    before, tick = drive.robot.pose, drive.robot.tick
    drive.act(action)
    moved = between(before, drive.robot.pose)
    assert (moved.x_m, moved.y_m, moved.yaw_rad) == pytest.approx((ahead_m, 0.0, turn_rad), abs=0.06)
    delay = drive.robot.tick - tick - building.setting.config.rates.ticks_per_decision
    assert 0 < delay < MOST_STEP_S * 30


def test_a_step_that_is_blocked_is_given_up_after_its_time(building, drawn):
    drive = begin(building, drawn[0], exact=False, max_s=60.0)
    contacts = []
    while not drive.ended:
        tick = drive.robot.tick
        drive.act(AHEAD)
        contacts.append(drive.robot.state.contacts)
        assert drive.robot.tick - tick <= MOST_STEP_S * 30 + building.setting.config.rates.ticks_per_decision
    assert drive.ended == "time"
    assert contacts[-1] == 1.0  # one, however long it pushes


@pytest.mark.parametrize("exact", [True, False])
def test_the_teacher_arrives(rules, building, exact):
    for number in range(3):
        episode, goal = draw_drives(rules.places, building, np.random.default_rng([number, 7]))[0]
        drive = begin(building, episode, exact=exact, drift=1.0)
        while not drive.ended:
            drive.observe()
            drive.act(int(np.argmax(position_scores(building, goal, drive.robot.pose))))
        outcome = drive.outcome()
        assert outcome.reached
        assert outcome.actions.sum() == outcome.actions[:COUNT].sum()
        assert outcome.path_m < 1.5 * episode.geodesic_m + STEP_M


def test_the_teacher_stops_at_the_goal_and_knows_nothing_in_a_wall(building, drawn):
    _, goal = drawn
    there = replace(drawn[0].start, x_m=goal.xy_m[0] + 0.1, y_m=goal.xy_m[1])
    assert int(np.argmax(position_scores(building, goal, there))) == HALT
    outside = replace(there, x_m=-50.0)
    assert soft_targets(position_scores(building, goal, outside), 0.08)[1] == 0.0


def test_only_four_of_the_logits_decide():
    logits = np.zeros(len(ACTIONS), np.float32)
    logits[[LEFT, 20]] = 1.0, 9.0
    assert chosen_action(logits) == LEFT


def test_the_memory_is_reset_at_the_beginning_and_every_ten_seconds(building, drawn):
    drive = begin(building, drawn[0], exact=True, reset_s=1.0)
    fresh = []
    for _ in range(7):
        observation, new = drive.observe()
        fresh.append(new)
        drive.act(LEFT)
    assert fresh == [True, False, False, True, False, False, True]
    assert observation.previous_action == LEFT
    first, _ = begin(building, drawn[0], exact=True).observe()
    assert first.previous_action == NO_ACTION


def test_the_collector_learns_from_the_teacher_and_takes_one_of_four_actions(rules):
    torch.manual_seed(0)
    network = untrained(0, *_network())
    found = PositionCollector(rules, network, [1], 0, torch.device("cpu")).collect(weights_of(network))
    assert found.decisions == rules.driving.lanes * rules.driving.decisions
    targets = np.concatenate([run.rows[TARGETS] for run in found.runs])
    assert np.allclose(targets[:, COUNT:], 0.0)
    assert np.allclose(targets.sum(axis=1), 1.0)
    actions = np.concatenate([run.rows["prev_action"] for run in found.runs]).ravel()
    assert set(actions.tolist()) <= {AHEAD, LEFT, RIGHT, HALT, NO_ACTION}


def _network():
    found = load_agents().agents["position"].config.network
    return found.model_copy(update={"size": "tiny"}).widths, found.variant


def test_it_is_trained_and_driven_in_both_domains(agents, tmp_path):
    agent = agents.agents["position"]
    make_agent(agent, tmp_path, None)
    found = trials(agents, agent, tmp_path)
    assert [(trial.place.where, trial.place.within_s, trial.file.name) for trial in found] == [
        ("no_limits", 300.0, "no_limits.json"),
        ("no_limits", 100.0, "no_limits_100s.json"),
        (OWN, 100.0, "own.json"),
    ]
    long, short, _ = (trial.plan.configuration() for trial in found)
    assert difference_of(long, short) == "within_s: 300.0 there, 100.0 here"
    for trial in found:
        assert run_trial(trial) == 0
        result = trial.done()
        assert result is not None
        assert sum(result["actions"]) == sum(result["actions"][:COUNT])
        assert result["episodes"] == 1
        assert result["per_episode"][0]["time_s"] <= trial.place.within_s
    found[0].file.replace(found[1].file)
    assert [trial.done() is None for trial in found] == [True, True, False]


def test_what_other_code_of_the_engines_drove_is_told_and_driven_again(agents, tmp_path, monkeypatch):
    agent = agents.agents["position"]
    make_agent(agent, tmp_path / agent.name, None)
    (before,) = (one for one in trials(agents, agent, tmp_path / agent.name) if one.place.where == OWN)
    assert run_trial(before) == 0
    assert board(agents, [agent], tmp_path)["rows"][-1]["code"] == code_digest()
    monkeypatch.setattr(trials_module, "engines_digest", lambda: "f" * 16)
    (after,) = (one for one in trials(agents, agent, tmp_path / agent.name) if one.place.where == OWN)
    assert after.done() is not None
    told = board(agents, [agent], tmp_path)
    assert told["rows"][-1]["code"] == f"{code_digest()} with {engines_digest()}"
    assert "Driven by another state of the code than the one that printed this: `position` in its own" in (
        ablation_table(told)
    )
    assert run_trial(after, again=True) == 0
    assert board(agents, [agent], tmp_path)["rows"][-1]["code"] == code_digest()
    result = after.done()
    older = {name: value for name, value in result["configuration"].items() if name not in ("engines", "within_s")}
    after.file.write_text(json.dumps({**result, "configuration": older}))
    assert after.done() is not None
    assert board(agents, [agent], tmp_path)["rows"][-1]["code"] == f"{code_digest()} with older"


def test_only_rows_that_the_engines_drive_depend_on_their_code(agents, tmp_path):
    make_agent(agents.agents["plain"], tmp_path, None)
    (trial,) = trials(agents, agents.agents["plain"], tmp_path)
    assert not {"engines", "within_s"} & set(trial.plan.configuration())


def test_its_file_is_written_while_nobody_else_may_train_there(agents, tmp_path, monkeypatch):
    written = []

    def while_locked(file, *rest):
        with pytest.raises(InputError, match="another training is writing it"), alone_in(tmp_path):
            pass
        written.append(save_policy(file, *rest))

    monkeypatch.setattr(training, "save_policy", while_locked)
    assert train_position(agents.agents["position"].config, tmp_path, torch.device("cpu")).is_file()
    assert len(written) == 1


def test_a_position_agent_with_colour_is_refused(agents, tmp_path):
    config = agents.agents["position"].config
    coloured = config.model_copy(update={"network": config.network.model_copy(update={"rgb": True})})
    with pytest.raises(InputError, match="the position agent has no colour"):
        train_position(coloured, tmp_path, torch.device("cpu"))


def test_the_trainer_drives_with_the_position_agents_own_collector(tmp_path, monkeypatch):
    rounds = []

    class Seen(training.PositionCollector):
        def collect(self, weights):
            rounds.append(super().collect(weights))
            return rounds[-1]

    monkeypatch.setattr(training, "PositionCollector", Seen)
    config = small(network__rgb=False, imitation__chapters=1)
    training.train_position(config, tmp_path, torch.device("cpu"))
    assert len(rounds) == config.imitation.rounds
    targets = np.concatenate([run.rows[TARGETS] for one in rounds for run in one.runs])
    assert np.allclose(targets[:, COUNT:], 0.0)
