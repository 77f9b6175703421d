"""docs/tutorial.md as its reader follows it: its commands, then the page in a browser, to a patrol that STOP ends."""

from __future__ import annotations

import contextlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onboard.__main__ import app
from onboard.config.config import load_config
from tests.hil.report.browser import chromium
from tests.onboard.commands.operator.dashboard.test_dashboard_browser import PHONE, Opened
from tests.rigs.machine.processes import ROOT, Command, done, running
from tests.rigs.machine.waiting import until
from tests.rigs.network.loopback import free_domain

TEXT = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```\n(.*?)^```$", TEXT, re.M | re.S)
LINES = [*(line.strip() for block in BLOCKS for line in block.splitlines()), *re.findall("`(onboard[^`\n]+)`", TEXT)]


def words(program: str, command: str) -> list[str]:
    """Return the options of a command as it stands in the tutorial."""
    (line,) = [line for line in LINES if line.startswith(f"{program} {command} ")]
    return shlex.split(line, comments=True)[2:]


def prepared(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Follow the tutorial's part 2 in a folder."""
    (folder / "hil").symlink_to(ROOT / "hil")
    monkeypatch.chdir(folder)
    (made,) = [line for line in LINES if line.startswith("mkdir my_robot")]
    subprocess.run(made, shell=True, check=True)
    for command in ("init", "check-config"):
        ended = CliRunner().invoke(app, [command, *words("onboard", command)])
        assert ended.exit_code == 0, ended.output


def test_its_first_commands_describe_a_robot_in_the_building(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(tmp_path, monkeypatch)
    config = load_config(tmp_path / "my_robot" / "onboard.toml")
    assert (config.policy.model, config.map.file) == ("mapped", tmp_path / "my_robot" / "depot.yaml")
    assert config.map.file.is_file()


@contextlib.contextmanager
def started(folder: Path) -> Iterator[tuple[str, Command, Command]]:
    """Start the tutorial's part 3; yield the page's address, dashboard and runtime."""
    domain = free_domain()
    with (
        running("hil", "sim", *words("onboard-hil", "sim"), folder=folder, domain=domain) as sim,
        running("onboard", "run", *words("onboard", "run"), folder=folder, domain=domain) as runtime,
        running("onboard", "dashboard", *words("onboard", "dashboard"), "--port", "0", folder=folder, domain=domain)
        as dashboard,
    ):  # fmt: skip
        sim.wait_for("simulated robot on map depot")
        runtime.wait_for("ready")
        dashboard.wait_for("dashboard of")
        (address,) = re.findall(r"dashboard of robot: (\S+)", dashboard.err)
        yield address, dashboard, runtime
        sim.end()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_tutorial_leads_to_a_patrol_that_the_page_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared(tmp_path, monkeypatch)
    with started(tmp_path) as (address, dashboard, runtime), chromium() as browser:
        opened = Opened(browser, address, viewport=PHONE, has_touch=True, is_mobile=True)
        page = opened.page
        opened.shows("sentence", "There is no goal, so the robot stands")
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
        with running("onboard", "route", *words("onboard", "route"), folder=tmp_path, domain=runtime.domain) as route:
            until(lambda: "lap 2" in route.out, 180.0)
            route.end()
        for name in ("dock", "window"):
            page.tap(f"[aria-label='Add {name} to the route']")
        page.check("#loop")
        page.tap("#start")
        page.tap("#yes")
        until(lambda: "lap 2" in opened.text("route"), 180.0)
        page.tap("#pause")
        opened.shows("sentence", "Paused")
        page.tap("#resume")
        until(lambda: "paused" not in opened.text("sentence"))
        page.tap("#stop")
        opened.shows("stop", "STOPPED")
        opened.shows("route", "route ended: stop")
        opened.shows("sentence", "The e-stop is pressed")
        opened.shows("clears", "A goal with the token releases it")
        assert opened.problems == []
        assert dashboard.end() == 0
        assert runtime.end() == 0
    newest = max((tmp_path / "recordings").glob("*.mcap"))
    assert done("hil", "report", newest, "--out", "run.html", folder=tmp_path).wait() == 0
