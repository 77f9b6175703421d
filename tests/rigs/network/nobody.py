"""Python as a user without rights, and a folder that such a user can come to. Only root can do that."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65534
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")
GIVE_UP = f"import os\nos.setgroups([])\nos.setresgid(*[{NOBODY}] * 3)\nos.setresuid(*[{NOBODY}] * 3)\n"


def by_nobody(imports: str, program: str) -> str:
    """Return what statements print to a user without rights; what they need is imported before the rights are gone."""
    code = f"{imports}\n{GIVE_UP}{program}\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextlib.contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a new folder that everybody can look into: those of tests may lie in one of root's own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder
