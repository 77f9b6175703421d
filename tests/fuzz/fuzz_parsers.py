"""Every parser of what comes from outside, as a table: how a damaged input is drawn, and how it is read.

A row is fed bytes, so that a case that once went wrong is a file (`data/fuzz/`). Whatever a parser raises but an
`OnboardError`, a line for each mistake, is a fault of it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis.strategies import SearchStrategy

from onboard.config.toml_file import MOST_MISTAKES
from onboard.values.errors import OnboardError

KEPT = Path(__file__).parents[1] / "data" / "fuzz"
"""A folder a parser, a file an input that once was neither read nor refused."""
HANGS_S = 120
"""The slowest parser needs a second for an input, on a busy machine some."""


@dataclass(frozen=True)
class Parser:
    """One parser.

    name: as the tables call it
    draw: given a folder to make its valid inputs in, what draws damaged ones
    read: takes an input and a folder of its own; raises OnboardError where it refuses
    """

    name: str
    draw: Callable[[Path], SearchStrategy[bytes]]
    read: Callable[[bytes, Path], object]

    @property
    def kept(self) -> Path:
        """The folder of its cases."""
        return KEPT / self.name.replace(" ", "-")

    def feed(self, content: bytes, folder: Path) -> None:
        """Read an input; fail where it is neither read nor refused in a line for each mistake, or hangs."""
        refusal = ""
        with _hang_is_a_failure():
            try:
                self.read(content, folder)
            except OnboardError as error:
                refusal = str(error)
        lines = refusal.split("\n")
        assert len(lines) <= MOST_MISTAKES + 1, refusal
        assert len({line.partition(": ")[0] for line in lines}) == 1, f"a line without its file: {refusal}"


@dataclass(frozen=True)
class InFile:
    """Reads an input from a file, where others stand beside it."""

    file: str
    parse: Callable[[Path], object]
    beside: Mapping[str, bytes] = field(default_factory=dict)

    def __call__(self, content: bytes, folder: Path) -> object:
        for name, text in self.beside.items():
            if not (folder / name).exists():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(text)
        path = folder / self.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return self.parse(path)


@contextmanager
def _hang_is_a_failure() -> Any:
    def late(*_: object) -> None:
        raise AssertionError(f"hangs: not done within {HANGS_S} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(HANGS_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
