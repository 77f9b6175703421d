"""Sends zero to the base after any end of the runtime: the unit's `ExecStopPost`, a separate process.

A base without a command timeout would otherwise continue with the last command of a killed runtime. This process needs
only a small note from the runtime; it needs no cameras, engine or tick.

Imports take most of its time, so each function imports what it needs. The configuration's checks are skipped if there
is a note, because the runtime had checked it. The log comes after zero is sent.
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
    from onboard.drivers.kobuki_base import KobukiBase

DEFAULT_CONFIG = Path(__file__).parents[1] / "config" / "robots" / "default" / "onboard.toml"
RUNTIME_DIRECTORY = "RUNTIME_DIRECTORY"
DRIVEN_FILE = "driven.json"
"""Note in the service's runtime directory with the link to the base, written by `systemd.note_driven`."""

BASE_WAIT_S = 2.0
"""Timeout for discovery of the base, or for a serial port that the runtime still holds."""
SENDING_S, ACKNOWLEDGED_S = 1.0, 0.2
"""Duration of sending zero every tick, and timeout for the last acknowledgement. The first reader may be a viewer or
recorder, so zero is repeated for a base that discovery finds later."""

RESOLVER_S = 0.5
"""Timeout of the resolver for each peer; systemd kills this process after ten seconds."""

SERIAL = "serial"
NS_PER_S = 1_000_000_000
EXIT_NOT_SENT = 1
NO_NOTE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, ArithmeticError)
"""Errors of an invalid note, or of a note from another version."""


@dataclass(frozen=True, slots=True)
class BaseLink:
    """The link to the base. control_hz: command rate, for the writer's deadline."""

    dds: DdsSection
    odometry: OdometrySection
    control_hz: float


def halt(driven: BaseLink) -> int:
    """Send zero; return the number of readers. Raises OnboardError if zero could not be sent.

    Over DDS any reader of the commands counts; this process cannot know whether it is the base.
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
    """Return the section with resolved peers, without unknown hosts."""
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
    """Send zero to a serial base for SENDING_S, once per `period_s`.

    Raises DriverError if the port could not be opened, accepted no zero, or kept zero in its output queue.
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


def _opened(port: str) -> KobukiBase:
    """Return the base at a port; retry while the runtime still holds it. Raises MissingExtraError, DriverError."""
    from onboard.drivers.kobuki_base import KobukiBase

    until_s = time.monotonic() + BASE_WAIT_S
    while True:
        try:
            return KobukiBase(port)
        except DriverError:
            if time.monotonic() > until_s:
                raise
        time.sleep(0.01)


def noted(environment: Mapping[str, str] = os.environ) -> BaseLink | None:
    """Return the link from the ended runtime's note; None without a valid note."""
    directory = environment.get(RUNTIME_DIRECTORY, "")
    if not directory:
        return None
    try:
        note = json.loads((Path(directory) / DRIVEN_FILE).read_text(encoding="utf-8"))
        dds, odometry = SimpleNamespace(**note["dds"]), SimpleNamespace(**note["odometry"])
        if dds.security is not None:
            dds.security = Path(dds.security)
        return BaseLink(cast("DdsSection", dds), cast("OdometrySection", odometry), float(note["control_hz"]))
    except NO_NOTE:
        return None


def was_driven(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether the base may have received commands. A service that ended before driving leaves no note."""
    directory = environment.get(RUNTIME_DIRECTORY, "")
    return not directory or (Path(directory) / DRIVEN_FILE).exists()


def configured(config: Path) -> BaseLink:
    """Return the link from a configuration file. Raises ConfigError."""
    from onboard.config.config import load_config

    loaded = load_config(config)
    return BaseLink(loaded.dds, loaded.odometry, loaded.rates.control_hz)


def stop(config: Path, environment: Mapping[str, str] = os.environ) -> int:
    """Send zero over the note's link; without a usable note, over the configuration's link.

    Returns and raises like `halt`, and ConfigError.
    """
    driven = noted(environment)
    if driven is not None:
        with contextlib.suppress(*NO_NOTE):
            return halt(driven)
    return halt(configured(config))


def log_end(environment: Mapping[str, str] = os.environ) -> None:
    """Log systemd's reason for the service's end: the first line to look for in the journal."""
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
    """Stop the base, then log why the service ended. Exit code 1 if zero could not be sent to a driven base."""
    parser = argparse.ArgumentParser(prog="python -m onboard.halt", description=main.__doc__)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
    options = parser.parse_args()
    readers, failure = 0, ""
    try:
        readers = stop(options.config)
    except OnboardError as error:
        failure = str(error)
    driven = was_driven()
    _log_result(readers, failure, driven)
    if failure and driven:
        sys.exit(EXIT_NOT_SENT)


def _log_result(readers: int, failure: str, driven: bool) -> None:
    import structlog

    from onboard.system.log import configure

    configure()
    log_end()
    log = structlog.get_logger()
    if failure and driven:
        log.error("zero_not_sent", error=failure)
    elif failure:
        log.warning("zero_not_sent", error=failure, note="the service ended before it sent any command")
    elif readers:
        log.info("zero_sent", readers=readers)
    else:
        log.warning("zero_unheard", note=f"no reader within {BASE_WAIT_S + SENDING_S:g} s")


if __name__ == "__main__":
    main()
