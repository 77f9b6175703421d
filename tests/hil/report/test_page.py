"""The page: valid for any session, self-contained, and safe against recorded text."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

from hil.replay.compare import Comparison, FieldCount, Mismatch, SessionCount
from hil.replay.compared_fields import Difference
from hil.replay.other_policy import Moment, PolicyComparison
from hil.replay.player import NO_IMAGES
from hil.replay.tick_selection import MissingTicks
from hil.report.page import render, write_page
from hil.report.replay_section import verdict_of
from hil.report.timeline import Timeline
from onboard.values.errors import OnboardError
from onboard.values.messages import BINS, GoalRequest, Pose, Scan
from tests.hil.report.report_rows import spread, timeline

EVIL = "</script><img src=x onerror=alert(1)>\"'&"
N = 60


class Outline(HTMLParser):
    """Whether every tag is closed where it should be; what scripts, attributes and text there are."""

    VOID = frozenset({"meta", "img", "line", "circle", "rect", "path", "link", "br", "input"})

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.names: set[str] = set()
        self.texts: dict[str, list[str]] = {}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Remember an open tag."""
        self.tags.append(tag)
        self.names |= {name for name, _ in attrs}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """Close the last one, which must be of this name."""
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Keep the text of the open tag."""
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)


def eventful() -> Timeline:
    """Everything happens, and every text that a recording has is an attempt to break the page."""
    there = np.ones(N, bool)
    there[20:30] = False
    flags = np.zeros(N, np.int64)
    flags[40:45] = 1
    acted = np.zeros(N, np.int64)
    acted[[12, 22, 32]] = [1, 2, 3]
    decided = np.full(N, np.nan)
    decided[12] = 20.0
    odometry = np.zeros((N, 5))
    odometry[:, 0] = np.linspace(0.0, 3.0, N)
    return timeline(
        N,
        session={"robot": EVIL, "machine": EVIL, "format": EVIL, "onboard_version": EVIL, "configuration": EVIL},
        state=[EVIL] * 5 + ["navigating"] * 50 + ["reached"] * 5,
        episode=np.minimum(np.arange(N) // 5, 1),
        reason=spread(N, "none", zone_stop=(30, 35), **{EVIL: (50, 53)}),
        e_stop=flags,
        cameras={"front": there, EVIL: there},
        acted=acted,
        action=np.where(acted == 1, 3, -1),
        decision_ms=decided,
        delay_ms=decided * 5,
        odometry=odometry,
        faults={32: EVIL},
        resets={10: EVIL},
        events={5: (f"goal_accepted x_m=1.0 y_m=2.0 frame={EVIL} reason=none", "mission state=navigating", EVIL)},
        goals={5: (GoalRequest(1, 1, "odom", Pose(1.0, 2.0, 0.0)), GoalRequest(1, 1, EVIL, Pose(math.nan, 0.0, 0.0)))},
        slot=np.arange(N) + 3 * (np.arange(N) >= 50),
        stages=("inbox", EVIL),
        scans=np.where(np.arange(BINS) % 3 == 0, np.nan, np.float32(2.0)) * np.ones((N, 1), np.float32),
    )


def compared(first: Mismatch | None) -> Comparison:
    count = SessionCount(session=None, ticks=N, decisions=3, same=2, first=first, recorded_s=2.0)  # type: ignore[arg-type]
    fields = {} if first is None else {EVIL: FieldCount(3, 0.5, 1)}
    return Comparison(EVIL, [count], first, fields, took_s=0.1)


def found(recorded: object, replayed: object, by: float) -> Mismatch:
    ranges = np.full(BINS, 2.0, np.float32)
    other = ranges.copy()
    other[80] = 1.5
    scans = (Scan(0, ranges, np.ones(BINS, bool)), Scan(0, other, np.ones(BINS, bool)))
    difference = Difference("scan", EVIL, "[80]", recorded, replayed, by)  # type: ignore[arg-type]
    return Mismatch(25, 0.8, difference, scans)


OPINION = PolicyComparison(EVIL, EVIL, (EVIL,), 3, 2, moments=[Moment(1.5, 12, 0.4, 3, 4), Moment(0.5, 22, 0.7, -1, 4)])
SESSIONS = {
    "eventful": (eventful(), None),
    "idle": (timeline(3), None),
    "one tick": (timeline(1), None),
    "nothing seen": (timeline(5, scans=np.full((5, BINS), np.inf, np.float32)), None),
    "no pose": (timeline(5, odometry=np.full((5, 5), np.nan)), None),
    "identical": (eventful(), compared(None)),
    "differs": (eventful(), compared(found(2.0, 1.5, 0.5))),
    "differs in a word": (eventful(), compared(found(EVIL, None, float("inf")))),
    "opinion": (eventful(), OPINION),
}


@pytest.fixture(scope="module", params=SESSIONS)
def page(request) -> str:
    session, outcome = SESSIONS[request.param]
    return render(session, outcome=outcome)


def test_the_page_is_whole_and_nothing_of_a_recording_becomes_a_part_of_it(page):
    outline = Outline(page)
    assert outline.open == []
    assert "img" not in outline.tags
    assert "onerror" not in outline.names
    assert "script" not in outline.tags
    assert not [word for word in ("None", "nan ", "inf ") if word in "".join(outline.texts.get("td", []))]


def test_nothing_is_loaded_from_anywhere(page):
    outline = Outline(page)
    assert not {"src", "href", "action", "style"} & outline.names
    (style,) = outline.texts["style"]
    assert not [word for word in ("url(", "@import") if word in style]
    assert "url(" not in page.replace('fill="url(#hatch)"', "")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert unescape(policy[1]) == (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    )


def test_what_a_recording_says_is_shown_as_it_says_it():
    text = "".join(Outline(render(eventful())).texts["td"])
    assert EVIL in text


#   outcome                              said in the page
VERDICTS = [
    (compared(None), ["Replay: identical, 60 ticks", "3 decisions, 0 scans fused again, judged bit for bit, 20.0"]),
    (compared(found(2.0, 1.5, 0.5)), ["Replay differs, first at tick 25 (0.800 s) in scan", "2 of 3 actions the same",
                                      "0.5 apart", "1 of its bins differs"]),
    (OPINION, ["would have done the same in 66.7 % of 3 decisions", "1.50"]),
]  # fmt: skip


#   ticks compared, missing, scans fused, not for want of images      headline, weight
IN_PART = [
    (60, 0, 5, 0, "Replay: identical, 60 ticks", "good"),
    (59, 1, 5, 0, "Replay: no difference in what was compared, 59 of 60 ticks", "allowed"),
    (60, 0, 5, 1, "Replay: no difference in what was compared, 60 ticks", "allowed"),
    (3, 653, 5, 0, "Replay: too little compared, 3 of 656 ticks", "bad"),
    (60, 0, 1, 9, "Replay: too little compared, 60 ticks", "bad"),
]


@pytest.mark.parametrize(("ticks", "missing", "fused", "unfused", "headline", "weight"), IN_PART)
def test_a_replay_is_not_called_identical_where_part_of_it_was_not_compared(
    ticks, missing, fused, unfused, headline, weight
):
    count = SessionCount(session=None, ticks=ticks, fused=fused, missing=MissingTicks(missing, 0))  # type: ignore[arg-type]
    count.unfused = Counter({NO_IMAGES: unfused} if unfused else {})
    verdict = verdict_of(Comparison("drive.mcap", [count]))
    assert (verdict.headline, verdict.weight) == (headline, weight)
    assert (f"{unfused} not ({NO_IMAGES})" in verdict.detail) == (unfused > 0)


def test_ten_minutes_stay_below_two_megabytes_with_the_worst_numbers():
    """Of noise no two ticks are alike."""
    ticks, rng = 18_000, np.random.default_rng(1)
    noise = {name: rng.normal(size=(ticks, wide)) for name, wide in (("odometry", 5), ("wanted", 2), ("command", 2))}
    scans = rng.uniform(0.3, 9.0, (ticks, BINS)).astype(np.float32)
    page = render(timeline(ticks, **noise, scans=scans, stage_ms=rng.exponential(1.0, (ticks, 2))))
    assert len(page) < 2e6


def test_a_page_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(OnboardError, match=r"none/page.html: cannot be written: No such file"):
        write_page(tmp_path / "none" / "page.html", timeline(3))
