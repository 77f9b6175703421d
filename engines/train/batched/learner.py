"""Recurrent PPO (Schulman et al., 2017) for thousands of drives at once; all data stays on one device.

An iteration drives `horizon` decisions in every lane, then makes updates on runs between memory resets. Numbers cross
to the CPU once an iteration, the lengths of the runs once a minibatch.
"""

from __future__ import annotations

import contextlib
import copy
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import huber_loss

from engines.runs.resume import MEND, take_steps, take_weights, taken_count
from engines.train.batched.lane_teacher import UNSAFE_S
from engines.train.batched.policy import CRITIC, CRITIC_VALUES, MEMORY, STATE, SmallPolicy
from onboard.policy.contract import ACTIONS
from onboard.values.errors import InputError, OnboardError
from onboard.values.messages import BINS

# ---- The world


class Observed(NamedTuple):
    """What N lanes are given before a decision.

    scan:   (N, 180) float32, ranges as fractions of 10 m
    state:  (N, 13) float32, as `policy.STATE` says
    fresh:  (N,) bool, the memory is reset to zeros before this decision
    critic: (N, 6) float32, privileged values for the critic alone
    """

    scan: Tensor
    state: Tensor
    fresh: Tensor
    critic: Tensor


class Stepped(NamedTuple):
    """What a decision led to. reward: (N,) float32; done: (N,) bool, the drive ended with this step."""

    reward: Tensor
    done: Tensor


class World(Protocol):
    """N drives at once, on one device."""

    @property
    def lanes(self) -> int:
        """Number of drives N."""

    def observe(self) -> Observed:
        """Return what the policy is given now."""

    def step(self, actions: Tensor) -> Stepped:
        """Make one decision in each lane. actions: (N,) int64."""

    def labels(self) -> Tensor:
        """Return (N, 28) float32: the teacher's time to the goal of each action [s], `UNSAFE_S` if unsafe."""

    def stats(self) -> dict[str, float]:
        """Return counts since the last call."""


# ---- Settings


@dataclass(frozen=True, slots=True)
class Settings:
    """Numbers of PPO.

    horizon:     decisions of a lane in an iteration
    minibatches: parts of an epoch, each with the whole horizon of some lanes
    gamma, lam:  discount of a decision, and of generalized advantage estimation
    rate, entropy: learning rate, and bonus for entropy [nats], at progress 0; linear between
    rate_end, entropy_end: shares of them that are left at progress 1
    target_kl:   no further epoch once an epoch's divergence [nats] exceeds this
    gradient:    largest norm of the gradient
    value:       weight of the critic's loss; huber: error, in standard deviations of returns, from which it is linear
    slowness:    share of the old statistics of returns that an iteration keeps
    critic_first: iterations in which only the critic's own layers learn
    teacher:     weight of the teacher's loss at progress 0; linear to 0 at the progress `taught`
    warmth_s:    time lost at which an action is taught with 1/e of the best one's probability
    bf16:        on a GPU encode in bfloat16, GRU and heads stay in float32; on cores all matrix products
    """

    horizon: int
    minibatches: int
    epochs: int
    rate: float
    entropy: float
    gamma: float = 0.995
    lam: float = 0.95
    clip: float = 0.2
    entropy_end: float = 0.1
    rate_end: float = 0.1
    target_kl: float = 0.03
    gradient: float = 0.5
    value: float = 0.5
    huber: float = 2.0
    slowness: float = 0.95
    critic_first: int = 0
    teacher: float = 0.0
    taught: float = 1.0
    warmth_s: float = 0.1
    bf16: bool = False

    def teacher_at(self, progress: float) -> float:
        """Return the weight of the teacher's loss at a progress of 0 to 1."""
        return self.teacher * max(0.0, 1.0 - progress / self.taught)

    def at(self, progress: float) -> tuple[float, float]:
        """Return learning rate and entropy bonus at a progress of 0 to 1."""
        gone = min(1.0, max(0.0, progress))
        rate = self.rate * (1.0 - (1.0 - self.rate_end) * gone)
        return rate, self.entropy + (self.entropy_end * self.entropy - self.entropy) * gone


# ---- Recorded decisions


