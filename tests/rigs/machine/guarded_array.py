"""Arrays that end at a page which cannot be read: a kernel that reads behind one ends its process."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

PROT_NONE = 0


def guarded(values: np.ndarray) -> np.ndarray:
    """Return a copy of an array; the byte behind it cannot be read."""
    room = -(-values.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE
    pages = mmap.mmap(-1, room + mmap.PAGESIZE)
    behind = ctypes.addressof(ctypes.c_char.from_buffer(pages)) + room
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(behind), mmap.PAGESIZE, PROT_NONE):
        raise OSError("mprotect failed")
    copy = np.frombuffer(pages, values.dtype, values.size, room - values.nbytes).reshape(values.shape)
    copy[...] = values
    return copy
