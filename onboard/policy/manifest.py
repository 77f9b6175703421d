"""The manifest of a model, `<model>.manifest.json`, and checks of the model against manifest and contract."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from onboard.config.toml_file import Positive, Section, validation_lines
from onboard.policy.actions import AnyAction, ContinuousAction, TableAction
from onboard.policy.contract import (
    ACTIONS,
    CONTRACT_VERSION,
    INPUTS,
    MEMORY_TENSORS,
    OUTPUTS,
    OWN_VERSION,
    REQUIRED_OUTPUTS,
    Tensor,
    TensorType,
)
from onboard.policy.encode import (
    ActionFeed,
    AnyFeed,
    ColorFeed,
    GoalFeed,
    MemoryEntry,
    MotionFeed,
    OneFeed,
    RgbScale,
    ScanFeed,
    ScanScale,
    memory_size,
    parts_of,
)
from onboard.policy.onnx_weights import weight_types
from onboard.values.errors import ConfigError, EngineError, naming
from onboard.values.messages import Memory, Twist

Weights = Literal["float32", "float16"]

MEMORY_RESET_S = 10.0
"""Period of memory resets of a model of contract version 1 whose manifest states none (paper, section 5)."""
MANIFEST_SUFFIX = ".manifest.json"
_READ_BYTES = 1 << 20


class TensorEntry(Section):
    """A tensor that the model uses."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def type(self) -> TensorType:
        """Return shape and dtype as an engine reports them."""
        return TensorType(self.shape, self.dtype)


class ModelManifest(Section):
    """Properties of a model of any version. The runtime ignores `extra`, which is free for other policies.

    memory_reset_s:       period of memory resets [s]; None: `MEMORY_RESET_S` for version 1, no resets for 2
    training_delay_ticks: sense-to-act delay in training, in ticks at `control_hz`
    weights:              storage type of the weights; "float16" halves the file, computation stays in float32
    half_precision_nodes: prefixes of node names that an engine may compute in float16; all others, above all the
                          recurrent nodes, stay in float32
    """

    contract_version: int
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    policy: str = Field(min_length=1)
    training_delay_ticks: int = Field(ge=0)
    control_hz: Positive
    decision_hz: Positive
    memory_reset_s: Positive | None = None
    weights: Weights = "float32"
    half_precision_nodes: tuple[str, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)

    @property
    def feeds(self) -> tuple[OneFeed, ...]:
        """Inputs from the observation."""
        raise NotImplementedError

    @property
    def memory(self) -> tuple[MemoryEntry, ...]:
        """Recurrent states."""
        raise NotImplementedError

    @property
    def action(self) -> TableAction | ContinuousAction:
        """The action in the outputs."""
        raise NotImplementedError

    @property
    def actions(self) -> tuple[Twist, ...]:
        """The table of actions; empty if they are continuous."""
        return self.action.table

    @property
    def initial_memory(self) -> Memory:
        """The memory of a new sequence: zeros."""
        return np.zeros(memory_size(self), np.float32)

    @property
    def reset_s(self) -> float | None:
        """The period of memory resets on a robot [s]; None: no resets."""
        return MEMORY_RESET_S if self.memory_reset_s is None else self.memory_reset_s

    @property
    def tensors(self) -> dict[str, TensorType]:
        """Type of each input by name."""
        states = {entry.input: TensorType(entry.shape, "float32") for entry in self.memory}
        return {feed.name: feed.type for feed in self.feeds} | states

    def misfits(self, outputs: Mapping[str, TensorType]) -> Iterator[str]:
        """Yield a line for each output of the model that is not as the manifest says."""
        raise NotImplementedError


