"""Settings of all tests."""

from __future__ import annotations

import os

from hypothesis import settings

# No deadline: kernels compile at their first call, and machines are shared. In CI the examples are the same every time.
settings.register_profile("onboard", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("onboard")
