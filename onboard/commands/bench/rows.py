"""What `onboard bench` measures: each row beside a peer of the same run and a budget of the table."""

from __future__ import annotations

import asyncio
import re
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from onboard.assembly.policies import policy_maker, require_engine
from onboard.config.config import Config, ScanSection
from onboard.config.mounts import Mount, load_mounts
from onboard.config.plant_model import load_plant
from onboard.perception.fusion_kernel import lower_ranges, projection_of
from onboard.perception.kernels import fuse_plain, planar
from onboard.policy.inference import blank_observation
from onboard.values.clock import NS_PER_S, Clock, Histogram, MonotonicClock
from onboard.values.geometry import IDENTITY
from onboard.values.images import policy_image
from onboard.values.messages import BINS

BUDGETS = {
    "tick lateness p50": 1.0,
    "tick lateness p99": 2.0,
    "tick lateness p99.9": 5.0,
    "tick lateness max": 33.0,
    "fusion of four 848x480": 10.0,
    "colour resize": 5.0,
    "decision p50": 70.0,
    "decision p99": 70.0,
    "memory": 700.0,
}
"""The largest value of each row that is well, in the row's unit."""
TURN_S = 2.0
"""Duration of a turn: runtime and peer are measured in turns [s]."""
HEIGHT, WIDTH, FOCAL_PX = 480, 848, 424.0
COLOR = (720, 1280, 3)
DECISIONS = 60
CYCLICTEST = "cyclictest"
MB = 1024


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    peer:   the same by other means; ratio: value / peer; both None without a peer
    budget: of `BUDGETS`
    """

    name: str
    value: float
    unit: str
    peer: float | None
    ratio: float | None
    budget: float
    ok: bool
    note: str = ""


def row(name: str, value: float, unit: str, peer: float | None = None, note: str = "") -> Row:
    """Return a row with its budget, ratio and verdict."""
    ratio = round(value / peer, 4) if peer else None
    rounded = None if peer is None else round(peer, 4)
    return Row(name, round(value, 4), unit, rounded, ratio, BUDGETS[name], value <= BUDGETS[name], note)


class AsyncioClock:
    """The peer of the runtime's clock: asyncio's own timer."""

    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep_until(self, deadline_ns: int) -> None:
        await asyncio.sleep(max(0.0, (deadline_ns - time.monotonic_ns()) / NS_PER_S))

    def close(self) -> None:
        pass


async def _count_lateness(clock: Clock, period_ns: int, ticks: int, counted: Histogram) -> None:
    """Add the lateness of each tick to a histogram; a tick that asyncio starts early counts with its distance."""
    deadline_ns = clock.now_ns()
    for _ in range(ticks):
        deadline_ns += period_ns
        await clock.sleep_until(deadline_ns)
        counted.add(abs(clock.now_ns() - deadline_ns))
    clock.close()


def lateness(control_hz: float, seconds: float) -> Iterator[Row]:
    """Yield the lateness of the runtime's clock beside asyncio.sleep, in turns, for `seconds` each [ms]."""
    ours, peer, period_ns = Histogram(), Histogram(), round(NS_PER_S / control_hz)
    ticks = max(1, round(min(seconds, TURN_S) * control_hz))
    for _ in range(max(1, round(seconds * control_hz / ticks))):
        asyncio.run(_count_lateness(MonotonicClock(), period_ns, ticks, ours))
        asyncio.run(_count_lateness(AsyncioClock(), period_ns, ticks, peer))
    for name, fraction in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)):
        values = [histogram.quantile_ns(fraction) / 1e6 for histogram in (ours, peer)]
        yield row(f"tick lateness {name}", values[0], "ms", values[1], f"peer: asyncio.sleep; {ours.count} ticks each")


def cyclictest_max_ms(control_hz: float, seconds: float) -> float | None:
    """Return the largest latency of `cyclictest` at the control rate [ms]; None where it is missing or refuses."""
    program = shutil.which(CYCLICTEST)
    if program is None:
        return None
    every_us, loops = round(1e6 / control_hz), max(1, round(seconds * control_hz))
    command = [program, "-q", "-t1", f"-i{every_us}", f"-l{loops}"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, check=False)
    found = re.search(r"Max:\s*(\d+)", run.stdout)
    return None if run.returncode or found is None else int(found[1]) / 1e3


