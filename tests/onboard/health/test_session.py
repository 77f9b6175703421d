"""The checks of a session: floor of an image, overlap of cameras, response, wheels; the thread beside a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

from hil.maps.world_grid import World
from hil.sensors.camera import rays_of, render_depth
from hil.sensors.depth_noise import load_depth_noise
from onboard.config.config import CamerasSection
from onboard.config.mounts import Mount, Mounts
from onboard.config.plant_model import Plant, step_axis
from onboard.drivers.realsense.cameras import check_cameras
from onboard.drivers.realsense.device import Device, Source
from onboard.health.floor import floor
from onboard.health.gatherer import Gatherer, TickExcerpt
from onboard.health.monitor import Monitor
from onboard.health.session import Session, response
from onboard.health.verdict import OK, RECALIBRATE, WATCH, Check, Health
from onboard.values.errors import ConfigError, DriverError, InputError
from onboard.values.messages import DepthFrame, Pose
from tests.calib.wheels.sessions import CONFIG, hall, slower, tilted
from tests.rigs.rooms import room, with_box
from tests.rigs.runtime_bench import MOUNTS, PLANT

NOISE = load_depth_noise()
PLACES = [Pose(1.0 + 0.7 * k, 1.2, 0.9 * k) for k in range(7)]


def seen(world: World, mount: Mount, pose: Pose, seed: int = 0) -> np.ndarray:
    return NOISE.apply(render_depth(world, rays_of(mount), pose), mount.fx, mount.depth_scale_m, (seed, 0, 0))


def looked(
    true: Mounts, believed: Mounts = MOUNTS, world: World | None = None, plant: Plant = PLANT, times: int = 3
) -> Health:
    """Return the health of a robot that looks around at some places."""
    session, world = Session(CONFIG, believed, plant), world or hall()
    for number, pose in enumerate(PLACES * times):
        pose = replace(pose, yaw_rad=pose.yaw_rad + 0.31 * number)
        images = {name: seen(world, mount, pose, number) for name, mount in true.depth.items()}
        session.take(TickExcerpt(frames={name: DepthFrame(name, number, 0, image) for name, image in images.items()}))
    return session.health()


def named(health: Health) -> dict[str, Check]:
    return {check.name: check for check in health.checks}


# ---- the floor


@pytest.mark.parametrize("camera", ["front", "front_left", "rear"])
@pytest.mark.parametrize("angle_deg", [-3.0, 0.0, 1.5])
def test_the_floor_tells_the_tilt_of_a_camera(camera: str, angle_deg: float) -> None:
    true = tilted(camera, "y", angle_deg).depth[camera]
    found = [floor(seen(hall(), true, pose, k), MOUNTS.depth[camera]) for k, pose in enumerate(PLACES)]
    x, y, lift_m = np.median([one for one in found if one is not None], axis=0)
    assert math.degrees(math.hypot(x, y)) == pytest.approx(abs(angle_deg), abs=0.3)
    assert math.degrees(x) == pytest.approx(-angle_deg, abs=0.3)
    assert lift_m == pytest.approx(0.0, abs=0.01)


def test_the_floor_tells_the_height_of_a_camera() -> None:
    believed = MOUNTS.depth["front"]
    moved = believed.base_from_camera.copy()
    moved[2, 3] += 0.04
    found = floor(seen(hall(), replace(believed, base_from_camera=moved), PLACES[0]), believed)
    assert found is not None
    assert found[2] == pytest.approx(0.04, abs=0.01)


def test_no_floor_is_found_in_a_wall_or_in_nothing() -> None:
    mount = MOUNTS.depth["front"]
    facing = with_box(room(4.0, 4.0), (1.3, 1.4), (0.0, 4.0), (0.0, 2.0))
    assert floor(seen(facing, mount, Pose(1.0, 2.0, 0.0)), mount) is None
    assert floor(np.zeros((mount.height, mount.width), np.uint16), mount) is None


def test_the_camera_that_moved_is_named_and_no_other() -> None:
    health = looked(tilted("front_left", "x", 3.0))
    assert health.verdict == RECALIBRATE
    assert {name for name, one in named(health).items() if one.verdict != OK} == {"front_left tilt"}
    assert "front_left tilt" in health.message
    assert looked(MOUNTS).verdict == OK


@pytest.mark.parametrize("angle_deg", [12.0, 17.0])
def test_a_camera_that_lost_sight_of_the_floor_is_watched(angle_deg: float) -> None:
    health = looked(tilted("front", "y", angle_deg), times=5)
    assert health.verdict == WATCH
    assert set(health.missed) == {"front floor"}
    assert "front floor seen in 0 of 35 images" in health.message
    assert health.plain()["missed"] == dict(health.missed)
    assert looked(tilted("front", "y", angle_deg), times=4).verdict == OK, "too few images"
    assert not looked(MOUNTS, times=5).missed


def test_a_long_run_with_the_floor_in_sight_misses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onboard.health.session.floor", lambda image, mount: (0.0, 0.0, 0.0))
    session = Session(CONFIG, MOUNTS, PLANT)
    mount = MOUNTS.depth["front"]
    image = np.full((mount.height, mount.width), 2000, np.uint16)
    for number in range(3100):
        session.take(TickExcerpt(frames={"front": DepthFrame("front", number, 0, image)}))
    assert not session.health().missed


def test_the_calibrations_own_covariance_sets_the_limits() -> None:
    def stated(sd_deg: float) -> Mounts:
        cameras = {name: replace(one, sd_deg=(sd_deg,) * 3, sd_m=(0.001,) * 3) for name, one in MOUNTS.depth.items()}
        return replace(MOUNTS, depth=cameras)

    true = tilted("front", "y", 1.3)
    assert named(looked(true, stated(0.03)))["front tilt"].verdict == RECALIBRATE
    assert named(looked(true, stated(0.3)))["front tilt"].verdict == OK
    assert named(looked(true))["front tilt"].verdict == WATCH


def beside(left_deg: float, right_deg: float) -> Mounts:
    """Return two front cameras that look to the left and to the right."""
    sides = {"left": left_deg, "right": right_deg}
    cameras = {name: replace(tilted("front", "z", angle).depth["front"], name=name) for name, angle in sides.items()}
    return Mounts(MOUNTS.path, cameras, {})


def test_cameras_that_overlap_must_agree() -> None:
    believed = beside(20.0, -20.0)
    honest = named(looked(believed, believed))["left and right"]
    assert honest.verdict == OK
    moved = believed.depth["left"].base_from_camera.copy()
    moved[:3, 3] += 0.2 * moved[:3, 2]  # 20 cm ahead of where the mounts place it
    true = replace(believed, depth={**believed.depth, "left": replace(believed.depth["left"], base_from_camera=moved)})
    found = named(looked(true, believed))["left and right"]
    assert found.verdict != OK
    assert found.value == pytest.approx(-0.2, abs=0.08)


# ---- the response


def driven(
    plant: Plant, seed: int, seconds: float = 60.0, sd: float = 0.02
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return times, commands and speeds of the linear axis under steps of the command."""
    rng = np.random.default_rng(seed)
    t_s = np.arange(round(seconds * 30)) / 30
    commands = np.repeat(rng.uniform(0.0, 0.9, len(t_s) // 40 + 1), 40)[: len(t_s)]
    speeds, speed, rate = np.zeros(len(t_s)), 0.0, 0.0
    for k in range(1, len(t_s)):
        speed, rate = step_axis(commands[k - 1], speed, rate, plant.linear.as_array(), 1 / 30)
        speeds[k] = speed
    return t_s, commands, speeds + rng.normal(0.0, sd, len(t_s))


@pytest.mark.parametrize("ratio", [0.7, 0.9, 1.0, 1.25])
def test_the_response_is_measured_against_the_plant(ratio: float) -> None:
    for seed in range(3):
        found = response(*driven(slower(ratio), seed), PLANT.linear, 0.0, 0.2)
        assert found is not None
        assert found[0] == pytest.approx(ratio - 1.0, abs=0.05)
        assert found[1] < 0.03


# ---- the wheels


def places(factor: float, turn_factor: float, seed: int, sd: tuple[float, float] = (0.03, 0.05)) -> TickExcerpt:
    """Return fixes along circles to both sides; the wheels report `factor` times the way."""
    rng, part = np.random.default_rng(seed), TickExcerpt()
    true, wheels, way_m, turn = np.zeros(3), np.zeros(3), 0.0, 0.0
    for k in range(1200):
        ds, dyaw = 0.05, 0.04 if k % 400 < 200 else -0.04
        true += [ds * np.cos(true[2]), ds * np.sin(true[2]), dyaw]
        wheels += [factor * ds * np.cos(wheels[2]), factor * ds * np.sin(wheels[2]), turn_factor * dyaw]
        way_m, turn = way_m + factor * ds, turn + turn_factor * dyaw
        if k % 15 == 0:
            noisy = true + rng.normal(0.0, (sd[0], sd[0], sd[1]))
            part.places.append((way_m, turn, Pose(*wheels), Pose(*noisy), *sd))
    return part


@pytest.mark.parametrize(("factor", "turn_factor"), [(1.0, 1.0), (1.03, 1.0), (0.97, 1.0), (1.0, 1.08)])
def test_wheels_are_measured_against_fixes(factor: float, turn_factor: float) -> None:
    for seed in range(3):
        session = Session(CONFIG, MOUNTS, PLANT)
        session.take(places(factor, turn_factor, seed))
        found = named(session.health())
        speed, turning = found["wheels speed"], found["wheels turning"]
        assert abs(turning.value - (1 / turn_factor - 1.0)) < 4.0 * turning.sd
        if turn_factor == 1.0:
            assert abs(speed.value - (1 / factor - 1.0)) < 4.0 * speed.sd
            assert speed.verdict == (OK if factor == 1.0 else RECALIBRATE)
        assert (turning.verdict == OK) == (turn_factor == 1.0)


# ---- verdicts


@pytest.mark.parametrize(
    ("value", "sd", "verdict"),
    [(0.9, 0.0, OK), (-1.1, 0.0, WATCH), (1.1, 0.1, OK), (2.5, 0.1, RECALIBRATE), (-2.1, 0.1, WATCH), (9.0, 4.5, OK)],
)
def test_a_difference_counts_less_its_uncertainty(value: float, sd: float, verdict: str) -> None:
    check = Check("one", "tilt_deg", value, sd, 1.0, 2.0)
    assert check.verdict == verdict
    assert Health((check, Check("two", "tilt_deg", 0.0, 0.1, 1.0, 2.0))).verdict == verdict


# ---- the thread beside a run


class Broken(Session):
    def take(self, part: TickExcerpt) -> None:
        raise ValueError("no such thing")


def test_a_check_that_fails_ends_the_checks_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onboard.health.monitor.Session", Broken)
    monitor = Monitor(CONFIG, MOUNTS, PLANT)
    monitor.close()
    name, level, message, _ = monitor.diagnostic()
    assert (name, level) == ("calibration", 1)
    assert "ValueError: no such thing" in message
    monitor.close()


def test_an_empty_run_has_a_row_that_says_so() -> None:
    monitor = Monitor(CONFIG, MOUNTS, PLANT)
    name, level, message, _ = monitor.diagnostic()
    monitor.close()
    assert (name, level) == ("calibration", 0)
    assert "nothing compared" in message
    assert Gatherer(CONFIG).rest().motions == []


# ---- the cameras at the start

A, B, C = (Device(serial, "D435", "5", "3.2") for serial in ("a", "b", "c"))
SECTION = CamerasSection(source="realsense", color="none")


def serials(**given: str) -> Mounts:
    return replace(MOUNTS, depth={name: replace(MOUNTS.depth[name], serial=serial) for name, serial in given.items()})


def checked(mounts: Mounts, looks: Sequence[Sequence[Device]], wrong: str = "", gone: str = "") -> Iterator[float]:
    """Run the check with the devices of each look; return the pauses."""
    coming, pauses = iter(looks), []

    def info(source: Source) -> None:
        if source.serial == wrong:
            raise InputError(f"{source}: depth images are 640x480, mounts say 80x60")
        if source.serial == gone:
            raise DriverError("it does not answer")

    check_cameras(mounts, SECTION, lambda: next(coming), info, pauses.append)
    return iter(pauses)


def test_a_changed_camera_is_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match=r"mounts.toml: camera front: serial a .* but c is"):
        checked(serials(front="a", rear="b"), [[B, C]] * 3)


@pytest.mark.parametrize(
    "looks", [[[A, B]], [[A, B, C]], [[B]], [[]], [[B, C], [A, B, C]]], ids=["all", "more", "missing", "none", "late"]
)
def test_missing_and_late_cameras_are_no_mismatch(looks: list[list[Device]]) -> None:
    assert len(list(checked(serials(front="a", rear="b"), looks))) == len(looks) - 1


def test_images_of_another_size_are_refused_at_the_start() -> None:
    with pytest.raises(ConfigError, match="mounts say 80x60"):
        checked(serials(front="a", rear="b"), [[A, B]], wrong="b")


def test_a_camera_that_does_not_answer_is_not_waited_for() -> None:
    assert list(checked(serials(front="a", rear="b"), [[A, B]], gone="b")) == []
    called = count()
    check_cameras(MOUNTS, CamerasSection(), lambda: [A] * next(called))
    assert next(called) == 0


def before_a_wall(mount: Mount, true_m: float, wall_m: float, turn_deg: float) -> np.ndarray:
    """Return the image of a camera at another height before a wall, with the noise of stereo."""
    v, u = np.indices((mount.height, mount.width))
    rays = np.stack([(u - mount.cx) / mount.fx, (v - mount.cy) / mount.fy, np.ones(u.shape)]).reshape(3, -1)
    across, left, up = mount.base_from_camera[:3, :3] @ rays
    with np.errstate(divide="ignore"):
        floor_per_m = np.maximum(-up / true_m, 0.0)
        wall_per_m = (math.cos(math.radians(turn_deg)) * across + math.sin(math.radians(turn_deg)) * left) / wall_m
    per_m = np.maximum(floor_per_m, wall_per_m) + np.random.default_rng(1).normal(0.0, 0.004, u.size)
    units = np.where(per_m > 0.1, 1.0 / np.maximum(per_m, 0.1) / mount.depth_scale_m, 0.0)
    return np.rint(units).astype(np.uint16).reshape(u.shape)


@pytest.mark.parametrize("true_m", [0.3, 0.5, 1.0])
@pytest.mark.parametrize("off_m", [0.0, 0.0635, 0.13])
@pytest.mark.parametrize("turn_deg", [0.0, 30.0])
def test_a_wall_is_not_taken_for_the_floor(true_m: float, off_m: float, turn_deg: float) -> None:
    """A level camera 1 m high saw a floor tilted by 56 deg and 0.7 m lower. Base frames of Jackal and Husky too."""
    mount = MOUNTS.depth["front"]
    level = np.array([[0, 0, 1, 0], [-1, 0, 0, 0], [0, -1, 0, true_m - off_m], [0, 0, 0, 1.0]])
    mount = replace(mount, width=160, height=120, fx=80.0, fy=80.0, cx=79.5, cy=59.5, base_from_camera=level)
    found = [floor(before_a_wall(mount, true_m, wall_m, turn_deg), mount) for wall_m in np.arange(0.4, 4.0, 0.2)]
    seen_floors = [one for one in found if one is not None]
    assert len(seen_floors) >= 6
    assert max(math.degrees(math.hypot(x, y)) for x, y, _ in seen_floors) < 6.0
    assert np.median([lift_m for _, _, lift_m in seen_floors]) == pytest.approx(off_m, abs=0.02)
