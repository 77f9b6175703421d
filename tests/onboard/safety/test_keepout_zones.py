"""Keep-out and speed zones of the map: the masks, drives, replay, bad input."""

from __future__ import annotations

import json
import math
import tracemalloc
import zlib
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from hil.drive.robot import Senses, SimulatedRobot
from hil.physics.collision_world import Body
from hil.recordings.recording import Session
from hil.replay.recorded_policy import recorded_zones
from onboard.assembly.assembly import check_files
from onboard.assembly.robot import session_of, zones_of
from onboard.config.config import Config, PolicySection, ZonesSection, load_config
from onboard.config.footprint import Footprint
from onboard.navigation.ekf import OUTLIERS_TO_DOUBT, LocalizationState, localised
from onboard.perception.building.map_image import MAX_CELLS
from onboard.perception.obstacle_memory import NOWHERE, Surroundings
from onboard.policy.contract import ACTIONS
from onboard.safety.keepout_zones import (
    ELSEWHERE,
    MapZones,
    Zone,
    decode,
    encode,
    fenced,
    free_behind_m,
    load_zones,
    zone_of,
)
from onboard.values.errors import InputError
from onboard.values.messages import Pose, Twist
from tests.onboard.safety.limits_bench import scan_of
from tests.rigs.in_process import InProcess
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT, Puppet

V_MAX_MPS, RADIUS_M = 1.0, 0.25
SURE = np.diag([0.01, 0.01, 0.01, 0.0, 0.0])
UNSURE = np.diag([1.0, 1.0, 0.01, 0.0, 0.0])
FASTEST = ACTIONS.index(Twist(1.0, 0.0))


def mask(folder: Path, name: str, percent: np.ndarray, resolution: float = 0.05, yaw: float = 0.0) -> Path:
    """Write a mask, its first row the lower one, whose corner is the map's origin; 0 to 100 as nav2's mode scale."""
    grey = np.rint(255.0 * (1.0 - percent[::-1] / 100.0)).astype(np.uint8)
    Image.fromarray(grey).save(folder / f"{name}.png")
    file = folder / f"{name}.yaml"
    file.write_text(
        f"image: {name}.png\nresolution: {resolution}\norigin: [0.0, 0.0, {yaw}]\nmode: scale\n"
        "free_thresh: 0.0\noccupied_thresh: 1.0\nnegate: 0\n"
    )
    return file


def block(x_m: tuple[float, float], percent: int = 100, cell_m: float = 0.05) -> np.ndarray:
    """Return a mask of 9 m x 6 m with a strip across it from one x to another."""
    made = np.zeros((round(6.0 / cell_m), round(9.0 / cell_m)))
    made[:, round(x_m[0] / cell_m) : round(x_m[1] / cell_m)] = percent
    return made


def loaded(required: bool = False, **files: Path) -> MapZones:
    masks = load_zones(ZonesSection(required=required, **files), V_MAX_MPS, Footprint(RADIUS_M))
    assert masks is not None
    return masks


def at(x_m: float, y_m: float = 3.0, yaw_rad: float = 0.0, covariance: np.ndarray = SURE) -> LocalizationState:
    return LocalizationState(map_from_base=Pose(x_m, y_m, yaw_rad), covariance=covariance)


# --- the masks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resolution", [0.02, 0.05, 0.1, 0.25])
@pytest.mark.parametrize("yaw", [0.0, 1.0, -2.5, math.pi])
def test_the_edge_of_a_keep_out_zone_is_where_it_was_drawn(tmp_path: Path, resolution: float, yaw: float) -> None:
    masks = loaded(keep_out=mask(tmp_path, "keep", block((5.0, 7.0), cell_m=resolution), resolution))
    zone = zone_of(masks, at(4.0, yaw_rad=yaw))
    assert zone.in_force
    assert not zone.held
    ahead_m = zone.edge_m[:, 0] * math.cos(yaw) - zone.edge_m[:, 1] * math.sin(yaw)
    assert ahead_m.min() == pytest.approx(1.0, abs=0.03)
    assert np.diff(np.sort((zone.edge_m @ [math.sin(yaw), math.cos(yaw)])[ahead_m < 1.05])).max() < 0.06


def test_a_turned_mask_is_turned(tmp_path: Path) -> None:
    masks = loaded(keep_out=mask(tmp_path, "keep", block((5.0, 7.0)), yaw=math.pi / 2))
    zone = zone_of(masks, at(-3.0, 4.0, math.pi / 2))
    assert zone.edge_m[:, 0].min() == pytest.approx(1.0, abs=0.03)


