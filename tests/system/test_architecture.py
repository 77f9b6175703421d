"""Checks the sources against ARCHITECTURE.md's table of rooms: import directions, no cycle, no crowded folder."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import tomllib

from onboard.commands.doctor.engine import LIBRARIES
from onboard.commands.install.cli import EXTRAS
from onboard.config.config import CameraSource

ROOT = Path(__file__).parents[2]
PACKAGES = ("onboard", "hil", "engines", "calib")
VENDORS = {"pyrealsense2", "cyclonedds", "tensorrt", "pycuda", "onnx", "onnxruntime", "serial", "cv2"}
TOGETHER = ({"tensorrt", "pycuda"}, {"onnx", "onnxruntime"})
MOST_ENTRIES = 15
ROW = re.compile(r"^\| `((?:onboard|hil|engines|calib)[\w/.]*)` \| ([^|]+?) \|$", re.MULTILINE)
CROWDED = re.compile(r"^\| `([\w/]+)/` \| (\d+) \| [^|]+ \|$", re.MULTILINE)
"""A row of the folders that may have more than `MOST_ENTRIES` entries: folder, its upper bound, reason."""
UNIT = "onboard.service"
"""The name of the systemd unit. It names no module, although `onboard/service` is a room."""


def table() -> dict[str, str]:
    """Return the sentence of each room, in the order of ARCHITECTURE.md. A room may import the rooms above it."""
    rows = ROW.findall((ROOT / "ARCHITECTURE.md").read_text())
    assert len(rows) == len(dict(rows)), "a room has two rows"
    return dict(rows)


def room_of(path: Path) -> str:
    """Return a file's room: its folder, or the file itself at a package's top level."""
    inside = path.relative_to(ROOT)
    return str(inside) if len(inside.parts) == 2 and inside.name != "__init__.py" else str(inside.parent)


@cache
def modules() -> dict[str, Path]:
    """Return the file of each of our modules by its import name."""
    files = (file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py")))
    return {".".join(f.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): f for f in files}


def imported(path: Path) -> Iterator[str]:
    """Yield the full name of each import in a file, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            folder = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join([*folder, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{module}.{alias.name}"
                yield inner if inner in modules() else module


def named(path: Path) -> Iterator[str]:
    """Yield each of our modules that a text names, for a child process or `importlib`.

    The tables of commands in `__main__.py` do not count.
    """
    if path.name != "__main__.py":
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                module = node.value.partition(":")[0]
                if "." in module and module in modules() and module != UNIT:
                    yield module


@cache
def arrows() -> dict[str, frozenset[str]]:
    """Return our imported modules for each of our modules."""
    ours = modules()
    return {name: frozenset(t for t in imported(path) if t in ours and t != name) for name, path in ours.items()}


def test_each_room_has_its_row_and_says_its_sentence() -> None:
    rooms = table()
    assert {room_of(path) for path in modules().values()} == set(rooms)
    for room, sentence in rooms.items():
        if (ROOT / room).is_dir():
            doc = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text()))
            assert doc is not None, room
            assert " ".join(doc.split("\n\n")[0].split()) == sentence, room


#   source                                       our modules that it names
NAMING = [
    ("import onboard.halt",                        []),
    ("Interpreter('hil.commands.drive.simulation')",     ["hil.commands.drive.simulation"]),
    ("[sys.executable, '-m', 'onboard.halt']",     ["onboard.halt"]),
    ("Command('calib.commands.gap:gap')",          ["calib.commands.gap"]),
    ("unit = 'onboard.service'",                   []),
    ("text = 'hil'",                               []),
]  # fmt: skip


@pytest.mark.parametrize(("source", "found"), NAMING)
def test_a_modules_name_in_a_text_is_seen(source: str, found: list[str], tmp_path: Path) -> None:
    file = tmp_path / "a.py"
    file.write_text(source)
    assert list(named(file)) == found


