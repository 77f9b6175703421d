"""What the doctor says of recording folders that the service is kept from: by systemd's word, and by trying."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.commands.doctor.finding import Level
from onboard.commands.doctor.storage import Sandbox, Writer, disk, sandbox, sandbox_problem
from onboard.config.config import RecordSection
from tests.onboard.service.test_systemd_reload import UNIT, idle
from tests.rigs.machine.systemd_rig import Machine, machine, missing
from tests.rigs.machine.waiting import until

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
    ({"InaccessiblePaths": "-/srv", "ReadWritePaths": "/srv/a"}, "/srv/a", "does not see /srv, so not /srv/a"),
    ({"ProtectHome": "yes"}, "/home/a", "does not see /home"),
    ({"ProtectHome": "read-only"}, "/home/a", "read-only"),
    ({"PrivateTmp": "yes"}, "/var/tmp/a", "/var/tmp is onboard.service's own, and gone when it ends"),
    ({"PrivateTmp": "no"}, "/var/tmp/a", ""),
    ({"ProtectSystem": "strict", "BindPaths": "-/a:/b:rbind /c"}, "/b/x", ""),
    ({"ProtectSystem": "strict", "BindPaths": "/a:/b:rbind /c"}, "/c", ""),
    ({"ProtectSystem": "strict", "BindPaths": "/a:/b:rbind"}, "/a", "read-only"),
    ({"BindReadOnlyPaths": "/a:/b:rbind"}, "/b/x", "read-only"),
    ({"BindPaths": "/tmp/a:/tmp/a:rbind", "PrivateTmp": "yes"}, "/tmp/a/x", ""),
    ({"BindPaths": "/home/a:/home/a:rbind", "ProtectHome": "yes"}, "/home/a", "does not see /home"),
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
    assert f"`ReadWritePaths={tmp_path}` below [Service] into /etc/systemd/system/onboard.service.d" in unit.remedy
    opened = Writer(None, tmp_path, Sandbox(read_only=("/",), writable=(str(tmp_path),)))
    assert disk(section, opened).level is not Level.RED
