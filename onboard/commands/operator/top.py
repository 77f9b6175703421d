"""`onboard top`: the figures of a running robot, live."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from onboard.commands.cli import ConfigOption
from onboard.commands.operator.robot import running_robot
from onboard.config.config import load_config
from onboard.values.errors import InputError, MissingExtraError


def top(config: ConfigOption = None) -> None:
    """Show a running robot live: rates, lateness, time of each stage, ages of the inputs, misses, reasons."""
    loaded = load_config(config)
    if find_spec("textual") is None:
        raise MissingExtraError("textual", "top")
    if not (sys.stdin.isatty() and sys.stderr.isatty()):  # textual writes to standard error
        raise InputError("onboard top needs a terminal; `onboard status --json -` prints the same figures once")
    from onboard.commands.operator.top_screen import Top

    with running_robot(loaded) as robot:
        Top(robot, 1e3 / loaded.rates.control_hz).run()
