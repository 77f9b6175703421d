"""The shipped unit under a real systemd: commands at the base while the service starts, hangs, dies, loops and stops.

The real runtime runs over real DDS, and an operator sends commands all the time. So every zero at the base comes from
the service. Skipped if no systemd can be started (`systemd_rig.missing`).
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onboard.config.config import DdsSection
from onboard.system.threads import INFERENCE_BELOW, RECORDER_BELOW
from onboard.values.clock import wall_ns
from onboard.values.messages import STOP, Twist
from tests.rigs.machine.processes import toml
from tests.rigs.machine.service_base import SCAN_TOPIC, Base, ReceivedCommand
from tests.rigs.machine.systemd_rig import START_S, UNITS, Machine, machine, missing, sleeping
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

FORWARD = Twist(0.4, 0.0)
CONFIG = "/etc/onboard/onboard.toml"
EXPOSURE = 3.0
FIFO_PRIORITY = 40
WAITING = "waiting for the first frame"
STANDING_MPS = 1e-3
FEW = 30
LATE_S = 1.2
"""After the first zero: the last process has logged the end of the service and waits for the journal."""
FIVE_STARTS_S = 5 * START_S
UNIT_STOPPING = "de5b426a63be47a7b6ac3eaac82e2f6f"
"""Message id in systemd's catalogue: systemd began to stop a unit."""

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no systemd of our own here: {missing()}")


class Robot:
    """A systemd with the service, and the base."""

    def __init__(self, service: Machine, base: Base, config: str) -> None:
        self.service, self.base, self.config = service, base, config

    def start(self) -> None:
        """Start the service, wait until READY and drive the base."""
        self.service.tried("systemctl", "reset-failed", "onboard.service")
        self.base.looks, self.base.operator = True, FORWARD
        self.service.run("systemctl", "start", "onboard.service")
        until(lambda: self.base.driven, START_S)

    def waits_again(self, before: int) -> None:
        """Wait until a process other than `before` runs and waits for a frame."""
        until(lambda: self.service.main_pid() not in (0, before), START_S)
        until(lambda: self.service.show("StatusText")["StatusText"].startswith(WAITING), START_S)


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Robot]:
    folder = tmp_path_factory.mktemp("systemd")
    domain = free_domain()
    config = toml(
        folder / "onboard.toml",
        robot={"name": "served"},
        cameras={"source": "none", "color": "none"},
        scan={"topic": SCAN_TOPIC},
        policy={"model": "onboard-v2"},
        dds={"domain": domain},
    ).read_text()
    files = {CONFIG.lstrip("/"): config}
    with machine(folder, files, "service") as service, Base(DdsSection(domain=domain)) as base:
        yield Robot(service, base, config)


def by_writer(commands: list[ReceivedCommand]) -> list[list[ReceivedCommand]]:
    """Return the received commands by writer, in the order of the writers' first command."""
    writers = list(dict.fromkeys(command.writer for command in commands))
    return [[command for command in commands if command.writer == writer] for writer in writers]


@pytest.mark.parametrize("unit", sorted(path.name for path in UNITS.glob("*.service")))
def test_the_units_are_exposed_little(unit: str) -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(UNITS / unit)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    (level,) = re.findall(rf"exposure level for {unit}: ([\d.]+)", done.stdout)
    assert float(level) <= EXPOSURE


