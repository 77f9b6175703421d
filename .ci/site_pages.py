"""Prepare the site: copy the documents with their links put right, and make the references from the code.

    site_pages.py FOLDER      mkdocs.yml builds from there (`make site`)

README becomes the first page, docs/ the root. A link to a file that is no page, a module for example, becomes its text.
"""

from __future__ import annotations

import inspect
import os
import posixpath
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
PAGES = (".md", ".png", ".svg", ".webp", ".gif", ".json", ".rviz", ".xml")


def place_of(file: str) -> str:
    """Return a file's place on the site, by its path in the repository."""
    return "index.md" if file == "README.md" else file.removeprefix("docs/")


def rewritten(text: str, file: str, pages: set[str]) -> str:
    """Return a document with links that are right on the site. file: its path in the repository"""
    here = posixpath.dirname(place_of(file))

    def link(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, hash_mark, anchor = target.partition("#")
        there = posixpath.normpath(posixpath.join(posixpath.dirname(file), path))
        if there not in pages:
            return words
        return f"{mark}[{words}]({posixpath.relpath(place_of(there), here or '.')}{hash_mark}{anchor})"

    return LINK.sub(link, text)


def copy(folder: Path) -> None:
    """Copy all tracked documents and pictures."""
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    pages = {name for name in tracked if name.endswith(PAGES) and not name.startswith(("tests/", "."))}
    for name in pages:
        place = folder / place_of(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            place.write_text(rewritten((ROOT / name).read_text(encoding="utf-8"), name, pages), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / name, place)


# ---- References


def table(headings: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    """Return a Markdown table."""
    from onboard.commands.cli import markdown_table

    return markdown_table(headings, rows, len(headings))


def keys() -> str:
    """Return the page of all keys of `onboard.toml`."""
    from onboard.config.config import Config

    parts = ["# Keys of `onboard.toml`", "`onboard init` writes them with these comments.", ""]
    for name, section in Config.model_fields.items():
        kind = next(one for one in (section.annotation, *get_args(section.annotation)) if hasattr(one, "model_fields"))
        parts += [f"## {name}", inspect.cleandoc(kind.__doc__ or ""), ""]
        rows = (
            (f"`{name}.{key}`", f"`{shown(field.get_default(call_default_factory=True))}`", field.description or "")
            for key, field in kind.model_fields.items()
        )
        parts += [table(("key", "default", "meaning"), rows), ""]
    return "\n".join(parts)


def shown(value: Any) -> str:
    """Return a default as TOML shows it; "-" where the key is left out."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return text.removeprefix(f"{ROOT}/") if isinstance(value, Path) else text


def topics() -> str:
    """Return the page of all topics."""
    from onboard.commands.security.secure_setup import SENT
    from onboard.drivers.dds.topics import TOPICS

    def quality(row: Any) -> str:
        return "latched" if row.quality.latched else "reliable" if row.quality.read_reliable else "best effort"

    def rows(sent: bool) -> Iterator[tuple[str, ...]]:
        for row in TOPICS:
            if (row.name in SENT) == sent:
                name = row.wire if row.wire.startswith("/") else f"/{row.wire}"
                kinds = " or ".join(filter(None, (row.kind, row.stamped_kind, row.also)))
                yield (f"`{name}`", f"`{row.name}`", kinds, quality(row), str(row.quality.depth))

    headings = ("topic", "name for `dds.remap`", "type", "reader", "depth")
    return (
        "# Topics\n\nA namespace goes before each name, but `/tf`, `/tf_static` and `/diagnostics`. What they mean: "
        f"[Describe and connect a robot](../robot.md#topics).\n\n## Out\n\n{table(headings, rows(True))}\n\n"
        f"## In\n\n{table(headings, rows(False))}\n"
    )


def commands() -> str:
    """Return the page of all commands with their options."""
    import calib.__main__
    import engines.__main__
    import hil.__main__
    import onboard.__main__
    from onboard.commands.cli import command_of

    parts = ["# Commands", ""]
    programs = {"onboard": onboard, "onboard-hil": hil, "onboard-engines": engines, "onboard-calib": calib}
    for program, package in programs.items():
        parts += [f"## {program}", ""]
        for name, row in package.__main__.COMMANDS.items():
            parts += [f"### {program} {name}", "", row.line, ""]
            if row.example:
                parts += [f"```\n{program} {row.example}\n```", ""]
            options = [one for one in command_of(row, name, program).params if one.name != "help"]
            if options:
                rows = ((f"`{option_of(one)}`", getattr(one, "help", None) or "") for one in options)
                parts += [table(("option", "meaning"), rows), ""]
    return "\n".join(parts)


def option_of(parameter: Any) -> str:
    """Return how an option or an argument is written."""
    if parameter.param_type_name == "argument":
        return parameter.metavar or str(parameter.name).upper()
    return ", ".join((*parameter.opts, *parameter.secondary_opts))


REFERENCES = {"keys.md": keys, "topics.md": topics, "commands.md": commands}


def main() -> None:
    """Write the folder anew."""
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    copy(folder)
    (folder / "reference").mkdir()
    for name, make in REFERENCES.items():
        (folder / "reference" / name).write_text(make(), encoding="utf-8")
    sys.stdout.write(f"site: {sum(len(files) for _, _, files in os.walk(folder))} files in {folder}\n")


if __name__ == "__main__":
    main()
