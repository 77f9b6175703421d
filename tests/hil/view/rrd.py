"""A saved view, read by Rerun's own reader."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from rerun.chunk import RrdReader

TIMELINE = "time"


class Saved:
    """An .rrd file. `rows[entity][component]` are (wall time [ns], or None for what always holds; value) in order."""

    def __init__(self, path: Path) -> None:
        self.rows: dict[str, dict[str, list[tuple[int | None, Any]]]] = defaultdict(lambda: defaultdict(list))
        self.timelines: set[str] = set()
        self.blueprints = len(RrdReader(path).blueprints())
        for chunk in RrdReader(path).stream().to_chunks():
            self.timelines |= set(chunk.timeline_names)
            self._add(chunk)
        for components in self.rows.values():
            for values in components.values():
                values.sort(key=lambda row: (row[0] is not None, row[0] or 0))

    def _add(self, chunk: Any) -> None:
        batch = chunk.to_record_batch()
        times = batch.column(TIMELINE).cast("int64").to_pylist() if TIMELINE in chunk.timeline_names else None
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            if ":" not in name:
                continue
            for row, value in enumerate(column.to_pylist()):
                if value is not None:
                    at = None if times is None else times[row]
                    self.rows[chunk.entity_path][name.split(":", 1)[1]].append((at, value))

    def times(self, entity: str) -> list[int]:
        """Return the times at which anything was logged there."""
        return sorted({at for rows in self.rows[entity].values() for at, _ in rows if at is not None})

    def values(self, entity: str, component: str) -> list[Any]:
        """Return what was logged, oldest first; single ones without their list."""
        found = [value for _, value in self.rows[entity][component]]
        return [value[0] if isinstance(value, list) and len(value) == 1 else value for value in found]
