"""`onboard compile` as `onboard install` runs it: for each release, in a folder of its own, into one cache."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("onboard", "hil", "engines", "calib")


def compiled(release: Path, cache: Path) -> int:
    """Return how many kernels a copy of this tree compiles."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, release / package, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(release), "NUMBA_CACHE_DIR": str(cache)}
    words = [sys.executable, "-m", "onboard", "compile"]
    done = subprocess.run(words, cwd=release, env=environment, capture_output=True, text=True, check=True)
    counted = re.match(r"compiled (\d+) kernels", done.stdout)
    assert counted is not None, done.stdout
    return int(counted[1])


@pytest.mark.timeout(900)
def test_the_first_release_compiles_and_the_next_takes_its_kernels(tmp_path: Path) -> None:
    assert compiled(tmp_path / "0.1.0", tmp_path / "cache") > 100
    assert compiled(tmp_path / "0.2.0", tmp_path / "cache") == 0
