"""Definitions of recorded messages, generated from our types, equal the definitions of ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import pytest
from cyclonedds.idl import IdlStruct
from cyclonedds.idl.types import float32, sequence, uint32
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from onboard.drivers.dds import ros_types
from onboard.drivers.dds.ros_types import ros_name
from onboard.recording.ros_schema import message_type

SAME_ON_THE_WIRE = {"byte": "uint8", "octet": "uint8", "char": "uint8"}


def shape(field: object) -> object:
    """Return a field's type, with a common name for types that are equal in CDR."""
    kind, detail = field  # type: ignore[misc]
    if isinstance(detail, tuple) and isinstance(detail[0], tuple):
        return (kind, (shape(detail[0]), detail[1]))
    if isinstance(detail, tuple):
        return (kind, (SAME_ON_THE_WIRE.get(detail[0], detail[0]), detail[1]))
    return (kind, detail)


SPEED_LIMIT = "std_msgs/Header header\nbool percentage\nfloat64 speed_limit\n"
"""The fields of nav2_msgs (Humble to Jazzy), which are not in rosbags."""


@pytest.mark.parametrize("kind", ros_types.MESSAGES, ids=ros_name)
def test_a_standard_message_and_its_parts_have_the_fields_of_ros(kind: type[IdlStruct]) -> None:
    ours = get_types_from_msg(message_type(kind).definition, ros_name(kind))
    ros = {**get_typestore(Stores.ROS2_JAZZY).fielddefs, **get_types_from_msg(SPEED_LIMIT, "nav2_msgs/msg/SpeedLimit")}
    for name, (_, fields) in ours.items():
        expected = [(field, shape(kind)) for field, kind in ros[name][1]]
        if not fields:
            assert [field for field, _ in expected] == ["structure_needs_at_least_one_member"]
        else:
            assert [(field, shape(kind)) for field, kind in fields] == expected, name


@dataclass
class Stage(IdlStruct, typename="onboard_msgs.msg.dds_.Stage_"):
    name: str = ""
    duration_us: uint32 = 0


@dataclass
class Tick(IdlStruct, typename="onboard_msgs.msg.dds_.Tick_"):
    number: uint32 = 0
    ranges: Annotated[Sequence[float], sequence(float32)] = ()
    stages: Annotated[Sequence[Stage], sequence(Stage)] = ()
    blob: bytes = b""


def test_a_message_of_our_own_is_described_with_its_parts() -> None:
    described = message_type(Tick)
    assert described.name == "onboard_msgs/msg/Tick"
    assert described.definition == (
        "uint32 number\nfloat32[] ranges\nonboard_msgs/Stage[] stages\nuint8[] blob\n"
        + "=" * 80
        + "\nMSG: onboard_msgs/Stage\nstring name\nuint32 duration_us\n"
    )


@dataclass
class Odd(IdlStruct, typename="onboard_msgs.msg.dds_.Odd_"):
    table: dict[str, int]


def test_a_field_that_ros_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="dict"):
        message_type(Odd)
