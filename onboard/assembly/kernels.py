"""Compiles the kernels of a tick before the first one. A signal can end it, between two passes of the compiler."""

from __future__ import annotations

import compileall
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType

import numpy as np
from numba.core.compiler_lock import global_compiler_lock
from numba.core.event import Event, Listener, install_listener

from onboard.assembly.policies import MAPPED, REACTIVE, policy_maker
from onboard.assembly.robot import build_rigs, building_of, lidars_of
from onboard.config.config import Config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.topics import has_compressed_depth
from onboard.drivers.images import compressed
from onboard.navigation import ekf
from onboard.perception import collision, free_ground, point_cloud, scan_fusion, scan_matching
from onboard.perception.building import map_fit, reach
from onboard.perception.scan_fusion import Rig
from onboard.policy.inference import InferenceThread
from onboard.recording import planned_path
from onboard.safety import moving
from onboard.system.signals import Signals
from onboard.values import kernel
from onboard.values.geometry import IDENTITY
from onboard.values.messages import DepthFrame

COMPILE_S = 600.0
"""Timeout for the policy's kernels. On a slow and busy machine they take minutes."""
POLL_S = 0.1
"""Longest time until a signal ends the wait for the compiler."""


def prepare_kernels(config: Config, rigs: Sequence[Rig | None], signals: Signals) -> None:
    """Compile what `config` uses; the first time on a machine this takes half a minute. Raises as `Signals.check`."""
    steps: list[Callable[[], None]] = [partial(warm_kernels, rig) for rig in filter(None, rigs)]
    steps += [collision.warm_up, moving.warm_up, ekf.warm_up, planned_path.warm_up]
    if (lidars := lidars_of(config)).clouds:
        steps.append(partial(point_cloud.warm_up, lidars))
    if has_compressed_depth(config.dds):
        steps.append(compressed.warm_up)
    if config.map.file is not None:
        steps += [reach.warm_up, map_fit.warm_up]
    if config.odometry.scan_matching:
        steps.append(scan_matching.warm_up)
    if config.limits.ground_s > 0.0:
        steps.append(free_ground.warm_up)
    for step in steps:
        with _between_passes(signals), _compiler(signals):
            step()


def compile_all(config: Config, signals: Signals) -> int:
    """Compile what a start with this configuration would compile; return how many kernels were not in the cache.

    The kernels of `reactive`, with a map also those of `mapped`, are compiled for every policy, so that a change of the
    policy needs none later.
    Opens no device and no network. Raises OnboardError for a wrong file, and as `Signals.check`.
    """
    mounts, plant = load_mounts(config.robot.mounts), load_plant(config.robot.plant)
    before, building = kernel.compilations.count, building_of(config)
    without_model = config.policy.driven_by(REACTIVE if building is None else MAPPED)
    make = policy_maker(config.model_copy(update={"policy": without_model}), plant, building)
    with contextlib.closing(InferenceThread(make)) as policy:
        policy.begin()
        prepare_kernels(config, build_rigs(config, mounts), signals)
        policy.start(COMPILE_S)
    return kernel.compilations.count - before


def write_bytecode(modules: Iterable[ModuleType]) -> int:
    """Write the byte code of modules; return for how many there was none.

    Python does so itself, except where PYTHONDONTWRITEBYTECODE is set, as in many containers. A start without it takes
    twice as long. A folder that cannot be written is left as it is.
    """
    written = 0
    for module in modules:
        source = getattr(module, "__file__", None) or ""
        if source.endswith(".py") and Path(source).is_file() and not Path(cache_from_source(source)).exists():
            with contextlib.suppress(OSError):
                written += bool(compileall.compile_file(source, quiet=2))
    return written


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
