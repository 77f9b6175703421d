"""What the doctor says of the computer: read from trees of files as the kernel and NVIDIA's tools write them."""

from __future__ import annotations

import ctypes
import os
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from onboard.commands.doctor import host, service
from onboard.commands.doctor.cameras import OLD_DAYS, age, lens, nearness
from onboard.commands.doctor.finding import Level
from onboard.commands.doctor.host import KernelClock, power
from onboard.commands.doctor.storage import disk, this_process
from onboard.config.config import DEFAULT_ROBOT, CamerasSection, RecordSection
from onboard.config.mounts import load_mounts
from onboard.recording.retention import mark

GREEN, AMBER, RED = Level.GREEN, Level.AMBER, Level.RED
TODAY = date(2026, 6, 1)


def tree(root: Path, **files: str | int) -> Path:
    """Write files, `/` in their names as `__`."""
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return root


ZONE = "sys__class__thermal__thermal_zone0__"
PASSIVE = {f"{ZONE}trip_point_0_type": "passive", f"{ZONE}trip_point_0_temp": 85000}
CRITICAL = {f"{ZONE}trip_point_1_type": "critical", f"{ZONE}trip_point_1_temp": 105000}

#   name                                   temp     trip points               level
HEAT = [
    ("cool", 50_000, {}, GREEN),
    ("hot, no trip points", 82_000, {}, AMBER),
    ("very hot, no trip points", 96_000, {}, RED),
    ("hot, below its own trip point", 84_000, PASSIVE, GREEN),
    ("slowed down by its trip point", 85_000, PASSIVE, AMBER),
    ("five degrees below being switched off", 100_000, PASSIVE | CRITICAL, RED),
    ("just cooler", 99_000, PASSIVE | CRITICAL, AMBER),
    (
        "a trip point of 0 is none",
        50_000,
        {f"{ZONE}trip_point_0_type": "passive", f"{ZONE}trip_point_0_temp": 0},
        GREEN,
    ),
]


@pytest.mark.parametrize(("milli", "trips", "level"), [row[1:] for row in HEAT], ids=[row[0] for row in HEAT])
def test_temperature(milli: int, trips: dict, level: Level, tmp_path: Path) -> None:
    found = host.thermal(tree(tmp_path, **{f"{ZONE}type": "tj-thermal", f"{ZONE}temp": milli, **trips}))
    assert found.level is level
    assert found.values == {"tj-thermal": milli / 1000}


def test_a_zone_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """Zones of a Jetson's parts that are switched off answer with an error; here a folder in the file's place."""
    (tmp_path / "sys/class/thermal/thermal_zone0/temp").mkdir(parents=True)
    assert host.zones(tmp_path) == []
    assert host.thermal(tmp_path).level is GREEN


NVPMODEL = (
    "< POWER_MODEL ID=0 NAME=MAXN >\nCPU_ONLINE CORE_0 1\n< POWER_MODEL ID=2 NAME=MODE_30W >\n< PM_CONFIG DEFAULT=2 >"
)
CORE = "sys__devices__system__cpu__cpu1__cpufreq__"
PACK = "sys__class__power_supply__BAT0__"


def battery(percent: int, status: str, **more: str) -> dict[str, str | int]:
    return {f"{PACK}type": "Battery", f"{PACK}capacity": percent, f"{PACK}status": status, **more}


#   name                          files                                                                level  words
POWER = [
    ("a desk computer", {}, GREEN, "no power modes"),
    ("full power", {"etc__nvpmodel.conf": NVPMODEL, "var__lib__nvpmodel__status": "pmode:0000"}, GREEN, "MAXN"),
    ("capped", {"etc__nvpmodel.conf": NVPMODEL, "var__lib__nvpmodel__status": "pmode:0002"}, AMBER, "MODE_30W caps"),
    ("the default mode", {"etc__nvpmodel.conf": NVPMODEL}, AMBER, "MODE_30W caps"),
    ("no mode named", {"etc__nvpmodel.conf": "# empty"}, AMBER, "does not report"),
    ("clock free", {f"{CORE}cpuinfo_max_freq": 2_200_000, f"{CORE}scaling_max_freq": 2_200_000}, GREEN, ""),
    ("clock held", {f"{CORE}cpuinfo_max_freq": 2_200_000, f"{CORE}scaling_max_freq": 1_100_000}, AMBER, "cpu1"),
    ("battery full", battery(90, "Discharging"), GREEN, "90 %"),
    ("battery low", battery(20, "Discharging"), AMBER, "20 %"),
    ("battery empty", battery(5, "Discharging"), RED, "5 %"),
    ("battery empty and charging", battery(5, "Charging"), GREEN, "5 %"),
    ("a mouse's battery", battery(5, "Discharging", **{f"{PACK}scope": "Device"}), GREEN, "no battery"),
]


