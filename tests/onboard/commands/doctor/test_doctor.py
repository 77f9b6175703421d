"""`onboard doctor` as a person calls it: page, JSON and exit code, beside a running runtime and without one."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from onboard.commands.doctor import report
from onboard.commands.doctor.command import examine
from onboard.commands.doctor.finding import Level, amber, green, red
from onboard.commands.doctor.network import TopicRow
from onboard.commands.doctor.report import Report, show
from onboard.commands.doctor.storage import Sandbox, Writer, disk, sandbox, sandbox_problem
from onboard.config.config import DdsSection, RecordSection
from onboard.drivers.dds.discovery import look_around
from tests.onboard.service.test_systemd_reload import UNIT, idle
from tests.rigs.machine.processes import START_S, done, running, toml
from tests.rigs.machine.systemd_rig import Machine, machine, missing
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

NO_CAMERAS = {"source": "none", "color": "none"}
GREEN_ROW, AMBER_ROW, RED_ROW = (
    green("disk", "roomy"),
    amber("clock", "drifts", "set it"),
    red("base", "mute", "plug in"),
)


def quiet(folder: Path, **tables: dict) -> Path:
    """Write the configuration of a robot that has nothing to see with and no model."""
    return toml(folder / "onboard.toml", **{"record": {"enabled": False}, "cameras": NO_CAMERAS, **tables})


#   name                    findings                            readable   exit code   level
EXITS = [
    ("all well", (GREEN_ROW,), True, 0, "green"),
    ("look after", (GREEN_ROW, AMBER_ROW), True, 0, "amber"),
    ("will not drive", (AMBER_ROW, RED_ROW, GREEN_ROW), True, 1, "red"),
    ("no configuration", (RED_ROW,), False, 2, "red"),
    ("nothing found", (), True, 0, "green"),
]


@pytest.mark.parametrize(
    ("findings", "readable", "code", "level"), [row[1:] for row in EXITS], ids=[r[0] for r in EXITS]
)
def test_exit_code_and_level(findings: tuple, readable: bool, code: int, level: str) -> None:
    found = Report("robot", findings, (), readable)
    assert (found.exit_code, found.as_json()["level"]) == (code, level)
    assert [row["level"] for row in found.as_json()["findings"]] == [report.word(finding.level) for finding in findings]
    json.dumps(found.as_json(), allow_nan=False)


def page(found: Report, width: int = 100) -> str:
    stream = io.StringIO()
    show(found, Console(file=stream, markup=False, emoji=False, highlight=False, width=width))
    return stream.getvalue()


def test_the_page_begins_with_the_worst_and_says_what_to_do() -> None:
    topics = (TopicRow("/odom", "nav_msgs/msg/Odometry", ("base pid 7 on robot",), ()),)
    lines = [line.rstrip() for line in page(Report("robot", (GREEN_ROW, AMBER_ROW, RED_ROW), topics)).splitlines()]
    assert lines == [
        "red    base   mute",
        "              -> plug in",
        "amber  clock  drifts",
        "              -> set it",
        "green  disk   roomy",
        "topic  type                   published by         received by",
        "/odom  nav_msgs/msg/Odometry  base pid 7 on robot  -",
        "robot: 1 red, 1 amber, 1 green",
    ]


def test_what_others_are_called_is_no_markup() -> None:
    found = Report("robot", (red("dds", "[red]evil[/red] :warning:", "[link=x]y[/link]"),), ())
    assert "[red]evil[/red] :warning:" in page(found)
    assert "[link=x]y[/link]" in page(found)


#   name                       file                            words
UNREADABLE = [
    ("no such file", None, "cannot be read: No such file"),
    ("no TOML", "[robot", "not valid TOML"),
    ("unknown key", "[robot]\nwheels = 3\n", "unknown key robot.wheels"),
    ("no mounts", '[robot]\nmounts = "none.toml"\n', "none.toml: cannot be read"),
]


@pytest.mark.parametrize(("text", "words"), [row[1:] for row in UNREADABLE], ids=[row[0] for row in UNREADABLE])
def test_without_a_configuration_the_machine_is_looked_at(text: str | None, words: str, tmp_path: Path) -> None:
    file = tmp_path / "robot.toml"
    if text is not None:
        file.write_text(text)
    found = examine(file, 0.5)
    parts = {finding.part: finding for finding in found.findings}
    assert (found.exit_code, parts["configuration"].level) == (2, Level.RED)
    assert words in parts["configuration"].found
    assert {"service", "rights", "clock", "memory", "load", "temperature", "power", "versions"} <= set(parts)


def test_files_that_do_not_fit_do_not_end_the_rest(tmp_path: Path) -> None:
    """A model without its manifest, and a camera without a serial number: both said, and everything else too."""
    (tmp_path / "mine.onnx").touch()
    given = quiet(
        tmp_path,
        policy={"model": "mine.onnx"},
        cameras={"source": "realsense", "color": "none"},
        dds={"domain": free_domain()},
    )
    parts = {finding.part: finding for finding in examine(given, 0.5).findings}
    assert {name for name, part in parts.items() if part.level is Level.RED} >= {"configuration", "cameras", "policy"}
    assert "no serial" in parts["cameras"].found
    assert "needs its manifest" in parts["policy"].found
    assert {"base", "command", "dds", "disk", "versions"} <= set(parts)


def test_the_command_without_a_robot(tmp_path: Path) -> None:
    command = done(
        "onboard",
        "doctor",
        "--config",
        quiet(tmp_path),
        "--for",
        "0.5",
        "--json",
        "-",
        folder=tmp_path,
        domain=free_domain(),
    )
    assert command.process.returncode == 1, command.err
    table = json.loads(command.out)
    rows = {row["part"]: row for row in table["findings"]}
    assert (table["robot"], table["level"], table["topics"]) == ("robot", "red", [])
    assert (rows["base"]["level"], rows["command"]["level"], rows["dds"]["level"]) == ("red", "red", "green")
    assert all(bool(row["remedy"]) == (row["level"] != "green") for row in rows.values())


def test_beside_a_running_runtime(tmp_path: Path) -> None:
    """It is asked, heard and named; afterwards it still runs, and has sent nothing but its own commands."""
    domain, given = free_domain(), quiet(tmp_path)
    with running("onboard", "run", "--config", given, folder=tmp_path, domain=domain) as runtime:
        runtime.wait_for("ready")
        until(lambda: bool(look_around(DdsSection(domain=domain), 1.0).members), START_S)
        command = done(
            "onboard", "doctor", "--config", given, "--for", "3", "--json", "out.json", folder=tmp_path, domain=domain
        )
        assert command.process.returncode == 1, command.err
        table = json.loads((tmp_path / "out.json").read_text())
        assert runtime.process.poll() is None
        assert runtime.end() == 0, runtime.err
    rows = {row["part"]: row for row in table["findings"]}
    pid = str(runtime.process.pid)
    assert rows["dds"]["values"]["members"][0]["pid"] == pid
    assert f"sent by onboard run pid {pid}" in rows["command"]["found"]
    assert "no base listens" in rows["command"]["found"]
    assert int(rows["runtime"]["values"]["ticks"]) > 0
    (commands,) = [row for row in table["topics"] if row["topic"] == "/cmd_vel"]
    assert (commands["listeners"], len(commands["publishers"])) == ([], 1)
    assert "-> start the base's driver" in command.out
    assert command.out.rstrip().splitlines()[-1].startswith("robot: ")


@pytest.mark.parametrize(
    "arguments", [("--for", "nan"), ("--for", "0"), ("--for", "1e9"), ("--json", "/no/such/x.json")]
)
def test_bad_arguments(arguments: tuple[str, str], tmp_path: Path) -> None:
    command = done("onboard", "doctor", "--config", quiet(tmp_path), *arguments, folder=tmp_path)
    assert command.process.returncode == 2
    assert command.out == ""
    assert arguments[0] in command.err or arguments[1] in command.err


# ---- What the doctor says of recording folders that the service is kept from: by systemd's word, and by trying

SSD = "/media/ssd"
#   folder                              the service can write there, and it stays
FOLDERS = {
    "/var/lib/onboard/recordings": True,
    "/var/cache/onboard": True,
    f"{SSD}/recordings": True,
    "/media/bound/recordings": True,
    "/media/bound/elsewhere": True,
    "/media/shown": False,
    "/media/other": False,
    "/var/lib/other": False,
    "/opt/onboard/recordings": False,
    "/etc/onboard": False,
    "/home/somebody": False,
    "/srv/recordings": False,
    "/tmp/recordings": False,
}
BOUND = {"/media/bound/elsewhere": "/media/source"}
"""Where else what is written there lies."""
TRY = " ".join(FOLDERS)
DROP_IN = f"""\
[Service]
ReadWritePaths={SSD}
BindPaths=/media/bound/recordings -/media/absent
BindPaths=/media/source:/media/bound/elsewhere
BindReadOnlyPaths=/media/shown
ExecStartPre=/bin/sh -c 'for one in {TRY}; do touch $$one/probe 2>&1 && echo could $$one; done; true'
StandardOutput=file:/run/tried
"""
ASK = f"""
import json
from pathlib import Path
from onboard.commands.doctor.storage import sandbox_problem, of_unit
box = of_unit({UNIT!r})
print(json.dumps({{one: sandbox_problem(box, Path(one)) is None for one in {list(FOLDERS)}}}))
"""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    files = {f"run/units/{UNIT}": idle(), f"run/units/{UNIT}.d/robot.conf": DROP_IN}
    with machine(tmp_path_factory.mktemp("systemd"), files, "sandbox") as there:
        yield there


@pytest.mark.skipif(bool(missing()), reason=f"no systemd of our own here: {missing()}")
def test_the_doctor_says_what_the_service_finds(box: Machine) -> None:
    for folder in (SSD, *BOUND.values(), *FOLDERS):
        box.run("install", "-d", "-m", "777", folder)
    box.run("chmod", "755", "/home/somebody/..", "/srv")
    box.run("systemctl", "start", UNIT)
    until(lambda: box.show("ActiveState", unit=UNIT) == {"ActiveState": "active"})
    could = {line.split()[1] for line in box.run("cat", "/run/tried").splitlines() if line.startswith("could")}
    stays = {folder for folder in could if not box.tried("test", "-e", f"{BOUND.get(folder, folder)}/probe").returncode}
    assert {folder: folder in stays for folder in FOLDERS} == FOLDERS
    python = ("env", "PYTHONPATH=/opt/onboard/tree", "/opt/onboard/current/bin/python")
    assert json.loads(box.run(*python, "-c", ASK)) == FOLDERS


#   what systemd says                                          folder              what the doctor says of it
UNITS = [
    ({}, "/media/ssd", ""),
    ({"ProtectSystem": "no"}, "/media/ssd", ""),
    ({"ProtectSystem": "strict"}, "/media/ssd", "/media/ssd is read-only for onboard.service"),
    ({"ProtectSystem": "strict", "ReadWritePaths": "/media/ssd /x"}, "/media/ssd/recordings", ""),
    ({"ProtectSystem": "strict", "ReadWritePaths": "-/media/ssd"}, "/media/ssd", ""),
    ({"ProtectSystem": "strict", "ReadWritePaths": "/media/ss"}, "/media/ssd", "read-only"),
    ({"ProtectSystem": "strict", "StateDirectory": "onboard other"}, "/var/lib/other/a", ""),
    ({"ProtectSystem": "full"}, "/media/ssd", ""),
    ({"ProtectSystem": "full"}, "/etc/a", "read-only"),
    ({"ReadWritePaths": "/a", "ReadOnlyPaths": "/a/b"}, "/a/b/c", "read-only"),
    (
        {"InaccessiblePaths": "-/srv", "ReadWritePaths": "/srv/a"},
        "/srv/a",
        "cannot access /srv, so it cannot record to /srv/a",
    ),
    ({"ProtectHome": "yes"}, "/home/a", "cannot access /home"),
    ({"ProtectHome": "read-only"}, "/home/a", "read-only"),
    ({"PrivateTmp": "yes"}, "/var/tmp/a", "/var/tmp is private to onboard.service and deleted when it ends"),
    ({"PrivateTmp": "no"}, "/var/tmp/a", ""),
    ({"ProtectSystem": "strict", "BindPaths": "-/a:/b:rbind /c"}, "/b/x", ""),
    ({"ProtectSystem": "strict", "BindPaths": "/a:/b:rbind /c"}, "/c", ""),
    ({"ProtectSystem": "strict", "BindPaths": "/a:/b:rbind"}, "/a", "read-only"),
    ({"BindReadOnlyPaths": "/a:/b:rbind"}, "/b/x", "read-only"),
    ({"BindPaths": "/tmp/a:/tmp/a:rbind", "PrivateTmp": "yes"}, "/tmp/a/x", ""),
    ({"BindPaths": "/home/a:/home/a:rbind", "ProtectHome": "yes"}, "/home/a", "cannot access /home"),
]


@pytest.mark.parametrize(("unit", "folder", "expected"), UNITS)
def test_what_a_unit_says_of_a_folder(unit: dict[str, str], folder: str, expected: str) -> None:
    problem = sandbox_problem(sandbox(unit), Path(folder))
    assert (problem is None) == (not expected)
    assert problem is None or (expected in problem.found and problem.level is Level.RED)


def test_a_folder_that_the_unit_keeps_read_only_is_red_and_the_line_that_opens_it_is_named(tmp_path: Path) -> None:
    section = RecordSection(directory=tmp_path, max_total_mb=1.0)
    writer = Writer(None, tmp_path, Sandbox(read_only=("/",)))
    unit = disk(section, writer)
    assert (unit.level, unit.found.count("read-only")) == (Level.RED, 1)
    assert f"`ReadWritePaths={tmp_path}` under [Service] in /etc/systemd/system/onboard.service.d" in unit.remedy
    opened = Writer(None, tmp_path, Sandbox(read_only=("/",), writable=(str(tmp_path),)))
    assert disk(section, opened).level is not Level.RED