class Rollout:
    """Decisions of one iteration: (horizon, N, ...) each, and the memory (layers, N, width) before the first.

    Scans are stored in half precision; the policy acts on the rounded values too. taught: whether the teacher's
    probabilities of the actions are kept, in half precision.
    """

    def __init__(
        self, horizon: int, lanes: int, device: torch.device, memory: tuple[int, int] = (1, MEMORY), *,
        taught: bool = False,
    ) -> None:  # fmt: skip
        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(horizon, lanes, *shape, dtype=dtype, device=device)

        self.scan = empty(BINS, dtype=torch.float16)
        self.state, self.critic = empty(STATE), empty(CRITIC_VALUES)
        self.action = empty(dtype=torch.int64)
        self.logp, self.value, self.reward = empty(), empty(), empty()
        self.done, self.fresh = empty(dtype=torch.bool), empty(dtype=torch.bool)
        self.advantage, self.returns = empty(), empty()
        self.taught = empty(len(ACTIONS), dtype=torch.float16) if taught else None
        self.memory = torch.zeros(memory[0], lanes, memory[1], device=device)

    def estimate(self, last: Tensor, gamma: float, lam: float) -> None:
        """Fill advantages and returns (GAE). last: (N,) value of the observation after the horizon."""
        kept = gamma * (~self.done).float()
        after = torch.cat([self.value[1:], last[None]])
        surprise = self.reward + kept * after - self.value
        later = torch.zeros_like(last)
        for at in range(len(surprise) - 1, -1, -1):
            later = surprise[at] + lam * kept[at] * later
            self.advantage[at] = later
        torch.add(self.advantage, self.value, out=self.returns)


class Runs(NamedTuple):
    """Decisions between memory resets in packed order: the longest run first.

    rows:  (R,) index of each decision in a flat rollout, decision * N + lane
    sizes: (T,) number of active runs at each step, on the CPU
    lanes: (runs,) lane of each run
    begun: (runs,) bool, the run starts with the horizon and has the stored memory
    """

    rows: Tensor
    sizes: Tensor
    lanes: Tensor
    begun: Tensor


