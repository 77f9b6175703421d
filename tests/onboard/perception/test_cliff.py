"""Cliff detection: definition of a drop, real floors without alarm, simulated stairs, and drives at them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from hil.drive.robot import Senses, SimulatedRobot
from hil.maps.load import load_map
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import free_space
from hil.scene.furniture import furnish
from hil.sensors.camera import rays_of, render_depth
from hil.sensors.depth_noise import load_depth_noise
from onboard.config.config import Config, load_config
from onboard.config.footprint import Footprint
from onboard.config.mounts import Mount
from onboard.perception.cliff import NO_FLOOR, REACH_M, SLOPE, TOUCHING_M, floor_view, lower_to_drops
from onboard.perception.collision import free_behind_m, obstacles, travel_m
from onboard.perception.scan_fusion import Rig, ScanMemory, build_rig, fuse
from onboard.policy.contract import ACTIONS
from onboard.policy.dwa.dynamic_window import ReactivePolicy
from onboard.values.geometry import IDENTITY, inverse
from onboard.values.messages import BINS, DepthFrame, Pose, Scan, Twist
from tests.onboard.perception.test_scan_fusion import CX_PX, CY_PX, F_PX, FRAMES, floor_plane, mount_over
from tests.rigs.fusion.scan_rigs import frame
from tests.rigs.fusion.stairs import stairs_down, to_drop_m
from tests.rigs.in_process import InProcess
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT, Puppet

CONFIG = load_config(None)
DROP_M = CONFIG.scan.drop_m
RIG = build_rig(MOUNTS, CONFIG.scan)
FRONT = MOUNTS.depth["front"]
HALL = room(9.0, 6.0)
EDGE_M = 5.0
STAIRS = stairs_down(HALL, Pose(EDGE_M, 3.0, 0.0), width_m=4.0)
FASTEST = ACTIONS.index(max(ACTIONS, key=lambda twist: (twist.v_mps, -abs(twist.w_radps))))


def flat(mount: Mount, floor_m: float, rising: float = 0.0) -> np.ndarray:
    """Return the image of a floor at height `floor_m` that rises by `rising` on each metre ahead."""
    v, u = np.indices((mount.height, mount.width))
    rays = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)], axis=-1)
    rays = rays @ mount.base_from_camera[:3, :3].T
    x_m, _, z_m = mount.base_from_camera[:3, 3]
    towards = rays[..., 2] - rising * rays[..., 0]
    with np.errstate(divide="ignore"):
        forward = (floor_m + rising * x_m - z_m) / towards
    seen = (towards < 0.0) & (forward < 10.0)
    return (np.where(seen, forward, 0.0) / mount.depth_scale_m).round().astype(np.uint16)


def ranges_of(mount: Mount, image: np.ndarray, drop_m: float = DROP_M) -> np.ndarray:
    floor = floor_view(mount, drop_m, 10.0)
    ranges_m = np.full(BINS, np.inf, np.float32)
    lower_to_drops(ranges_m, image, floor, IDENTITY)
    return ranges_m


#   what lies there                          height, rise on a metre   a drop
FLOORS = [
    ("the floor itself",                        0.0,    0.0,   False),
    ("a carpet's edge",                        -0.03,   0.0,   False),
    ("a base that sits 5 cm too high",         -0.05,   0.0,   False),
    ("a base that nods by 2 degrees",           0.0,   -0.035, False),
    ("a ramp of 1:12 that begins at the base",  0.0,   -1 / 12, False),
    ("an ordinary step",                       -0.17,   0.0,   True),
    ("a dock",                                 -1.2,    0.0,   True),
    ("a slope that none drives down",           0.0,   -0.5,   True),
]  # fmt: skip


@pytest.mark.parametrize(("what", "floor_m", "rising", "drop"), FLOORS)
def test_what_is_a_drop(what: str, floor_m: float, rising: float, drop: bool) -> None:
    assert np.isfinite(ranges_of(FRONT, flat(FRONT, floor_m, rising))).any() == drop


def test_pixels_without_return_are_no_drop() -> None:
    assert np.isinf(ranges_of(FRONT, np.zeros((FRONT.height, FRONT.width), np.uint16))).all()


def test_returns_beyond_the_range_are_no_drop() -> None:
    floor = floor_view(FRONT, DROP_M, 1.0)
    ranges_m = np.full(BINS, np.inf, np.float32)
    lower_to_drops(ranges_m, np.full((FRONT.height, FRONT.width), 5000, np.uint16), floor, IDENTITY)
    assert np.isinf(ranges_m).all()


def test_a_few_wrong_returns_are_no_drop() -> None:
    deep, floor = flat(FRONT, -1.0), floor_view(FRONT, DROP_M, 10.0)
    missing = np.argwhere((deep > floor.deepest) & (deep > 0))
    few = np.zeros_like(deep)
    for v, u in missing[: floor.support - 1]:
        few[v, u] = deep[v, u]
    assert np.isinf(ranges_of(FRONT, few)).all()


def test_it_is_switched_off_by_zero() -> None:
    section = CONFIG.scan.model_copy(update={"drop_m": 0.0})
    assert all(view.floor is None for view in build_rig(MOUNTS, section).views.values())
    assert (seen_from(STAIRS, Pose(4.0, 3.0, 0.0), build_rig(MOUNTS, section))[80:100] > 4.9).all(), "the far wall"


@given(st.floats(0.05, 1.5), st.floats(-0.4, 1.2), st.floats(0.02, 0.3))
def test_law_a_floor_where_it_belongs_is_never_a_drop(up_m: float, pitch_rad: float, drop_m: float) -> None:
    mount = mount_over(np.array([0.0, -math.cos(pitch_rad), -math.sin(pitch_rad)]), up_m)
    mount = replace(mount, width=80, height=60, fx=48.0, fy=48.0, cx=40.0, cy=30.0)
    assert np.isinf(ranges_of(mount, flat(mount, 0.0), drop_m)).all()


@given(st.floats(-0.4, 1.2), st.floats(0.1, 1.5))
def test_law_a_drop_lies_below_drop_and_slope_and_its_place_on_the_floor(pitch_rad: float, up_m: float) -> None:
    """The definition: the deepest valid floor of each pixel, and the place where the floor is missing."""
    mount = mount_over(np.array([0.0, -math.cos(pitch_rad), -math.sin(pitch_rad)]), up_m)
    mount = replace(mount, width=80, height=60, fx=48.0, fy=48.0, cx=40.0, cy=30.0)
    floor = floor_view(mount, DROP_M, 10.0)
    v, u = np.nonzero(floor.deepest != NO_FLOOR)
    forward = (floor.deepest[v, u] + 1.0) * mount.depth_scale_m
    rays = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)], axis=-1)
    points = forward[:, None] * rays @ mount.base_from_camera[:3, :3].T
    away_m = np.hypot(points[:, 0], points[:, 1])
    assert (points[:, 2] + up_m <= -(DROP_M + SLOPE * away_m) + 1e-6).all()
    crossing_m = away_m * up_m / -points[:, 2]
    assert (crossing_m <= REACH_M + 1e-6).all()
    assert (floor.away_m[v, u] <= crossing_m + 1e-5).all()


@pytest.mark.parametrize("path", FRAMES, ids=lambda path: path.stem)
@pytest.mark.parametrize("tilt_deg", [-3.0, 0.0, 3.0])
def test_real_floors_are_there(path: Path, tilt_deg: float) -> None:
    """Real frames with true mounts and mounts that are wrong by three degrees: no false alarm."""
    depth = np.asarray(Image.open(path)).astype(np.uint16)
    v, u = np.nonzero(depth)
    z = depth[v, u] * 0.001
    points = np.stack([(u - CX_PX) / F_PX * z, (v - CY_PX) / F_PX * z, z], axis=1)
    up, height = floor_plane(points[(v > CY_PX) & (z < 4.0)], np.random.default_rng(0))
    c, s = math.cos(math.radians(tilt_deg)), math.sin(math.radians(tilt_deg))
    mount = mount_over(np.array([[1.0, 0, 0], [0, c, -s], [0, s, c]]) @ up, height)
    assert np.isinf(ranges_of(mount, depth)).all()


def seen_from(world: World, pose: Pose, rig: Rig = RIG) -> np.ndarray:
    frames = {
        name: DepthFrame(name, 1, 0, render_depth(world, rays_of(mount), pose)) for name, mount in MOUNTS.depth.items()
    }
    return fuse(frames, 0, IDENTITY, ScanMemory(), rig)[0].ranges_m


@pytest.mark.parametrize(("name", "noisy"), [("gdc1", False), ("gdc1", True), ("ahg2", True), ("willow", True)])
def test_floors_of_the_world_are_there(name: str, noisy: bool) -> None:
    """With the noise and holes of real depth images, among furniture: no false alarm."""
    world = furnish(load_map(name), 1)
    standing, rng = np.argwhere(free_space(world, Body()).standing), np.random.default_rng(1)
    noise = load_depth_noise()
    for place, (row, column) in enumerate(standing[rng.integers(len(standing), size=40)]):
        pose = Pose(*world.centre_of((int(row), int(column))), float(rng.uniform(-3.1, 3.1)))
        for number, (camera, mount) in enumerate(MOUNTS.depth.items()):
            image = render_depth(world, rays_of(mount), pose)
            if noisy:
                image = noise.apply(image, mount.fx, mount.depth_scale_m, (1, number, place))
            assert np.isinf(ranges_of(mount, image)).all(), (camera, pose)


#   what lies there                        seen from
DROPS = [
    ("stairs", {}, 1.3),
    ("one step", {"steps": 1, "run_m": 3.0}, 0.9),
    ("a dock", {"steps": 1, "run_m": 3.0, "rise_m": 1.2}, 1.3),
]


@pytest.mark.parametrize(("what", "made", "from_m"), DROPS, ids=[what for what, _, _ in DROPS])
@pytest.mark.parametrize("yaw_deg", [0, 30, 60, 90, 180, 270, 330])
def test_a_drop_is_an_obstacle_wherever_a_camera_looks(what: str, made: dict, from_m: float, yaw_deg: int) -> None:
    world = stairs_down(HALL, Pose(EDGE_M, 3.0, 0.0), width_m=4.0, **made)
    towards = (BINS // 2 - yaw_deg // 2 + np.arange(-3, 3)) % BINS
    for away_m in np.arange(0.6, from_m + 0.01, 0.1):
        found_m = seen_from(world, Pose(EDGE_M - away_m, 3.0, math.radians(yaw_deg)))[towards].min()
        assert found_m == pytest.approx(away_m, abs=0.12), away_m


@pytest.mark.parametrize("yaw_deg", [0, 70, 180, 290])
def test_an_edge_nearer_than_the_visible_floor_counts_as_touching(yaw_deg: int) -> None:
    """The edge is no longer visible: the robot cannot go there, but is free to go away."""
    seen_m = seen_from(STAIRS, Pose(EDGE_M - 0.3, 3.0, math.radians(yaw_deg)))
    assert seen_m[(BINS // 2 - yaw_deg // 2) % BINS] == pytest.approx(TOUCHING_M)
    points = obstacles(Scan(0, seen_m, np.ones(BINS, np.bool_)))
    c, s = math.cos(math.radians(yaw_deg)), math.sin(math.radians(yaw_deg))
    towards = points @ np.array([[c, s], [-s, c]])
    assert travel_m(towards, Twist(1.0, 0.0), Footprint(0.3)) == 0.0
    assert travel_m(towards, Twist(-1.0, 0.0), Footprint(0.3)) > 0.5


@pytest.mark.parametrize(("x_m", "yaw_deg"), [(0.0, 0), (0.2, 0), (0.0, 40), (-0.1, -90)])
def test_a_drop_moves_with_the_base_since_it_was_captured(x_m: float, yaw_deg: int) -> None:
    image = render_depth(STAIRS, rays_of(FRONT), Pose(EDGE_M - 1.0, 3.0, 0.0))
    ranges_m, floor = np.full(BINS, np.inf, np.float32), floor_view(FRONT, DROP_M, 10.0)
    lower_to_drops(ranges_m, image, floor, inverse(Pose(x_m, 0.0, math.radians(yaw_deg))))
    towards = (BINS // 2 - yaw_deg // 2 + np.arange(-3, 3)) % BINS
    assert ranges_m[towards].min() == pytest.approx(1.0 - x_m, abs=0.12)


def test_the_way_back_ends_before_a_drop() -> None:
    frames = {"rear": frame("rear", render_depth(STAIRS, rays_of(MOUNTS.depth["rear"]), Pose(4.3, 3.0, math.pi)))}
    scan, _ = fuse(frames, 1, IDENTITY, ScanMemory(), RIG)
    assert free_behind_m(scan, np.empty((0, 2)), Footprint(0.3)) == pytest.approx(0.4, abs=0.1)


#   who drives                at stairs at an angle of [deg], edge's middle 5 m ahead
DRIVERS = [("full speed ahead", 0), ("full speed ahead", 25), ("reactive", 0)]


def driven(who: str, angle_deg: float, config: Config = CONFIG) -> tuple[float, set[str]]:
    """Return the least distance from footprint to edge [m] and the limits' reasons, in a drive at stairs."""
    world = stairs_down(HALL, Pose(EDGE_M, 3.0, math.radians(angle_deg)), width_m=4.5)
    policy = Puppet(FASTEST) if who != "reactive" else ReactivePolicy(PLANT, config.robot, config.rates, config.goal)
    mounts = replace(MOUNTS, color={})
    robot = SimulatedRobot(world, PLANT, Body(), mounts, Pose(1.0, 3.0, 0.0), Senses(seed=3, depth_noise=True))
    nearest_m = math.inf

    class Watch:
        def tick(self, record: object, counters: object) -> None:
            nonlocal nearest_m
            nearest_m = min(nearest_m, to_drop_m(world, robot.state.pose))

    drive = InProcess(config, mounts, PLANT, robot, policy, (Watch(),))
    ticks = drive.drive_to(Pose(8.5, 3.0, 0.0), limit_s=12.0).ticks
    return nearest_m - config.robot.footprint.reach_m, {tick.reason for tick in ticks}


