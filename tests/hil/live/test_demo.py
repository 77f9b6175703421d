"""`onboard-hil demo`: its result, its exit codes, the configuration that it hands on, and its children."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hil.live import demo
from hil.live.dashboard import View
from hil.live.demo import DemoOptions, demo_config, run_demo
from hil.live.demo_result import moments_of, read_result, summary, too_busy, write_config
from hil.physics.free_space import Episode
from onboard.config import pretrained
from onboard.config.config import CamerasSection, Config, DdsSection, ScanSection, ScanSource, load_config
from onboard.drivers.engines import onnx_engine
from onboard.navigation.mission import state_word
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError, MissingExtraError, OnboardError
from onboard.values.messages import Pose
from tests.rigs.devices.small_model import small_policy_files
from tests.rigs.machine.processes import START_S, Command, done, running, toml
from tests.rigs.machine.waiting import alive, until
from tests.rigs.network.loopback import free_domain

RESULT = {
    "reached",
    "distance_to_goal_m",
    "time_s",
    "path_m",
    "shortest_path_m",
    "contacts",
    "ticks",
    "missed_slots",
    "decisions",
    "deadline_misses",
    "decision_ms",
    "recording",
    "picture",
}
OURS = {"goals", "state", "policy", "bumps", "over_budget", "delay_error_ms", "commands_by_reason"}


def checked(command: Command) -> dict:
    """Return the result on standard output, which holds nothing else, with files that exist."""
    result = json.loads(command.out)
    assert set(result) == RESULT | OURS
    assert set(result["decision_ms"]) == {"p50", "p99"}
    assert Path(result["picture"]).stat().st_size > 0
    assert Path(result["recording"]).stat().st_size > 0
    assert "Traceback" not in command.err
    return result


def test_out_of_time_is_exit_code_1_and_a_whole_result(tmp_path: Path) -> None:
    """In a namespace, from a configuration of one's own."""
    tables = {"robot": {"name": "seventh"}, "dds": {"namespace": "r7", "remap": {"cmd_vel": "base/cmd_vel"}}}
    own = toml(tmp_path / "own.toml", record={"directory": "kept"}, **tables)
    arguments = ["demo", "--config", own, "--limit", "1", "--json", "-"]
    command = done("hil", *arguments, folder=tmp_path, domain=free_domain())
    assert command.process.returncode == 1, command.err
    result = checked(command)
    assert (result["reached"], state_word(result["state"])) == (False, "navigating")
    assert Path(result["recording"]).parent == tmp_path / "kept"
    assert Path(result["recording"]).name.startswith("seventh_")


#   name                 arguments
DRIVES = [
    ("localised", []),
    ("odometry alone", ["--no-localization", "--drift", "0"]),
    ("namespace", ["--config", "own.toml"]),
]


@pytest.mark.long
@pytest.mark.parametrize(("name", "arguments"), DRIVES, ids=[row[0] for row in DRIVES])
def test_it_reaches_the_goal(name: str, arguments: list[str], tmp_path: Path) -> None:
    toml(tmp_path / "own.toml", dds={"namespace": "r7", "remap": {"odom": "/base/odom"}, "stamped_cmd_vel": True})
    command = done("hil", "demo", *arguments, "--json", "-", folder=tmp_path, domain=free_domain())
    result = checked(command)
    assert command.process.returncode == 0, result
    assert (result["reached"], result["contacts"], result["state"]) == (True, 0, "reached")
    assert result["distance_to_goal_m"] <= 0.2
    assert result["path_m"] >= result["shortest_path_m"] - 0.2


#   signal            exit code
ENDS = [
    (signal.SIGINT, 130),
    pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long),
    (signal.SIGKILL, -signal.SIGKILL),
]


