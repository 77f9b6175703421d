"""What a recording says of where it was made: the code, the engine, the libraries that compute, the machine.

A replay is bit for bit the same only where all of these are.
"""

from __future__ import annotations

import hashlib
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from onboard.config.config import PolicySection

PACKAGE = Path(__file__).parents[1]
COMPUTING = ("numpy", "numba", "llvmlite")
"""Libraries whose results a tick depends on."""

BOARD = Path("/proc/device-tree/model")
"""What a board with a device tree calls itself: "NVIDIA Jetson AGX Orin Developer Kit"."""
CPUS = Path("/proc/cpuinfo")
CPU_NAME = re.compile(r"^model name\s*:\s*(.+)$", re.MULTILINE)
CPU_KIND = ("vendor_id", "cpu family", "model", "flags", "CPU implementer", "CPU variant", "CPU part", "Features")
"""What says which instructions a core has, on x86 and on ARM: by these, libraries choose how to compute."""


def code_sha256(package: Path = PACKAGE) -> str:
    """Return the hash of all Python files of a package: between two releases the version alone says too little."""
    found = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        found.update(f"{path.relative_to(package).as_posix()}\0".encode())
        found.update(path.read_bytes())
    return found.hexdigest()


def engine(section: PolicySection, reactive: str) -> str:
    """Return the engine that runs a model, with its version: "onnxruntime 1.23.2"; "" where there is no model."""
    return "" if section.model == reactive else f"{section.engine} {_version(section.engine)}"


def libraries() -> str:
    """Return the libraries that compute, with their versions: "numpy 2.3.5, numba 0.62.1, llvmlite 0.45.1"."""
    return ", ".join(f"{name} {_version(name)}" for name in COMPUTING)


def machine() -> str:
    """Return this machine in one line, for a person: its name, board or CPU, system and Python."""
    parts = (
        platform.node(),
        _hardware(),
        platform.machine(),
        platform.platform(),
        f"Python {platform.python_version()}",
    )
    return " ".join(part for part in parts if part)


def processor() -> str:
    """Return what the last bits of a result depend on, besides the libraries: the kind of core, the C library, Python.

    Two machines of which this says the same compute the same, whatever they are called.
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
    """Return the board's or CPU's name, "" where the system does not say."""
    try:
        return BOARD.read_text(encoding="utf-8", errors="replace").strip("\0\n ")
    except OSError:
        pass
    named = CPU_NAME.search(_cpus())
    return named[1].strip() if named else ""


def _core() -> str:
    """Return the name of a core and eight digits for its kind; the host's name where the system says neither."""
    first = _cpus().partition("\n\n")[0]
    values = dict(line.split(":", 1) for line in first.splitlines() if ":" in line)
    kind = {name.strip(): " ".join(sorted(value.split())) for name, value in values.items()}
    told = [f"{name} {kind[name]}" for name in CPU_KIND if name in kind]
    if not told:
        return platform.node()
    digits = hashlib.sha256("\n".join(told).encode()).hexdigest()[:8]
    return f"{kind.get('model name', '')} {digits}".strip()


def _cpus() -> str:
    try:
        return CPUS.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
