"""What a policy that drives by the dynamic window remembers, as the array that the runtime keeps for it."""

from __future__ import annotations

import numpy as np

from onboard.dynamic_window import COURSE_NUMBERS, Course, course_of
from onboard.local_map import CAPACITY, LocalMap
from onboard.messages import Memory

HEADER = 1 + COURSE_NUMBERS
"""Numbers before the cells: how many these are, and the course."""
CELL = 3


def pack(known: LocalMap, course: Course) -> Memory:
    """Return (HEADER + CELL * CAPACITY,) float32."""
    memory = np.zeros(HEADER + CELL * CAPACITY, np.float32)
    count = len(known.cells)
    memory[0], memory[1:HEADER] = count, course.numbers()
    memory[HEADER : HEADER + CELL * count] = known.cells.ravel()
    return memory


def unpack(memory: Memory) -> tuple[LocalMap, Course]:
    """Return what `pack` packed."""
    cells = memory[HEADER : HEADER + CELL * int(memory[0])].reshape(-1, CELL)
    return LocalMap(cells), course_of(memory[1:HEADER])
