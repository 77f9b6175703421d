"""Damaged bytes: a valid seed with a few cuts, flips, inserts and repeats, as hypothesis draws and shrinks them."""

from __future__ import annotations

from hypothesis import strategies as st

MOST_CHANGES = 6
LONGEST_INSERT = 24
TELLING = (b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80", b"\x7f", b"\n", b'"', b"{", b"[" * 40, b"nan")
"""Bytes that parsers trip over: ends of number ranges, and what opens something."""


def _changed(content: bytes, change: tuple[str, float, float, bytes]) -> bytes:
    kind, where, other, new = change
    at = int(where * len(content))
    end = at + int(other * (len(content) - at))
    match kind:
        case "cut":
            return content[:at]
        case "drop":
            return content[:at] + content[end:]
        case "repeat":
            return content[:end] + content[at:end] + content[end:]
        case "insert":
            return content[:at] + new + content[at:]
        case _:
            return content[:at] + new + content[at + len(new) :]


FRACTION = st.floats(0.0, 1.0, exclude_max=True)
NEW = st.one_of(st.sampled_from(TELLING), st.binary(min_size=1, max_size=LONGEST_INSERT))
CHANGE = st.tuples(st.sampled_from(["cut", "drop", "repeat", "insert", "replace"]), FRACTION, FRACTION, NEW)


def damaged(*seeds: bytes) -> st.SearchStrategy[bytes]:
    """Return what draws one of the seeds, damaged, or, now and then, bytes that never were anything."""

    def applied(drawn: tuple[bytes, list[tuple[str, float, float, bytes]]]) -> bytes:
        content, changes = drawn
        for change in changes:
            content = _changed(content, change)
        return content

    changes = st.lists(CHANGE, max_size=MOST_CHANGES)
    return st.one_of(st.tuples(st.sampled_from(seeds), changes).map(applied), st.binary(max_size=256))