def test_systemd_has_nothing_to_say_against_the_units(robot: Robot) -> None:
    units = [f"/run/units/{path.name}" for path in UNITS.glob("*.service")]
    done = robot.service.tried("systemd-analyze", "verify", "--man=no", *units)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_ready_waits_for_the_first_frame_and_the_process_has_its_rights_and_no_more(robot: Robot) -> None:
    service, base = robot.service, robot.base
    base.looks, base.operator = False, FORWARD
    service.run("systemctl", "start", "--no-block", "onboard.service")
    robot.waits_again(0)
    until(lambda: len(base.heard) > FEW, START_S)
    assert service.is_state("activating")
    assert {one.twist for one in base.heard} == {STOP}
    base.looks = True
    until(lambda: service.is_state("active") and base.driven, START_S)
    pid = service.main_pid()
    assert os.sched_getscheduler(pid) == os.SCHED_FIFO
    assert os.sched_getparam(pid).sched_priority == FIFO_PRIORITY
    scheduled = {os.sched_getparam(int(task)).sched_priority for task in os.listdir(f"/proc/{pid}/task")}
    assert scheduled == {FIFO_PRIORITY - steps for steps in (0, RECORDER_BELOW, INFERENCE_BELOW)}
    assert os.sched_getaffinity(pid) == set(range(1, os.cpu_count() or 1)) or os.cpu_count() == 1
    status = dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )
    assert status["Uid"].split()[0] != "0"
    assert int(status["CapBnd"], 16) == int(status["CapEff"], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_the_journal_has_events_with_fields(robot: Robot) -> None:
    robot.start()
    (entry, *_) = robot.service.journal("-u", "onboard.service", "ONBOARD_EVENT=service_ready")
    assert entry["PRIORITY"] == "6"
    assert entry["SYSLOG_IDENTIFIER"] == "onboard"


def test_a_stop_while_driving_is_zero_within_two_ticks(robot: Robot) -> None:
    robot.start()
    began = wall_ns()
    robot.service.run("systemctl", "stop", "onboard.service")
    stopping = robot.service.journal("-u", "onboard.service", "JOB_TYPE=stop", f"MESSAGE_ID={UNIT_STOPPING}")
    asked_ns = 1000 * int(stopping[-1]["_SOURCE_REALTIME_TIMESTAMP"])
    assert asked_ns >= began
    with contextlib.suppress(AssertionError):
        until(lambda: len(by_writer(robot.base.since(asked_ns))) >= 2)
    writers = by_writer(robot.base.since(asked_ns))
    assert len(writers) == 2, robot.service.run("journalctl", "--no-pager", "-u", "onboard.service")
    runtime, halt = writers
    moving = [one for one in runtime if one.twist != STOP]
    assert len(moving) <= 2
    assert runtime[-1].twist == STOP
    assert {one.twist for one in halt} == {STOP}
    (ended,) = robot.service.journal("-u", "onboard.service", "ONBOARD_EVENT=service_ended")
    assert ended["ONBOARD_RESULT"] == "success"


@pytest.mark.long
def test_a_journal_that_is_late_still_knows_whose_entries_they_are(robot: Robot) -> None:
    robot.start()
    service, began = robot.service, wall_ns()
    service.run("systemctl", "kill", "--signal=SIGSTOP", "systemd-journald.service")
    try:
        service.run("systemctl", "stop", "--no-block", "onboard.service")
        until(lambda: len(by_writer(robot.base.since(began))) >= 2, START_S)  # zero by the service's last process
        time.sleep(LATE_S)
    finally:
        service.run("systemctl", "kill", "--signal=SIGCONT", "systemd-journald.service")
    until(lambda: service.is_state("inactive"), START_S)
    words = ("-u", "onboard.service", f"--since=@{began / 1e9:.6f}")
    assert [one["ONBOARD_RESULT"] for one in service.journal(*words, "ONBOARD_EVENT=service_ended")] == ["success"]
    assert len(service.journal(*words, "ONBOARD_EVENT=zero_sent")) == 1


def test_the_computer_sleeps_when_a_robot_that_drove_has_been_sent_zero(robot: Robot) -> None:
    robot.start()
    service, began = robot.service, wall_ns()
    for path, text in sleeping("date +%%s%%N > /run/asleep").items():
        service.write(path, text)
    service.run("systemctl", "daemon-reload")
    until(lambda: any(one.twist != STOP for one in robot.base.since(began)), START_S)
    service.run("systemctl", "start", "suspend.target")
    asleep_ns = int(service.run("cat", "/run/asleep"))
    runtime, halt = by_writer(robot.base.since(began))
    assert runtime[-1].twist == STOP
    assert {one.twist for one in halt} == {STOP}
    assert halt[-1].written_ns < asleep_ns
    assert robot.base.since(asleep_ns) == []
    assert service.is_state("inactive")


def hang(pid: int) -> None:
    """Block only the event loop of the runtime."""
    os.kill(pid, signal.SIGUSR1)


def kill(pid: int) -> None:
    """Kill the runtime."""
    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(("done", "result"), [(hang, "watchdog"), (kill, "signal")], ids=["blocked loop", "kill -9"])
def test_zero_before_and_until_ready(robot: Robot, done: Callable[[int], None], result: str) -> None:
    robot.start()
    service, base = robot.service, robot.base
    pid, began = service.main_pid(), base.heard[-1].written_ns
    base.looks = False  # so that the next one waits
    done(pid)
    robot.waits_again(pid)
    until(lambda: len(by_writer(base.since(began))) >= 3 and len(by_writer(base.since(began))[-1]) > FEW, START_S)
    runtime, halt, next_one = by_writer(base.since(began))
    assert any(one.twist != STOP for one in runtime), "it was driving when it happened"
    assert {one.twist for one in halt} == {STOP}
    assert {one.twist for one in next_one} == {STOP}
    assert max(abs(one.speed_mps) for one in next_one) < STANDING_MPS, "the base stood before"
    entries = service.journal("-u", "onboard.service", "ONBOARD_EVENT=service_failed")
    assert entries[-1]["ONBOARD_RESULT"] == result
    base.looks = True
    until(lambda: service.is_state("active") and base.driven, START_S)
    service.run("systemctl", "stop", "onboard.service")


#   what                         after the table of DDS                                    words in the journal
REFUSED = {
    "it does not validate":       ("[rates]\ncontrol_hz = -1\n",                             "rates.control_hz"),
    "an interface is missing":    ('interface = "eht0"\n',                                   "there is no 'eht0'"),
    "keys are missing":           ('security = "nokeys"\n',                                  "nokeys"),
    "folder outside its sandbox": ('[record]\ndirectory = "/etc/onboard/recordings"\n',      "Read-only file system"),
}  # fmt: skip


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("more", "words"), REFUSED.values(), ids=REFUSED)
def test_a_configuration_that_cannot_start_here_is_refused_and_the_old_one_keeps_running(
    more: str, words: str, robot: Robot
) -> None:
    robot.start()
    service, pid = robot.service, robot.service.main_pid()
    service.write(CONFIG, robot.config + more)
    try:
        assert service.tried("systemctl", "reload", "onboard.service").returncode != 0
        assert service.main_pid() == pid
        assert service.is_state("active")
        commands = len(robot.base.heard)
        until(lambda: len(robot.base.heard) > commands + FEW, START_S)
        until(lambda: robot.base.driven, START_S)
    finally:
        service.write(CONFIG, robot.config)
    logged = [str(entry["MESSAGE"]) for entry in service.journal("-u", "onboard.service", "--since=-5min")]
    assert any(words in line for line in logged), logged[-20:]
    service.run("systemctl", "reload", "onboard.service")
    until(lambda: service.main_pid() not in (0, pid) and service.is_state("active"), START_S)
    service.run("systemctl", "stop", "onboard.service")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_restart_with_one_that_does_not_validate_ends_in_a_robot_that_stands_and_says_why(robot: Robot) -> None:
    robot.start()
    service, base, began = robot.service, robot.base, wall_ns()
    service.write(CONFIG, robot.config + "[rates]\ncontrol_hz = -1\n")
    try:
        assert service.tried("systemctl", "restart", "onboard.service").returncode != 0
        until(lambda: service.is_state("failed"), FIVE_STARTS_S)
    finally:
        service.write(CONFIG, robot.config)
    assert by_writer(base.since(began))[-1][-1].twist == STOP
    until(lambda: abs(base.state.motion.twist.v_mps) < STANDING_MPS, START_S)
    logged = [entry["MESSAGE"] for entry in service.journal("-u", "onboard.service", "--since=-5min")]
    assert any("rates.control_hz" in str(line) for line in logged)
    robot.start()
    service.run("systemctl", "stop", "onboard.service")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_crash_loop_ends_in_a_stopped_and_reported_state(robot: Robot) -> None:
    service = robot.service
    service.run("systemctl", "reset-failed", "onboard.service", check=False)
    service.write(CONFIG, robot.config + '[odometry]\ninput = "serial"\nserial_port = "/dev/null"\n')
    try:
        service.tried("systemctl", "start", "--no-block", "onboard.service")
        until(lambda: service.is_state("failed"), FIVE_STARTS_S)
    finally:
        service.write(CONFIG, robot.config)
    status = service.show("Result", "NRestarts", "StatusText")
    assert (status["Result"], status["NRestarts"]) == ("exit-code", "5")
    assert "/dev/null: base cannot be opened" in status["StatusText"]
    notices = ("-t", "onboard", "-p", "crit")
    until(lambda: "NRestarts=5" in {entry["MESSAGE"] for entry in service.journal(*notices)}, START_S)


