"""Data types of the weights in an .onnx file, read without the `onnx` package, which is not installed on the robot."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from onboard.values.errors import ConfigError

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
