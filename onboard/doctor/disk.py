"""Room for recordings: what the recorder would do before its next file, by its own rules (`record_budget.py`)."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from onboard.config import RecordSection
from onboard.doctor.finding import Complaint, Finding, Level, green, judged
from onboard.doctor.sandbox import kept_out
from onboard.doctor.writing import Writer, refusal
from onboard.record_budget import Budget, Held, is_marked, judge
from onboard.record_folder import nearest

GB = 1e9
MB = 1e6
MOVE_OUT = "move recordings away, or take marks away (`onboard keep FILE --release`)"


def disk(section: RecordSection, writer: Writer) -> Finding:
    """Return whether the recordings that the configuration allows fit, and can be written by whom they will be.

    Raises OSError where this user cannot look at them.
    """
    if not section.enabled:
        return green("disk", "nothing is recorded")
    folder = writer.start / section.directory
    held, usage = _held(folder), shutil.disk_usage(nearest(folder))
    refused = filter(None, [kept_out(writer.box, folder), refusal(writer, folder)])
    complaints = [*_room(section, held, usage.free), *refused]
    held_mb, marked_mb = _megabytes(held), _megabytes([one for one in held if one.marked])
    marked = f", {marked_mb / 1e3:.1f} GB of it marked" if marked_mb else ""
    allowed = f"recordings hold {held_mb / 1e3:.1f} of {section.max_total_mb / 1e3:g} GB{marked}"
    summary = f"{usage.free / GB:.1f} of {usage.total / GB:.1f} GB free at {folder}; {allowed}"
    values = {"free_mb": round(usage.free / MB), "recordings_mb": round(held_mb), "marked_mb": round(marked_mb)}
    bounds = {"max_total_mb": section.max_total_mb, "min_free_mb": section.min_free_mb}
    return judged("disk", summary, complaints, **values, **bounds)


def _held(folder: Path) -> list[Held]:
    """Return the recordings there, oldest first. Raises OSError where they cannot be looked at."""
    if nearest(folder) != folder.absolute() or not folder.is_dir():
        return []
    found = []
    for path in sorted(path for path in folder.iterdir() if path.suffix == ".mcap"):
        with contextlib.suppress(FileNotFoundError):  # a runtime made room meanwhile
            found.append(Held(path, path.stat().st_size, is_marked(path), False))
    return found


def _megabytes(held: list[Held]) -> float:
    return sum(one.size_bytes for one in held) / MB


def _room(section: RecordSection, held: list[Held], free_bytes: float) -> list[Complaint]:
    file_bytes, least_bytes = section.max_file_mb * MB, section.min_free_mb * MB
    verdict = judge(held, Budget(section.max_files, section.max_total_mb * MB, file_bytes, least_bytes), free_bytes)
    if verdict.full:
        said = f"the disk is full: record.min_free_mb = {section.min_free_mb:g} cannot be kept, so nothing is recorded"
        return [Complaint(Level.RED, said, MOVE_OUT)]
    if verdict.over_bytes > 0.0:
        said = f"marked recordings leave no room within record.max_total_mb = {section.max_total_mb:g}"
        return [Complaint(Level.AMBER, said, MOVE_OUT)]
    if free_bytes < least_bytes + file_bytes:
        said = f"the disk is nearly full: a file of record.max_file_mb = {section.max_file_mb:g} has no room any more"
        return [Complaint(Level.AMBER, said, f"{MOVE_OUT}, or lower record.max_file_mb")]
    grow_mb = max(min(section.max_file_mb * section.max_files, section.max_total_mb) - _megabytes(held), 0.0)
    if free_bytes < grow_mb * MB + least_bytes:
        said = f"recordings may still grow by {grow_mb / 1e3:.1f} GB, for which there is no room"
        return [Complaint(Level.AMBER, said, "lower record.max_total_mb, or make room")]
    return []
