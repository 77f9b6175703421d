"""The page in a real browser: it opens without a network, and clicks and keys go to the moments that they mean."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hil.report.page import render
from onboard.drivers.dds.tick_types import GoalInput
from tests.hil.report.browser import chromium
from tests.hil.report.report_rows import story
from tests.hil.report.test_run_report_page import EVIL, N, compared, eventful, found
from tests.rigs.machine.waiting import until

PATIENCE_MS = 60_000


class Opened:
    """A page in a window. problems: what the browser complained of; asked: what it wanted to load."""

    def __init__(self, browser: Any, file: Path, **window: Any) -> None:
        self.page = browser.new_page(**{"viewport": {"width": 1440, "height": 900}, **window})
        self.page.set_default_timeout(PATIENCE_MS)
        self.problems: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda said: self.problems.append(said.text) if said.type == "error" else None)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())
        self.page.wait_for_selector("body[data-ready]", state="attached")

    @property
    def row(self) -> int:
        return int(self.page.evaluate("focus.row"))

    def text(self, name: str) -> str:
        return str(self.page.text_content(f"#{name}"))

    def click(self, place: str, x: float, y: float = 0.5) -> None:
        """Click at a part of the width and height of something."""
        self.page.locator(place).evaluate("(one) => one.scrollIntoView({ block: 'center' })")
        box = self.page.locator(place).bounding_box()
        self.page.mouse.click(box["x"] + x * box["width"], box["y"] + y * box["height"])


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "page.html"
    path.write_text(render(eventful(), outcome=compared(found(2.0, 1.5, 0.5))), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def opened(browser: Any, file: Path) -> Opened:
    return Opened(browser, file)


def test_it_opens_at_the_first_difference_and_loads_nothing(opened, file):
    assert opened.row == 25
    assert opened.asked == [file.as_uri()]
    assert opened.page.title().startswith("Replay differs, first at tick 25")


def test_keys_go_through_time(opened):
    page = opened.page
    for key, row in [("Home", 0), ("ArrowRight", 1), ("ArrowRight", 2), ("ArrowLeft", 1), ("Shift+ArrowRight", 31),
                     ("Shift+ArrowLeft", 1), ("End", N - 1), ("ArrowRight", N - 1), ("Home", 0), ("n", 5), ("n", 10),
                     ("p", 5)]:  # fmt: skip
        page.keyboard.press(key)
        assert (key, opened.row) == (key, row)
    assert opened.text("now-tick") == "5"
    assert opened.text("bar-time") == "0.17 s"
    assert opened.text("now-state") == "navigating"
    assert page.input_value("#slider") == "5"


def test_a_click_into_a_chart_goes_there(opened):
    for chart in ("#chart-v .u-over", "#chart-lanes .u-over", "#chart-decisions .u-over"):
        opened.page.keyboard.press("Home")
        opened.click(chart, 0.5)
        assert opened.row == pytest.approx(N / 2, abs=1)


def test_a_time_in_a_table_goes_there(opened):
    opened.page.keyboard.press("Home")
    opened.page.click("table.said tr:has-text('e-stop pressed') button.go")
    assert opened.text("now-time") == "1.333 s"
    opened.page.click(".difference button.go")
    assert opened.row in (24, 25)


def test_dragging_zooms_every_chart_and_zero_shows_all_again(opened):
    page, chart = opened.page, opened.page.locator("#chart-v .u-over")
    chart.evaluate("(one) => one.scrollIntoView({ block: 'center' })")
    page.evaluate("() => new Promise((shown) => requestAnimationFrame(() => requestAnimationFrame(shown)))")
    box = chart.bounding_box()
    page.mouse.move(box["x"] + 0.25 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.75 * box["width"], box["y"] + 20, steps=4)
    page.mouse.up()
    ranges = "theCharts.all.map((one) => [one.scales.x.min, one.scales.x.max])"
    for low, high in page.evaluate(ranges):
        assert (low, high) == (pytest.approx(0.5, abs=0.02), pytest.approx(1.5, abs=0.02))
    page.keyboard.press("0")
    for low, high in page.evaluate(ranges):
        assert (low, high) == (0.0, pytest.approx(2.0, abs=1e-6))


def test_play_runs_to_the_end(opened):
    opened.page.keyboard.press("Home")
    opened.page.click("#speed")
    opened.page.keyboard.press("Space")
    opened.page.click("#play")
    until(lambda: opened.row == N - 1, PATIENCE_MS / 1e3)


def test_text_of_a_recording_is_text(opened):
    opened.page.keyboard.press("Home")
    assert opened.text("now-state") == EVIL
    assert EVIL in str(opened.page.text_content("table.said"))
    assert opened.page.locator("img").count() == 0


def test_light_and_dark_and_narrow(browser, file, tmp_path):
    seen = []
    for scheme in ("light", "dark"):
        window = Opened(browser, file, color_scheme=scheme, viewport={"width": 390, "height": 800})
        assert window.page.evaluate("document.documentElement.scrollWidth") <= 390
        picture = tmp_path / f"{scheme}.png"
        window.page.screenshot(path=picture, full_page=True)
        seen.append(picture.read_bytes())
        back = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
        window.page.click("#theme")
        assert window.page.evaluate("getComputedStyle(document.body).backgroundColor") != back
        assert window.problems == []
    assert seen[0] != seen[1]


LABELS = """() => {
    const canvas = document.querySelector("#polar canvas"), texts = {};
    const kept = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const { actualBoundingBoxLeft, actualBoundingBoxRight } = this.measureText(text);
        if (this.canvas === canvas) texts[text] = [x - actualBoundingBoxLeft, x + actualBoundingBoxRight, y - 6, y + 6];
        kept.apply(this, arguments);
    };
    document.querySelector("[data-far='5']").click();
    CanvasRenderingContext2D.prototype.fillText = kept;
    return [texts, canvas.clientWidth, canvas.clientHeight];
}"""


@pytest.mark.parametrize("width", [390, 700, 1300, 1440])
def test_the_scans_bearings_are_within_their_picture(opened, width):
    opened.page.set_viewport_size({"width": width, "height": 900})
    texts, wide, tall = opened.page.evaluate(LABELS)
    opened.page.set_viewport_size({"width": 1440, "height": 900})
    assert {"0°", "90°", "180°", "-90°"} <= set(texts)
    out = [one for one, (left, right, top, low) in texts.items() if left < 0 or right > wide or top < 0 or low > tall]
    assert out == []


@pytest.mark.parametrize("row", [7, 33, N - 1])
def test_a_click_on_the_path_goes_there(opened, row):
    where = """(row) => { document.getElementById("map").scrollIntoView({ block: "center" });
        const map = document.querySelector("#map .front").getBoundingClientRect(), { x, y } = theRun.series;
        return theMap.toScreen(x[row], y[row]).map((one, axis) => one + [map.x, map.y][axis]); }"""
    opened.page.keyboard.press("Home")
    opened.page.mouse.click(*opened.page.evaluate(where, row))
    assert opened.row == pytest.approx(row, abs=1)


LONG_S = 200


@pytest.fixture(scope="module")
def long(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """A session that is too long for its moments to be seen at once: two goals, a stop, three late decisions."""
    ticks = 30 * LONG_S
    acted, action, took = np.zeros(ticks, np.int64), np.full(ticks, -1), np.full(ticks, np.nan)
    due = 1000 * np.arange(1, 6)
    acted[due], action[due[:2]], took[due[:2]] = np.arange(1, 6), 3, 20.0
    where = np.zeros((ticks, 5))
    where[:, 0] = np.linspace(0.0, 20.0, ticks)
    goals = {row: (GoalInput(1, 1, "odom", [x, 0.0, 0.0]),) for row, x in ((30, 9.0), (2500, 20.0))}
    events = dict.fromkeys(goals, ("goal_accepted x_m=1.0 y_m=2.0 frame=odom reason=none", "mission state=x"))
    session = story(
        ticks, acted=acted, action=action, decision_ms=took, odometry=where, goals=goals,
        events=events | {2400: ("mission state=x",)}, episode=np.where(np.arange(ticks) < 2500, 1, 2),
        state=["navigating"] * 2400 + ["stopped: lost"] * 100 + ["navigating"] * (ticks - 2500),
    )  # fmt: skip
    path = tmp_path_factory.mktemp("long") / "page.html"
    path.write_text(render(session), encoding="utf-8")
    return Opened(browser, path)


def test_a_moment_of_a_long_session_shows_what_led_to_it(long):
    page = long.page
    assert page.locator("#whole").is_hidden()
    page.click("table.goals tr:has-text('stopped: lost') button.go >> nth=1")
    assert long.row == 2399
    low, high = page.evaluate("[stretch.from, stretch.to]")
    assert high - low == pytest.approx(30.0)
    assert low < 2399 / 30 - 15 < 2399 / 30 + 5 < high
    assert page.evaluate("theMap.shownRows()") == [pytest.approx(30 * low, abs=1), pytest.approx(30 * high, abs=2)]
    page.click("#whole")
    assert page.evaluate("stretch.to - stretch.from") == pytest.approx(LONG_S)
    assert page.locator("#whole").is_hidden()


NAMED = """async ([low, high]) => {
    const names = [];
    theCharts.zoomTo(low, high);
    await new Promise(requestAnimationFrame);  // uPlot sets its scales a little later
    theMap.marks.label = (context, x, y, text) => names.push(text);
    theMap.draw();
    delete theMap.marks.label;
    return names.filter((one) => one !== "start");
}"""


def test_the_map_names_the_goals_of_what_is_shown(long):
    for span, names in [((0, 200), ["goal 1", "goal 2"]), ((40, 60), ["goal 1"]), ((90, 120), ["goal 2"])]:
        assert long.page.evaluate(NAMED, span) == names
    long.page.keyboard.press("0")


def test_a_stretch_that_is_zoomed_to_stays_and_what_is_looked_at_comes_along(long):
    page = long.page
    page.keyboard.press("Home")
    page.evaluate("theCharts.place.scrollIntoView()")
    box = page.locator("#chart-v .u-over").bounding_box()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.7 * box["width"], box["y"] + 20, steps=4)
    page.mouse.up()
    until(lambda: page.evaluate("stretch.to - stretch.from") < LONG_S / 5, PATIENCE_MS / 1e3)
    low, high = page.evaluate("[stretch.from, stretch.to]")
    assert (low, high) == (pytest.approx(0.6 * LONG_S, abs=2.0), pytest.approx(0.7 * LONG_S, abs=2.0))
    assert long.row == pytest.approx(30 * low, abs=2)
    page.keyboard.press("0")


def test_the_list_can_be_narrowed_and_keys_follow_it(long):
    page = long.page
    for only, rows in [("stops", [2400]), ("deadline", [3000]), ("state", [30, 2400, 2500])]:
        page.click(f"[data-only='{only}']")
        page.keyboard.press("Home")
        found = []
        for _ in range(len(rows) + 1):
            page.keyboard.press("n")
            found.append(long.row)
        assert found == [*rows, rows[-1]]
        assert page.locator("[data-only][aria-pressed=true]").count() == 1
    page.click("[data-only='all']")
    page.keyboard.press("0")
    assert long.problems == []


def test_a_tick_tells_how_old_its_decision_is(long):
    for row, said in [(0, "none yet"), (1003, "0.10 s old"), (4500, "83.33 s old, 2 missed since")]:
        long.page.evaluate(f"focus.set({row}, theRun.ticks)")
        assert long.text("now-decision") == said


def test_nothing_was_complained_of(opened):
    assert opened.problems == []
