"""What a socket hears is told by the device that it came over, here loopback."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from onboard.drivers.dds.domain import accept_only_devices

PATIENCE_S = 5.0
OTHERS = [name for _, name in socket.if_nameindex() if name != "lo"]


@pytest.fixture
def ends():
    with socket.socket(type=socket.SOCK_DGRAM) as listener, socket.socket(type=socket.SOCK_DGRAM) as speaker:
        listener.bind(("0.0.0.0", 0))
        listener.settimeout(PATIENCE_S)
        speaker.connect(("127.0.0.1", listener.getsockname()[1]))
        yield listener, speaker


def test_what_comes_over_the_device_is_heard(ends):
    listener, speaker = ends
    accept_only_devices(listener, ["lo"])
    speaker.send(b"here")
    assert listener.recv(16) == b"here"


@pytest.mark.skipif(not OTHERS, reason="this machine has no other device than lo")
@pytest.mark.parametrize("beside", [[], ["lo"]])
def test_what_comes_over_another_is_not(ends, beside):
    listener, speaker = ends
    accept_only_devices(listener, [OTHERS[0], *beside])
    speaker.send(b"over loopback")
    accept_only_devices(listener, ["lo"])
    speaker.send(b"after")
    assert listener.recv(16) == (b"over loopback" if beside else b"after")


def test_an_unknown_device_is_an_error(ends):
    with pytest.raises(OSError):
        accept_only_devices(ends[0], ["wlan77"])


def test_of_two_networks_the_named_one_is_heard():
    script = Path(__file__).with_name("two_networks.py")
    unshare = ["unshare", "--user", "--map-root-user", "--net"]
    if shutil.which("ip") is None or subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs `ip` and network namespaces")
    done = subprocess.run([*unshare, sys.executable, script], stdout=subprocess.PIPE, timeout=100, check=True)
    assert json.loads(done.stdout) == {
        "all": ["other network", "robot network", "this machine"],
        "robot0": ["robot network", "this machine"],
        "joined": True,
        "message": True,
    }
