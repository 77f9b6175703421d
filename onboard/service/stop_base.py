"""Zero to the base after the runtime has ended, however it ended: the unit's `ExecStopPost`, a process of its own.

It has nothing from the runtime but one small file, and needs neither cameras, engine nor a tick. A base that has no
time-out of its own would otherwise go on with the last command of a runtime that was killed.

Most of its time goes into importing: so what it needs is imported where it is used, and the checks of the configuration
and the log only when zero is out. The note was written by a runtime that had checked it all.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from onboard.values.errors import DriverError, OnboardError

if TYPE_CHECKING:
    from onboard.config.config import DdsSection, OdometrySection
    from onboard.drivers.dds.ros_types import Twist, TwistStamped
    from onboard.drivers.serial_base import SerialBase

DEFAULT_CONFIG = Path(__file__).parents[1] / "config" / "robots" / "default" / "onboard.toml"
RUNTIME_DIRECTORY = "RUNTIME_DIRECTORY"
DRIVEN_FILE = "driven.json"
"""In the service's runtime directory: what the robot is driven through, as `service.note_driven` writes it."""

BASE_WAIT_S = 2.0
"""Patience for the base to be found, or for a serial port that the runtime still holds."""
SENDING_S, ACKNOWLEDGED_S = 1.0, 0.2
"""For so long zero is sent again and again, a tick apart, and so long the last one is waited for. The first reader
that is found may be a viewer or a recorder: a base that is found later is to hear it too."""

RESOLVER_S = 0.5
"""Patience for the address of each peer: systemd ends all of this after ten seconds."""

SERIAL = "serial"
NS_PER_S = 1_000_000_000
EXIT_NOT_SENT = 1
NO_NOTE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ArithmeticError)
"""What a note raises that is none, or that another version wrote."""


@dataclass(frozen=True, slots=True)
class Driven:
    """What the robot is driven through. control_hz: commands a second, as the writer promises them."""

    dds: DdsSection
    odometry: OdometrySection
    control_hz: float


def halt(driven: Driven) -> int:
    """Send zero; return how many were there to hear it, 0 when nobody. Raises OnboardError when it could not be sent.

    Over DDS those are the readers of the commands. Whether one of them is the base, nobody can tell from here.
    """
    if driven.odometry.input == SERIAL:
        _halt_serial(driven.odometry.serial_port, 1.0 / driven.control_hz)
        return 1
    from onboard.drivers.dds.participant import Wire
    from onboard.drivers.dds.topics import promised_commands

    with contextlib.closing(Wire(_with_known_peers(driven.dds))) as wire:
        writer = wire.writer(promised_commands(driven.control_hz))
        writer.wait_for_reader(BASE_WAIT_S)
        readers, until_s = 0, time.monotonic() + SENDING_S
        while time.monotonic() < until_s:
            writer.write(_zero(driven.dds))
            readers = max(readers, writer.readers())
            time.sleep(1.0 / driven.control_hz)
        writer.wait_for_acks(ACKNOWLEDGED_S)
        return readers


def _with_known_peers(section: DdsSection) -> DdsSection:
    """Return the section with the addresses of its peers, without those whose host nobody knows now."""
    from onboard.system.resolver import Hosts, is_host

    hosts = Hosts()
    peers = [hosts.address(peer, RESOLVER_S) if is_host(peer) else peer for peer in section.peers]
    return cast("DdsSection", SimpleNamespace(**{**vars(section), "peers": [peer for peer in peers if peer]}))


def _zero(section: DdsSection) -> Twist | TwistStamped:
    from onboard.drivers.dds.ros_types import Header, Time, Twist, TwistStamped

    if not section.stamped_cmd_vel:
        return Twist()
    return TwistStamped(Header(Time(*divmod(time.time_ns(), NS_PER_S)), section.base_frame), Twist())


