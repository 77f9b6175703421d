"""docs/tutorial.md as its reader follows it: its commands, then the page in a browser, to a patrol that STOP ends."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hil.report.browser import chromium
from tests.onboard.commands.operator.dashboard.test_dashboard_browser import PHONE, Opened
from tests.rigs.machine.processes import ROOT, environment, running
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

BLOCKS = re.findall(r"^```\n(.*?)^```$", (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"), re.M | re.S)
LINES = [line.strip() for block in BLOCKS for line in block.splitlines()]


def words(program: str, command: str) -> list[str]:
    """Return the options of a command as it stands in the tutorial."""
    (line,) = [line for line in LINES if line.startswith(f"{program} {command} ")]
    return shlex.split(line, comments=True)[2:]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_tutorial_leads_to_a_patrol_that_the_page_stops(tmp_path: Path) -> None:
    (tmp_path / "hil").symlink_to(ROOT / "hil")
    domain = free_domain()
    for line in LINES:
        if line.startswith(("mkdir my_robot", "onboard init", "onboard check-config")):
            told = line.replace("onboard ", f"{sys.executable} -m onboard ", 1) if line[0] == "o" else line
            subprocess.run(told, shell=True, check=True, cwd=tmp_path, env=environment(domain), capture_output=True)
    with (
        running("hil", "sim", *words("onboard-hil", "sim"), folder=tmp_path, domain=domain) as sim,
        running("onboard", "run", *words("onboard", "run"), folder=tmp_path, domain=domain) as runtime,
        running("onboard", "dashboard", *words("onboard", "dashboard"), "--port", "0", folder=tmp_path, domain=domain)
        as dashboard,
        chromium() as browser,
    ):  # fmt: skip
        sim.wait_for("simulated robot on map depot")
        runtime.wait_for("ready")
        dashboard.wait_for("dashboard of")
        (address,) = re.findall(r"dashboard of robot: (\S+)", dashboard.err)
        opened = Opened(browser, address, viewport=PHONE, has_touch=True, is_mobile=True)
        page = opened.page
        opened.shows("sentence", "there is no goal, so the robot stands")
        opened.shows("scale", "map frame")
        page.tap("#places summary")
        page.fill("#placename", "dock")
        page.tap("#name")
        opened.shows("placelist", "dock")
        page.tap("#farther")
        page.tap("#farther")
        page.tap("#place")
        box = page.locator("#plane").bounding_box()
        page.touchscreen.tap(box["x"] + box["width"] / 2 - 25, box["y"] + box["height"] / 2 - 130)
        page.tap("#yes")
        until(lambda: opened.page.evaluate("shape.plan.length") > 10)
        until(lambda: opened.text("word") == "reached", 120.0)
        page.fill("#placename", "window")
        page.tap("#name")
        opened.shows("placelist", "window")
        for name in ("dock", "window"):
            page.tap(f"[aria-label='Add {name} to the route']")
        page.check("#loop")
        page.tap("#start")
        page.tap("#yes")
        until(lambda: "lap 2" in opened.text("route"), 180.0)
        page.tap("#pause")
        opened.shows("sentence", "paused")
        page.tap("#resume")
        until(lambda: "paused" not in opened.text("sentence"))
        page.tap("#stop")
        opened.shows("stop", "STOPPED")
        opened.shows("route", "route ended: stop")
        opened.shows("sentence", "the e-stop is pressed")
        opened.shows("clears", "A goal with the token releases it")
        assert opened.problems == []
        with contextlib.suppress(AssertionError):
            dashboard.end()
        assert runtime.end() == 0
        sim.end()
    assert list((tmp_path / "recordings").glob("*.mcap"))
