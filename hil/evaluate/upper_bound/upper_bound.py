"""Upper bound of localisation: the share of drives at whose end an ideal estimator's error is at most 0.2 m.

The ideal estimator knows the noise model of `hil/physics/odometry_noise.py`: mean and covariance of the odometry's
drift, the tick in which a new sample begins, the covariance of a fix, and the motion model. It is the extended Kalman
filter of this model, with the current drift among its states.

The ideal estimator gets the robot's inputs: wheel reports and fixes. It is ideal for these inputs alone: an estimator
that also predicts the wheels from the commands could be better. Its error is measured at the end of the drive. A second
measurement follows at the next fix, for a robot that turns on the spot and waits.

The runtime's filter (`onboard/navigation/ekf.py`) runs in parallel. It does not know mean and scale of the drift, but
learns them. It has wheels and fixes alone too: with scan matching (`odometry.scan_matching`) a robot can be better than
this bound. Both estimators follow the same known drives: the planner's drives with perfect senses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hil.drive.conditions import load_conditions
from hil.drive.fast.course import Course, course_of
from hil.drive.fast.drive import drive_fast
from hil.drive.fast.robot import FastRobot
from hil.drive.setting import REACHED_M, Outcome, Setting, goal_tick
from hil.evaluate.baselines.registry import make_policy
from hil.evaluate.episode_selection import Source
from hil.evaluate.metrics import Interval, wilson_of_shares
from hil.evaluate.upper_bound.kernels import IDEAL_STATES, correct_ideal, replay_ticks
from hil.physics.free_space import Episode
from hil.physics.odometry_noise import DRIFT_COVARIANCE, DRIFT_MEAN, TICKS_PER_ENVIRONMENT_STEP
from hil.physics.simulated_base import STEP_S
from onboard.navigation.odometry import Sample
from onboard.values.errors import InputError
from onboard.values.geometry import compose, wrap
from onboard.values.messages import STOP, Fix, Pose, Twist

Floats = npt.NDArray[np.float64]

CASES = (
    "drift_0", "paper", "drift_2", "drift_3",
    "printed_noise_drift_0", "printed_noise", "printed_noise_drift_2", "printed_noise_drift_3",
    "no_localization_drift_0", "no_localization", "no_localization_drift_2", "no_localization_drift_3",
)  # fmt: skip
"""Conditions of the upper bound: both readings of the fix noise, and no fixes; each with 0 to 3 times the drift."""
WAITING_RADPS = 1.0
"""Turn rate of a robot that waits for a fix, as the teacher of `onboard-v1` waited."""


@dataclass(frozen=True, slots=True)
class EndErrors:
    """Position errors of the two estimators in a drive.

    ideal_m:  error of the ideal estimator at the end of the drive
    own_m:    error of the runtime's filter at the end of the drive
    waited_m: error of the ideal estimator at the next fix; equal to `ideal_m` if no fix comes
    """

    ideal_m: float
    own_m: float
    waited_m: float

    @property
    def ideal(self) -> bool:
        """Whether the error of the ideal estimator is at most `REACHED_M` at the end."""
        return self.ideal_m <= REACHED_M

    @property
    def waited(self) -> bool:
        """Whether the error of the ideal estimator is at most `REACHED_M` at the next fix."""
        return self.waited_m <= REACHED_M

    @property
    def own(self) -> bool:
        """Whether the error of the runtime's filter is at most `REACHED_M` at the end."""
        return self.own_m <= REACHED_M