class Manifest(ModelManifest):
    """Properties of a model of version 1, with the tensors and actions of `onboard/policy/contract.py`.

    memory_shape: (layers, width) of the recurrent state; None for a policy without memory
    """

    inputs: tuple[TensorEntry, ...]
    outputs: tuple[TensorEntry, ...]
    scan: ScanScale = ScanScale()
    rgb: RgbScale = RgbScale()
    loc_absent: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    memory_shape: tuple[int, int] | None

    @cached_property
    def feeds(self) -> tuple[OneFeed, ...]:
        """Inputs from the observation."""
        scan = {**self.scan.model_dump(), "feed": "scan"}
        kinds: dict[str, tuple[type[OneFeed], dict[str, Any]]] = {
            "rgb": (ColorFeed, {"feed": "color", "scale": self.rgb}),
            "scan": (ScanFeed, scan),
            "odom": (MotionFeed, {"feed": "odometry"}),
            "loc": (MotionFeed, {"feed": "localization", "absent": self.loc_absent}),
            "pose": (MotionFeed, {"feed": "pose"}),
            "goal": (GoalFeed, {"feed": "goal"}),
            "prev_action": (ActionFeed, {"feed": "last_action", "fields": ("index",)}),
        }
        listed = [(entry, *kinds[entry.name]) for entry in self.inputs if entry.name in kinds]
        return tuple(kind(**entry.model_dump(), **settings) for entry, kind, settings in listed)

    @cached_property
    def memory(self) -> tuple[MemoryEntry, ...]:
        """The recurrent state, if the model has one."""
        if self.memory_shape is None:
            return ()
        layers, width = self.memory_shape
        return (MemoryEntry(input="memory_in", output="memory_out", shape=(layers, 1, width)),)

    @property
    def action(self) -> TableAction | ContinuousAction:
        """The paper's 28 actions."""
        return PAPER_ACTION

    @property
    def initial_memory(self) -> Memory:
        """Zeros of shape (layers, width); (0, 0) without memory."""
        return np.zeros(self.memory_shape or (0, 0), np.float32)

    def misfits(self, outputs: Mapping[str, TensorType]) -> Iterator[str]:
        """Yield a line for each output that has another shape or type."""
        for entry in self.outputs:
            actual = outputs.get(entry.name)
            if actual != entry.type:
                yield f"output {entry.name}: expected {entry.type}, found {actual or 'none'}"

    @model_validator(mode="after")
    def _fits_contract(self) -> Manifest:
        for kind, entries, table in (("inputs", self.inputs, INPUTS), ("outputs", self.outputs, OUTPUTS)):
            names = [entry.name for entry in entries]
            if len(set(names)) != len(names):
                raise ValueError(f"{kind}: a name is listed twice in {names}")
            for entry in entries:
                self._check_entry(kind, entry, table)
        present = {entry.name for entry in (*self.inputs, *self.outputs)}
        required = (*REQUIRED_OUTPUTS, *(MEMORY_TENSORS if self.memory_shape is not None else ()))
        missing = [name for name in required if name not in present]
        if missing:
            raise ValueError(f"inputs, outputs: expected {missing[0]}, found {sorted(present)}")
        return self

    def _check_entry(self, kind: str, entry: TensorEntry, table: Mapping[str, Tensor]) -> None:
        if entry.name not in table:
            raise ValueError(f"{kind}: expected one of {list(table)}, found {entry.name!r}")
        wanted = table[entry.name].type
        if entry.name in MEMORY_TENSORS:
            if self.memory_shape is None:
                raise ValueError(f"{kind}.{entry.name}: expected none, as memory_shape is null")
            layers, width = self.memory_shape
            wanted = TensorType((layers, 1, width), wanted.dtype)
        if entry.type != wanted:
            raise ValueError(f"{kind}.{entry.name}: expected {wanted}, found {entry.type}")


PAPER_ACTION = TableAction(
    kind="table", output=REQUIRED_OUTPUTS[0], twists=tuple((one.v_mps, one.w_radps) for one in ACTIONS)
)


