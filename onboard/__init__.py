"""The runtime that drives a differential-drive robot to a point goal. Start reading at `onboard/runtime.py`."""

__version__ = "0.1.0"
