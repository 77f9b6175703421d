"""Which version the service's process was started from; `current` may lead to another one since."""

from __future__ import annotations

from pathlib import Path

from onboard.install.layout import Layout

PROC = Path("/proc")


def version_of(layout: Layout, pid: int, proc: Path = PROC) -> str | None:
    """Return the name of the version whose interpreter or command a process runs.

    None where there is no such process, or where its command line names no version: it is not known then.
    """
    if pid <= 0:
        return None
    try:
        words = (proc / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:  # it ended meanwhile
        return None
    versions = layout.seen(layout.versions)
    for path in (Path(word.decode(errors="replace")) for word in words):
        if path.is_relative_to(versions) and path != versions:
            return path.relative_to(versions).parts[0]
    return None
