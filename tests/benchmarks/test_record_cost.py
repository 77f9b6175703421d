"""What recording costs the control path: queueing for the thread, beside a bare deque and beside writing on the spot.

A tick records twelve small messages; a decision, every tenth tick, records four depth images of 848x480 as well.
"""

from __future__ import annotations

import asyncio
import io
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from mcap.writer import Writer

from onboard.config import RecordSection
from onboard.drivers.ros_schema import message_type
from onboard.drivers.ros_types import Image, LaserScan, Twist, to_cdr
from onboard.record import Recorder
from onboard.scheduler import Histogram, MonotonicClock

TICKS = 150
TICK_NS = 33_333_333
TICKS_PER_DECISION = 10
SMALL = 10
CAMERAS = 4

Sink = Callable[[str, Any], object]


def depth_image(seed: int) -> Image:
    """A wall with noise: compresses about as a real depth frame does."""
    wall = np.linspace(800, 4000, 848, dtype=np.float32) + np.random.default_rng(seed).normal(0, 4, (480, 848))
    return Image(height=480, width=848, encoding="16UC1", step=1696, data=wall.astype(np.uint16).tobytes())


async def cost(sink: Sink) -> Histogram:
    """Return how long each tick spent recording, at the control rate."""
    clock, histogram = MonotonicClock(), Histogram()
    images = [(f"/camera{camera}", depth_image(camera)) for camera in range(CAMERAS)]
    small = [(f"/small{number}", Twist()) for number in range(SMALL)]
    small += [(topic, LaserScan(ranges=[1.0] * 180)) for topic in ("/scan", "/scan_limits")]
    deadline_ns = clock.now_ns()
    for tick in range(TICKS):
        deadline_ns += TICK_NS
        await clock.sleep_until(deadline_ns)
        messages = small + images if tick % TICKS_PER_DECISION == 0 else small
        start_ns = time.perf_counter_ns()
        for topic, sample in messages:
            sink(topic, sample)
        histogram.add(time.perf_counter_ns() - start_ns)
    clock.close()
    return histogram


def writing_on_the_spot() -> Sink:
    writer, channels = Writer(io.BytesIO()), dict[str, int]()
    writer.start(profile="ros2")

    def sink(topic: str, sample: Any) -> None:
        if topic not in channels:
            kind = message_type(type(sample))
            schema = writer.register_schema(kind.name, "ros2msg", kind.definition.encode())
            channels[topic] = writer.register_channel(topic, "cdr", schema)
        writer.add_message(channels[topic], 0, to_cdr(sample), 0)

    return sink


def test_queueing_costs_the_tick_less_than_writing_on_the_spot(tmp_path: Path) -> None:
    session = Recorder(RecordSection(directory=tmp_path), "robot", {}, wall_ns=0, now_ns=0)

    def record(topic: str, sample: Any) -> None:
        session.write(topic, message_type(type(sample)), lambda: to_cdr(sample), 0, held_bytes=1000)

    bare: deque[tuple[str, Any]] = deque()
    ours = asyncio.run(cost(record))
    session.close()
    appending = asyncio.run(cost(lambda topic, sample: bare.append((topic, sample))))
    on_the_spot = asyncio.run(cost(writing_on_the_spot()))
    stats = session.stats()
    print(f"\nrecording a tick, ms: ours {ours.summary_ms()}")
    print(f"  a bare deque {appending.summary_ms()}, on the spot {on_the_spot.summary_ms()}")
    print(f"  p99 on the spot / ours {on_the_spot.quantile_ns(0.99) / ours.quantile_ns(0.99):.1f}")
    print(f"  p99 ours / bare deque {ours.quantile_ns(0.99) / appending.quantile_ns(0.99):.1f}")
    print(f"  p99 ours is {100 * ours.quantile_ns(0.99) / TICK_NS:.2f} % of a tick; {stats.bytes / 1e6:.1f} MB written")
    assert stats.dropped == 0
    assert ours.quantile_ns(0.5) < on_the_spot.quantile_ns(0.5)
