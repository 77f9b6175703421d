"""What is remembered comes back from the array that holds it."""

from __future__ import annotations

import numpy as np
import pytest

from onboard.policy.dwa.costmap import CAPACITY, EMPTY, LocalMap
from onboard.policy.dwa.dynamic_window import Course
from onboard.policy.dwa.policy import pack, unpack

FULL = LocalMap(np.arange(3 * CAPACITY, dtype=np.float32).reshape(CAPACITY, 3))
SOME = LocalMap(np.array([(-3.0, 70.0, 0.5), (12.0, -9.0, 1.0)], np.float32))


@pytest.mark.parametrize("known", [EMPTY, SOME, FULL])
@pytest.mark.parametrize("course", [Course(), Course(True, (0.5, -1.0, 0.25, 2.0))])
def test_packed_and_unpacked_it_is_the_same(known, course):
    memory = pack(known, course)
    assert (memory.dtype, memory.shape) == (np.float32, pack(EMPTY, Course()).shape)
    assert np.isfinite(memory).all()
    again, same = unpack(memory)
    np.testing.assert_array_equal(again.cells, known.cells)
    assert same == course