class OwnManifest(ModelManifest):
    """Properties of a model of version 2, which describes its inputs, its memory and its action (docs/policies.md)."""

    inputs: tuple[AnyFeed, ...]
    states: tuple[MemoryEntry, ...] = Field((), alias="memory")
    chosen: AnyAction = Field(alias="action")

    @property
    def feeds(self) -> tuple[OneFeed, ...]:
        """Inputs from the observation."""
        return self.inputs

    @property
    def memory(self) -> tuple[MemoryEntry, ...]:
        """Recurrent states."""
        return self.states

    @property
    def action(self) -> TableAction | ContinuousAction:
        """The action in the outputs."""
        return self.chosen

    @property
    def reset_s(self) -> float | None:
        """The manifest's period: `MEMORY_RESET_S` is the paper's, for its own network."""
        return self.memory_reset_s

    def misfits(self, outputs: Mapping[str, TensorType]) -> Iterator[str]:
        """Yield a line for a missing output, and for one with another number of values."""
        more = isinstance(self.action, ContinuousAction) and self.action.distribution == "gaussian"
        states = ((entry.output, math.prod(entry.shape), False) for entry in self.memory)
        for name, wanted, at_least in ((self.action.output, self.action.numbers, more), *states):
            found = outputs.get(name)
            values = 0 if found is None else math.prod(found.shape)
            if found is None or values < wanted or (values > wanted and not at_least):
                size = f"{'at least ' if at_least else ''}{wanted} values"
                if values == 1 and found is not None and "int" in found.dtype:
                    size = f"the {size}, not an index of them (export what argmax takes)"
                yield f"output {name}: expected {size}, found {found or 'none'} of {', '.join(outputs)}"

    @model_validator(mode="after")
    def _names_fit(self) -> OwnManifest:
        given = [feed.name for feed in self.feeds] + [entry.input for entry in self.memory]
        taken = [entry.output for entry in self.memory] + [self.action.output]
        for kind, names in (("inputs", given), ("outputs", taken)):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{kind}: the name {', '.join(twice)} is listed twice")
        if not self.actions and any(
            isinstance(part, ActionFeed) and "index" in part.fields for feed in self.feeds for part in parts_of(feed)
        ):
            raise ValueError("inputs: a continuous action has no index; last_action has the fields v and w")
        return self


VERSIONS: dict[int, type[ModelManifest]] = {CONTRACT_VERSION: Manifest, OWN_VERSION: OwnManifest}


def manifest_path(model: Path) -> Path:
    """Return the path of a model's manifest: `policy.onnx` -> `policy.onnx.manifest.json`."""
    return model.with_name(model.name + MANIFEST_SUFFIX)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal. Raises ConfigError when it cannot be read."""
    digest = hashlib.sha256()
    with naming(path, "read", ConfigError), path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
    return digest.hexdigest()


def load_manifest(model: Path) -> ModelManifest:
    """Return the checked manifest next to `model`. Raises ConfigError with one line: file, field, reason.

    Refused are a missing or malformed manifest, unknown keys, another contract version, tensors that differ from the
    contract, and a model file with another hash or other weights. The line of version 2 names all errors.
    """
    path = manifest_path(model)
    manifest = read_manifest(path)
    found = sha256_of(model)
    if found != manifest.sha256:
        raise ConfigError(f"{path}: sha256: expected {manifest.sha256}, found {found} of {model.name}")
    if isinstance(manifest, Manifest):
        _check_weights(path, manifest, model)
    return manifest


def read_manifest(path: Path) -> ModelManifest:
    """Return the manifest in a file, of either version, without a look at the model. Raises ConfigError."""
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}: a model needs its manifest next to it") from error
    try:
        kind = VERSIONS[_Version.model_validate_json(text).contract_version]
        return kind.model_validate_json(text)
    except ValidationError as error:
        if error.title == OwnManifest.__name__:
            lines = [_in_words(one) for one in error.errors()]
            raise ConfigError(f"{path}: {'; '.join(lines)}") from error
        raise ConfigError(validation_lines(path, error)) from error


class _Version(BaseModel):
    """The only key that is read before the version is known."""

    contract_version: int

    @field_validator("contract_version")
    @classmethod
    def _known(cls, version: int) -> int:
        if version not in VERSIONS:
            known = " or ".join(map(str, VERSIONS))
            raise ValueError(f"expected {known}, found {version}: this release does not know that contract")
        return version


def _in_words(error: Any) -> str:
    """Return an error of pydantic: key, reason, value."""
    unions = {
        "table",
        "continuous",
        "color",
        "scan",
        "pose",
        "odometry",
        "localization",
        "pose_sd",
        "goal",
        "last_action",
        "parts",
    }
    where = ".".join(str(part) for part in error["loc"] if part not in unions)
    if error["type"] == "extra_forbidden":
        return f"unknown key {where}"
    if error["type"].startswith("union_tag"):
        key, known = error["ctx"]["discriminator"].strip("'"), error["ctx"].get("expected_tags")
        return f"{where}.{key}: must be {known or 'there'}" + (f" (is {error['ctx']['tag']!r})" if known else "")
    value = (
        ""
        if error["type"] in ("missing", "value_error") or isinstance(error["input"], (dict, list))
        else (f" (is {error['input']!r})")
    )
    return f"{where}: {error['msg'].removeprefix('Value error, ')}{value}".removeprefix(": ")


def paper_manifest(model: Path) -> Manifest:
    """Return a manifest of version 1, of the paper's network. Raises ConfigError for version 2 too."""
    manifest = load_manifest(model)
    if not isinstance(manifest, Manifest):
        raise ConfigError(
            f"{manifest_path(model)}: contract_version: expected {CONTRACT_VERSION}, found "
            f"{manifest.contract_version}: not the paper's network"
        )
    return manifest


