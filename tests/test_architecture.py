"""The few bold rules of ARCHITECTURE.md, read off the sources."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = {"onboard", "engines", "calib", "hil"}
ALLOWED = {
    "onboard": {"onboard"},
    "hil": {"hil", "onboard"},
    "engines": {"engines", "onboard", "hil"},
    "calib": {"calib", "onboard", "hil"},
}
VENDORS = {"pyrealsense2", "cyclonedds", "tensorrt", "pycuda", "onnx", "onnxruntime", "serial"}
TOGETHER = {"tensorrt", "pycuda"}
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Return the top-level names that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    assert imports(path) & PACKAGES <= ALLOWED[package]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_one_vendor_library_a_file(path: Path) -> None:
    vendors = imports(path) & VENDORS
    assert len(vendors) <= 1 or vendors <= TOGETHER
    if vendors and path.is_relative_to(ROOT / "onboard"):
        assert path.parent.name == "drivers"


@pytest.mark.parametrize("path", sorted((ROOT / "onboard").rglob("*.py")), ids=lambda path: path.name)
def test_the_runtime_never_asks_whether_it_is_simulated(path: Path) -> None:
    asked = [
        ast.unparse(node.test)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.If, ast.IfExp)) and {"simul", "replay"} & set(_words(node.test))
    ]
    assert asked == []


def _words(test: ast.expr) -> list[str]:
    text = ast.unparse(test).lower()
    return [word for word in ("simul", "replay") if word in text]


def test_import_onboard_needs_no_vendor_library() -> None:
    blocked = ", ".join(repr(name) for name in sorted(VENDORS))
    program = (
        "import sys, pkgutil, importlib\n"
        f"for name in ({blocked}): sys.modules[name] = None\n"
        "import onboard, onboard.__main__, onboard.runtime\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
