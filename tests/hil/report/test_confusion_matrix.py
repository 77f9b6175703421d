"""The confusion matrix counts every decision once."""

from __future__ import annotations

import re
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hil.replay.other_policy import PolicyComparison
from hil.report.page import render
from hil.report.replay_section import confusion_of
from onboard.policy.contract import ACTIONS
from tests.hil.report.report_rows import timeline

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
