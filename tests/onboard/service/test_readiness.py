"""The wait at the start: one log line per missing part, a timeout, and no wait for an invalid host."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from onboard.config.config import Config, DdsSection, OdometrySection
from onboard.drivers.dds.domain import not_usable
from onboard.service.readiness import LOOK_EVERY_S, PATIENCE_S, await_machine, base_to_come, network_to_come
from onboard.service.systemd import NOTIFY_SOCKET, Notifier
from onboard.system.resolver import Hosts
from onboard.values.errors import ConfigError, DriverError
from tests.rigs.network.nobody import NEEDS_ROOT

A_START_S = 60.0
UNKNOWN_HOST = "nobody-has-this-name.invalid"
QUICK = 100.0
"""For tests that reach the timeout: every check asks the slow resolver."""


class Waiting:
    """A clock that advances only by the pauses, `pace` times as fast, and a service manager that records messages."""

    def __init__(self, folder: Path) -> None:
        self.now_s, self.pauses, self.pace = 0.0, 0, 1.0
        self._manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._manager.bind(str(folder / "notify"))
        self._manager.setblocking(False)
        self.notifier = Notifier({NOTIFY_SOCKET: str(folder / "notify")})
        self.comes: dict[int, Path] = {}

    def pause(self, seconds: float) -> None:
        self.pauses += 1
        self.now_s += seconds * self.pace
        if self.pauses in self.comes:
            self.comes[self.pauses].touch()

    def wait(self, config: Config) -> list[dict]:
        """Return the log after the wait."""
        with capture_logs() as logged:
            await_machine(config, self.notifier, self.pause, lambda: self.now_s)
        return logged

    def reported(self) -> list[str]:
        reported = []
        while True:
            try:
                reported.append(self._manager.recv(4096).decode())
            except BlockingIOError:
                return reported

    def close(self) -> None:
        self.notifier.close()
        self._manager.close()


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Waiting]:
    one = Waiting(tmp_path)
    yield one
    one.close()


def with_base(port: Path, **dds: object) -> Config:
    return Config(odometry=OdometrySection(input="serial", serial_port=str(port)), dds=DdsSection(**dds))


def test_a_base_that_comes_is_waited_for_and_told_once(waiting: Waiting, tmp_path: Path) -> None:
    port = tmp_path / "base"
    waiting.comes = {40: port}
    logged = waiting.wait(with_base(port))
    line = f"odometry.serial_port: {port} does not exist; is the base plugged in?"
    assert waiting.pauses == 40
    assert waiting.reported() == [f"STATUS=waiting: {line}"]
    assert [(one["event"], one.get("missing"), one.get("waited_s")) for one in logged] == [
        ("waiting", line, None),
        ("waited", None, 40 * LOOK_EVERY_S),
    ]


def test_what_is_there_is_not_waited_for(waiting: Waiting) -> None:
    assert waiting.wait(with_base(Path("/dev/null"), peers=["localhost", "127.0.0.1:7410", ""])) == []
    assert (waiting.pauses, waiting.reported()) == (0, [])


def test_what_does_not_come_is_named_at_the_end(waiting: Waiting, tmp_path: Path) -> None:
    config = with_base(tmp_path / "base", interface="eht0", peers=[UNKNOWN_HOST])
    waiting.pace = QUICK
    with pytest.raises(DriverError, match=r"dds\.interface: there is no 'eht0'") as ended:
        waiting.wait(config)
    assert waiting.pauses == PATIENCE_S / (QUICK * LOOK_EVERY_S)
    for words in (UNKNOWN_HOST, str(tmp_path / "base"), f"(waited for {PATIENCE_S:g} s)"):
        assert words in str(ended.value)
    assert "\n" not in str(ended.value)


def test_what_is_no_name_of_a_host_is_not_waited_for(waiting: Waiting) -> None:
    with pytest.raises(ConfigError, match=r"dds\.peers: .* cannot resolve the host name"):
        waiting.wait(Config(dds=DdsSection(peers=["a" * 70])))
    assert waiting.pauses == 0


def test_starts_that_only_wait_are_never_too_many_and_leave_the_time_that_a_start_takes() -> None:
    unit = dict(
        line.split("=", 1)
        for line in (Path(__file__).parents[3] / "systemd" / "onboard.service").read_text().splitlines()
        if line.startswith(("StartLimitIntervalSec=", "TimeoutStartSec="))
    )
    assert float(unit["StartLimitIntervalSec"]) <= PATIENCE_S
    assert 60.0 * float(unit["TimeoutStartSec"].removesuffix("min")) >= PATIENCE_S + A_START_S


def test_a_base_over_dds_needs_no_port() -> None:
    assert base_to_come(OdometrySection(input="dds", serial_port="/dev/no-base")) == []
    assert network_to_come(DdsSection(), Hosts()) == []
    assert not_usable("lo") == ""


DEVICES = """
import os, subprocess
from onboard.drivers.dds.domain import not_usable
cable, address = "link add eth1 type veth peer name cable", "address add 192.168.77.1/24 dev eth1"
for command in ("", cable, "link set eth1 up", address, "link set eth1 down"):
    if command and subprocess.run(["ip", *command.split()]).returncode:
        print("skip")
        break
    print(not_usable("eth1"))
"""


@NEEDS_ROOT
def test_an_interface_is_there_with_an_address_and_up() -> None:
    done = subprocess.run(
        ["unshare", "--net", sys.executable, "-c", DEVICES], env=dict(os.environ), capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if "skip" in done.stdout or "unshare" in done.stderr:
        pytest.skip("this kernel makes no pair of network devices")
    assert done.stdout.splitlines() == [
        "dds.interface: there is no 'eth1'; available: lo",
        "dds.interface: 'eth1' has no IPv4 address",
        "dds.interface: 'eth1' has no IPv4 address",
        "",
        "dds.interface: 'eth1' is down",
    ], done.stderr
