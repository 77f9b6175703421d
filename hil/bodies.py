"""Things that move in a world, as upright cylinders: pedestrians, other robots."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bodies = npt.NDArray[np.float64]
"""(n, 6): x, y in the map frame [m], radius, low, high [m], and the material as an index into `textures.MATERIALS`."""

NO_BODIES: Bodies = np.empty((0, 6))
NO_BODIES.setflags(write=False)