@pytest.mark.parametrize(("files", "level", "words"), [row[1:] for row in POWER], ids=[row[0] for row in POWER])
def test_power(files: dict, level: Level, words: str, tmp_path: Path) -> None:
    found = power(tree(tmp_path, **files))
    assert found.level is level
    assert words in found.found
    assert bool(found.remedy) == (level is not GREEN)


#   available of 1,000,000   level
MEMORY = [(400_000, GREEN), (150_000, GREEN), (149_000, AMBER), (50_000, AMBER), (49_000, RED)]


@pytest.mark.parametrize(("available", "level"), MEMORY)
def test_memory(available: int, level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    now = SimpleNamespace(total=1_000_000, available=available)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: now)
    assert host.memory().level is level


HUGE = 1e12

#   name, marked recordings of 1 MB, others, record section, level, words
DISK = [
    ("room for everything", 0, 0, {"max_total_mb": 1.0, "max_file_mb": 1.0}, GREEN, "recordings hold 0.0 of 0.001 GB"),
    ("no room for one file", 0, 0, {"max_total_mb": HUGE, "max_file_mb": 1e11}, AMBER, "no room for another file"),
    ("no room later", 0, 0, {"max_total_mb": HUGE, "max_file_mb": 1.0}, AMBER, "may still grow"),
    ("the oldest give room", 0, 3, {"max_total_mb": 3.0, "max_file_mb": 1.0}, GREEN, "hold 0.0 of 0.003 GB"),
    ("marked ones do not", 3, 0, {"max_total_mb": 3.0, "max_file_mb": 1.0}, AMBER, "marked recordings leave no room"),
    ("nothing is recorded", 0, 0, {"enabled": False}, GREEN, "nothing"),
]


@pytest.mark.parametrize(
    ("marked", "others", "section", "level", "words"), [row[1:] for row in DISK], ids=[row[0] for row in DISK]
)
def test_disk(marked: int, others: int, section: dict, level: Level, words: str, tmp_path: Path) -> None:
    folder = tmp_path / "not" / "yet"
    for number in range(marked + others):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"robot_{number}.mcap").write_bytes(bytes(10**6))
        if number < marked:
            mark(folder / f"robot_{number}.mcap", keep=True)
    found = disk(RecordSection(directory=folder, **section), this_process())
    assert found.level is level
    assert words in found.found
    assert bool(found.remedy) == (level is not GREEN)


#   name                     kernel's word         odometry ahead, localised    level
CLOCKS = [
    ("synchronised", KernelClock(True, 0.002), None, True, GREEN),
    ("synchronised, other machine too", KernelClock(True, 0.002), 0.05, True, GREEN),
    ("other machine apart", KernelClock(True, 0.002), 0.2, True, AMBER),
    ("other machine behind", KernelClock(True, 0.002), -0.2, True, AMBER),
    ("apart, and nothing compares", KernelClock(True, 0.002), 5.0, False, GREEN),
    ("not synchronised", KernelClock(False, 16.0), None, False, AMBER),
    ("may not be asked", None, None, False, AMBER),
]


@pytest.mark.parametrize(
    ("state", "ahead_s", "localised", "level"), [row[1:] for row in CLOCKS], ids=[r[0] for r in CLOCKS]
)
def test_clock(state: KernelClock | None, ahead_s: float | None, localised: bool, level: Level) -> None:
    assert host.clock(state, ahead_s, localised=localised).level is level


