"""Messages to the service manager and their times; the zero after the end. No systemd."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from onboard.config.config import Config, DdsSection, OdometrySection
from onboard.service import stop_base
from onboard.service.stop_base import BaseLink
from onboard.service.systemd import (
    CAMERAS_NS,
    DRIVEN_FILE,
    NOTIFY_SOCKET,
    Notifier,
    Service,
    StandingInbox,
    blind_in,
    note_driven,
    with_blind,
)
from onboard.values.errors import DriverError
from onboard.values.messages import CameraHealth, GoalRequest, Inputs, Pose, Teleop, Twist
from tests.rigs.network.loopback import SECTION, free_domain
from tests.rigs.runtime_bench import FORWARD, Bench, Puppet

WORKING = CameraHealth("front", True, "", 3, 0)
SILENT = CameraHealth("rear", False, "nothing heard", 0, 0)


class Manager:
    """A service manager's end of the socket. As a listener of the runtime it reads after every tick.

    A system may queue at most ten unread datagrams (net.unix.max_dgram_qlen).
    """

    def __init__(self, address: str) -> None:
        self._words: list[list[str]] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self._socket.setblocking(False)
        self.notifier = Notifier({NOTIFY_SOCKET: address})

    def tick(self, record: object, counters: object) -> None:
        while True:
            try:
                self._words.append(self._socket.recv(65536).decode().split("\n"))
            except BlockingIOError:
                return

    def reported(self) -> list[list[str]]:
        """Return the messages since the last call."""
        self.tick(None, None)
        words, self._words = self._words, []
        return words

    def close(self) -> None:
        self._socket.close()
        self.notifier.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    one = Manager(str(tmp_path / "notify"))
    yield one
    one.close()


def blind(inputs: Inputs) -> Inputs:
    return replace(inputs, depth={})


def served(manager: Manager, cameras: list[CameraHealth]) -> tuple[Bench, Service]:
    """Return a runtime with service and manager as listeners, in this order, and the service."""
    service = Service(manager.notifier, lambda: cameras)
    return Bench(Puppet(FORWARD), listeners=[service, manager]), service


def test_every_tick_feeds_the_watchdog_once_and_at_its_end(manager: Manager) -> None:
    sent_then: list[int] = []

    class Last:
        def tick(self, record: object, counters: object) -> None:
            sent_then.append(len(bench.sent))
            assert manager.reported() == []

    service = Service(manager.notifier, lambda: [WORKING])
    bench = Bench(listeners=[Last(), service])
    for number in range(1, 4):
        bench.tick()
        (reported,) = manager.reported()
        assert reported.count("WATCHDOG=1") == 1
        assert sent_then == list(range(1, number + 1)), "the command went out before"


def test_ready_comes_once_with_the_first_frame_of_every_camera(manager: Manager) -> None:
    cameras = [WORKING, SILENT]
    bench, service = served(manager, cameras)
    bench.seconds(1.0)
    notices = manager.reported()
    assert not any("READY=1" in words for words in notices)
    assert "STATUS=waiting for the first frame of rear" in notices[0]
    cameras[1] = replace(SILENT, working=True, frames=1)
    bench.seconds(1.0)
    assert [("READY=1" in words) for words in manager.reported()] == [True] + [False] * 29
    assert service.ready


def test_after_a_wait_the_cameras_that_work_must_do(manager: Manager) -> None:
    bench, service = served(manager, [WORKING, SILENT])
    bench.seconds(CAMERAS_NS / 1e9 - 0.1)
    assert not service.ready
    manager.reported()
    bench.seconds(0.2)
    assert service.ready
    (notices,) = [words for words in manager.reported() if "READY=1" in words]
    (status,) = [word.removeprefix("STATUS=") for word in notices if word.startswith("STATUS=")]
    assert (status.endswith(", without rear"), blind_in(status)) == (True, {"rear"})


def test_the_status_names_the_cameras_that_give_nothing_as_long_as_they_do(manager: Manager) -> None:
    cameras = [WORKING, replace(SILENT, camera="left"), SILENT]
    bench, _ = served(manager, cameras)
    bench.seconds(CAMERAS_NS / 1e9 + 0.2)
    manager.reported()
    cameras[2] = replace(SILENT, working=True)
    bench.seconds(1.1)
    cameras[1] = WORKING
    bench.seconds(1.1)
    notices = [word for words in manager.reported() for word in words if word.startswith("STATUS=")]
    assert [blind_in(word) for word in notices] == [{"left"}, frozenset()]
    assert blind_in(with_blind("idle", [])) == frozenset()


def test_a_robot_that_sees_nothing_is_never_ready(manager: Manager) -> None:
    bench, service = served(manager, [SILENT])
    bench.alter = blind
    bench.seconds(2 * CAMERAS_NS / 1e9)
    assert not service.ready


@pytest.mark.parametrize(("missing", "ready"), [([SILENT], False), ([], True)], ids=["waiting", "ready"])
def test_until_ready_goals_and_operators_are_left_out(
    manager: Manager, missing: list[CameraHealth], ready: bool
) -> None:
    bench, service = served(manager, [WORKING, *missing])
    bench.tick()
    goal = GoalRequest(7, 7, "odom", Pose(1.0, 0.0, 0.0))
    inputs = Inputs(now_ns=7, goals=(goal,), teleop=Teleop(7, Twist(0.4, 0.0)), e_stop=True)
    held = StandingInbox(_Given(inputs), service).take(7)
    assert (bool(held.goals), held.teleop is not None) == (ready, ready)
    assert held.e_stop is True, "what stops the robot always counts"


class _Given:
    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    def take(self, now_ns: int) -> Inputs:
        return self._inputs

    def close(self) -> None:
        pass


def test_without_a_service_manager_nothing_is_held_back_and_nothing_said() -> None:
    service = Service(Notifier({}), lambda: [SILENT])
    assert service.ready
    Bench(listeners=[service]).seconds(1.0)


@pytest.mark.parametrize("address", ["@onboard-test-notify-{pid}", "{folder}/notify"], ids=["abstract", "path"])
def test_both_kinds_of_address_are_heard(address: str, tmp_path: Path) -> None:
    manager = Manager(address.format(pid=os.getpid(), folder=tmp_path))
    manager.notifier.send("READY=1", "STATUS=two\nlines")
    assert manager.reported() == [["READY=1", "STATUS=two lines"]]
    manager.close()


def test_a_manager_that_does_not_listen_never_holds_up_a_tick(manager: Manager) -> None:
    for _ in range(5000):
        manager.notifier.send("WATCHDOG=1")
    assert 0 < len(manager.reported()) < 5000


def test_a_manager_that_is_gone_is_no_error(tmp_path: Path) -> None:
    notifier = Notifier({NOTIFY_SOCKET: str(tmp_path / "nobody")})
    assert not notifier.managed
    notifier.send("READY=1")


@pytest.mark.parametrize(
    ("error", "status"),
    [(None, "STATUS=stopped"), (DriverError("/dev/base: gone"), "STATUS=stopped: /dev/base: gone"),
     (SystemExit(), "STATUS=stopped: SystemExit")],
    ids=["asked to", "by an error", "by a signal"],
)  # fmt: skip
def test_the_last_word_is_why_it_ended(manager: Manager, error: BaseException | None, status: str) -> None:
    def ending() -> None:
        with manager.notifier as notifier, Service(notifier, list):
            if error is not None:
                raise error

    if error is None:
        ending()
    else:
        with pytest.raises(type(error)):
            ending()
    assert manager.reported() == [["STOPPING=1"], [status]]


# ---- the stop after the end


def test_the_note_leads_the_stop_where_the_commands_went_even_when_the_file_was_edited(tmp_path: Path) -> None:
    environment = {"RUNTIME_DIRECTORY": str(tmp_path)}
    driven = Config(dds=DdsSection(domain=7), odometry=OdometrySection(input="serial", serial_port="/dev/this"))
    note_driven(driven, environment)
    edited = tmp_path / "onboard.toml"
    edited.write_text("[dds]\ndomain = 8\n")
    found = stop_base.noted(environment)
    assert found is not None
    assert DdsSection.model_validate(vars(found.dds)) == driven.dds
    assert OdometrySection.model_validate(vars(found.odometry)) == driven.odometry
    assert found.control_hz == driven.rates.control_hz
    with pytest.raises(DriverError, match="/dev/this"):
        stop_base.stop(edited, environment)


@pytest.mark.parametrize("text", [None, '{"dds": {"domain": 9', "[]", '{"dds": {}, "odometry": {}, "control_hz": 30}'])
def test_without_a_note_that_can_be_used_the_configuration_leads_the_stop(
    text: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if text is not None:
        (tmp_path / DRIVEN_FILE).write_text(text)
    config = tmp_path / "onboard.toml"
    config.write_text('[odometry]\ninput = "serial"\nserial_port = "/dev/configured"\n')
    monkeypatch.setattr(stop_base, "BASE_WAIT_S", 0.0)
    with pytest.raises(DriverError, match="/dev/configured"):
        stop_base.stop(config, {"RUNTIME_DIRECTORY": str(tmp_path)})


def test_what_the_stop_imports_before_it_is_sent_is_little(tmp_path: Path) -> None:
    """Each of these imports takes tenths of a second; meanwhile the base of a killed runtime keeps moving."""
    environment = {"RUNTIME_DIRECTORY": str(tmp_path)}
    note_driven(Config(dds=DdsSection(domain=free_domain())), environment)
    program = (
        "import sys\nfrom pathlib import Path\nfrom onboard.service import stop_base\n"
        f"stop_base.BASE_WAIT_S = 0.0\nstop_base.stop(Path('none'), {environment})\n"
        "print(*sorted({'numpy', 'pydantic', 'structlog', 'yaml', 'numba'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_without_a_base_it_says_so() -> None:
    assert not stop_base.halt(BaseLink(DdsSection(domain=free_domain()), OdometrySection(), 30.0))


def test_a_port_that_is_not_there_is_an_error_and_exit_code_1(tmp_path: Path) -> None:
    config = tmp_path / "onboard.toml"
    config.write_text('[odometry]\ninput = "serial"\nserial_port = "/dev/no-base"\n')
    done = subprocess.run(
        [sys.executable, "-m", "onboard.halt", "--config", str(config)],
        env={**os.environ, "SERVICE_RESULT": "watchdog", "EXIT_CODE": "killed", "EXIT_STATUS": "ABRT"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == stop_base.EXIT_NOT_SENT
    assert "service_failed" in done.stderr
    assert "/dev/no-base" in done.stderr


def closed_to_others(path: Path) -> bool:
    """Return whether an unprivileged user has no access to a folder."""
    return any(not folder.stat().st_mode & 0o001 for folder in (path, *path.parents))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")
@pytest.mark.skipif(closed_to_others(Path(sys.prefix)), reason="this Python lies in a folder that is root's own")
def test_a_runtime_without_privileges_can_be_confined_to_loopback() -> None:
    program = (
        "import os\nfrom onboard.config.config import DdsSection\nfrom onboard.drivers.dds import domain, participant\n"
        "os.setresgid(65534, 65534, 65534)\nos.setresuid(65534, 65534, 65534)\n"
        f"domain.hold_domain({SECTION.domain}, DdsSection())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
