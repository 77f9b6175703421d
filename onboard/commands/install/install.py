"""`onboard install`: from a wheel or a source folder to a READY service, or back; and `onboard uninstall`."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil

from onboard.commands.install.layout import Layout
from onboard.commands.install.plan import InstalledState, InstallRequest, find, line, outcome, plan
from onboard.commands.install.run_program import signals_as_errors
from onboard.commands.install.steps import Installer, Timeouts
from onboard.commands.install.systemctl import Status, Systemd
from onboard.commands.install.unit_files import end_trial, on_trial, present, remove
from onboard.commands.install.venv import check_python
from onboard.commands.install.wheel import Choice, Wheel, build_wheel, read_wheel
from onboard.values.errors import InputError


def version_of(layout: Layout, pid: int) -> str | None:
    """Return the name of the version that a process runs, by its command line; `current` may point elsewhere by now.

    None without such a process, or if its command line names no version.
    """
    if pid <= 0:
        return None
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:  # it ended meanwhile
        return None
    versions = layout.seen(layout.versions)
    for path in map(Path, words):
        if path.is_relative_to(versions) and path != versions:
            return path.relative_to(versions).parts[0]
    return None


T = TypeVar("T")
NO_SERVICE = Status("", "", "", "", False)
"""The service where no systemd answers."""
OWN_SOURCE = Path(__file__).resolve().parents[3]
UMASK = 0o022
"""The service's user has to read the files that root installs, whatever umask the operator has."""


@dataclass(frozen=True, slots=True)
class Request:
    """The options of the command line. source: wheel or source folder; None for the source folder of this command."""

    source: Path | None
    choice: Choice
    timeouts: Timeouts
    previous: bool = False
    downgrade: bool = False
    start: bool = True
    dry_run: bool = False
    compiles: bool = True