#   x of the base   localised   required   in force  held
PLACES = [
    (4.0, SURE,     False,  True,   False),
    (6.0, SURE,     False,  True,   True),
    (20.0, SURE,    False,  True,   False),
    (-5.0, SURE,    False,  True,   False),
    (6.0, UNSURE,   False,  False,  False),
    (6.0, None,     False,  False,  False),
    (4.0, UNSURE,   True,   False,  True),
    (4.0, None,     True,   False,  True),
    (4.0, SURE,     True,   True,   False),
]  # fmt: skip


@pytest.mark.parametrize(("x_m", "covariance", "required", "in_force", "held"), PLACES)
def test_in_force_when_localised(
    tmp_path: Path, x_m: float, covariance: np.ndarray | None, required: bool, in_force: bool, held: bool
) -> None:
    masks = loaded(required, keep_out=mask(tmp_path, "keep", block((5.0, 7.0))))
    state = LocalizationState() if covariance is None else at(x_m, covariance=covariance)
    zone = zone_of(masks, state)
    assert (zone.in_force, zone.held) == (in_force, held)
    assert in_force or len(zone.edge_m) == 0


#   x of the base   percent  limit
SPEEDS = [
    (4.0,  30,  math.inf),
    (4.7,  30,  math.inf),
    (4.8,  30,  0.3),
    (6.0,  30,  0.3),
    (7.2,  30,  0.3),
    (7.4,  30,  math.inf),
    (6.0,  0,   math.inf),
    (6.0,  100, math.inf),
    (6.0,  99,  0.99),
    (6.0,  1,   0.01),
]  # fmt: skip


@pytest.mark.parametrize(("x_m", "percent", "limit_mps"), SPEEDS)
def test_a_speed_zone_holds_where_the_footprint_is_in_it(
    tmp_path: Path, x_m: float, percent: int, limit_mps: float
) -> None:
    masks = loaded(speed=mask(tmp_path, "speed", block((5.0, 7.0), percent)))
    assert zone_of(masks, at(x_m)).limit_mps == pytest.approx(limit_mps)


def test_of_two_zones_the_slower_holds(tmp_path: Path) -> None:
    masks = loaded(speed=mask(tmp_path, "speed", block((5.0, 7.0), 60) + block((7.0, 8.0), 20)))
    assert [zone_of(masks, at(x)).limit_mps for x in (6.0, 7.0, 7.9)] == pytest.approx([0.6, 0.2, 0.2])


def test_without_masks_there_are_no_zones() -> None:
    assert load_zones(ZonesSection(required=True), V_MAX_MPS, Footprint(RADIUS_M)) is None
    assert zone_of(None, at(1.0)) is ELSEWHERE


def test_unknown_and_shades_are_free_of_keep_out(tmp_path: Path) -> None:
    masks = loaded(keep_out=mask(tmp_path, "keep", block((5.0, 7.0), 99)))
    assert not zone_of(masks, at(6.0)).held
    see_through = np.full((120, 180, 2), 255, np.uint8)  # white, and not opaque: unknown in mode scale
    see_through[..., 1] = 0
    Image.fromarray(see_through, "LA").save(tmp_path / "keep.png")
    assert not zone_of(loaded(keep_out=tmp_path / "keep.yaml"), at(6.0)).held


@pytest.mark.parametrize("required", [False, True])
def test_fixes_that_contradict_the_wheels_leave_the_zones_where_they_were(tmp_path: Path, required: bool) -> None:
    masks = loaded(required, keep_out=mask(tmp_path, "keep", block((5.0, 6.0))))
    sure = at(4.0)
    doubted = replace(sure, rejected_in_row=OUTLIERS_TO_DOUBT)
    assert not localised(doubted)
    before, now = zone_of(masks, sure), zone_of(masks, doubted)
    assert now.in_force
    np.testing.assert_array_equal(now.edge_m, before.edge_m)
    assert (before.held, now.held) == (False, required)


def test_the_policy_sees_forbidden_ground_where_a_camera_looks() -> None:
    zone = Zone(True, np.array([[1.0, 0.01], [-1.0, 0.01]]))
    seen = scan_of((0.5, 0.51), blind=(170.0, 180.0))
    after = fenced(seen, zone)
    assert after.ranges_m[90] == pytest.approx(1.0, abs=0.001)
    assert np.isinf(after.ranges_m[179])
    assert np.isfinite(after.ranges_m).sum() == 2
    assert fenced(seen, ELSEWHERE) is seen


