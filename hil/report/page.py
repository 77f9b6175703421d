"""One session, or its replay, as one self-contained HTML page."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from pathlib import Path

import jinja2
import numpy as np
from markupsafe import Markup

from hil.recordings.recording import session_name
from hil.replay.compare import Comparison
from hil.replay.other_policy import PolicyComparison
from hil.report.charts import histogram
from hil.report.events import lanes_of, moments_of
from hil.report.load import read_timeline, read_timelines
from hil.report.replay_section import verdict_of
from hil.report.session_metrics import QUANTILES, drives_of, endings, headline, times, times_of
from hil.report.tables import began, changes_of, happened, notes_of, record_of, tiles_of
from hil.report.time_charts import over_time
from hil.report.timeline import Timeline
from hil.report.trajectory import path_of, trajectory_of
from hil.report.turn_backs import TurnBack
from onboard.commands.cli import write_text

PAGE = Path(__file__).parent / "page"
ROWS_AT_MOST = 500
"""Rows of a table; the charts show all."""

Outcome = Comparison | PolicyComparison


def write_report(path: Path, recordings: Sequence[Path], outcome: Outcome) -> None:
    """Write the page of a replay. If a file holds several sessions, the page is about the first that differs.

    recordings: files of one session in order (`hil.recordings.locate.takes_of`)
    Raises InputError for an unreadable recording, OnboardError if the page cannot be written; both name the file.
    """
    timeline = _differing(recordings, outcome) if isinstance(outcome, Comparison) else read_timeline(recordings)
    write_page(path, timeline, outcome)


def _differing(recordings: Sequence[Path], outcome: Comparison) -> Timeline:
    """Return the session of the first difference; without a difference, the first session."""
    timelines = read_timelines(recordings)
    if len(timelines) == 1:
        return timelines[0]
    name = next(
        (session.session.name for session in outcome.sessions if outcome.first and session.first is outcome.first), ""
    )
    return next((timeline for timeline in timelines if session_name(timeline.session) == name), timelines[0])


def write_page(
    path: Path, timeline: Timeline, outcome: Outcome | None = None, turned: Sequence[TurnBack] | None = None
) -> None:
    """Write the page of a session. Raises OnboardError if it cannot be written."""
    write_text(path, render(timeline, outcome, turned))


def render(timeline: Timeline, outcome: Outcome | None = None, turned: Sequence[TurnBack] | None = None) -> str:
    """Return the page. outcome: result of a replay, None for a run; turned: where the planned path turned back"""
    path = path_of(timeline)
    moments, drives = moments_of(timeline), drives_of(timeline)
    verdict = None if outcome is None else verdict_of(outcome)
    first = None if verdict is None or verdict.mark is None else _row_of_tick(timeline, verdict.mark.tick)
    distributions = times_of(timeline)
    changes = changes_of(timeline)
    style = (PAGE / "page.css").read_text(encoding="utf-8").strip()
    return _environment().get_template("page.html.j2").render(
        policy=_content_policy(style),
        style=Markup(style),
        timeline=timeline,
        record=record_of(timeline),
        began=began(timeline.session, timeline.began_ns),
        headline=headline(timeline, drives),
        verdict=verdict,
        turned=turned,
        drives=drives if len(drives) > 1 else [],
        endings=endings(drives) if len(drives) > 1 else "",
        tiles=tiles_of(timeline, drives, distributions),
        notes=[*filter(None, [path.note]), *notes_of(timeline)],
        happened=happened(timeline, moments),
        changes=changes[:ROWS_AT_MOST],
        changes_left=max(0, len(changes) - ROWS_AT_MOST),
        distributions=[histogram(distribution) for distribution in distributions],
        stages=[times(name, "", timeline.stage_ms[:, place], None) for place, name in enumerate(timeline.stages)]
        if timeline.took_ms.any() else [],
        quantiles=QUANTILES,
        frame=path.frame,
        over_time=over_time(timeline, lanes_of(timeline), moments, first),
        trajectory=trajectory_of(timeline, path, moments, first),
    )  # fmt: skip


def _row_of_tick(timeline: Timeline, tick: int) -> int:
    """Return the row of a tick by its number, or of the last tick before it."""
    return max(0, int(np.searchsorted(timeline.slot, tick, side="right")) - 1)


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _content_policy(style: str) -> str:
    """Return the content security policy: only this style sheet, no script, nothing fetched."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
