"""What the doctor says where somebody may not look or write: one line each, and all the rest of the report."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onboard.commands.doctor import camera_probe
from onboard.commands.doctor import command as examining
from onboard.commands.doctor.command import examine
from onboard.commands.doctor.finding import Finding, Level, findings_of
from onboard.commands.doctor.storage import Writer, disk, permission_problem, service_writer, this_process
from onboard.config.config import CamerasSection, Config, DdsSection, RecordSection
from onboard.config.mounts import load_mounts
from onboard.values.errors import DriverError
from tests.rigs.machine.processes import toml
from tests.rigs.network.nobody import NEEDS_ROOT, NOBODY, by_nobody, open_folder

GREEN, AMBER, RED = Level.GREEN, Level.AMBER, Level.RED
OFF = {"cameras": {"source": "none", "color": "none"}, "dds": {"interface": "none0"}}
"""Neither cameras nor a wire: what is left to look at is there at once."""

IMPORTS = """
from pathlib import Path
from onboard.config.config import RecordSection
from onboard.commands.doctor.storage import disk
from onboard.commands.doctor.finding import findings_of
from onboard.commands.doctor.storage import Writer, permission_problem, this_process
from onboard.values.errors import InputError
from onboard.recording.retention import mark
"""


def rows(given: Path | None) -> dict[str, Finding]:
    return {finding.part: finding for finding in examine(given, 0.5).findings}


@NEEDS_ROOT
def test_recordings_that_this_user_may_not_see_are_a_finding() -> None:
    """As on an installed robot, where /var/lib/onboard is the service's own."""
    with open_folder() as folder:
        (folder / "shut").mkdir(mode=0o700)
        program = (
            f"section = RecordSection(directory='{folder}/shut/recordings')\n"
            "(one,) = findings_of('disk', lambda: [disk(section, this_process())])\n"
            "print(one.level.name, one.found, one.remedy, sep='; ')"
        )
        output = by_nobody(IMPORTS, program)
        refused = f"this user may not check it: {folder}/shut/recordings: Permission denied"
        assert output == f"AMBER; {refused}; run the check again with sudo\n"
        program = program.replace("/shut/recordings", "/shut")
        assert f"{folder}/shut: Permission denied" in by_nobody(IMPORTS, program), "a folder that cannot be listed"


@NEEDS_ROOT
def test_a_recording_that_this_user_may_not_see_is_not_marked_in_one_line() -> None:
    with open_folder() as folder:
        (folder / "shut").mkdir(mode=0o700)
        program = (
            f"try:\n    mark(Path('{folder}/shut/a.mcap'), keep=True)\nexcept InputError as error:\n    print(error)"
        )
        assert by_nobody(IMPORTS, program) == f"{folder}/shut/a.mcap: cannot be marked: Permission denied\n"


def test_a_folder_that_cannot_be_looked_at_ends_no_report(tmp_path: Path) -> None:
    """Its name is longer than the system takes: an error of looking, whoever asks."""
    found = rows(toml(tmp_path / "onboard.toml", record={"directory": "x" * 300}, **OFF))
    assert (found["disk"].level, "File name too long" in found["disk"].found) == (RED, True)
    assert {"configuration", "policy", "clock", "memory", "power", "versions"} <= set(found)


def test_a_wire_that_cannot_be_joined_ends_no_report(tmp_path: Path) -> None:
    """A serial base, cameras on cables, disk and policy have nothing to do with it."""
    odometry = {"input": "serial", "serial_port": "/dev/none"}
    record = {"directory": "recordings"}
    found = rows(toml(tmp_path / "onboard.toml", odometry=odometry, record=record, **OFF))
    assert {part: one.level for part, one in found.items() if part in ("dds", "base", "disk", "cameras")} == {
        "dds": RED,
        "base": RED,
        "disk": GREEN,
        "cameras": GREEN,
    }
    assert found["policy"].level != RED, "amber on a machine that is too busy for it"
    assert "/dev/none does not exist" in found["base"].found
    assert {"clock", "versions"} <= set(found)
    assert not {"command", "topics", "runtime"} & set(found), "nothing is said of what was not heard"


def test_cameras_on_cables_are_measured_without_a_wire() -> None:
    config = Config(cameras=CamerasSection(source="none", color="none"), dds=DdsSection(interface="none0"))
    mounts = load_mounts(config.robot.mounts)
    assert camera_probe.measure_by_opening(config, mounts, 0.1) == []
    sent = config.model_copy(update={"cameras": CamerasSection(source="none", color="dds")})
    with pytest.raises(DriverError, match="none0"):
        camera_probe.measure_by_opening(sent, mounts, 0.1)


#   name              what systemd says                                            who records, from where
SERVICES = [
    ("ours", {"User": "onboard", "WorkingDirectory": "/var/lib/onboard"}, Writer("onboard", Path("/var/lib/onboard"))),
    ("optional folder", {"User": "a", "WorkingDirectory": "!/srv/a"}, Writer("a", Path("/srv/a"))),
    ("nothing said", {"User": "", "WorkingDirectory": ""}, Writer("root", Path("/"))),
]


