"""Where an installed runtime lies on the robot: versions side by side, and `current`, a link that is switched.

/opt/onboard/versions/0.2.0-4f1c22a90b7d   one version: a virtual environment with its units in share/onboard/systemd
/opt/onboard/current, previous             links to the version in force and to the one before
/etc/onboard                               configuration; made once, then the person's
/etc/systemd/system/onboard.service.d      what differs on this robot from the unit; the person's
/var/lib/onboard                           recordings and what the service keeps
/var/cache/onboard                         compiled kernels
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

UNIT = "onboard.service"
MARKER = "installed.json"
"""Written last, so a version without it was interrupted while it was built."""

CONFIG_FILE = "onboard.toml"
UNITS_IN_VERSION = Path("share") / "onboard" / "systemd"


@dataclass(frozen=True, slots=True)
class Version:
    """An installed version.

    name:    its folder, `RELEASE-DIGEST`
    release: version of the distribution (PEP 440)
    source:  the file that it came from, as it was called then
    """

    name: str
    release: str
    source: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths below a root folder, which is "/" on a robot."""

    root: Path = Path("/")

    @property
    def home(self) -> Path:
        """Return the folder of all versions and links."""
        return self.root / "opt" / "onboard"

    @property
    def versions(self) -> Path:
        """Return the folder of the versions."""
        return self.home / "versions"

    @property
    def current(self) -> Path:
        """Return the link to the version in force."""
        return self.home / "current"

    @property
    def previous(self) -> Path:
        """Return the link to the version that was in force before."""
        return self.home / "previous"

    @property
    def configuration(self) -> Path:
        """Return the folder of the configuration."""
        return self.root / "etc" / "onboard"

    @property
    def configuration_file(self) -> Path:
        """Return the file that the service is started with."""
        return self.configuration / CONFIG_FILE

    @property
    def drop_ins(self) -> Path:
        """Return the folder of what differs on this robot from the unit; the person's."""
        return self.root / "etc" / "systemd" / "system" / f"{UNIT}.d"

    @property
    def state(self) -> Path:
        """Return the folder of recordings and of what the service keeps."""
        return self.root / "var" / "lib" / "onboard"

    @property
    def cache(self) -> Path:
        """Return the folder of what the service makes anew where it is missing: compiled kernels."""
        return self.root / "var" / "cache" / "onboard"

    @property
    def lock(self) -> Path:
        """Return the file that an installation holds locked while it goes on."""
        return self.root / "run" / "onboard-install.lock"

    @property
    def command(self) -> Path:
        """Return the link by which people call the version in force."""
        return self.root / "usr" / "local" / "bin" / "onboard"

    def seen(self, path: Path) -> Path:
        """Return a path as it is called on the machine whose root folder this is."""
        return Path("/") / path.relative_to(self.root)

    def folder(self, name: str) -> Path:
        """Return a version's folder."""
        return self.versions / name

    def complete(self) -> dict[str, Version]:
        """Return the versions that were built to the end, by name."""
        folders = sorted(self.versions.iterdir()) if self.versions.is_dir() else []
        found = (read_marker(folder) for folder in folders)
        return {version.name: version for version in found if version is not None}

    def interrupted(self) -> tuple[str, ...]:
        """Return the names of versions whose building did not end."""
        folders = sorted(self.versions.iterdir()) if self.versions.is_dir() else []
        return tuple(folder.name for folder in folders if read_marker(folder) is None)


def read_marker(folder: Path) -> Version | None:
    """Return what a version's folder says of itself, None when it was not finished."""
    try:
        value = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return Version(folder.name, str(value["release"]), str(value["source"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_marker(folder: Path, version: Version) -> None:
    """Say that the version is whole, after all of it is on the disk. Raises OSError."""
    os.sync()
    unfinished = folder / f"{MARKER}.new"
    unfinished.write_text(json.dumps(asdict(version), indent=2) + "\n", encoding="utf-8")
    replace_file(unfinished, folder / MARKER)


def pointed_at(link: Path) -> str | None:
    """Return the name of the version that a link leads to, None without a link."""
    try:
        return Path(os.readlink(link)).name
    except OSError:
        return None


def point(link: Path, target: Path) -> None:
    """Let `link` lead to `target` in one step: whoever looks finds the old or the new one. Raises OSError."""
    unfinished = link.with_name(f".{link.name}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    replace_file(unfinished, link)


def remove_version(layout: Layout, name: str) -> None:
    """Delete a version; its marker goes first, so that an interruption leaves none that looks whole. Raises OSError."""
    folder = layout.folder(name)
    (folder / MARKER).unlink(missing_ok=True)
    if folder.is_dir():
        shutil.rmtree(folder)


def replace_file(new: Path, old: Path) -> None:
    """Rename over, and wait until the folder's entry is on the disk. Raises OSError."""
    new.replace(old)
    descriptor = os.open(old.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
