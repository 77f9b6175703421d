"""What a state is, when two states are the same, and how kernels are generated: one TOML table (paper 2)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from onboard.config.toml_file import (
    NonNegative,
    Positive,
    PositiveFraction,
    Section,
    checked,
    read_toml,
)

Array = npt.NDArray[np.float64]
LEAST_ROLLOUTS = 10


class Dimension(Section):
    """One dimension of the state.

    weight:   factor w_i on its difference in c(s, s') = sum_i w_i |s_i - s'_i|
    kind:     "angle" differs by at most half a turn [rad]; "reading" is a sensor's value at a place; "flag" is 0 or 1;
              a kernel maps readings and flags to their value, other dimensions to their increments
    settable: whether a kernel may set it in the simulator
    """

    weight: NonNegative
    kind: Literal["real", "angle", "reading", "flag"] = "real"
    settable: bool = False


class ActionGrid(Section):
    """Set points of a velocity command; action `i * len(angular_radps) + j` is the nearest pair."""

    linear_mps: Annotated[list[float], Field(min_length=1)]
    angular_radps: Annotated[list[float], Field(min_length=1)]


class StateTable(Section):
    """State, comparison and settings of the generation.

    period_s:         time between two logged states [s]
    actions:          number of discrete actions; with `action`, the size of its grid
    eps_c:            states whose distance c is at most this are the same state
    sigma:            standard deviation of a kernel's activity over the distance c
    least_activity:   a kernel is active above this activity, which is 1 at its state
    rollouts, length: number of roll-outs, and most steps of one
    least_difference: the probabilities of a branch must differ by more than this to be a divergence
    significance:     a state diverges only if the counts of its next states in both logs differ by chance with at most
                      this probability; 1 compares frequencies alone, as the paper does
    run:              transitions in a row that the transfer function is fitted to
    least_rows:       fewest transitions for the map of an action; a kernel without any map is dropped
    seed:             seed of the roll-outs
    """

    period_s: Positive
    eps_c: Positive
    sigma: Positive
    least_activity: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.1
    rollouts: Annotated[int, Field(ge=LEAST_ROLLOUTS)]
    length: Annotated[int, Field(ge=1)] = 50
    least_difference: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.2
    significance: PositiveFraction = 0.02
    run: Annotated[int, Field(ge=1)] = 3
    least_rows: Annotated[int, Field(ge=2)] = 8
    seed: Annotated[int, Field(ge=0)] = 1
    actions: Annotated[int, Field(ge=1)] = 1
    action: ActionGrid | None = None
    state: Annotated[dict[str, Dimension], Field(min_length=1)]

    @model_validator(mode="after")
    def _comparable(self) -> StateTable:
        if sum(one.weight for one in self.state.values()) == 0.0:
            raise ValueError("the weights of all state dimensions sum to 0, the sum must be above 0")
        if not any(one.settable for one in self.state.values()):
            raise ValueError("no state dimension is settable, at least one must be")
        if self.action is not None:
            size = len(self.action.linear_mps) * len(self.action.angular_radps)
            if "actions" in self.model_fields_set and self.actions != size:
                raise ValueError(f"actions {self.actions} is not the size of the grid of action, {size}")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the dimensions, in the order of every state vector."""
        return tuple(self.state)

    @property
    def action_count(self) -> int:
        """Number of actions."""
        return self.actions if self.action is None else len(self.action.linear_mps) * len(self.action.angular_radps)

    @property
    def weights(self) -> Array:
        """Return (d,) the weights w."""
        return np.array([one.weight for one in self.state.values()])

    @property
    def circular(self) -> npt.NDArray[np.bool_]:
        """Return (d,) whether a dimension is an angle."""
        return np.array([one.kind == "angle" for one in self.state.values()])

    @property
    def flags(self) -> npt.NDArray[np.bool_]:
        """Return (d,) whether a dimension is 0 or 1."""
        return np.array([one.kind == "flag" for one in self.state.values()])

    @property
    def readings(self) -> npt.NDArray[np.bool_]:
        """Return (d,) whether a kernel maps a dimension to its value, not to its increment."""
        return np.array([one.kind in ("reading", "flag") for one in self.state.values()])

    @property
    def settable(self) -> npt.NDArray[np.bool_]:
        """Return (d,) whether a kernel may set a dimension."""
        return np.array([one.settable for one in self.state.values()])


def load_state_table(path: Path) -> StateTable:
    """Return the table in a file. Raises ConfigError naming file, key and limit."""
    with checked(path):
        return StateTable.model_validate(read_toml(path))
