"""Drives towards an obstacle that cameras see from afar and not near by: the robot stops before it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from onboard.assembly.robot import build_rigs
from onboard.config.config import Config
from onboard.config.mounts import Mount
from onboard.perception.obstacle_memory import BRIEF_NS
from onboard.policy.contract import ACTIONS
from onboard.values.messages import Inputs, Pose, Twist
from tests.rigs import runtime_bench
from tests.rigs.runtime_bench import MOUNTS, Bench, Puppet, commands

RADIUS_M = Config().robot.footprint.reach_m
POST_M, LOW_M, TALL_M = 0.04, 0.25, 2.0
"""Half the post's width, and the heights of a low one and a tall one."""
WALL_MM = 4000


def image_of(camera: Mount, pose: Pose, post: tuple[float, float], height_m: float, least_m: float) -> np.ndarray:
    """Return a depth image of a post before a far wall; 0 below the camera's minimum distance."""
    c, s = math.cos(pose.yaw_rad), math.sin(pose.yaw_rad)
    dx, dy = post[0] - pose.x_m, post[1] - pose.y_m
    away = np.array([c * dx + s * dy, c * dy - s * dx]) - camera.base_from_camera[:2, 3]
    v, u = np.indices((camera.height, camera.width)).reshape(2, -1)
    optical = np.stack([(u - camera.cx) / camera.fx, (v - camera.cy) / camera.fy, np.ones(u.size)])
    rays = camera.base_from_camera[:3, :3] @ optical
    depth_m = (rays[:2] * away[:, None]).sum(0) / (rays[:2] ** 2).sum(0)
    aside_m = np.hypot(*(away[:, None] - depth_m * rays[:2]))
    z_m = camera.base_from_camera[2, 3] + depth_m * rays[2]
    hit = (aside_m <= POST_M) & (depth_m > 0.0) & (z_m <= height_m) & (z_m >= 0.0)
    seen_mm = np.where(depth_m >= least_m, depth_m * 1000.0, 0.0)
    return np.where(hit, seen_mm, WALL_MM).astype(np.uint16).reshape(camera.height, camera.width)


def nearest_m(
    bench: Bench, post: tuple[float, float], height_m: float, least_m: float, seconds: float = 12.0
) -> tuple[float, float]:
    """Return the least distance from footprint to post on a drive, and the highest speed within 0.1 m of it."""
    gaps, speeds = [], []
    bench.ask(30.0, 0.0)
    for _ in range(round(30.0 * seconds)):
        bench.images.update(
            {name: image_of(one, bench.pose, post, height_m, least_m) for name, one in MOUNTS.depth.items()}
        )
        (command,) = commands(bench.ticks(1))
        gaps.append(math.hypot(post[0] - bench.pose.x_m, post[1] - bench.pose.y_m) - RADIUS_M - POST_M)
        speeds.append(command.v_mps if gaps[-1] < 0.1 else 0.0)
    return min(gaps), max(speeds)


def bench_of(monkeypatch: pytest.MonkeyPatch, least_m: float, twist: Twist) -> Bench:
    depth = {name: replace(one, least_m=least_m) for name, one in MOUNTS.depth.items()}
    rigs = build_rigs(Config(), replace(MOUNTS, depth=depth))
    monkeypatch.setattr(runtime_bench, "rigs_of", lambda _: rigs)
    return Bench(Puppet(ACTIONS.index(twist)), recovery={"blocked_s": 60.0})


def false_pixels(rate_hz: float, seed: int) -> Callable[[Inputs], Inputs]:
    """Return a function that adds a pixel of 0.15 to 0.5 m to an image ahead, on average `rate_hz` times a second."""
    rng = np.random.default_rng(seed)

    def alter(inputs: Inputs) -> Inputs:
        if rng.random() >= rate_hz / 30.0:
            return inputs
        name = rng.choice(["front", "front_left", "front_right"])
        frame = inputs.depth[name]
        depth = frame.depth.copy()
        depth[rng.integers(depth.shape[0]), rng.integers(depth.shape[1])] = rng.integers(150, 500)
        return replace(inputs, depth={**inputs.depth, name: replace(frame, depth=depth)})

    return alter


