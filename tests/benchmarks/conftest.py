"""The table of ratios: how much longer a peer takes, row by row, against the last accepted table in `ratios.toml`.

`make bench` fails if a row is more than a fifth below the accepted one. `make bench ACCEPT=1` writes what it measured.
A ratio differs by processor, so each processor has its own table; without one, only the limit of each row holds. Other
runs of the tests leave the benchmarks out, because other tests run beside them.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onboard.config.toml_file import read_toml
from onboard.config.toml_text import toml_key

ACCEPTED = Path(__file__).parent / "ratios.toml"
HEAD = """\
# How many times as long the peer takes, on each processor. `make bench` fails a fifth below; `make bench ACCEPT=1`
# writes the table of this one.
"""
ALLOWED = 0.8
"""A regression above 20 % fails."""
TRIES = 3
"""A row is measured again while it is too low, since other programs of a shared machine disturb it."""


def processor() -> str:
    """Return the name of this machine's processor."""
    found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    return found[1].strip() if found else platform.machine()


class Ratios:
    """Ratios of this run beside the accepted ones."""

    def __init__(self, file: Path = ACCEPTED, *, compares: bool) -> None:
        self._tables: dict[str, dict[str, float]] = read_toml(file) if file.exists() else {}
        self.accepted = self._tables.get(processor(), {})
        self.measured: dict[str, float] = {}
        self._unsteady = set[str]()
        self._file, self._compares = file, compares

    def check(self, name: str, measure: Callable[[], float], least: float = 1.0, *, steady: bool = True) -> None:
        """Measure a row, at most TRIES times, and fail if its best is below `least` or the accepted table.

        steady: other programs change the ratio little; if not, only `least` holds, and the row is not accepted
        """
        wanted = max(least, ALLOWED * self.accepted.get(name, 0.0) if self._compares and steady else 0.0)
        if not steady:
            self._unsteady.add(name)
        for _ in range(TRIES):
            self.measured[name] = max(measure(), self.measured.get(name, 0.0))
            if self.measured[name] >= wanted:
                break
        found, before = self.measured[name], self.accepted.get(name)
        assert found >= wanted, f"{name}: {found:.2f}, must be {wanted:.2f} (limit {least:g}, accepted {before})"

    def lines(self) -> Iterator[str]:
        """Yield the table."""
        for name, found in self.measured.items():
            before = self.accepted.get(name)
            status = "not compared" if name in self._unsteady else "new" if before is None else f"accepted {before:.2f}"
            yield f"{name:<60} {found:8.2f}  {status}"

    def save(self) -> None:
        """Write this processor's accepted table, with the rows of this run in place of the old ones."""
        steady = {name: round(found, 2) for name, found in self.measured.items() if name not in self._unsteady}
        tables = {**self._tables, processor(): {**self.accepted, **steady}}
        lines = [HEAD]
        for name in sorted(tables):
            rows = tables[name]
            lines += [f"\n[{toml_key(name)}]\n", *(f"{toml_key(row)} = {rows[row]}\n" for row in sorted(rows))]
        self._file.write_text("".join(lines), encoding="utf-8")


TABLE = pytest.StashKey[Ratios]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the benchmarks to `make bench`: a speed that is compared while other tests run says nothing."""
    for item in items:
        if "BENCH" not in os.environ and Path(__file__).parent in item.path.parents:
            item.add_marker("long")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the table."""
    config.stash[TABLE] = Ratios(compares="BENCH" in os.environ and not accepting())


def accepting() -> bool:
    """Return whether this run writes the table."""
    return bool(os.environ.get("ACCEPT"))


@pytest.fixture
def ratios(pytestconfig: pytest.Config) -> Ratios:
    """The table of this run."""
    return pytestconfig.stash[TABLE]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the table, and write it if it is accepted."""
    table = config.stash[TABLE]
    for line in table.lines():
        terminalreporter.write_line(line)
    if accepting() and table.measured:
        table.save()