@pytest.mark.parametrize(("state", "writer"), [row[1:] for row in SERVICES], ids=[row[0] for row in SERVICES])
def test_who_records_as_a_service(state: dict[str, str], writer: Writer) -> None:
    assert service_writer(state) == writer


def test_a_user_that_is_none_cannot_record(tmp_path: Path) -> None:
    problem = permission_problem(Writer("no-such-user", tmp_path), tmp_path)
    assert problem is not None
    assert (problem.level, "the service's user no-such-user does not exist" in problem.found) == (RED, True)


def test_who_asks_may_be_the_services_user(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    writer = Writer(os.environ.get("USER") if os.geteuid() else "root", tmp_path)
    assert permission_problem(writer, tmp_path / "recordings") is None
    for one in (writer, this_process()):
        problem = permission_problem(one, tmp_path / "file")
        assert problem is not None
        assert (problem.level, "cannot be used: Not a directory" in problem.found) == (RED, True)


@NEEDS_ROOT
def test_root_asks_for_the_services_user() -> None:
    """Root may write everywhere; that says nothing of the service."""
    with open_folder() as folder:
        writer, own, open_to_all = Writer("nobody", folder), folder / "own", folder / "open"
        for one in (own, open_to_all):
            one.mkdir()
        problem = disk(RecordSection(directory=Path("own/recordings"), max_total_mb=1.0), writer)
        assert (problem.level, f"{own} cannot be written by nobody" in problem.found) == (RED, True)
        assert problem.remedy.startswith(f"`install -d -o nobody {own}/recordings`")
        open_to_all.chmod(0o777)
        assert permission_problem(writer, open_to_all / "recordings") is None
        os.chown(own, NOBODY, NOBODY)
        assert permission_problem(writer, own) is None
        (own / "file").write_text("")
        os.chown(own / "file", NOBODY, NOBODY)
        assert permission_problem(writer, own / "file") is not None


@NEEDS_ROOT
def test_without_root_nobody_can_tell_for_another() -> None:
    with open_folder() as folder:
        call = f"permission_problem(Writer('root', Path('{folder}')), Path('{folder}'))"
        program = f"one = {call}\nprint(one.level.name, one.found)"
        assert by_nobody(IMPORTS, program) == f"AMBER only root can check whether root may write to {folder}\n"


@NEEDS_ROOT
def test_the_services_recordings_are_where_the_service_puts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first installation's configuration names no folder: then it is the service's, not the caller's."""
    given = toml(tmp_path / "onboard.toml", **OFF)
    with open_folder() as folder:
        program = tmp_path / "systemctl"
        program.write_text(f"#!/bin/sh\necho LoadState=loaded\necho User=nobody\necho WorkingDirectory={folder}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        monkeypatch.setattr(examining, "INSTALLED", given)
        found = rows(None)["disk"]
        assert (found.level, f"{folder} cannot be written by nobody" in found.found) == (RED, True)
        os.chown(folder, NOBODY, NOBODY)
        found = rows(given)["disk"]
        assert (found.level, f"free at {folder}/recordings" in found.found) == (GREEN, True)
        other = toml(tmp_path / "other.toml", **OFF)
        assert f"free at {Path.cwd()}/recordings" in rows(other)["disk"].found, (
            "what somebody tries is not the service's"
        )


#   name             raised                                   level  words
FAILURES = [
    ("ours", DriverError("gone"), RED, "gone"),
    (
        "not allowed",
        PermissionError(13, "Permission denied", "/x"),
        AMBER,
        "this user may not check it: /x: Permission denied",
    ),
    ("no file named", OSError(5, "Input/output error"), RED, "the check failed: Input/output error"),
    ("no words", OSError("odd"), RED, "the check failed: odd"),
]


@pytest.mark.parametrize(("error", "level", "words"), [row[1:] for row in FAILURES], ids=[row[0] for row in FAILURES])
def test_a_part_that_cannot_be_looked_at(error: Exception, level: Level, words: str) -> None:
    def look() -> list[Finding]:
        raise error

    (one,) = findings_of("part", look)
    assert (one.part, one.level) == ("part", level)
    assert words in one.found
    assert one.remedy


@NEEDS_ROOT
def test_a_services_configuration_that_this_user_may_not_read_is_not_passed_over_for_the_default_one() -> None:
    with open_folder() as folder:
        (folder / "shut").mkdir(mode=0o700)
        program = (
            f"doctor.INSTALLED = Path('{folder}/shut/onboard.toml')\nfound = doctor.examine(None, 0.5)\n"
            "print(found.exit_code, found.findings[0].found)"
        )
        output = by_nobody(f"{IMPORTS}\nfrom onboard.commands.doctor import command as doctor", program)
        assert output == f"2 {folder}/shut/onboard.toml: cannot be read: Permission denied\n"
