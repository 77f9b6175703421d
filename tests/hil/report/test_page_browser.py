"""The page in a real browser: no network, no script, everything visible, a list with filters."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hil.report import events
from hil.report.page import render
from tests.hil.report.browser import chromium
from tests.hil.report.report_rows import timeline
from tests.hil.report.test_page import compared, eventful, found

PATIENCE_MS = 60_000
KINDS = (
    events.GOAL, events.STATE, events.RESET, events.RECOVERY, events.STOPPED, events.SENSOR, events.MISS, events.FAULT,
    events.GAP, events.NOTE,
)  # fmt: skip


class Opened:
    """A page in a window. problems: what the browser complained of; asked: what it wanted to load."""

    def __init__(self, browser: Any, file: Path, **window: Any) -> None:
        self.page = browser.new_page(**{"viewport": {"width": 1440, "height": 900}, **window})
        self.page.set_default_timeout(PATIENCE_MS)
        self.problems: list[str] = []
        self.asked: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())


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


def test_it_opens_without_a_complaint_and_loads_nothing(opened, file):
    assert opened.asked == [file.as_uri()]
    assert opened.page.title().startswith("Replay differs, first at tick 25")
    assert opened.problems == []


def test_no_script_runs_in_it(opened):
    """The page brings none, and its policy lets none in."""
    assert opened.page.locator("script").count() == 0
    ran = """() => { const one = document.createElement("script");
        one.textContent = "document.title = 'ran'"; document.body.append(one); one.remove(); return document.title; }"""
    assert opened.page.evaluate(ran).startswith("Replay differs")
    assert any("Content Security Policy" in message for message in opened.problems)
    opened.problems.clear()


def test_light_and_dark_and_narrow(browser, file, tmp_path):
    seen = []
    for scheme in ("light", "dark"):
        window = Opened(browser, file, color_scheme=scheme, viewport={"width": 390, "height": 800})
        assert window.page.evaluate("document.documentElement.scrollWidth") <= 390
        picture = tmp_path / f"{scheme}.png"
        window.page.screenshot(path=picture, full_page=True)
        seen.append(picture.read_bytes())
        assert window.problems == []
    assert seen[0] != seen[1]


SHOWN = """() => [...document.querySelectorAll(".said tr")].filter((one) => one.checkVisibility())
    .map((one) => one.dataset.kind)"""


def test_the_list_can_be_narrowed_by_pointer_and_keys(browser, tmp_path):
    """Every kind of moment has a rule in the style."""
    moments = [
        events.TickEvent(row, kind, events.WARNING if kind == events.MISS else events.BAD, kind)
        for row, kind in enumerate(KINDS)
    ]
    session = timeline(len(KINDS) + 1)
    path = tmp_path / "page.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hil.report.page.moments_of", lambda timeline: moments)
        path.write_text(render(session), encoding="utf-8")
    page = Opened(browser, path).page
    assert page.evaluate(SHOWN) == list(KINDS)
    for kind in KINDS:
        page.check(f"[name=only][value={kind}]")
        assert page.evaluate(SHOWN) == [kind]
    page.check("[name=only][value=stops]")
    assert page.evaluate(SHOWN) == [events.STATE, events.STOPPED]
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(SHOWN) == list(KINDS)