class Timex(ctypes.Structure):
    """The first part of `struct timex`."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        *((name, ctypes.c_long) for name in ("offset", "freq", "maxerror", "esterror")),
        ("status", ctypes.c_int),
    )


def test_the_kernels_clock_state_is_read_from_the_right_words() -> None:
    word = ctypes.sizeof(ctypes.c_long)
    assert (Timex.maxerror.offset, Timex.status.offset) == (host.MAX_ERROR_WORD * word, host.STATUS_WORD * word)
    state = host.kernel_clock()
    assert state is None or state.max_error_s >= 0.0


UNIT = {
    "LoadState": "loaded",
    "ActiveState": "active",
    "SubState": "running",
    "NRestarts": "0",
    "MainPID": "0",
    "CPUSchedulingPolicy": "1",
    "CPUSchedulingPriority": "40",
    "LimitMEMLOCK": "infinity",
}

#   name                 unit state                                                               service  rights
UNITS = [
    ("well", UNIT, GREEN, GREEN),
    ("restarted", UNIT | {"NRestarts": "3"}, AMBER, GREEN),
    ("failed", UNIT | {"ActiveState": "failed", "Result": "watchdog"}, RED, GREEN),
    ("stopped", UNIT | {"ActiveState": "inactive"}, AMBER, GREEN),
    ("starting", UNIT | {"ActiveState": "activating"}, GREEN, GREEN),
    ("no FIFO", UNIT | {"CPUSchedulingPolicy": "0"}, GREEN, AMBER),
    ("no memory lock", UNIT | {"LimitMEMLOCK": "8388608"}, GREEN, AMBER),
    ("FIFO in the unit, not in the process", UNIT | {"MainPID": str(os.getpid())}, GREEN, AMBER),
    ("the process just ended", UNIT | {"MainPID": str(2**22 + 1)}, GREEN, GREEN),
]


@pytest.mark.parametrize(("state", "reported", "rights"), [row[1:] for row in UNITS], ids=[row[0] for row in UNITS])
def test_service_and_rights(state: dict, reported: Level, rights: Level) -> None:
    assert service.service(state).level is reported
    assert service.rights(state).level is rights


def test_without_a_service_it_is_this_user_who_is_judged() -> None:
    assert service.service({}).level is AMBER
    assert service.service({"LoadState": "not-found"}).remedy.startswith("`onboard install`")
    found = service.rights({})
    assert found.values["user"] == f"user {os.geteuid()}"
    assert (found.level is GREEN) == (service.may_run_first() and service.may_lock())
    assert os.sched_getscheduler(0) == os.SCHED_OTHER, "the attempt must not stick to this thread"


def test_systemctl_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in its place: one that answers, one that fails, none at all."""
    program = tmp_path / "systemctl"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    program.write_text("#!/bin/sh\necho LoadState=loaded\necho asked=$2\n")
    program.chmod(0o755)
    assert service.unit_state() == {"LoadState": "loaded", "asked": "onboard.service"}
    program.write_text("#!/bin/sh\necho LoadState=loaded\nexit 1\n")
    assert service.unit_state() == {}
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    assert service.unit_state() == {}


def dated(folder: Path, day: date | None) -> Path:
    """Write mounts of which each camera was measured on a day."""
    line = "" if day is None else f"calibrated = {day}\n"
    text = (DEFAULT_ROBOT / "mounts.toml").read_text().replace('serial = ""\n', f'serial = ""\n{line}')
    (folder / "mounts.toml").write_text(text)
    return folder / "mounts.toml"


#   name           measured                                 level  words
AGES = [
    ("today", TODAY, GREEN, "0 days ago"),
    ("just young enough", TODAY - timedelta(OLD_DAYS), GREEN, f"{OLD_DAYS} days ago"),
    ("too old", TODAY - timedelta(OLD_DAYS + 1), AMBER, f"{OLD_DAYS + 1} days old"),
    ("tomorrow", TODAY + timedelta(1), AMBER, "in the future"),
    ("never", None, AMBER, "no calibration date"),
]


@pytest.mark.parametrize(("day", "level", "words"), [row[1:] for row in AGES], ids=[row[0] for row in AGES])
def test_age_of_the_calibration(day: date | None, level: Level, words: str, tmp_path: Path) -> None:
    found = age(dated(tmp_path, day), TODAY)
    assert found.level is level
    assert words in found.found
    assert found.values["calibrated"]["front"] == (None if day is None else day.isoformat())  # type: ignore[index]


#   where images come from                     amber for
NEARNESS = [
    (CamerasSection(source="dds"), ["rear"]),
    (CamerasSection(source="realsense"), []),
    (CamerasSection(source="realsense", sources={"rear": "dds"}), ["rear"]),
    (CamerasSection(source="realsense", sources={"front": "dds"}), []),
]


@pytest.mark.parametrize(("section", "silent"), NEARNESS)
def test_a_camera_over_dds_states_how_near_it_sees(section: CamerasSection, silent: list[str]) -> None:
    mounts = load_mounts(DEFAULT_ROBOT / "mounts.toml")
    assert nearness(mounts, section) == []
    rear = replace(mounts.depth["rear"], least_m=None)
    found = nearness(replace(mounts, depth={**mounts.depth, "rear": rear}), section)
    assert [one.values["cameras"] for one in found] == ([silent] if silent else [])
    assert all(one.level is AMBER and "least_m" in one.remedy for one in found)


def test_a_lens_that_is_not_the_mounts_is_named() -> None:
    mount = load_mounts(DEFAULT_ROBOT / "mounts.toml").depth["front"]
    own = {"fx": mount.fx, "fy": mount.fy, "cx": mount.cx, "cy": mount.cy}
    assert lens(mount, own) == []
    assert lens(mount, {}) == []
    (other,) = lens(mount, own | {"fx": mount.fx * 1.02})
    assert "fx 40.8 (mounts: 40.0)" in other.found


@pytest.mark.parametrize(("mean", "level"), [(0.0, GREEN), (float(os.cpu_count() or 1), GREEN), (999.5, AMBER)])
def test_more_programs_than_cores_are_told(mean: float, level: Level, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "getloadavg", lambda: (mean, 0.0, 0.0))
    found = host.load()
    assert (found.level, found.values["load_1min"]) == (level, mean)
