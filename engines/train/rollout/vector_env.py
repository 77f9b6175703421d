"""Lanes: parallel fast drives that pause at each decision, so one forward pass decides for all.

A lane drives one episode after another with `hil.drive.fast.drive`, the loop of the evaluation. The order of steps
does not depend on time, so a seed determines a training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engines.train.rollout.domain_randomization import DomainSection, draw_sample, with_faults
from engines.train.rollout.expert import Expert, Knowledge, Truth, goal_compass
from engines.train.rollout.places import Building, PlacesSection, Turns, geodesic_m
from hil.drive.fast.course import varied
from hil.drive.fast.drive import FastDrive
from hil.drive.setting import Outcome, Setting
from onboard.config.config import RatesSection
from onboard.policy.contract import CONTRACT_VERSION, INPUTS, MEMORY_TENSORS, OUTPUTS, REQUIRED_OUTPUTS, Tensor
from onboard.policy.encode import tensors
from onboard.policy.inference import InferenceResult
from onboard.policy.manifest import Manifest, TensorEntry
from onboard.values.errors import InputError, OnboardError
from onboard.values.messages import Decision, Memory, Observation, Scan, Twist

Array = npt.NDArray[np.generic]
Tensors = dict[str, Array]

FRESH: Memory = np.zeros((1, 1), np.float32)
CARRIED: Memory = np.ones((1, 1), np.float32)
"""Marks instead of the recurrent state, which the trainer keeps: just reset, or carried on."""


class ExternalPolicy:
    """Stands for the policy in a drive whose decisions are made outside of it."""

    name = "student"

    def __init__(self, memory_reset_s: float | None, wants_color: bool) -> None:
        self.memory_reset_s, self.wants_color = memory_reset_s, wants_color

    def initial_memory(self) -> Memory:
        """Return the mark of a fresh memory."""
        return FRESH

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Raise OnboardError: the decision comes through `DeferredInference`."""
        raise OnboardError("a lane's decisions are made outside of its drive")

    def close(self) -> None:
        """Nothing to release."""


def _manifest() -> Manifest:
    rates = RatesSection()

    def entries(names: Sequence[str], table: Mapping[str, Tensor]) -> tuple[TensorEntry, ...]:
        types = [(name, table[name].type) for name in names]
        return tuple(TensorEntry(name=name, shape=kind.shape, dtype=kind.dtype) for name, kind in types)

    return Manifest(
        contract_version=CONTRACT_VERSION,
        sha256="0" * 64,
        policy=ExternalPolicy.name,
        inputs=entries([name for name in INPUTS if name not in ("rgb", *MEMORY_TENSORS)], INPUTS),
        outputs=entries(REQUIRED_OUTPUTS, OUTPUTS),
        training_delay_ticks=rates.delay_ticks,
        control_hz=rates.control_hz,
        decision_hz=rates.control_hz / rates.ticks_per_decision,
        memory_shape=None,
    )


MADE = _manifest()
"""Manifest of a lane's tensors: all inputs of the contract, scaled as in an exported model."""


class DeferredInference:
    """An inference whose answer comes from outside; implements `onboard.policy.inference.Inference`."""

    def __init__(self) -> None:
        self.pending: tuple[int, Observation, Memory] | None = None
        self._result: InferenceResult | None = None

    def submit(self, number: int, observation: Observation, memory: Memory) -> bool:
        """Keep the observation."""
        self.pending = number, observation, memory
        return True

    def answer(self, action: int) -> None:
        """Give the decision on the kept observation."""
        if self.pending is None:
            raise OnboardError("nothing was asked")
        decision = Decision(action, _NO_LOGITS)
        self._result, self.pending = InferenceResult(self.pending[0], decision, CARRIED, 0), None

    def poll(self) -> InferenceResult | None:
        """Return the answer once."""
        result, self._result = self._result, None
        return result

    def close(self) -> None:
        """Nothing to release."""


_NO_LOGITS = np.zeros(1, np.float32)


class FinishedDrive(NamedTuple):
    """A finished drive. left_m: length of the path left at its end; best_m: of the whole path."""

    outcome: Outcome
    best_m: float
    left_m: float


@dataclass(frozen=True, slots=True)
class DecisionRequest:
    """A lane's request for a decision.

    tensors:    of the contract by name, (1, ...), without the colour image and the memory
    image:      (144, 256, 3) uint8, None where this drive has no colour
    fresh:      whether the memory is reset before this decision
    scores:     (28,) the expert's; None without an expert
    compass:    (3,) the true goal compass (`goal_compass`)
    geodesic_m: length of the path left; contacts: so far in this drive
    ended:      the drive that ended in this lane since its last decision
    """

    tensors: Tensors
    image: npt.NDArray[np.uint8] | None
    fresh: bool
    scores: npt.NDArray[np.float32] | None
    compass: npt.NDArray[np.float32]
    geodesic_m: float
    contacts: int
    ended: FinishedDrive | None