def test_users_folders_and_device_rules_are_taken_by_their_tools(robot: Robot) -> None:
    service = robot.service
    for name in ("onboard-sysusers.conf", "onboard-tmpfiles.conf"):
        service.write(f"/run/{name}", (UNITS / name).read_text())
    service.run("systemd-sysusers", "/run/onboard-sysusers.conf")
    groups = service.run("id", "-Gn", "onboard").split()
    assert {"onboard", "video", "render", "dialout", "plugdev"} <= set(groups)
    service.run("systemd-tmpfiles", "--create", "/run/onboard-tmpfiles.conf")
    assert service.run("stat", "-c", "%U %a", "/var/lib/onboard/recordings").split() == ["onboard", "750"]
    kept, aged = "/var/lib/onboard/recordings/robot_1.mcap", "/var/cache/onboard/numba/of-a-version-that-is-gone.nbc"
    service.write(kept, "")
    service.write(aged, "")
    service.write("/run/aged.conf", (UNITS / "onboard-tmpfiles.conf").read_text().replace(" 90d\n", " 0\n"))
    service.run("systemd-tmpfiles", "--clean", "/run/aged.conf")
    assert service.run("ls", kept, aged, check=False).split() == [kept]
    service.write("/run/udev/rules.d/60-onboard.rules", (UNITS / "60-onboard.rules").read_text())
    logged = service.tried("udevadm", "test", "--action=add", "/sys/class/mem/null")
    assert "60-onboard.rules" in logged.stderr
    assert not [line for line in logged.stderr.splitlines() if "60-onboard.rules:" in line]
