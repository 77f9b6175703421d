"""What a decision computes: fusion, colour, engine, and all of them in a row."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from PIL import Image

from onboard.assembly.policies import WITHOUT_MODEL, engine_of, policy_maker, require_engine
from onboard.assembly.robot import build_rigs, building_of
from onboard.commands.bench.rows import Row, duration_ms, median_ms, quantiles, row
from onboard.config.config import Config, ScanSection
from onboard.config.mounts import Mount, load_mounts
from onboard.config.plant_model import load_plant
from onboard.config.pretrained import model_path
from onboard.counters import BUDGET_MS
from onboard.perception.fusion_kernel import lower_ranges, projection_of
from onboard.perception.kernels import NEAR_M, fuse_plain, planar
from onboard.perception.scan_fusion import ScanMemory, fuse
from onboard.policy.inference import blank_observation
from onboard.policy.manifest import load_manifest
from onboard.policy.parity import random_inputs, zero_memory
from onboard.values.geometry import IDENTITY
from onboard.values.images import POLICY_WIDTH, policy_image
from onboard.values.interfaces import Engine
from onboard.values.messages import BINS, ColorFrame, DepthFrame

HEIGHT, WIDTH, FOCAL_PX = 480, 848, 424.0
COLOR = (720, 1280, 3)
DECISIONS = 60
PAUSE_S = 0.1
"""Between decisions, so that threads rest as on the robot."""
BLOCKS, HOLES = 16, 0.15


def room(rng: np.random.Generator, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """Return a depth image of smooth surfaces 0.5 to 6 m away, with noise and 15 % holes."""
    surfaces = rng.uniform(500, 6000, (BLOCKS, BLOCKS))
    rows, columns = np.arange(height) * BLOCKS // height, np.arange(width) * BLOCKS // width
    noisy = surfaces[np.ix_(rows, columns)] * rng.normal(1.0, 0.005, (height, width))
    return np.where(rng.random((height, width)) < HOLES, 0, noisy).astype(np.uint16)


def _fusion(section: ScanSection, mounts: list[Mount]) -> tuple[Callable[[], None], Callable[[], None]]:
    """Return the fusion of four images by the kernel and by its definition; mounts are taken in turn."""
    rng, limits = np.random.default_rng(0), (NEAR_M, section.far_m, section.z_min_m, section.z_max_m)
    lens = (FOCAL_PX, FOCAL_PX, (WIDTH - 1) / 2, (HEIGHT - 1) / 2, 0.001)
    images = [room(rng) for _ in range(4)]
    transforms = [mounts[i % len(mounts)].base_from_camera for i in range(4)]
    rest = np.empty((0, 6)), section.noise_per_m
    projections = [projection_of((HEIGHT, WIDTH), *lens, transform, *limits, *rest) for transform in transforms]

    def kernel() -> None:
        """Fuse the images by the compiled kernel."""
        ranges_m = np.full(BINS, np.inf, np.float32)
        for image, projection in zip(images, projections, strict=True):
            lower_ranges(ranges_m, image, projection, planar(IDENTITY))

    def definition() -> None:
        """Fuse the images by the plain numpy definition."""
        ranges_m = np.full(BINS, np.inf, np.float32)
        for image, transform in zip(images, transforms, strict=True):
            fuse_plain(ranges_m, image, *lens, transform, planar(IDENTITY), *limits, *rest)

    return kernel, definition


def fusion(config: Config) -> Iterator[Row]:
    """Yield the fusion of four images of a simulated room, seen by the robot's own mounts; none without cameras."""
    mounts = list(load_mounts(config.robot.mounts).depth.values())
    if mounts:
        kernel, definition = _fusion(config.scan, mounts)
        kernel()
        times = median_ms(kernel, 50), median_ms(definition, 3)
        yield row("fusion of four 848x480", times[0], "ms", times[1], "peer: its numpy definition")


def resizing() -> Iterator[Row]:
    """Yield the time in which a colour image of a camera gets the policy's size."""
    image = np.random.default_rng(0).integers(0, 256, COLOR, dtype=np.uint8)
    factor = COLOR[1] // POLICY_WIDTH
    times = (
        median_ms(lambda: policy_image(image), 20),
        median_ms(lambda: np.asarray(Image.fromarray(image).reduce(factor)), 20),
    )
    yield row(
        "colour resize", times[0], "ms", times[1], "of 1280x720; peer: Pillow's reduce, off by one in some pixels"
    )


def engine(config: Config) -> Iterator[Row]:
    """Yield the time of the engine alone, compared with default ONNX Runtime; none for a policy without an engine.

    Raises OnboardError if the engine cannot be made.
    """
    if config.policy.model in WITHOUT_MODEL:
        return
    from onboard.drivers.engines.onnx_engine import OnnxEngine

    require_engine(config)
    model = model_path(config.policy.model)
    manifest = load_manifest(model)
    inputs = {**random_inputs(manifest, np.random.default_rng(0)), **zero_memory(manifest)}

    def times_ms(made: Engine) -> list[float]:
        """Return the durations of `DECISIONS` runs [ms], each after a rest, and close the engine."""
        made.warm_up()
        times = [_after_a_rest(lambda: made.run(inputs)) for _ in range(DECISIONS)]
        made.close()
        return times

    threads = os.cpu_count() or 1
    ours, peer = engine_of(config, model, manifest), OnnxEngine(model, threads, spinning=True)
    note = f"{ours.name}; peer: {threads} spinning threads, ONNX Runtime's default"
    yield from quantiles("engine", times_ms(ours), times_ms(peer), note)


def decisions(config: Config) -> Iterator[Row]:
    """Yield the time from images of the robot's cameras to an action: fusion, colour, encoding, policy.

    Then the same while another process keeps one core busy. Raises OnboardError if the policy cannot be built.
    """
    require_engine(config)
    rng, mounts = np.random.default_rng(0), load_mounts(config.robot.mounts)
    rig, _ = build_rigs(config, mounts)
    views = {name: room(rng, view.mount.height, view.mount.width) for name, view in rig.views.items()}
    color = rng.integers(0, 256, COLOR, dtype=np.uint8)
    policy = policy_maker(config, load_plant(config.robot.plant), building_of(config))()
    memory = policy.initial_memory()

    def decide() -> None:
        """Fuse new frames, encode the observation and run the policy; keep its memory."""
        nonlocal memory
        frames = {name: DepthFrame(name, 0, 1, image) for name, image in views.items()}
        scan, _ = fuse(frames, 1, IDENTITY, ScanMemory(), rig)
        seen = replace(blank_observation(), scan=scan, color=ColorFrame(1, 0, policy_image(color)))
        _, memory = policy.decide(seen, memory)

    try:
        decide()
        times = [_after_a_rest(decide) for _ in range(DECISIONS)]
        with _busy_core():
            loaded = [_after_a_rest(decide) for _ in range(DECISIONS)]
    finally:
        policy.close()
    budget_ms, note = BUDGET_MS, f"{config.policy.name}, images of {len(views)} cameras to an action"
    yield from quantiles("decision", times, None, note, budget_ms)
    yield from quantiles("decision, a core busy", loaded, times, "peer: without the busy process", budget_ms)


@contextmanager
def _busy_core() -> Iterator[None]:
    """Keep one core busy with a process of the same priority."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            yield
        finally:
            busy.kill()


def _after_a_rest(call: Callable[[], object]) -> float:
    """Return the duration of a call after `PAUSE_S` of rest [ms]."""
    time.sleep(PAUSE_S)
    return duration_ms(call)