def test_imports_go_up_the_table_only() -> None:
    place = {room: number for number, room in enumerate(table())}
    ours = modules()
    wrong = [
        f"{name} -> {target}"
        for name, targets in arrows().items()
        for target in {*targets, *named(ours[name])}
        if place[room_of(ours[target])] > place[room_of(ours[name])]
    ]
    assert wrong == []


def test_no_module_imports_itself_by_a_detour() -> None:
    graphlib.TopologicalSorter(arrows()).prepare()  # raises CycleError, with the cycle


def test_calib_does_not_import_engines() -> None:
    assert not [name for name, targets in arrows().items() if name.startswith("calib") and "engines." in str(targets)]


NOT_COUNTED = {"__init__.py", "py.typed"}


def test_a_folder_has_few_entries() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", *PACKAGES, "tests"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    entries: dict[str, set[str]] = {}
    for line in tracked.stdout.splitlines():
        parts = Path(line).parts
        for depth in range(1, len(parts)):
            entries.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    counts = {folder: len(names - NOT_COUNTED) for folder, names in entries.items()}
    most = {folder: int(bound) for folder, bound in CROWDED.findall((ROOT / "ARCHITECTURE.md").read_text())}
    assert {folder: count for folder, count in counts.items() if count > most.get(folder, MOST_ENTRIES)} == {}
    assert {folder: counts.get(folder) for folder in most if counts.get(folder, 0) <= MOST_ENTRIES} == {}, (
        "no exception"
    )


def test_examples_import_what_the_table_of_packages_allows() -> None:
    row = re.search(r"^\| `examples/` \|.*\| ([^|]*) \|$", (ROOT / "ARCHITECTURE.md").read_text(), re.MULTILINE)
    assert row is not None
    files = sorted((ROOT / "examples").rglob("*.py"))
    assert files
    for file in files:
        ours = {target.split(".")[0] for target in imported(file)} & {*PACKAGES, "tests"}
        assert ours <= set(re.findall(r"\w+", row[1])), file


def test_one_vendor_library_a_file() -> None:
    for name, path in modules().items():
        vendors = {target.split(".")[0] for target in imported(path)} & VENDORS
        assert len(vendors) <= 1 or any(vendors <= pair for pair in TOGETHER), name
        if vendors and name.startswith("onboard."):
            assert name.startswith(("onboard.drivers.", "onboard.recording.")), name


def test_a_source_of_images_is_known_wherever_its_library_is_needed() -> None:
    """Else the installed service would lack the library, and the doctor would not list it."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for source in set(get_args(CameraSource)) - {"dds", "none"}:
        library = re.match(r"[\w-]+", extras[source][0])[0]
        assert source in EXTRAS.split(",")
        assert library in VENDORS
        assert library in LIBRARIES


def test_the_path_of_a_depth_image_lists_as_many_files_as_it_states() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text().partition("### The path of a depth image")[2].partition("###")[0]
    files = []
    for part in re.findall(r"^\| [a-z ]+ \| (`.*) \|$", text, re.MULTILINE):
        folder = ""
        for name in re.findall(r"`([^`]+)`", part):
            folder = name if name.endswith("/") else folder
            files += [] if name.endswith("/") else [name if "/" in name else folder + name]
    assert [file for file in files if not (ROOT / file).is_file()] == []
    assert len(set(files)) == int(re.search(r"passes these (\d+) files", text)[1])


def test_the_runtime_never_asks_whether_it_is_simulated() -> None:
    for name, path in modules().items():
        if name.startswith("onboard"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.If, ast.IfExp)):
                    condition = ast.unparse(node.test).lower()
                    assert "simul" not in condition, f"{name}: {condition}"
                    assert "replay" not in condition, f"{name}: {condition}"


def test_import_onboard_needs_no_vendor_library() -> None:
    blocked = ", ".join(repr(name) for name in sorted(VENDORS))
    program = (
        "import sys\n"
        f"for name in ({blocked}): sys.modules[name] = None\n"
        "import onboard, onboard.__main__, onboard.runtime\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
