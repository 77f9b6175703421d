"""`onboard install` and `uninstall` on a machine with a real systemd: what a person types, and what runs then.

The tests share one machine, in the order in which they stand; each leaves it as the next one needs it (`installed`).
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from tests.onboard.commands.install.installing import (
    FIRST,
    REFUSED,
    SECOND,
    WENT_BACK,
    in_force,
    install,
    install_words,
    one_line,
    overrides,
    versions,
)
from tests.rigs.machine.install_rig import LIMIT_S, Machine, environment, missing, onboard, wheel
from tests.rigs.machine.waiting import until

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "a systemd of its own")

LONG = pytest.mark.long
"""Several installations each."""


@pytest.fixture
def installed(box: Machine, wheels: Path) -> Machine:
    """The machine with the first version READY, and nothing else."""
    done = install(box, wheel(wheels, FIRST), "--downgrade")
    assert done.returncode == 0, done.stderr
    return box


def test_dry_run_says_what_would_be_done_and_does_nothing(box: Machine, wheels: Path) -> None:
    done = install(box, wheel(wheels, FIRST), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert re.match(r"would build 0\.1\.0-\w{12} next to the other versions\nwould write the default", done.stdout)
    result = json.loads(install(box, wheel(wheels, FIRST), "--dry-run", "--json", "-").stdout)
    assert result["steps"][:2] == ["build", "configure"]
    assert (result["release"], result["before"], result["dry_run"]) == (FIRST, None, True)
    assert not box.file("/opt/onboard").exists()
    assert not box.file("/etc/onboard").exists()


def test_without_rights_nothing_is_touched(box: Machine) -> None:
    words = onboard(*install_words("--rollback"))
    reads_all = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]  # the tests' interpreter is root's
    unmeasured = ["env", "-u", "COVERAGE_PROCESS_CONFIG"]  # the figures are a file of root's as well
    done = box.run(*unmeasured, "setpriv", "--reuid=65534", "--clear-groups", *reads_all, *words)
    assert done.returncode == REFUSED
    assert "use sudo" in one_line(done)
    assert not box.file("/opt/onboard").exists()


def test_the_first_is_ready_starts_with_the_machine_and_is_done_once(box: Machine, wheels: Path) -> None:
    done = install(box, wheel(wheels, FIRST))
    assert done.returncode == 0, done.stderr
    assert box.running() == in_force(box)
    assert box.run("systemctl", "is-enabled", "onboard.service").stdout.strip() == "enabled"
    assert box.file("/etc/onboard/onboard.toml").read_text() == "# as release 0.1.0 knows it\n"
    pid = box.show("MainPID")
    again = install(box, wheel(wheels, FIRST))
    assert (again.returncode, again.stdout.count("\n")) == (0, 1)
    assert "nothing to do" in again.stdout
    assert box.show("MainPID") == pid
    assert box.file("/opt/onboard/versions").stat().st_mode & 0o777 == 0o755


#   what the new version does, what is said of it
BROKEN = [
    ("silent", "not READY within 2 s"),
    pytest.param("ends", "did not become READY", marks=LONG),
    pytest.param("crashes", "was READY, but did not stay so", marks=LONG),
]


@pytest.mark.parametrize(("behaviour", "complaint"), BROKEN)
def test_a_version_that_does_not_come_up_is_taken_back(
    behaviour: str, complaint: str, installed: Machine, wheels: Path
) -> None:
    before = in_force(installed)
    done = install(installed, wheel(wheels / behaviour, SECOND, behaviour), "--ready-within", "2")
    assert done.returncode == WENT_BACK
    assert complaint in one_line(done)
    assert f"{before} runs again" in done.stderr
    assert installed.running() == in_force(installed) == before
    assert overrides(installed) == []


def test_a_configuration_that_does_not_validate_leaves_the_old_one_running(installed: Machine, wheels: Path) -> None:
    before, pid = in_force(installed), installed.show("MainPID")
    file = installed.file("/etc/onboard/onboard.toml")
    text = file.read_text()
    file.write_text(text + "nonsense = 1\n")
    done = install(installed, wheel(wheels, SECOND))
    file.write_text(text)
    assert done.returncode == REFUSED
    assert "rejects the configuration; nothing was changed" in one_line(done)
    assert "unknown key nonsense" in done.stderr
    assert (in_force(installed), installed.show("MainPID")) == (before, pid)


@LONG
def test_the_configuration_is_never_written_over(installed: Machine, wheels: Path) -> None:
    file = installed.file("/etc/onboard/onboard.toml")
    file.write_text("# mine\n")
    assert install(installed, wheel(wheels, SECOND)).returncode == 0
    assert file.read_text() == "# mine\n"


@LONG
def test_a_unit_of_somebody_elses_is_left_alone(installed: Machine, wheels: Path) -> None:
    before, theirs = in_force(installed), installed.file("/etc/systemd/system/onboard.service")
    theirs.write_text("[Service]\nExecStart=/bin/true\n")
    done = install(installed, wheel(wheels, SECOND))
    kept = theirs.read_text()
    theirs.unlink()
    assert done.returncode == REFUSED
    assert "/etc/systemd/system/onboard.service: was not written by `onboard install`" in one_line(done)
    assert (in_force(installed), kept) == (before, "[Service]\nExecStart=/bin/true\n")


def tried(box: Machine, path: Path) -> subprocess.Popen[str]:
    """Return an installation in the middle of waiting for a version that never becomes READY."""
    words = box.command(*onboard(*install_words(path, "--ready-within", "60")))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    until(lambda: bool(overrides(box)) and box.show("ActiveState") == "activating", LIMIT_S)
    return process


def test_a_pipe_that_is_closed_leaves_the_old_one_running(installed: Machine, wheels: Path) -> None:
    before = in_force(installed)
    words = installed.command(*onboard(*install_words(wheel(wheels, SECOND, "silent"), "--ready-within", "2")))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    assert process.stderr is not None
    until(lambda: bool(overrides(installed)) and installed.show("ActiveState") == "activating", LIMIT_S)
    process.stdout.close()  # as of `| head`, or of a `tee` that was ended
    errors, code = process.stderr.read(), process.wait(LIMIT_S)
    assert (code, errors.count("\n")) == (WENT_BACK, 1), errors
    assert f"not READY within 2 s (activating, result success); {before} runs again" in errors
    assert installed.running() == in_force(installed) == before
    assert overrides(installed) == []


def test_the_next_call_starts_what_is_in_force_when_another_one_runs(installed: Machine, wheels: Path) -> None:
    box, runs = installed, in_force(installed)
    quiet = install(box, wheel(wheels, SECOND), "--no-start")
    assert quiet.returncode == 0, quiet.stderr
    assert in_force(box).startswith(SECOND)
    assert quiet.stdout.endswith(f"at the next start of the service; {runs} runs until then\n")
    assert box.running() == runs
    done = install(box, wheel(wheels, SECOND))
    assert done.returncode == 0, done.stderr
    assert "nothing to do" not in done.stdout
    assert box.running() == in_force(box)
    assert in_force(box).startswith(SECOND)
    assert set(versions(box)) == {runs, in_force(box)}
    assert install(box, "--rollback").returncode == 0
    assert box.running() == in_force(box) == runs


def test_uninstalled_over_a_running_service_recordings_stay_until_purged(installed: Machine) -> None:
    recording = installed.file("/var/lib/onboard/recordings/robot_1.mcap")
    recording.parent.mkdir(parents=True)
    recording.touch()
    drop_in = installed.file("/etc/systemd/system/onboard.service.d/robot.conf")
    drop_in.parent.mkdir()
    drop_in.write_text("[Service]\nEnvironment=OF_THIS_ROBOT=1\n")
    cache = installed.file("/var/cache/onboard/numba")
    cache.mkdir(parents=True)
    result = json.loads(installed.onboard("uninstall", "--dry-run", "--json", "-").stdout)
    assert "/opt/onboard" in result["removed"]
    assert set(result["stays"]) == {
        "/etc/onboard",
        f"/{drop_in.parent.relative_to(installed.file('/'))}",
        "/var/lib/onboard",
    }
    output = installed.onboard("uninstall", "--dry-run").stdout
    assert "would stop and disable the service" in output
    assert installed.running() == in_force(installed)
    done = installed.onboard("uninstall")
    assert done.returncode == 0, done.stderr
    assert installed.show("ActiveState") == "inactive"
    assert installed.show("LoadState") == "not-found"
    assert not installed.file("/opt/onboard").exists()
    assert not list(installed.file("/usr/local").rglob("onboard.service"))
    assert not cache.parent.exists()
    assert recording.exists()
    assert installed.file("/etc/onboard/onboard.toml").exists()
    assert f"/{drop_in.parent.relative_to(installed.file('/'))} stays; --purge removes it" in done.stdout
    assert installed.onboard("uninstall", "--purge").returncode == 0
    assert not recording.exists()
    assert not drop_in.parent.exists()
    assert not installed.file("/etc/onboard").exists()
    again = installed.onboard("uninstall", "--purge")
    assert (again.returncode, again.stdout) == (0, "nothing is installed\n")
