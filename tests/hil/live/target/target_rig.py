"""A target within the test's own process: the real runtime over real DDS, in a thread with a loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from threading import Thread

from onboard.assembly.inbox import DeviceInbox
from onboard.assembly.kernels import warm_kernels
from onboard.assembly.robot import build_rigs
from onboard.config.config import Config, DdsSection
from onboard.counters import Counters
from onboard.drivers.dds.camera_input import COLOR, DdsColorCamera, DdsDepthCamera
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.robot_link import DdsDrive, DdsInputs, DdsOutputs
from onboard.policy.inference import InlineInference
from onboard.runtime import Runtime
from onboard.service.image_acks import UsedImages
from onboard.service.publisher import Publisher
from onboard.state import Robot, TickRecord
from onboard.values.clock import MonotonicClock
from onboard.values.interfaces import Policy
from tests.rigs.runtime_bench import MOUNTS, PLANT


class Told:
    """Publishes the ticks, as the runtime's own assembly does without a recording."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    def tick(self, record: TickRecord, counters: Counters) -> None:
        self._publisher.publish(record, counters, list, None)


@contextlib.contextmanager
def target(section: DdsSection, policy: Policy) -> Iterator[Runtime]:
    """Let the default robot be driven over the wire by a policy; `stop` of what is yielded ends it early."""
    config = Config(dds=section)
    rig, _ = build_rigs(config, MOUNTS)
    warm_kernels(rig)
    with contextlib.closing(Wire(section)) as wire, contextlib.closing(MonotonicClock()) as clock:
        depth = [DdsDepthCamera(wire, mount, config.cameras) for mount in MOUNTS.depth.values()]
        color = DdsColorCamera(wire, config.cameras)
        used = UsedImages(wire, "robot", clock, {**{camera.name: camera for camera in depth}, COLOR: color})
        runtime = Runtime(
            Robot(config, rig, None, PLANT, policy.initial_memory(), None),
            clock,
            DeviceInbox(DdsInputs(wire), depth, color),
            InlineInference(policy, clock.now_ns),
            DdsDrive(wire),
            (used, Told(Publisher(DdsOutputs(wire, MOUNTS, "robot", 10.0)))),
        )
        thread = Thread(target=lambda: asyncio.run(runtime.run()), daemon=True)
        thread.start()
        try:
            yield runtime
        finally:
            runtime.stop()
            thread.join()
