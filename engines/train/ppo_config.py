"""Configuration of the reinforcement: the paper's reward and PPO."""

from __future__ import annotations

from pydantic import Field

from engines.train.rollout.optimizer_step import Precision
from onboard.config.toml_file import Fraction, NonNegative, Positive, PositiveFraction, Section

MOST_COLLECTORS = 256
"""Upper bound against mistyped numbers."""


class RewardSection(Section):
    """The reward of a decision (paper 1, section 3): success - metres lost to the goal - step - contact x contacts.

    success: for a drive that stops by itself at the goal
    step:    cost of each decision
    contact: cost of each contact, however long it lasts
    """

    success: NonNegative = 2.5
    step: NonNegative = 0.01
    contact: NonNegative = 0.1


class ReinforceSection(Section):
    """PPO after the imitation. Lanes, runs and memory resets are those of `[driving]`; each action is sampled.

    Evaluations take the best action. A temperature below 1 keeps the sampling distribution near it.

    chapters, rounds: as in the imitation; no chapters skip the stage
    decisions:        of each lane in a round
    critic_rounds:    first rounds, in which only the critic's head learns; imitation does not train it
    epochs:           most epochs over a round; `critic_epochs` while only the critic's head learns
    batch:            decisions in an update, about
    precision:        of matrix products in an update, on a CPU (`optimizer_step.py`)
    rate:             learning rate, with a linear decay to a tenth; critic_rate: of the critic's head
    temperature:      actions are sampled from the softmax of the logits over this
    discount, trace:  gamma and lambda of the generalised advantage estimation
    clip:             clip of the probability ratio, 1 -+ this
    target_kl:        largest divergence [nats] from the policy that drove a round; beyond it the round ends early
    imitation:        weight of the divergence from the policy at the start of the reinforcement
    entropy, auxiliary: weights of the policy's entropy and of the goal compass' error
    value:            share of the critic's gradient that passes below its head; the head gets all of it
    value_m:          threshold of the critic's Huber loss, in units of the reward
    gradient:         largest norm of a gradient
    colour:           share of drives with rendered images, if the imitation had any
    collectors:       processes that drive; 0 drives in the trainer's process
    validate_drives:  drives of the validation after a chapter, with images in the same share as in training
    choose_drives:    drives of the comparison of before and after at the end; 0 keeps the policy after
    """

    chapters: int = Field(6, ge=0)
    rounds: int = Field(16, ge=1)
    decisions: int = Field(64, ge=2)
    critic_rounds: int = Field(8, ge=0)
    epochs: int = Field(2, ge=1)
    critic_epochs: int = Field(8, ge=1)
    batch: int = Field(384, ge=1)
    precision: Precision = "float32"
    rate: PositiveFraction = 5e-5
    critic_rate: PositiveFraction = 3e-3
    temperature: Positive = 0.5
    discount: Fraction = 0.99
    trace: Fraction = 0.95
    clip: Positive = 0.2
    target_kl: Positive = 0.02
    imitation: NonNegative = 0.2
    entropy: NonNegative = 0.001
    value: NonNegative = 0.25
    value_m: Positive = 1.0
    auxiliary: NonNegative = 0.25
    gradient: Positive = 0.5
    colour: Fraction = 0.1
    collectors: int = Field(1, ge=0, le=MOST_COLLECTORS)
    validate_drives: int = Field(48, ge=0)
    choose_drives: int = Field(240, ge=0)
    reward: RewardSection = RewardSection()
