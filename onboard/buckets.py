"""A queue by priority for cells of a grid: buckets of about the same priority, each a doubly linked list.

A cell waits in one bucket at most. For kernels that own the arrays: `heads` (BUCKETS,) int32, the first cell of each
bucket, `links` (cells, 2) int32, of each cell that waits the next and the previous one, and `bucket_of` (cells,) int16.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Indices = npt.NDArray[np.int32]

BUCKETS = 2048
NOBODY = -1
"""No cell, or no bucket."""
NEXT, PREVIOUS = 0, 1


@njit(cache=True, nogil=True)
def wait(
    heads: Indices, links: Indices, bucket_of: npt.NDArray[np.int16], cell: int, bucket: int
) -> None:  # pragma: no cover - compiled
    """Put a cell into a bucket."""
    first = heads[bucket]
    if first != NOBODY:
        links[first, PREVIOUS] = cell
    links[cell, NEXT], links[cell, PREVIOUS], bucket_of[cell], heads[bucket] = first, NOBODY, bucket, cell


@njit(cache=True, nogil=True)
def leave(
    heads: Indices, links: Indices, bucket_of: npt.NDArray[np.int16], cell: int
) -> None:  # pragma: no cover - compiled
    """Take a cell out of its bucket, if it is in one."""
    if bucket_of[cell] == NOBODY:
        return
    after, before = links[cell, NEXT], links[cell, PREVIOUS]
    if before != NOBODY:
        links[before, NEXT] = after
    else:
        heads[bucket_of[cell]] = after
    if after != NOBODY:
        links[after, PREVIOUS] = before
    bucket_of[cell] = NOBODY
