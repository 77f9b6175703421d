"""No kernel reads or writes outside of its arrays: the kernels' tests pass with numba's bounds checks too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = (
    "tests/onboard/policy/dwa",
    "tests/onboard/perception",
    "tests/hil/physics",
    "tests/hil/sensors",
    "tests/hil/drive/fast",
    "tests/hil/evaluate/baselines",
)


@pytest.mark.long
@pytest.mark.parametrize("tests", TESTS)
def test_kernels_stay_within_their_arrays(tests: str) -> None:
    cache = ROOT / ".numba-cache" / "bounds"  # numba's cache does not tell checked code from other code
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(cache)}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tests]
    done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
