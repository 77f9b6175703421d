"""Recordings for the page: a list of the newest, a file by its safe name, its report made by `onboard-hil report`."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onboard.recording.repair import is_finished
from onboard.recording.retention import is_marked, mark
from onboard.values.errors import InputError, OnboardError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,119}\.mcap")
MOST_LISTED = 200
REPORT_S = 600.0
"""Longest time that a report may take."""
AGAIN_S = 10.0
"""After a report has failed, its line is shown for so long; the next request tries again."""
MOST_REPORTS = 20
"""Reports that are kept; the oldest gives way."""
REPORTER = "onboard-hil"


@dataclass(slots=True)
class Job:
    """A report in work. page: its file, once it is there; problem: why it failed, at ended_s"""

    name: str
    page: Path
    begun_s: float
    problem: OnboardError | None = None
    ended_s: float | None = None


class Recordings:
    """The folder of a robot's recordings."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reports = tempfile.TemporaryDirectory(prefix="onboard-reports-")
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._child: subprocess.Popen[str] | None = None
        self._closed = False

    def close(self) -> None:
        """End a report that is being made, and remove all. Safe to call twice."""
        self._closed = True
        if (child := self._child) is not None:
            child.kill()
            child.wait()
        self._reports.cleanup()

    def listed(self) -> dict[str, Any]:
        """Return the newest MOST_LISTED recordings, and how many there are."""
        try:
            found = [entry for entry in os.scandir(self._folder) if NAME.fullmatch(entry.name) and is_file(entry)]
        except OSError as error:
            return {"count": 0, "files": [], "problem": f"{self._folder}: {error.strerror}"}
        newest = sorted(((entry.stat().st_mtime, entry.stat().st_size, entry.name) for entry in found), reverse=True)
        files = [
            {"name": name, "bytes": size, "modified_s": round(modified_s), "kept": is_marked(self._folder / name)}
            for modified_s, size, name in newest[:MOST_LISTED]
        ]
        return {"count": len(newest), "files": files, "problem": ""}

    def path(self, name: str) -> Path:
        """Return the file of a name. Raises InputError for another name, also for one that leads out of the folder."""
        file = self._folder / name
        if not NAME.fullmatch(name) or file.is_symlink() or not file.is_file():
            raise InputError(
                f"{name[:80]!r} is not a recording here; names are letters, digits, _ . - and end in .mcap"
            )
        if not os.access(file, os.R_OK):
            raise InputError(f"{name} may not be read by the user of this dashboard")
        return file

    def keep(self, name: str) -> str:
        """Protect a recording from deletion by the disk budget, as `onboard keep`. Raises InputError."""
        mark(self.path(name), keep=True)
        return f"{name} is protected"

    def report(self, name: str) -> Path | str:
        """Return the page of a recording, or what a person waits for. A request starts it; requests share it.

        Raises InputError for another name, OnboardError if it failed.
        """
        file = self.path(name)
        page = Path(self._reports.name) / f"{name}.{file.stat().st_mtime_ns}.html"
        if page.exists():
            return page
        if not is_finished(file):
            raise InputError(f"{name} is being written, or was cut off: a report needs a finished recording")
        program = Path(sys.executable).with_name(REPORTER)
        if not program.exists():
            raise OnboardError(
                f"{REPORTER} is not installed here: download {name} and run `{REPORTER} report` elsewhere"
            )
        with self._lock:
            now_s, job = time.monotonic(), self._job
            if job is None or (job.ended_s is not None and (job.page != page or now_s > job.ended_s + AGAIN_S)):
                job = self._job = Job(name, page, now_s)
                threading.Thread(target=self._make, args=(job, program, file), name="report", daemon=True).start()
        if job.problem is not None:
            raise job.problem
        first = "" if job.page == page else f", after that of {job.name}"
        return f"The report of {name} is being made{first}: {now_s - job.begun_s:.0f} s so far."

    def _make(self, job: Job, program: Path, file: Path) -> None:
        """Make the page of a job, and let the oldest one give way."""
        part = job.page.with_name("being-made.html")
        try:
            self._run([str(program), "report", str(file), "--out", str(part)], file.name)
            os.replace(part, job.page)
            for old in sorted(job.page.parent.glob("*.mcap.*"), key=lambda one: one.stat().st_mtime)[:-MOST_REPORTS]:
                old.unlink(missing_ok=True)
        except OnboardError as error:
            job.problem = error
        except OSError as error:
            job.problem = OnboardError(f"{file.name}: its report cannot be written: {error.strerror}")
        job.ended_s = time.monotonic()

    def _run(self, command: list[str], name: str) -> None:
        """Run the reporter to its end. Raises OnboardError with its last line."""
        with subprocess.Popen(
            ["nice", "-n", "10", *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as child:
            self._child = child
            if self._closed:
                child.kill()
            try:
                _, said = child.communicate(timeout=REPORT_S)
            except subprocess.TimeoutExpired as error:
                child.kill()
                raise OnboardError(f"{name}: its report takes longer than {REPORT_S:g} s") from error
            finally:
                self._child = None
        if child.returncode != 0:
            lines = said.strip().splitlines() or [f"{REPORTER} ended with {child.returncode}"]
            raise InputError(lines[-1].removeprefix("error: "))


def is_file(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a plain file; False for a link, or a file that has just been deleted."""
    return entry.is_file(follow_symlinks=False)