@pytest.mark.parametrize(("number", "code"), ENDS, ids=["SIGINT", "SIGTERM", "SIGKILL"])
def test_no_child_is_left_whatever_ends_it(number: signal.Signals, code: int, tmp_path: Path) -> None:
    with running("hil", "demo", folder=tmp_path, domain=free_domain()) as command:
        until(lambda: len(children(command.process.pid)) == 2, START_S)
        left = children(command.process.pid)
        os.kill(command.process.pid, number)
        assert command.wait() == code
        until(lambda: not any(alive(pid) for pid in left))
        assert "Traceback" not in command.err


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [
        int(child) for task in Path(f"/proc/{pid}/task").iterdir() for child in (task / "children").read_text().split()
    ]


# ---- the configuration that it hands on --------------------------------------------------------------------------

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(name=TEXTS, key=TEXTS, far=st.floats(8.0, 1e300), numbers=st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3))
def test_a_configuration_survives_being_written(
    name: str, key: str, far: float, numbers: list[float], tmp_path_factory: pytest.TempPathFactory
) -> None:
    box = (*numbers, *(number + 1e-3 + abs(number) for number in numbers))
    config = Config(
        robot=Config().robot.model_copy(update={"name": name}),
        scan=ScanSection(far_m=far, body_boxes_m=[box]),
        limits_scan=ScanSource(cameras=["front"]),
        cameras=CamerasSection(sources={key: "none"}),
        dds=DdsSection(domain=7, remap={key: name}, peers=[name]),
    )
    whole = demo_config(config, None)
    path = tmp_path_factory.mktemp("written") / "demo.toml"
    write_config(path, whole)
    assert load_config(path) == whole


def test_only_what_is_simulated_is_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = Config(
        cameras=CamerasSection(source="realsense", sources={"front": "none"}, color="none", fps=15),
        dds=DdsSection(namespace="r7"),
    )
    whole = demo_config(config, "models/some.onnx")
    assert (whole.cameras.source, whole.cameras.sources, whole.cameras.color, whole.cameras.fps) == (
        "dds",
        {"front": "none"},
        "none",
        15,
    )
    assert whole.policy.model == str(tmp_path / "models" / "some.onnx")
    assert whole.record.directory == tmp_path / "recordings"
    same = {"scan", "limits_scan", "recovery", "limits", "goal", "dds"}
    assert all(getattr(whole, name) == getattr(config, name) for name in same)
    assert (whole.cameras.unchanged_m, whole.cameras.stale_ms) == (config.cameras.unchanged_m, config.cameras.stale_ms)
    assert whole.rates == config.rates
    assert demo_config(config, None, depth_noise=False).cameras.unchanged_m == 0.0
    assert demo_config(config, None).policy.model == "reactive"
    assert demo_config(config, "onboard-v2").policy.model == "onboard-v2"
    beside = demo_config(config, "some.onnx+reactive").policy
    assert (beside.model, beside.fallback) == (str(tmp_path / "some.onnx"), "reactive")
    assert demo_config(config.model_copy(update={"policy": beside}), None).policy == beside
    assert demo_config(config.model_copy(update={"policy": beside}), "onboard-s").policy.name == "onboard-s"


