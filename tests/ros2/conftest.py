"""The compiled messages, once for all tests of the gateway."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.rigs.network.ros2_peer import ROS_PYTHON

MAKER = Path(__file__).with_name("made_messages.py")


@pytest.fixture(scope="session")
def actions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with nav2_msgs and messages of bases for the Python of the ROS 2 wheels."""
    folder = tmp_path_factory.mktemp("actions")
    made = subprocess.run([str(ROS_PYTHON), str(MAKER), str(folder)], capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr
    return folder
