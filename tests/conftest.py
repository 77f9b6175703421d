"""Settings of all tests."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from loopback import SECTION

from onboard.drivers.wire import Wire

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
