"""`onboard bench`: verdicts against budgets, what limits a machine, and a whole run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onboard.__main__ import app
from onboard.commands.bench import limits, rows
from onboard.commands.doctor.finding import Level
from onboard.drivers.realsense.device import Device
from tests.rigs.machine.processes import toml


def put(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


#   check,             file below the root,                                        text,           is it a limit
FILES = [
    (limits.governor, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n", False),
    (limits.governor, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n", True),
    (limits.governor, "sys/devices/system/cpu/online", "0-1\n", False),
    (limits.kernel, "sys/kernel/realtime", "1\n", False),
    (limits.kernel, "sys/kernel/realtime", "0\n", True),
    (limits.kernel, "sys/kernel/other", "1\n", True),
    (limits.swap, "proc/swaps", "Filename Type Size Used Priority\n", False),
    (limits.swap, "proc/swaps", "Filename Type Size Used Priority\n/swapfile file 1 0 -2\n", True),
]


@pytest.mark.parametrize(("check", "path", "text", "limiting"), FILES)
def test_what_limits_a_machine(tmp_path: Path, check, path: str, text: str, limiting: bool) -> None:
    put(tmp_path, path, text)
    assert (check(tmp_path).level is not Level.GREEN) is limiting


@pytest.mark.parametrize(("usb", "limiting"), [("2.1", True), ("3.2", False)])
def test_a_camera_by_usb_2_is_a_limit(monkeypatch: pytest.MonkeyPatch, usb: str, limiting: bool) -> None:
    device = Device("123", "D435", "5.16", usb)
    monkeypatch.setattr(limits, "list_devices", lambda: [device])
    found = limits.cameras()
    assert (found.level is not Level.GREEN) is limiting
    assert ("123" in found.found) is limiting


def test_only_limits_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(limits, "list_devices", list)
    put(tmp_path, "sys/kernel/realtime", "1")
    put(tmp_path, "proc/loadavg", "0.1 0.1 0.1 1/100 1")
    assert {one.part for one in limits.limits(tmp_path)} <= {"rights"}
    put(tmp_path, "proc/loadavg", "99999.0 0.1 0.1 1/100 1")
    assert "load" in {one.part for one in limits.limits(tmp_path)}


def test_a_row_is_well_up_to_its_budget() -> None:
    budget = rows.BUDGETS["decision p99"]
    assert rows.row("decision p99", budget, "ms", 2 * budget).ok
    assert rows.row("decision p99", budget, "ms", 2 * budget).ratio == 0.5
    assert not rows.row("decision p99", budget + 0.01, "ms").ok
    assert rows.row("decision p99", budget, "ms").ratio is None


def test_a_whole_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rows, "DECISIONS", 3)
    config = toml(tmp_path / "onboard.toml", policy={"model": "reactive"})
    ended = CliRunner().invoke(app, ["bench", "--config", str(config), "--for", "0.2", "--json", "-"])
    result = json.loads(ended.stdout)
    assert {one["name"] for one in result["rows"]} == set(rows.BUDGETS)
    assert ended.exit_code == (0 if all(one["ok"] for one in result["rows"]) else 1)
    by_name = {one["name"]: one for one in result["rows"]}
    assert by_name["fusion of four 848x480"]["ratio"] < 1.0
    assert by_name["tick lateness p50"]["value"] <= by_name["tick lateness max"]["value"]
