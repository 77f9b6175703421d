"""`onboard bench`: verdicts against budgets, what limits a machine, and a whole run."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from onboard.__main__ import main
from onboard.commands.bench import command, computing, lateness, output, rows, start
from onboard.commands.doctor.finding import Level
from onboard.config.config import CamerasSection, Config, DdsSection, OdometrySection, PolicySection, RecordSection
from onboard.config.mounts import load_mounts
from onboard.counters import BUDGET_MS
from onboard.drivers.realsense.cameras import camera_sources
from onboard.drivers.realsense.device import Device
from onboard.values.clock import Histogram
from onboard.values.errors import DriverError
from tests.rigs.machine.processes import toml


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


#   check,             file below the root,                                        text,           is it a limit
FILES = [
    (command.governor, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n", False),
    (command.governor, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n", True),
    (command.governor, "sys/devices/system/cpu/online", "0-1\n", False),
    (command.kernel, "sys/kernel/realtime", "1\n", False),
    (command.kernel, "sys/kernel/realtime", "0\n", True),
    (command.kernel, "sys/kernel/other", "1\n", True),
]


@pytest.mark.parametrize(("check", "path", "text", "limiting"), FILES)
def test_what_limits_a_machine(tmp_path: Path, check, path: str, text: str, limiting: bool) -> None:
    put(tmp_path, path, text)
    assert (check(tmp_path).level is not Level.GREEN) is limiting


@pytest.mark.parametrize(("total", "limiting"), [(0, False), (10**9, True)])
def test_memory_that_may_be_swapped_out_is_a_limit(monkeypatch: pytest.MonkeyPatch, total: int, limiting: bool) -> None:
    monkeypatch.setattr(psutil, "swap_memory", lambda: SimpleNamespace(total=total))
    assert (command.swap().level is not Level.GREEN) is limiting


@pytest.mark.parametrize(("usb", "limiting"), [("2.1", True), ("3.2", False)])
def test_a_camera_by_usb_2_is_a_limit(monkeypatch: pytest.MonkeyPatch, usb: str, limiting: bool) -> None:
    device = Device("123", "D435", "5.16", usb)
    monkeypatch.setattr(command, "list_devices", lambda: [device])
    found = command.cameras()
    assert (found.level is not Level.GREEN) is limiting
    assert ("123" in found.found) is limiting


def test_only_limits_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "list_devices", list)
    put(tmp_path, "sys/kernel/realtime", "1")
    monkeypatch.setattr(psutil, "swap_memory", lambda: SimpleNamespace(total=0))
    monkeypatch.setattr(psutil, "getloadavg", lambda: (0.1, 0.1, 0.1))
    assert {limit.part for limit in command.limits(tmp_path)} <= {"rights"}
    monkeypatch.setattr(psutil, "getloadavg", lambda: (99999.0, 0.1, 0.1))
    assert "load" in {limit.part for limit in command.limits(tmp_path)}


REAL = (Path(__file__).parent / "cyclictest.txt").read_text()
"""Printed by `cyclictest -q --default-system -t1 -i10000 -l12 -h50 -p40`, version 2.40."""


def test_what_cyclictest_prints_is_counted() -> None:
    counted = Histogram()
    lateness.count_cyclictest(REAL, counted)
    assert counted.count == 12, "those beyond the histogram too"
    assert counted.max_ns == 77_000
    assert counted.quantile_ns(0.5) == pytest.approx(38_000, rel=0.04)


PROGRAMS = [("exit 1", 0), ("cat " + str(Path(__file__).parent / "cyclictest.txt"), 12)]


@pytest.mark.parametrize(("does", "counts"), PROGRAMS)
def test_cyclictest_counts_only_if_it_may_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, does: str, counts: int
) -> None:
    program = tmp_path / lateness.CYCLICTEST
    program.write_text(f"#!/bin/sh\n{does}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    counted = Histogram()
    lateness.cyclictest(10_000_000, 12, False, counted)
    assert counted.count == counts


def test_without_cyclictest_its_rows_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    named = {one.name for one in lateness.lateness(100.0, 0.1)}
    assert named == {f"tick lateness {name}" for name in ("p50", "p99", "max")}, "of 10 ticks none is one in a thousand"


@pytest.mark.skipif(shutil.which(lateness.CYCLICTEST) is None, reason="needs cyclictest (package rt-tests)")
def test_the_real_cyclictest_is_counted() -> None:
    counted = Histogram()
    lateness.cyclictest(5_000_000, 20, False, counted)
    assert counted.count == 20
    assert 0 < counted.quantile_ns(0.5) <= counted.max_ns


def test_the_priority_is_the_units() -> None:
    unit = (Path(__file__).parents[4] / "systemd" / "onboard.service").read_text()
    assert f"CPUSchedulingPriority={lateness.FIFO_PRIORITY}\n" in unit


def test_the_started_runtime_meets_no_device(tmp_path: Path) -> None:
    robot = Config(
        dds=DdsSection(domain=3, interface="wlan0"),
        cameras=CamerasSection(source="realsense", sources={"front": "realsense"}, color="realsense"),
        odometry=OdometrySection(input="serial"),
    )
    alone = start.without_devices(robot, tmp_path)
    assert (alone.dds.domain, alone.dds.interface) == (output.DOMAIN, "lo")
    assert (alone.cameras.source, alone.cameras.sources, alone.cameras.color) == ("dds", {}, "dds")
    assert alone.odometry.input == "dds"
    assert alone.record.directory.parent == tmp_path
    assert camera_sources(load_mounts(alone.robot.mounts), alone.cameras) == []


def test_a_runtime_that_does_not_start_says_why(tmp_path: Path) -> None:
    broken = Config(policy=PolicySection(model=str(tmp_path / "missing.onnx")))
    with pytest.raises(DriverError, match=r"did not become ready: .*missing\.onnx"):
        list(start.starts(broken))


def test_no_disk_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full = Config(record=RecordSection(directory=tmp_path))
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=0))
    with pytest.raises(DriverError, match="recording stopped"):
        list(output.recording(full))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_used_is_told_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    config = toml(tmp_path / "onboard.toml", record={"directory": "/proc/nothing"})
    monkeypatch.setattr(sys, "argv", ["onboard", "bench", "--config", str(config)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "record.directory /proc/nothing: cannot be used" in capfd.readouterr().err


@pytest.mark.parametrize("model", [pytest.param("reactive", marks=pytest.mark.long), "onboard-v2"])
def test_a_whole_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], model: str
) -> None:
    monkeypatch.setattr(computing, "DECISIONS", 3)
    monkeypatch.setattr(output, "COMMANDS", 20)
    record = {"directory": str(tmp_path / "recordings")}
    config = toml(tmp_path / "onboard.toml", policy={"model": model}, record=record)
    monkeypatch.setattr(sys, "argv", ["onboard", "bench", "--config", str(config), "--for", "0.2", "--json", "-"])
    with pytest.raises(SystemExit) as ended:
        main()
    result = json.loads(capfd.readouterr().out)
    by_name = {one["name"]: one for one in result["rows"]}
    absent = {"tick lateness p99.9"} | (set() if model == "onboard-v2" else {"engine p50", "engine p99"})
    if shutil.which(lateness.CYCLICTEST) is None:
        absent |= {name for name in rows.BUDGETS if name.endswith(lateness.KERNEL)}
    assert by_name.keys() == rows.BUDGETS.keys() - absent
    assert ended.value.code == (0 if all(one["ok"] for one in result["rows"]) else 1)
    assert by_name["decision p99"]["budget"] == BUDGET_MS
    assert by_name["fusion of four 848x480"]["ratio"] < 1.0
    assert by_name["tick lateness p50"]["value"] <= by_name["tick lateness max"]["value"]
    assert 50.0 < by_name["memory"]["value"] < 2000.0
    assert by_name["command p50"]["note"].startswith("20 of 20 received")
    assert not any(tmp_path.glob("**/*.mcap")), "what bench records goes away again"
