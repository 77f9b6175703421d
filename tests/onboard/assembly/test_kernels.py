"""A signal while the kernels are compiled for the first time."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import FrameType, ModuleType

import numba
import pytest
from numba.core.compiler_lock import global_compiler_lock

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


@pytest.mark.timeout(60)
def test_a_signal_ends_the_wait_for_the_compiler_that_another_thread_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the policy's thread does at a first start; it lets go only after the signal has ended the start."""
    held, ended, reached = threading.Event(), threading.Event(), []

    def hold() -> None:
        with global_compiler_lock:
            held.set()
            ended.wait()

    def start() -> None:
        with Signals() as signals:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            kernels.prepare_kernels(Config(), [], signals)

    monkeypatch.setattr(scan_matching, "warm_up", lambda: reached.append("compiled"))
    holder = threading.Thread(target=hold)
    holder.start()
    held.wait()
    try:
        with pytest.raises(KeyboardInterrupt):
            start()
    finally:
        ended.set()
        holder.join()
    assert not reached


@pytest.mark.long
@pytest.mark.timeout(900)
def test_after_a_compilation_a_start_compiles_nothing(tmp_path: Path) -> None:
    """In processes of their own, with a new cache: the first compiles and tells so once, the second loads all."""
    config = tmp_path / "onboard.toml"
    config.write_text('[cameras]\nsource = "none"\ncolor = "none"\n[scan]\ntopic = "laser"\n')
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "onboard", "compile", "--config", str(config)]
    first, second = (
        subprocess.run(command, env=environment, capture_output=True, text=True, check=True) for _ in range(2)
    )
    assert re.match(r"compiled [1-9]\d* kernels", first.stdout), first
    assert first.stderr.count("compiling kernels") == 1
    assert re.match(r"compiled 0 kernels", second.stdout), second
    assert "compiling kernels" not in second.stderr


def test_byte_code_is_written_for_what_is_imported_and_where_it_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("of_the_test")
    source = tmp_path / "of_the_test.py"
    source.write_text("ANSWER = 42\n")
    module.__file__ = str(source)
    missing = ModuleType("gone")
    missing.__file__ = "/nowhere/gone.py"
    monkeypatch.setattr(sys, "pycache_prefix", None)
    assert kernels.write_bytecode([module, missing]) == 1
    assert list(tmp_path.glob("__pycache__/of_the_test.*.pyc"))
    assert kernels.write_bytecode([module, missing]) == 0
