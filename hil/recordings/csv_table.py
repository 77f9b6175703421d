"""Tables of numbers as logging scripts and spreadsheets write them (CSV). The only reader of CSV files of a user.

A byte order mark, blanks around values, a `#` before the header, and `;` or tabs between columns are read. So is the
decimal comma, where no comma separates columns and no number of the file has a point. All else is refused by line.
"""

from __future__ import annotations

import csv
import io
import math
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from onboard.values.errors import InputError

SEPARATORS = (",", ";", "\t")
LINE = "line {line}: {count} values for {columns} columns; a row is cut, or a number has a comma"


@dataclass(frozen=True, slots=True)
class CsvTable:
    """Rows of a file. columns: texts by name; lines: the line of each row in the file, from 1."""

    path: Path
    columns: dict[str, list[str]]
    lines: list[int]
    decimal_comma: bool

    def numbers(self, name: str, *, may_be_empty: bool = False) -> npt.NDArray[np.float64]:
        """Return a column; may_be_empty: an empty or not finite value is NaN. Raises InputError with the line."""
        found = np.empty(len(self.lines))
        for row, (text, line) in enumerate(zip(self.columns[name], self.lines, strict=True)):
            try:
                number = math.nan if may_be_empty and not text else float(self._with_point(text))
            except ValueError:
                raise InputError(f"{self.path}: line {line}: {name} = {text!r} is not a number") from None
            if not (may_be_empty or math.isfinite(number)):
                raise InputError(f"{self.path}: line {line}: {name} = {text} is not finite")
            found[row] = number
        return found

    def _with_point(self, text: str) -> str:
        return text.replace(",", ".") if self.decimal_comma else text


def read_csv(path: Path, needed: Sequence[str]) -> CsvTable:
    """Return a table that has all needed columns. Raises InputError that names file, line and column."""
    separator, rows = _rows(path, needed)
    (_, header), rows = rows[0], rows[1:]
    names = [name.strip().lstrip("#").strip() for name in header]
    missing = [name for name in needed if name not in names]
    if missing:
        raise InputError(
            f"{path}: line 1: no column {missing[0]}; needed: {', '.join(needed)}, found {', '.join(names)[:100]}"
        )
    twice = [name for name in needed if names.count(name) > 1]
    if twice:
        raise InputError(f"{path}: line 1: the column {twice[0]} appears twice")
    for line, row in rows:
        if len(row) != len(names) and any(text.strip() for text in row[len(names) :] or ("cut",)):
            raise InputError(f"{path}: {LINE.format(line=line, count=len(row), columns=len(names))}")
    columns = {name: [row[at].strip() for _, row in rows] for at, name in enumerate(names) if name}
    shown = [text for texts in columns.values() for text in texts]
    comma = separator != "," and any("," in text for text in shown) and not any("." in text for text in shown)
    return CsvTable(path, columns, [line for line, _ in rows], comma)


def _rows(path: Path, needed: Sequence[str]) -> tuple[str, list[tuple[int, list[str]]]]:
    """Return the separator, and the rows that hold something with their lines, the header first. Raises InputError."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-16" if data.startswith((BOM_UTF16_LE, BOM_UTF16_BE)) else "utf-8-sig")
        first = next((line for line in text.splitlines() if line.strip()), "")
        separator = max(SEPARATORS, key=lambda one: sum(part.strip(' "#') in needed for part in first.split(one)))
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True)
        rows = [(reader.line_num, row) for row in reader if any(part.strip() for part in row)]
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file in UTF-8: {error}") from error
    return separator, rows or [(1, [])]
