"""Encodes the robot's state as text and back, bit-exact: a replay can start there in the middle of a recording.

Camera images are left out. Without registration of frames (`scan.history` 1) the state has only the newest frame of
each camera, and the next tick has it too.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import replace
from typing import Any, get_args, get_origin

import numpy as np
import numpy.typing as npt
from cattrs import Converter
from cattrs.errors import BaseValidationError

from onboard.perception.scan_fusion import ScanMemory
from onboard.recording.earlier_reasons import today
from onboard.state import RobotState
from onboard.values.errors import InputError

Array = npt.NDArray[np.generic]


def encode(state: RobotState) -> str:
    """Return a state as JSON, without camera images."""
    return json.dumps(_CONVERTER.unstructure(without_images(state)), separators=(",", ":"))


def without_images(state: RobotState) -> RobotState:
    """Return the state without references to camera images."""
    return replace(
        state,
        scan_memory=_without_images(state.scan_memory),
        limits_scan_memory=_without_images(state.limits_scan_memory),
    )


def decode(text: str) -> RobotState:
    """Return the state from a text of `encode`, also of an older version. Raises InputError for another text."""
    try:
        return _CONVERTER.structure(_renewed(json.loads(text)), RobotState)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BaseValidationError) as error:
        raise InputError(f"not the state of a robot: {str(error).splitlines()[0]}") from error


GONE = ("quickest", "set_ns", "backward_in_row", "rebased", "backward")
GONE_OF_AGREEMENT = ("began", "from_twist")


def _renewed(state: dict[str, Any]) -> dict[str, Any]:
    """Return the state with the clock of odometry as `Sender`; older versions had its quickest message only. Reasons
    are as of today.
    """
    wheels = state["wheels"]
    if "quickest" in wheels and wheels["stamp_ns"] is not None:
        kept = {key: wheels[key] for key in ("quickest", "stamp_ns", "arrival_ns")}
        wheels = {**wheels, "sender": None if wheels["quickest"] is None else {**kept, "intervals_ns": []}}
    agreement = {key: value for key, value in wheels.get("agreement", {}).items() if key not in GONE_OF_AGREEMENT}
    wheels = {key: value for key, value in wheels.items() if key not in GONE} | {"agreement": agreement}
    reasons = {
        part: {**state[part], key: today(state[part][key])}
        for part, key in (("mission", "reason"), ("localization", "refusal"))
        if key in state.get(part, {})
    }
    if "scan_ns" in state.get("moving", {}):  # compared the scans of decisions only
        state = {key: value for key, value in state.items() if key != "moving"}
    return {**state, **reasons, "wheels": wheels}


def _without_images(memory: ScanMemory) -> ScanMemory:
    return replace(memory, cameras={}, track=())


def _packed(values: Array) -> dict[str, Any]:
    data = base64.b64encode(np.ascontiguousarray(values).tobytes()).decode()
    return {"dtype": values.dtype.name, "shape": list(values.shape), "data": data}


def _unpacked(table: Any, kind: Any) -> Array:
    """Return an array of the annotated type. Raises ValueError."""
    wanted = np.dtype(get_args(get_args(kind)[1])[0])
    if table["dtype"] != wanted.name:
        raise ValueError(f"an array of {table['dtype']} where {wanted.name} is expected")
    try:
        data = base64.b64decode(table["data"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"an array that is not base64: {error}") from error
    values: Array = np.frombuffer(data, wanted).reshape(table["shape"]).copy()
    return values


def _converter() -> Converter:
    converter = Converter(forbid_extra_keys=True)
    converter.register_unstructure_hook_func(_is_array, _packed)
    converter.register_structure_hook_func(_is_array, _unpacked)
    return converter


def _is_array(kind: Any) -> bool:
    return kind is np.ndarray or get_origin(kind) is np.ndarray


_CONVERTER = _converter()
