"""Fusion, limits, `reactive` and whole drives hold with scans of 360 bins too: their constants are angles, not bins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAME = [
    "tests/onboard/perception/test_kernels.py::test_kernel_is_its_definition",
    "tests/onboard/perception/test_kernels.py::test_edges_are_exact_and_symmetric",
    "tests/onboard/perception/test_kernels.py::test_a_point_on_an_edge_belongs_to_the_bin_on_its_left",
    "tests/onboard/safety/test_limits.py",
    "tests/onboard/safety/test_limits_driving.py",
    "tests/onboard/safety/test_limits_laws.py",
]
DRIVES = [
    "tests/onboard/policy/dwa/test_policy.py",
    "tests/hil/drive/fast/test_modes_agree.py::test_a_committed_episode_is_driven_alike",
]
"""Tests that name no bin by its number."""


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("tests", [SAME, DRIVES], ids=["rules", "drives"])
def test_they_hold_with_360_bins(tmp_path: Path, tests: list[str]) -> None:
    """Its kernels are compiled into a cache of their own."""
    plugin = [sys.executable, "-m", "pytest", "-q", "-p", "tests.rigs.machine.finer_scan", "-p", "no:cacheprovider"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([*plugin, *tests], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
