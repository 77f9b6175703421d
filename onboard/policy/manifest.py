"""The manifest of a model, `<model>.manifest.json`, and checks of the model against manifest and contract."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, model_validator

from onboard.config.toml_file import Positive, Section, validation_lines
from onboard.policy.contract import (
    CONTRACT_VERSION,
    INPUTS,
    MEMORY_TENSORS,
    OUTPUTS,
    REQUIRED_OUTPUTS,
    Tensor,
    TensorType,
)
from onboard.values.errors import ConfigError, EngineError

# ---- Data types of the weights in an .onnx file, read without the `onnx` package, which is not installed on the robot

_GRAPH, _INITIALIZER, _DATA_TYPE = 7, 5, 2
_NAMES = {1: "float32", 10: "float16", 11: "float64", 16: "bfloat16"}
"""The data types of floating-point weights; indices and shapes are no weights."""
_VARINT, _EIGHT_BYTES, _BLOCK, _FOUR_BYTES = 0, 1, 2, 5
_FIXED = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}
_LONGEST_VARINT = 10


def weight_types(model: Path) -> frozenset[str]:
    """Return the data types of a model's floating-point weights by numpy's name; empty for a model without any.

    Raises ConfigError when the file cannot be read or is no ONNX model.
    """
    try:
        with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            found = frozenset(_weight_types(content))
    except OSError as error:
        raise ConfigError(f"{model}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # also an empty file, which cannot be mapped
        raise ConfigError(f"{model}: not an ONNX model: {error}") from error
    return frozenset(_NAMES[kind] for kind in found if kind in _NAMES)


def _weight_types(content: mmap.mmap) -> Iterator[int]:
    graphs = [(begin, end) for number, begin, end in _fields(content, 0, len(content)) if number == _GRAPH]
    if not graphs:
        raise ValueError("it has no graph")
    for begin, end in graphs:
        for number, *weight in _fields(content, begin, end):
            if number == _INITIALIZER:
                yield from (value for field, value, _ in _fields(content, *weight) if field == _DATA_TYPE)


def _fields(content: mmap.mmap, begin: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, begin, end) of every block and (number, value, 0) of every varint. Raises ValueError."""
    at = begin
    while at < end:
        key, at = _varint(content, at, end)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, at = _varint(content, at, end)
            yield number, value, 0
            continue
        if wire == _BLOCK:
            size, at = _varint(content, at, end)
            yield number, at, min(at + size, end)
        elif wire in _FIXED:
            size = _FIXED[wire]
        else:
            raise ValueError(f"no field can begin at byte {at}")
        at += size
    if at > end:
        raise ValueError(f"it ends within a field, at byte {end}")


