"""A participant in a process of its own on the Cyclone that has security plugins (`.ci/prepare-secure`).

    secure_peer.py DOMAIN ENCLAVE|- write|read VALUE [INTERFACE PEER]
    secure_peer.py DOMAIN ENCLAVE|- ends TOPIC...

It says one line, "ready", or "refused: ..." and ends. A writer then sends VALUE as a velocity until its input ends; a
reader prints each new value that it hears. With `ends` it says a line for each topic, as named on the wire: its name,
and "write", "read", both or neither, as it may.
"""

from __future__ import annotations

import os
import select
import sys
from pathlib import Path

PAUSES_S = {"write": 0.05, "read": 0.005}
"""A reader looks more often than anybody writes: of the commands it keeps the newest only."""
SCRIPT = Path(__file__)
ROOT = next((folder for folder in SCRIPT.parents if (folder / "pyproject.toml").is_file()), SCRIPT.parent)
"""A copy of this file may stand alone."""
VENV = Path(os.environ.get("ONBOARD_SECURE_VENV", ROOT / ".venv-secure"))
PYTHON = VENV / "bin" / "python"
WHOLE = VENV / "whole"
"""What `.ci/prepare-secure` leaves when everything went well."""


def environment() -> dict[str, str]:
    """Return what a process of that kind needs: where the library and its plugins are, and our code."""
    libraries = VENV / "home" / "lib"
    paths = f"{libraries}:{libraries / 'libddsc0debian'}"
    return {**os.environ, "LD_LIBRARY_PATH": paths, "PYTHONPATH": str(ROOT)}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(domain: int, enclave: str, verb: str, value: float, interface: str = "lo", *peers: str) -> None:
    from onboard.config.config import DdsSection
    from onboard.drivers.dds.participant import Wire
    from onboard.drivers.dds.ros_convert import ros_twist
    from onboard.values.errors import OnboardError
    from onboard.values.messages import Twist

    try:
        keys = None if enclave == "-" else Path(enclave)
        wire = Wire(DdsSection(domain=domain, security=keys, interface=interface, peers=list(peers)))
        end = wire.writer("cmd_vel") if verb == "write" else wire.reader("cmd_vel")
    except OnboardError as error:
        say(f"refused: {error}")
        return
    say("ready")
    received = set()
    while not select.select([sys.stdin], [], [], PAUSES_S[verb])[0]:
        if verb == "write":
            end.write(ros_twist(Twist(value, 0.0)))
            continue
        for message in end.take():
            if message.sample.linear.x not in received:
                received.add(message.sample.linear.x)
                say(str(message.sample.linear.x))


def ends(domain: int, enclave: str, topics: list[str]) -> None:
    from cyclonedds.core import DDSException
    from cyclonedds.pub import DataWriter
    from cyclonedds.sub import DataReader
    from cyclonedds.topic import Topic

    from onboard.config.config import DdsSection
    from onboard.drivers.dds.participant import Wire
    from onboard.drivers.dds.ros_types import Bool

    participant = Wire(DdsSection(domain=domain, security=Path(enclave))).participant()
    for name in topics:
        lines = [name]
        for verb, end in (("write", DataWriter), ("read", DataReader)):
            try:
                end(participant, Topic(participant, name, Bool))
            except DDSException:
                continue
            lines.append(verb)
        say(" ".join(lines))


if __name__ == "__main__":
    if sys.argv[3] == "ends":
        ends(int(sys.argv[1]), sys.argv[2], sys.argv[4:])
        sys.exit()
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), *sys.argv[5:])
