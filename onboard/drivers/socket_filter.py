"""Lets a socket hear what arrives over certain network devices only, whatever address it is bound to.

A filter in the kernel (classic BPF, `socket(7)`, SO_ATTACH_FILTER), which needs no privilege. Binding to a device would
do for loopback; for another one it would leave out what comes from this machine itself, which arrives over loopback.
"""

from __future__ import annotations

import ctypes
import socket
import struct
from collections.abc import Collection

SO_ATTACH_FILTER = 26
ANCILLARY, DEVICE_INDEX = 0xFFFFF000, 8
"""Where a filter finds what the kernel knows of a packet (`linux/filter.h`: SKF_AD_OFF, SKF_AD_IFINDEX)."""

LOAD_WORD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
WHOLE, NOTHING = 0xFFFFFFFF, 0
_INSTRUCTION = struct.Struct("HBBI")
_PROGRAM = struct.Struct("HP")


def hear_only(listener: socket.socket, devices: Collection[str]) -> None:
    """Drop what arrives over any other device than these. Raises OSError, also when there is no such device.

    A device that is taken away and comes back is another one: then nothing of it is heard.
    """
    indices = [socket.if_nametoindex(name) for name in devices]
    rows = [(LOAD_WORD, 0, 0, ANCILLARY + DEVICE_INDEX)]
    rows += [(JUMP_IF_EQUAL, len(indices) - at, 0, index) for at, index in enumerate(indices)]
    rows += [(RETURN, 0, 0, NOTHING), (RETURN, 0, 0, WHOLE)]
    code = ctypes.create_string_buffer(b"".join(_INSTRUCTION.pack(*row) for row in rows))
    program = _PROGRAM.pack(len(rows), ctypes.addressof(code))
    listener.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
