"""Damaged bytes: a valid seed with a few cuts, flips, inserts and repeats, as hypothesis draws and shrinks them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

MOST_CHANGES = 6
LONGEST_INSERT = 24
TELLING = (
    b"\x00", b"\xff", b"\xff" * 4, b"\xff" * 8, b"\x00\x00\x00\x00\x00\x01\x00\x00", b"\x00\x00\x00\x80",
    b"\xff\xff\xff\x7f", b"\x7f", b"\n", b'"', b"{", b"[" * 40, b"[" * 1200, b"nan", b"null", b"[]", b"{}", b"../",
    b"\xc3\xa9", b"\xed\xa0\x80",
)  # fmt: skip
"""Bytes that parsers trip over: ends of number ranges, and what opens something."""
NUMBERS = (b"-1", b"0", b"1e999", b"-1e-999", b"9" * 30, b"9" * 5000, b"0x10", b"1.5", b"true", b"2147483648", b"nan")
"""In place of a number in a text."""
NUMBER = re.compile(rb"-?\d[\d.eE+-]*")

Change = tuple[str, float, float, bytes, bytes]


def _changed(content: bytes, change: Change) -> bytes:
    kind, where, other, new, number = change
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
        case "number":
            found = NUMBER.search(content, at)
            return content if found is None else content[: found.start()] + number + content[found.end() :]
        case "flip":
            return content[:at] + bytes([content[at] ^ (1 << int(other * 8))]) + content[at + 1 :] if content else b""
        case _:
            return content[:at] + new + content[at + len(new) :]


FRACTION = st.floats(0.0, 1.0, exclude_max=True)
NEW = st.one_of(st.sampled_from(TELLING), st.binary(min_size=1, max_size=LONGEST_INSERT))
KINDS = ("cut", "drop", "repeat", "insert", "replace", "number", "number", "flip")
CHANGE = st.tuples(st.sampled_from(KINDS), FRACTION, FRACTION, NEW, st.sampled_from(NUMBERS))


def damaged(*seeds: bytes, longest: int = 256) -> st.SearchStrategy[bytes]:
    """Return what draws one of the seeds, damaged, or, now and then, up to `longest` bytes that never were anything."""

    def applied(drawn: tuple[bytes, list[Change]]) -> bytes:
        content, changes = drawn
        for change in changes:
            content = _changed(content, change)
        return content

    changes = st.lists(CHANGE, max_size=MOST_CHANGES)
    spoiled = st.tuples(st.sampled_from(seeds), changes).map(applied)
    return st.one_of(spoiled, st.binary(max_size=longest)) if longest else spoiled


def fixed(*seeds: bytes) -> Callable[[Path], st.SearchStrategy[bytes]]:
    """Return what draws these seeds, damaged, without a folder to make them in."""
    return lambda folder: damaged(*seeds)
