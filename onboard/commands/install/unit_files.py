"""The service's system files: units, device rules, the user, folders.

Each version holds them, with paths below `current`. They are copied, not linked, to the system's folders when the
version is activated, because `systemctl enable` takes a linked unit for another unit. A version on trial overrides
them in /run, so that a power cut during a trial boots the version before.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from onboard.commands.install.layout import UNIT, UNITS_IN_VERSION, Layout, point, replace_file

#   name of a file in systemd/   folder below /usr/local/lib and /run
FOLDERS = (
    ("*.service", Path("systemd/system")),
    ("*.timer", Path("systemd/system")),
    ("*.rules", Path("udev/rules.d")),
    ("*sysusers.conf", Path("sysusers.d")),
    ("*tmpfiles.conf", Path("tmpfiles.d")),
    ("*journald.conf", Path("systemd/journald.conf.d")),
)
SYSTEM, VOLATILE = Path("usr/local/lib"), Path("run")
OURS = "# Written by `onboard install`, which overwrites it. What differs on this robot belongs in a drop-in.\n"
ON_TRIAL = "# On trial: written by `onboard install`, which removes it again.\n"
FILE_MODE = 0o644
ADMINISTRATOR = Path("etc/systemd/system") / UNIT
"""A unit here overrides ours, and was not written by this command."""


def is_for_system(name: str) -> bool:
    """Return whether a file of that name belongs into one of the system's folders."""
    return any(Path(name).match(pattern) for pattern, _ in FOLDERS)


def folder_of(name: str) -> Path:
    """Return the folder of a system file, below /usr/local/lib or /run."""
    return next(folder for pattern, folder in FOLDERS if Path(name).match(pattern))


def files_of(version: Path) -> list[Path]:
    """Return a version's system files."""
    folder = version / UNITS_IN_VERSION
    return sorted(file for file in folder.iterdir() if is_for_system(file.name)) if folder.is_dir() else []


def wanted(layout: Layout, version: Path) -> dict[Path, str]:
    """Return the files that a version needs in the system's folders, with their text."""
    return {
        layout.root / SYSTEM / folder_of(file.name) / file.name: OURS + file.read_text(encoding="utf-8")
        for file in files_of(version)
    }


def present(layout: Layout) -> list[Path]:
    """Return our installed files, by their first line, and the command."""
    files = _beginning_with(OURS, layout.root / SYSTEM)
    return [*files, *([layout.command] if _command_is_ours(layout) else [])]


def in_place(layout: Layout, version: Path) -> bool:
    """Return whether the system's folders hold exactly a version's files, unchanged."""
    files = wanted(layout, version)
    return set(present(layout)) == {*files, layout.command} and all(
        path.read_bytes() == text.encode() for path, text in files.items()
    )


def foreign(layout: Layout, version: Path) -> list[Path]:
    """Return foreign files in the places of ours, and a foreign unit that would override ours."""
    ours = present(layout)
    others = [path for path in (*wanted(layout, version), layout.command) if path not in ours]
    return [path for path in (*others, layout.root / ADMINISTRATOR) if path.exists() or path.is_symlink()]


def prepare(layout: Layout, version: Path) -> dict[Path, Path]:
    """Write a version's files next to their targets; return target by file. Raises OSError and leaves no file then."""
    return _written(wanted(layout, version))


def _written(texts: dict[Path, str]) -> dict[Path, Path]:
    prepared: dict[Path, Path] = {}
    with contextlib.ExitStack() as undo:
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            unfinished = path.with_name(f".{path.name}.new")
            undo.callback(unfinished.unlink, missing_ok=True)
            unfinished.write_text(text, encoding="utf-8")
            unfinished.chmod(FILE_MODE)
            prepared[unfinished] = path
        undo.pop_all()
    return prepared


def place(layout: Layout, prepared: dict[Path, Path]) -> None:
    """Move files to their places, each atomically, and remove our other files. Raises OSError."""
    for unfinished, path in prepared.items():
        replace_file(unfinished, path)
    for path in set(present(layout)) - {*prepared.values(), layout.command}:
        path.unlink()
    layout.command.parent.mkdir(parents=True, exist_ok=True)
    point(layout.command, layout.seen(layout.current) / "bin" / "onboard")


def remove(layout: Layout) -> None:
    """Remove all files of ours. Raises OSError."""
    for path in present(layout):
        path.unlink()


def set_trial(layout: Layout, version: Path) -> None:
    """Put a version on trial: its files in /run, with its own folder instead of `current`.

    Raises OSError; only complete files are in /run then.
    """
    current, itself = str(layout.seen(layout.current)), str(layout.seen(version))
    texts = {
        layout.root / VOLATILE / folder_of(file.name) / file.name: ON_TRIAL
        + file.read_text(encoding="utf-8").replace(current, itself)
        for file in files_of(version)
    }
    for unfinished, path in _written(texts).items():
        replace_file(unfinished, path)


def on_trial(layout: Layout) -> list[Path]:
    """Return the files of a running or interrupted trial, which override the active version."""
    return _beginning_with(ON_TRIAL, layout.root / VOLATILE)


def end_trial(layout: Layout) -> None:
    """Remove the trial's files; the next start takes the active version. Raises OSError."""
    for path in on_trial(layout):
        path.unlink()


def _beginning_with(line: str, above: Path) -> list[Path]:
    """Return the files with this first line in the system's folders below `above`."""
    folders = sorted({above / folder for _, folder in FOLDERS})
    there = [path for folder in folders if folder.is_dir() for path in sorted(folder.iterdir()) if path.is_file()]
    return [path for path in there if path.read_bytes().startswith(line.encode())]


def _command_is_ours(layout: Layout) -> bool:
    return layout.command.is_symlink() and layout.command.readlink().is_relative_to(layout.seen(layout.home))
