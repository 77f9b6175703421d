"""The unit's relation to the machine: it ends before suspend, and its devices' modules and its network work.

The shipped unit runs under a real systemd with a dummy program. No test suspends the machine or loads a module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.onboard.service.test_systemd_reload import UNIT, idle
from tests.rigs.machine.systemd_rig import PYTHON, SYSTEM, UNITS, Machine, machine, missing, sleeping
from tests.rigs.machine.waiting import until

ZERO_SENT, AT_SLEEP, PROBED = "zero-sent", "/run/at-sleep", "/run/probed"
DROP_IN = f"""\
[Service]
ExecStartPre=+/bin/sh -c 'cp -r {PROBED} {PROBED}-at-start'
ExecStopPost=/bin/sh -c 'sleep 1; touch %S/onboard/{ZERO_SENT}'
"""
PROBE = f"""\
[Unit]
DefaultDependencies=no

[Service]
Type=oneshot
ExecStart=/bin/sh -c 'sleep 0.5; mkdir -p {PROBED}; touch {PROBED}/%i'
"""
FILES = {
    f"run/units/{UNIT}": idle(),
    f"run/units/{UNIT}.d/test.conf": DROP_IN,
    "run/units/modprobe@.service": PROBE,
}
#   kind of device    its kernel module; "" if built in or loaded by NVIDIA at boot
MODULES = {
    "char-ttyUSB": "usbserial",
    "char-ttyACM": "cdc_acm",
    "char-usb_device": "",
    "char-video4linux": "videodev",
    "char-media": "videodev",
    "char-drm": "drm",
    "char-nvhost*": "",
    "char-nvgpu*": "",
    "char-nvidia*": "",
    "char-nvsciipc": "",
    "/dev/nvmap": "",
}
NOT_PERMITTED = "77"
SAYS = f"""
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
    line.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
    try:
        line.sendto(b"", (sys.argv[1], 7400))
    except PermissionError:
        sys.exit({NOT_PERMITTED})
"""
"""It says so by its exit code: journald may read its text after it is gone, and then not know its invocation."""

NEEDS_SYSTEMD = pytest.mark.skipif(bool(missing()), reason=f"no systemd of our own here: {missing()}")


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    sleep = sleeping(f"(systemctl show --value --property=ActiveState {UNIT}; ls /var/lib/onboard) > {AT_SLEEP}")
    with machine(tmp_path_factory.mktemp("systemd"), {**FILES, **sleep}, "around") as there:
        yield there


def listed(name: str) -> list[str]:
    """Return the words of all lines with this key in the shipped unit."""
    lines = re.findall(rf"^{name}=(.*)$", (UNITS / "onboard.service").read_text(), flags=re.MULTILINE)
    return [word for line in lines for word in line.split()]


@NEEDS_SYSTEMD
def test_a_computer_whose_sleep_is_masked_does_not_sleep_and_the_run_goes_on(box: Machine) -> None:
    box.run("systemctl", "start", UNIT)
    until(lambda: box.show("ActiveState", unit=UNIT) == {"ActiveState": "active"})
    box.run("rm", "-f", AT_SLEEP)
    box.run("ln", "-sf", "/dev/null", "/run/units/sleep.target")
    box.run("systemctl", "daemon-reload")
    try:
        assert "sleep.target is masked" in box.tried("systemctl", "start", "suspend.target").stderr
    finally:
        box.run("rm", "/run/units/sleep.target")
        box.write("/run/units/sleep.target", (SYSTEM / "sleep.target").read_text())
        box.run("systemctl", "daemon-reload")
    assert box.tried("test", "-e", AT_SLEEP).returncode == 1
    assert box.show("ActiveState", unit=UNIT) == {"ActiveState": "active"}


@NEEDS_SYSTEMD
def test_the_modules_are_there_before_the_service_is_started(box: Machine) -> None:
    box.run("systemctl", "stop", UNIT)
    box.run("rm", "-rf", PROBED, f"{PROBED}-at-start")
    box.run("systemctl", "start", UNIT)
    assert set(box.run("ls", f"{PROBED}-at-start").split()) == set(filter(None, MODULES.values()))


def test_every_kind_of_device_has_its_module() -> None:
    devices = [word for word in listed("DeviceAllow") if word != "rw"]
    assert sorted(devices) == sorted(MODULES)
    wanted = {f"modprobe@{module}.service" for module in MODULES.values() if module}
    assert set(listed("Wants")) == wanted
    assert wanted <= set(listed("After"))


#   address                      allowed besides the unit's own      sent
SENDS = [
    ("127.0.0.1", "", True),
    ("239.255.0.1", "", False),
    ("239.255.0.1", "192.168.10.0/24", False),
    ("239.255.0.1", "multicast", True),
    ("239.255.0.1", "192.168.10.0/24 multicast", True),
]


@NEEDS_SYSTEMD
@pytest.mark.parametrize(("address", "allowed", "sent"), SENDS)
def test_multicast_leaves_the_service_only_where_its_drop_in_allows_it(
    address: str, allowed: str, sent: bool, box: Machine
) -> None:
    rules = [f"IPAddress{verb}={word}" for verb in ("Deny", "Allow") for word in listed(f"IPAddress{verb}")]
    box.write("/run/units/says.py", SAYS)
    says = f"ExecStart={PYTHON} /run/units/says.py {address}"
    lines = ["[Service]", "Type=oneshot", *rules, f"IPAddressAllow={allowed}" if allowed else "", says]
    box.write("/run/units/says.service", "\n".join(lines))
    box.run("systemctl", "daemon-reload")
    assert (box.tried("systemctl", "start", "says.service").returncode == 0) == sent
    assert box.show("ExecMainStatus", unit="says.service") == {"ExecMainStatus": "0" if sent else NOT_PERMITTED}
