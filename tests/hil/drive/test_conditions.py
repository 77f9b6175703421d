"""Conditions by name: what each row of the shipped file makes of a robot, and what a file may not say."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hil.drive.conditions import ORDINARY, Condition, chosen, load_conditions
from hil.drive.robot import Senses
from hil.drive.setting import Setting
from hil.physics.collision_world import Body
from hil.physics.odometry_noise import FIX_SD, PRINTED_FIX_SD, TRAINING_FIX_PERIOD_S
from hil.sensors.direct_scan import looked_at
from hil.sensors.flawed_scan import Flaws
from onboard.config.config import Config
from onboard.values.errors import ConfigError, InputError
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import MOUNTS, PLANT

SETTING = Setting(room(3.0, 2.0), PLANT, Body(), MOUNTS, Config())
SHIPPED = load_conditions()


def under(name: str, setting: Setting = SETTING) -> Setting:
    return SHIPPED[name].of(setting)


def lost(name: str) -> set[str]:
    return set(MOUNTS.depth) - set(under(name).mounts.depth)


def base_over_belief(name: str) -> float:
    setting = under(name)
    assert setting.plant is PLANT
    return setting.base_plant.angular.f_down / PLANT.angular.f_down


def looks_down_deg(name: str) -> float:
    ahead = under(name).mounts.depth["front"].base_from_camera[:3, 2]
    return math.degrees(math.asin(-ahead[2]))


def accelerations(name: str) -> tuple[float, float]:
    setting = under(name)
    assert setting.base_plant is setting.plant, "the robot knows its base"
    return setting.plant.linear.acceleration_max, setting.plant.angular.acceleration_max


PARTS = ("camera_times", "too_near", "low_view", "slip", "ramped_base", "tilting", "pallets", "crossing")


def has(part: str, whole: Condition) -> bool:
    """Return whether a condition has all that the row of a part changes."""
    plain, row = SHIPPED["paper"].model_dump(), SHIPPED[part].model_dump()
    return all(whole.model_dump()[key] == row[key] for key in plain.keys() - {"what", "base"} if row[key] != plain[key])


#   name                      what                                                      is
MEANT: list[tuple[str, Callable[[], object], object]] = [
    ("robot", lambda: under("robot"), SETTING),
    ("paper", lambda: under("paper"), replace(SETTING, senses=Senses(fix_period_s=TRAINING_FIX_PERIOD_S))),
    ("drift_0", lambda: under("drift_0").senses.drift_scale, 0.0),
    ("drift_2", lambda: under("drift_2").senses.drift_scale, 2.0),
    ("drift_3", lambda: under("drift_3").senses.drift_scale, 3.0),
    ("paper reads sd", lambda: under("paper").senses.fix_sd, FIX_SD),
    ("printed_noise", lambda: under("printed_noise").senses.fix_sd, PRINTED_FIX_SD),
    ("printed_noise", lambda: under("printed_noise").config.odometry.localization_sd, PRINTED_FIX_SD),
    ("paper", lambda: under("paper").config.odometry.localization_sd, FIX_SD),
    ("printed_noise_drift_3", lambda: under("printed_noise_drift_3").senses.fix_sd, PRINTED_FIX_SD),
    ("no_localization", lambda: under("no_localization").senses.localization, False),
    ("no_localization_drift_2", lambda: under("no_localization_drift_2").senses.drift_scale, 2.0),
    ("late_localization", lambda: under("late_localization").senses.fix_delay_ticks, 30),
    ("no_front", lambda: (lost("no_front"), under("no_front").limits), ({"front"}, True)),
    ("no_front alone", lambda: (lost("no_front_no_limits"), under("no_front_no_limits").limits), ({"front"}, False)),
    ("no_front_left", lambda: lost("no_front_left"), {"front_left"}),
    ("no_front_right", lambda: lost("no_front_right"), {"front_right"}),
    ("no_rear", lambda: lost("no_rear"), {"rear"}),
    ("plant_minus_30", lambda: base_over_belief("plant_minus_30"), pytest.approx(0.7)),
    ("plant_plus_30", lambda: base_over_belief("plant_plus_30"), pytest.approx(1.3)),
    ("delay_67ms", lambda: under("delay_67ms").config.rates.delay_ticks, 2),
    ("delay_133ms", lambda: under("delay_133ms").config.rates.delay_ticks, 4),
    (
        "depth_noise",
        lambda: (under("depth_noise").senses.depth_noise, under("paper").senses.depth_noise),
        (True, False),
    ),
    ("blocked", lambda: (SHIPPED["blocked"].blocked_s, SHIPPED["blocked"].resets_every_s(5.0)), (20.0, 10.0)),
    ("blocked_no_reset", lambda: SHIPPED["blocked_no_reset"].resets_every_s(5.0), None),
    (
        "blocked_no_limits_no_reset",
        lambda: (
            SHIPPED["blocked_no_limits_no_reset"].blocked_s,
            SHIPPED["blocked_no_limits_no_reset"].resets_every_s(5.0),
            under("blocked_no_limits_no_reset").limits,
        ),
        (20.0, None, False),
    ),
    ("no_limits", lambda: under("no_limits").limits, False),
    ("camera_times", lambda: under("camera_times").senses.flaws, Flaws((5.0, 30.0), (0.03, 0.09))),
    ("camera_times, each tick", lambda: under("camera_times").senses.depth_every, 1),
    (
        "too_near",
        lambda: (under("too_near").senses.depth_noise, under("too_near").senses.flaws.nearer_per_m),
        (True, 0.006),
    ),
    ("low_view", lambda: looks_down_deg("low_view") - looks_down_deg("paper"), pytest.approx(18.0)),
    ("slip", lambda: under("slip").senses.slip, 0.05),
    ("ramped_base", lambda: accelerations("ramped_base"), (1.2, 4.8)),
    ("tilting", lambda: under("tilting").senses.flaws.tilt_deg, 1.0),
    ("pallets", lambda: SHIPPED["pallets"].pallets, 3),
    ("crossing", lambda: SHIPPED["crossing"].crossing, 2),
    ("real", lambda: {part for part in PARTS if not has(part, SHIPPED["real"])}, set()),
]


@pytest.mark.parametrize(("what", "expected"), [row[1:] for row in MEANT], ids=[row[0] for row in MEANT])
def test_a_shipped_row_means(what: Callable[[], object], expected: object) -> None:
    assert what() == expected


def test_who_says_never_says_what_clears_the_memory_all_the_same() -> None:
    never = {name: row for name, row in SHIPPED.items() if row.memory_reset_s == "never"}
    assert len(never) == 3
    assert all(("only a recovery clears it" in row.what) is row.limits for row in never.values())


def test_all_but_the_ordinary_row_stand_on_the_headline() -> None:
    rows = {name: row for name, row in SHIPPED.items() if name not in (ORDINARY, "paper") and not row.tracker}
    assert all(row.fix_every_steps == SHIPPED["paper"].fix_every_steps for row in rows.values())
    assert len({row.what for row in SHIPPED.values()}) == len(SHIPPED)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InputError, match="--condition fog: must be all, or one of robot, paper"):
        chosen(["paper", "fog"])


def written(folder: Path, text: str) -> Path:
    (folder / "own.toml").write_text(text)
    return folder / "own.toml"


def test_a_row_takes_over_what_its_base_says(tmp_path: Path) -> None:
    own = '[c]\nwhat="c"\nbase="b"\nlimits=false\n[b]\nwhat="b"\nbase="a"\ndelay_ticks=1\n'
    row = load_conditions(written(tmp_path, own + '[a]\nwhat="a"\ndrift_scale=2.0\n'))["c"]
    assert (row.what, row.drift_scale, row.delay_ticks, row.limits) == ("c", 2.0, 1, False)


#   what                  rows                                                          said
BAD = [
    ("unknown key", '[a]\nwhat="a"\ndrift=2.0\n', "own.toml: a: unknown key drift"),
    ("no words", "[a]\ndrift_scale=2.0\n", "a: what: Field required"),
    ("a number in words", '[a]\nwhat="a"\ndrift_scale="2"\n', "a: drift_scale: Input should be a valid number"),
    ("negative", '[a]\nwhat="a"\ndrift_scale=-1.0\n', "a: drift_scale: Input should be greater than or equal to 0"),
    ("infinite", '[a]\nwhat="a"\nplant_scale=inf\n', "a: plant_scale: Input should be a finite number"),
    ("a fraction of a tick", '[a]\nwhat="a"\ndelay_ticks=1.5\n', "a: delay_ticks: Input should be a valid integer"),
    ("one bound", '[a]\nwhat="a"\nfix_every_steps=[8.0]\n', "a: fix_every_steps: List should have at least 2 items"),
    ("too late", '[a]\nwhat="a"\nfix_delay_s=3.0\n', "a: fix_delay_s: Input should be less than or equal to 2"),
    ("another reading", '[a]\nwhat="a"\nfix_noise="big"\n', "a: fix_noise: Input should be 'sd', 'variance' or 'none'"),
    ("no such base", '[a]\nwhat="a"\nbase="b"\n', "a: base: there is no row 'b'"),
    ("its own base", '[a]\nwhat="a"\nbase="a"\n', "a: base: a is based on a itself"),
    ("a round", '[a]\nwhat="a"\nbase="b"\n[b]\nwhat="b"\nbase="a"\n', "b: base: a is based on b itself"),
    ("no table", "a = 1\n", "a: must be a table"),
    ("no TOML", "[a\n", "not valid TOML"),
]


@pytest.mark.parametrize(("text", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_conditions(written(tmp_path, text))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


#   what                rows of the condition                        configuration                       said
MISFITS = [
    ("no such camera", 'cameras_gone=["top"]', {}, "has no depth camera top, only front_left, front"),
    ("none left", 'cameras_gone=["front_left","front","front_right","rear"]', {}, "no depth camera is left"),
    (
        "none left of a scan",
        'cameras_gone=["front"]',
        {"limits_scan": {"cameras": ["front"]}},
        "limits_scan.cameras has none but front",
    ),
    ("too long a delay", "delay_ticks=12", {}, "delay_ticks: delay_ticks 12 must be below"),
]


@pytest.mark.parametrize(("rows", "tables", "message"), [row[1:] for row in MISFITS], ids=[row[0] for row in MISFITS])
def test_what_does_not_fit_the_robot_is_refused(
    tmp_path: Path, rows: str, tables: dict[str, object], message: str
) -> None:
    condition = load_conditions(written(tmp_path, f'[a]\nwhat="a"\n{rows}\n'))["a"]
    config = Config.model_validate(tables)
    for ask in (lambda: condition.check(MOUNTS, config), lambda: condition.of(replace(SETTING, config=config))):
        with pytest.raises(InputError) as refused:
            ask()
        assert message in str(refused.value)


def test_a_camera_that_is_gone_is_left_out_of_scans_that_name_it() -> None:
    config = Config.model_validate({"scan": {"cameras": ["front", "rear"]}})
    assert under("no_rear", replace(SETTING, config=config)).config.scan.cameras == ["front"]


def test_memory_is_reset_as_a_row_says(tmp_path: Path) -> None:
    rows = load_conditions(
        written(tmp_path, '[a]\nwhat="a"\nmemory_reset_s="never"\n[b]\nwhat="b"\nmemory_reset_s=5.0\n[c]\nwhat="c"\n')
    )
    assert [row.resets_every_s(10.0) for row in rows.values()] == [None, 5.0, 10.0]


def test_cameras_that_look_down_leave_no_gap_between_their_views() -> None:
    low, section = SHIPPED["low_view"].robot_of(SETTING), Config().scan
    np.testing.assert_array_equal(looked_at(low.mounts, section), looked_at(SETTING.mounts, section))