def test_a_network_without_its_library_is_told_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_engine, "onnxruntime", None)
    options = DemoOptions(policy=str(small_policy_files(tmp_path)), out=tmp_path / "out")
    with pytest.raises(MissingExtraError, match=r"^onnxruntime is not installed: pip install 'onboard\[cpu\]'$"):
        run_demo(options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("content", [None, "", '{"pose": [1.0'])
def test_a_process_that_was_killed_before_its_last_words_is_one_line(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "gdc1-seed1.run.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(OnboardError, match=r"run\.json: not written: .* within 15 s, see gdc1-seed1\.run\.log$"):
        read_result(file)


def test_a_policy_that_does_not_ship_is_one_line_that_lists_those_that_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_policy_files(tmp_path)
    monkeypatch.setattr(pretrained, "PRETRAINED", tmp_path)
    with pytest.raises(InputError, match=r"^policy onboard-v0: no shipped policy has this name; available: small$"):
        run_demo(DemoOptions(policy="onboard-v0", out=tmp_path / "out"))


# ---- The scans in the picture of a demo lie where the robot saw them

LIVED_NS = 50 * NS_PER_S


def scan(range_m: float) -> SimpleNamespace:
    """Return a scan that sees a wall ahead and nothing else."""
    ranges = [math.inf, math.nan, range_m, 30.0]
    return SimpleNamespace(ranges=ranges, angle_min=-math.pi, angle_increment=math.pi / 2, range_max=30.0)


def test_a_wall_stays_where_it_is() -> None:
    """The robot drives at 1 m/s to a wall at x = 20, and the scans were captured 8 s to 2 s before the trace ends."""
    trace = np.array([[t, float(t), 3.0, 0.0, 1.0, 0.0] for t in range(11)])
    scans = [(LIVED_NS - back * NS_PER_S, scan(20.0 - (10 - back))) for back in (8, 7, 6, 5, 4, 3, 2)]
    moments = moments_of(scans, trace, LIVED_NS)
    assert [moment.time_s for moment in moments] == [1.0, 3.0, 5.0]
    assert [moment.pose.x_m for moment in moments] == [3.0, 5.0, 7.0]
    for moment in moments:
        assert moment.points == pytest.approx(np.array([[20.0, 3.0]]))


@pytest.mark.parametrize(("over_budget", "missed", "advised"), [(10, 60, False), (51, 60, True), (10, 700, True)])
def test_the_result_says_that_the_machine_was_too_busy(over_budget, missed, advised):
    result = {
        "goals": [{"reached": True}], "state": "reached", "reached": True, "distance_to_goal_m": 0.1, "time_s": 33.0,
        "path_m": 9.0, "shortest_path_m": 8.0, "contacts": 0, "decisions": 100, "over_budget": over_budget,
        "decision_ms": {"p50": 20.0, "p99": 30.0}, "ticks": 1000, "missed_slots": missed,
        "picture": "p", "recording": "",
    }  # fmt: skip
    assert ("too busy for the runtime: close other programs" in summary(result)) == advised


SILENT, LOST = "stopped: engine failed: no decision for 5 s", "stopped: input lost for 5 s: scan"

#   name                state                                  reached  missed of 1000  exit code 3
BUSY = [
    ("no decision",     f"{SILENT}; 21 of the last 90 ticks",  False,   90,             True),
    ("no scan",         LOST,                                  False,   0,              True),
    ("out of time",     "navigating",                          False,   150,            True),
    ("an idle machine", "navigating",                          False,   50,             False),
    ("blocked",         "stopped: blocked: 3 recoveries in 60 s failed", False, 500,    False),
    ("reached",         "reached",                             True,    500,            False),
]  # fmt: skip


@pytest.mark.parametrize(
    ("state", "reached", "missed", "busy"), [row[1:] for row in BUSY], ids=[row[0] for row in BUSY]
)
def test_a_busy_machine_has_its_own_exit_code(state: str, reached: bool, missed: int, busy: bool) -> None:
    assert too_busy({"state": state, "reached": reached, "missed_slots": missed, "ticks": 1000}) == busy


@pytest.mark.parametrize(
    ("states", "sent"), [([SILENT, LOST, "reached"], 3), (["stopped: e_stop"], 1), ([SILENT] * 99, 10)]
)
def test_a_drive_goes_on_after_the_machine_was_busy(states: list[str], sent: int) -> None:
    """The first command of a new user must not fail because a compiler runs next to it."""
    order: list[str] = []
    link = SimpleNamespace(view=View("map"), wait_until_received=lambda _: None)
    link.wait_until_flowing = lambda _: order.append("wait")

    def drive_to(goal: object, limit_s: float, dashboard: object) -> float:
        order.append("goal")
        link.view.state = states[order.count("goal") - 1]
        return 10.0

    link.drive_to = drive_to
    episode = Episode(Pose(0.0, 0.0, 0.0), (1.0, 0.0), 1.0)
    (leg,) = demo._drive(link, Config(), [episode], DemoOptions(localization=False, limit_s=100.0))
    assert order.count("goal") == sent
    assert order[:3] == ["goal", "wait", "goal"][: len(order)]
    assert (leg.state, leg.time_s) == (states[sent - 1], 10.0 * sent)
