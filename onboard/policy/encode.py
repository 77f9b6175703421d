"""An observation becomes the tensors of the contract (paper 1, sections 1.1 to 1.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from onboard.policy.contract import INPUTS, NO_ACTION, RGB_HEIGHT, RGB_WIDTH, Array
from onboard.policy.manifest import Manifest, RgbScale, ScanScale
from onboard.values.errors import InputError
from onboard.values.messages import BINS, ColorFrame, Memory, Motion, Observation, Scan


def tensors(observation: Observation, memory: Memory, manifest: Manifest) -> dict[str, Array]:
    """Return the inputs that the manifest lists, by name, with shapes and dtypes of `INPUTS`.

    memory: (layers, width) float32, without the batch axis
    Raises InputError for a previous action outside 0 to 28, a scan or an image of another size.
    """
    rows: dict[str, Callable[[], Array]] = {
        "rgb": lambda: rgb_tensor(observation.color, manifest.rgb),
        "scan": lambda: scan_tensor(observation.scan, manifest.scan),
        "odom": lambda: motion_tensor(observation.odometry),
        "loc": lambda: _loc_tensor(observation.localization, manifest),
        "pose": lambda: motion_tensor(observation.filtered),
        "goal": lambda: goal_tensor(observation.goal_xy_m),
        "prev_action": lambda: action_tensor(observation.previous_action),
        "memory_in": lambda: np.ascontiguousarray(memory[:, None, :], dtype=np.float32),
    }
    return {entry.name: rows[entry.name]() for entry in manifest.inputs}


def memory_of(outputs: Mapping[str, Array]) -> Memory:
    """Return the memory (layers, width) float32 in an engine's outputs, without the batch axis; a copy."""
    return np.array(outputs["memory_out"][:, 0, :], dtype=np.float32)


def rgb_tensor(color: ColorFrame | None, scale: RgbScale) -> Array:
    """Return (1, 3, 144, 256) float32. Raises InputError for an image of another size or type."""
    if color is None:
        return np.full(INPUTS["rgb"].type.shape, scale.absent, np.float32)
    image = color.image
    if image.shape != (RGB_HEIGHT, RGB_WIDTH, 3) or image.dtype != np.uint8:
        raise InputError(
            f"colour image is {image.dtype}{list(image.shape)}, the contract wants uint8[{RGB_HEIGHT}, {RGB_WIDTH}, 3]"
        )
    # (image / 255 - mean) / std as one multiplication and one addition a pixel
    gain = 1.0 / (255.0 * np.asarray(scale.std))
    offset = -np.asarray(scale.mean) / np.asarray(scale.std)
    planes = image.transpose(2, 0, 1)[None].astype(np.float32)
    planes *= gain.astype(np.float32)[:, None, None]
    planes += offset.astype(np.float32)[:, None, None]
    return np.ascontiguousarray(planes)


def scan_tensor(scan: Scan, scale: ScanScale) -> Array:
    """Return (1, 1, 180) float32: ranges clipped to the maximum and divided by it, with values for inf and blind.

    Raises InputError for a scan of another size.
    """
    if scan.ranges_m.shape != (BINS,) or scan.seen.shape != (BINS,):
        raise InputError(f"scan has shape {scan.ranges_m.shape}, the contract wants ({BINS},)")
    near = np.minimum(scan.ranges_m, scale.max_range_m) / scale.max_range_m
    ranges = np.where(np.isposinf(scan.ranges_m), scale.inf_value, near)
    return np.where(scan.seen, ranges, scale.blind_value).astype(np.float32)[None, None, :]


def motion_tensor(motion: Motion) -> Array:
    """Return (1, 5) float32: x, y, theta, v, w."""
    pose, twist = motion.pose, motion.twist
    return np.array([[pose.x_m, pose.y_m, pose.yaw_rad, twist.v_mps, twist.w_radps]], np.float32)


def _loc_tensor(localization: Motion | None, manifest: Manifest) -> Array:
    if localization is None:
        return np.array([manifest.loc_absent], np.float32)
    return motion_tensor(localization)


def goal_tensor(goal_xy_m: tuple[float, float]) -> Array:
    """Return (1, 3) float32: rho, cos(phi), sin(phi); a goal at the origin has phi = 0."""
    x, y = goal_xy_m
    phi = math.atan2(y, x)
    return np.array([[math.hypot(x, y), math.cos(phi), math.sin(phi)]], np.float32)


def action_tensor(action: int) -> Array:
    """Return (1,) int64. Raises InputError outside 0 to NO_ACTION."""
    if not 0 <= action <= NO_ACTION:
        raise InputError(f"previous action is {action}, the contract allows 0 to {NO_ACTION}")
    return np.array([action], np.int64)
