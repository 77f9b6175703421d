"""ROS 2 definitions of recorded messages, generated from the DDS types.

Bytes and definition have one source, for standard messages and our own. Constants of the .msg files are left out,
because they are not in the bytes.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import array, sequence

from onboard.drivers.dds.ros_types import ros_name
from onboard.recording.mcap_file import MessageType

SEPARATOR = "=" * 80
EMPTY_MEMBER = "structure_needs_at_least_one_member"
"""DDS adds this field to a message without fields; its ROS definition is empty."""

PLAIN = {bool: "bool", str: "string", bytes: "uint8[]", float: "float64"}


@cache
def message_type(kind: type[IdlStruct]) -> MessageType:
    """Return name and definition of a DDS type. Raises TypeError for a field type unknown to ROS 2."""
    parts: dict[type[IdlStruct], str] = {}
    _describe(kind, parts)
    whole = parts.pop(kind)
    for part, text in parts.items():
        whole += f"{SEPARATOR}\nMSG: {_short_name(part)}\n{text}"
    return MessageType(ros_name(kind), whole)


def _describe(kind: type[IdlStruct], parts: dict[type[IdlStruct], str]) -> None:
    """Add the fields of `kind`, then the fields of its nested messages, to `parts`."""
    if kind in parts:
        return
    parts[kind] = ""
    lines = []
    for name, annotation in get_type_hints(kind, include_extras=True).items():
        if name == EMPTY_MEMBER:
            continue
        text, part = _field(annotation)
        lines.append(f"{text} {name}\n")
        if part is not None:
            _describe(part, parts)
    parts[kind] = "".join(lines)


def _field(annotation: Any) -> tuple[str, type[IdlStruct] | None]:
    """Return the ROS type of a field, and its nested message, if any."""
    if annotation in PLAIN:
        return PLAIN[annotation], None
    if isinstance(annotation, type) and issubclass(annotation, IdlStruct):
        return _short_name(annotation), annotation
    if get_origin(annotation) is Annotated:
        detail = get_args(annotation)[1]
        if isinstance(detail, str):
            return detail, None
        if isinstance(detail, array):
            text, part = _field(detail.subtype)
            return f"{text}[{detail.length}]", part
        if isinstance(detail, sequence):
            text, part = _field(detail.subtype)
            return f"{text}[]", part
    raise TypeError(f"no ROS 2 message field is of type {annotation!r}")


def _short_name(kind: type[IdlStruct]) -> str:
    """Return the short name for definitions, such as `geometry_msgs/Twist`."""
    return ros_name(kind).replace("/msg/", "/")