def runs_of(fresh: Tensor, lanes: Tensor) -> Runs:
    """Return the runs of some lanes. fresh: (horizon, N) bool, where a memory was reset; lanes: (L,) int64."""
    horizon, count = fresh.shape
    starts = fresh[:, lanes].t().clone()
    starts[:, 0] = True
    first = starts.reshape(-1).nonzero()[:, 0]
    end = torch.full((1,), starts.numel(), dtype=first.dtype, device=first.device)
    lengths, order = torch.diff(first, append=end).sort(descending=True, stable=True)
    first = first[order]
    steps = torch.arange(horizon, device=fresh.device)[:, None]
    active = lengths[None] > steps
    flat = (first[None] + steps)[active]
    sizes = active.sum(dim=1).cpu()
    rows = flat % horizon * count + lanes[flat // horizon]
    return Runs(rows, sizes[sizes > 0], lanes[first // horizon], first % horizon == 0)


class ReturnScale:
    """Standard deviation of returns over past iterations, on the device; the critic's values are in this unit."""

    def __init__(self, slowness: float, device: torch.device) -> None:
        self._slowness = slowness
        self.moments = torch.zeros(3, dtype=torch.float64, device=device)
        """Sums of weights, of returns and of squared returns."""

    @property
    def scale(self) -> Tensor:
        """Return the standard deviation, 1 before the first returns."""
        weight, mean, square = self.moments / self.moments[0].clamp(min=1e-12)
        found = (square - mean * mean).clamp(min=1e-8).sqrt()
        return torch.where(weight > 0.5, found, torch.ones_like(found)).float()

    def add(self, returns: Tensor) -> None:
        """Add the returns of an iteration, of any shape."""
        wide = returns.double()
        now = torch.stack([torch.ones_like(self.moments[0]), wide.mean(), (wide * wide).mean()])
        self.moments = self._slowness * self.moments + (1.0 - self._slowness) * now


# ---- The loss

TERMS = ("policy_loss", "value_loss", "entropy", "kl", "clip_fraction", "teacher_loss", "gradient")


class Terms(NamedTuple):
    """Means over a minibatch: clipped loss, critic's loss, entropy [nats], divergence [nats], share of clipped.

    teacher: divergence of the policy from the teacher's probabilities [nats], 0 without a teacher
    """

    policy: Tensor
    value: Tensor
    entropy: Tensor
    moved: Tensor
    clipped: Tensor
    teacher: Tensor


def probabilities(times_s: Tensor, warmth_s: float) -> Tensor:
    """Return the teacher's probabilities (N, 28) for its times (N, 28); zeros where all actions are unsafe."""
    best = times_s.min(dim=1, keepdim=True).values
    safe = (times_s < UNSAFE_S).float()
    odds = torch.exp((best - times_s) / warmth_s) * safe
    return odds / odds.sum(dim=1, keepdim=True).clamp_min(1.0)


def teacher_loss(log_probabilities: Tensor, taught: Tensor) -> Tensor:
    """Return the mean divergence [nats] of the policy from the teacher, over the decisions that are taught.

    log_probabilities, taught: (R, 28); rows of zeros are not taught
    """
    lost = torch.xlogy(taught, taught) - taught * log_probabilities
    return lost.sum() / taught.sum().clamp_min(1.0)


def sampled(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Return actions (N,) drawn from the softmax of logits (N, 28), and their log-probabilities (N,)."""
    # torch.multinomial would wait for the device
    noise = torch.empty_like(logits).exponential_().clamp_(min=1e-20).log()
    action = (logits - noise).argmax(dim=1)
    return action, torch.log_softmax(logits, dim=1).gather(1, action[:, None])[:, 0]


CUDA = "cuda"
LEAST_SPREAD = 1e-6


class Learner:
    """A world, a policy on its device, and the rule by which it learns.

    The next observation is kept from one iteration to the next, so nothing else may step the world between them.
    """

    def __init__(self, world: World, policy: SmallPolicy, settings: Settings, device: torch.device | str) -> None:
        self.world, self.settings, self.device = world, settings, torch.device(device)
        if not 0 < settings.minibatches <= world.lanes:
            raise InputError(f"minibatches {settings.minibatches}: must be 1 to the number of lanes, {world.lanes}")
        self.policy = policy.to(self.device).train()
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=settings.rate, eps=1e-5)
        self.returns = ReturnScale(settings.slowness, self.device)
        taught = settings.teacher > 0.0
        self.rollout = Rollout(settings.horizon, world.lanes, self.device, policy.memory_shape, taught=taught)
        self.memory = torch.zeros_like(self.rollout.memory)
        self.iteration, self.decisions = 0, 0
        self._teacher = settings.teacher
        self._next: Observed | None = None

    def iterate(self, progress: float) -> dict[str, float]:
        """Drive one horizon and learn from it; return numbers. progress: 0 to 1, for the schedules.

        Raises OnboardError for a loss or gradient that is not finite: the weights are lost then.
        """
        self._teacher = 0.0 if self._alone else self.settings.teacher_at(progress)
        with self._quick_products():
            began = self._now()
            self.drive()
            driven = self._now()
            numbers = self.learn(progress)
            learned = self._now()
        count = self.settings.horizon * self.world.lanes
        self.iteration, self.decisions = self.iteration + 1, self.decisions + count
        times = {
            "decisions_s": count / (learned - began),
            "rollout_s": driven - began,
            "update_s": learned - driven,
            "iteration": float(self.iteration),
            "decisions": float(self.decisions),
        }
        return {**times, **numbers, **self.world.stats()}

    @contextlib.contextmanager
    def _quick_products(self) -> Iterator[None]:
        """Let matrix products be inexact where the settings and the device allow it, and exact again afterwards.

        The process exports the policy after its training, and compares it with ONNX Runtime's exact products.
        """
        mkldnn: Any = torch.backends.mkldnn  # PyTorch's stubs lack it
        before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32, mkldnn.matmul.fp32_precision
        if self.device.type == CUDA:
            torch.set_float32_matmul_precision("high")
            torch.backends.cudnn.allow_tf32 = True
        elif self.settings.bf16:
            mkldnn.matmul.fp32_precision = "bf16"
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before[0])
            torch.backends.cudnn.allow_tf32, mkldnn.matmul.fp32_precision = before[1:]

    @property
    def _alone(self) -> bool:
        """Return whether only the critic learns in this iteration."""
        return self.iteration < self.settings.critic_first

    def _now(self) -> float:
        """Return the time [s] once the device has done its work."""
        if self.device.type == CUDA:
            torch.cuda.synchronize(self.device)
        return time.perf_counter()

    # ---- Driving

    @torch.no_grad()
    def drive(self) -> None:
        """Fill the rollout with a horizon of decisions, and estimate advantages."""
        rollout, scale = self.rollout, self.returns.scale
        for at in range(self.settings.horizon):
            observed = self._observe()
            if at == 0:
                rollout.memory.copy_(self.memory)
            self._store(at, observed)
            states = self._remember(observed)
            action, logp = sampled(self.policy.actor(states))
            rollout.action[at], rollout.logp[at] = action, logp
            if rollout.taught is not None and self._teacher > 0.0:
                rollout.taught[at] = probabilities(self.world.labels(), self.settings.warmth_s)
            rollout.value[at] = self.policy.value(states, observed.critic) * scale
            stepped = self.world.step(action)
            rollout.reward[at], rollout.done[at] = stepped.reward, stepped.done
        rollout.estimate(self._last_value(scale), self.settings.gamma, self.settings.lam)

    def _observe(self) -> Observed:
        """Return the present observation, its scan rounded, after the memory of fresh lanes was reset."""
        observed, self._next = self._next, None
        if observed is None:
            observed = self.world.observe()
        observed = observed._replace(scan=observed.scan.half())
        self.memory = self.memory * (~observed.fresh)[None, :, None]
        return observed

    def _store(self, at: int, observed: Observed) -> None:
        rollout = self.rollout
        rollout.scan[at], rollout.state[at] = observed.scan, observed.state
        rollout.critic[at], rollout.fresh[at] = observed.critic, observed.fresh

    def _remember(self, observed: Observed) -> Tensor:
        """Return the GRU's output (N, 640), and keep the memory."""
        features = self._encode(observed.scan, observed.state)
        states, self.memory = self.policy.remember(features, self.memory)
        return states

    def _encode(self, scan: Tensor, state: Tensor) -> Tensor:
        use = self.settings.bf16 and self.device.type == CUDA
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=use):
            features = self.policy.encode(scan.float(), state)
        return features.float()

    def _last_value(self, scale: Tensor) -> Tensor:
        """Return values (N,) of the observation after the horizon, which the next iteration begins with."""
        observed = self._observe()
        states, _ = self.policy.remember(self._encode(observed.scan, observed.state), self.memory)
        self._next = observed
        return self.policy.value(states, observed.critic) * scale

    # ---- Learning

    def learn(self, progress: float) -> dict[str, float]:
        """Make the updates of the rollout; return numbers. Raises OnboardError for numbers that are not finite."""
        rate, entropy = self.settings.at(progress)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self._rescale()
        rollout = self.rollout
        spread = rollout.advantage.std() + LEAST_SPREAD
        gains = (rollout.advantage - rollout.advantage.mean()) / spread
        terms: list[Tensor] = []
        for epoch in range(self.settings.epochs):
            found = torch.stack([self._update(runs, gains, entropy) for runs in self._minibatches()])
            terms.append(found)
            if epoch + 1 < self.settings.epochs and float(found[:, TERMS.index("kl")].mean()) > self.settings.target_kl:
                break
        return {**self._numbers(terms), "rate": rate, "entropy_bonus": entropy}

    @torch.no_grad()
    def _rescale(self) -> None:
        """Bring the critic into the new unit of returns, so that its values stay as they were."""
        before = self.returns.scale
        self.returns.add(self.rollout.returns)
        change = before / self.returns.scale
        self.policy.critic_out.weight.mul_(change)
        self.policy.critic_out.bias.mul_(change)

    def _minibatches(self) -> Iterator[Runs]:
        """Yield all lanes once, in random parts of about equal size."""
        order = torch.randperm(self.world.lanes, device=self.device)
        for lanes in order.tensor_split(self.settings.minibatches):
            yield runs_of(self.rollout.fresh, lanes)

    def unrolled(self, runs: Runs) -> Tensor:
        """Return the GRU's output (R, 640) of the rollout's runs, in packed order."""
        rollout = self.rollout
        features = self._encode(rollout.scan.flatten(0, 1)[runs.rows], rollout.state.flatten(0, 1)[runs.rows])
        memory = rollout.memory[:, runs.lanes] * runs.begun[None, :, None]
        return self.policy.unroll(features, runs.sizes, memory)

    def terms(self, runs: Runs, gains: Tensor) -> Terms:
        """Return the terms of the loss. gains: (horizon, N) normalised advantages."""
        rollout, clip = self.rollout, self.settings.clip
        states = self.unrolled(runs)
        now = torch.log_softmax(self.policy.actor(states), dim=1)
        chosen = now.gather(1, rollout.action.flatten()[runs.rows][:, None])[:, 0]
        change = chosen - rollout.logp.flatten()[runs.rows]
        ratio, gain = change.exp(), gains.flatten()[runs.rows]
        least = torch.minimum(ratio * gain, ratio.clamp(1.0 - clip, 1.0 + clip) * gain)
        values = self.policy.value(states, rollout.critic.flatten(0, 1)[runs.rows])
        wanted = rollout.returns.flatten()[runs.rows] / self.returns.scale
        return Terms(
            policy=-least.mean(),
            value=huber_loss(values, wanted, delta=self.settings.huber),
            entropy=-(now.exp() * now).sum(dim=1).mean(),
            moved=(ratio - 1.0 - change).mean(),
            clipped=((ratio - 1.0).abs() > clip).float().mean(),
            teacher=self._teacher_loss(now, runs),
        )

    def _teacher_loss(self, now: Tensor, runs: Runs) -> Tensor:
        taught = self.rollout.taught
        if taught is None or self._teacher == 0.0:
            return now.new_zeros(())
        return teacher_loss(now, taught.flatten(0, 1)[runs.rows].float())

    def _update(self, runs: Runs, gains: Tensor, entropy: float) -> Tensor:
        """Make one optimizer step; return the terms as in TERMS, on the device."""
        terms, alone = self.terms(runs, gains), self._alone
        policy = 0.0 if alone else terms.policy - entropy * terms.entropy + self._teacher * terms.teacher
        self.optimizer.zero_grad(set_to_none=True)
        (policy + self.settings.value * terms.value).backward()
        if alone:
            self.policy.keep_critic_gradient()
        norm = nn.utils.clip_grad_norm_(self.policy.parameters(), self.settings.gradient)
        self.optimizer.step()
        return torch.stack([*terms, norm]).detach()

    def _numbers(self, terms: list[Tensor]) -> dict[str, float]:
        """Return the numbers of an iteration, with one transfer from the device."""
        rollout = self.rollout
        error = (rollout.returns - rollout.value).var() / rollout.returns.var().clamp(min=1e-8)
        means = torch.cat(terms).mean(dim=0)
        last = terms[-1][:, TERMS.index("kl")].mean()
        more = torch.stack([rollout.reward.mean(), 1.0 - error, self.returns.scale, rollout.value.mean(), last])
        names = (*TERMS, "reward", "explained", "return_sd", "value", "kl_last_epoch")
        numbers: dict[str, float] = dict(zip(names, torch.cat([means, more]).tolist(), strict=True))
        wrong = [name for name, number in numbers.items() if not math.isfinite(number)]
        if wrong:
            raise OnboardError(f"iteration {self.iteration}: {', '.join(wrong)} not finite; resume from a checkpoint")
        return {**numbers, "epochs": float(len(terms))}

    # ---- Checkpoints

    def content(self) -> dict[str, Any]:
        """Return what a checkpoint keeps of the learner."""
        return {
            "policy": self.policy.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "returns": self.returns.moments,
            "iteration": self.iteration,
            "decisions": self.decisions,
        }

    def take(self, file: Path, content: Mapping[str, Any]) -> None:
        """Continue from the content of a checkpoint; the drives in the world continue as they are.

        Raises InputError for a damaged one.
        """
        take_weights(file, "policy", self.policy, self.policy.state_dict(), content.get("policy"))
        take_steps(file, "optimizer", self.optimizer, content.get("optimizer"))
        self._take_returns(file, content)
        self.iteration = taken_count(file, "iteration", content.get("iteration"))
        self.decisions = taken_count(file, "decisions", content.get("decisions"))

    def take_critic(self, file: Path, content: Mapping[str, Any]) -> bool:
        """Take the critic of a checkpoint; return whether its policy is this one, else nothing is taken.

        Raises InputError for a damaged one.
        """
        found = copy.deepcopy(self.policy)
        take_weights(file, "policy", found, found.state_dict(), content.get("policy"))
        mine, theirs = self.policy.state_dict(), found.to(self.device).state_dict()
        if not all(torch.allclose(mine[name], theirs[name]) for name in mine if not name.startswith(CRITIC)):
            return False
        self._take_returns(file, content)
        self.policy.load_state_dict(theirs)
        return True

    def _take_returns(self, file: Path, content: Mapping[str, Any]) -> None:
        moments = content.get("returns")
        if not isinstance(moments, Tensor) or moments.shape != (3,) or not bool(torch.isfinite(moments).all()):
            raise InputError(f"{file}: returns: expected 3 finite numbers; {MEND}")
        self.returns.moments = moments.to(self.device, torch.float64)
