"""The runtime that drives a differential-drive robot to a point goal. Start reading at `onboard/runtime.py`."""

try:  # written by a build
    from onboard._version import __version__ as __version__  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # files that nobody built or installed
    __version__ = "0.1.0.dev0"
