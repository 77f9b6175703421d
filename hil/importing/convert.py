"""Messages of another library as our types, field by field by their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import numpy as np
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, sequence

from onboard.drivers.ros_schema import EMPTY_MEMBER
from onboard.drivers.ros_types import ByteSequence


def ours(kind: type[IdlStruct], message: Any) -> Any:
    """Return a message of the library as one of our type, field by field; fields that ours does not have are left out.

    ROS 1 has a `seq` more in headers, and writes the fields of CameraInfo in capitals. Raises AttributeError where one
    of ours is missing.
    """
    return kind(**{name: take(_of(message, name)) for name, take in _fields(kind)})


def _of(message: Any, name: str) -> Any:
    value = getattr(message, name, None)
    return getattr(message, name.upper()) if value is None else value


@cache
def _fields(kind: type[IdlStruct]) -> tuple[tuple[str, Callable[[Any], Any]], ...]:
    """Return the fields of a type, each with what makes its value of the library's."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, _taker(hint)) for name, hint in hints.items() if name != EMPTY_MEMBER)


def _taker(hint: Any) -> Callable[[Any], Any]:
    if isinstance(hint, type) and issubclass(hint, IdlStruct):
        return partial(ours, hint)
    detail = get_args(hint)[1] if get_origin(hint) is Annotated else None
    if isinstance(detail, ByteSequence):
        return bytes
    if isinstance(detail, (array, sequence)):
        part = detail.subtype
        return partial(_all, part) if isinstance(part, type) and issubclass(part, IdlStruct) else _numbers
    return _plain


def _all(kind: type[IdlStruct], messages: Iterable[Any]) -> list[Any]:
    return [ours(kind, one) for one in messages]


def _plain(value: Any) -> Any:
    return value


def _numbers(values: Any) -> list[Any]:
    return list(np.asarray(values).tolist())
