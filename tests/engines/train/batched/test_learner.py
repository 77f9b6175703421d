"""The learner: its packed unroll, its estimates, its checkpoint, and that it learns."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engines.train.batched import learner as learning
from engines.train.batched.lane_teacher import UNSAFE_S
from engines.train.batched.learner import (
    Learner,
    Observed,
    Rollout,
    Settings,
    Stepped,
    probabilities,
    runs_of,
    teacher_loss,
)
from engines.train.batched.policy import CRITIC_VALUES, MEMORY, STATE, SmallPolicy
from engines.train.batched.training import Taught
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError, OnboardError
from onboard.values.messages import BINS

CPU = torch.device("cpu")
SETTINGS = Settings(horizon=12, minibatches=3, epochs=2, rate=3e-3, entropy=0.003)
LENGTH = 3


class Recall:
    """Drives of `LENGTH` decisions: the first scan shows a sign, and the last action must name it."""

    def __init__(self, lanes: int) -> None:
        self.lanes, self._at, self._sign = lanes, 0, torch.zeros(lanes, dtype=torch.int64)
        self._draw()

    def _draw(self) -> None:
        self._sign = torch.randint(0, 2, (self.lanes,))

    def observe(self) -> Observed:
        shown = self._sign.float() if self._at == 0 else torch.full((self.lanes,), 0.5)
        state = torch.zeros(self.lanes, STATE)
        state[:, 0] = float(self._at)
        fresh = torch.full((self.lanes,), self._at == 0)
        return Observed(shown[:, None].repeat(1, BINS), state, fresh, torch.zeros(self.lanes, CRITIC_VALUES))

    def step(self, actions: Tensor) -> Stepped:
        last = self._at == LENGTH - 1
        reward = (actions == self._sign).float() if last else torch.zeros(self.lanes)
        self._at = 0 if last else self._at + 1
        if last:
            self._draw()
        return Stepped(reward, torch.full((self.lanes,), last))

    def labels(self) -> Tensor:
        times_s = torch.full((self.lanes, len(ACTIONS)), 9.0)
        times_s[torch.arange(self.lanes), self._sign] = 8.0
        return times_s

    def stats(self) -> dict[str, float]:
        return {}


class Unpaid(Recall):
    """The same without a reward. named: share of the lanes whose last sign was named."""

    named = 0.0

    def step(self, actions: Tensor) -> Stepped:
        reward, done = super().step(actions)
        if bool(done[0]):
            self.named = float(reward.mean())
        return Stepped(torch.zeros_like(reward), done)


class Ragged(Recall):
    """Drives that end at random, for runs of different lengths."""

    def observe(self) -> Observed:
        fresh = torch.rand(self.lanes) < 0.3
        return Observed(
            torch.rand(self.lanes, BINS), torch.randn(self.lanes, STATE), fresh, torch.randn(self.lanes, CRITIC_VALUES)
        )


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def test_the_packed_unroll_equals_the_steps():
    learner = Learner(Ragged(7), SmallPolicy(), SETTINGS, CPU)
    learner.drive()
    learner.drive()  # begins with memories that are not 0
    rollout, policy = learner.rollout, learner.policy
    runs = runs_of(rollout.fresh, torch.tensor([5, 0, 3]))
    with torch.no_grad():
        packed = learner.unrolled(runs)
        memory, expected = rollout.memory, torch.zeros(SETTINGS.horizon, 7, MEMORY)
        for at in range(SETTINGS.horizon):
            memory = memory * ~rollout.fresh[at][None, :, None]
            expected[at], memory = policy.remember(policy.encode(rollout.scan[at].float(), rollout.state[at]), memory)
    assert sorted(runs.rows.tolist()) == sorted(at * 7 + lane for at in range(SETTINGS.horizon) for lane in (0, 3, 5))
    torch.testing.assert_close(packed, expected.flatten(0, 1)[runs.rows], rtol=1e-4, atol=1e-5)


def test_advantages_are_those_of_a_loop():
    horizon, lanes, gamma, lam = 9, 4, 0.9, 0.8
    rollout, last = Rollout(horizon, lanes, CPU), torch.randn(lanes)
    rollout.reward.normal_()
    rollout.value.normal_()
    rollout.done.copy_(torch.rand(horizon, lanes) < 0.3)
    rollout.estimate(last, gamma, lam)
    for lane in range(lanes):
        later = 0.0
        for at in reversed(range(horizon)):
            after = float(last[lane] if at + 1 == horizon else rollout.value[at + 1, lane])
            left = 0.0 if rollout.done[at, lane] else gamma
            surprise = float(rollout.reward[at, lane]) + left * after - float(rollout.value[at, lane])
            later = surprise + lam * left * later
            assert float(rollout.advantage[at, lane]) == pytest.approx(later, abs=1e-5)
            assert float(rollout.returns[at, lane]) == pytest.approx(later + float(rollout.value[at, lane]), abs=1e-5)


def test_it_learns_a_task_that_needs_memory():
    torch.set_num_threads(1)
    settings = Settings(horizon=2 * LENGTH, minibatches=4, epochs=2, rate=3e-3, entropy=0.003)
    learner = Learner(Recall(128), SmallPolicy(), settings, CPU)
    named = (LENGTH * learner.iterate(0.0)["reward"] for _ in range(40))
    assert any(share > 0.9 for share in named)  # without memory at most half of the signs are named


def test_a_policy_that_teaches_labels_with_its_own_probabilities_and_remembers():
    teacher, world = SmallPolicy().eval(), Ragged(5)
    with torch.no_grad():  # logits that differ
        teacher.actor.weight.normal_(0.0, 0.3)
    taught, memory = Taught(world, teacher, 0.05, CPU), torch.zeros(1, 5, MEMORY)
    for _ in range(3):
        seen = taught.observe()
        memory = memory * (~seen.fresh)[None, :, None]
        with torch.no_grad():
            logits, memory = teacher.step(teacher.encode(seen.scan, seen.state), memory)
        torch.testing.assert_close(probabilities(taught.labels(), 0.05), torch.softmax(logits, dim=1))


def test_it_learns_from_a_teacher_without_a_reward():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    settings = Settings(horizon=2 * LENGTH, minibatches=4, epochs=1, rate=1e-3, entropy=0.003, teacher=1.0)
    world = Unpaid(128)
    learner = Learner(world, SmallPolicy(), settings, CPU)
    for _ in range(12):
        learner.iterate(0.0)
    assert world.named > 0.3  # it names one of the two signs; by chance 1 of 28 actions is right


def test_the_teacher_says_what_an_action_loses():
    times_s = torch.tensor([[3.0, 3.2, UNSAFE_S, *[9.0] * 25], [UNSAFE_S] * 28])
    taught = probabilities(times_s, 0.2)
    assert float(taught[0].sum()) == pytest.approx(1.0)
    assert float(taught[0, 1] / taught[0, 0]) == pytest.approx(math.exp(-1.0), rel=1e-5)
    assert float(taught[0, 2]) == 0.0
    assert not taught[1].any()  # all unsafe: not taught
    alike = torch.log(taught[:1].clamp_min(1e-30)).repeat(2, 1)
    assert float(teacher_loss(alike, taught)) == pytest.approx(0.0, abs=1e-6)
    even = torch.full((2, 28), -math.log(28.0))
    divergence = float((taught[0] * (taught[0].clamp_min(1e-30).log() + math.log(28.0))).sum())
    assert float(teacher_loss(even, taught)) == pytest.approx(divergence, rel=1e-5)


def test_products_are_exact_again_after_an_iteration():
    """A model that learned in bfloat16 was compared in bfloat16 with ONNX Runtime, and not written."""
    product = torch.randn(64, 64), torch.randn(64, 64)
    exact = product[0] @ product[1]
    Learner(Recall(6), SmallPolicy(), replace(SETTINGS, bf16=True), CPU).iterate(0.0)
    assert torch.backends.mkldnn.matmul.fp32_precision == "none"
    assert torch.equal(product[0] @ product[1], exact)


def test_a_checkpoint_is_gone_on_with(tmp_path):
    first = Learner(Recall(6), SmallPolicy(), SETTINGS, CPU)
    first.iterate(0.0)
    torch.save(first.content(), tmp_path / "a.ckpt")
    second = Learner(Recall(6), SmallPolicy(), SETTINGS, CPU)
    second.take(tmp_path / "a.ckpt", torch.load(tmp_path / "a.ckpt", weights_only=True))
    assert (second.iteration, second.decisions) == (1, 72)
    assert torch.equal(second.returns.moments, first.returns.moments)
    for parameter, other in zip(first.policy.parameters(), second.policy.parameters(), strict=True):
        assert torch.equal(parameter, other)
        assert torch.equal(first.optimizer.state[parameter]["exp_avg_sq"], second.optimizer.state[other]["exp_avg_sq"])


def test_the_critic_of_the_same_policy_is_taken_and_no_other():
    trained = Learner(Recall(6), SmallPolicy(), SETTINGS, CPU)
    trained.iterate(0.0)
    found = trained.content()
    torch.manual_seed(1)
    fresh = SmallPolicy()
    actor = {name: value for name, value in found["policy"].items() if not name.startswith("critic_")}
    fresh.load_state_dict(actor, strict=False)
    learner = Learner(Recall(6), fresh, SETTINGS, CPU)
    assert not torch.equal(fresh.critic_in.weight, trained.policy.critic_in.weight)
    assert learner.take_critic(Path("a.ckpt"), found)
    assert torch.equal(fresh.critic_in.weight, trained.policy.critic_in.weight)
    assert torch.equal(learner.returns.moments, trained.returns.moments)
    other = Learner(Recall(6), SmallPolicy(), SETTINGS, CPU)
    before = other.policy.critic_in.weight.clone()
    assert not other.take_critic(Path("a.ckpt"), found)
    assert torch.equal(other.policy.critic_in.weight, before)
    assert float(other.returns.moments.sum()) == 0.0


#   entry         what is there           what is said of it
DAMAGED = [
    ("returns",   torch.ones(2),          "returns: expected 3 finite numbers; use another --out, or remove it"),
    ("returns",   torch.full((3,), math.nan), "returns: expected 3 finite numbers"),
    ("iteration", -1,                     "iteration: expected a whole number, 0 or more, found -1"),
    ("decisions", None,                   "decisions: expected a whole number, 0 or more, found None"),
    ("policy",    None,                   "policy: expected a table, found NoneType"),
    ("optimizer", 3,                      "optimizer: expected a table, found int"),
]  # fmt: skip


@pytest.mark.parametrize(("entry", "found", "line"), DAMAGED)
def test_a_damaged_checkpoint_is_refused_in_one_line(tmp_path, entry, found, line):
    learner = Learner(Recall(6), SmallPolicy(), SETTINGS, CPU)
    with pytest.raises(InputError, match=rf"^{tmp_path}/a\.ckpt: {line}"):
        learner.take(tmp_path / "a.ckpt", {**learner.content(), entry: found})


def test_numbers_that_are_not_finite_end_it():
    learner = Learner(Recall(6), SmallPolicy(), SETTINGS, CPU)
    with torch.no_grad():
        learner.policy.critic_out.bias.fill_(torch.inf)
    with pytest.raises(OnboardError, match=r"^iteration 0: .*value_loss.* not finite; resume from a checkpoint$"):
        learner.iterate(0.0)


def test_actions_are_drawn_by_their_probability():
    logits = torch.log(torch.tensor([[0.7, 0.2, 0.1]])).repeat(20_000, 1)
    action, logp = learning.sampled(logits)
    shares = torch.bincount(action, minlength=3) / len(action)
    torch.testing.assert_close(shares, torch.tensor([0.7, 0.2, 0.1]), rtol=0.0, atol=0.02)
    torch.testing.assert_close(logp, logits[0][action])
