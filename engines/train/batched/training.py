"""A training in the batched world: recurrent PPO, with goals that other processes draw meanwhile."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from engines.cli_options import is_out_of_memory
from engines.network.policy_checkpoint import load_training, save_training
from engines.runs.resume import MEND, taken_count
from engines.runs.torch_file import read_torch
from engines.train.batched.atlas import Generation, GoalChunk, plan_floors
from engines.train.batched.config import BatchedSection
from engines.train.batched.learner import Learner, Observed, Settings, Stepped, World
from engines.train.batched.policy import STATE, PaperPolicy, SmallPolicy, policy_in, policy_of
from engines.train.batched.world import BatchedWorld, Room, empty_room
from engines.train.drives.domain import Rules
from hil.drive.setting import Setting
from hil.sensors.direct_scan import looked_at
from onboard.config.pretrained import model_path
from onboard.policy.contract import ACTIONS
from onboard.policy.manifest import sha256_of
from onboard.values.errors import DriverError, InputError, MissingExtraError
from onboard.values.messages import Twist

STAGE = "batched"
NO_NETWORK = "none"
"""In place of the digest of the network that a stage began with: the seed gives the weights."""
CELL_M, WARM_LANES = 0.05, 64
"""Cells and lanes of the room in which a GPU's kernels are compiled while other processes build the floors."""

Report = Callable[[float, Mapping[str, float]], None]
"""Takes the time that was spent [s], and numbers by name; with `iteration` after each iteration."""


class Task(NamedTuple):
    """What is trained.

    digest: of all that the checkpoint depends on
    init:   model with whose policy the training begins, None for random weights; the critic of the checkpoint beside
            it joins, if it has the same policy
    """

    section: BatchedSection
    rules: Rules
    seed: int
    digest: str
    init: Path | None = None

    @property
    def network(self) -> str:
        """Return the digest of the initial policy."""
        return NO_NETWORK if self.init is None else sha256_of(self.init)


class TrainingTime(NamedTuple):
    """Time of all calls so far [s]: in all, and in iterations alone."""

    all_s: float = 0.0
    learning_s: float = 0.0


class TrainingResult(NamedTuple):
    """The policy on the CPU, the decisions that it learned from, the time [s], and the device that made the last."""

    policy: SmallPolicy
    decisions: int
    spent_s: float
    device: str


def train(task: Task, folder: Path, device: torch.device, report: Report) -> TrainingResult:
    """Train until the time is over, on from the checkpoint in `folder` if there is one; return the result.

    Raises OnboardError. The last checkpoint stays, and both devices continue from it.
    """
    checkpoint = folder / f"{STAGE}.ckpt"
    kept = load_training(checkpoint, task.digest, task.network)
    spent = TrainingTime() if kept is None else _spent_in(checkpoint, kept)
    if kept is None or spent.all_s < task.section.within_s:
        if device.type == "cuda" and importlib.util.find_spec("numba_cuda") is None:
            raise MissingExtraError("numba-cuda", "gpu")
        with _gpu_failure_in_one_line(device, checkpoint):
            _Run(task, checkpoint, device, report, spent).run(kept)
    made = load_training(checkpoint, task.digest, task.network) or {}
    return TrainingResult(policy_in(checkpoint), int(made["decisions"]), float(made["spent_s"]), str(made["device"]))


