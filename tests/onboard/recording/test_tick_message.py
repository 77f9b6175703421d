"""Each field of a tick is written into its message and read from it. Without this, one that is left out is lost."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields

import pytest

from onboard.drivers.dds.tick_types import TickMessage
from onboard.recording import tick_message
from onboard.state import TickRecord
from onboard.values.messages import Inputs

NOT_RECORDED = {"after"}
"""The state after the tick is in keyframes."""
READ_ELSEWHERE = {"scans", "scan_stamp_ns", "limits_scan_stamp_ns"}
"""`hil/recordings/ticks.py` reads these, to find the scans of the tick."""
SOURCE = ast.parse(inspect.getsource(tick_message))


def made_from(name: str) -> set[str]:
    """Return the keywords of all calls of a class in the module."""
    calls = [node for node in ast.walk(SOURCE) if isinstance(node, ast.Call) and ast.unparse(node.func) == name]
    return {str(keyword.arg) for call in calls for keyword in call.keywords}


def touched(name: str, context: type[ast.expr_context]) -> set[str]:
    """Return the attributes of the variable `name` that the module reads or sets."""
    attributes = (node for node in ast.walk(SOURCE) if isinstance(node, ast.Attribute) and type(node.ctx) is context)
    return {node.attr for node in attributes if ast.unparse(node.value) == name}


#   type         what the module writes into it, or reads of it
WRITTEN = [
    (TickMessage, made_from("TickMessage") | touched("message", ast.Store)),
    (TickMessage, touched("message", ast.Load) | READ_ELSEWHERE),
    (TickRecord, made_from("TickRecord") | NOT_RECORDED),
    (Inputs, made_from("Inputs")),
]


@pytest.mark.parametrize(("kind", "names"), WRITTEN, ids=["written", "read", "tick", "inputs"])
def test_each_field_is_written_and_read(kind: type, names: set[str]) -> None:
    assert {field.name for field in fields(kind)} - names == set()
