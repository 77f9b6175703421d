"""`check-config` refuses every configuration that `run` refuses on this machine, so a reload ends no run."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from onboard.__main__ import app
from onboard.assembly.assembly import check_machine, run_robot
from onboard.config.config import Config, OdometrySection, load_config
from onboard.drivers.engines import tensorrt_engine
from onboard.values.errors import MissingExtraError, OnboardError
from tests.rigs.devices.small_model import small_policy_files
from tests.rigs.machine.processes import environment, toml
from tests.rigs.network.loopback import free_domain
from tests.rigs.network.nobody import NEEDS_ROOT, by_nobody, open_folder

NO_CAMERAS = {"source": "none", "color": "none"}
UNKNOWN_HOST = "nobody-has-this-name.invalid"


def quiet(folder: Path, **tables: dict) -> Path:
    """Write a configuration with all of its files."""
    given = {"record": {"directory": "recordings"}, "cameras": NO_CAMERAS, **tables}
    given["dds"] = {"domain": free_domain(), **given.get("dds", {})}
    return toml(folder / "onboard.toml", **given)


def in_the_way(folder: Path) -> Path:
    """Write a file at the path of a folder."""
    (folder / "file").write_text("")
    return folder / "file" / "recordings"


NO_TENSORRT = not tensorrt_engine.HAS_PYCUDA or find_spec("tensorrt") is None
NEEDS_NO_TENSORRT = pytest.mark.skipif(not NO_TENSORRT, reason="TensorRT is installed here")

#   name                        tables, from the test's folder                                   words of the line
REFUSED = [
    ("interface", lambda f: {"dds": {"interface": "eht0"}}, ["dds.interface", "'eht0'", "lo"]),
    ("peer", lambda f: {"dds": {"peers": [UNKNOWN_HOST]}}, ["dds.peers", UNKNOWN_HOST]),
    ("peer of no length that a host has", lambda f: {"dds": {"peers": ["a" * 70]}}, ["dds.peers", "aaa"]),
    ("keys", lambda f: {"dds": {"security": f / "nokeys"}}, ["dds.security", "nokeys", "secure-setup"]),
    ("kernel's folder", lambda f: {"record": {"directory": "/proc/nothing"}}, ["record.directory /proc/nothing"]),
    ("file in the way", lambda f: {"record": {"directory": in_the_way(f)}}, ["file/recordings", "Not a directory"]),
    pytest.param(
        "engine",
        lambda f: {"policy": {"model": small_policy_files(f), "engine": "tensorrt"}},
        ["is not installed: pip install"],
        marks=NEEDS_NO_TENSORRT,
    ),
]


WHAT_DRIVES = ["policy", "cameras", "wire", "limits", "off"]
"""First words of the lines that say what drives."""


def asked(*words: str | Path) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize(("name", "tables", "words"), REFUSED)
def test_what_would_not_start_is_refused(name: str, tables: object, words: list[str], tmp_path: Path) -> None:
    """The message is the same as the run's."""
    given = quiet(tmp_path, **tables(tmp_path))  # type: ignore[operator]
    ended = asked("check-config", "--config", given)
    assert isinstance(ended.exception, OnboardError), ended.output
    line = str(ended.exception)
    assert "\n" not in line
    assert [word for word in words if word not in line] == [], line
    assert ended.stdout == ""
    with pytest.raises(OnboardError) as refused:
        run_robot(load_config(given), 0.1, None)
    assert str(refused.value) == line


@pytest.mark.parametrize(("name", "tables", "words"), REFUSED)
def test_for_another_machine_its_files_are_enough(name: str, tables: object, words: list[str], tmp_path: Path) -> None:
    given = quiet(tmp_path, **tables(tmp_path))  # type: ignore[operator]
    ended = asked("check-config", "--files-only", "--config", given)
    assert (ended.exit_code, [line.split()[0] for line in ended.stderr.splitlines()]) == (0, WHAT_DRIVES)
    assert '"record"' in ended.stdout


def test_what_can_start_passes_and_makes_nothing(tmp_path: Path) -> None:
    ended = asked("check-config", "--config", quiet(tmp_path, dds={"peers": ["localhost", "127.0.0.1:7410"]}))
    assert (ended.exit_code, [line.split()[0] for line in ended.stderr.splitlines()]) == (0, WHAT_DRIVES)
    assert [path.name for path in tmp_path.iterdir()] == ["onboard.toml"]


def test_who_does_not_record_needs_no_folder(tmp_path: Path) -> None:
    record = {"enabled": False, "directory": "/proc/nothing"}
    assert check_machine(load_config(quiet(tmp_path, record=record))) == []


def test_a_base_that_is_not_plugged_in_is_only_told(tmp_path: Path) -> None:
    """The host may come up later; a typing error looks the same."""
    odometry = {"input": "serial", "serial_port": "/dev/bsae"}
    ended = asked("check-config", "--config", quiet(tmp_path, odometry=odometry))
    assert ended.exit_code == 0
    warning, *rest = ended.stderr.splitlines()
    assert warning == "warning: odometry.serial_port: /dev/bsae does not exist; is the base plugged in?"
    assert [line.split()[0] for line in rest] == WHAT_DRIVES
    there = {"input": "serial", "serial_port": "/dev/null"}
    assert check_machine(load_config(quiet(tmp_path, odometry=there))) == []


def test_a_serial_base_needs_what_speaks_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    loaded = load_config(quiet(tmp_path)).model_copy(update={"odometry": OdometrySection(input="serial")})
    with pytest.raises(MissingExtraError, match="pyserial"):
        check_machine(loaded)


def test_a_camera_on_a_cable_needs_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyrealsense2", None)
    given = load_config(quiet(tmp_path))
    cameras = given.cameras.model_copy(update={"color": "realsense", "color_serial": "123"})
    with pytest.raises(MissingExtraError, match="pyrealsense2"):
        check_machine(Config.model_validate({**given.model_dump(), "cameras": cameras.model_dump()}))


@NEEDS_ROOT
def test_a_folder_of_somebody_else_is_refused() -> None:
    """The service's own user checks the configuration before a reload ends a run."""
    with open_folder() as folder:
        (folder / "mine").mkdir()
        (folder / "mine").chmod(0o777)
        (folder / "shut").mkdir(mode=0o700)
        program = f"check_usable(Path('{folder}/mine/recordings'))\ntry:\n    check_usable(Path('{folder}/%s'))\n"
        program += "except ConfigError as error:\n    print(error)"
        imports = "from pathlib import Path\nfrom onboard.values.errors import ConfigError\n"
        imports += "from onboard.recording.retention import check_usable"
        for name in ("recordings", "shut/recordings"):
            output = by_nobody(imports, program % name)
            assert output == f"record.directory {folder}/{name}: cannot be used: Permission denied\n"


def test_a_terminal_shows_what_drives_and_not_every_key(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "onboard", "check-config", "--files-only", "--config", str(quiet(tmp_path))]
    subprocess.run(command, stdout=theirs, env=environment(None), timeout=100, check=True)
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        shown = terminal.read(1 << 16).decode()
    assert [line.split()[0] for line in shown.splitlines()] == WHAT_DRIVES