def _median_ms(call: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        begun_ns = time.monotonic_ns()
        call()
        times.append((time.monotonic_ns() - begun_ns) / 1e6)
    return statistics.median(times)


def _room(rng: np.random.Generator) -> np.ndarray:
    """Return a depth image of smooth surfaces 0.5 to 6 m away, with noise and 15 % holes."""
    surfaces = np.kron(rng.uniform(500, 6000, (16, 16)), np.ones((30, 53)))
    noisy = surfaces * rng.normal(1.0, 0.005, (HEIGHT, WIDTH))
    return np.where(rng.random((HEIGHT, WIDTH)) < 0.15, 0, noisy).astype(np.uint16)


def _fusion(section: ScanSection, mounts: list[Mount]) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return the fusion of four images by the kernel and by its definition; mounts are taken in turn."""
    rng, limits = np.random.default_rng(0), (section.near_m, section.far_m, section.z_min_m, section.z_max_m)
    lens = (FOCAL_PX, FOCAL_PX, (WIDTH - 1) / 2, (HEIGHT - 1) / 2, 0.001)
    images = [_room(rng) for _ in range(4)]
    transforms = [mounts[i % len(mounts)].base_from_camera for i in range(4)]
    none = np.empty((0, 6))
    projections = [projection_of((HEIGHT, WIDTH), *lens, transform, *limits, none) for transform in transforms]

    def kernel() -> None:
        ranges_m = np.full(BINS, np.inf, np.float32)
        for image, projection in zip(images, projections, strict=True):
            lower_ranges(ranges_m, image, projection, planar(IDENTITY))

    def definition() -> None:
        ranges_m = np.full(BINS, np.inf, np.float32)
        for image, transform in zip(images, transforms, strict=True):
            fuse_plain(ranges_m, image, *lens, transform, planar(IDENTITY), *limits, none)

    return kernel, definition


def fusion(config: Config) -> Iterator[Row]:
    """Yield the fusion of four images of a simulated room, seen by the robot's own mounts; none without cameras."""
    mounts = list(load_mounts(config.robot.mounts).depth.values())
    if mounts:
        kernel, definition = _fusion(config.scan, mounts)
        kernel()
        times = _median_ms(kernel, 50), _median_ms(definition, 3)
        yield row("fusion of four 848x480", times[0], "ms", times[1], "peer: its numpy definition")


def resizing() -> Iterator[Row]:
    """Yield the time in which a colour image of a camera gets the policy's size."""
    image = np.random.default_rng(0).integers(0, 256, COLOR, dtype=np.uint8)
    yield row("colour resize", _median_ms(lambda: policy_image(image), 20), "ms", note="1280x720, no peer")


def decisions(config: Config) -> Iterator[Row]:
    """Yield the time of a decision of the configured policy on a blank observation, three a second as on the robot.

    Raises OnboardError if the policy cannot be built.
    """
    require_engine(config)
    policy = policy_maker(config, load_plant(config.robot.plant))()
    try:
        observation, memory, times = blank_observation(), policy.initial_memory(), []
        policy.decide(observation, memory)
        for _ in range(DECISIONS):
            begun_ns = time.monotonic_ns()
            _, memory = policy.decide(observation, memory)
            times.append((time.monotonic_ns() - begun_ns) / 1e6)
            time.sleep(config.rates.ticks_per_decision / config.rates.control_hz / 2)
    finally:
        policy.close()
    for name, percent in (("p50", 50), ("p99", 99)):
        yield row(
            f"decision {name}", float(np.percentile(times, percent)), "ms", note=f"{config.policy.model}, no peer"
        )


def memory() -> Iterator[Row]:
    """Yield the largest resident memory of this process, which held all of the above [MB]."""
    used_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / MB
    yield row("memory", used_mb, "MB", note="largest so far, of this command")
