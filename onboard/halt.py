"""Zero to the base after the runtime has ended, however it ended: the unit's `ExecStopPost`, a process of its own.

It has nothing from the runtime but one small file, and needs neither cameras, engine nor a tick. A base that has no
time-out of its own would otherwise go on with the last command of a runtime that was killed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import structlog
from pydantic import ValidationError

from onboard.config import DEFAULT_ROBOT, DdsSection, OdometrySection, load_config
from onboard.drivers.dds import DdsDrive
from onboard.drivers.serial_base import SerialBase
from onboard.drivers.wire import Wire, wait_until
from onboard.errors import DriverError, OnboardError
from onboard.log import configure
from onboard.service import DRIVEN_FILE, RUNTIME_DIRECTORY

log = structlog.get_logger()

BASE_WAIT_S = 2.0
"""Patience for the base to be found, or for a serial port that the runtime still holds."""

EXIT_NOT_SENT = 1


@dataclass(frozen=True, slots=True)
class Driven:
    """What the robot is driven through."""

    dds: DdsSection
    odometry: OdometrySection


def halt(driven: Driven) -> bool:
    """Send zero; return whether a base was there to hear it. Raises OnboardError when it could not be sent."""
    if driven.odometry.input == "serial":
        _halt_serial(driven.odometry.serial_port)
        return True
    with contextlib.closing(Wire(driven.dds)) as wire:
        drive = DdsDrive(wire)
        heard = wire.writer("cmd_vel").wait_for_reader(BASE_WAIT_S)
        drive.close()
        return heard


def _halt_serial(port: str) -> None:
    failure: list[OnboardError] = []

    def sent() -> bool:
        try:
            SerialBase(port).close()  # which sends the stop
        except DriverError as error:
            failure.append(error)
            return False
        return True

    if not wait_until(sent, BASE_WAIT_S):
        raise failure[-1]


def driven_by(config: Path, environment: Mapping[str, str] = os.environ) -> Driven:
    """Return what the runtime that ended noted of its way to the base; without a note, what the configuration says.

    Raises ConfigError.
    """
    directory = environment.get(RUNTIME_DIRECTORY, "")
    note = Path(directory) / DRIVEN_FILE
    if directory and note.exists():
        try:
            told = json.loads(note.read_text(encoding="utf-8"))
            return Driven(DdsSection.model_validate(told["dds"]), OdometrySection.model_validate(told["odometry"]))
        except (OSError, ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
            log.warning("note_not_read", file=str(note), error=type(error).__name__)
    loaded = load_config(config)
    return Driven(loaded.dds, loaded.odometry)


def tell_end(environment: Mapping[str, str] = os.environ) -> None:
    """Log why the service ended, as systemd says: in the journal of a robot that is the first line to look for."""
    result = environment.get("SERVICE_RESULT", "")
    if not result:
        return
    how = {"result": result, "code": environment.get("EXIT_CODE", ""), "status": environment.get("EXIT_STATUS", "")}
    if result == "success":
        log.info("service_ended", **how)
    else:
        log.error("service_failed", **how)


def main() -> None:
    """Say why the service ended, then stop the base; exit code 1 when the stop could not be sent."""
    parser = argparse.ArgumentParser(prog="python -m onboard.halt", description=main.__doc__)
    parser.add_argument("--config", type=Path, default=DEFAULT_ROBOT / "onboard.toml")
    options = parser.parse_args()
    configure()
    tell_end()
    try:
        heard = halt(driven_by(options.config))
    except OnboardError as error:
        log.error("zero_not_sent", error=str(error))
        sys.exit(EXIT_NOT_SENT)
    if heard:
        log.info("zero_sent")
    else:
        log.warning("zero_unheard", note=f"no base was found within {BASE_WAIT_S:g} s")


if __name__ == "__main__":
    main()
