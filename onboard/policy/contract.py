"""Input and output tensors of a policy: names, shapes, units and meaning (paper 1, sections 3 and 4).

This table is version 1, the paper's network. A model's manifest (`onboard/policy/manifest.py`) lists the tensors that
it uses and their normalisation. A manifest of version 2 describes its own tensors and actions; version 1 is a case of
it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from onboard.values.errors import EngineError
from onboard.values.messages import BINS, Decision, Twist

CONTRACT_VERSION, OWN_VERSION = 1, 2
"""Version of the paper's tensors below, and of manifests that describe their own. Any other version is refused."""

LINEAR_MPS = (0.0, 0.3, 0.6, 1.0)
ANGULAR_RADPS = (-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0)
ACTIONS: tuple[Twist, ...] = tuple(Twist(v, w) for v in LINEAR_MPS for w in ANGULAR_RADPS)
"""The 28 velocity pairs; index = 7 * linear + angular, both ascending (paper 1, section 4)."""

STOP_ACTION = ACTIONS.index(Twist(0.0, 0.0))
NO_ACTION = len(ACTIONS)
"""The previous action at the start of an episode and after a recovery or an override."""

TURN_M_PER_RAD = 0.5
"""Weight of turning speed against forward speed in `apart`."""


def apart(one: Twist, other: Twist) -> float:
    """Return the distance of two velocity pairs [m/s]."""
    return math.hypot(one.v_mps - other.v_mps, TURN_M_PER_RAD * (one.w_radps - other.w_radps))


def nearest_action(twist: Twist) -> int:
    """Return the index of the action nearest to a velocity pair. An action is nearest to itself."""

    return min(range(len(ACTIONS)), key=lambda action: apart(twist, ACTIONS[action]))


def twist_of(decision: Decision) -> Twist:
    """Return the velocity pair of a decision."""
    return ACTIONS[decision.action] if decision.own is None else decision.own


RGB_HEIGHT, RGB_WIDTH = 144, 256
MEMORY_SHAPE = (2, 1024)
"""Layers and width of the paper's recurrent state; a manifest may state another width."""

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class TensorType:
    """Shape and dtype (numpy's name) of a tensor."""

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One row of the contract. The leading 1 (the middle one of the memory) is the batch.

    type:    shape and dtype; a manifest may change the memory's
    unit:    unit and scale of the network's values
    """

    type: TensorType
    unit: str
    meaning: str


def _row(shape: tuple[int, ...], dtype: str, unit: str, meaning: str) -> Tensor:
    return Tensor(TensorType(shape, dtype), unit, meaning)


_LAYERS, _WIDTH = MEMORY_SHAPE
INPUTS: dict[str, Tensor] = {
    "rgb": _row(
        (1, 3, RGB_HEIGHT, RGB_WIDTH),
        "float32",
        "(colour / 255 - mean) / std of the manifest, per channel R, G, B",
        "forward colour image, row 0 on top, column 0 at the left; the manifest's absent value when there is none",
    ),
    "scan": _row(
        (1, 1, BINS),
        "float32",
        "range / scan maximum range, in (0, 1]",
        "fused scan, bin i from -180 + 2i deg; the manifest's inf value where nothing was seen, its blind value where "
        "no camera looks; there too the range at which ground ends that was seen free a moment ago",
    ),
    "odom": _row((1, 5), "float32", "m, m, rad, m/s, rad/s", "x, y, theta, v, w of the wheels in the start frame"),
    "loc": _row(
        (1, 5),
        "float32",
        "m, m, rad, m/s, rad/s",
        "x, y, theta of the newest external fix in the start frame with the wheels' v, w at its time; the manifest's "
        "absent value before the first fix and when it is too old",
    ),
    "pose": _row(
        (1, 5),
        "float32",
        "m, m, rad, m/s, rad/s",
        "x, y, theta, v, w of the runtime's filter (odometry and localisation together) in the start frame",
    ),
    "goal": _row(
        (1, 3),
        "float32",
        "m, 1, 1",
        "rho, cos(phi), sin(phi) of the static goal in the start frame, never updated with motion",
    ),
    "prev_action": _row((1,), "int64", "index", "previous action, 0 to 27, or NO_ACTION = 28"),
    "memory_in": _row((_LAYERS, 1, _WIDTH), "float32", "1", "recurrent state as the last decision returned it"),
}
OUTPUTS: dict[str, Tensor] = {
    "logits": _row((1, len(ACTIONS)), "float32", "any scale", "preference for each of the 28 actions"),
    "value": _row((1, 1), "float32", "reward", "the critic's estimate; optional, the runtime does not use it"),
    "memory_out": _row((_LAYERS, 1, _WIDTH), "float32", "1", "recurrent state for the next decision"),
}
MEMORY_TENSORS = ("memory_in", "memory_out")
REQUIRED_OUTPUTS = ("logits",)


def check_tensors(given: Mapping[str, Array], wanted: Mapping[str, TensorType]) -> None:
    """Raise EngineError unless exactly the wanted tensors are given, with their shapes and dtypes."""
    for name, kind in wanted.items():
        values = given.get(name)
        found = None if values is None else TensorType(values.shape, values.dtype.name)
        if found != kind:
            raise EngineError(f"input {name}: expected {kind}, found {found or 'none'}")
    unknown = [name for name in given if name not in wanted]
    if unknown:
        raise EngineError(f"input {unknown[0]}: the model has no such input")
