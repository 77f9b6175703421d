"""A real browser for tests: Debian's chromium through playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
VARIABLE = "CHROMIUM"
"""Names another browser of that kind."""


@contextlib.contextmanager
def chromium() -> Iterator[Any]:
    """Start a browser without a window. Skips the test where there is none to be found."""
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install playwright")
    found = os.environ.get(VARIABLE) or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip(f"no chromium here: apt-get install chromium, or name one in {VARIABLE}")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()
