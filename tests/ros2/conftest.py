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
    return made_in(tmp_path_factory.mktemp("actions"))


@pytest.fixture
def humble_actions(tmp_path: Path) -> Path:
    """Return the same with the actions of Humble, whose results are empty."""
    return made_in(tmp_path / "humble_actions", "humble")


def made_in(folder: Path, *distribution: str) -> Path:
    command = [str(ROS_PYTHON), str(MAKER), str(folder), *distribution]
    made = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr
    return folder