def test_recovery_backs_into_no_forbidden_ground() -> None:
    surroundings = Surroundings(scan_of(), NOWHERE)
    assert free_behind_m(surroundings, ELSEWHERE, Footprint(0.3)) == math.inf
    assert free_behind_m(surroundings, Zone(True, np.array([[-1.0, 0.0]])), Footprint(0.3)) == pytest.approx(0.7)
    assert free_behind_m(surroundings, Zone(held=True), Footprint(0.3)) == 0.0


# --- cell by cell -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_the_edge_is_every_forbidden_cell_with_a_free_neighbour(tmp_path: Path, seed: int) -> None:
    """On all sides, also at the mask's border: cells outside the mask are free."""
    forbidden = np.random.default_rng(seed).random((12, 15)) < 0.85
    masks = loaded(keep_out=mask(tmp_path, "keep", 100 * forbidden))
    expected = {
        (round(0.05 * column + 0.025, 3), round(0.05 * row + 0.025, 3))
        for row, column in np.argwhere(forbidden)
        if not np.pad(forbidden, 1)[row : row + 3, column : column + 3].all()
    }
    edge_m = zone_of(masks, at(0.3, 0.3)).edge_m + 0.3
    assert {(round(x, 3), round(y, 3)) for x, y in edge_m.tolist()} == expected
    assert len(edge_m) == len(expected)


#   x of the base   held
BORDER = [
    (0.02,   True),
    (0.049,  True),
    (0.051,  False),
    (-0.001, False),
    (-1.0,   False),
    (8.949,  False),
    (8.951,  True),
    (9.001,  False),
]  # fmt: skip


@pytest.mark.parametrize(("x_m", "held"), BORDER)
def test_the_first_and_the_last_column_count_and_nothing_beyond(tmp_path: Path, x_m: float, held: bool) -> None:
    drawn = np.zeros((120, 180))
    drawn[:, [0, -1]] = 100
    assert zone_of(loaded(keep_out=mask(tmp_path, "keep", drawn)), at(x_m)).held == held
    speed = loaded(speed=mask(tmp_path, "speed", 0.3 * drawn))
    near = min(abs(x_m - 0.025), abs(x_m - 8.975)) <= RADIUS_M
    assert zone_of(speed, at(x_m)).limit_mps == pytest.approx(0.3 if near else math.inf)


# --- drives -----------------------------------------------------------------------------------------------------------

HALL = room(9.0, 6.0)


def driven(localization: bool = True, **files: Any) -> tuple[float, float, set[str]]:
    """Return the farthest x of a robot that drives straight ahead, its highest speed there, and the reasons."""
    robot = SimulatedRobot(
        HALL, PLANT, Body(), replace(MOUNTS, color={}), Pose(1.0, 3.0, 0.0), Senses(seed=3, localization=localization)
    )
    furthest_m, fastest_mps = -math.inf, 0.0

    class Watch:
        def tick(self, record: object, counters: object) -> None:
            nonlocal furthest_m, fastest_mps
            furthest_m = max(furthest_m, robot.state.pose.x_m)
            if robot.state.pose.x_m > 5.5:
                fastest_mps = max(fastest_mps, robot.state.twist.v_mps)

    config = Config(zones=ZonesSection(**files))
    process = InProcess(config, replace(MOUNTS, color={}), PLANT, robot, Puppet(FASTEST), (Watch(),))
    ticks = process.drive_to(Pose(8.5, 3.0, 0.0), frame_id="odom", limit_s=9.0).ticks
    return furthest_m + RADIUS_M, fastest_mps, {tick.reason for tick in ticks}


def test_no_drive_enters_a_keep_out_zone(tmp_path: Path) -> None:
    keep_out = mask(tmp_path, "keep", block((5.0, 7.0)))
    furthest_m, _, reasons = driven(keep_out=keep_out)
    assert furthest_m < 5.0 + 0.1, "the localisation is wrong by some centimetres"
    assert furthest_m > 4.5
    assert "keep_out" in reasons
    assert driven(localization=False, keep_out=keep_out)[0] > 6.0, "nobody knows where it is"
    stays_m, _, reasons = driven(localization=False, keep_out=keep_out, required=True)
    assert stays_m == pytest.approx(1.0 + RADIUS_M)
    assert "keep_out" in reasons