class _Run:
    """One call of a training."""

    def __init__(self, task: Task, checkpoint: Path, device: torch.device, report: Report, spent: TrainingTime) -> None:
        self._task, self._checkpoint, self._device, self._report = task, checkpoint, device, report
        self._before, self._began = spent, time.monotonic()

    def run(self, kept: Mapping[str, Any] | None) -> None:
        """Prepare the world, learn until the time is over, and write the checkpoint."""
        section, rules = self._task.section, self._task.rules
        if section.mirrored:
            check_mirror(rules.robot)
        floors = plan_floors(rules.places.maps, section.variants, self._task.seed)
        # A resumed training draws other goals and drives, on the same floors.
        seed = self._task.seed
        seed += 0 if kept is None else taken_count(self._checkpoint, "iteration", kept.get("iteration"))
        self._report(self._all_s(), {"floors": 0.0})
        taught = section.teacher.weight > 0.0 and section.teacher.policy is None
        with Generation(rules, floors, seed, section.processes, section.starts, priced=taught) as generation:
            if self._device.type == "cuda":
                self._compile()
            atlas = generation.atlas()
            self._report(self._all_s(), {"floors": float(len(floors)), "goals": 0.0})
            goals = generation.goals(at_least=section.first_goals)
            self._report(self._all_s(), {"goals": float(len(goals))})
            world = BatchedWorld(
                rules, section, atlas, goals, section.lanes, seed, self._device, room_for(section, goals)
            )
            torch.manual_seed(seed)
            teacher = None if section.teacher.policy is None else policy_of(model_path(section.teacher.policy))
            policy = self._policy()
            shown: World = world if teacher is None else Taught(world, teacher, section.teacher.warmth_s, self._device)
            shown = StaticGoal(shown) if section.goal == "start" else shown
            shown = Mirrored(shown, self._device) if section.mirrored else shown
            learner = Learner(shown, policy, settings_of(section), self._device)
            if kept is not None:
                learner.take(self._checkpoint, kept)
            elif teacher is not None and self._task.init is None and isinstance(policy, PaperPolicy):
                policy.take_scan(teacher)
            elif self._task.init is not None:
                beside = self._task.init.with_name(self._checkpoint.name)
                if beside.exists():
                    learner.take_critic(beside, read_torch(beside))
                policy.sharpen(section.sharpen)
            self._learn(learner, world, generation if section.processes else None)

    def _policy(self) -> SmallPolicy:
        sizes = self._task.section.network
        if self._task.init is not None:
            return policy_of(self._task.init)
        return SmallPolicy() if sizes is None else PaperPolicy(sizes)

    def _learn(self, learner: Learner, world: BatchedWorld, generation: Generation | None) -> None:
        section, start = self._task.section, time.monotonic()
        saved, total_s = start, section.within_s - self._all_s() + self._before.learning_s
        while learner.iteration == 0 or self._all_s() < section.within_s:
            learning_s = self._before.learning_s + time.monotonic() - start
            numbers = learner.iterate(min(1.0, learning_s / max(1e-9, total_s)))
            if generation is not None:
                world.add_goals(generation.goals())
            self._report(self._all_s(), {**numbers, "goals": float(world.goals)})
            if time.monotonic() - saved >= section.saved_s:
                saved = time.monotonic()
                self._save(learner, start)
        self._save(learner, start)

    def _save(self, learner: Learner, start: float) -> None:
        learning_s = self._before.learning_s + time.monotonic() - start
        name = torch.cuda.get_device_name(self._device) if self._device.type == "cuda" else self._device.type
        content = {**learner.content(), "spent_s": self._all_s(), "learning_s": learning_s, "device": name}
        save_training(self._checkpoint, STAGE, self._task.digest, self._task.network, content)

    def _all_s(self) -> float:
        return self._before.all_s + time.monotonic() - self._began

    def _compile(self) -> None:
        """Compile the GPU's kernels in an empty room."""
        section = self._task.section
        room, goal = empty_room(CELL_M, section.starts)
        world = BatchedWorld(self._task.rules, section, room, [goal], WARM_LANES, 0, self._device)
        world.step(torch.zeros(WARM_LANES, dtype=torch.int64, device=self._device))
        if section.teacher.weight > 0.0:
            world.labels()
        torch.cuda.synchronize()


def settings_of(section: BatchedSection) -> Settings:
    """Return the numbers of PPO."""
    return Settings(
        section.horizon, section.minibatches, section.epochs, section.rate, section.entropy,
        critic_first=section.critic_first, bf16=section.bf16, teacher=section.teacher.weight,
        taught=section.teacher.until, warmth_s=section.teacher.warmth_s,
    )  # fmt: skip


def room_for(section: BatchedSection, goals: list[GoalChunk]) -> Room:
    """Return the room for the goals that follow the first ones: their fields are taken to be as large as the first."""
    more = max(0, section.most_goals - len(goals)) if section.processes else 0
    sizes = (sum(goal.field.size for goal in goals), sum(goal.priced.size for goal in goals))
    return Room(more, *(math.ceil(more * size / len(goals)) for size in sizes))


def _spent_in(file: Path, content: Mapping[str, Any]) -> TrainingTime:
    """Return the times in a checkpoint. Raises InputError."""
    times: list[float] = []
    for name in ("spent_s", "learning_s"):
        found = content.get(name)
        if not isinstance(found, float) or not 0.0 <= found < math.inf:
            raise InputError(f"{file}: {name}: expected a number of seconds, found {found!r}; {MEND}")
        times.append(found)
    return TrainingTime(*times)


# ---- A GPU that fails

GPU_WORDS = ("CUDA", "Cuda", "cuDNN", "CUBLAS", "CUDNN", "AcceleratorError")
"""Words in the name or text of the errors by which PyTorch and numba-cuda report that a GPU failed."""
NUMBA_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


@contextmanager
def _gpu_failure_in_one_line(device: torch.device, checkpoint: Path) -> Iterator[None]:
    """Raise DriverError for a GPU that fails, MemoryError where its memory runs out."""
    try:
        yield
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        if device.type != "cuda" or is_out_of_memory(error) or not any(word in text for word in GPU_WORDS):
            raise
        if NUMBA_MEMORY in text:
            raise MemoryError(text) from error
        raise DriverError(f"the GPU failed: {text.splitlines()[0].strip()}; {_way_on(checkpoint)}") from error


def _way_on(checkpoint: Path) -> str:
    """Return what the operator can do after a failed GPU."""
    if not checkpoint.exists():
        return "there is no checkpoint yet"
    return f"the last checkpoint is {checkpoint}: the same command resumes from it, also with --device cpu"


