"""Signals in the middle of an installation: the first one ends it, but nothing that must not be left half done."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from onboard.errors import OnboardError
from onboard.signals import ENDING


class EndedError(OnboardError):
    """A signal came in the middle of it. number: of the signal."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


@contextlib.contextmanager
def signals_as_errors() -> Iterator[None]:
    """Let the first signal to end raise EndedError, so that everything is put back; further ones are left aside."""

    def ended(number: int, _frame: FrameType | None) -> None:
        for one in ENDING:
            signal.signal(one, signal.SIG_IGN)
        raise EndedError(number)

    before = {one: signal.signal(one, ended) for one in ENDING}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Leave signals to end aside, as the programs that are started in here do."""
    before = {one: signal.signal(one, signal.SIG_IGN) for one in ENDING}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
