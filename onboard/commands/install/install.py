"""`onboard install`: from a wheel or a source folder to a service that is READY, or everything as it was."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from onboard.commands.install.layout import Layout
from onboard.commands.install.plan import Found, Order, find, line, outcome, plan
from onboard.commands.install.run_program import signals_as_errors
from onboard.commands.install.steps import Installer, Patience
from onboard.commands.install.systemctl import Services
from onboard.commands.install.venv import check_python
from onboard.commands.install.wheel import Choice, Wheel, build_wheel, read_wheel
from onboard.values.errors import InputError

# ---- Which version the service's process was started from; `current` may lead to another one since

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


OWN_SOURCE = Path(__file__).resolve().parents[3]
UMASK = 0o022
"""Whatever the person's is: the service's user has to read what root installs."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line says. source: a wheel, a source folder, or None for the one that this command is from."""

    source: Path | None
    choice: Choice
    patience: Patience
    previous: bool = False
    downgrade: bool = False
    start: bool = True
    dry_run: bool = False


@contextlib.contextmanager
def disk_in_words() -> Iterator[None]:
    """Let what a disk refuses be one line. Raises InputError in place of OSError."""
    try:
        yield
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise InputError(f"{error.filename}: {what}" if error.filename else what) from error


@disk_in_words()
def install(wish: Wish, layout: Layout, services: Services, say: Callable[[str], None]) -> None:
    """Install what is wished for.

    say: shows a line to the person, and goes on where nobody listens any more.
    Raises InputError: nothing was changed; NotReadyError: the version before runs; EndedError: the same, by a signal.
    """
    if not wish.dry_run:
        require_root("install")
    with contextlib.ExitStack() as held:
        if not wish.dry_run:
            os.umask(UMASK)
            held.enter_context(alone(layout))
            held.enter_context(signals_as_errors())
        wheel = None if wish.previous else read_wheel(_wheel_file(wish, held), wish.choice)
        if wheel is not None:
            check_python(wish.choice.python)
        seen = services.look()
        running = version_of(layout, seen.main_pid)
        found = find(layout, runs=seen.runs, enabled=seen.enabled, running=running)
        order = _order(wish, wheel, found)
        steps = plan(order, found)
        if wish.dry_run and steps:
            for step in steps:
                say(f"would {line(step, order, found)}")
            return
        Installer(layout, services, order, found, wheel, wish.choice, wish.patience, say).do(steps)
        say(outcome(order, found, changed=bool(steps)))


def require_root(verb: str) -> None:
    """Raise InputError when this process may not change the system."""
    if os.geteuid() != 0:
        raise InputError(f"{verb} changes the system's folders: use sudo, or look with --dry-run")


@contextlib.contextmanager
def alone(layout: Layout) -> Iterator[None]:
    """Keep other installations away meanwhile, until the last tool that was run has ended too.

    Raises InputError when one goes on, OSError when the lock's file cannot be made.
    """
    layout.lock.parent.mkdir(parents=True, exist_ok=True)
    with layout.lock.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise InputError(f"{layout.lock}: another installation goes on") from error
        os.set_inheritable(file.fileno(), True)
        yield


def default_python() -> Path:
    """Return the interpreter that this environment was made from."""
    return Path(getattr(sys, "_base_executable", sys.executable))


def _wheel_file(wish: Wish, held: contextlib.ExitStack) -> Path:
    source = wish.source or OWN_SOURCE
    if source.is_file():
        return source
    if wish.source is None and not (source / "pyproject.toml").is_file():
        raise InputError("this command is from no source folder: name the wheel to install")
    folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="onboard-install-")))
    return build_wheel(source, folder)


def _order(wish: Wish, wheel: Wheel | None, found: Found) -> Order:
    if wheel is not None:
        return Order(wheel.release, wheel.name, wish.downgrade, wish.start)
    before = found.versions.get(found.previous or "")
    if before is None:
        raise InputError("there is no previous version to go back to")
    return Order(before.release, before.name, True, wish.start)