# ---- A policy as the teacher


class Taught:
    """A world in which a policy labels in place of the map. It drives along with a memory of its own."""

    def __init__(self, world: World, teacher: SmallPolicy, warmth_s: float, device: torch.device) -> None:
        self.world, self.lanes, self._warmth_s = world, world.lanes, warmth_s
        self._teacher = teacher.to(device).eval()
        layers, width = teacher.memory_shape
        self._memory = torch.zeros(layers, world.lanes, width, device=device)
        self._logits = torch.zeros(world.lanes, len(ACTIONS), device=device)

    @torch.no_grad()
    def observe(self) -> Observed:
        """Return what the policy is given now. Called once a decision."""
        seen, teacher = self.world.observe(), self._teacher
        self._memory *= (~seen.fresh)[None, :, None]
        self._logits, self._memory = teacher.step(teacher.encode(seen.scan, seen.state), self._memory)
        return seen

    def step(self, actions: Tensor) -> Stepped:
        """Make one decision in each lane."""
        return self.world.step(actions)

    def labels(self) -> Tensor:
        """Return (N, 28) times [s] of which `learner.probabilities` are the teacher's."""
        return -self._warmth_s * torch.log_softmax(self._logits, dim=1)

    def stats(self) -> dict[str, float]:
        """Return counts since the last call."""
        return self.world.stats()


# ---- A static goal (paper 1, section 3)


def with_static_goal(state: Tensor) -> Tensor:
    """Return states (N, 13) with the goal's distance, cosine and sine in the start frame, from those in the robot's."""
    ahead, aside = state[:, 0] * state[:, 1], state[:, 0] * state[:, 2]
    x = state[:, 3] + state[:, 5] * ahead - state[:, 6] * aside
    y = state[:, 4] + state[:, 6] * ahead + state[:, 5] * aside
    distance = torch.hypot(x, y)
    far = distance.clamp_min(1e-6)
    return torch.cat([torch.stack([distance, x / far, y / far], 1), state[:, 3:]], 1)


class StaticGoal:
    """A world whose policy is given the goal as it was at the start."""

    def __init__(self, world: World) -> None:
        self.world, self.lanes = world, world.lanes

    def observe(self) -> Observed:
        """Return what the policy is given now."""
        seen = self.world.observe()
        return seen._replace(state=with_static_goal(seen.state))

    def step(self, actions: Tensor) -> Stepped:
        """Make one decision in each lane."""
        return self.world.step(actions)

    def labels(self) -> Tensor:
        """Return (N, 28) the teacher's times."""
        return self.world.labels()

    def stats(self) -> dict[str, float]:
        """Return counts since the last call."""
        return self.world.stats()


# ---- Mirrored lanes: half of the lanes show the world as in a mirror, so the policy learns in twice as many buildings

TURNED_STATES = (2, 4, 6, 8, 12)
"""Of the state: the sine of the goal's bearing, y, the sine of the yaw, w, and w of the set point."""
OTHER_SIDE = [ACTIONS.index(Twist(action.v_mps, -action.w_radps + 0.0)) for action in ACTIONS]
"""The mirror image of each action."""


def check_mirror(robot: Setting) -> None:
    """Raise InputError for cameras that do not look to both sides alike."""
    seen = looked_at(robot.mounts, robot.config.scan)
    if (seen != seen[::-1]).any():
        raise InputError("batched.mirrored: the cameras must be mirror images of each other; omit it")


class Mirrored:
    """A world whose second half of lanes is mirrored at the robot's x axis.

    The turn of a held arrival (A5) goes to the left; a mirrored lane sees it go to the right.
    """

    def __init__(self, world: World, device: torch.device) -> None:
        self.world, self.lanes, self._half = world, world.lanes, world.lanes // 2
        self._other = torch.tensor(OTHER_SIDE, device=device)
        self._signs = torch.ones(STATE, device=device)
        self._signs[list(TURNED_STATES)] = -1.0

    def observe(self) -> Observed:
        """Return what the policy is given now."""
        seen, half = self.world.observe(), self._half
        scan = torch.cat([seen.scan[:half], seen.scan[half:].flip(1)])
        state = torch.cat([seen.state[:half], seen.state[half:] * self._signs])
        return seen._replace(scan=scan, state=state)

    def step(self, actions: Tensor) -> Stepped:
        """Make one decision in each lane. actions: (N,) int64, as the policy sees the world."""
        half = self._half
        return self.world.step(torch.cat([actions[:half], self._other[actions[half:]]]))

    def labels(self) -> Tensor:
        """Return (N, 28) the teacher's times, as the policy sees the world."""
        times_s, half = self.world.labels(), self._half
        return torch.cat([times_s[:half], times_s[half:][:, self._other]])

    def stats(self) -> dict[str, float]:
        """Return counts since the last call."""
        return self.world.stats()