def _check_weights(path: Path, manifest: Manifest, model: Path) -> None:
    """Raise ConfigError when the file's weights have another type than its manifest states."""
    kinds = weight_types(model)
    found = "float16" if "float16" in kinds else "float32"
    if found != manifest.weights or not kinds <= {"float32", "float16"}:
        raise ConfigError(
            f"{path}: weights: expected {manifest.weights}, found {', '.join(sorted(kinds)) or 'none'} of {model.name}"
        )


def save_manifest(model: Path, manifest: ModelManifest) -> Path:
    """Write the manifest next to the model and return its path."""
    path = manifest_path(model)
    path.write_text(manifest.model_dump_json(indent=2, by_alias=True) + "\n", encoding="utf-8")
    return path


def check_engine(
    model: Path, manifest: ModelManifest, inputs: Mapping[str, TensorType], outputs: Mapping[str, TensorType]
) -> None:
    """Raise EngineError, with all differences in one line, unless the engine has exactly the manifest's tensors.

    It may have more outputs.
    """
    wrong = list(misfits(manifest, inputs, outputs))
    if wrong:
        raise EngineError(f"{model}: {'; '.join(wrong)}")


def misfits(
    manifest: ModelManifest, inputs: Mapping[str, TensorType], outputs: Mapping[str, TensorType]
) -> Iterator[str]:
    """Yield a line for each tensor of an engine that is not as the manifest says."""
    listed = manifest.tensors
    for name, kind in listed.items():
        actual = inputs.get(name)
        if actual != kind:
            yield f"input {name}: expected {kind}, found {actual or 'none'}"
    yield from manifest.misfits(outputs)
    for name in inputs:
        if name not in listed:
            yield f"input {name}: the model has this input, but its manifest does not list it"


def delay_complaint(
    manifest: ModelManifest, delay_ticks: int, control_hz: float, ticks_per_decision: int
) -> str | None:
    """Return one line if the robot's timing differs from the timing in training, else None.

    Delays and periods are compared as times, so 3 ticks at 30 Hz equal 6 ticks at 60 Hz.
    """
    trained_ms = 1e3 * manifest.training_delay_ticks / manifest.control_hz
    here_ms = 1e3 * delay_ticks / control_hz
    if abs(trained_ms - here_ms) > _SAME_MS:
        return (
            f"rates.delay_ticks: policy {manifest.policy} was trained with a sense-to-act delay of {trained_ms:.1f} ms "
            f"({manifest.training_delay_ticks} ticks at {manifest.control_hz:g} Hz), the configuration has "
            f"{here_ms:.1f} ms ({delay_ticks} ticks at {control_hz:g} Hz){_ticks_for(trained_ms, control_hz)}"
        )
    trained_period_ms = 1e3 / manifest.decision_hz
    period_ms = 1e3 * ticks_per_decision / control_hz
    if abs(trained_period_ms - period_ms) > _SAME_MS:
        return (
            f"rates.ticks_per_decision: policy {manifest.policy} was trained with a decision every "
            f"{trained_period_ms:.1f} ms, the configuration has one every {period_ms:.1f} ms"
            f"{_ticks_for(trained_period_ms, control_hz)}"
        )
    return None


def _ticks_for(wanted_ms: float, control_hz: float) -> str:
    """Return in words how many ticks are a time, or ""."""
    ticks = round(1e-3 * wanted_ms * control_hz)
    return f"; {ticks} would fit" if abs(1e3 * ticks / control_hz - wanted_ms) <= _SAME_MS else ""


_SAME_MS = 0.5
"""Tolerance for equal times [ms]."""
