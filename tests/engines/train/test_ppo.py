"""The reinforcement goes on where it ended as if it had not, keeps what is better, and stops when numbers stop."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch

from engines.train import ppo, ppo_update
from engines.train.ppo import AFTER, BEFORE, Reinforce, better
from engines.train.ppo_config import ReinforceSection
from engines.train.ppo_rollouts import ADVANTAGE, RETURN
from engines.train.ppo_update import explained, learning_rate, minibatches, normalised
from engines.train.rollout.sequences import Run
from onboard.values.errors import OnboardError
from tests.rigs.train_rig import journal_rows, network_of, small

CPU = torch.device("cpu")
SMALL = {
    "places__furniture": 0.0,
    "driving__lanes": 2,
    "reinforce__chapters": 2,
    "reinforce__rounds": 2,
    "reinforce__decisions": 6,
    "reinforce__critic_rounds": 1,
    "reinforce__critic_epochs": 2,
    "reinforce__batch": 16,
    "reinforce__rate": 1e-3,
    "reinforce__collectors": 0,
    "reinforce__validate_drives": 0,
    "reinforce__choose_drives": 0,
}


def tiny(**changes):
    return small(**(SMALL | changes))


def trained(config, folder, until=None):
    """Return the network after the stage, and the trainer."""
    network = network_of(config)
    trainer = Reinforce(config, network, folder, CPU)
    trainer.run(until)
    return network, trainer


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_interrupted_it_is_the_same_training(tmp_path):
    whole, trainer = trained(tiny(), tmp_path / "whole")
    trained(tiny(), tmp_path / "parts", until=1)
    parts, _ = trained(tiny(), tmp_path / "parts")
    assert same(whole, parts)
    assert (trainer.chapter, trainer.kept) == (2, AFTER)
    assert not same(whole, network_of(tiny()))
    assert same(whole, trained(tiny(), tmp_path / "whole")[0])


def test_while_the_critic_warms_up_nothing_else_learns(tmp_path):
    config = tiny(reinforce__chapters=1, reinforce__critic_rounds=2)
    network, _ = trained(config, tmp_path)
    began = dict(network_of(config).named_parameters())
    changed = {name for name, value in network.named_parameters() if not torch.equal(value, began[name])}
    assert changed == {"critic.weight", "critic.bias"}


def test_a_round_is_left_when_the_policy_has_moved_far(tmp_path):
    config = tiny(reinforce__chapters=1, reinforce__epochs=50, reinforce__rate=0.02, reinforce__imitation=0.0)
    trained(config, tmp_path)
    last = [row for row in map(json.loads, journal_rows(tmp_path)) if "updates" in row][-1]
    assert 1.0 < last["updates"] < 50.0


#   name                         before                     after                      kept
FIGURES = [
    ("more arrive",              (90.0, 0.10, 80.0),        (91.0, 0.30, 70.0),        AFTER),
    ("fewer arrive",             (91.0, 0.30, 70.0),        (90.0, 0.10, 80.0),        BEFORE),
    ("fewer contacts",           (90.0, 0.30, 80.0),        (90.0, 0.10, 70.0),        AFTER),
    ("longer ways",              (90.0, 0.10, 80.0),        (90.0, 0.10, 79.0),        BEFORE),
    ("the same",                 (90.0, 0.10, 80.0),        (90.0, 0.10, 80.0),        AFTER),
]  # fmt: skip


def figures(numbers):
    return dict(zip(("SR", "contacts", "SPL"), numbers, strict=True))


@pytest.mark.parametrize(("before", "after", "kept"), [row[1:] for row in FIGURES], ids=[row[0] for row in FIGURES])
def test_the_better_one_is_kept(before, after, kept):
    assert better(figures(before), figures(after)) == kept


def test_what_it_began_with_comes_back_where_nothing_was_gained(tmp_path, monkeypatch):
    validations = iter([{}, figures((50.0, 0.0, 50.0)), figures((60.0, 0.0, 50.0))])
    monkeypatch.setattr(ppo, "validated", lambda *_: next(validations))
    config = tiny(reinforce__chapters=1)
    network, trainer = trained(config, tmp_path)
    assert trainer.kept == BEFORE
    assert same(network, network_of(config))
    last = json.loads(journal_rows(tmp_path)[-1])
    assert (last["SR_before"], last["SR_after"], last["kept_after"]) == (60.0, 50.0, 0.0)
    again, trainer = trained(config, tmp_path)
    assert (trainer.kept, same(again, network)) == (BEFORE, True)


def test_greedy_drives_judge_it(tmp_path):
    config = tiny(reinforce__chapters=1, reinforce__rounds=1, reinforce__choose_drives=1, driving__max_s=2.0)
    trained(config, tmp_path)
    last = json.loads(journal_rows(tmp_path)[-1])
    assert {"SR_before", "contacts_before", "SPL_before", "SR_after", "contacts_after", "SPL_after"} <= set(last)


def test_a_policy_is_judged_with_as_many_images_as_it_learns_from(tmp_path, monkeypatch):
    judged = []

    def validated(rules, network, drives, seed):
        judged.append((rules.colour, drives))
        return {}

    monkeypatch.setattr(ppo, "validated", validated)
    monkeypatch.setattr(ppo.Reinforce, "_run_chapter", lambda self, journal: self._judge_chapter(journal))
    drives = {"reinforce__validate_drives": 3, "reinforce__choose_drives": 4}
    colours = {"imitation__colour": 0.2, "imitation__coloured": 0.5, "reinforce__colour": 0.3}
    trained(tiny(reinforce__chapters=1, **colours, **drives), tmp_path)
    assert judged == [(0.3, 3), (0.3, 4), (0.3, 4)]


def test_a_loss_that_is_no_number_stops_at_the_last_good_checkpoint(tmp_path, monkeypatch):
    trained(tiny(), tmp_path, until=1)
    network = network_of(tiny())
    going_on = Reinforce(tiny(), network, tmp_path, CPU)
    kept = {name: value.clone() for name, value in network.named_parameters()}
    monkeypatch.setattr(ppo_update, "compass_error", lambda validations, truth: validations.sum() * math.nan)
    line = r"^reinforce: the loss is nan, its gradient nan in update \d+ \(round 2, batch 0, \d+ decisions\); .*\.ckpt$"
    with pytest.raises(OnboardError, match=line):
        going_on.run()
    assert all(torch.equal(kept[name], value) for name, value in network.named_parameters())


def test_no_chapters_leave_the_network_alone(tmp_path):
    config = tiny(reinforce__chapters=0)
    network, trainer = trained(config, tmp_path)
    assert same(network, network_of(config))
    assert (trainer.kept, list(tmp_path.iterdir())) == ("", [])


def runs_of(lengths):
    gains = np.random.default_rng(0).normal(2.0, 3.0, sum(lengths)).astype(np.float32)
    parts = np.split(gains, np.cumsum(lengths)[:-1])
    return [Run({ADVANTAGE: part}, None) for part in parts]


def test_lots_hold_every_run_once_an_epoch():
    runs = runs_of([30, 2, 17, 30, 9, 30, 1, 30])
    found = list(minibatches(runs, 3, 40, np.random.default_rng(0)))
    ids = [id(run) for minibatch in found for run in minibatch]
    assert sorted(ids) == sorted([id(run) for run in runs] * 3)
    assert min(sum(map(len, minibatch)) for minibatch in found) >= 40 - 30


def test_advantages_are_normalised_over_the_round():
    gains = np.concatenate([run.rows[ADVANTAGE] for run in normalised(runs_of([5, 7, 11]))])
    assert gains.mean() == pytest.approx(0.0, abs=1e-6)
    assert gains.std() == pytest.approx(1.0, abs=1e-4)


#   what was expected of returns 1, 2, 3        share foreseen
FORESEEN = [([1.0, 2.0, 3.0], 1.0), ([2.0, 2.0, 2.0], 0.0), ([3.0, 2.0, 1.0], -3.0), ([0.0, 1.0, 2.0], 1.0)]


@pytest.mark.parametrize(("expected", "share"), FORESEEN)
def test_the_critic_is_judged_by_what_it_foresaw(expected, share):
    returns = np.array([1.0, 2.0, 3.0], np.float32)
    run = Run({ADVANTAGE: returns - np.array(expected, np.float32), RETURN: returns}, None)
    assert explained([run]) == pytest.approx(share)


def test_the_rate_falls_in_a_line():
    section = ReinforceSection(chapters=2, rounds=5, rate=1.0)
    assert [learning_rate(section, step) for step in (0, 5, 10)] == pytest.approx([1.0, 0.55, 0.1])
