"""Files of results: JSON as the commands write it, or packed into columns.

A packed folder has `results.json` without episodes, and `episodes.csv.gz` with a line per episode. Any other file may
be compressed: `NAME.json.gz` replaces `NAME.json`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

from hil.evaluate.result import OPTIONAL, Row
from onboard.config.pretrained import MODEL_SUFFIX
from onboard.policy.manifest import MANIFEST_SUFFIX
from onboard.values.errors import InputError

RESULTS, EPISODES, RESULT = "results.json", "episodes.csv", "result"
"""Files of a packed folder, and the column with the result's name."""
PER_EPISODE, SEVERAL = "per_episode", ("conditions", "baselines")
"""Keys in files of `onboard-hil evaluate --json`: the episodes, and several evaluations in a file."""
GZ = ".gz"
MANIFESTS = f"*{MODEL_SUFFIX}{MANIFEST_SUFFIX}"
"""Manifests of policies, which may be next to results."""
NO_RESULT = "not the result of onboard-hil evaluate"
WRONG_SHAPE = (AttributeError, IndexError, KeyError, TypeError, ValueError, OverflowError)
"""Errors of reading a malformed table."""
TYPES = {field.name: str(field.type) for field in fields(Row)}
FROM_TEXT: Mapping[str, Callable[[str], Any]] = {
    "str": str,
    "int": int,
    "bool": {"True": True, "False": False}.__getitem__,
    "float": float,
    "tuple[int, ...]": lambda text: [int(count) for count in text.split()],
    "Door | None": str,
    "int | None": int,
}
"""Type of a row's field -> its value in JSON."""
Table = dict[str, Any]


@contextmanager
def shaped(file: Path, what: str) -> Iterator[None]:
    """Turn errors of reading a malformed table into InputError `file: what: why`."""
    try:
        yield
    except WRONG_SHAPE as error:
        raise InputError(f"{file}: {what}: {error!r}") from error


def results_in(folder: Path) -> list[tuple[Path, str, Table]]:
    """Return file, name and table of each result in a folder, packed or as written. Raises InputError.

    A packed result has its former file's name. An unpacked file replaces the packed result of its name.
    """
    found: dict[str, tuple[Path, str, Table]] = {}
    packed = folder / RESULTS
    if packed.exists():
        rows = _rows(folder / EPISODES) if is_there(folder / EPISODES) else {}
        with shaped(packed, NO_RESULT):
            for name, values in read_table(packed).items():
                episodes = {PER_EPISODE: rows[name]} if name in rows else {}
                found[name] = (folder / f"{name}.json", name, {**values, **episodes})
    for file in sorted({*folder.glob("*.json")} - {*folder.glob(MANIFESTS), packed}):
        with shaped(file, NO_RESULT):
            found |= {name: (file, name, table) for name, table in _tables(file, read_table(file)).items()}
    return list(found.values())


def read_table(file: Path) -> Table:
    """Return the object in a JSON file, compressed or not. Raises InputError."""
    try:
        table = json.loads(read_bytes(file))
    except ValueError as error:
        raise InputError(f"{file}: not valid JSON: {error}") from error
    if not isinstance(table, dict):
        raise InputError(f"{file}: not a JSON object")
    return table


def read_bytes(file: Path) -> bytes:
    """Return the bytes of a file, or of its gzip file. Raises InputError."""
    try:
        return file.read_bytes() if file.exists() else gzip.decompress(_compressed(file).read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def is_there(file: Path) -> bool:
    """Return whether a file exists, compressed or not."""
    return file.exists() or _compressed(file).exists()


def pack(folder: Path) -> None:
    """Pack all results in a folder and its subfolders, in place; manifests stay. Raises InputError."""
    for below in sorted(path for path in folder.iterdir() if path.is_dir()):
        results = results_in(below)
        if results:
            _pack(below, {name: table for _, name, table in results})
            for file, _, _ in results:
                file.unlink(missing_ok=True)
    for file in sorted({*folder.glob("*.json"), *folder.rglob("*.jsonl")} - {*folder.glob(MANIFESTS)}):
        _write(_compressed(file), file.read_bytes())
        file.unlink()


def _tables(file: Path, table: Table) -> dict[str, Table]:
    """Return the evaluations of a file by name."""
    several = next((key for key in SEVERAL if key in table), None)
    if several is None:
        return {file.stem: table}
    return {f"{file.stem}, {name}": one for name, one in table[several].items()}


def _pack(folder: Path, tables: Mapping[str, Table]) -> None:
    text = io.StringIO()
    writer = csv.DictWriter(text, (RESULT, *TYPES), lineterminator="\n")
    writer.writeheader()
    for name, table in tables.items():
        for row in table.get(PER_EPISODE, ()):
            actions = " ".join(map(str, row["actions"]))
            writer.writerow({**row, RESULT: name, "actions": actions})  # a float survives as text
    rest = [{key: value for key, value in table.items() if key != PER_EPISODE} for table in tables.values()]
    lines = [f"{json.dumps(name)}: {json.dumps(one)}" for name, one in zip(tables, rest, strict=True)]
    (folder / RESULTS).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    if any(PER_EPISODE in table for table in tables.values()):
        _write(_compressed(folder / EPISODES), text.getvalue().encode())


def _rows(file: Path) -> dict[str, list[Table]]:
    """Return the episodes of each result, as from `Row.as_json`."""
    rows: dict[str, list[Table]] = {}
    with shaped(_compressed(file), "not the columns of episodes"):
        for line in csv.DictReader(io.StringIO(read_bytes(file).decode())):
            names = [name for name in TYPES if name not in OPTIONAL or line.get(name)]
            row = {name: FROM_TEXT[TYPES[name]](line[name]) if line[name] else None for name in names}
            rows.setdefault(line[RESULT], []).append(row)
    return rows


def _compressed(file: Path) -> Path:
    return file.with_name(file.name + GZ)


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(gzip.compress(content, mtime=0))
