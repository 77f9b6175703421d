"""Names in the documents exist: links and their anchors, files, `make` targets, commands and their options."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import calib.__main__
import engines.__main__
import hil.__main__
import onboard.__main__
from onboard.commands.cli import command_of
from onboard.config.config import Config, ScanSection
from tests.rigs.machine.processes import ROOT

TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
SUFFIXES = ("onnx", "py", "toml")
DOCUMENTS = [name for name in TRACKED if name.endswith(".md")]
PROGRAMS = {
    "onboard": onboard.__main__.COMMANDS,
    "onboard-hil": hil.__main__.COMMANDS,
    "onboard-engines": engines.__main__.COMMANDS,
    "onboard-calib": calib.__main__.COMMANDS,
}
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED_FILE = re.compile(r"`([\w./-]+/[\w.-]+\.(?:py|toml|md|sh|service|xml|json|j2))`")
ROOTS = ("", "onboard", "hil", "engines", "calib", "onboard/drivers", "systemd")
"""Folders to which a file name in a document may be relative."""
MADE = ("out/", "recordings/", "my_", "etc/", "evaluate/drift_3.json", "procthor/", "run/", "fine", "models/", "/")
"""Files that commands write, or that exist only on a robot, in another project or in an older commit."""


def prose_and_blocks(document: str) -> tuple[str, str]:
    """Return a document's text without fenced blocks, and its fenced blocks."""
    text = (ROOT / document).read_text(encoding="utf-8")
    fence = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
    return fence.sub("", text), "\n".join(fence.findall(text))


def anchors(file: Path) -> set[str]:
    """Return the anchors that GitHub makes from a document's headings."""
    headings = re.findall(r"^#+ +(.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    prose, _ = prose_and_blocks(document)
    broken = []
    for link in LINK.findall(prose):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (ROOT / document).parent / path if path else ROOT / document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name != "CHANGELOG.md"])
def test_files_that_are_named_are_there(document: str) -> None:
    prose, _ = prose_and_blocks(document)
    near = (Path(document).parent, *map(Path, ROOTS))
    named = [name for name in NAMED_FILE.findall(prose) if not name.startswith(MADE)]
    assert not [name for name in named if not any((ROOT / folder / name).exists() for folder in near)]


def commands(document: str) -> Iterator[list[str]]:
    """Yield the words of each of our commands in a document, up to a pipe or a comment."""
    prose, blocks = prose_and_blocks(document)
    lines = [line.strip() for line in blocks.replace("\\\n", " ").splitlines()]
    lines += [code.replace("\n", " ") for code in re.findall(r"`([^`]+)`", prose)]
    for line in lines:
        found = re.search(r"(?:^|\s|/)((?:onboard(?:-hil|-engines|-calib)?|make) [a-z-].*)", f" {line}")
        if found is None or (line.startswith("onboard ") and line.split()[1:2] == ["is"]):
            continue
        try:
            words = shlex.split(found[1], comments=True)
        except ValueError:
            words = found[1].split()
        yield words[: next((at for at, word in enumerate(words) if word in ("|", "&&", ";", ">")), None)]


def problem(words: list[str]) -> str:
    """Return the part of a command that does not exist, or ""."""
    if words[0] == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
        return "" if words[1] in targets or "=" in words[1] else f"make has no target {words[1]}"
    if words[1].startswith("-"):
        return ""
    row = PROGRAMS[words[0]].get(words[1])
    if row is None:
        return f"{words[0]} has no command {words[1]}"
    options = {"--help"} | {
        name for param in command_of(row, words[1]).params for name in (*param.opts, *param.secondary_opts)
    }
    unknown = [word for word in words[2:] if word.startswith("--") and word.partition("=")[0] not in options]
    return f"{words[0]} {words[1]} has no {', '.join(unknown)}" if unknown else ""


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name != "CHANGELOG.md"])
def test_commands_are_there_with_their_options(document: str) -> None:
    assert not [(words, found) for words in commands(document) if (found := problem(words))]


DATED = ("CHANGELOG.md", "docs/benchmarks.md")
"""They name keys of their day."""


@pytest.mark.parametrize("document", [name for name in DOCUMENTS if name not in DATED])
def test_keys_that_are_named_are_there(document: str) -> None:
    """`limits.v_max_mps`: the name of a section, and one of its keys."""
    named = re.findall(r"`([a-z_]+)\.([a-z_]+)[`= ]", (ROOT / document).read_text(encoding="utf-8"))
    unknown = [
        f"{section}.{key}"
        for section, key in named
        if section in Config.model_fields
        and key not in SUFFIXES
        and not hasattr(getattr(Config(), section) or ScanSection(), key)
    ]
    assert unknown == []


def test_the_defaults_in_the_table_of_keys_are_those_of_the_configuration() -> None:
    text = (ROOT / "docs" / "robot.md").read_text(encoding="utf-8")
    table = text[text.index("| key in `onboard.toml` | default |") :].partition("\n\n")[0]
    rows = re.findall(r"^\| (`[a-z].*?`) \| (.*?) \|", table, re.MULTILINE)
    assert len(rows) == table.count("\n") - 1, "a row of the table cannot be read"
    for keys, values in rows:
        for key, stated in zip(re.findall(r"`(.*?)`", keys), values.replace("`", "").split(", "), strict=True):
            section, name = key.split(".")
            default = getattr(getattr(Config(), section), name)
            first = (*default, "empty")[0] if isinstance(default, list | dict) else default
            shown = str(first).lower() if first is None or isinstance(first, bool) else str(first) or "empty"
            assert stated == shown, key
