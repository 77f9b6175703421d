"""The commands as a person types them: help, versions, JSON for machines, and one runtime a robot."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onboard.__main__ import app
from onboard.config.config import DEFAULT_ROBOT, Config, load_config
from tests.rigs.machine.processes import START_S, Command, done, running, toml
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

DATA = Path(__file__).parents[2] / "data"
MOUNTS = DEFAULT_ROBOT / "mounts.toml"
NO_CAMERAS = {"source": "none", "color": "none"}


def quiet(folder: Path, name: str = "onboard.toml", **tables: dict) -> Path:
    """Write the configuration of a robot that has nothing to see with."""
    given = {"policy": {"model": "reactive"}, "record": {"directory": folder / "recordings"}, "cameras": NO_CAMERAS}
    return toml(folder / name, **given, **tables)


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_time_that_is_no_number_is_refused_before_anything_starts(value: str) -> None:
    ended = CliRunner().invoke(app, ["run", "--for", value])
    assert ended.exit_code == 2
    assert "--for" in ended.output


def test_check_config_reports_what_is_in_effect(tmp_path: Path) -> None:
    given = quiet(tmp_path, rates={"delay_ticks": 2}, dds={"remap": {"odom": "/base/odom"}})
    command = done("onboard", "check-config", "--config", given, folder=tmp_path)
    table = json.loads(command.out)
    assert command.process.returncode == 0
    assert [line.split()[0] for line in command.err.splitlines()] == ["policy", "cameras", "wire", "limits", "off"]
    assert Config.model_validate(table).model_dump() == load_config(given).model_dump()
    assert (table["rates"]["delay_ticks"], table["dds"]["remap"]) == (2, {"odom": "/base/odom"})
    assert table["record"]["directory"] == str(tmp_path / "recordings")
    assert set(table) == set(Config.model_fields)


def test_cameras_without_any_device(tmp_path: Path) -> None:
    pytest.importorskip("pyrealsense2", exc_type=ImportError)
    text = MOUNTS.read_text().replace('serial = ""', 'serial = "123456"', 1)
    (tmp_path / "mounts.toml").write_text(text)
    given = quiet(tmp_path, robot={"mounts": "mounts.toml"})
    command = done("onboard", "cameras", "--config", given, "--json", "-", folder=tmp_path)
    assert (command.process.returncode, command.err) == (0, "")
    assert json.loads(command.out) == {"devices": [], "missing": ["123456"]}
    table = done("onboard", "cameras", "--config", given, folder=tmp_path)
    (row,) = [line for line in table.out.splitlines() if "123456" in line]
    assert row.split()[0] == "front_left"
    assert "not found: is it plugged in" in row
    assert "no RealSense is plugged in" in table.out


def rig(folder: Path) -> Path:
    """Write mounts of the camera that took the real depth images."""
    text = MOUNTS.read_text()
    for old, new in [("= 80", "= 640"), ("= 60", "= 480"), ("= 40.0", "= 384.0"), ("39.5", "320.0"), ("29.5", "240.0")]:
        text = text.replace(old, new)
    (folder / "mounts.toml").write_text(text)
    return folder / "mounts.toml"


#   name, module, arguments from the test's folder, a key of the result
JSON_COMMANDS = [
    ("run", "onboard", lambda f: ["run", "--config", quiet(f), "--for", "0.5"], "commands_by_reason"),
    ("check-config", "onboard", lambda f: ["check-config", "--config", quiet(f)], "limits"),
    (
        "scan",
        "onboard",
        lambda f: ["scan", "--mounts", rig(f), "--camera", f"front={DATA / 'realsense-office' / 'depth_0.png'}"],
        "ranges_m",
    ),
    ("sim", "hil", lambda f: ["sim", "--for", "0.5"], "path_m"),
]


@pytest.mark.parametrize(("name", "module", "arguments", "key"), JSON_COMMANDS, ids=[row[0] for row in JSON_COMMANDS])
def test_standard_output_holds_the_result_alone(name: str, module: str, arguments, key: str, tmp_path: Path) -> None:
    command = done(module, *arguments(tmp_path), "--json", "-", folder=tmp_path, domain=free_domain())
    assert command.process.returncode == 0, command.err
    assert key in json.loads(command.out)


def test_a_second_runtime_for_one_robot_is_refused(tmp_path: Path) -> None:
    domain = free_domain()
    names = {name: quiet(tmp_path, f"{name}.toml", robot={"name": name}) for name in ("one", "two")}
    elsewhere = quiet(tmp_path, "elsewhere.toml", robot={"name": "one"}, dds={"namespace": "r7"})
    with running("onboard", "run", "--config", names["one"], folder=tmp_path, domain=domain) as first:
        first.wait_for("ready")
        again = done("onboard", "run", "--config", names["one"], folder=tmp_path, domain=domain)
        assert (again.process.returncode, again.out) == (2, "")
        assert (
            again.err == f"error: robot one is already driven on domain {domain} by another process of this machine\n"
        )
        same_topics = done("onboard", "run", "--config", names["two"], folder=tmp_path, domain=domain)
        assert (same_topics.process.returncode, same_topics.out) == (2, "")
        assert same_topics.err.splitlines(keepends=True)[-1] == (
            f"error: robot two is already driven on domain {domain}: somebody publishes /onboard/state\n"
        )
        other = done("onboard", "run", "--config", elsewhere, "--for", "0.2", folder=tmp_path, domain=domain)
        assert other.process.returncode == 0, other.err
        assert first.end() == 0


#   signal            exit code of a start that it ends
INTERRUPTED = [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.long)]


@pytest.mark.parametrize(("number", "code"), INTERRUPTED, ids=["SIGINT", "SIGTERM"])
def test_a_start_can_be_interrupted(number: signal.Signals, code: int, tmp_path: Path) -> None:
    """While kernels compile for the first time, which takes seconds at least, without waiting for the end of it."""
    with running("onboard", "run", "--config", quiet(tmp_path), **cold(tmp_path)) as command:
        command.wait_for("preparing")
        assert command.end(number) == code
        assert "Traceback" not in command.err
        assert "ready" not in command.err
    assert not (tmp_path / "recordings").exists()


def cold(folder: Path) -> dict:
    """Return the options of a command that has no compiled kernels."""
    return {
        "folder": folder,
        "domain": free_domain(),
        "prefix": ("env", f"NUMBA_CACHE_DIR={folder / 'numba'}"),
    }


@pytest.mark.long
def test_the_first_start_of_all_compiles_and_runs(tmp_path: Path) -> None:
    command = Command("onboard", "run", "--config", quiet(tmp_path), "--for", "0.5", **cold(tmp_path))
    until(lambda: command.process.poll() is not None, START_S)
    assert command.process.returncode == 0, command.err
    assert "ready" in command.err
