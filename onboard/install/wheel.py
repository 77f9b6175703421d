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


@dataclass(frozen=True, slots=True)
class Choice:
    """How a wheel is installed.

    extras:          optional dependencies, as `cpu,realsense,serial`
    lock:            requirements with hashes; nothing else is installed then
    system_packages: the system's Python packages are seen too (TensorRT of JetPack)
    python:          interpreter of the new version
    """

    extras: str
    lock: Path | None
    system_packages: bool
    python: Path


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
    digest.update(repr((choice.extras, choice.system_packages, str(choice.python))).encode())
    return digest.hexdigest()[:DIGEST_DIGITS]
