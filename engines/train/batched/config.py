"""Configuration of a training in the batched world."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt, model_validator

from engines.network.network import PAPER
from onboard.config.toml_file import Fraction, NonNegative, Positive, PositiveFraction, Section

MOST_LANES, MOST_GOALS, MOST_PROCESSES = 1_000_000, 1_000_000, 256
"""Upper bounds against mistyped numbers."""


class BatchedRewardSection(Section):
    """The reward of a decision: metres gained on the path to the goal - step, and what the end of a drive brings.

    success: for a stop at the goal
    step:    cost of each decision
    contact: cost of a contact, which ends the drive
    wrong:   cost of a stop elsewhere, or of a recovery that gives up; less within `lane_kernels.NEAR_M` of the goal
    """

    success: NonNegative = 10.0
    step: NonNegative = 0.03
    contact: NonNegative = 3.0
    wrong: NonNegative = 2.5


class TeacherSection(Section):
    """The teacher, which knows the map, in addition to the reward (`lane_teacher.py`).

    weight:   of its loss at the beginning, linear to 0 at `until`; 0 for no teacher
    until:    share of the training's time
    warmth_s: an action that loses this much time is taught with 1/e of the best one's probability [s]
    policy:   a small policy by name or file that labels in place of the map: distillation in the states that the
              student visits (DAgger, Ross et al., 2011)
    """

    weight: NonNegative = 0.0
    until: PositiveFraction = 1.0
    warmth_s: Positive = 0.1
    policy: str | None = None


class NetworkSection(Section):
    """Sizes of paper 1's network without its colour encoder; the defaults are the paper's (Fig. 9, Appendix B)."""

    channels: tuple[PositiveInt, PositiveInt, PositiveInt] = PAPER.scan_channels
    scan: PositiveInt = PAPER.scan
    hidden: PositiveInt = PAPER.hidden
    vector: PositiveInt = PAPER.vector
    action: PositiveInt = PAPER.action
    memory: PositiveInt = PAPER.memory
    layers: int = Field(PAPER.memory_layers, ge=1, le=8)


class BatchedSection(Section):
    """Recurrent PPO in the batched world.

    The limits have the last word, unless the key `limits` says otherwise. There are no people, late fixes or
    missing cameras, and the pose is as without `odometry.scan_matching`.

    lanes:       drives side by side
    variants:    furnished floors of each map
    starts:      of each goal
    first_goals: goals that are drawn before the training begins
    most_goals:  goals in all; further goals are drawn while the lanes drive
    processes:   that draw goals; 0 draws only the first goals, in the trainer's process
    within_s:    duration of the training, with its preparation; the schedules follow it [s]. A resumed one continues
                 where it was, and may have another duration
    saved_s:     time between two checkpoints [s]
    horizon:     decisions of a lane in an iteration
    minibatches: updates of an epoch, each with the whole horizon of some lanes
    epochs:      most epochs over an iteration
    rate:        learning rate, with a linear decay to a tenth
    entropy:     weight of the policy's entropy, with a linear decay to a tenth
    sharpen:     factor on the logits of the policy that `--init` gives: above 1 the robot explores less at first
    critic_first: iterations in which only the critic learns: for a model of `--init` without its checkpoint next to it
    bf16:        matrix products in bfloat16, on a GPU those of the encoder alone; faster, and a little less exact
    mirrored:    whether half of the lanes are shown as in a mirror (`mirror.py`)
    goal:        "robot": the goal is turned into the robot's frame; "start": it is static, as in paper 1, and the
                 policy turns it by the pose that it is given
    graded:      share of drives whose slow zone has `world.GRADED_STEPS` steps
    limits:      whether the limits judge the commands; without them a contact still ends the drive
    network:     sizes of paper 1's network; without the table: the small policy
    """

    lanes: int = Field(4096, ge=1, le=MOST_LANES)
    variants: int = Field(2, ge=1, le=1000)
    starts: int = Field(24, ge=1, le=1000)
    first_goals: int = Field(600, ge=1, le=MOST_GOALS)
    most_goals: int = Field(20_000, ge=1, le=MOST_GOALS)
    processes: int = Field(14, ge=0, le=MOST_PROCESSES)
    within_s: Positive = 480.0
    saved_s: NonNegative = 60.0
    horizon: int = Field(128, ge=2, le=10_000)
    minibatches: int = Field(8, ge=1)
    epochs: int = Field(2, ge=1)
    rate: PositiveFraction = 5e-4
    entropy: NonNegative = 0.01
    sharpen: Positive = 1.0
    critic_first: int = Field(0, ge=0)
    bf16: bool = False
    mirrored: bool = False
    goal: Literal["robot", "start"] = "robot"
    graded: Fraction = 0.3
    limits: bool = True
    reward: BatchedRewardSection = BatchedRewardSection()
    teacher: TeacherSection = TeacherSection()
    network: NetworkSection | None = None

    @model_validator(mode="after")
    def _ordered(self) -> BatchedSection:
        for name, most in (("minibatches", "lanes"), ("first_goals", "most_goals")):
            found, bound = getattr(self, name), getattr(self, most)
            if found > bound:
                raise ValueError(f"{name} {found} must not be above {most} {bound}")
        return self


UNTOLD = ("processes", "within_s", "saved_s")
"""Keys that a checkpoint does not depend on: a resumed training may change them."""
