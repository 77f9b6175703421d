"""A frame read from shared memory is whole, newest, and a copy, whatever the writer does meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

from onboard.drivers.realsense.shared_memory import READ_TRIES, SLOTS, FrameSlots

SHAPE = (48, 64)
HAMMERED = (480, 640)
HAMMER = """
import sys
import numpy as np
from onboard.drivers.realsense.shared_memory import FrameSlots
slots = FrameSlots(int(sys.argv[1]), (480, 640), np.uint16)
for number in range(1, 1_000_000):
    slots.write(number, 10 * number, number % 1000, np.full((480, 640), number % 65536, np.uint16))
"""


@pytest.fixture
def slots() -> Iterator[FrameSlots]:
    made = FrameSlots.create("test", SHAPE, np.uint16)
    yield made
    made.close()


def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**16, SHAPE, dtype=np.uint16)


def test_the_newest_frame_comes_back_bit_for_bit(slots: FrameSlots) -> None:
    for number in range(1, 3 * SLOTS):
        slots.write(number, 2**40 + number, number + 7, image(number))
        frame = slots.read()
        assert frame is not None
        assert (frame.number, frame.stamp_ns, frame.valid_pixels) == (number, 2**40 + number, number + 7)
        assert np.array_equal(frame.image, image(number))


def test_a_frame_that_was_read_does_not_change(slots: FrameSlots) -> None:
    slots.write(1, 0, 0, image(1))
    frame = slots.read()
    for number in range(2, 2 + 2 * SLOTS):
        slots.write(number, 0, 0, image(number))
    assert frame is not None
    assert np.array_equal(frame.image, image(1))


def test_a_writer_killed_in_the_middle_leaves_the_frame_before_it(slots: FrameSlots) -> None:
    class KilledError(Exception):
        pass

    class Half:
        """An image whose copy ends the writer halfway."""

        def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
            raise KilledError

    slots.write(1, 5, 6, image(1))
    with pytest.raises(KilledError):
        slots.write(2, 7, 8, Half())  # type: ignore[arg-type]
    frame = slots.read()
    assert frame is not None
    assert (frame.number, frame.stamp_ns) == (1, 5)
    assert np.array_equal(frame.image, image(1))


def test_a_slot_that_is_being_written_is_not_returned(slots: FrameSlots) -> None:
    slots.write(1, 5, 6, image(1))
    slots._heads[1 % SLOTS][0] = 0
    assert slots.read() is None


def test_a_slot_overwritten_during_the_copy_is_not_returned(slots: FrameSlots) -> None:
    """Each copy of slot 1 is interrupted by a writer that comes round to the same slot."""

    class Overtaken:
        def __init__(self, pixels: np.ndarray) -> None:
            self.pixels = pixels
            self.copies = 0

        def __setitem__(self, where: object, value: np.ndarray) -> None:
            self.pixels[...] = value

        def copy(self) -> np.ndarray:
            self.copies += 1
            slots.write(1 + SLOTS * self.copies, 0, 0, image(self.copies))
            return self.pixels.copy()

    overtaken = Overtaken(slots._images[1 % SLOTS])
    slots._images[1 % SLOTS] = overtaken  # type: ignore[call-overload]
    slots.write(1, 5, 6, image(1))
    assert slots.read() is None
    assert overtaken.copies == READ_TRIES


def test_closes_twice_and_leaves_no_descriptor() -> None:
    before = set(os.listdir("/proc/self/fd"))
    made = FrameSlots.create("test", SHAPE, np.uint16)
    made.close()
    made.close()
    assert set(os.listdir("/proc/self/fd")) == before


def test_no_frame_is_ever_torn_while_another_process_hammers() -> None:
    """The writer fills each frame with its number, as fast as it can: a mixed frame would hold two values."""
    slots = FrameSlots.create("hammer", HAMMERED, np.uint16)
    writer = subprocess.Popen([sys.executable, "-c", HAMMER, str(slots.fd)], pass_fds=[slots.fd])
    try:
        whole, last, tries = 0, 0, 0
        while whole < 400 and writer.poll() is None:
            tries += 1
            frame = slots.read()
            if frame is None or frame.number == last:
                continue
            assert frame.number > last
            assert (frame.stamp_ns, frame.valid_pixels) == (10 * frame.number, frame.number % 1000)
            assert np.all(frame.image == frame.number % 65536)
            whole, last = whole + 1, frame.number
        assert whole == 400, f"{tries} tries"
    finally:
        writer.kill()
        writer.wait()
        slots.close()