class Replay(FastRobot):
    """Senses and filter of a robot on a known drive, with the ideal estimator and the filter.

    The noise is the same as in a drive of `FastRobot` with this seed.
    mean, spread: mean and covariance of the ideal estimator, see `kernels.IDEAL_STATES`
    """

    def __init__(self, setting: Setting, course: Course, start: Pose, seed: int, known: Floats) -> None:
        """Prepare a known drive (n, 5), see `known_drive`. Raises InputError if the start is not free."""
        super().__init__(setting, course, start, seed, 0)
        senses, part = setting.senses, 1.0 / TICKS_PER_ENVIRONMENT_STEP
        longest_s = senses.fix_period_s[1] + senses.fix_delay_s + STEP_S
        self._end = len(known) - 1
        self._known = np.concatenate([known, turning(known[-1], math.ceil(longest_s / STEP_S))])
        self._fixes_taken = 0
        self._drift_mean = np.array(DRIFT_MEAN) * senses.drift_scale * part
        self._drift_covariance = np.array(DRIFT_COVARIANCE) * (senses.drift_scale * part) ** 2
        self._ideal_variance = np.square(np.array(senses.fix_sd) * senses.localization_scale)
        self.mean, self.spread = np.zeros(IDEAL_STATES), np.zeros((IDEAL_STATES, IDEAL_STATES))
        self._fixed = not senses.localization
        if self._fixed:  # without localisation the goal is relative to the start, so the estimator knows the start
            self.mean[:3] = start.x_m, start.y_m, start.yaw_rad

    def to_the_end(self) -> None:
        """Simulate the whole drive."""
        self.run_to(self._end, STOP)

    def to_the_next_fix(self) -> None:
        """Turn on the spot until the next fix. Do nothing without localisation."""
        before, tick = self._fixes_taken, self._end
        while self._senses.localization and self._fixes_taken == before and tick < len(self._known) - 1:
            tick += 1
            self.run_to(tick, STOP)

    def _live(self, ticks: int, command: Twist) -> None:
        left = ticks
        while True:
            left -= replay_ticks(
                self._states, self._covariance, self._table, self._known, left, self.mean, self.spread,
                self._drift_mean, self._drift_covariance,
            )  # fmt: skip
            if not self._states["owing"][0]:
                break
            self._draw_drift()
        self._look_up()

    def _put_fix(self, fix: Fix, then: Sample | None = None) -> None:
        super()._put_fix(fix, then)
        self._fixes_taken += 1
        pose = fix.pose
        if self._fixed:
            correct_ideal(self.mean, self.spread, pose.x_m, pose.y_m, pose.yaw_rad, self._ideal_variance)
            return
        self._fixed = True
        self.mean[:3], self.spread[:3, :3] = (pose.x_m, pose.y_m, pose.yaw_rad), np.diag(self._ideal_variance)


def known_drive(outcome: Outcome, start: Pose, began: int) -> Floats:
    """Return (n, 5) a known drive for `kernels.replay_ticks`: `began` ticks at rest until the goal, then the drive."""
    standing = np.tile((start.x_m, start.y_m, start.yaw_rad, 0.0, 0.0), (began, 1))
    return np.ascontiguousarray(np.concatenate([standing, outcome.trace[:, 1:]]))


def turning(last: Floats, ticks: int) -> Floats:
    """Return (ticks, 5) the ticks of a robot that turns on the spot at `WAITING_RADPS`.

    last: last tick of a known drive, before the turn
    """
    yaws = last[2] + WAITING_RADPS * STEP_S * np.arange(1, ticks + 1)
    rows = np.tile((last[0], last[1], 0.0, 0.0, WAITING_RADPS), (ticks, 1))
    rows[:, 2] = [wrap(yaw) for yaw in yaws]
    return rows


def drive_known(setting: Setting, episode: Episode) -> Floats:
    """Return (n, 5) the planner's drive with perfect senses, see `known_drive`.

    Raises InputError if the start is not free.
    """
    perfect = replace(setting, senses=replace(setting.senses, drift_scale=0.0, localization_scale=0.0))
    outcome = drive_fast(perfect, episode, make_policy("planner", perfect, episode), 0)
    return known_drive(outcome, episode.start, goal_tick(setting.config.rates.ticks_per_decision))


def replay(setting: Setting, episode: Episode, known: Floats, seed: int) -> EndErrors:
    """Return the errors of both estimators for a draw of the noise. Raises InputError if the start is not free.

    known: (n, 5) drive of `drive_known`
    seed:  seed of the noise
    """
    robot = Replay(setting, course_of(setting), episode.start, seed, known)
    robot.to_the_end()
    x_m, y_m = known[-1, 0], known[-1, 1]
    own, ideal_m = own_pose(robot, episode.start), math.hypot(robot.mean[0] - x_m, robot.mean[1] - y_m)
    robot.to_the_next_fix()
    waited_m = math.hypot(robot.mean[0] - x_m, robot.mean[1] - y_m)
    return EndErrors(ideal_m, math.hypot(own.x_m - x_m, own.y_m - y_m), waited_m)


