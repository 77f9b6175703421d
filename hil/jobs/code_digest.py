"""Digest of the code: rows from different code belong to different experiments."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

import hil
import onboard

DIGEST_BYTES = 8


COMPILED = "__pycache__"


@functools.cache
def code_digest() -> str:
    """Return a digest of the packages `onboard` and `hil`, with maps and episodes, as on disk at the first call."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for package in (onboard, hil):
        folder = Path(package.__path__[0])
        for file in sorted(file for file in folder.rglob("*") if file.is_file() and COMPILED not in file.parts):
            digest.update(str(file.relative_to(folder)).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return the digest of a file. Raises OSError."""
    return hashlib.blake2b(path.read_bytes(), digest_size=DIGEST_BYTES).hexdigest()
