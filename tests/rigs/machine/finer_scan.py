"""A pytest plugin: scans have 360 bins in this process. Kernels compile the number in, so each process has one."""

from __future__ import annotations

from onboard.values import messages

messages.BINS = 360
messages.BIN_DEG, messages.BIN_RAD = 360.0 / messages.BINS, 2.0 * messages.math.pi / messages.BINS
