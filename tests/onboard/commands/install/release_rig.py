"""Releases of this tree as wheels: one built by the real build, others made of it by changing files in it."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[4]
BUILD = (sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation")
FIRST = "0.1.0"
SERVICE = "onboard/service/systemd.py"
MODEL = "engines/pretrained/onboard-v2.onnx"
HANGS = b"\n\nimport threading\n\nService.__init__ = lambda *_: threading.Event().wait()\n"
"""Appended to `SERVICE`: the configuration is checked, but no run comes to READY, or to an end."""


def cannot_build() -> str:
    """Return why no wheel can be built here, or ""."""
    words = [sys.executable, "-c", "import hatchling, pip"]
    return "" if subprocess.run(words, capture_output=True, check=False).returncode == 0 else "there is no hatchling"


def built(folder: Path) -> Path:
    """Return the wheel of this tree, as release FIRST: the version of a tree between two tags is long."""
    subprocess.run([*BUILD, "--wheel-dir", str(folder), str(ROOT)], check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    release = changed(wheel, FIRST)
    wheel.unlink()
    return release


def changed(wheel: Path, release: str, appended: Mapping[str, bytes] = {}) -> Path:
    """Return another release of a wheel, bytes appended to some of its files."""
    before = wheel.name.split("-")[1]
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    files = {name.replace(f"onboard-{before}.", f"onboard-{release}."): one for name, one in contents.items()}
    info = f"onboard-{release}.dist-info"
    metadata = files[f"{info}/METADATA"].replace(f"Version: {before}".encode(), f"Version: {release}".encode())
    files[f"{info}/METADATA"] = metadata
    for name, more in appended.items():
        files[name] += more
    del files[f"{info}/RECORD"]
    rows = [f"{name},sha256={_hash(content)},{len(content)}\n" for name, content in files.items()]
    files[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    path = wheel.with_name(f"onboard-{release}-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return path


def _hash(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
