"""An observation becomes the tensors that a manifest lists (paper 1, sections 3 and 4).

Each input of a manifest is a feed: its tensor, and what the runtime puts there. The rows of `contract.INPUTS` are feeds
with fixed settings. A new kind of feed needs a class here and its place in `AnyFeed`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from onboard.config.toml_file import Finite, Positive, Section
from onboard.policy.contract import ACTIONS, INPUTS, NO_ACTION, RGB_HEIGHT, RGB_WIDTH, Array, TensorType
from onboard.values.errors import InputError
from onboard.values.geometry import between
from onboard.values.messages import BINS, ColorFrame, Memory, Observation, Pose, Twist


class ScanScale(Section):
    """Scaling of ranges. The default values are distinct: a real range is never 0."""

    max_range_m: Positive = 10.0
    inf_value: float = 1.0
    blind_value: float = 0.0


class RgbScale(Section):
    """(colour / 255 - mean) / std for R, G, B, and the value of all pixels without an image."""

    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[Positive, Positive, Positive] = (0.229, 0.224, 0.225)
    absent: float = 0.0


def rgb_tensor(color: ColorFrame | None, scale: RgbScale) -> Array:
    """Return (1, 3, 144, 256) float32. Raises InputError for an image of another size or type."""
    if color is None:
        return np.full(INPUTS["rgb"].type.shape, scale.absent, np.float32)
    image = color.image
    if image.shape != (RGB_HEIGHT, RGB_WIDTH, 3) or image.dtype != np.uint8:
        raise InputError(
            f"colour image is {image.dtype}{list(image.shape)}, the contract requires uint8[{RGB_HEIGHT}, "
            f"{RGB_WIDTH}, 3]"
        )
    # (image / 255 - mean) / std as one multiplication and one addition a pixel
    gain = 1.0 / (255.0 * np.asarray(scale.std))
    offset = -np.asarray(scale.mean) / np.asarray(scale.std)
    planes = image.transpose(2, 0, 1)[None].astype(np.float32)
    planes *= gain.astype(np.float32)[:, None, None]
    planes += offset.astype(np.float32)[:, None, None]
    return np.ascontiguousarray(planes)


# ---- Feeds: one class for each source of a manifest's input

MOST_HISTORY = 64
Sizes = Annotated[tuple[Annotated[int, Field(ge=1)], ...], Field(min_length=1)]


class Feed(Section):
    """An input of a model.

    shape:   with the batch of 1; the values of a step in their order, older steps first
    history: number of newest decisions whose values are in the tensor; a new sequence begins with the first, repeated
    """

    name: str = Field(min_length=1)
    shape: Sizes
    dtype: Literal["float32", "float16", "float64", "int64", "int32"] = "float32"
    history: int = Field(1, ge=1, le=MOST_HISTORY)

    @property
    def type(self) -> TensorType:
        """Shape and dtype as an engine reports them."""
        return TensorType(self.shape, self.dtype)

    @property
    def width(self) -> int:
        """Number of values of one step."""
        return math.prod(self.shape) // self.history

    @model_validator(mode="after")
    def _whole_steps(self) -> Feed:
        if math.prod(self.shape) % self.history:
            raise ValueError(f"shape {list(self.shape)} does not hold {self.history} equal steps (history)")
        return self

    def _require(self, values: int, what: str) -> None:
        """Raise ValueError unless a step has so many values."""
        if self.width != values:
            raise ValueError(f"shape {list(self.shape)}: a step has {self.width} values, {what} {values}")

    def values(self, observation: Observation, actions: Sequence[Twist]) -> Array:
        """Return the `width` values of one step, flat. actions: the policy's table, empty if continuous."""
        raise NotImplementedError


class ColorFeed(Feed):
    """The forward image, resized by area. layout: order of its axes; a history stands before or in the colours."""

    feed: Literal["color"]
    layout: Literal["chw", "hwc"] = "chw"
    scale: RgbScale = RgbScale()

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        height, width = self.shape[-2:] if self.layout == "chw" else self.shape[-3:-1]
        return height, width

    @model_validator(mode="after")
    def _is_image(self) -> ColorFeed:
        if len(self.shape) < 3 + (self.layout == "hwc" and self.history > 1):
            raise ValueError(f"shape {list(self.shape)} has too few axes for {self.layout} and history {self.history}")
        self._require(3 * math.prod(self.size), f"an image of {self.size[0]} x {self.size[1]} in three colours has")
        return self

    def values(self, observation: Observation, actions: Sequence[Twist]) -> Array:
        """Return (colour / 255 - mean) / std."""
        planes = rgb_tensor(observation.color, self.scale)[0]
        height, width = self.size
        if (height, width) != planes.shape[1:]:
            planes = np.asarray(_averages(RGB_HEIGHT, height) @ planes @ _averages(RGB_WIDTH, width).T)
        return np.asarray(planes if self.layout == "chw" else planes.transpose(1, 2, 0)).reshape(-1)


