"""Compiles the kernels of a tick before the first one. A signal can end it, between two passes of the compiler."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.core.event import Event, Listener, install_listener

from onboard.config.config import Config
from onboard.perception import free_ground, scan_fusion, scan_matching
from onboard.perception.scan_fusion import Rig
from onboard.system.signals import Signals
from onboard.values.geometry import IDENTITY
from onboard.values.messages import DepthFrame

POLL_S = 0.1
"""Longest time until a signal ends the wait for the compiler."""


def prepare_kernels(config: Config, rigs: Sequence[Rig | None], signals: Signals) -> None:
    """Compile what `config` uses; the first time on a machine this takes half a minute. Raises as `Signals.check`."""
    steps: list[Callable[[], None]] = [partial(warm_kernels, rig) for rig in filter(None, rigs)]
    if config.odometry.scan_matching:
        steps.append(scan_matching.warm_up)
    if config.limits.ground_s > 0.0:
        steps.append(free_ground.warm_up)
    for step in steps:
        with _between_passes(signals), _compiler(signals):
            step()


def warm_kernels(rig: Rig) -> None:
    """Compile the kernels of the scan."""
    frames = {
        name: DepthFrame(name, 0, 1, np.zeros((view.mount.height, view.mount.width), np.uint16))
        for name, view in rig.views.items()
    }
    scan_fusion.fuse(frames, 1, IDENTITY, scan_fusion.ScanMemory(), rig)


@contextlib.contextmanager
def _compiler(signals: Signals) -> Iterator[None]:
    """Hold numba's compiler. The thread of the policy may hold it for seconds; no signal ends numba's own wait."""
    while not global_compiler_lock._lock.acquire(timeout=POLL_S):  # numba has no wait with a limit
        signals.check()
    try:
        yield
    finally:
        global_compiler_lock._lock.release()


@contextlib.contextmanager
def _between_passes(signals: Signals) -> Iterator[None]:
    """Let a signal end this block between two passes of numba's compiler.

    In the middle of one, Python would print and drop what the signal raises, or half-made objects would be left.
    """
    with signals.deferred(), install_listener("numba:run_pass", _Check(signals)):
        yield


class _Check(Listener):
    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def on_start(self, event: Event) -> None:  # numba's signature
        if threading.current_thread() is threading.main_thread():  # the policy's kernels compile in another
            self._signals.check()

    def on_end(self, event: Event) -> None:
        pass