def _halt_serial(port: str, period_s: float) -> None:
    """Send zero to a serial base for SENDING_S, once a period [s].

    Raises DriverError where the port could not be opened, took no zero, or did not pass on what it took.
    """
    from onboard.values.messages import STOP

    with contextlib.closing(_opened(port)) as base:
        sent, refusal = 0, ""
        until_s = time.monotonic() + SENDING_S
        while time.monotonic() < until_s:
            try:
                base.send(STOP)
            except DriverError as error:
                refusal = str(error)
            else:
                sent += 1
            time.sleep(period_s)
        if not sent:
            raise DriverError(refusal)
        if not base.wait_for_output(ACKNOWLEDGED_S):
            raise DriverError(f"{port}: the base takes no commands: zero is still in the port's output queue")


def _opened(port: str) -> SerialBase:
    """Return the base at a port that the runtime may hold a moment longer. Raises MissingExtraError, DriverError."""
    from onboard.drivers.serial_base import SerialBase

    until_s = time.monotonic() + BASE_WAIT_S
    while True:
        try:
            return SerialBase(port)
        except DriverError:
            if time.monotonic() > until_s:
                raise
        time.sleep(0.01)


def noted(environment: Mapping[str, str] = os.environ) -> Driven | None:
    """Return what the runtime that ended noted of its way to the base, as it had checked it; None without a note."""
    directory = environment.get(RUNTIME_DIRECTORY, "")
    if not directory:
        return None
    try:
        told = json.loads((Path(directory) / DRIVEN_FILE).read_text(encoding="utf-8"))
        dds, odometry = SimpleNamespace(**told["dds"]), SimpleNamespace(**told["odometry"])
        if dds.security is not None:
            dds.security = Path(dds.security)
        return Driven(cast("DdsSection", dds), cast("OdometrySection", odometry), float(told["control_hz"]))
    except NO_NOTE:
        return None


def was_driven(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a base may have had commands: a service that ended while it waited for one has left no note."""
    directory = environment.get(RUNTIME_DIRECTORY, "")
    return not directory or (Path(directory) / DRIVEN_FILE).exists()


def configured(config: Path) -> Driven:
    """Return what a configuration says of the way to the base. Raises ConfigError."""
    from onboard.config.config import load_config

    loaded = load_config(config)
    return Driven(loaded.dds, loaded.odometry, loaded.rates.control_hz)


def stop(config: Path, environment: Mapping[str, str] = os.environ) -> int:
    """Send zero where the commands went, by the note; without one that can be used, where the configuration says.

    Returns and raises as `halt`, and ConfigError.
    """
    driven = noted(environment)
    if driven is not None:
        with contextlib.suppress(*NO_NOTE):
            return halt(driven)
    return halt(configured(config))


def tell_end(environment: Mapping[str, str] = os.environ) -> None:
    """Log why the service ended, as systemd says: in the journal of a robot that is the first line to look for."""
    import structlog

    log = structlog.get_logger()
    result = environment.get("SERVICE_RESULT", "")
    if not result:
        return
    how = {"result": result, "code": environment.get("EXIT_CODE", ""), "status": environment.get("EXIT_STATUS", "")}
    if result == "success":
        log.info("service_ended", **how)
    else:
        log.error("service_failed", **how)


def main() -> None:
    """Stop the base, then say why the service ended; exit code 1 when the stop of a driven base could not be sent."""
    parser = argparse.ArgumentParser(prog="python -m onboard.halt", description=main.__doc__)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
    options = parser.parse_args()
    readers, failure = 0, ""
    try:
        readers = stop(options.config)
    except OnboardError as error:
        failure = str(error)
    driven = was_driven()
    _tell(readers, failure, driven)
    if failure and driven:
        sys.exit(EXIT_NOT_SENT)


def _tell(readers: int, failure: str, driven: bool) -> None:
    import structlog

    from onboard.system.log import configure

    configure()
    tell_end()
    log = structlog.get_logger()
    if failure and driven:
        log.error("zero_not_sent", error=failure)
    elif failure:
        log.warning("zero_not_sent", error=failure, note="the service ended before it drove anything")
    elif readers:
        log.info("zero_sent", readers=readers)
    else:
        log.warning("zero_unheard", note=f"nobody listened within {BASE_WAIT_S + SENDING_S:g} s")


if __name__ == "__main__":
    main()
