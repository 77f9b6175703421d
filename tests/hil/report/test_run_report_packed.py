"""Numbers for the page come out of it as they went in; what is left out is said, and tells nothing."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from hil.report.page_data import BLIND, KINDS, NOTHING_SEEN, kept_scans, kept_ticks, millimetres, packed, thinned
from tests.hil.report.report_rows import spread, story


def unpacked(value: dict[str, str]) -> np.ndarray:
    """Do what the page does (`data.js`)."""
    kind = np.dtype("<" + value["kind"])
    sorted_bytes = np.frombuffer(zlib.decompress(base64.b64decode(value["data"])), np.uint8)
    return np.ascontiguousarray(sorted_bytes.reshape(kind.itemsize, -1).T).view(kind).ravel()


@given(st.sampled_from(sorted(KINDS)).flatmap(lambda name: arrays.arrays(name, st.integers(0, 40))))
def test_what_is_packed_comes_out_as_it_went_in(values):
    assert unpacked(packed(values)).tobytes() == values.astype(values.dtype.newbyteorder("<")).tobytes()


#   range [m]        as the page has it
RANGES = [
    (0.0, 0),
    (1.8324, 1832),
    (1.8326, 1833),
    (65.533, 65533),
    (70.0, 65533),
    (-1.0, 0),
    (np.inf, NOTHING_SEEN),
    (np.nan, BLIND),
]


@pytest.mark.parametrize(("range_m", "mm"), RANGES)
def test_ranges_are_millimetres(range_m, mm):
    assert millimetres(np.array([range_m], np.float32)).tolist() == [mm]


def test_ten_minutes_are_drawn_tick_by_tick():
    session = story(18_000)
    assert kept_ticks(session, []).tolist() == list(range(18_000))
    scans = kept_scans(np.arange(18_000), [7])
    assert len(scans) == 6_001
    assert thinned(session, np.arange(18_000), scans) == [
        "6,001 of 18,000 scans are in this page, 3.0 ticks apart on average; the scan view says whose it shows."
    ]


LONG, TICKS, SCANS = 205, 100, 40


@settings(deadline=None)
@given(
    telling=st.lists(st.integers(0, LONG - 1), max_size=5),
    slow=st.integers(0, LONG - 1),
    stretch=st.tuples(st.integers(1, LONG - 2), st.integers(1, 20)),
)
def test_thinning_keeps_whatever_tells_something(telling, slow, stretch):
    stage_ms = np.ones((LONG, 2))
    stage_ms[slow] = 90.0
    first, end = stretch[0], min(stretch[0] + stretch[1], LONG - 1)
    session = story(LONG, stage_ms=stage_ms, reason=spread(LONG, "none", zone_stop=(first, end)))
    kept = set(kept_ticks(session, telling, TICKS).tolist())
    assert {0, LONG - 1, slow, first, end, *telling} <= kept
    assert len(kept) <= 2 * (LONG // 3 + 1) + len(telling) + 4
    scans = kept_scans(np.array(sorted(kept)), telling, SCANS)
    assert len(scans) <= SCANS + len(telling) + 1
    assert set(telling) <= set(np.array(sorted(kept))[scans].tolist())
    assert len(thinned(session, np.array(sorted(kept)), scans)) == 2


def test_no_decision_is_thinned_away():
    decided = np.full(LONG, np.nan)
    decided[1::10] = 20.0
    kept = kept_ticks(story(LONG, decision_ms=decided, stage_ms=np.zeros((LONG, 2))), [], TICKS)
    assert set(range(1, LONG, 10)) <= set(kept.tolist())
    assert len(kept) < LONG / 2