@lru_cache(maxsize=8)
def _averages(before: int, after: int) -> npt.NDArray[np.float32]:
    """Return (after, before): the weights of an axis' pixels in the pixels of the resized axis, by common length."""
    edges = np.arange(after + 1) * before / after
    pixels = np.arange(before)
    common = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    weights = np.maximum(common, 0.0)
    return np.asarray(weights / weights.sum(1, keepdims=True), np.float32)


class ScanFeed(Feed):
    """The scan in sectors, each with its nearest range. By default as many equal sectors as values, in `fov_deg`.

    fov_deg:      bearings of the first sector's begin and the last sector's end; 0 ahead, left positive
    bearings_deg: centres of the sectors instead, each `width_deg` wide
    unit:         "fraction" of max_range_m, or "m"
    inf_value, blind_value: where nothing is seen, and where no camera looks; None: the same as at max_range_m
    """

    feed: Literal["scan"]
    fov_deg: tuple[Finite, Finite] = (-180.0, 180.0)
    bearings_deg: tuple[Finite, ...] | None = None
    width_deg: Positive = 2.0
    max_range_m: Positive = 10.0
    unit: Literal["fraction", "m"] = "fraction"
    inf_value: Finite | None = None
    blind_value: Finite | None = None

    @model_validator(mode="after")
    def _has_sectors(self) -> ScanFeed:
        begin, end = self.fov_deg
        if not (max(abs(begin), abs(end)) <= 360.0 and 0.0 < abs(end - begin) <= 360.0):
            raise ValueError(f"fov_deg {list(self.fov_deg)}: must be two bearings, at most 360 degrees apart")
        if self.bearings_deg is not None:
            self._require(len(self.bearings_deg), "bearings_deg has")
        return self

    @cached_property
    def sectors_deg(self) -> tuple[tuple[float, float], ...]:
        """Return begin and end of each sector, ascending."""
        if self.bearings_deg is not None:
            return tuple(
                (bearing_deg - self.width_deg / 2, bearing_deg + self.width_deg / 2)
                for bearing_deg in self.bearings_deg
            )
        edges = np.linspace(*self.fov_deg, self.width + 1).tolist()
        return tuple((min(pair), max(pair)) for pair in pairwise(edges))

    def values(self, observation: Observation, actions: Sequence[Twist]) -> Array:
        """Return ranges, clipped to max_range_m. Raises InputError for a scan of another size.

        Where no camera looks, a finite range is the end of ground that was seen free a moment ago
        (`free_ground.with_unknown_ground`).
        """
        top = 1.0 if self.unit == "fraction" else self.max_range_m
        inf, blind = (top if value is None else value for value in (self.inf_value, self.blind_value))
        ranges_m, seen, sectors = observation.scan.ranges_m, observation.scan.seen, self.sectors_deg
        if ranges_m.shape != (BINS,) or seen.shape != (BINS,):
            raise InputError(f"scan has shape {ranges_m.shape}, the contract requires ({BINS},)")
        seen = seen | np.isfinite(ranges_m)
        if sectors != PAPER_SECTORS:
            looked = _bins_of(sectors) & seen
            ranges_m = np.where(looked, ranges_m, np.float32(np.inf)).min(axis=1)
            seen = np.asarray(looked.any(axis=1))
        near = np.minimum(ranges_m, self.max_range_m) / self.max_range_m * top
        return np.where(seen, np.where(np.isposinf(ranges_m), inf, near), blind).astype(np.float32)


PAPER_SECTORS = tuple((2.0 * i - 180.0, 2.0 * i - 178.0) for i in range(BINS))


@lru_cache(maxsize=8)
def _bins_of(sectors_deg: tuple[tuple[float, float], ...]) -> npt.NDArray[np.bool_]:
    """Return (sectors, 180): the bins that overlap each sector."""
    width_deg = 360.0 / BINS
    bins = np.zeros((len(sectors_deg), BINS), np.bool_)
    for row, (begin, end) in zip(bins, sectors_deg, strict=True):
        first, last = math.floor((begin + 180.0) / width_deg), math.ceil((end + 180.0) / width_deg)
        row[np.arange(first, max(last, first + 1)) % BINS] = True
    return bins


