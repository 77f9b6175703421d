"""An alternative to DDS Security: runtime and base share a private network, and a stranger is outside.

The participants are `tests/rigs/network/secure_peer.py` without keys. Each participant writes its own velocity, so the
received velocity identifies the sender.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.rigs.machine.systemd_rig import ROOT, START_S, UNITS, Machine, machine, missing
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

DROP_IN = (UNITS / "onboard-private-network.conf.example").read_text()
NAMED = "[Service]\nNetworkNamespacePath=/run/netns/robot\n"
SCRIPT = Path(__file__).parents[2] / "tests/rigs/network/secure_peer.py"
PEER = SCRIPT.read_text()
COMMANDS = re.search(r"```\n( *ip netns add.*?)```", (ROOT / "SECURITY.md").read_text(), re.DOTALL)
ROBOT_SPEED, STRANGER_SPEED, OPERATOR_SPEED = "1.0", "2.0", "3.0"
OF_THE_RUNTIME = "Type=|NotifyAccess=|Exec|Watchdog|OnFailure="
systemd = pytest.mark.skipif(bool(missing()), reason=f"no systemd of our own here: {missing()}")
LONG_ENOUGH_S = 3.0
"""Ten times the discovery time of participants in the same network."""
PATIENCE_S = 30.0


def peer(domain: int, verb: str, value: str = "0") -> str:
    return f"tail -f /dev/null | /opt/onboard/current/bin/python /opt/peer.py {domain} - {verb} {value}"


def unit(domain: int, verb: str, value: str = "0") -> str:
    return (
        "[Unit]\nDefaultDependencies=no\n[Service]\nEnvironment=PYTHONPATH=/opt/onboard/tree\n"
        f"ExecStart=/bin/sh -c '{peer(domain, verb, value)}'\n"
    )


def hardened(domain: int, verb: str, value: str) -> str:
    """Return the shipped unit with its hardening, with a participant in place of the runtime."""
    kept = [line for line in (UNITS / "onboard.service").read_text().splitlines() if not re.match(OF_THE_RUNTIME, line)]
    ours = f"[Service]\nEnvironment=PYTHONPATH=/opt/onboard/tree\nExecStart=/bin/sh -c '{peer(domain, verb, value)}'"
    return "\n".join([*kept, ours, ""])


#   unit         verb     value
UNITS_OF_TEST = (
    ("robot",    "write", ROBOT_SPEED),
    ("base",     "read",  "0"),
    ("stranger", "write", STRANGER_SPEED),
    ("listener", "read",  "0"),
)  # fmt: skip
"""The last two are outside the private network."""


#   way                                drop-in of the units inside, commands before
WAYS = {
    "a network of the services' own":    (DROP_IN, ""),
    "a namespace that is there already": (NAMED, "ip netns add robot; ip -n robot link set lo up"),
}  # fmt: skip


@pytest.fixture(params=WAYS.values(), ids=WAYS)
def network(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Machine, int]]:
    """A systemd with the four units as services, the first two in the private network, and their domain."""
    drop_in, commands = request.param
    domain = free_domain()
    files = {f"run/units/{name}.service": unit(domain, verb, value) for name, verb, value in UNITS_OF_TEST}
    files["run/units/robot.service"] = hardened(domain, "write", ROBOT_SPEED)
    files["run/units/robot.service.d/private-network.conf"] = drop_in
    files["run/units/base.service.d/private-network.conf"] = drop_in.replace("=base.service", "=robot.service")
    with machine(tmp_path, {**files, "opt/peer.py": PEER}, "network") as service:
        service.run("sh", "-ec", commands)
        yield service, domain


def heard(service: Machine, name: str) -> set[str]:
    """Return the velocities that a service has received since its last start."""
    words = [str(entry["MESSAGE"]) for entry in service.journal("-u", f"{name}.service", "-t", "sh")]
    return set(words[max((i for i, word in enumerate(words) if word == "ready"), default=len(words)) + 1 :])


def restart(service: Machine) -> None:
    service.run("systemctl", "daemon-reload")
    service.run("systemctl", "restart", *(f"{name}.service" for name, *_ in UNITS_OF_TEST))
    until(lambda: ROBOT_SPEED in heard(service, "base") and STRANGER_SPEED in heard(service, "listener"), START_S)


@systemd
def test_who_is_outside_of_the_private_network_can_neither_send_nor_read(network: tuple[Machine, int]) -> None:
    service, domain = network
    restart(service)
    service.run("sleep", str(LONG_ENOUGH_S))
    assert heard(service, "base") == {ROBOT_SPEED}
    assert heard(service, "listener") == {STRANGER_SPEED}

    inside = service.show("MainPID", unit="base.service")["MainPID"]
    program = f"PYTHONPATH=/opt/onboard/tree timeout {LONG_ENOUGH_S:g} sh -c '{peer(domain, 'write', OPERATOR_SPEED)}'"
    service.tried("nsenter", "--net", "--target", inside, "sh", "-c", program)
    assert heard(service, "base") == {ROBOT_SPEED, OPERATOR_SPEED}, "an operator who comes in is heard"
    assert heard(service, "listener") == {STRANGER_SPEED}

    service.run("rm", "-r", "/run/units/robot.service.d", "/run/units/base.service.d")
    restart(service)
    everybody = {ROBOT_SPEED, STRANGER_SPEED}
    until(lambda: heard(service, "base") == heard(service, "listener") == everybody, START_S)


CABLE = """
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add eth1 type veth peer name cable
ip netns add base
ip link set cable netns base
ip -n base address add 192.168.10.2/24 dev cable
ip -n base link set lo up
ip -n base link set cable up
"""
"""A computer and the base's computer, connected by a cable."""


