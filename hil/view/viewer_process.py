"""Output of a view: a file, the viewer's window, or a browser of this machine. Nothing listens beyond loopback.

This module starts the viewer process itself, because the SDK's viewer listens on all addresses.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from onboard.drivers.dds.participant import wait_until
from onboard.values.errors import DriverError, InputError, MissingExtraError

HOST = "127.0.0.1"
PORT, WEB_PORT = 9876, 9090
"""Rerun's default ports; other ports are used if these are taken."""
VIEWER_MEMORY, SERVER_MEMORY = "25%", "512MiB"
"""Memory limits of viewer and server; above them, the oldest data is dropped."""
START_S = 20.0
POLL_S = 0.1
END_S = 3.0


@dataclass(frozen=True, slots=True)
class Outlet:
    """Output of a view.

    file:    .rrd file to write or None
    browser: serve a viewer for the browser
    window:  open the viewer's window
    """

    file: Path | None
    browser: bool
    window: bool


def choose_outlet(file: Path | None, browser: bool, environment: Mapping[str, str] = os.environ) -> Outlet:
    """Return the output: the window, unless a file or the browser is asked for.

    Raises InputError if a window is needed and there is no display.
    """
    if file is not None or browser:
        return Outlet(file, browser, window=False)
    if not has_display(environment):
        raise InputError("no display here: give --out FILE.rrd to look later, or --serve to look in a browser")
    return Outlet(None, browser=False, window=True)


def has_display(environment: Mapping[str, str] = os.environ) -> bool:
    """Return whether a window can be opened here."""
    return bool(environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY"))


class Viewer:
    """The viewer's process. url: address for data; page: address for a browser, "" with a window."""

    def __init__(self, browser: bool) -> None:
        """Start the viewer and wait until it accepts data. Raises DriverError if it does not start."""
        port = _free_port(PORT)
        ports = [port]
        command = [str(_executable()), "--bind", HOST, "--port", str(port), "--server-memory-limit", SERVER_MEMORY]
        self.url, self.page = f"rerun+http://{HOST}:{port}/proxy", ""
        if browser:
            web_port = _free_port(WEB_PORT)
            ports.append(web_port)
            command += ["--serve-web", "--web-viewer-port", str(web_port)]
            self.page = f"http://{HOST}:{web_port}/?url={quote(self.url, safe='')}"
        else:
            command += ["--memory-limit", VIEWER_MEMORY, "--expect-data-soon"]
        self._words = tempfile.TemporaryFile()  # noqa: SIM115  # open while the viewer runs
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._words
        )
        wait_until(lambda: not self.is_there() or all(map(_answers, ports)), START_S)
        if not (self.is_there() and all(map(_answers, ports))):
            raise DriverError(f"the Rerun viewer did not start: {self.end() or 'it does not answer'}")

    def is_there(self) -> bool:
        """Return whether the viewer still runs."""
        return self._process.poll() is None

    def end(self) -> str:
        """End the viewer and return its last line of output. Safe to call twice."""
        self._process.terminate()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._words.seek(0)
        lines = self._words.read().decode(errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "")


def _executable() -> Path:
    """Return the viewer's executable, a part of the SDK."""
    found = importlib.util.find_spec("rerun_cli")
    if found is None or found.origin is None:
        raise MissingExtraError("the Rerun viewer", "view")
    return Path(found.origin).with_name("rerun")


def _free_port(wanted: int) -> int:
    """Return the wanted port of loopback if it is free, else another free port."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ignore connections in TIME_WAIT
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise DriverError(f"no port of {HOST} is free")


def _answers(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), POLL_S).close()
    except OSError:
        return False
    return True