@dataclass(frozen=True, slots=True)
class LaneRules:
    """Settings that all lanes share.

    max_s, stuck_s: timeouts of a drive: in all, and without progress towards the goal
    knows:          the expert's knowledge of the building (`expert.py`)
    news_s:         the expert stops at the goal only with a fix newer than this
    colour:         share of drives with rendered images; expert: whether decisions are labelled
    """

    places: PlacesSection
    domain: DomainSection
    memory_reset_s: float | None
    max_s: float
    stuck_s: float
    knows: Knowledge
    news_s: float | None = None
    colour: float = 0.0
    expert: bool = True


class Lane:
    """One drive after another, in turn in each building, all drawn by the lane's own generator."""

    def __init__(self, rules: LaneRules, buildings: Sequence[Building], rng: np.random.Generator) -> None:
        self._rules, self._rng = rules, rng
        self._turns = Turns(rules.places, buildings, rng)
        self._begin()

    def wait(self) -> DecisionRequest:
        """Drive to the next decision, in this drive or in the next drive, and return the request.

        Raises InputError for a drive that ends before its first decision.
        """
        ended: FinishedDrive | None = None
        while self._inference.pending is None:
            if self._drive.ended():
                ended = self._end()
                self._begin()
            else:
                self._drive.advance()
        return self._request(*self._inference.pending[1:], ended)

    def answer(self, action: int) -> None:
        """Give the action of the last request."""
        self._inference.answer(action)
        self._decided = True

    def _end(self) -> FinishedDrive:
        """Return the end of the drive. Raises InputError if it ended before its first decision."""
        if not self._decided:
            where, how = self._building.setting.world.name, self._drive.ended()
            raise InputError(
                f"map {where}: a drive of {self._episode.geodesic_m:.1f} m ended before its first decision: {how}"
            )
        return FinishedDrive(self._drive.outcome(), self._episode.geodesic_m, self._left_m())

    def _begin(self) -> None:
        rules, rng = self._rules, self._rng
        self._building, self._episode, self._goal = self._turns.next()
        self._sample = draw_sample(rules.domain, self._building, self._episode, rng)
        setting = self._patient(self._sample.setting)
        course = varied(self._building.course, setting)
        self._coloured = bool(rng.random() < rules.colour)
        self._inference, policy = DeferredInference(), ExternalPolicy(rules.memory_reset_s, self._coloured)
        seed = int(rng.integers(2**31))
        self._drive = FastDrive(setting, course, self._episode, policy, seed, rules.max_s, self._inference)
        self._whole = len(setting.mounts.depth) == len(self._building.setting.mounts.depth)
        self._expert = Expert(setting, self._episode, rules.knows, rules.news_s) if rules.expert else None
        self._decided = False
        self._drive.begin()

    def _patient(self, setting: Setting) -> Setting:
        """Return the robot with the training's progress timeout."""
        goal = setting.config.goal.model_copy(update={"progress_timeout_s": self._rules.stuck_s})
        return replace(setting, config=setting.config.model_copy(update={"goal": goal}))

    def _request(self, observation: Observation, memory: Memory, ended: FinishedDrive | None) -> DecisionRequest:
        truth, fresh, expert = self._truth(observation), memory is FRESH, self._expert
        color = observation.color if self._coloured else None
        return DecisionRequest(
            tensors=self._tensors(observation),
            image=None if color is None else color.image,
            fresh=fresh,
            scores=None if expert is None else expert.scores(observation, truth, fresh),
            compass=goal_compass(truth.pose, self._goal.xy_m),
            geodesic_m=self._left_m(),
            contacts=int(self._drive.robot.state.contacts),
            ended=ended,
        )

    def _truth(self, observation: Observation) -> Truth:
        robot = self._drive.robot
        scan = observation.scan
        if not self._whole:
            whole = self._building.course.scan
            scan = Scan(scan.stamp_ns, whole.ranges(robot.pose, robot.bodies), whole.seen)
        return Truth(robot.pose, Twist(robot.state.v, robot.state.w), scan)

    def _tensors(self, observation: Observation) -> Tensors:
        """Return the contract's tensors of an observation, with the drive's scan faults."""
        ranges = with_faults(observation.scan.ranges_m, self._sample.faults, self._rng)
        return tensors(replace(observation, scan=replace(observation.scan, ranges_m=ranges)), FRESH, MADE)

    def _left_m(self) -> float:
        pose = self._drive.robot.pose
        return geodesic_m(self._building, self._goal, (pose.x_m, pose.y_m))
