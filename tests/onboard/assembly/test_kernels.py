"""A signal while the kernels are compiled for the first time."""

from __future__ import annotations

import signal
import sys
from types import FrameType

import numba
import pytest

from onboard.assembly import kernels
from onboard.config.config import Config
from onboard.perception import free_ground, scan_matching
from onboard.system.signals import Signals

CALLBACK = "_raw_object_cache_notify"
"""The function of llvmlite that C++ calls when a kernel is compiled: Python prints and drops what it raises."""


def test_a_signal_in_the_midst_of_the_compiler_ends_the_start_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    reached = []

    def in_callback(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_name == CALLBACK and not reached:
            reached.append(CALLBACK)
            signal.raise_signal(signal.SIGINT)

    @numba.njit
    def first(x: float) -> float:
        return x + 1.0

    @numba.njit
    def second(x: float) -> float:
        return x + 2.0

    def start() -> None:
        with Signals() as signals:
            kernels.prepare_kernels(Config(), [], signals)

    monkeypatch.setattr(scan_matching, "warm_up", lambda: reached.append(str(first(1.0))))
    monkeypatch.setattr(free_ground, "warm_up", lambda: reached.append(str(second(1.0))))
    sys.setprofile(in_callback)
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        sys.setprofile(None)
    assert reached[0] == CALLBACK
    assert "3.0" not in reached
    assert capfd.readouterr().err == ""
