"""Where an installed runtime lies on the robot: versions side by side, and `current`, a link to the active version.

/opt/onboard/versions/0.2.0-4f1c22a90b7d   one version: a virtual environment with its units in share/onboard/systemd
/opt/onboard/current, previous             links to the active version and to the one before
/etc/onboard                               configuration; made once, then the operator's
/etc/systemd/system/onboard.service.d      the operator's changes to the unit
/var/lib/onboard                           recordings and other files that the service keeps
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
"""Written last: a version without this file is incomplete."""

CONFIG_FILE = "onboard.toml"
UNITS_IN_VERSION = Path("share") / "onboard" / "systemd"


@dataclass(frozen=True, slots=True)
class Version:
    """An installed version.

    name:    its folder, `RELEASE-DIGEST`
    release: version of the distribution (PEP 440)
    source:  name of the file that it was installed from
    """

    name: str
    release: str
    source: str


class Layout:
    """Paths below a root folder, which is "/" on a robot.

    home:               all versions, and the links `current` and `previous`
    current, previous:  links to the active version and to the version before it
    configuration_file: the file that the service starts with
    drop_ins:           the operator's changes to the unit on this robot
    state:              recordings and other files that the service keeps
    cache:              files that the service can make again: compiled kernels
    lock:               file that a running installation holds locked
    command:            link through which operators call the active version
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self.home = root / "opt" / "onboard"
        self.versions = self.home / "versions"
        self.current = self.home / "current"
        self.previous = self.home / "previous"
        self.configuration = root / "etc" / "onboard"
        self.configuration_file = self.configuration / CONFIG_FILE
        self.drop_ins = root / "etc" / "systemd" / "system" / f"{UNIT}.d"
        self.state = root / "var" / "lib" / "onboard"
        self.cache = root / "var" / "cache" / "onboard"
        self.lock = root / "run" / "onboard-install.lock"
        self.command = root / "usr" / "local" / "bin" / "onboard"

    def seen(self, path: Path) -> Path:
        """Return the path as the machine with this root folder sees it."""
        return Path("/") / path.relative_to(self.root)

    def folder(self, name: str) -> Path:
        """Return a version's folder."""
        return self.versions / name

    def complete(self) -> dict[str, Version]:
        """Return the complete versions, by name."""
        folders = sorted(self.versions.iterdir()) if self.versions.is_dir() else []
        found = (read_marker(folder) for folder in folders)
        return {version.name: version for version in found if version is not None}

    def interrupted(self) -> tuple[str, ...]:
        """Return the names of incomplete versions."""
        folders = sorted(self.versions.iterdir()) if self.versions.is_dir() else []
        return tuple(folder.name for folder in folders if read_marker(folder) is None)


def read_marker(folder: Path) -> Version | None:
    """Return the version in a folder, None if it is incomplete."""
    try:
        value = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        return Version(folder.name, str(value["release"]), str(value["source"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_marker(folder: Path, version: Version) -> None:
    """Mark the version as complete, after all its files are on the disk. Raises OSError."""
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
    """Point `link` at `target` atomically. Raises OSError."""
    unfinished = link.with_name(f".{link.name}.new")
    unfinished.unlink(missing_ok=True)
    unfinished.symlink_to(target)
    replace_file(unfinished, link)


def remove_version(layout: Layout, name: str) -> None:
    """Delete a version, its marker first: an interrupted deletion leaves an incomplete version. Raises OSError."""
    folder = layout.folder(name)
    (folder / MARKER).unlink(missing_ok=True)
    if folder.is_dir():
        shutil.rmtree(folder)


def replace_file(new: Path, old: Path) -> None:
    """Replace `old` by `new` atomically, and wait until the folder's entry is on the disk. Raises OSError."""
    new.replace(old)
    descriptor = os.open(old.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
