"""Provenance of a recording: code, inference engine, numeric libraries, machine.

A replay is bit-exact only if all of these are the same.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Collection
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from onboard.config.config import PolicySection

PACKAGE = Path(__file__).parents[1]
COMPUTING = ("numpy", "numba", "llvmlite")
"""Numeric libraries of a tick."""

BOARD = Path("/proc/device-tree/model")
"""Name of a board with a device tree: "NVIDIA Jetson AGX Orin Developer Kit"."""
CPUS = Path("/proc/cpuinfo")
CPU_NAME = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
CPU_KIND = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU variant", "CPU part", "Features")
"""Fields that determine the instruction set of a core, on x86 and ARM. Libraries choose their kernels by these."""


def code_sha256(package: Path = PACKAGE) -> str:
    """Return the hash of all Python files of a package, because code changes between two versions."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(f"{path.relative_to(package).as_posix()}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def engine(section: PolicySection, without_model: Collection[str]) -> str:
    """Return the inference engine with its version, "onnxruntime 1.23.2"; "" without a model."""
    return "" if section.model in without_model else f"{section.engine} {_version(section.engine)}"


def libraries() -> str:
    """Return the numeric libraries with their versions: "numpy 2.3.5, numba 0.62.1, llvmlite 0.45.1"."""
    return ", ".join(f"{name} {_version(name)}" for name in COMPUTING)


def machine() -> str:
    """Return this machine in one line, to read: host name, board or CPU, system and Python."""
    parts = (
        platform.node(),
        _hardware(),
        platform.machine(),
        platform.platform(),
        f"Python {platform.python_version()}",
    )
    return " ".join(part for part in parts if part)


def processor() -> str:
    """Return kind of core, C library and Python: together with the numeric libraries, these determine the last bits.

    Two machines with the same text compute the same results.
    """
    libc = " ".join(platform.libc_ver()).strip()
    parts = (_core(), platform.machine(), libc, f"Python {platform.python_version()}")
    return " ".join(part for part in parts if part)


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "of unknown version"


def _hardware() -> str:
    """Return the name of board or CPU; "" if the system does not state it."""
    try:
        return BOARD.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:
        pass
    named = CPU_NAME.search(_cpus())
    return named[1].strip() if named else ""


def _core() -> str:
    """Return a core's name and an eight-digit hash of its kind; without both, the host name."""
    first = _cpus().partition("\n\n")[0]
    values = dict(line.split(":", 1) for line in first.splitlines() if ":" in line)
    kind = {name.strip(): " ".join(sorted(value.split())) for name, value in values.items()}
    fields = [f"{name} {kind[name]}" for name in CPU_KIND if name in kind]
    if not fields:
        return platform.node()
    digits = hashlib.sha256("\n".join(fields).encode()).hexdigest()[:8]
    return f"{kind.get('model name', '')} {digits}".strip()


def _cpus() -> str:
    try:
        return CPUS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
