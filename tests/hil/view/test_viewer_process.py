"""The output of a view; nothing listens beyond this machine."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest

from hil.view.viewer_process import HOST, Outlet, Viewer, choose_outlet
from onboard.values.errors import DriverError, InputError

FILE = Path("a.rrd")
DISPLAY, WAYLAND, NONE = {"DISPLAY": ":0"}, {"WAYLAND_DISPLAY": "wayland-0"}, {"DISPLAY": ""}

#   --save  --serve  environment  outlet
OUTLETS = [
    (None,  False,   DISPLAY,     Outlet(None, False, True)),
    (None,  False,   WAYLAND,     Outlet(None, False, True)),
    (FILE,  False,   NONE,        Outlet(FILE, False, False)),
    (FILE,  False,   DISPLAY,     Outlet(FILE, False, False)),
    (None,  True,    NONE,        Outlet(None, True, False)),
    (FILE,  True,    DISPLAY,     Outlet(FILE, True, False)),
]  # fmt: skip


@pytest.mark.parametrize(("file", "serve", "environment", "outlet"), OUTLETS)
def test_a_window_opens_only_where_nothing_else_was_asked_for(file, serve, environment, outlet):
    assert choose_outlet(file, serve, environment) == outlet


@pytest.mark.parametrize("environment", [NONE, {}])
def test_without_a_display_one_line_says_how_to_look(environment):
    with pytest.raises(InputError) as raised:
        choose_outlet(None, False, environment)
    assert str(raised.value) == "no display here: give --out FILE.rrd to look later, or --serve to look in a browser"


def listening() -> dict[str, set[str]]:
    """Return the addresses (hexadecimal) at which this machine listens over TCP, by port."""
    found: dict[str, set[str]] = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            address, port = line.split()[1].split(":")
            if line.split()[3] == "0A":
                found.setdefault(str(int(port, 16)), set()).add(address)
    return found


def test_the_browser_viewer_answers_on_loopback_alone_and_ends():
    pytest.importorskip("rerun")
    viewer = Viewer(browser=True)
    try:
        ports = [url.rpartition(":")[2].split("/")[0] for url in (viewer.url, viewer.page.split("?")[0])]
        with urllib.request.urlopen(viewer.page, timeout=10.0) as answer:
            assert answer.status == 200
        assert {address for port in ports for address in listening()[port]} == {"0100007F"}
        assert f"http://{HOST}:" in viewer.page
    finally:
        viewer.end()
    assert not viewer.is_there()
    assert not set(ports) & set(listening())
    viewer.end()


def test_a_viewer_that_does_not_start_is_one_line(monkeypatch, tmp_path):
    broken = tmp_path / "rerun"
    broken.write_text("#!/bin/sh\necho starting >&2\necho no such driver >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr("hil.view.viewer_process._executable", lambda: broken)
    with pytest.raises(DriverError, match="the Rerun viewer did not start: no such driver"):
        Viewer(browser=False)
