"""What recording costs: the control path, the writing thread and the disk, with real depth images of four cameras.

The ticks are the runtime's own; their images are real ones (tests/data/realsense-office), 640 pixels wide, with their
mirror image beside them up to 848. The colour image is noise, the worst case. Peers in the same run: nobody recording,
and serialising and writing in the tick.
"""

from __future__ import annotations

import asyncio
import io
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcap.writer import Writer
from PIL import Image

from onboard.assembly.assembly import SWITCH_INTERVAL_S
from onboard.config.config import RecordSection
from onboard.recording.recorder import Message, Recorder
from onboard.recording.tick_writer import TickRecorder
from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S, Histogram, MonotonicClock
from onboard.values.messages import ColorFrame
from tests.rigs.machine.waiting import until
from tests.rigs.runtime_bench import LEFT, MOUNTS, Bench, Puppet

TICKS = 300
TICK_NS = 33_333_333
WIDTH = 848
FRAMES = sorted((Path(__file__).parents[1] / "data/realsense-office").glob("depth_*.png"))

Depth = np.ndarray
Listener = Callable[[TickRecord], object]


def real_images() -> list[Depth]:
    """Return real depth images, (480, 848) uint16 [mm]."""
    images = [np.asarray(Image.open(path)).astype(np.uint16) for path in FRAMES]
    return [np.hstack([image, image[:, ::-1]])[:, :WIDTH].copy() for image in images]


def recorded_ticks() -> list[TickRecord]:
    """Return ten seconds of a drive whose four cameras saw something else in every tick."""
    images = itertools.cycle(real_images())
    rng = np.random.default_rng(1)
    bench = Bench(Puppet(LEFT))
    bench.ask()
    return [_seeing(tick, images, rng) for tick in bench.ticks(TICKS)]


def _seeing(tick: TickRecord, images: Iterable[Depth], rng: np.random.Generator) -> TickRecord:
    views = zip(tick.inputs.depth.items(), images, strict=False)
    depth = {name: replace(frame, depth=image) for (name, frame), image in views}
    color = ColorFrame(tick.slot.number, tick.slot.start_ns, rng.integers(0, 256, (144, 256, 3), dtype=np.uint8))
    return replace(tick, inputs=replace(tick.inputs, depth=depth, color=color))


class OnTheSpot:
    """In place of a recorder: serialises and writes in the tick itself."""

    file_number = waiting = 0

    def __init__(self) -> None:
        self._writer, self._channels = Writer(io.BytesIO()), dict[str, int]()
        self._writer.start(profile="ros2")

    def wall_ns(self, stamp_ns: int) -> int:
        return stamp_ns

    def write_together(self, messages: Iterable[Message], stamp_ns: int, held_bytes: int) -> bool:
        for topic, kind, payload, _ in messages:
            if topic not in self._channels:
                schema = self._writer.register_schema(kind.name, "ros2msg", kind.definition.encode())
                self._channels[topic] = self._writer.register_channel(topic, "cdr", schema)
            data = payload if isinstance(payload, bytes) else payload()
            self._writer.add_message(self._channels[topic], stamp_ns, data, stamp_ns)
        return True


async def cost(ticks: list[TickRecord], listener: Listener) -> Histogram:
    """Return how long each tick spent recording, at the control rate."""
    clock, histogram = MonotonicClock(), Histogram()
    deadline_ns = clock.now_ns()
    for tick in ticks:
        deadline_ns += TICK_NS
        await clock.sleep_until(deadline_ns)
        start_ns = time.perf_counter_ns()
        listener(tick)
        histogram.add(time.perf_counter_ns() - start_ns)
    clock.close()
    return histogram


@pytest.fixture
def switching() -> Any:
    """Let threads give way to the tick as soon as in `onboard run`."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    yield
    sys.setswitchinterval(before)


@pytest.mark.long
@pytest.mark.usefixtures("switching")
def test_recording_costs_the_tick_little_and_the_writer_keeps_up(tmp_path: Path) -> None:
    ticks = recorded_ticks()
    dds = Bench().config.dds
    recorder = Recorder(RecordSection(directory=tmp_path), "robot", {}, wall_ns=NS_PER_S, now_ns=NS_PER_S)
    nobody = asyncio.run(cost(ticks, lambda tick: None))
    listening, waiting = TickRecorder(recorder, dds, MOUNTS, 10.0), []

    def record(tick: TickRecord) -> None:
        listening.record(tick)
        waiting.append(recorder.waiting)

    (thread,) = (one for one in threading.enumerate() if one.name == "recorder")
    ours = asyncio.run(cost(ticks, record))
    until(lambda: recorder.waiting == 0)
    writing_s = time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    recorder.close()
    spot = TickRecorder(OnTheSpot(), dds, MOUNTS, 10.0)  # type: ignore[arg-type]  # stands in for a recorder
    on_the_spot = asyncio.run(cost(ticks, spot.record))

    stats, minutes = recorder.stats(), TICKS * TICK_NS / NS_PER_S / 60
    decisions = [tick for tick in ticks if tick.sensed is not None]
    images = sum(f.depth.nbytes for tick in decisions for f in tick.inputs.depth.values())
    images += sum(tick.inputs.color.image.nbytes for tick in decisions if tick.inputs.color)
    print(f"\nrecording a tick, ms: nobody {nobody.summary_ms()}")
    print(f"  ours {ours.summary_ms()}, on the spot {on_the_spot.summary_ms()}")
    print(f"  p99 on the spot / ours {on_the_spot.quantile_ns(0.99) / ours.quantile_ns(0.99):.1f}")
    added_ns = ours.quantile_ns(0.99) - nobody.quantile_ns(0.99)
    print(f"  p99 ours - nobody is {100 * added_ns / TICK_NS:.2f} % of a tick")
    print(f"four cameras of 848x480 and colour, {len(decisions) / minutes / 60:.1f} decisions/s:")
    print(f"  {stats.bytes / 1e6 / minutes:.0f} MB a minute, images {images / stats.bytes:.2f} times as large")
    share = 100 * writing_s / (minutes * 60)
    print(f"  writing thread {share:.0f} % of a core, at most {max(waiting)} ticks waiting")
    assert (stats.dropped, stats.stopped) == (0, "")
    assert ours.quantile_ns(0.5) < on_the_spot.quantile_ns(0.5)
