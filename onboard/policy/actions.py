"""The output of a model becomes a decision: the best row of a table of velocity pairs, or a continuous pair."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from onboard.config.toml_file import Finite, NonNegative, Positive, Section
from onboard.policy.contract import ACTIONS, STOP_ACTION, nearest_action
from onboard.values.errors import EngineError
from onboard.values.geometry import distance
from onboard.values.messages import STOP, Decision, Observation, Pose, Twist

Range = tuple[Finite, Finite]


class Action(Section):
    """Where a model's action stands.

    output:        name of the model's output
    stop_within_m: the runtime decides to stop at this distance from the goal by its filter, for a model that never
                   stops by itself; None: only the model decides
    """

    output: str = Field(min_length=1)
    stop_within_m: Positive | None = None

    @property
    def numbers(self) -> int:
        """Number of values in the output."""
        raise NotImplementedError

    @property
    def table(self) -> tuple[Twist, ...]:
        """All velocity pairs; empty if the action is continuous."""
        return ()

    def decide(self, values: npt.NDArray[Any], observation: Observation) -> Decision:
        """Return the decision for an output of `numbers` finite values. Raises EngineError."""
        goal = Pose(*observation.goal_xy_m, 0.0)
        if self.stop_within_m is not None and distance(observation.filtered.pose, goal) <= self.stop_within_m:
            return Decision(STOP_ACTION, values, STOP)
        return self.choose(values)

    def choose(self, values: npt.NDArray[Any]) -> Decision:
        """Return the model's own decision. Raises EngineError."""
        raise NotImplementedError


class TableAction(Action):
    """The velocity pair of the largest value, the lowest index of equals. twists: (v [m/s], w [rad/s]) each."""

    kind: Literal["table"]
    twists: tuple[Range, ...]

    @model_validator(mode="after")
    def _has_rows(self) -> TableAction:
        if len(self.twists) < 2:
            raise ValueError(f"twists: {len(self.twists)} rows, must be at least 2")
        return self

    @property
    def numbers(self) -> int:
        """Number of rows."""
        return len(self.twists)

    @cached_property
    def table(self) -> tuple[Twist, ...]:
        """All velocity pairs."""
        return tuple(Twist(v, w) for v, w in self.twists)

    def choose(self, values: npt.NDArray[Any]) -> Decision:
        """Return the row of the largest value."""
        index = int(np.argmax(values))
        if self.table == ACTIONS:
            return Decision(index, values)
        return Decision(nearest_action(self.table[index]), values, self.table[index])


class ContinuousAction(Action):
    """Two numbers v and w, or the parameters of a distribution of both, whose mode is taken.

    v_mps, w_radps: lowest and highest velocity
    squash:         how a number becomes a velocity: "none" as it is; "unit" from [-1, 1] and "fraction" from [0, 1] to
                    the range; "tanh" and "sigmoid" apply that function first; all are clipped to the range
    distribution:   "gaussian": the two means come first, the rest does not matter; "beta": two alphas, then two betas,
                    over the range; None: no distribution
    stop_mps, stop_radps: a pair below both is a stop, without `stop_within_m`
    """

    kind: Literal["continuous"]
    v_mps: Range
    w_radps: Range
    squash: Literal["none", "unit", "fraction", "tanh", "sigmoid"] = "none"
    distribution: Literal["gaussian", "beta"] | None = None
    stop_mps: NonNegative = 0.05
    stop_radps: NonNegative = 0.1

    @property
    def numbers(self) -> int:
        """2, or 4 for a beta distribution. A Gaussian may have more."""
        return 4 if self.distribution == "beta" else 2

    @model_validator(mode="after")
    def _makes_sense(self) -> ContinuousAction:
        for name, (low, high) in (("v_mps", self.v_mps), ("w_radps", self.w_radps)):
            if not low < high:
                raise ValueError(f"{name}: [{low:g}, {high:g}] is no range: the first must be below the second")
        if self.distribution == "beta" and self.squash != "none":
            raise ValueError(f"squash {self.squash}: a beta distribution lies in its range already, must be none")
        return self

    def choose(self, values: npt.NDArray[Any]) -> Decision:
        """Return the clipped velocity pair. Raises EngineError for a beta distribution that does not exist."""
        low, high = np.array([self.v_mps, self.w_radps]).T
        pair = values.astype(np.float64)
        if self.distribution == "beta":
            pair = low + _beta_mode(pair[:2], pair[2:4]) * (high - low)
        elif self.squash != "none":
            pair = low + _unit(self.squash, pair[:2]) * (high - low)
        v, w = np.clip(pair[:2], low, high).tolist()
        stops = self.stop_within_m is None and abs(v) < self.stop_mps and abs(w) < self.stop_radps
        twist = STOP if stops else Twist(v, w)
        return Decision(nearest_action(twist), values, twist)

    def within(self, v_mps: Range, w_max_radps: float) -> ContinuousAction:
        """Return the action whose results are clipped to a robot's limits too."""
        return _Clipped(**self.model_dump(), limits_v_mps=v_mps, limits_w_radps=(-w_max_radps, w_max_radps))


class _Clipped(ContinuousAction):
    """A continuous action of a robot with lower limits. The scale of the model's output stays."""

    limits_v_mps: Range
    limits_w_radps: Range

    def choose(self, values: npt.NDArray[Any]) -> Decision:
        """Return the pair within the limits."""
        twist = super().choose(values).own or STOP
        limited = Twist(_clip(twist.v_mps, self.limits_v_mps), _clip(twist.w_radps, self.limits_w_radps))
        return Decision(nearest_action(limited), values, limited)


AnyAction = Annotated[TableAction | ContinuousAction, Field(discriminator="kind")]


def beyond(action: Action, v_mps: Range, w_max_radps: float) -> str:
    """Return in words how far an action goes beyond a robot's limits, or ""."""
    if isinstance(action, ContinuousAction):
        speeds: Sequence[float] = action.v_mps
        turns: Sequence[float] = action.w_radps
    else:
        speeds, turns = zip(*((one.v_mps, one.w_radps) for one in action.table), strict=True)
    found = []
    if min(speeds) < v_mps[0] or max(speeds) > v_mps[1]:
        found.append(f"{min(speeds):g} to {max(speeds):g} m/s, limits {v_mps[0]:g} to {v_mps[1]:g} m/s")
    if max(map(abs, turns)) > w_max_radps:
        found.append(f"{min(turns):g} to {max(turns):g} rad/s, limit {w_max_radps:g} rad/s")
    return "; ".join(found)


def _clip(value: float, limits: Range) -> float:
    return min(max(value, limits[0]), limits[1])


def _unit(squash: str, numbers: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1]."""
    if squash == "fraction":
        return np.clip(numbers, 0.0, 1.0)
    if squash == "sigmoid":
        return np.asarray(0.5 * (1.0 + np.tanh(0.5 * numbers)))
    return np.asarray(0.5 * (1.0 + (np.tanh(numbers) if squash == "tanh" else np.clip(numbers, -1.0, 1.0))))


def _beta_mode(alpha: npt.NDArray[np.float64], beta: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mode; the mean where a distribution has no single inner mode. Raises EngineError."""
    if not ((alpha > 0.0) & (beta > 0.0)).all():
        raise EngineError(f"the beta distribution has parameters {alpha.tolist()}, {beta.tolist()}, must be above 0")
    inner = (alpha > 1.0) & (beta > 1.0)
    mode = (alpha - 1.0) / np.where(inner, alpha + beta - 2.0, 1.0)
    return np.where(inner, mode, alpha / (alpha + beta))
