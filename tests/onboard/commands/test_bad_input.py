"""Whatever a person gives a command that it cannot use: exit code 2, one line on standard error, nothing else."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from onboard.config.config import DEFAULT_ROBOT
from onboard.policy.manifest import manifest_path
from tests.onboard.recording.test_repair import write_file
from tests.rigs.devices.small_model import manifest_table, small_policy_files, write_model
from tests.rigs.machine.processes import done, toml

DATA = Path(__file__).parents[2] / "data"
OFFICE = DATA / "realsense-recording" / "office_40f.db3"
DEPTH = DATA / "realsense-office" / "depth_0.png"
MOUNTS = DEFAULT_ROBOT / "mounts.toml"
REFUSED = 2


@pytest.fixture(autouse=True)
def _log_of_this_test_only() -> Iterator[None]:
    """A command sets up the log for its process, here onto what pytest captures and closes."""
    yield
    structlog.reset_defaults()


def config(folder: Path, **tables: dict) -> Path:
    """Write a configuration that records into the test's folder."""
    return toml(folder / "onboard.toml", **{"record": {"directory": "recordings"}, **tables})


def recorded(folder: Path, recording: Path | str) -> Path:
    """Write a configuration whose front camera plays a recording."""
    cameras = {"sources": {"front": "realsense"}, "recordings": {"front": recording}}
    return config(folder, cameras=cameras)


def damaged(folder: Path, size: int) -> Path:
    """Write the first part of the real recording."""
    (folder / "cut.db3").write_bytes(OFFICE.read_bytes()[:size])
    return folder / "cut.db3"


def file(folder: Path, text: str, name: str = "some.toml") -> Path:
    (folder / name).write_text(text)
    return folder / name


def model(folder: Path, change: Callable[[Path], None]) -> Path:
    """Write a configuration with a small model and its manifest, changed."""
    path = small_policy_files(folder)
    change(path)
    return config(folder, policy={"model": path})


def without_manifest(path: Path) -> None:
    manifest_path(path).unlink()


