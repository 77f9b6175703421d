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

from onboard.errors import DriverError, OnboardError

if TYPE_CHECKING:
    from onboard.config import DdsSection, OdometrySection

DEFAULT_CONFIG = Path(__file__).parent / "robots" / "default" / "onboard.toml"
RUNTIME_DIRECTORY = "RUNTIME_DIRECTORY"
DRIVEN_FILE = "driven.json"
"""In the service's runtime directory: what the robot is driven through, as `service.note_driven` writes it."""

BASE_WAIT_S = 2.0
"""Patience for the base to be found, or for a serial port that the runtime still holds."""
TRIES, ACKNOWLEDGED_S = 3, 0.2
"""How often the stop is sent, and how long each is waited for."""

SERIAL = "serial"
NS_PER_S = 1_000_000_000
EXIT_NOT_SENT = 1
NO_NOTE = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What a note raises that is none, or that another version wrote."""


@dataclass(frozen=True, slots=True)
class Driven:
    """What the robot is driven through. control_hz: commands a second, as the writer promises them."""

    dds: DdsSection
    odometry: OdometrySection
    control_hz: float


def halt(driven: Driven) -> bool:
    """Send zero; return whether a base was there to hear it. Raises OnboardError when it could not be sent."""
    if driven.odometry.input == SERIAL:
        _halt_serial(driven.odometry.serial_port)
        return True
    from onboard.drivers.dds_topics import promised_commands
    from onboard.drivers.ros_types import Header, Time, Twist, TwistStamped
    from onboard.drivers.wire import Wire

    with contextlib.closing(Wire(driven.dds)) as wire:
        writer = wire.writer(promised_commands(driven.control_hz))
        heard = writer.wait_for_reader(BASE_WAIT_S)
        for _ in range(TRIES):
            stamp = Time(*divmod(time.time_ns(), NS_PER_S))
            stamped = TwistStamped(Header(stamp, driven.dds.base_frame), Twist())
            writer.write(stamped if driven.dds.stamped_cmd_vel else Twist())
            if writer.wait_for_acks(ACKNOWLEDGED_S):
                break
        return heard


def _halt_serial(port: str) -> None:
    from onboard.drivers.serial_base import SerialBase

    until_s = time.monotonic() + BASE_WAIT_S
    while True:
        try:
            SerialBase(port).close()  # which sends the stop
        except DriverError:
            if time.monotonic() > until_s:
                raise
        else:
            return
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


def configured(config: Path) -> Driven:
    """Return what a configuration says of the way to the base. Raises ConfigError."""
    from onboard.config import load_config

    loaded = load_config(config)
    return Driven(loaded.dds, loaded.odometry, loaded.rates.control_hz)


def stop(config: Path, environment: Mapping[str, str] = os.environ) -> bool:
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
    """Stop the base, then say why the service ended; exit code 1 when the stop could not be sent."""
    parser = argparse.ArgumentParser(prog="python -m onboard.halt", description=main.__doc__)
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG)
    options = parser.parse_args()
    heard, failure = False, ""
    try:
        heard = stop(options.config)
    except OnboardError as error:
        failure = str(error)
    _tell(heard, failure)
    if failure:
        sys.exit(EXIT_NOT_SENT)


def _tell(heard: bool, failure: str) -> None:
    import structlog

    from onboard.log import configure

    configure()
    tell_end()
    log = structlog.get_logger()
    if failure:
        log.error("zero_not_sent", error=failure)
    elif heard:
        log.info("zero_sent")
    else:
        log.warning("zero_unheard", note=f"no base was found within {BASE_WAIT_S:g} s")


if __name__ == "__main__":
    main()