@pytest.fixture
def computer() -> Iterator[list[str]]:
    """Return the prefix of a command that runs it on a computer with a cable, in new namespaces."""
    if os.geteuid() != 0:
        pytest.skip("moving network devices needs root")
    script = f"set -e\n{CABLE}\necho ready\nexec cat"
    with subprocess.Popen(
        ["unshare", "--net", "--mount", "--propagation=private", "sh", "-c", script],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as holder:  # fmt: skip
        assert holder.stdin is not None
        assert holder.stdout is not None
        if holder.stdout.readline() != "ready\n":
            pytest.skip("this kernel makes no pair of network devices")
        yield ["nsenter", "--net", "--mount", "--target", str(holder.pid)]
        holder.stdin.close()


def test_who_is_outside_of_the_namespace_with_the_cable_can_neither_send_nor_read(computer: list[str]) -> None:
    assert COMMANDS is not None
    subprocess.run([*computer, "sh", "-ec", COMMANDS[1]], check=True)
    robot, base = [*computer, "ip", "netns", "exec", "robot"], [*computer, "ip", "netns", "exec", "base"]
    domain = str(free_domain())
    with ExitStack() as held:

        def start(where: list[str], verb: str, value: str, *wire: str) -> subprocess.Popen[str]:
            command = [*where, sys.executable, str(SCRIPT), domain, "-", verb, value, *wire]
            one = held.enter_context(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            held.callback(one.kill)
            assert one.stdout is not None
            assert one.stdout.readline() == "ready\n"
            return one

        on_the_cable = start(base, "read", "0", "cable", "192.168.10.1")
        outside = start(computer, "read", "0")
        start(robot, "write", ROBOT_SPEED, "eth1", "192.168.10.2")
        start(computer, "write", STRANGER_SPEED)
        for reader, speed in ((on_the_cable, ROBOT_SPEED), (outside, STRANGER_SPEED)):
            assert reader.stdout is not None
            assert reader.stdout.readline() == f"{speed}\n"
        start(robot, "write", OPERATOR_SPEED, "eth1", "192.168.10.2")
        assert on_the_cable.stdout is not None
        assert on_the_cable.stdout.readline() == f"{OPERATOR_SPEED}\n", "who comes in is heard"
        subprocess.run(["sleep", str(LONG_ENOUGH_S)], check=True)
        for reader in (on_the_cable, outside):
            assert reader.communicate("\n", timeout=PATIENCE_S)[0] == "", "nothing else was heard"