def _varint(content: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    """Return (value, end of the number)."""
    value = 0
    for index, byte in enumerate(content[at : min(at + _LONGEST_VARINT, end)]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise ValueError(f"no number ends near byte {at}")


Weights = Literal["float32", "float16"]

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


class Manifest(Section):
    """Properties of a model. The runtime ignores `extra`, which is free for other policies.

    memory_shape:         (layers, width) of the recurrent state; None for a policy without memory
    memory_reset_s:       period of memory resets [s]; None takes the configuration's
    training_delay_ticks: sense-to-act delay in training, in ticks at `control_hz`
    weights:              storage type of the weights; "float16" halves the file, computation stays in float32
    half_precision_nodes: prefixes of node names that an engine may compute in float16; all others, above all the
                          recurrent nodes, stay in float32
    """

    contract_version: int
    sha256: str = Field(pattern="^[0-9a-f]{64}$")
    policy: str = Field(min_length=1)
    inputs: tuple[TensorEntry, ...]
    outputs: tuple[TensorEntry, ...]
    scan: ScanScale = ScanScale()
    rgb: RgbScale = RgbScale()
    loc_absent: tuple[float, float, float, float, float] = (0.0, 0.0, 0.0, 0.0, 0.0)
    training_delay_ticks: int = Field(ge=0)
    control_hz: Positive
    decision_hz: Positive
    memory_shape: tuple[int, int] | None
    memory_reset_s: Positive | None = None
    weights: Weights = "float32"
    half_precision_nodes: tuple[str, ...] = ()
    extra: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits_contract(self) -> Manifest:
        if self.contract_version != CONTRACT_VERSION:
            raise ValueError(
                f"contract_version: expected {CONTRACT_VERSION}, found {self.contract_version}: "
                "export the model again with this release"
            )
        for kind, entries, table in (("inputs", self.inputs, INPUTS), ("outputs", self.outputs, OUTPUTS)):
            names = [entry.name for entry in entries]
            if len(set(names)) != len(names):
                raise ValueError(f"{kind}: a name stands twice in {names}")
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


def manifest_path(model: Path) -> Path:
    """Return the path of a model's manifest: `policy.onnx` -> `policy.onnx.manifest.json`."""
    return model.with_name(model.name + MANIFEST_SUFFIX)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal. Raises ConfigError when it cannot be read."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


def load_manifest(model: Path) -> Manifest:
    """Return the checked manifest beside `model`. Raises ConfigError with one line: file, field, reason.

    Refused are a missing or malformed manifest, unknown keys, another contract version, tensors that differ from the
    contract, and a model file with another hash or other weights.
    """
    path = manifest_path(model)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}: a model needs its manifest beside it") from error
    try:
        manifest = Manifest.model_validate_json(text)
    except ValidationError as error:
        raise ConfigError(validation_lines(path, error)) from error
    found = sha256_of(model)
    if found != manifest.sha256:
        raise ConfigError(f"{path}: sha256: expected {manifest.sha256}, found {found} of {model.name}")
    _check_weights(path, manifest, model)
    return manifest


def _check_weights(path: Path, manifest: Manifest, model: Path) -> None:
    """Raise ConfigError when the file's weights have another type than its manifest states."""
    kinds = weight_types(model)
    found = "float16" if "float16" in kinds else "float32"
    if found != manifest.weights or not kinds <= {"float32", "float16"}:
        raise ConfigError(
            f"{path}: weights: expected {manifest.weights}, found {', '.join(sorted(kinds)) or 'none'} of {model.name}"
        )


def save_manifest(model: Path, manifest: Manifest) -> Path:
    """Write the manifest beside the model and return its path."""
    path = manifest_path(model)
    path.write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
    return path


def check_engine(
    model: Path, manifest: Manifest, inputs: Mapping[str, TensorType], outputs: Mapping[str, TensorType]
) -> None:
    """Raise EngineError unless the engine has exactly the manifest's inputs and at least its outputs."""
    for kind, entries, found in (("input", manifest.inputs, inputs), ("output", manifest.outputs, outputs)):
        for entry in entries:
            actual = found.get(entry.name)
            if actual != entry.type:
                raise EngineError(f"{model}: {kind} {entry.name}: expected {entry.type}, found {actual or 'none'}")
    listed = {entry.name for entry in manifest.inputs}
    unlisted = [name for name in inputs if name not in listed]
    if unlisted:
        raise EngineError(f"{model}: input {unlisted[0]}: the model wants it, its manifest does not list it")


def delay_complaint(manifest: Manifest, delay_ticks: int, control_hz: float, ticks_per_decision: int) -> str | None:
    """Return one line if the robot's timing differs from the timing in training, else None.

    Delays and periods are compared as times, so 3 ticks at 30 Hz equal 6 ticks at 60 Hz.
    """
    trained_ms = 1e3 * manifest.training_delay_ticks / manifest.control_hz
    here_ms = 1e3 * delay_ticks / control_hz
    if abs(trained_ms - here_ms) > _SAME_MS:
        return (
            f"rates.delay_ticks: policy {manifest.policy} was trained with a sense-to-act delay of {trained_ms:.1f} ms "
            f"({manifest.training_delay_ticks} ticks at {manifest.control_hz:g} Hz), the configuration has "
            f"{here_ms:.1f} ms ({delay_ticks} ticks at {control_hz:g} Hz)"
        )
    trained_period_ms = 1e3 / manifest.decision_hz
    period_ms = 1e3 * ticks_per_decision / control_hz
    if abs(trained_period_ms - period_ms) > _SAME_MS:
        return (
            f"rates.ticks_per_decision: policy {manifest.policy} was trained with a decision every "
            f"{trained_period_ms:.1f} ms, the configuration has one every {period_ms:.1f} ms"
        )
    return None


_SAME_MS = 0.5
"""Tolerance for equal times [ms]."""
