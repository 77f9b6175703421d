"""Which code of `engines` drives what `hil.evaluate` cannot: rows of different code are different experiments."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from engines.train import domain
from hil.evaluate.code import DIGEST_BYTES


@functools.cache
def engines_digest() -> str:
    """Return a digest of this package's code and of how robots are drawn, as on disk at the first call."""
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for file in (*sorted(Path(__file__).parent.glob("*.py")), Path(domain.__file__)):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()
