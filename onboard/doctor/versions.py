"""Versions of everything that may differ between two robots that should do the same."""

from __future__ import annotations

import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from onboard import __version__, provenance
from onboard.doctor.finding import Finding, green
from onboard.doctor.sysfs import ROOT, text_of

LIBRARIES = ("numpy", "numba", "llvmlite", "cyclonedds", "pydantic", "mcap", "onnxruntime", "tensorrt", "pyrealsense2")
DIGITS = 12
"""Of a hash, enough to tell two apart on the phone."""


def versions(root: Path = ROOT) -> Finding:
    """Return the versions; a library that is not installed is left out."""
    code = provenance.code_sha256()
    jetpack = (text_of(root / "etc/nv_tegra_release") or "").partition("\n")[0].lstrip("# ")
    libraries = {name: number for name in LIBRARIES if (number := _version(name))}
    found = [f"onboard {__version__} (code {code[:DIGITS]})", f"Python {platform.python_version()}"]
    found += [f"{name} {number}" for name, number in libraries.items()]
    return green(
        "versions",
        ", ".join([*found, *filter(None, [jetpack])]),
        onboard=__version__,
        code_sha256=code,
        python=sys.version.split()[0],
        system=platform.platform(),
        machine=provenance.machine(),
        jetpack=jetpack,
        libraries=libraries,
    )


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return ""