@contextlib.contextmanager
def os_errors_as_input_errors() -> Iterator[None]:
    """Raise InputError, one line, instead of OSError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise InputError(f"{error.filename}: {reason}" if error.filename else reason) from error


@os_errors_as_input_errors()
def install(request: Request, layout: Layout, services: Systemd, say: Callable[[str], None]) -> dict[str, Any]:
    """Install the requested version; return version, release, the version before and the steps, as plain values.

    say: shows a line to the operator; never fails.
    A dry run prints its plan on any machine, without root and without systemd.
    Raises InputError: nothing was changed; NotReadyError: the version before runs; EndedError: the same, by a signal.
    """
    if not request.dry_run:
        require_root("install")
    with contextlib.ExitStack() as held:
        if not request.dry_run:
            os.umask(UMASK)
            held.enter_context(exclusive(layout))
            held.enter_context(signals_as_errors())
        wheel = None if request.previous else read_wheel(_wheel_file(request, held), request.choice)
        if wheel is not None:
            _checked(request, say, lambda: check_python(request.choice.python), None)
        seen = _checked(request, say, services.status, NO_SERVICE)
        running = version_of(layout, seen.main_pid)
        found = find(layout, runs=seen.runs, enabled=seen.enabled, running=running)
        order = _order(request, wheel, found)
        steps = plan(order, found)
        result = {
            "version": order.name,
            "release": order.release,
            "before": found.current,
            "steps": [step.name.lower() for step in steps],
            "dry_run": request.dry_run,
        }
        if request.dry_run and steps:
            for step in steps:
                say(f"would {line(step, order, found)}")
            return result
        Installer(layout, services, order, found, wheel, request.choice, request.timeouts, say).do(steps)
        say(outcome(order, found, changed=bool(steps)))
        return result


def _checked(request: Request, say: Callable[[str], None], check: Callable[[], T], otherwise: T) -> T:
    """Return the result of a check of this machine. A dry run says what a check refuses, and continues."""
    try:
        return check()
    except InputError as error:
        if not request.dry_run:
            raise
        say(f"this machine would refuse it: {error}")
        return otherwise


def require_root(verb: str) -> None:
    """Raise InputError when this process may not change the system."""
    if os.geteuid() != 0:
        raise InputError(f"{verb} changes system folders: use sudo, or preview it with --dry-run")


@contextlib.contextmanager
def exclusive(layout: Layout) -> Iterator[None]:
    """Hold the lock against other installations, until the last tool that was run has ended too.

    Raises InputError during another installation, OSError if the lock file cannot be made.
    """
    layout.lock.parent.mkdir(parents=True, exist_ok=True)
    with layout.lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{layout.lock}: another installation is running; wait until it has ended") from error
        os.set_inheritable(file.fileno(), True)
        yield


def default_python() -> Path:
    """Return the base interpreter of this environment."""
    return Path(getattr(sys, "_base_executable", sys.executable))


def _wheel_file(request: Request, held: contextlib.ExitStack) -> Path:
    source = request.source or OWN_SOURCE
    if source.is_file():
        return source
    if request.source is None and not (source / "pyproject.toml").is_file():
        raise InputError("this command does not run from a source folder: name the wheel to install")
    folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="onboard-install-")))
    return build_wheel(source, folder)


def _order(request: Request, wheel: Wheel | None, found: InstalledState) -> InstallRequest:
    if wheel is not None:
        return InstallRequest(wheel.release, wheel.name, request.downgrade, request.start, request.compiles)
    before = found.versions.get(found.previous or "")
    if before is None:
        raise InputError("there is no previous version to go back to")
    return InstallRequest(before.release, before.name, True, request.start, request.compiles)


# ---- Uninstalling: stops the service and removes what `install` made; recordings stay unless purged


@os_errors_as_input_errors()
def uninstall(
    layout: Layout, services: Systemd, say: Callable[[str], None], *, purge: bool, dry_run: bool
) -> dict[str, Any]:
    """Remove the service, all versions and their cache. Safe to call again after an interruption.

    Return what is removed and what stays, as plain values.

    purge: remove the configuration, the unit's drop-ins and the recordings too. The service's user stays, because it
    may own other files.
    Raises InputError naming the file that could not be removed.
    """
    installed = _installed(layout)
    folders = [folder for folder in (layout.home, layout.cache, *_kept(layout, purge=purge)) if folder.exists()]
    stays = [folder for folder in _kept(layout, purge=True) if folder.exists() and folder not in folders]
    result = {
        "removed": [str(path) for path in (*installed, *folders)],
        "stays": [str(folder) for folder in stays],
        "dry_run": dry_run,
    }
    if not installed and not folders:
        say("nothing is installed")
        return result
    if dry_run:
        for words in _lines(installed, folders):
            say(f"would {words}")
        return result
    require_root("uninstall")
    with contextlib.ExitStack() as held:
        held.enter_context(exclusive(layout))
        held.enter_context(signals_as_errors())
        for words in _lines(installed, folders):
            say(words)
        _remove(layout, services, installed, folders)
    for folder in stays:
        say(f"{folder} stays; --purge removes it")
    return result


def _installed(layout: Layout) -> list[Path]:
    return [*present(layout), *on_trial(layout)]


def _kept(layout: Layout, *, purge: bool) -> tuple[Path, ...]:
    return (layout.configuration, layout.drop_ins, layout.state) if purge else ()


def _lines(installed: list[Path], folders: list[Path]) -> list[str]:
    service = ["stop and disable the service"] if installed else []
    return [*service, *(f"remove {path}" for path in (*installed, *folders))]


def _remove(layout: Layout, services: Systemd, installed: list[Path], folders: list[Path]) -> None:
    """Stop the service first: systemd could start it as long as its files are there."""
    if installed:
        services.stop()
        services.enable(False)
    try:
        remove(layout)
        end_trial(layout)
        services.reload()
        for folder in folders:
            shutil.rmtree(folder)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be removed: {error.strerror}") from error
