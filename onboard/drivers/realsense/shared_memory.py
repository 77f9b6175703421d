"""Frames in shared memory of two processes: one writes, the other reads the newest, without waiting.

The memory is an anonymous `memfd`: the reader's process passes its descriptor to the writer's, and the kernel frees the
memory with the last process, however it ended. (Named segments survive `kill -9`, and Python's resource tracker removes
them while the other process uses them.)

Layout: the number of the newest frame, then SLOTS slots, each with its frame's number, capture time, count of valid
pixels, and image. A slot's number is 0 during a write. The reader accepts a copy only if the slot's number was the
wanted number before and after it, so a torn frame is never returned.
"""

from __future__ import annotations

import mmap
import os
import threading
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SLOTS = 3
"""One slot to read, one with the newest frame, one to write."""
READ_TRIES = 4
LINE_BYTES = 64
"""Alignment: a cache line, so that two slots' counters never share a line."""
NUMBER, STAMP_NS, VALID = 0, 1, 2
_WORD = np.dtype(np.uint64)


@dataclass(frozen=True, slots=True)
class SharedFrame:
    """A copy of a frame.

    number:       ascending from 1; gaps are frames that the reader missed
    stamp_ns:     capture time, monotonic [ns]
    valid_pixels: as the writer counted them
    """

    number: int
    stamp_ns: int
    valid_pixels: int
    image: npt.NDArray[Any]


class FrameSlots:
    """The newest frames of one camera. One writer and one reader at a time, in any two processes."""

    def __init__(self, fd: int, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        """Map the memory behind `fd`, which this object then owns. Raises ValueError when it is too small."""
        image_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
        size = _size(image_bytes)
        if os.fstat(fd).st_size < size:
            raise ValueError(f"shared memory has {os.fstat(fd).st_size} bytes, {shape} of {dtype} needs {size}")
        self.fd = fd
        self._memory = mmap.mmap(fd, size)
        self._newest = np.frombuffer(self._memory, _WORD, 1)
        self._heads = [np.frombuffer(self._memory, _WORD, 3, LINE_BYTES * (1 + slot)) for slot in range(SLOTS)]
        self._images = [
            np.frombuffer(self._memory, dtype, int(np.prod(shape)), _image_offset(slot, image_bytes)).reshape(shape)
            for slot in range(SLOTS)
        ]
        self._barrier = threading.Lock()
        self._barrier.acquire()

    @classmethod
    def create(cls, label: str, shape: tuple[int, ...], dtype: npt.DTypeLike) -> FrameSlots:
        """Return empty slots in new memory. `label` shows in /proc only. Raises OSError when memory is short."""
        fd = os.memfd_create(label, os.MFD_CLOEXEC)
        try:
            os.ftruncate(fd, _size(int(np.prod(shape)) * np.dtype(dtype).itemsize))
            return cls(fd, shape, dtype)
        except BaseException:
            os.close(fd)
            raise

    def write(self, number: int, stamp_ns: int, valid_pixels: int, image: npt.NDArray[Any]) -> None:
        """Make `image` the newest frame. `number` is above every earlier one and at least 1."""
        head = self._heads[number % SLOTS]
        head[NUMBER] = 0
        self._order_memory()
        self._images[number % SLOTS][...] = image
        head[STAMP_NS] = stamp_ns
        head[VALID] = valid_pixels
        self._order_memory()
        head[NUMBER] = number
        self._order_memory()
        self._newest[0] = number

    def newest_number(self) -> int:
        """Return the number of the newest frame; 0 before the first. Costs one load."""
        return int(self._newest[0])

    def read(self) -> SharedFrame | None:
        """Return the newest frame; None before the first, or if the writer overtook all READ_TRIES copies."""
        for _ in range(READ_TRIES):
            number = self.newest_number()
            if number == 0:
                return None
            head = self._heads[number % SLOTS]
            self._order_memory()
            if int(head[NUMBER]) != number:
                continue
            self._order_memory()
            frame = SharedFrame(number, int(head[STAMP_NS]), int(head[VALID]), self._images[number % SLOTS].copy())
            self._order_memory()
            if int(head[NUMBER]) == number:
                return frame
        return None

    def close(self) -> None:
        """Unmap and close the descriptor. Safe to call twice; nothing else may be called after."""
        if self.fd < 0:
            return
        del self._newest, self._heads, self._images
        self._memory.close()
        os.close(self.fd)
        self.fd = -1

    def _order_memory(self) -> None:
        """Order the loads and stores before this against those after, as the other process sees them.

        ARM may reorder them, and Python has no fence: a lock's release followed by its acquire is one.
        """
        self._barrier.release()
        self._barrier.acquire()


def _size(image_bytes: int) -> int:
    return _image_offset(SLOTS, image_bytes)


def _image_offset(slot: int, image_bytes: int) -> int:
    lines = -(-image_bytes // LINE_BYTES)
    return LINE_BYTES * (1 + SLOTS + slot * lines)