class MotionFeed(Feed):
    """A pose in the start frame with the wheels' velocity.

    feed:   pose: the runtime's filter; odometry: the wheels alone; localization: the newest fix
    absent: values of a step without a fix; None: zeros
    """

    feed: Literal["pose", "odometry", "localization"]
    fields: tuple[Literal["x", "y", "yaw", "cos_yaw", "sin_yaw", "v", "w"], ...] = ("x", "y", "yaw", "v", "w")
    absent: tuple[Finite, ...] | None = None

    @model_validator(mode="after")
    def _fits(self) -> MotionFeed:
        self._require(len(self.fields), "fields has")
        if self.absent is not None and len(self.absent) != len(self.fields):
            raise ValueError(f"absent has {len(self.absent)} values, fields has {len(self.fields)}")
        return self

    def values(self, observation: Observation, actions: Sequence[Twist]) -> Array:
        """Return the fields in their order [m, rad, m/s, rad/s]."""
        source = {"pose": observation.filtered, "odometry": observation.odometry}
        motion = source.get(self.feed, observation.localization)
        if motion is None:
            return np.array(self.absent or (0.0,) * len(self.fields))
        pose, twist = motion.pose, motion.twist
        known = {
            "x": pose.x_m, "y": pose.y_m, "yaw": pose.yaw_rad, "cos_yaw": math.cos(pose.yaw_rad),
            "sin_yaw": math.sin(pose.yaw_rad), "v": twist.v_mps, "w": twist.w_radps,
        }  # fmt: skip
        return np.array([known[field] for field in self.fields])


class DeviationFeed(Feed):
    """Standard deviations of the runtime's filter. absent: values of a step without a covariance; None: zeros.

    position: in its worst direction
    """

    feed: Literal["pose_sd"]
    fields: tuple[Literal["position", "yaw"], ...] = ("position",)
    absent: tuple[Finite, ...] | None = None

    @model_validator(mode="after")
    def _fits(self) -> DeviationFeed:
        self._require(len(self.fields), "fields has")
        if self.absent is not None and len(self.absent) != len(self.fields):
            raise ValueError(f"absent has {len(self.absent)} values, fields has {len(self.fields)}")
        return self

    def values(self, observation: Observation, actions: Sequence[Twist]) -> Array:
        """Return the fields in their order [m, rad]."""
        if observation.deviations is None:
            return np.array(self.absent or (0.0,) * len(self.fields))
        known = dict(zip(("position", "yaw"), observation.deviations, strict=True))
        return np.array([known[field] for field in self.fields])


class GoalFeed(Feed):
    """The goal. frame: "start", where it never moves, or "robot", by the pose of the runtime's filter."""

    feed: Literal["goal"]
    frame: Literal["start", "robot"] = "start"
    fields: tuple[Literal["distance", "bearing", "cos", "sin", "x", "y"], ...] = ("distance", "cos", "sin")

    @model_validator(mode="after")
    def _fits(self) -> GoalFeed:
        self._require(len(self.fields), "fields has")
        return self

    def values(self, observation: Observation, actions: Sequence[Twist]) -> Array:
        """Return the fields in their order [m, rad]; a goal at the origin has the bearing 0."""
        x, y = observation.goal_xy_m
        if self.frame == "robot":
            seen = between(observation.filtered.pose, Pose(x, y, 0.0))
            x, y = seen.x_m, seen.y_m
        phi = math.atan2(y, x)
        known = {
            "distance": math.hypot(x, y), "bearing": phi, "cos": math.cos(phi), "sin": math.sin(phi), "x": x, "y": y
        }  # fmt: skip
        return np.array([known[field] for field in self.fields])


class ActionFeed(Feed):
    """The last action. index: in the policy's table, its length without a last action; v, w: the current command."""

    feed: Literal["last_action"]
    fields: tuple[Literal["index", "v", "w"], ...] = ("v", "w")

    @model_validator(mode="after")
    def _fits(self) -> ActionFeed:
        self._require(len(self.fields), "fields has")
        return self

    def values(self, observation: Observation, actions: Sequence[Twist]) -> Array:
        """Return the fields in their order [1, m/s, rad/s]. Raises InputError for an action that does not exist."""
        twist = observation.set_point
        known = {"v": twist.v_mps, "w": twist.w_radps}
        if "index" in self.fields:
            known["index"] = _index_of(observation, actions)
        return np.array([known[field] for field in self.fields])