@pytest.mark.parametrize("height_m", [TALL_M, LOW_M], ids=["tall", "low, a wall behind it"])
@pytest.mark.parametrize("speed_mps", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("least_m", [0.1, 0.17, 0.28, 0.52])
def test_it_stops_before_an_obstacle_below_the_minimum_range(
    monkeypatch: pytest.MonkeyPatch, least_m: float, speed_mps: float, height_m: float
) -> None:
    bench = bench_of(monkeypatch, least_m, Twist(speed_mps, 0.0))
    gap_m, near_mps = nearest_m(bench, (2.0, 0.0), height_m, least_m)
    assert gap_m > 0.0
    assert near_mps <= 0.4, "it can stop within the tenth of a metre, less the margin"


#   twist              a post that one camera sees first
ARCS = [
    (Twist(1.0, 1.0),  (1.23, 1.03)),
    (Twist(1.0, 2.0),  (0.64, 0.77)),
    (Twist(0.6, 1.0),  (0.75, 0.27)),
    (Twist(0.6, 1.0),  (0.82, 0.57)),
]  # fmt: skip


@pytest.mark.parametrize(("twist", "post"), ARCS)
def test_on_an_arc_it_does_not_hit_an_obstacle_between_two_views(
    monkeypatch: pytest.MonkeyPatch, twist: Twist, post: tuple[float, float]
) -> None:
    gap_m, _ = nearest_m(bench_of(monkeypatch, 0.1, twist), post, TALL_M, 0.1, seconds=12.5)
    assert gap_m > 0.0


@pytest.mark.parametrize("rate_hz", [1.0, 4.0])
def test_false_pixels_do_not_hold_the_robot(rate_hz: float) -> None:
    """A memory without evidence stopped the robot for a third of the time at four pixels a second."""
    bench = Bench()
    bench.alter = false_pixels(rate_hz, seed=1)
    bench.ask(90.0, 0.0)
    ticks = bench.seconds(40.0)
    assert np.mean([command.v_mps == 0.0 for command in commands(ticks)]) < 0.02
    assert bench.runtime.counters.recoveries == 0


def seconds_to_go_on(bench: Bench, most_s: float) -> float:
    """Return the time until the robot drives again [s]; inf if it gives up or needs more than `most_s`."""
    for tick in range(round(30.0 * most_s)):
        record = bench.tick()
        if record.state.startswith("stopped"):
            break
        if record.command.v_mps > 0.3:
            return tick / 30.0
    return math.inf


#   what                            rows, columns                      depth [mm], for ticks   it goes on within [s]
GONE = [
    ("one pixel in one image",      (slice(30, 31), slice(40, 41)),    130, 1,                 1.5),
    ("a hand for a second",         (slice(None), slice(20, 60)),      150, 30,                BRIEF_NS / 1e9 + 1.0),
]  # fmt: skip


@pytest.mark.parametrize("behind", ["nobody looks", "a wall"])
@pytest.mark.parametrize(("what", "where", "depth_mm", "ticks", "within_s"), GONE, ids=[row[0] for row in GONE])
def test_it_goes_on_after_a_brief_obstacle_without_backing_off(
    behind: str, what: str, where: tuple[slice, slice], depth_mm: int, ticks: int, within_s: float
) -> None:
    bench = Bench()
    if behind == "a wall":
        bench.wall("rear", 500)
    else:
        del bench.images["rear"]
    bench.ask(50.0, 0.0)
    bench.seconds(3.0)
    free = bench.images["front"]
    spoilt = free.copy()
    spoilt[where] = depth_mm
    bench.images["front"] = spoilt
    bench.tick(ticks)
    bench.images["front"] = free
    assert seconds_to_go_on(bench, 15.0) <= within_s
