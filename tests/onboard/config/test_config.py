"""The configuration is checked at load; each mistake gives a message of one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.assembly.assembly import LEAD_MS
from onboard.assembly.policies import THREADS, engine_cache
from onboard.config.config import DEFAULT_ROBOT, Config, load_config
from onboard.config.fixed_keys import FIXED
from onboard.counters import BUDGET_MS
from onboard.drivers.realsense.cameras import RESTART_BACKOFF_S, STALL_RESTART_S
from onboard.navigation.mission import LOST_INPUT_S, REST_DECISIONS, REST_MPS, REST_RADPS, STOP_SHORT_S
from onboard.navigation.odometry import MAX_GAP_S, MAX_SPEED_MPS, MAX_YAW_RATE_RADPS
from onboard.navigation.start_frame import LOCALIZATION_MAX_AGE_S
from onboard.perception.kernels import NEAR_M
from onboard.policy.decision import MISSES_TO_STOP
from onboard.policy.manifest import MEMORY_RESET_S
from onboard.recording.recorder import FLUSH_S, QUEUE_MB, QUEUE_MESSAGES
from onboard.recording.retention import MIN_FREE_BYTES
from onboard.safety.limits import SLOW_FRACTION
from onboard.safety.recovery import COMMANDED_MPS, COMMANDED_RADPS, COOL_DOWN_S, MOVING_MPS, MOVING_RADPS, WINDOW_S
from onboard.values.errors import ConfigError
from onboard.values.images import MIN_VALID_FRACTION


def write(folder: Path, text: str) -> Path:
    path = folder / "onboard.toml"
    path.write_text(text)
    return path


#   what                 text                                              what the line must name
MISTAKES = [
    ("unknown key", "[rates]\nspeed = 1\n", "unknown key rates.speed"),
    ("unknown table", "[rate]\ncontrol_hz = 1\n", "unknown key rate"),
    (
        "negative rate",
        "[rates]\ncontrol_hz = -3\n",
        "rates.control_hz: Input should be greater than or equal to 10 (is -3)",
    ),
    ("infinite", "[limits]\nv_max_mps = inf\n", "limits.v_max_mps"),
    ("not a number", "[limits]\nv_max_mps = nan\n", "limits.v_max_mps"),
    ("delay too long", "[rates]\ndelay_ticks = 10\n", "delay_ticks 10 must be below ticks_per_decision 10"),
    ("band upside down", "[scan]\nz_min_m = 2.0\n", "z_min_m 2.0 must be below z_max_m 1.2"),
    ("body box upside down", "[scan]\nbody_boxes_m = [[1,0,0,0,1,1]]\n", "body_boxes_m"),
    ("domain", "[dds]\ndomain = 300\n", "dds.domain: Input should be less than or equal to 232 (is 300)"),
    ("too slow a grid", "[rates]\ncontrol_hz = 0.2\n", "rates.control_hz: Input should be greater than or equal to 10"),
    ("too fast a grid", "[rates]\ncontrol_hz = 1000\n", "rates.control_hz: Input should be less than or equal to 200"),
    ("no grid", "[rates]\ncontrol_hz = nan\n", "rates.control_hz"),
    ("a dead man of a day", "[limits]\nteleop_dead_man_s = 86400\n", "teleop_dead_man_s: Input should be less than"),
    ("a dead man of none", "[limits]\nteleop_dead_man_s = nan\n", "limits.teleop_dead_man_s"),
    (
        "old scans",
        "[limits]\nscan_stale_ms = 1e7\n",
        "limits.scan_stale_ms: Input should be less than or equal to 1000",
    ),
    (
        "perfect fixes",
        "[odometry]\nlocalization_sd = [0.03, 1e-5, 0.05]\n",
        "odometry.localization_sd.1: Input should be greater than or equal to 0.0001",
    ),
    ("old wheels", "[odometry]\nstale_ms = 1e7\n", "odometry.stale_ms: Input should be less than or equal to 1000"),
    (
        "at once",
        "[limits]\nreaction_s = 0\n",
        "limits.reaction_s: Input should be greater than or equal to 0.05 (is 0)",
    ),
    ("never", "[limits]\nreaction_s = inf\n", "limits.reaction_s"),
    ("a fast creep", "[limits]\ncreep_mps = 1.0\n", "limits.creep_mps: Input should be less than or equal to 0.3"),
    ("backing for ever", "[recovery]\nbackward_s = 1e6\n", "recovery.backward_s: Input should be less than or equal"),
    (
        "a policy as a command takes it",
        '[policy]\nmodel = "onboard-s+reactive"\n',
        'policy.model: state model = "onboard-s" and fallback = "reactive"',
    ),
    ("another fallback", '[policy]\nfallback = "planner"\n', "policy.fallback: Input should be 'none' or 'reactive'"),
    ("not TOML", "[rates\n", "not valid TOML"),
]


@pytest.mark.parametrize(("what", "text", "named"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_mistakes_are_one_line_that_names_file_and_field(what: str, text: str, named: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    line = str(caught.value)
    assert line.startswith(str(path))
    assert named in line
    assert "\n" not in line


def values() -> Iterator[tuple[str, object, object]]:
    """Yield each key of former versions, with the value that was its default and the constant that it is now."""
    now = {
        "rates": (LEAD_MS, 0, BUDGET_MS, MISSES_TO_STOP),
        "cameras": (STALL_RESTART_S, list(RESTART_BACKOFF_S), MIN_VALID_FRACTION, False),
        "odometry": (1e3 * MAX_GAP_S, MAX_SPEED_MPS, MAX_YAW_RATE_RADPS, LOCALIZATION_MAX_AGE_S),
        "policy": (THREADS, MEMORY_RESET_S, str(engine_cache())),
        "recovery": (WINDOW_S, COOL_DOWN_S, MOVING_MPS, MOVING_RADPS, COMMANDED_MPS, COMMANDED_RADPS),
        "scan": (NEAR_M,),
        "limits": (SLOW_FRACTION,),
        "goal": (REST_MPS, REST_RADPS, REST_DECISIONS, STOP_SHORT_S, LOST_INPUT_S),
        "dds": (False,),
        "record": (20, MIN_FREE_BYTES / 1e6, QUEUE_MESSAGES, QUEUE_MB, FLUSH_S),
    }
    for name, table in FIXED.items():
        for (key, former), value in zip(table.items(), now[name], strict=True):
            yield f"{name}.{key}", former, value


def test_a_key_of_a_former_version_has_the_value_of_its_constant() -> None:
    assert [key for key, former, value in values() if former != value] == []


def test_a_former_key_loads_with_a_line_that_says_what_holds(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = write(
        tmp_path,
        "[goal]\nrest_mps = 0.02\nlost_input_s = 9.0\n[scan]\nfar_m = 8.0\n[limits_scan]\nfar_m = 5.0\n"
        "[record]\nmax_files = 3\n",
    )
    config = load_config(path)
    assert config.own_scan is not None
    assert config.own_scan.far_m == 8.0
    assert caplog.messages == [
        f"warning: {path}: goal.rest_mps is fixed at 0.02 now: remove the key",
        f"warning: {path}: goal.lost_input_s is fixed at 5.0 now, and 9.0 has no effect: remove the key",
        f"warning: {path}: record.max_files is no limit now, and 3 has no effect: remove the key",
        f"warning: {path}: limits_scan.far_m is that of scan.far_m now, and 5.0 has no effect: remove the key",
    ]


def test_relative_paths_start_at_the_file(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[robot]\nmounts = "m.toml"\n[policy]\nmodel = "p.onnx"\n[cameras.recordings]\nfront = "a.db3"\n'
        '[record]\ndirectory = "runs"\n',
    )
    config = load_config(path)
    assert config.robot.mounts == tmp_path / "m.toml"
    assert config.policy.model == str(tmp_path / "p.onnx")
    assert config.cameras.recordings == {"front": tmp_path / "a.db3"}
    assert config.record.directory == tmp_path / "runs"
    assert config.robot.plant == DEFAULT_ROBOT / "plant.toml"


#    as stated         in effect, where the file is in FOLDER
MODELS = [
    ("reactive", "reactive"),
    ("onboard-v2", "onboard-v2"),
    ("models/a.onnx", "FOLDER/models/a.onnx"),
    ("./onboard-v2", "FOLDER/onboard-v2"),
]


@pytest.mark.parametrize(("stated", "in_effect"), MODELS)
def test_a_policys_name_stays_a_name_and_a_path_starts_at_the_file(stated: str, in_effect: str, tmp_path: Path) -> None:
    config = load_config(write(tmp_path, f'[policy]\nmodel = "{stated}"\n'))
    assert config.policy.model == in_effect.replace("FOLDER", str(tmp_path))


# ---- An empty configuration file equals no file


def test_a_file_that_says_nothing_is_the_default_robot(tmp_path: Path) -> None:
    empty = tmp_path / "onboard.toml"
    empty.write_text("")
    loaded, default = (load_config(file).model_dump() for file in (empty, DEFAULT_ROBOT / "onboard.toml"))
    assert loaded == default
    assert Config().model_dump() == default


def test_a_file_that_names_one_key_changes_that_key_alone(tmp_path: Path) -> None:
    file = tmp_path / "onboard.toml"
    file.write_text("[robot]\nheight_m = 0.5\n")
    loaded, default = load_config(file).model_dump(), Config().model_dump()
    assert loaded["robot"].pop("height_m") == 0.5
    del default["robot"]["height_m"]
    assert loaded == default


def test_the_default_robot_drives_by_the_rule_and_looks_for_stairs() -> None:
    assert Config().policy.model == "reactive"
    assert Config().scan.drop_m > 0.0
