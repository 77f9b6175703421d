"""One session, or its replay, as one page for a person, with nothing outside it."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Sequence
from pathlib import Path

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
from hil.report.replay_section import verdict_of
from hil.report.session_metrics import QUANTILES, drives_of, endings, headline, times, times_of
from hil.report.tables import began, changes_of, notes_of, record_of, tiles_of
from hil.report.time_charts import over_time
from hil.report.timeline import Story, shown
from hil.report.trajectory import trajectory_of
from onboard.commands.cli import write_text

PAGE = Path(__file__).parent / "page"
ROWS_AT_MOST = 500
"""Rows of a table; the charts have them all."""

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
    write_text(path, render(story, outcome=outcome, map_name=map_name))


def render(story: Story, *, outcome: Outcome | None = None, map_name: str | None = None) -> str:
    """Return the page. Raises InputError for a map that cannot be read."""
    around = surroundings_of(story, map_name)
    moments, drives = moments_of(story), drives_of(story)
    verdict = None if outcome is None else verdict_of(outcome)
    first = None if verdict is None or verdict.mark is None else _row_of_tick(story, verdict.mark.tick)
    distributions = times_of(story)
    changes = changes_of(story)
    style = (PAGE / "page.css").read_text(encoding="utf-8").strip()
    return _environment().get_template("page.html.j2").render(
        policy=_content_policy(style),
        style=Markup(style),
        story=story,
        record=record_of(story),
        began=began(story.session, story.began_ns),
        headline=headline(story, drives),
        verdict=verdict,
        drives=drives if len(drives) > 1 else [],
        endings=endings(drives) if len(drives) > 1 else "",
        tiles=tiles_of(story, drives, distributions),
        notes=[*around.notes, *notes_of(story)],
        happened=happened(story, moments),
        changes=changes[:ROWS_AT_MOST],
        changes_left=max(0, len(changes) - ROWS_AT_MOST),
        distributions=[histogram(one) for one in distributions],
        stages=[times(name, "", story.stage_ms[:, place], None) for place, name in enumerate(story.stages)]
        if story.took_ms.any() else [],
        quantiles=QUANTILES,
        around=around,
        over_time=over_time(story, lanes_of(story), moments, first),
        trajectory=trajectory_of(story, around, moments, first),
        viewer=viewer_command(story, map_name),
    )  # fmt: skip


def _row_of_tick(story: Story, tick: int) -> int:
    """Return the row of a tick by its number, or of the last before it."""
    return max(0, int(np.searchsorted(story.slot, tick, side="right")) - 1)


def viewer_command(story: Story, map_name: str | None) -> str:
    """Return the command that opens the viewer at this recording; at its first file, where it has several."""
    words = ["onboard-hil", "view", shown(story.files[0].name)]
    return shlex.join(words + ([] if map_name is None else ["--map", shown(map_name), "--bare"]))


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(PAGE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _content_policy(style: str) -> str:
    """Return the policy by which a browser takes this style, runs no script, and fetches nothing at all."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode("ascii")
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
