"""One session, or its replay, as one page for a person, with nothing outside it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from hil.recordings.recording import session_name
from hil.replay.compare import Compared
from hil.replay.other_policy import Opinion
from hil.report.charts import histogram
from hil.report.event_list import happened
from hil.report.events import lanes_of, moments_of
from hil.report.load import read_stories, read_story
from hil.report.map_view import surroundings_of
from hil.report.page_data import contents_of, millimetres, packed
from hil.report.replay_section import verdict_of
from hil.report.session_metrics import QUANTILES, drives_of, endings, headline, times, times_of
from hil.report.tables import began, changes_of, notes_of, record_of, tiles_of
from hil.report.timeline import Story
from onboard.values.errors import OnboardError

PAGE = Path(__file__).parent / "page"
STYLES = ("vendor/uPlot.min.css", "page.css")
SCRIPTS = ("vendor/uPlot.iife.min.js", "data.js", "lanes.js", "charts.js", "marks.js", "map.js", "polar.js", "main.js")
ROWS_AT_MOST = 500
"""Rows of a table; the time line has them all."""

Outcome = Compared | Opinion


def write_report(
    path: Path, recordings: Sequence[Path], *, outcome: Outcome | None = None, map_name: str | None = None
) -> None:
    """Write the page of one session; of a file that holds several, of that in which its replay first differs.

    recordings: its files, in their order (`replay.sources.takes_of`)
    outcome:    of its replay, None for the page of a run
    map_name:   a map that ships, or a file (`map_files.load_map`), drawn under the path
    Raises InputError for what cannot be read, OnboardError where the page cannot be written; both name the file.
    """
    story = _differing(recordings, outcome) if isinstance(outcome, Compared) else read_story(recordings)
    write_page(path, story, outcome=outcome, map_name=map_name)


def _differing(recordings: Sequence[Path], outcome: Compared) -> Story:
    """Return the session of the first difference, the first one where there is none."""
    stories = read_stories(recordings)
    if len(stories) == 1:
        return stories[0]
    name = next((one.session.name for one in outcome.sessions if outcome.first and one.first is outcome.first), "")
    return next((one for one in stories if session_name(one.session) == name), stories[0])


def write_page(path: Path, story: Story, *, outcome: Outcome | None = None, map_name: str | None = None) -> None:
    """Write the page of a session that was read; as `write_report`. Nothing is written where the map cannot be read."""
    page = render(story, outcome=outcome, map_name=map_name)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise OnboardError(f"{path}: cannot be written: {error.strerror or error}") from error


def render(story: Story, *, outcome: Outcome | None = None, map_name: str | None = None) -> str:
    """Return the page. Raises InputError for a map that cannot be read."""
    around = surroundings_of(story, map_name)
    lanes, moments, drives = lanes_of(story), moments_of(story), drives_of(story)
    verdict = None if outcome is None else verdict_of(outcome)
    first = None if verdict is None or verdict.mark is None else _row_of_tick(story, verdict.mark.tick)
    contents, thinned = contents_of(story, around, lanes, moments, first)
    distributions = times_of(story)
    contents |= {
        "timed": {
            "stages": bool(story.took_ms.any()),
            "decisions": bool(np.isfinite(story.delay_ms).any()),
        },
        "from_s": float(story.t_s[drives[0].first]) if drives else 0.0,
        "replayed": _replayed(outcome),
    }
    changes = changes_of(story)
    styles = [_file(name) for name in STYLES]
    scripts = [_file(name) for name in SCRIPTS]
    return _environment().get_template("page.html.j2").render(
        policy=_content_policy(styles, scripts),
        styles=[Markup(one) for one in styles],
        scripts=[Markup(one) for one in scripts],
        contents=_json(contents),
        story=story,
        record=record_of(story),
        began=began(story.session, story.began_ns),
        headline=headline(story, drives),
        verdict=verdict,
        drives=drives if len(drives) > 1 else [],
        endings=endings(drives) if len(drives) > 1 else "",
        tiles=tiles_of(story, drives, distributions),
        notes=[*around.notes, *notes_of(story), *thinned],
        happened=happened(story, moments),
        changes=changes[:ROWS_AT_MOST],
        changes_left=max(0, len(changes) - ROWS_AT_MOST),
        distributions=[histogram(one) for one in distributions],
        stages=[times(name, "", story.stage_ms[:, place], None) for place, name in enumerate(story.stages)]
        if story.took_ms.any() else [],
        quantiles=QUANTILES,
        around=around,
    )  # fmt: skip


def _row_of_tick(story: Story, tick: int) -> int:
    """Return the row of a tick by its number, or of the last before it."""
    return max(0, int(np.searchsorted(story.slot, tick, side="right")) - 1)


def _replayed(outcome: Outcome | None) -> dict[str, Any] | None:
    """Return the scan that came out again at the first difference."""
    if not isinstance(outcome, Compared) or outcome.first is None or outcome.first.scans is None:
        return None
    scan = outcome.first.scans[1]
    return {"mm": packed(millimetres(np.where(scan.seen, scan.ranges_m, np.float32(np.nan))))}


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _file(name: str) -> str:
    return (PAGE / name).read_text(encoding="utf-8").strip()


def _content_policy(styles: Sequence[str], scripts: Sequence[str]) -> str:
    """Return the policy by which a browser runs these scripts and no other, and fetches nothing at all."""
    allowed = [" ".join(f"'sha256-{_digest(one)}'" for one in texts) for texts in (scripts, styles)]
    return f"default-src 'none'; script-src {allowed[0]}; style-src {allowed[1]}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _json(contents: Mapping[str, Any]) -> Markup:
    """Return values as JSON that cannot end the element that it stands in."""
    text = json.dumps(contents, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