@pytest.mark.parametrize(("who", "angle_deg"), DRIVERS)
def test_no_drive_ends_on_the_stairs(who: str, angle_deg: float) -> None:
    nearest_m, reasons = driven(who, angle_deg)
    assert nearest_m > 0.0
    assert who == "reactive" or {"zone_stop", "zone_slow", "time_to_contact"} & reasons


def test_without_cliff_detection_the_robot_falls() -> None:
    blind = CONFIG.model_copy(update={"scan": CONFIG.scan.model_copy(update={"drop_m": 0.0})})
    nearest_m, _ = driven("full speed ahead", 0, blind)
    assert nearest_m < -0.2


def test_a_step_is_as_deep_as_it_is_wide_and_a_floor_below_is_hidden_by_the_edge() -> None:
    """Rays straight down meet each tread in turn."""
    world = stairs_down(HALL, Pose(EDGE_M, 3.0, 0.0), width_m=4.0, steps=3)
    down = np.eye(4)
    down[:3, :3], down[2, 3] = [[0.0, -1, 0], [-1, 0, 0], [0, 0, -1]], 1.0
    lens = replace(FRONT, width=1, height=1, cx=0.0, cy=0.0, base_from_camera=down)
    for along_m, expected_m in [(-0.1, 1.0), (0.1, 1.17), (0.4, 1.34), (0.7, 1.51), (1.0, 1.0)]:
        assert metres(world, lens, Pose(EDGE_M + along_m, 3.0, 0.0)) == pytest.approx(expected_m, abs=0.001), along_m
    assert to_drop_m(world, Pose(EDGE_M - 1.0, 3.0, 0.0)) == pytest.approx(1.0, abs=0.03)
    assert to_drop_m(world, Pose(EDGE_M + 0.1, 3.0, 0.0)) == 0.0
    assert to_drop_m(HALL, Pose(EDGE_M, 3.0, 0.0)) == math.inf


def metres(world: World, mount: Mount, pose: Pose) -> float:
    return float(render_depth(world, rays_of(mount), pose)[0, 0] * mount.depth_scale_m)