def test_a_drive_is_slow_in_a_speed_zone(tmp_path: Path) -> None:
    _, fastest_mps, reasons = driven(speed=mask(tmp_path, "speed", block((5.0, 9.0), 30)))
    assert fastest_mps < 0.35
    assert "speed_zone" in reasons
    assert driven()[1] > 0.5


# --- recordings and bad input -----------------------------------------------------------------------------------------


def test_masks_come_back_from_a_recording(tmp_path: Path) -> None:
    keep_out = mask(tmp_path, "keep", block((5.0, 7.0)), yaw=0.3)
    files = {"keep_out": keep_out, "speed": mask(tmp_path, "speed", block((1, 2), 40))}
    masks = loaded(**files)
    back = decode(encode(masks), ZonesSection(**files), V_MAX_MPS, Footprint(RADIUS_M))
    for place in (at(4.0), at(1.5), at(6.0)):
        a, b = zone_of(masks, place), zone_of(back, place)
        assert (a.in_force, a.held, a.limit_mps) == (b.in_force, b.held, b.limit_mps)
        assert np.array_equal(a.edge_m, b.edge_m)
    unknown, damaged = encode(masks).replace("keep_out", "other"), encode(masks).replace("eJ", "xx", 1)
    for text in ("", "[]", "{}x", '{"keep_out": {}}', '{"other": {}}', unknown, damaged):
        with pytest.raises(InputError, match="not the zones of a map"):
            decode(text, ZonesSection(), V_MAX_MPS, Footprint(RADIUS_M))


#   what a recording may say that is no mask    its line
MASKS = [
    ("more cells than a map may have",  {"shape": [5001, 5000]},                          "5000 x 5001 cells"),
    ("less than no cells",              {"shape": [-1, -1]},                              "-1 x -1 cells"),
    ("other bytes than cells",          {"shape": [3, 3]},                                "cannot reshape"),
    ("bytes without end",               {"data": b64encode(zlib.compress(bytes(10**8))).decode()}, "cannot reshape"),
]  # fmt: skip


@pytest.mark.parametrize(("what", "zones", "line"), MASKS, ids=[row[0] for row in MASKS])
def test_a_recorded_mask_is_unpacked_within_bounds(
    tmp_path: Path, what: str, zones: dict[str, object], line: str
) -> None:
    table = json.loads(encode(loaded(keep_out=mask(tmp_path, "keep", block((5.0, 7.0))))))
    table["keep_out"] |= zones
    tracemalloc.start()
    with pytest.raises(InputError, match=line):
        decode(json.dumps(table), ZonesSection(), V_MAX_MPS, Footprint(RADIUS_M))
    assert tracemalloc.get_traced_memory()[1] < MAX_CELLS
    tracemalloc.stop()


def test_a_replay_takes_the_zones_from_the_recording(tmp_path: Path) -> None:
    section = ZonesSection(keep_out=mask(tmp_path, "keep", block((5.0, 7.0))))
    config = Config(zones=section)
    record = {"zones": session_of(config.model_copy(update={"policy": PolicySection(model="reactive")}))["zones"]}
    (tmp_path / "keep.yaml").unlink()
    back = recorded_zones("drive.mcap", Session("drive", record, 0, config, MOUNTS))
    assert back is not None
    assert zone_of(back, at(6.0)).held
    assert recorded_zones("drive.mcap", Session("drive", {}, 0, config, MOUNTS)) is None
    with pytest.raises(InputError, match=r"drive\.mcap: recorded zones: not the zones of a map"):
        recorded_zones("drive.mcap", Session("drive", {"zones": "{"}, 0, config, MOUNTS))


BAD = [
    ("missing.yaml", None, "missing.yaml: cannot be read"),
    ("keep.yaml", "image: [", "keep.yaml: not valid YAML"),
    ("keep.yaml", "image: keep.png\nresolution: 0.05\n", "keep.yaml: origin"),
    ("keep.yaml", "image: none.png\nresolution: 0.05\norigin: [0, 0, 0]\n", "none.png: cannot be read"),
]


@pytest.mark.parametrize(("name", "text", "says"), BAD)
def test_a_bad_mask_is_refused_before_anything_moves(tmp_path: Path, name: str, text: str | None, says: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    file = tmp_path / "onboard.toml"
    file.write_text(f'[policy]\nmodel = "reactive"\n[zones]\nkeep_out = "{name}"\n')
    config = load_config(file)
    assert config.zones.keep_out == tmp_path / name
    with pytest.raises(InputError, match=says):
        check_files(config)
    assert zones_of(Config()) is None
