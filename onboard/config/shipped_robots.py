"""The robots that ship with `onboard`, by name: folders of `examples/robots`; in a wheel, of `share/onboard/robots`."""

from __future__ import annotations

import re
import shutil
import sysconfig
from pathlib import Path

from onboard.values.errors import InputError, OnboardError

IN_SOURCE = Path(__file__).resolve().parents[2] / "examples" / "robots"
DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
UP = "../../../"
LINK = re.compile(r"\[([^\]]+)\]\(\.\./\.\./\.\./[^)]*\)")
INSTALLED = Path(sysconfig.get_path("data")) / "share" / "onboard" / "robots"


def shipped_robots() -> dict[str, Path]:
    """Return the folder of each robot that ships, by name, sorted."""
    home = IN_SOURCE if IN_SOURCE.is_dir() else INSTALLED
    return {path.parent.name: path.parent for path in sorted(home.glob("*/onboard.toml"))}


def copy_robot(name: str, folder: Path, replace: bool) -> list[Path]:
    """Copy the files of a shipped robot into a folder, which is created; return them.

    Raises InputError for an unknown name, and for an existing file without `replace`; OnboardError if the disk refuses.
    """
    robots = shipped_robots()
    if name not in robots:
        listed = ", ".join(robots) or "none in this release"
        raise InputError(f"--robot {name}: no robot that ships has this name; there are: {listed}")
    sources = sorted(path for path in robots[name].iterdir() if path.is_file())
    targets = [folder / source.name for source in sources]
    there = [target for target in targets if target.exists()]
    if there and not replace:
        raise InputError(f"{there[0]}: already exists; --force replaces it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source, target in zip(sources, targets, strict=True):
            if source.suffix == ".md":
                target.write_text(_linked(source.read_text(encoding="utf-8")), encoding="utf-8")
            else:
                shutil.copyfile(source, target)
    except OSError as error:
        raise OnboardError(f"{folder}: cannot be written: {error.strerror or error}") from error
    return targets


def _linked(page: str) -> str:
    """Return a page whose links into the documents lead there from any folder; without the documents, only names."""
    if DOCUMENTS.is_dir():
        return page.replace(f"]({UP}docs/", f"]({DOCUMENTS.as_uri()}/")
    return LINK.sub(r"\1 (in the source of `onboard`)", page)
