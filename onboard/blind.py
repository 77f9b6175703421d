"""The cameras that give nothing, in the line of status that the service manager shows: written here and read again.

`onboard install` compares two versions by it, so the words stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable

WITHOUT = ", without "
BETWEEN = ", "


def with_blind(status: str, blind: Iterable[str]) -> str:
    """Return a line of status that names the cameras that give nothing, if there are any."""
    names = BETWEEN.join(blind)
    return f"{status}{WITHOUT}{names}" if names else status


def blind_in(status: str) -> frozenset[str]:
    """Return the cameras that a line of status names."""
    _, without, names = status.rpartition(WITHOUT)
    return frozenset(names.split(BETWEEN)) if without else frozenset()
