"""The numbers of the reinforcement: the paper's reward, and how carefully the policy is changed by it."""

from __future__ import annotations

from pydantic import Field

from engines.train.rollout.optimizer_step import Precision
from onboard.config.toml_file import Fraction, NonNegative, Positive, PositiveFraction, Section

MOST_COLLECTORS = 256
"""Processes beyond any machine that a training has."""


class RewardSection(Section):
    """The reward of a decision (paper 1, section 1.9): success - metres lost to the goal - step - contact x contacts.

    success: for the drive that ends at the goal by its own stop
    step:    what every decision costs
    contact: what every contact costs, counted once however long it lasts
    """

    success: NonNegative = 2.5
    step: NonNegative = 0.01
    contact: NonNegative = 0.1


class ReinforceSection(Section):
    """PPO after the imitation. Lanes, runs and memory resets are those of `[driving]`; every action is drawn.

    Whoever is judged at the end takes its best action always, so what is drawn from must not be far from that: hence a
    temperature below 1.

    chapters, rounds: as in the imitation; no chapters skip the stage
    decisions:        of each lane in a round
    critic_rounds:    rounds at the very beginning in which only the critic's head learns, which imitation leaves alone
    epochs:           how often a round is learned from at most, by the critic's head alone `critic_epochs`
    batch:            decisions in an update, about
    precision:        of the products of an update, on a CPU (precision.py)
    rate:             learning rate, falling in a line to a tenth; critic_rate: that of the critic's head
    temperature:      an action is drawn, and its probability counted, as the softmax of the logits over this
    discount, trace:  gamma and lambda of the generalised advantage estimation
    clip:             an action's probability gains nothing by changing by more than this factor 1 -+ clip
    target_kl:        a round is left when the policy is further [nats] from the one that drove it
    imitation:        weight of the divergence from the policy that the reinforcement began with
    entropy, auxiliary: weights of the policy's entropy and of the goal compass' error
    value:            share of the critic's error that reaches what is below its head; the head always learns from all
    value_m:          where the critic's loss turns from square to linear, in units of the reward
    gradient:         longer gradients are shortened to this
    colour:           share of drives with rendered images, where the imitation had any
    collectors:       processes that drive; 0 drives in the trainer's own
    validate_drives:  drives by which a chapter is watched, as many of them with images as of those it learns from
    choose_drives:    such drives by which before and after are compared at the end; none keeps what came after
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
