"""Builds a version: a virtual environment, marked when it is complete."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path

from onboard.commands.install.layout import UNIT, UNITS_IN_VERSION, Layout, Version, remove_version, write_marker
from onboard.commands.install.run_program import run_tool
from onboard.commands.install.wheel import DISTRIBUTION, Choice, Wheel, lock_of
from onboard.values.errors import InputError

HIDDEN = (Path("/home"), Path("/root"), Path("/run/user"), Path("/tmp"), Path("/var/tmp"))
"""Folders that the service cannot see (`ProtectHome`, `PrivateTmp`); an interpreter there would not start."""

LOCK_FILE = "requirements.lock"
"""In a version's folder: the versions and hashes that it was built with."""
UNLOCK = " with the versions and hashes of its lock (--unlocked ignores them)"

BYTES_PER_MB = 1_000_000
NEEDED_FREE_MB = 1500
"""A version takes about 550 MB; the rest is for pip's temporary files and the robot's recordings."""


def check_python(python: Path) -> None:
    """Raise InputError if the interpreter is missing or the service cannot see it."""
    real = python.resolve()
    if not os.access(real, os.X_OK):
        raise InputError(f"--python {python}: is not an executable program")
    for folder in HIDDEN:
        if real.is_relative_to(folder):
            raise InputError(f"--python {python}: is in {folder}, which the service cannot access; use another")


def check_room(folder: Path) -> None:
    """Raise InputError when the disk is too full to build a version there."""
    while not folder.exists():
        folder = folder.parent
    free_mb = shutil.disk_usage(folder).free / BYTES_PER_MB
    if free_mb < NEEDED_FREE_MB:
        raise InputError(f"{folder}: {free_mb:.0f} MB free, {NEEDED_FREE_MB} MB are needed to build a version")


def build(layout: Layout, wheel: Wheel, choice: Choice) -> None:
    """Build the version, or leave nothing of it. Raises InputError."""
    folder = layout.folder(wheel.name)
    check_room(layout.versions)
    try:
        remove_version(layout, wheel.name)
        layout.versions.mkdir(parents=True, exist_ok=True)
        _environment(folder, wheel, choice)
        if not (folder / UNITS_IN_VERSION / UNIT).is_file():
            raise InputError(
                f"{wheel.path}: {UNIT} is not in {UNITS_IN_VERSION}, so it cannot be installed as a service"
            )
        write_marker(folder, Version(wheel.name, wheel.release, wheel.path.name))
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from error
    finally:
        if wheel.name not in layout.complete():
            remove_version(layout, wheel.name)


def _environment(folder: Path, wheel: Wheel, choice: Choice) -> None:
    """Make the virtual environment. This command's pip fills it, so it needs no pip of its own."""
    system = ["--system-site-packages"] if choice.system_packages else []
    run_tool([str(choice.python), "-m", "venv", "--without-pip", *system, str(folder)], f"{folder}: no environment")
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-input"]
    if choice.wheels is not None:
        pip += ["--no-index", "--find-links", str(choice.wheels)]
    lock = lock_of(wheel, choice)
    if lock is not None:
        (folder / LOCK_FILE).write_bytes(lock)
        pip += ["--require-hashes", "--constraint", str(folder / LOCK_FILE)]
    extras = f"[{choice.extras}]" if choice.extras else ""
    digest = hashlib.sha256(wheel.path.read_bytes()).hexdigest()
    own = f"{DISTRIBUTION}{extras} @ {wheel.path.resolve().as_uri()}#sha256={digest}"
    run_tool([*pip, own], f"{wheel.path}: cannot be installed{UNLOCK if lock is not None else ''}")
