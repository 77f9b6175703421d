"""What names a version: a wheel's file name and its bytes. pip reads the rest."""

from __future__ import annotations

import contextlib
import hashlib
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version as Release

from onboard.commands.install.layout import UNIT
from onboard.commands.install.run_program import run_tool
from onboard.values.errors import InputError, naming

DISTRIBUTION = "onboard"
DIGEST_DIGITS = 12
LOCK_IN_WHEEL = "*.data/data/share/onboard/requirements.lock"
DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, RuntimeError, NotImplementedError, ValueError)
"""Errors of `zipfile` on damaged files."""


@dataclass(frozen=True, slots=True)
class Choice:
    """How a wheel is installed.

    extras:          optional dependencies, as `cpu,realsense,serial`
    lock:            versions with hashes instead of the wheel's own lock; nothing else is installed
    system_packages: the new version sees the system's Python packages too (TensorRT of JetPack)
    python:          interpreter of the new version
    unlocked:        install any fitting versions, without hashes
    wheels:          folder of all packages; the network is not used then
    """

    extras: str
    lock: Path | None
    system_packages: bool
    python: Path
    unlocked: bool = False
    wheels: Path | None = None

    def __post_init__(self) -> None:
        """Raise InputError for options that exclude each other, or a missing folder."""
        if self.unlocked and self.lock is not None:
            raise InputError(f"--lock {self.lock} and --unlocked: use only one of them")
        if self.wheels is not None and not self.wheels.is_dir():
            raise InputError(f"--wheels {self.wheels}: there is no such folder")


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of this project. name: of the version, which depends on the choice too."""

    path: Path
    release: str
    name: str


def read_wheel(path: Path, choice: Choice) -> Wheel:
    """Return a wheel by its name and its bytes. Raises InputError for another project, or without a unit.

    pip refuses a damaged wheel when it fills the version's folder, of which nothing is left then.
    """
    with _archive(path) as archive:
        names = archive.namelist()
    try:
        distribution, release, _, _ = parse_wheel_filename(path.name)
    except InvalidWheelFilename as error:
        raise InputError(f"{path}: is not a wheel: {error}") from error
    if distribution != DISTRIBUTION:
        raise InputError(f"{path}: is a wheel of {distribution!r}, not of {DISTRIBUTION!r}")
    if not any(PurePosixPath(name).name == UNIT for name in names):
        raise InputError(f"{path}: has no {UNIT}, so it cannot be installed as a service")
    return Wheel(path, str(release), f"{release}-{_digest(path, choice)}")


def lock_of(wheel: Wheel, choice: Choice) -> bytes | None:
    """Return the lock (versions with hashes) to install with: the chosen one, else the wheel's own, else None.

    Raises InputError if it cannot be read.
    """
    if choice.unlocked:
        return None
    if choice.lock is None:
        with _archive(wheel.path) as archive:
            found = next((name for name in archive.namelist() if PurePosixPath(name).match(LOCK_IN_WHEEL)), None)
            return None if found is None else archive.read(found)
    with naming(choice.lock):
        return choice.lock.read_bytes()


@contextlib.contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open a wheel. Raises InputError for every error of reading it within the block."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except DAMAGED as error:
        raise InputError(f"{path}: is not a wheel: {error}") from error


def build_wheel(source: Path, into: Path) -> Path:
    """Build a wheel of a source folder. Raises InputError with pip's last line."""
    if not (source / "pyproject.toml").is_file():
        raise InputError(f"{source}: is neither a wheel nor a source folder (no pyproject.toml)")
    arguments = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(into), str(source)]
    run_tool(arguments, f"{source}: no wheel could be built from it")
    return next(into.glob("*.whl"))


def older(release: str, than: str) -> bool:
    """Return whether a release comes before another (PEP 440)."""
    return Release(release) < Release(than)


def _digest(path: Path, choice: Choice) -> str:
    """Return a digest of everything that decides the content of the version's folder."""
    digest = hashlib.sha256()
    try:
        for file in [path, *([choice.lock] if choice.lock else [])]:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error
    digest.update(repr((choice.extras, choice.system_packages, str(choice.python), choice.unlocked)).encode())
    return digest.hexdigest()[:DIGEST_DIGITS]
