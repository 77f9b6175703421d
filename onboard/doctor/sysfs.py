"""Small files of the kernel, read without a complaint where there are none."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/")


def text_of(path: Path) -> str | None:
    """Return a small file's text without its ends' blanks; None when it is not there or cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:  # thermal zones of parts that are switched off answer with an error
        return None


def number_of(path: Path) -> float | None:
    """Return the number in a file, None when there is none."""
    try:
        return float(text_of(path) or "")
    except ValueError:
        return None
