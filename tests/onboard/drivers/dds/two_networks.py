"""A machine on two networks, as a network namespace with two TUN devices; prints what a listener on `robot0` hears.

Run in a namespace of its own (`unshare --user --map-root-user --net`): packets to the first port of domain 0 come in
over each of the devices, and from the machine itself; then two participants find each other on `robot0`.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import subprocess
import sys

from onboard.config.config import DdsSection
from onboard.drivers.dds.domain import accept_only_devices
from onboard.drivers.dds.participant import Wire, wait_until
from onboard.drivers.dds.ros_types import Bool

TUNSETIFF, IFF_TUN_NO_PI = 0x400454CA, 0x1001
PORT = 7400
SILENCE_S = 0.5
PATIENCE_S = 10.0
UDP, HEADER_BYTES = 17, 28


def device(name: str, address: str) -> int:
    """Make a device with an address and return its descriptor: what is written there arrives over it."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN_NO_PI))
    for words in (["addr", "add", f"{address}/24", "dev", name], ["link", "set", name, "up"]):
        subprocess.run(["ip", *words], check=True)
    return descriptor


def checksum(header: bytes) -> int:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(source: str, target: str, data: bytes) -> bytes:
    """Return an IPv4 packet with a datagram to PORT."""
    ends = socket.inet_aton(source) + socket.inet_aton(target)
    head = struct.pack("!BBHHHBB", 0x45, 0, HEADER_BYTES + len(data), 1, 0, 64, UDP)
    head += struct.pack("!H", checksum(head + b"\0\0" + ends)) + ends
    return head + struct.pack("!HHHH", PORT, PORT, 8 + len(data), 0) + data


def heard(devices: list[str], robot: int, other: int) -> list[str]:
    """Return who is heard at PORT by a socket that hears only these devices, all without any."""
    with socket.socket(type=socket.SOCK_DGRAM) as listener, socket.socket(type=socket.SOCK_DGRAM) as own:
        listener.bind(("0.0.0.0", PORT))
        listener.settimeout(SILENCE_S)
        if devices:
            accept_only_devices(listener, devices)
        os.write(other, packet("10.75.2.9", "10.75.2.1", b"other network"))
        os.write(robot, packet("10.75.1.9", "10.75.1.1", b"robot network"))
        own.sendto(b"this machine", ("10.75.1.1", PORT))
        found = []
        try:
            while True:
                found.append(listener.recv(64).decode())
        except TimeoutError:
            return sorted(found)


def main() -> None:
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    robot, other = device("robot0", "10.75.1.1"), device("other0", "10.75.2.1")
    result = {"all": heard([], robot, other), "robot0": heard(["robot0", "lo"], robot, other)}
    section = DdsSection(domain=0, interface="robot0", peers=["10.75.1.1"])
    ours, theirs = Wire(section), Wire(section)
    writer, reader = ours.writer("e_stop"), theirs.reader("e_stop")
    result["joined"] = wait_until(lambda: bool(writer.readers() and reader.writers()), PATIENCE_S)
    writer.write(Bool(True))
    result["message"] = reader.wait(PATIENCE_S) and reader.take()[0].sample.data
    ours.close()
    theirs.close()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
