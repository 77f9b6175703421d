"""What is installed: a wheel, checked before anything is touched; its bytes decide the version's name."""

from __future__ import annotations

import hashlib
import sys
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path, PurePosixPath

from packaging.version import InvalidVersion
from packaging.version import Version as Release

from onboard.errors import InputError
from onboard.install.layout import UNIT
from onboard.install.tool import run_tool

DISTRIBUTION = "onboard"
DIGEST_DIGITS = 12
LOCK_IN_WHEEL = "*.data/data/share/onboard/requirements.lock"


@dataclass(frozen=True, slots=True)
class Choice:
    """How a wheel is installed.

    extras:          optional dependencies, as `cpu,realsense,serial`
    lock:            versions with hashes, in place of those that the wheel itself brings; nothing else is installed
    system_packages: the system's Python packages are seen too (TensorRT of JetPack)
    python:          interpreter of the new version
    unlocked:        whatever versions fit are installed, without looking at hashes
    wheels:          a folder that packages come from; then nothing is asked of a network
    """

    extras: str
    lock: Path | None
    system_packages: bool
    python: Path
    unlocked: bool = False
    wheels: Path | None = None

    def __post_init__(self) -> None:
        """Raise InputError for what cannot be chosen together, or a folder that is none."""
        if self.unlocked and self.lock is not None:
            raise InputError(f"--lock {self.lock} and --unlocked: only one of them")
        if self.wheels is not None and not self.wheels.is_dir():
            raise InputError(f"--wheels {self.wheels}: there is no such folder")


@dataclass(frozen=True, slots=True)
class Wheel:
    """A wheel of ours. name: of the version that it makes together with the choice."""

    path: Path
    release: str
    name: str


def read_wheel(path: Path, choice: Choice) -> Wheel:
    """Return what a wheel holds. Raises InputError when it is none, none of ours, or one without a unit."""
    try:
        with zipfile.ZipFile(path) as archive:
            broken = archive.testzip()
            names = [PurePosixPath(name) for name in archive.namelist()]
            metadata = next((name for name in names if name.match("*.dist-info/METADATA")), None)
            headers = Parser().parsestr("" if metadata is None else archive.read(str(metadata)).decode())
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError) as error:
        raise InputError(f"{path}: is no wheel: {error}") from error
    if broken is not None:
        raise InputError(f"{path}: damaged at {broken}")
    if headers["Name"] != DISTRIBUTION:
        raise InputError(f"{path}: is a wheel of {headers['Name']!r}, not of {DISTRIBUTION!r}")
    if not any(name.name == UNIT for name in names):
        raise InputError(f"{path}: has no {UNIT}, so no service can be made of it")
    release = _checked(path, headers["Version"])
    return Wheel(path, release, f"{release}-{_digest(path, choice)}")


def lock_of(wheel: Wheel, choice: Choice) -> bytes | None:
    """Return what may be installed with a wheel, versions with hashes: the lock chosen, else the wheel's own.

    None without one. Raises InputError where it cannot be read.
    """
    if choice.unlocked:
        return None
    try:
        if choice.lock is not None:
            return choice.lock.read_bytes()
        with zipfile.ZipFile(wheel.path) as archive:
            own = [name for name in archive.namelist() if PurePosixPath(name).match(LOCK_IN_WHEEL)]
            return archive.read(own[0]) if own else None
    except OSError as error:
        raise InputError(f"{choice.lock or wheel.path}: cannot be read: {error.strerror}") from error


def build_wheel(source: Path, into: Path) -> Path:
    """Return a wheel made of a source folder. Raises InputError with pip's last words."""
    if not (source / "pyproject.toml").is_file():
        raise InputError(f"{source}: is neither a wheel nor a source folder (no pyproject.toml)")
    arguments = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(into), str(source)]
    run_tool(arguments, f"{source}: no wheel could be made of it")
    return next(into.glob("*.whl"))


def older(release: str, than: str) -> bool:
    """Return whether a release comes before another (PEP 440)."""
    return Release(release) < Release(than)


def _checked(path: Path, release: str | None) -> str:
    try:
        return str(Release(release or ""))
    except InvalidVersion as error:
        raise InputError(f"{path}: version {release!r} is none (PEP 440)") from error


def _digest(path: Path, choice: Choice) -> str:
    """Return a digest of all that decides what the version's folder will hold."""
    digest = hashlib.sha256()
    try:
        for file in [path, *([choice.lock] if choice.lock else [])]:
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror}") from error
    digest.update(repr((choice.extras, choice.system_packages, str(choice.python), choice.unlocked)).encode())
    return digest.hexdigest()[:DIGEST_DIGITS]
