"""The page: valid for any session, self-contained, and safe against recorded text."""

from __future__ import annotations

import base64
import hashlib
import math
import re
import shutil
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from hil.__main__ import app
from hil.recordings.recording import open_recording
from hil.replay.compare import Comparison, FieldCount, Mismatch, SessionCount
from hil.replay.compared_fields import Difference
from hil.replay.other_policy import Moment, PolicyComparison
from hil.replay.player import NO_IMAGES
from hil.replay.tick_selection import MissingTicks
from hil.report.page import render, write_page, write_report
from hil.report.replay_section import confusion_of, verdict_of
from hil.report.timeline import Timeline
from onboard.policy.contract import ACTIONS
from onboard.values.errors import OnboardError
from onboard.values.messages import BINS, GoalRequest, Pose, Scan
from tests.hil.report.report_rows import spread, timeline
from tests.rigs.recorded_drive import record_drive
from tests.rigs.recordings.replay_mutations import join_sessions

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


# ---- `onboard-hil report`


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record_drive(tmp_path_factory.mktemp("drive")).path


def test_a_page_of_a_run(drive, tmp_path):
    done = run(drive, "--out", tmp_path / "run.html")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{tmp_path / 'run.html'}: 0.")
    page = (tmp_path / "run.html").read_text()
    assert "<h1>Stopped after " in page
    assert "1 e-stop" in page


def test_a_file_of_several_sessions_is_a_page_of_each(drive, tmp_path):
    join_sessions(drive, tmp_path / "both.mcap")
    done = run(tmp_path / "both.mcap", "--out", tmp_path / "new" / "pages")
    assert done.exit_code == 0, done.output
    first, second = sorted((tmp_path / "new" / "pages").iterdir())
    assert first.name.startswith("both-robot_")
    assert second.name == "both-second.html"
    assert "this page is about second." in second.read_text()
    assert done.stdout.splitlines() == [f"{page}: {page.stat().st_size / 1e6:.1f} MB" for page in (first, second)]


@pytest.mark.parametrize("place", [0, 1])
def test_of_the_replay_of_several_sessions_the_page_is_about_the_one_that_differs(drive, tmp_path, place):
    join_sessions(drive, tmp_path / "both.mcap")
    with open_recording(tmp_path / "both.mcap") as recording:
        counts = [SessionCount(session, ticks=90) for session in recording.sessions]
    counts[place].first = Mismatch(5, 0.2, Difference("scan", "ranges_m", "[0]", 1.0, 2.0, 1.0))
    outcome = Comparison("both.mcap", counts, counts[place].first, {"ranges_m": FieldCount(1, 1.0, 1)})
    write_report(tmp_path / "x.html", [tmp_path / "both.mcap"], outcome)
    assert f"this page is about {counts[place].session.name}." in (tmp_path / "x.html").read_text()


def test_what_cannot_be_read_keeps_no_other_from_its_page(drive, tmp_path):
    for name in ("a", "c"):
        (tmp_path / f"{name}.mcap").write_bytes(b"none of ours")
    shutil.copy(drive, tmp_path / "b.mcap")
    done = run(tmp_path, "--out", tmp_path / "pages")
    assert [file.name for file in (tmp_path / "pages").iterdir()] == ["b.html"]
    assert done.stderr == f"error: {tmp_path / 'a.mcap'}: not a recording: no MCAP file\n"
    assert str(done.exception) == f"{tmp_path / 'c.mcap'}: not a recording: no MCAP file"


#   arguments                                             said
BAD = [
    (["nothing.mcap", "--out", "x.html"], "nothing.mcap: cannot be read: No such file or directory"),
    (["nothing*.mcap", "--out", "x.html"], "nothing*.mcap: no recording there (*.mcap)"),
    (["DRIVE", "COPY", "--out", "x.html"], "--out x.html: a page covers one session, not 2: name a folder instead"),
    (["DRIVE", "--out", "DRIVE/pages"], "cannot be created: Not a directory"),
]


@pytest.mark.parametrize(("arguments", "expected"), BAD)
def test_a_mistake_is_one_line(drive, tmp_path, monkeypatch, arguments, expected):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "copy").mkdir()
    copy = shutil.copy(drive, tmp_path / "copy" / "other.mcap")
    done = run(*(argument.replace("DRIVE", str(drive)).replace("COPY", str(copy)) for argument in arguments))
    assert isinstance(done.exception, OnboardError)
    assert expected in str(done.exception)
    assert "\n" not in str(done.exception)
    assert not (tmp_path / "x.html").exists()


# ---- The confusion matrix counts every decision once

STAND, LEFT, SLOW, FAST = 3, 4, 10, 24
ANY = st.integers(-1, len(ACTIONS) - 1)


@given(st.dictionaries(st.tuples(ANY, ANY), st.integers(1, 9), min_size=1))
def test_every_decision_is_counted_once(pairs):
    table = confusion_of(pairs)
    assert sum(row.count for row in table.rows) == sum(pairs.values())
    assert sum(cell.count for row in table.rows for cell in row.cells) == sum(pairs.values())
    assert sum(row.same for row in table.rows) == sum(count for (one, other), count in pairs.items() if one == other)
    assert {len(row.cells) for row in table.rows} == {len(table.columns)} == {sum(wide for _, wide in table.speeds)}
    assert all((cell.shade == 0) == (cell.count == 0) for row in table.rows for cell in row.cells)


def test_the_page_has_the_table():
    pairs = Counter({(STAND, STAND): 3, (STAND, FAST): 1, (LEFT, STAND): 2})
    page = render(timeline(3), outcome=PolicyComparison("drive.mcap", "other.onnx", ("drive",), 6, 3, pairs))
    assert "Of the 3 others: 1 faster, 2 as fast but turning otherwise." in page
    table = page[page.index('<table class="confusion">') :].partition("</table>")[0]
    rows = [re.findall(r"<t[hd][^>]*>([^<]*)<", row) for row in table.split("<tr>")[1:]]
    assert rows == [
        ["recorded ↓", "", "", "other policy → [m/s]", "0", "1"],
        ["[m/s, rad/s]", "decisions", "the same", "[rad/s, + is left]", "0", "0"],
        ["0, 0", "4", "75 %", "", "3", "1"],
        ["0, +1", "2", "0 %", "", "2", ""],
    ]
