"""`onboard install`, killed in each of its steps, and on disks that fill up: what is in force, and the next call.

On a machine with a real systemd, by the wheels of `install_rig`. The tests share the machine.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.onboard.commands.install.installing import (
    FIRST,
    REFUSED,
    SECOND,
    again,
    in_force,
    install,
    install_words,
    installer,
    one_line,
    overrides,
    versions,
)
from tests.rigs.machine.install_rig import LIMIT_S, Machine, environment, missing, onboard, wheel
from tests.rigs.machine.waiting import until

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(missing()), reason=missing() or "a systemd of its own"),
]


def killed(box: Machine, path: Path, step: str, after_s: float) -> list[str]:
    """Kill an installation so long after it began a step; return the lines that it said from that one on."""
    words = box.command(*onboard(*install_words(path)))
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    assert process.stdout is not None
    step_line = next((line for line in process.stdout if line.startswith(step)), None)
    assert step_line is not None, f"it never said {step!r}: {process.communicate()[1]}"
    try:
        process.wait(after_s)
    except subprocess.TimeoutExpired:
        subprocess.run(["kill", "-KILL", str(installer(process))], check=True)
    more = process.stdout.read().splitlines()
    process.communicate(timeout=LIMIT_S)
    return [step_line, *more]


#   step                                        how long after its beginning [s]
UPGRADE_STEPS = [
    ("build", 0.02),
    ("build", 0.5),
    ("build", 2.0),
    ("check the configuration", 0.01),
    ("create the service's user", 0.0),
    ("restart the service", 0.01),
    ("restart the service", 0.6),
    ("switch", 0.0),
    ("switch", 0.005),
    ("delete versions", 0.0),
]
FIRST_STEPS = [
    ("build", 0.5),
    ("write the default", 0.0),
    ("check the configuration", 0.01),
    ("switch", 0.0),
    ("start the service with", 0.02),
    ("start the service at every boot", 0.0),
]


@pytest.mark.parametrize(("step", "after_s"), UPGRADE_STEPS)
def test_an_upgrade_that_is_killed_leaves_a_whole_version_running_and_the_next_call_ends_it(
    step: str, after_s: float, box: Machine, wheels: Path
) -> None:
    assert again(box, wheel(wheels, "0.0.9"), "--downgrade").returncode == 0
    assert again(box, wheel(wheels, FIRST)).returncode == 0
    before = in_force(box)
    step_line = killed(box, wheel(wheels, SECOND), step, after_s)
    meant = in_force(box)
    assert meant.startswith((FIRST, SECOND))
    until(lambda: box.running().startswith((FIRST, SECOND)), LIMIT_S)
    if step != "delete versions":
        assert meant == before or any(line.startswith("switch") for line in step_line), (
            "what a boot would start, and what runs, is whole"
        )
    done = again(box, wheel(wheels, SECOND))
    assert done.returncode == 0, done.stderr
    assert box.running() == in_force(box)
    assert in_force(box).startswith(SECOND)
    assert overrides(box) == []
    assert set(versions(box)) == {before, in_force(box)}
    box.run(*onboard("install", "--rollback"))


@pytest.mark.parametrize(("step", "after_s"), FIRST_STEPS)
def test_a_first_installation_that_is_killed_is_ended_by_the_next_call(
    step: str, after_s: float, box: Machine, wheels: Path
) -> None:
    assert box.onboard("uninstall", "--purge").returncode == 0
    killed(box, wheel(wheels, FIRST), step, after_s)
    done = again(box, wheel(wheels, FIRST))
    assert done.returncode == 0, done.stderr
    assert box.running() == in_force(box)
    assert versions(box) == [in_force(box)]
    assert overrides(box) == []
    assert box.file("/etc/onboard/onboard.toml").read_text() == f"# as release {FIRST} knows it\n"
    assert box.run("systemctl", "is-enabled", "onboard.service").stdout.strip() == "enabled"


#   folder on a disk of its own that is full: where a trial is written, where the units are
FULL = ["/run/systemd/system", "/usr/local/lib/systemd/system"]


@pytest.mark.parametrize("folder", FULL)
def test_a_disk_that_is_full_leaves_the_old_one_in_force_and_running(folder: str, box: Machine, wheels: Path) -> None:
    assert again(box, wheel(wheels, FIRST), "--downgrade").returncode == 0
    before = in_force(box)
    there = f"cp -a {folder} /run/kept; mount -t tmpfs -o size=64k tmpfs {folder}; cp -a /run/kept/. {folder}"
    fill = f"dd if=/dev/zero of={folder}/fill bs=1k || true"
    assert box.run("sh", "-ec", f"{there}; {fill}").returncode == 0
    try:
        done = install(box, wheel(wheels, SECOND))
        state = in_force(box), box.running(), overrides(box)
    finally:
        box.run("sh", "-c", f"umount {folder}; rm -r /run/kept; systemctl daemon-reload")
    assert done.returncode == REFUSED, done.stdout
    assert "No space left on device" in one_line(done)
    assert state == (before, before, [])
    assert again(box, wheel(wheels, SECOND)).returncode == 0
    assert box.running() == in_force(box) != before
