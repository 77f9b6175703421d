"""The page in a real browser before a real runtime: phone, laptop, light, dark, keyboard; it drives and stops."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from onboard.values.messages import STOP
from tests.hil.report.browser import chromium
from tests.rigs.machine.waiting import until
from tests.rigs.network.dashboard_rig import TOKEN, LiveRobot, Server, in_building, live_robot, lonely_config, serving

PATIENCE_MS = 60_000
PHONE, LAPTOP = {"width": 390, "height": 844}, {"width": 1440, "height": 900}
SMALL, ON_ITS_SIDE = {"width": 320, "height": 568}, {"width": 844, "height": 390}
PICTURES = os.environ.get("PICTURES")
"""A folder to keep the screenshots in."""
LEAST_CONTRAST = 4.5
"""WCAG 2 AA for text."""

CONTRASTS = """() => {
  const shine = (text) => {
    const [r, g, b] = text.match(/[\\d.]+/g).map(Number).map((v) => v / 255)
      .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const found = getComputedStyle(e).backgroundColor;
      if (!/, 0\\)$/.test(found) && found !== "transparent") return found;
    }
  };
  const least = {};
  for (const e of document.querySelectorAll("h1, h2, p, dt, dd, button, span, td, summary, a, figcaption")) {
    if (!e.textContent.trim() || !e.offsetParent && getComputedStyle(e).position !== "fixed" || e.disabled) continue;
    const [a, b] = [shine(getComputedStyle(e).color), shine(ground(e))].sort((x, y) => y - x);
    const key = e.tagName + (e.id ? "#" + e.id : "") + (e.className ? "." + e.className : "");
    least[key] = Math.min(least[key] ?? 99, (a + 0.05) / (b + 0.05));
  }
  return least;
}"""


class Opened:
    """A page in a window. problems: what the browser complained of."""

    def __init__(self, browser: Any, address: str, **window: Any) -> None:
        self.page = browser.new_page(**{"viewport": LAPTOP, **window})
        self.page.set_default_timeout(PATIENCE_MS)
        self.problems: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(address)

    def text(self, name: str) -> str:
        return str(self.page.text_content(f"#{name}"))

    def shows(self, name: str, text: str) -> None:
        until(lambda: text in self.text(name))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def robot() -> Iterator[LiveRobot]:
    with live_robot() as started:
        del started.bench.images["rear"]
        yield started


@pytest.fixture(scope="module")
def server(robot: LiveRobot, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(robot.config, tmp_path_factory.mktemp("recordings")) as started:
        assert started.feed.heard(20.0)
        yield started


def with_token(server: Server) -> str:
    return f"{server.address}#token={TOKEN}"


def test_a_tap_and_a_confirmation_move_the_robot_and_stop_stops_it(
    browser: Any, server: Server, robot: LiveRobot
) -> None:
    opened = Opened(browser, with_token(server), viewport=PHONE, has_touch=True, is_mobile=True)
    opened.shows("word", "idle")
    assert "token" not in opened.page.url, "the address can be shown around"
    opened.page.tap("#farther")
    opened.page.tap("#place")
    box = opened.page.locator("#plane").bounding_box()
    opened.page.touchscreen.tap(box["x"] + box["width"] / 2 + 120, box["y"] + box["height"] / 2)
    assert robot.command == STOP, "not without a confirmation"
    assert opened.text("question").startswith("Drive to x ")
    opened.page.tap("#yes")
    opened.shows("said", "goal accepted")
    until(lambda: robot.moves)
    opened.shows("word", "navigating")
    opened.shows("headline", "Drives, ")
    robot.bench.stuck = True
    opened.shows("headline", "Stands, ")
    robot.bench.stuck = False
    opened.shows("headline", "Drives, ")
    opened.page.tap("#stop")
    opened.shows("headline", "Stopped")
    opened.shows("stop", "STOPPED")
    until(lambda: robot.command == STOP)
    opened.shows("sentence", "The e-stop is pressed")
    assert opened.text("codes") == "e_stop"
    assert "A goal with the token releases it" in opened.text("clears")
    opened.page.tap("#resume")
    opened.shows("said", "resume: sent")
    assert robot.command == STOP, "latched"
    assert opened.problems == []
    opened.page.close()


def test_the_keyboard_alone_does_it_too(browser: Any, server: Server, robot: LiveRobot) -> None:
    opened = Opened(browser, with_token(server))
    opened.shows("link", "last order") if server.robot.orders.newest else opened.shows("word", "idle")
    opened.page.focus("#plane")
    for _ in range(8):
        opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("Enter")
    assert opened.page.evaluate("document.activeElement.id") == "yes"
    opened.page.keyboard.press("Escape")
    assert opened.page.is_hidden("#ask")
    opened.page.focus("#plane")
    for _ in range(8):
        opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("Enter")
    opened.page.keyboard.press("Enter")
    opened.shows("said", "goal accepted")
    until(lambda: robot.moves)
    opened.page.keyboard.press("Escape")
    opened.shows("stop", "STOPPED")
    until(lambda: robot.command == STOP)
    opened.page.focus("#plane")
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("Enter")
    opened.shows("question", "This releases the stop.")
    server.stop.press("another person")
    until(lambda: opened.page.is_hidden("#ask"))
    opened.shows("said", "STOP was pressed while the page asked")
    assert robot.command == STOP
    opened.page.close()


def test_a_forged_token_gets_a_line_and_the_robot_stays(browser: Any, server: Server, robot: LiveRobot) -> None:
    opened = Opened(browser, f"{server.address}#token=forged-token-forged")
    opened.shows("robot", robot.config.robot.name)
    server.stop.press()
    until(lambda: robot.command == STOP)
    opened.page.wait_for_selector("#resume:not([disabled])")
    opened.page.click("#resume")
    opened.shows("said", "token is missing or wrong")
    assert robot.command == STOP
    opened.page.close()


def test_without_the_token_it_says_where_to_find_it(browser: Any, server: Server) -> None:
    opened = Opened(browser, server.address)
    until(lambda: opened.page.is_visible("#notoken"))
    assert opened.page.is_hidden("#control")
    opened.page.close()


def test_the_stop_works_with_a_malformed_token_and_says_when_nobody_answers(
    browser: Any, server: Server, robot: LiveRobot
) -> None:
    opened = Opened(browser, f"{server.address}#token=100%-safe")
    opened.shows("robot", robot.config.robot.name)
    opened.page.route("**/api/stop", lambda _: None)  # the request goes out, and no answer comes
    opened.page.click("#stop")
    opened.shows("said", "STOP NOT SENT")
    opened.page.unroute("**/api/stop")
    opened.shows("stop", "STOPPED")
    assert server.stop.pressed
    opened.page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "size"), [("phone", PHONE), ("laptop", LAPTOP)])
def test_it_fits_and_can_be_read(
    browser: Any, server: Server, robot: LiveRobot, scheme: str, name: str, size: dict[str, int], tmp_path: Path
) -> None:
    robot.bench.wall("front", 1500)
    robot.localise(robot.bench.pose)
    server.order("goal", {"x": 30.0, "y": 3.0})
    opened = Opened(browser, with_token(server), color_scheme=scheme, viewport=size)
    opened.shows("word", "")
    opened.page.wait_for_selector("#charts canvas")
    until(lambda: any("map.png" in url for url in opened.asked))
    until(lambda: opened.text("scale").startswith("map frame"))
    opened.page.click("#parts summary")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    low = {key: value for key, value in opened.page.evaluate(CONTRASTS).items() if value < LEAST_CONTRAST}
    assert low == {}
    small = (
        """() => [...document.querySelectorAll("button")].filter((b) => b.offsetParent && b.offsetHeight < 44).length"""
    )
    assert opened.page.evaluate(small) == 0, "a finger needs 44 pixels"
    assert all(url.startswith(server.address) for url in opened.asked)
    opened.page.evaluate("scrollTo(0, 0)")
    for _ in range(3):
        opened.page.click("#farther")
    opened.page.screenshot(path=Path(PICTURES or tmp_path) / f"{name}-{scheme}.png")
    assert opened.problems == []
    robot.bench.wall("front", 0)
    opened.page.close()


def drag(opened: Opened, *places: tuple[float, float]) -> None:
    """Drag over the plane, in pixels from its middle."""
    box = opened.page.locator("#plane").bounding_box()
    at = [(box["x"] + box["width"] / 2 + x, box["y"] + box["height"] / 2 - y) for x, y in places]
    opened.page.mouse.move(*at[0])
    opened.page.mouse.down()
    for one in at[1:]:
        opened.page.mouse.move(*one, steps=4)
    opened.page.mouse.up()


def test_pose_place_route_and_brush_of_a_building(browser: Any, robot: LiveRobot, tmp_path: Path) -> None:
    with serving(in_building(robot.config, tmp_path), tmp_path) as server:
        assert server.feed.heard(20.0)
        server.order("cancel")
        opened = Opened(browser, with_token(server))
        opened.page.click("#mapping summary")
        opened.page.click("#setpose")
        until(lambda: opened.text("scale").startswith("map frame"))
        drag(opened, (30.0, -40.0), (30.0, 40.0))
        assert opened.text("question").startswith("The robot stands at x")
        assert "heading 90°" in opened.text("question")
        opened.page.click("#yes")
        opened.shows("said", "pose taken")
        opened.page.click("#forbid")
        drag(opened, (-60.0, 60.0), (60.0, 60.0), (60.0, 90.0))
        assert not (tmp_path / "keep_out.yaml").exists(), "not without a confirmation"
        opened.page.click("#undo")
        drag(opened, (-60.0, 60.0), (60.0, 60.0), (60.0, 90.0))
        opened.page.click("#save")
        assert "Save 1 strokes" in opened.text("question")
        opened.page.click("#yes")
        opened.shows("said", "m² forbidden")
        opened.shows("effect", "not in force")
        until(lambda: any("keep_out.png" in url for url in opened.asked))
        opened.page.click("#forbid")
        opened.page.click("#places summary")
        opened.page.fill("#placename", "two words")
        opened.page.keyboard.press("Enter")
        opened.shows("said", "'two words' is not a name for a place")
        opened.page.fill("#placename", "desk")
        opened.page.click("#name")
        opened.page.wait_for_selector("text=desk")
        assert "[desk]" in (tmp_path / "places.toml").read_text()
        for name in ("hall", "dock"):
            opened.page.click(f"[aria-label='Add {name} to the route']")
        opened.page.click("#start")
        assert opened.text("question") == "Drive to hall, dock?"
        assert robot.command == STOP, "not without a confirmation"
        opened.page.click("#yes")
        opened.shows("route", "On a route, lap 1: [hall] → dock")
        until(lambda: robot.moves)
        opened.page.click("#pause")
        until(lambda: robot.command == STOP)
        opened.page.click("#resume")
        until(lambda: robot.moves)
        if PICTURES:
            opened.page.screenshot(path=Path(PICTURES) / "building.png")
        opened.page.click("#stop")
        until(lambda: robot.command == STOP)
        opened.shows("route", "route ended: stop")
        opened.page.click("#reasons summary")
        opened.page.wait_for_selector("#table >> text=e_stop")
        assert opened.problems == []
        opened.page.close()


def test_a_page_left_open_over_a_restart_goes_on(browser: Any, robot: LiveRobot, tmp_path: Path) -> None:
    with serving(robot.config, tmp_path) as first:
        opened = Opened(browser, with_token(first))
        opened.shows("robot", robot.config.robot.name)
        port = first.port
    opened.shows("word", "no connection")
    with serving(robot.config, tmp_path, port=port):
        until(lambda: opened.text("word") != "no connection")
    opened.page.close()


def test_a_recording_is_listed_and_kept(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "robot_1.mcap").touch()
    with serving(lonely_config(), tmp_path) as server:
        opened = Opened(browser, with_token(server))
        opened.shows("sentence", "No runtime found")
        opened.page.click("#files summary")
        opened.shows("counted", "1 recording")
        opened.page.click("#list button")
        until(lambda: opened.page.text_content("#list button") == "kept")
        assert (tmp_path / "robot_1.mcap.keep").exists()
        opened.page.close()


@pytest.mark.parametrize("size", [SMALL, ON_ITS_SIDE], ids=["small", "on its side"])
def test_plane_stop_and_question_fit_a_phone(browser: Any, server: Server, size: dict[str, int]) -> None:
    opened = Opened(browser, with_token(server), viewport=size, has_touch=True, is_mobile=True)
    opened.shows("robot", server.robot.config.robot.name)
    opened.page.evaluate("ask('goal', [1, 2, null])")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    plane, ask, stop, yes = (opened.page.locator(name).bounding_box() for name in ("#plane", "#ask", "#stop", "#yes"))
    assert plane["y"] + 120 <= stop["y"], "some of the plane is seen above the stop"
    assert 0 <= ask["y"] <= yes["y"] <= yes["y"] + yes["height"] <= stop["y"]
    assert stop["y"] + stop["height"] <= size["height"]
    opened.page.close()


def test_without_a_runtime_and_control_it_says_so(browser: Any, tmp_path: Path) -> None:
    with serving(lonely_config(), tmp_path, token=None) as server:
        opened = Opened(browser, server.address, viewport=PHONE)
        opened.shows("sentence", "No runtime found")
        assert opened.page.is_hidden("#control")
        assert opened.page.is_visible("#readonly")
        opened.page.click("#stop")
        opened.shows("said", "Stop is pressed, but no runtime was found")
        opened.page.click("#files summary")
        opened.shows("counted", "No recording yet")
        opened.page.close()
