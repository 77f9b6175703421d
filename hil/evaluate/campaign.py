"""Jobs of a campaign, and the partial file that keeps each finished episode.

A function of type `DriveJob` drives a job. It can be sent to workers. Its result depends on the job alone, so the
order of jobs and the number of workers change no result.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from hil.evaluate.result import Row, row_of_json
from onboard.values.errors import InputError, naming

SEED_BYTES = 4


@dataclass(frozen=True, slots=True)
class Job:
    """An episode of a set, and the seed of its noise."""

    map: str
    index: int
    seed: int

    def __str__(self) -> str:
        return f"{self.map} episode {self.index}"

    @property
    def key(self) -> tuple[str, int, int]:
        """Key of the job's result, as `Driven.key`."""
        return self.map, self.index, self.seed


@dataclass(frozen=True, slots=True)
class DriveResult:
    """Result of a job: its row and, for pictures, the driven path as (x [m], y [m], yaw [rad]) in the map frame."""

    row: Row
    path: tuple[tuple[float, float, float], ...] = ()

    @property
    def key(self) -> tuple[str, int, int]:
        """Name of the set, number of the episode, and seed of its noise."""
        return self.row.map, self.row.index, self.row.seed


DriveJob = Callable[[Job], DriveResult]


def jobs_of(map_name: str, episodes: Iterable[int], seed: int) -> list[Job]:
    """Return the jobs of a set. episodes: numbers of its episodes."""
    return [Job(map_name, index, noise_seed(seed, map_name, index)) for index in episodes]


def noise_seed(seed: int, map_name: str, index: int) -> int:
    """Return the seed of an episode's noise. It depends on the three arguments alone."""
    text = f"{seed}/{map_name}/{index}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=SEED_BYTES).digest(), "big")


# ---- Partial file of a running campaign: JSON lines, an episode per line, in order of completion

MADE_BY = "onboard-hil evaluate"
FORMAT = 1
BEGINNING = json.dumps({"made_by": MADE_BY}, separators=(",", ":"))[:-1]
"""First characters of every partial file, also if its writer was killed early."""

Configuration = Mapping[str, Any]


class PartialResults:
    """Partial file with the rows of one configuration. A lock keeps other evaluations from the file until exit.

    Use as a context manager.
    driven: results that the file held when it was opened
    """

    def __init__(self, path: Path, configuration: Configuration) -> None:
        """Open or create a file. Raises InputError if it is unusable, locked, or from another configuration."""
        self.path = path
        with naming(path, "written"):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a+", encoding="utf-8", newline="\n")
        try:
            _claim(self._file, path)
            self.driven = self._read(configuration)
        except InputError:
            self._file.close()
            raise

    def __enter__(self) -> PartialResults:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def append(self, driven: DriveResult) -> None:
        """Append a row. The operating system holds the row when this function returns."""
        self._write({"row": driven.row.as_json(), "path": driven.path})

    def _write(self, table: Mapping[str, Any]) -> None:
        with naming(self.path, "written"):
            self._file.write(json.dumps(table, allow_nan=False, separators=(",", ":")) + "\n")
            self._file.flush()

    def _read(self, configuration: Configuration) -> list[DriveResult]:
        """Return the stored results.

        Cuts off the incomplete last line of a killed writer, and writes the head of an empty file.
        """
        self._file.seek(0)
        try:
            text = self._file.read()
        except UnicodeDecodeError as error:
            raise self._foreign() from error
        whole = text[: text.rfind("\n") + 1]
        lines = whole.splitlines()
        if lines:
            self._check_head(lines[0], configuration)
        elif not (text.startswith(BEGINNING) or BEGINNING.startswith(text)):
            raise self._foreign()
        if len(whole) < len(text):
            self._file.truncate(len(whole.encode()))
        if not lines:
            self._write({"made_by": MADE_BY, "format": FORMAT, "configuration": configuration})
        return [self._driven(number, line) for number, line in enumerate(lines[1:], start=2)]

    def _check_head(self, line: str, configuration: Configuration) -> None:
        head = _table(line)
        if (head.get("made_by"), head.get("format")) != (MADE_BY, FORMAT):
            raise self._foreign()
        difference = difference_of(head["configuration"], json.loads(json.dumps(configuration)))
        if difference is not None:
            raise InputError(
                f"{self.path}: holds episodes of another configuration ({difference}); remove it or name another file"
            )

    def _foreign(self) -> InputError:
        return InputError(f"{self.path}: not the partial result of an evaluation; not changed")

    def _driven(self, number: int, line: str) -> DriveResult:
        table = _table(line)
        try:
            return DriveResult(row_of_json(table["row"]), tuple((x, y, yaw) for x, y, yaw in table["path"]))
        except (InputError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{self.path}: line {number}: not an episode: {error}") from error


def difference_of(there: Configuration, here: Configuration) -> str | None:
    """Return the first key in which two configurations differ, with both values; None if they are equal."""
    for key in dict.fromkeys([*there, *here]):
        before, now = there.get(key), here.get(key)
        if before != now:
            return f"{key}: {json.dumps(before)} there, {json.dumps(now)} here"
    return None


def _claim(file: io.TextIOWrapper, path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise InputError(f"{path}: another evaluation is writing it") from error


def _table(line: str) -> dict[str, Any]:
    try:
        table = json.loads(line)
    except ValueError:
        return {}
    return table if isinstance(table, dict) else {}