def own_pose(robot: FastRobot, start: Pose) -> Pose:
    """Return the runtime's estimate of the pose in the map; without localisation the wheel odometry from the start."""
    s = robot.state
    if s.filtering:
        return Pose(s.filter_x_m, s.filter_y_m, s.filter_yaw)
    return compose(start, Pose(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw))


def ends_of(
    setting: Setting, episode: Episode, cases: Sequence[str], seeds: Sequence[int]
) -> Iterator[tuple[str, list[EndErrors]]]:
    """Yield the name of each condition, and the errors of an episode's drives, an entry per seed. Raises InputError.

    cases: names of conditions
    """
    known = drive_known(setting, episode)
    for name in cases:
        under = load_conditions()[name].of(setting)
        yield name, [replay(under, episode, known, seed) for seed in seeds]


# ---- Figures of the upper bound, and the errors of each drive as plain values

DIGITS = 6
"""Errors are written with a resolution of 1 um."""

Array = npt.NDArray[np.float64]
Ends = Mapping[tuple[str, int], Sequence[EndErrors]]
"""(name of the set, number of the episode) -> errors of the episode's drives, an entry per draw of the noise."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Figures of both estimators under a condition, over all episodes and draws of the noise.

    ideal:      share of drives at whose end the error of the ideal estimator is at most 0.2 m
    own:        share of drives at whose end the error of the runtime's filter is at most 0.2 m
    waited:     share of drives in which the ideal estimator's error is at most 0.2 m at the next fix
    *_ci95:     intervals of the shares, see `hil.evaluate.metrics.wilson_of_shares`
    *_median_m: medians of the errors at the end
    """

    ideal: float
    ideal_ci95: Interval | None
    ideal_median_m: float
    own: float
    own_ci95: Interval | None
    own_median_m: float
    waited: float
    waited_ci95: Interval | None


def ceiling_of(rows: Sequence[Sequence[EndErrors]]) -> Ceiling:
    """Return the figures of a condition. rows: errors of the drives of each episode; not empty."""
    ideal, own, waited = (_shares(rows, name) for name in ("ideal", "own", "waited"))
    draws = sum(len(row) for row in rows)
    return Ceiling(
        ideal=float(ideal.mean()),
        ideal_ci95=wilson_of_shares(ideal, draws),
        ideal_median_m=float(np.median([one.ideal_m for row in rows for one in row])),
        own=float(own.mean()),
        own_ci95=wilson_of_shares(own, draws),
        own_median_m=float(np.median([one.own_m for row in rows for one in row])),
        waited=float(waited.mean()),
        waited_ci95=wilson_of_shares(waited, draws),
    )


def ends_as_json(ends: Ends, sources: Sequence[Source]) -> dict[str, Any]:
    """Return for each set, in the order of its episodes, the three errors of each draw [m]."""
    return {
        source.name: [
            [[round(error, DIGITS) for error in astuple(end)] for end in ends[source.name, index]]
            for index in source.indices
        ]
        for source in sources
    }


def ends_of_json(table: Mapping[str, Any], condition: str, file: Path) -> dict[tuple[str, int], list[EndErrors]]:
    """Return the errors of a condition's drives from the table that `onboard-hil upper-bound` wrote.

    Returns {} for a table of an older version without "ends".
    file: source of the table. Raises InputError that names it.
    """
    if "ends" not in table:
        return {}
    try:
        return {
            (name, int(index)): [
                EndErrors(float(ideal_m), float(own_m), float(waited_m)) for ideal_m, own_m, waited_m in draws
            ]
            for name, rows in table["ends"][condition].items()
            for index, draws in zip(table["episodes"][name], rows, strict=True)
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: ends of {condition}: not what onboard-hil upper-bound writes: {error!r}") from error


def _shares(rows: Sequence[Sequence[EndErrors]], name: str) -> Array:
    """Return (episodes,) the share of each episode's draws with an error of at most `REACHED_M`.

    name: property of `EndErrors`
    """
    return np.array([np.mean([getattr(one, name) for one in row]) for row in rows])
