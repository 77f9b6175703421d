"""The runtime that drives a differential-drive robot to a point goal. Start reading at `onboard/runtime.py`."""

from pathlib import Path

try:  # written by a build (`.ci/version.py`)
    __version__ = Path(__file__).with_name("_version.txt").read_text(encoding="utf-8").strip()
except OSError:  # files that nobody built or installed
    __version__ = "0.1.0.dev0"
