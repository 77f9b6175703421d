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

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("onboard", "hil", "engines", "calib")
VENDORS = {"pyrealsense2", "cyclonedds", "tensorrt", "pycuda", "onnx", "onnxruntime", "serial", "cv2"}
TOGETHER = ({"tensorrt", "pycuda"}, {"onnx", "onnxruntime"})
MOST_ENTRIES = 15
CROWDED = {
    "onboard": "one entry a room, and the few files that an engineer reads first",
    "hil/maps/data": "the files of each map",
    "tests/data/fuzz": "the cases of each parser",
}
"""Folders with more than `MOST_ENTRIES` entries, each with its reason."""
ROW = re.compile(r"^\| `((?:onboard|hil|engines|calib)[\w/.]*)` \| ([^|]+?) \|$", re.MULTILINE)


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


def test_imports_go_up_the_table_only() -> None:
    place = {room: number for number, room in enumerate(table())}
    ours = modules()
    wrong = [
        f"{name} -> {target}"
        for name, targets in arrows().items()
        for target in targets
        if place[room_of(ours[target])] > place[room_of(ours[name])]
    ]
    assert wrong == []


def test_no_module_imports_itself_by_a_detour() -> None:
    graphlib.TopologicalSorter(arrows()).prepare()  # raises CycleError, with the cycle


def test_calib_does_not_import_engines() -> None:
    assert not [name for name, targets in arrows().items() if name.startswith("calib") and "engines." in str(targets)]


NOT_COUNTED = {"__init__.py", "py.typed"}


@pytest.mark.parametrize("top", [*PACKAGES, "tests"])
def test_a_folder_has_few_entries(top: str) -> None:
    tracked = subprocess.run(["git", "ls-files", top], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    entries: dict[str, set[str]] = {}
    for line in tracked.splitlines():
        parts = Path(line).parts
        for depth in range(1, len(parts)):
            entries.setdefault("/".join(parts[:depth]), set()).add(parts[depth])
    crowded = {
        folder: len(names - NOT_COUNTED) for folder, names in entries.items() if len(names - NOT_COUNTED) > MOST_ENTRIES
    }
    assert set(crowded) <= set(CROWDED), crowded


def test_one_vendor_library_a_file() -> None:
    for name, path in modules().items():
        vendors = {target.split(".")[0] for target in imported(path)} & VENDORS
        assert len(vendors) <= 1 or any(vendors <= pair for pair in TOGETHER), name
        if vendors and name.startswith("onboard."):
            assert name.startswith(("onboard.drivers.", "onboard.recording.")), name


def test_the_runtime_never_asks_whether_it_is_simulated() -> None:
    for name, path in modules().items():
        if name.startswith("onboard"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, (ast.If, ast.IfExp)):
                    asked = ast.unparse(node.test).lower()
                    assert "simul" not in asked, f"{name}: {asked}"
                    assert "replay" not in asked, f"{name}: {asked}"


def test_import_onboard_needs_no_vendor_library() -> None:
    blocked = ", ".join(repr(name) for name in sorted(VENDORS))
    program = (
        "import sys\n"
        f"for name in ({blocked}): sys.modules[name] = None\n"
        "import onboard, onboard.__main__, onboard.runtime\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