def with_another_hash(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def with_another_delay(path: Path) -> None:
    manifest_path(path).write_text(json.dumps(manifest_table(path, training_delay_ticks=5)))


def with_fewer_bins_than_it_says(path: Path) -> None:
    write_model(path, scan_bins=90)
    manifest_path(path).write_text(json.dumps(manifest_table(path)))


#   name, arguments from the test's folder, words of the line. What a file may not say, its own tests have in full.
CONFIGURATIONS = [
    ("missing file", lambda f: f / "none.toml", ["none.toml", "No such file"]),
    ("unknown key", lambda f: file(f, "[limits]\nv_max = 1.0\n"), ["some.toml", "unknown key limits.v_max"]),
    (
        "too fast to stop",
        lambda f: config(f, limits={"v_max_mps": 2.5}),
        ["limits.v_max_mps 2.5", "1.93 m", "2.10 m/s"],
    ),
    ("no mounts", lambda f: config(f, robot={"mounts": "no.toml"}), ["no.toml", "No such file"]),
    ("no plant", lambda f: config(f, robot={"plant": "no.toml"}), ["no.toml", "No such file"]),
    ("unknown camera", lambda f: config(f, scan={"cameras": ["top"]}), ["scan.cameras", "top", "front_left"]),
    (
        "unknown source",
        lambda f: config(f, cameras={"sources": {"top": "dds"}}),
        ["cameras.sources", "top", "front_left"],
    ),
    ("no serial", lambda f: config(f, cameras={"source": "realsense"}), ["mounts.toml", "front_left", "no serial"]),
    (
        "unknown recording",
        lambda f: config(f, cameras={"recordings": {"top": "top.db3"}}),
        ["cameras.recordings", "top", "front_left"],
    ),
    ("no recording", lambda f: recorded(f, "none.db3"), ["none.db3", "No such file"]),
    ("truncated recording", lambda f: recorded(f, damaged(f, 1_000_000)), ["cut.db3", "truncated"]),
    ("corrupt recording", lambda f: recorded(f, file(f, "x" * 5000, "bad.db3")), ["bad.db3"]),
    ("wrong image size", lambda f: recorded(f, OFFICE), ["office_40f.db3", "640x480", "80x60"]),
    ("bad topic", lambda f: config(f, dds={"remap": {"odom": "a b"}}), ["dds.remap.odom", "'a b'"]),
    ("unknown topic", lambda f: config(f, dds={"remap": {"x": "y"}}), ["'x'", "cmd_vel"]),
    ("bad namespace", lambda f: config(f, dds={"namespace": "1 2"}), ["dds.namespace", "'1 2'"]),
    ("no model", lambda f: config(f, policy={"model": "no.onnx"}), ["no.onnx", "manifest"]),
    ("no manifest", lambda f: model(f, without_manifest), ["small.onnx.manifest.json", "No such file"]),
    ("wrong hash", lambda f: model(f, with_another_hash), ["small.onnx.manifest.json", "sha256", "expected"]),
    (
        "wrong delay",
        lambda f: model(f, with_another_delay),
        ["small.onnx", "rates.delay_ticks", "166.7 ms"],
    ),
]

#   name, module, arguments from the test's folder, words of the line
COMMANDS = [
    *(
        (f"run: {n}", "onboard", lambda f, m=m: ["run", "--config", m(f)], words)
        for n, m, words in CONFIGURATIONS
        if n in ("unknown key", "no serial", "wrong hash", "too fast to stop")
    ),
    *(
        (f"check-config: {n}", "onboard", lambda f, m=m: ["check-config", "--config", m(f)], words)
        for n, m, words in CONFIGURATIONS
    ),
    (
        "run: no interface",
        "onboard",
        lambda f: ["run", "--config", config(f, dds={"interface": "nope0"})],
        ["dds.interface", "'nope0'", "lo"],
    ),
    ("run: json", "onboard", lambda f: ["run", "--json", f / "no" / "x.json"], ["x.json", "no folder"]),
    ("run: json is a folder", "onboard", lambda f: ["run", "--json", f], ["is a folder"]),
    (
        "check-config: json over toml",
        "onboard",
        lambda f: ["check-config", "--json", f / "x.toml"],
        ["--json", "x.toml"],
    ),
    ("check-config: json", "onboard", lambda f: ["check-config", "--json", f / "no" / "x.json"], ["x.json"]),
    ("cameras: json", "onboard", lambda f: ["cameras", "--json", f / "no" / "x.json"], ["x.json"]),
    ("cameras: config", "onboard", lambda f: ["cameras", "--config", f / "no.toml"], ["no.toml", "No such file"]),
    (
        "scan: no mounts",
        "onboard",
        lambda f: ["scan", "--mounts", f / "no.toml", "--camera", f"front={DEPTH}"],
        ["no.toml"],
    ),
    (
        "scan: wrong size",
        "onboard",
        lambda f: ["scan", "--mounts", MOUNTS, "--camera", f"front={DEPTH}"],
        ["depth_0.png", "640x480", "80x60"],
    ),
    (
        "scan: truncated recording",
        "onboard",
        lambda f: ["scan", "--mounts", MOUNTS, "--camera", f"front={damaged(f, 1_000_000)}"],
        ["cut.db3", "truncated"],
    ),
    (
        "scan: frame",
        "onboard",
        lambda f: ["scan", "--mounts", MOUNTS, "--camera", f"front={OFFICE}", "--frame", "40"],
        ["office_40f.db3", "40", "0 to 39"],
    ),
    ("repair: missing", "onboard", lambda f: ["repair", f / "no.mcap"], ["no.mcap", "No such file"]),
    ("repair: not MCAP", "onboard", lambda f: ["repair", file(f, "text", "x.mcap")], ["x.mcap", "not an MCAP file"]),
    ("repair: a folder", "onboard", lambda f: ["repair", f], ["Is a directory"]),
    ("keep: missing", "onboard", lambda f: ["keep", f / "no.mcap"], ["no.mcap", "not a recording"]),
    ("install: missing", "onboard", lambda f: ["install", "--dry-run", f / "no.whl"], ["no.whl", "neither a wheel"]),
    ("install: text", "onboard", lambda f: ["install", "--dry-run", file(f, "x", "x.whl")], ["x.whl", "not a wheel"]),
    ("sim: unknown map", "hil", lambda f: ["sim", "--map", "nowhere"], ["nowhere", "gdc1"]),
    ("sim: no map file", "hil", lambda f: ["sim", "--map", f / "no.yaml"], ["no.yaml", "No such file"]),
    ("sim: bad map file", "hil", lambda f: ["sim", "--map", file(f, "[]", "x.json")], ["x.json", "segment"]),
    ("sim: map of no kind", "hil", lambda f: ["sim", "--map", file(f, "", "x.txt")], ["x.txt", ".yaml"]),
    ("sim: start of two", "hil", lambda f: ["sim", "--start", "1,2"], ["--start 1,2", "three numbers"]),
    ("sim: start NaN", "hil", lambda f: ["sim", "--start", "nan,0,0"], ["--start nan,0,0", "finite"]),
    ("sim: start far away", "hil", lambda f: ["sim", "--start", "1e9,0,0"], ["--start 1e9,0,0", "100000"]),
    ("sim: start in a wall", "hil", lambda f: ["sim", "--start", "-500,0,0"], ["start (-500.00, 0.00)", "0.25"]),
    ("sim: no episode", "hil", lambda f: ["sim", "--episode", "99"], ["--episode 99", "0 to 24"]),
    ("sim: json", "hil", lambda f: ["sim", "--json", f / "no" / "x.json"], ["x.json", "no folder"]),
    ("sim: config", "hil", lambda f: ["sim", "--config", f / "no.toml"], ["no.toml", "No such file"]),
    ("demo: unknown map", "hil", lambda f: ["demo", "--map", "nowhere"], ["nowhere", "gdc1"]),
    ("demo: no episode", "hil", lambda f: ["demo", "--episode", "99"], ["--episode 99", "0 to 24"]),
    ("demo: no model", "hil", lambda f: ["demo", "--policy", "no.onnx"], ["no.onnx", "manifest"]),
    ("demo: out is a file", "hil", lambda f: ["demo", "--out", file(f, "")], ["some.toml", "cannot be written"]),
    ("demo: json", "hil", lambda f: ["demo", "--json", f / "no" / "x.json"], ["x.json", "no folder"]),
    ("demo: unknown key", "hil", lambda f: ["demo", "--config", file(f, "x = 1")], ["some.toml", "unknown key x"]),
    (
        "export: no folder",
        "engines",
        lambda f: ["export", "--tiny", "--out", f / "no" / "x.onnx"],
        ["x.onnx", "there is no folder"],
    ),
    (
        "export: no checkpoint",
        "engines",
        lambda f: ["export", "--tiny", "--out", f / "x.onnx", "--checkpoint", f / "no.pt"],
        ["no.pt", "No such file"],
    ),
]
BEGINS = {"onboard": "error: ", "hil": "error: ", "engines": "error: "}


def complaint(module: str, code: object, out: str, err: str) -> str:
    """Return the one line on standard error, after checking that there is nothing else."""
    assert code == REFUSED
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith(BEGINS[module])
    return lines[0]


@pytest.mark.parametrize(("name", "module", "arguments", "words"), COMMANDS, ids=[row[0] for row in COMMANDS])
def test_bad_input_is_one_line(
    name: str,
    module: str,
    arguments: Callable[[Path], list[object]],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In this process, since there are many; what C libraries write to the descriptors is seen too."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [module, *map(str, arguments(tmp_path))])
    capfd.readouterr()
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(f"{module}.__main__").main()
    line = complaint(module, ended.value.code, *capfd.readouterr())
    for word in words:
        assert word in line
    assert not (tmp_path / "recordings").exists()


PROCESSES = [row for row in COMMANDS if row[0] in ("run: unknown key", "sim: unknown map")]


@pytest.mark.parametrize("row", PROCESSES, ids=[row[0] for row in PROCESSES])
def test_bad_input_is_one_line_of_a_process(row: tuple, tmp_path: Path) -> None:
    _, module, arguments, words = row
    command = done(module, *arguments(tmp_path), folder=tmp_path)
    line = complaint(module, command.process.returncode, command.out, command.err)
    for word in words:
        assert word in line


def test_a_model_that_does_not_fit_its_manifest_cannot_start(tmp_path: Path) -> None:
    """Only the engine can tell; no recording is begun for a start that fails."""
    given = model(tmp_path, with_fewer_bins_than_it_says)
    command = done("onboard", "run", "--config", given, folder=tmp_path)
    assert command.process.returncode == REFUSED
    *log, line = command.err.splitlines()
    assert line.startswith("error: ")
    for word in ("small.onnx", "scan", "180", "90"):
        assert word in line
    assert "Traceback" not in "".join(log)
    assert not (tmp_path / "recordings").exists()


def test_one_bad_recording_does_not_keep_the_others_from_repair(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.mcap", tmp_path / "cut.mcap"
    write_file(whole)
    shutil.copy(whole, cut)
    cut.write_bytes(cut.read_bytes()[:-50])
    command = done("onboard", "repair", tmp_path / "no.mcap", cut, whole, "--json", "done.json", folder=tmp_path)
    assert command.process.returncode == REFUSED
    assert "no.mcap" in command.err
    assert command.out.splitlines()[1:] == [f"{whole}: already complete, not changed"]
    assert command.out.startswith(f"{cut}: completed, ")
    assert [bool(load["problem"]) for load in json.loads((tmp_path / "done.json").read_text())] == [True, False, False]
