"""Imitation learns, goes on where it ended as if it had not, and stops when numbers stop being numbers."""

from __future__ import annotations

import json
import math

import pytest
import torch

from engines.train import dagger
from engines.train.config import ImitationSection, rules_of
from engines.train.dagger import Imitation, compass_error, learning_rate
from engines.train.rollout.workers import LocalCollector
from onboard.values.errors import InputError, OnboardError
from tests.rigs.train_rig import journal_rows, network_of, overflowing_step, small

CPU = torch.device("cpu")


def trained(config, folder, until=None):
    network = network_of(config)
    Imitation(config, network, folder, CPU).run(until)
    return network


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_interrupted_it_is_the_same_training(tmp_path):
    config = small()
    whole = trained(config, tmp_path / "whole")
    trained(config, tmp_path / "parts", until=1)
    parts = trained(config, tmp_path / "parts")
    assert same(whole, parts)
    assert not same(whole, trained(small(seed=1), tmp_path / "other", until=1))


@pytest.mark.long
def test_a_collector_of_its_own_changes_nothing(tmp_path):
    config = small(imitation__chapters=1)
    here = trained(config, tmp_path / "here")
    there = trained(small(imitation__chapters=1, imitation__collectors=1), tmp_path / "there")
    assert same(here, there)


@pytest.mark.long
def test_the_loss_falls(tmp_path):
    config = small(
        imitation__chapters=1, imitation__rounds=4, imitation__updates=8, imitation__rate=3e-3, imitation__warm_up=0
    )
    trained(config, tmp_path)
    losses = [row["loss"] for row in map(json.loads, journal_rows(tmp_path)) if "loss" in row]
    assert losses[-1] < losses[0] - 0.1


def test_weights_that_are_no_numbers_stop_at_the_last_good_checkpoint(tmp_path, monkeypatch):
    config = small()
    monkeypatch.setattr(dagger, "make_step", overflowing_step)
    with pytest.raises(OnboardError, match=r"1 of \d+ numbers are not finite; there is no checkpoint yet$"):
        trained(config, tmp_path, until=1)
    assert not (tmp_path / "imitation.ckpt").exists()
    monkeypatch.undo()
    trained(config, tmp_path, until=1)
    before = (tmp_path / "imitation.ckpt").read_bytes()
    monkeypatch.setattr(dagger, "make_step", overflowing_step)
    line = r"^imitation: after update 2 \(round 3\): its weights: .*: 1 of .*; the last good checkpoint is .*\.ckpt$"
    with pytest.raises(OnboardError, match=line):
        trained(config, tmp_path)
    assert (tmp_path / "imitation.ckpt").read_bytes() == before


def test_a_loss_that_is_no_number_stops_at_the_last_good_checkpoint(tmp_path, monkeypatch):
    config = small()
    trained(config, tmp_path, until=1)
    network = network_of(config)
    going_on = Imitation(config, network, tmp_path, CPU)
    monkeypatch.setattr(dagger, "compass_error", lambda validation, truth: validation.sum() * math.nan)
    line = r"the loss is nan, its gradient nan in update 2 \(round 3, .* decisions\).*imitation\.ckpt"
    with pytest.raises(OnboardError, match=line):
        going_on.run()
    again = network_of(config)
    assert Imitation(config, again, tmp_path, CPU).chapter == 1
    assert same(network, again)


def test_a_training_that_began_with_another_network_or_encoder_is_not_gone_on_with(tmp_path):
    trained(small(), tmp_path, until=1)
    other = network_of(small())
    with torch.no_grad():
        next(other.rgb.parameters()).view(-1)[0] += 1.0
    for network in (network_of(small(seed=3)), other):
        with pytest.raises(InputError, match="began with other weights"):
            Imitation(small(), network, tmp_path, CPU)


def test_validation_is_told_after_a_chapter(tmp_path):
    trained(small(imitation__chapters=1, imitation__validate_drives=2, driving__max_s=10.0), tmp_path)
    validation = json.loads(journal_rows(tmp_path)[-1])
    assert {"SR", "SPL", "contacts"} <= set(validation)


def test_colour_begins_with_an_optimiser_that_knows_nothing_of_it_and_is_judged_with_images(tmp_path, monkeypatch):
    seen, judged = [], []

    def validated(rules, network, drives, seed):
        judged.append((rules.colour, drives))
        return {}

    config = small(imitation__coloured=0.5, imitation__colour=0.5, imitation__validate_drives=7)
    monkeypatch.setattr(dagger, "validated", validated)
    trainer = Imitation(config, network_of(config), tmp_path, CPU)

    def make_collectors(make, rules, *others):
        """Return collectors that render nothing, for it is the optimiser that is looked at."""
        seen.append((rules.colour, steps(trainer)))
        return LocalCollector(make, rules_of(config), network_of(config), CPU)

    monkeypatch.setattr(dagger, "make_collectors", make_collectors)
    trainer.run()
    # Two updates a chapter: before the second, the weights that colour enters by have made none, all others two.
    assert seen == [(0.0, (None, None)), (0.5, (None, 2.0))]
    assert judged == [(0.0, 7), (0.5, 7)]


def steps(trainer):
    """Return how many updates the optimiser has made of the weights that colour enters by, and of the actor's."""
    network, state = trainer._network, trainer._optimizer.state
    return tuple(
        state[one]["step"].item() if one in state else None for one in (network.gru.weight_ih_l0, network.actor.weight)
    )


def test_the_rate_rises_then_falls_to_a_twentieth():
    section = ImitationSection(chapters=1, rounds=100, updates=10, warm_up=10, rate=1.0)
    rates = [learning_rate(section, update) for update in range(1000)]
    assert rates[:10] == [pytest.approx(0.1 * (step + 1)) for step in range(10)]
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert rates[-1] == pytest.approx(0.05, abs=1e-4)


def test_the_rate_falls_with_the_clock_if_that_is_further_on():
    section = ImitationSection(chapters=1, rounds=10, updates=10, warm_up=10, rate=1.0)
    assert learning_rate(section, 50, 0.2) == learning_rate(section, 50)
    assert learning_rate(section, 50, 0.8) == pytest.approx(learning_rate(section, 80))
    assert learning_rate(section, 50, 3.0) == pytest.approx(0.05)
    assert learning_rate(section, 4, 0.8) == learning_rate(section, 4)


def test_it_ends_when_its_time_is_over(tmp_path, monkeypatch):
    config = small(imitation__chapters=2, imitation__rounds=4, imitation__within_s=10.0)
    now = iter(range(0, 10**12, 2 * 10**9))
    monkeypatch.setattr(dagger.time, "monotonic_ns", lambda: next(now))
    trained(config, tmp_path)
    rounds = [row for row in map(json.loads, journal_rows(tmp_path)) if "loss" in row]
    assert 1 <= len(rounds) < 4
    assert (tmp_path / "imitation.ckpt").exists()


def test_the_compass_counts_five_metres_as_one_of_direction():
    truth = torch.tensor([[4.0, 1.0, 0.0]])
    far, aside = torch.tensor([[4.5, 1.0, 0.0]]), torch.tensor([[4.0, 1.0, 0.1]])
    assert compass_error(truth, truth) == 0.0
    torch.testing.assert_close(compass_error(far, truth), compass_error(aside, truth))
