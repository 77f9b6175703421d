"""Settings of all tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from onboard.drivers.dds.participant import Wire
from tests.rigs.machine.install_rig import Machine, machine
from tests.rigs.network.loopback import SECTION

# No deadline: kernels compile at their first call, and machines are shared. In CI the examples are the same every time.
settings.register_profile("onboard", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("onboard")


@pytest.fixture
def wires():
    """The runtime's participant and the other side's."""
    ours, theirs = Wire(SECTION), Wire(SECTION)
    yield ours, theirs
    ours.close()
    theirs.close()


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A machine with a real systemd to install on, one for the tests of a file."""
    with machine(tmp_path_factory.mktemp("machine")) as there:
        yield there


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a file's tests put the wheels that they install."""
    return tmp_path_factory.mktemp("wheels")