def _index_of(observation: Observation, actions: Sequence[Twist]) -> int:
    """Return the index of the last action. An own table knows it by the current command, which a miss changes."""
    action = observation.previous_action
    if tuple(actions) == ACTIONS:
        if not 0 <= action <= NO_ACTION:
            raise InputError(f"previous action is {action}, the contract allows 0 to {NO_ACTION}")
        return action
    known = action != NO_ACTION and observation.set_point in actions
    return actions.index(observation.set_point) if known else len(actions)


Part = Annotated[ColorFeed | ScanFeed | MotionFeed | DeviationFeed | GoalFeed | ActionFeed, Field(discriminator="feed")]


class PartsFeed(Feed):
    """Several feeds one after the other in one tensor, such as the flat observation of a gym. A part has no history."""

    feed: Literal["parts"]
    parts: Annotated[tuple[Part, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _fits(self) -> PartsFeed:
        self._require(sum(part.width for part in self.parts), "its parts have")
        if any(part.history > 1 for part in self.parts):
            raise ValueError("parts: a part has no history of its own; give the history to the whole")
        return self

    def values(self, observation: Observation, actions: Sequence[Twist]) -> Array:
        """Return the values of all parts."""
        return np.concatenate([part.values(observation, actions) for part in self.parts])


OneFeed = ColorFeed | ScanFeed | MotionFeed | DeviationFeed | GoalFeed | ActionFeed | PartsFeed
AnyFeed = Annotated[OneFeed, Field(discriminator="feed")]


def parts_of(feed: OneFeed) -> tuple[OneFeed, ...]:
    """Return the parts of a feed, or the feed itself."""
    return feed.parts if isinstance(feed, PartsFeed) else (feed,)


class MemoryEntry(Section):
    """A recurrent state: zeros in a new sequence, then the output of the decision before. float32."""

    input: str = Field(min_length=1)
    output: str = Field(min_length=1)
    shape: Sizes


# ---- All inputs of a decision, and the memory that the runtime keeps


class Encoding(Protocol):
    """The part of a manifest that says what a model is given."""

    @property
    def feeds(self) -> Sequence[OneFeed]:
        """Inputs from the observation."""

    @property
    def memory(self) -> Sequence[MemoryEntry]:
        """Recurrent states."""

    @property
    def actions(self) -> Sequence[Twist]:
        """The table of actions; empty if they are continuous."""


def memory_size(manifest: Encoding) -> int:
    """Return the number of values of `Memory`: the states, then a count and the past steps of feeds with a history."""
    past = sum((feed.history - 1) * feed.width for feed in manifest.feeds)
    return sum(math.prod(entry.shape) for entry in manifest.memory) + past + bool(past)


def tensors(observation: Observation, memory: Memory, manifest: Encoding) -> dict[str, Array]:
    """Return the inputs of a model by name.

    memory: as `next_memory` returned it, of any shape; zeros in a new sequence
    Raises InputError for a previous action outside 0 to 28, a scan or an image of another size.
    """
    flat = memory.reshape(-1)
    found: dict[str, Array] = {}
    at = 0
    for entry in manifest.memory:
        size = math.prod(entry.shape)
        found[entry.input] = np.ascontiguousarray(flat[at : at + size].reshape(entry.shape), np.float32)
        at += size
    begun = flat[at : at + 1].any()
    at += 1
    for feed in manifest.feeds:
        now = feed.values(observation, manifest.actions)
        steps = [now] * feed.history
        if feed.history > 1:
            size = (feed.history - 1) * feed.width
            if begun:
                steps = [flat[at : at + size], now]
            at += size
            now = np.concatenate(steps)
        found[feed.name] = np.ascontiguousarray(now.reshape(feed.shape), feed.dtype)
    return found


def next_memory(given: dict[str, Array], outputs: dict[str, Any], manifest: Encoding) -> Memory:
    """Return the memory for the next decision (`memory_size`), from a decision's inputs and outputs; a copy."""
    states = [outputs[entry.output].reshape(-1) for entry in manifest.memory]
    past = [given[feed.name].reshape(feed.history, -1)[1:].reshape(-1) for feed in manifest.feeds if feed.history > 1]
    count = [np.ones(1, np.float32)] if past else []
    parts = [*states, *count, *past]
    return np.concatenate(parts).astype(np.float32) if parts else np.zeros(0, np.float32)
