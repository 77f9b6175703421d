"""The runtime's loop on real time, in a process of its own: `python loaded_loop.py runtime|asyncio SECONDS FOLDER`.

`runtime`: the assembly's parts without a wire: four cameras of 848x480 and colour, `onboard-v2` in its thread,
the recorder. The goal is far away, and comes again when a drive ends. `asyncio`: a loop of asyncio.sleep at the same
rate, which does nothing. Prints "ready" if it is the runtime, then JSON: the counters' summary, or the lateness [ms].
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from onboard.assembly.assembly import SWITCH_INTERVAL_S, lead_ns
from onboard.assembly.kernels import warm_kernels
from onboard.assembly.policies import policy_maker
from onboard.assembly.robot import build_rigs, robot_of, session_of
from onboard.config.config import Config, PolicySection, RecordSection
from onboard.config.mounts import Mount, Mounts, load_mounts
from onboard.config.plant_model import load_plant
from onboard.counters import Counters
from onboard.navigation.odometry import integrate
from onboard.perception.cliff import floor_view
from onboard.policy.inference import InferenceThread
from onboard.recording.recorder import Recorder
from onboard.recording.tick_writer import TickRecorder
from onboard.runtime import Runtime
from onboard.state import TickRecord
from onboard.system import realtime
from onboard.values.clock import NS_PER_S, Histogram, MonotonicClock
from onboard.values.images import POLICY_HEIGHT, POLICY_WIDTH
from onboard.values.messages import (
    STOP,
    ColorFrame,
    DepthFrame,
    GoalRequest,
    Inputs,
    OdometryMessage,
    Pose,
    Twist,
)

GOAL = Pose(100.0, 0.0, 0.0)
WIDTH, HEIGHT = 848, 480
CAMERA_TICKS = 2
"""Ticks from one image to the next: 15 a second."""


def room(rng: np.random.Generator, mount: Mount) -> np.ndarray:
    """Return a depth image of surfaces 2 to 6 m away on a floor, with 15 % holes, (480, 848) uint16 [mm]."""
    surfaces = np.kron(rng.uniform(2000, 6000, (16, 16)), np.ones((30, 53)))
    seen = np.minimum(surfaces, floor_view(mount, 0.0, 10.0).deepest)
    return np.where(rng.random((HEIGHT, WIDTH)) < 0.15, 0, seen).astype(np.uint16)


class World:
    """Inbox and drive: the wheels follow the commands, and each image is another one."""

    def __init__(self, mounts: Mounts) -> None:
        rng = np.random.default_rng(0)
        self._images = {name: [room(rng, mount) for _ in range(3)] for name, mount in mounts.depth.items()}
        self._color = rng.integers(0, 256, (3, POLICY_HEIGHT, POLICY_WIDTH, 3), dtype=np.uint8)
        self._pose, self._twist, self._heard_ns, self._number = Pose(0.0, 0.0, 0.0), STOP, 0, 0
        self.drives = False

    def take(self, now_ns: int) -> Inputs:
        self._pose = integrate(self._pose, self._twist, (now_ns - self._heard_ns) / NS_PER_S if self._heard_ns else 0.0)
        self._heard_ns, self._number = now_ns, self._number + 1
        shown = self._number // CAMERA_TICKS
        depth = {name: DepthFrame(name, shown, now_ns, images[shown % 3]) for name, images in self._images.items()}
        goals = () if self.drives else (GoalRequest(now_ns, now_ns, "odom", GOAL),)
        return Inputs(
            now_ns=now_ns, depth=depth, color=ColorFrame(shown, now_ns, self._color[shown % 3]),
            odometry=(OdometryMessage(now_ns, now_ns, self._pose, self._twist),), goals=goals,
        )  # fmt: skip

    def tick(self, record: TickRecord, counters: Counters) -> None:
        self.drives = record.state in ("navigating", "recovering")

    def send(self, command: Twist) -> None:
        self._twist = command

    def close(self) -> None:
        self._twist = STOP


def large(mounts: Mounts) -> Mounts:
    """Return the mounts with images of 848x480."""
    depth = {}
    for name, mount in mounts.depth.items():
        factor = WIDTH / mount.width
        intrinsics = {"fx": mount.fx * factor, "fy": mount.fy * factor, "cx": (WIDTH - 1) / 2, "cy": (HEIGHT - 1) / 2}
        depth[name] = replace(mount, width=WIDTH, height=HEIGHT, **intrinsics)
    return replace(mounts, depth=depth)


def runtime(seconds: float, folder: Path) -> dict[str, object]:
    config = Config(record=RecordSection(directory=folder), policy=PolicySection(model="onboard-v2"))
    mounts, plant = large(load_mounts(config.robot.mounts)), load_plant(config.robot.plant)
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(40))  # as the unit
    rigs = build_rigs(config, mounts)
    with contextlib.ExitStack() as held:
        inference = held.enter_context(contextlib.closing(InferenceThread(policy_maker(config, plant))))
        policy = inference.start(600.0)
        for rig in filter(None, rigs):
            warm_kernels(rig)
        clock = held.enter_context(contextlib.closing(MonotonicClock()))
        session = session_of(config)
        recorder = Recorder(config.record, "loop", session, wall_ns=time.time_ns(), now_ns=clock.now_ns())
        held.enter_context(contextlib.closing(recorder))
        ticks, world = TickRecorder(recorder, config.dds, mounts, config.scan.far_m), World(mounts)
        result = realtime.settled(config.rates.core)

        class Recording:
            def tick(self, record: TickRecord, counters: Counters) -> None:
                ticks.record(record)

        loop = Runtime(
            robot_of(config, rigs, plant, policy, None), clock, world, inference, world, (world, Recording())
        )
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        gc.collect()
        gc.freeze()

        async def drive() -> None:
            asyncio.get_running_loop().call_later(seconds, loop.stop)
            await loop.run(lead_ns(config.rates))

        asyncio.run(drive())
        return {**loop.counters.summary(), "realtime": result.values(), "dropped": recorder.stats().dropped}


async def asyncio_ms(seconds: float) -> dict[str, float]:
    histogram, period_s = Histogram(), 1.0 / Config().rates.control_hz
    begun_s = time.monotonic()
    for number in range(1, round(seconds / period_s)):
        deadline_s = begun_s + number * period_s
        await asyncio.sleep(deadline_s - time.monotonic())
        histogram.add(round(abs(time.monotonic() - deadline_s) * NS_PER_S))
    return histogram.summary_ms()


def main() -> None:
    what, seconds, folder = sys.argv[1], float(sys.argv[2]), Path(sys.argv[3])
    result = runtime(seconds, folder) if what == "runtime" else asyncio.run(asyncio_ms(seconds))
    sys.stdout.write(f"{json.dumps(result)}\n")


if __name__ == "__main__":
    main()
