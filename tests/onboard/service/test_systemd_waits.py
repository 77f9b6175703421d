"""The shipped unit under a real systemd, on a computer that boots before its network and its base are up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.rigs.machine.processes import toml
from tests.rigs.machine.systemd_rig import START_S, Machine, machine, missing
from tests.rigs.machine.waiting import until

HOST = "computer-of-the-base"
PORT = "/dev/base"
READY_BUT_FOR_EYES = "waiting for the first frame"
NETWORK = """
ip netns add robot
ip -n robot link set lo up
mkdir -p /dev/pts
mount -t devpts -o newinstance,ptmxmode=666 devpts /dev/pts
ln -s pts/ptmx /dev/ptmx
"""
FILE = "/etc/onboard/onboard.toml"
CABLE = "ip -n robot link add eth1 type veth peer name cable"
BASE = """
import os, tty
main, side = os.openpty()
tty.setraw(side)
os.chmod(os.ttyname(side), 0o666)
try:
    os.remove("/dev/base")
except FileNotFoundError:
    pass
os.symlink(os.ttyname(side), "/dev/base")
with open("/run/heard", "wb", 0) as heard:
    while True:
        heard.write(os.read(main, 4096))
"""
"""A serial base that is switched on: creates its port and records received bytes. The port ends with the process."""
BASE_UNIT = "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/opt/onboard/current/bin/python /opt/base.py\n"
ZERO = "aa550601040000000003"

#   what comes                        how                                                            status until then
ARRIVALS = [
    ("the interface", CABLE, "dds.interface: there is no 'eth1'"),
    ("its address", "ip -n robot address add 192.168.77.1/24 dev eth1", "dds.interface: 'eth1' has no IPv4 address"),
    ("its link", "ip -n robot link set eth1 up", "dds.interface: 'eth1' is down"),
    ("a host", f"echo 192.168.77.2 {HOST} >> /etc/hosts", f"dds.peers: '{HOST}': this machine cannot resolve"),
    ("the base", "systemctl start base.service", f"odometry.serial_port: {PORT} does not exist"),
]

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"no systemd of our own here: {missing()}")


@pytest.fixture(scope="module")
def early(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """A computer with only loopback and no base."""
    folder = tmp_path_factory.mktemp("systemd")
    config = toml(
        folder / "onboard.toml",
        cameras={"source": "none", "color": "none"},
        scan={"topic": "base_scan"},
        policy={"model": "onboard-v2"},
        odometry={"input": "serial", "serial_port": PORT},
        dds={"domain": 0, "interface": "eth1", "peers": [HOST]},
    ).read_text()
    files = {
        "etc/onboard/onboard.toml": config,
        "etc/hosts": "127.0.0.1 localhost\n",
        "opt/base.py": BASE,
        "run/units/base.service": BASE_UNIT,
        "run/units/onboard.service.d/network.conf": "[Service]\nNetworkNamespacePath=/run/netns/robot\n",
    }
    with machine(folder, files, "waits") as service:
        service.run("sh", "-ec", NETWORK)
        if service.tried("sh", "-ec", f"{CABLE}; ip -n robot link delete eth1").returncode:
            pytest.skip("this kernel makes no pair of network devices")
        yield service


def says(service: Machine, words: str) -> bool:
    return words in service.show("StatusText")["StatusText"]


def test_what_comes_up_later_is_waited_for_by_one_start_and_a_base_that_was_pulled_out_again(early: Machine) -> None:
    early.run("systemctl", "start", "--no-block", "onboard.service")
    until(lambda: says(early, "waiting: "), START_S)
    assert all(words in early.show("StatusText")["StatusText"] for _, _, words in (ARRIVALS[0], *ARRIVALS[3:]))
    pid = early.main_pid()
    for _, comes, words in ARRIVALS:
        until(lambda words=words: says(early, words), START_S)
        assert early.is_state("activating")
        early.run("sh", "-ec", comes)
    until(lambda: says(early, READY_BUT_FOR_EYES), START_S)
    assert (early.main_pid(), early.show("NRestarts")["NRestarts"]) == (pid, "0")
    logged = early.journal("-u", "onboard.service", "ONBOARD_EVENT=waiting")
    missing = [entry["ONBOARD_MISSING"] for entry in logged]
    assert len(missing) == len(set(missing)) == len(ARRIVALS), "each is logged once"
    until(lambda: ZERO in early.run("od", "-An", "-v", "-tx1", "-w10", "/run/heard").replace(" ", ""), START_S)

    early.run("systemctl", "stop", "base.service")
    until(lambda: says(early, ARRIVALS[-1][2]) and says(early, "waiting: "), START_S)
    assert early.show("NRestarts")["NRestarts"] == "1"
    early.run("systemctl", "start", "base.service")
    until(lambda: says(early, READY_BUT_FOR_EYES), START_S)
    assert early.show("NRestarts")["NRestarts"] == "1"


#   waits for    what takes it away                                                          status
ABSENT = [
    ("the base", "systemctl stop base.service", "odometry.serial_port"),
    ("a host", "echo 127.0.0.1 localhost > /etc/hosts; sed -i 's/^input = .*/input = \"dds\"/' " + FILE, "dds.peers"),
]


@pytest.mark.parametrize(("goes", "words"), [row[1:] for row in ABSENT], ids=[row[0] for row in ABSENT])
def test_a_stop_ends_the_waiting_at_once(early: Machine, goes: str, words: str) -> None:
    early.run("systemctl", "stop", "onboard.service")
    early.run("sh", "-ec", goes)
    early.run("systemctl", "reset-failed", "onboard.service", check=False)
    early.run("systemctl", "start", "--no-block", "onboard.service")
    until(lambda: says(early, f"waiting: {words}"), START_S)
    early.run("systemctl", "stop", "onboard.service")
    assert early.show("MainPID")["MainPID"] == "0"
    assert early.show("ActiveState")["ActiveState"] == "inactive", "stopped before it drove anything, not failed"


def test_the_boot_does_not_wait_for_a_base_that_is_off(early: Machine) -> None:
    wants = "/run/units/multi-user.target.wants"
    early.run("sh", "-ec", f"mkdir {wants}; ln -s ../onboard.service {wants}; systemctl daemon-reload")
    ordered = early.run("systemctl", "show", "--property=Wants", "--property=After", "multi-user.target").splitlines()
    assert {line.split("=")[0]: "onboard.service" in line for line in ordered} == {"Wants": True, "After": False}
