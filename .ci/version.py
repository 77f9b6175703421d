"""The version of a wheel or an sdist, from the tag v1.2.3 of its commit; read by hatchling (`pyproject.toml`).

1.2.3                  the commit has the tag v1.2.3
1.2.3.post4+gabc1234   four commits after it; without any tag 0.1.0.dev4000+gabc1234, the count of all commits
of its PKG-INFO        in an sdist, which has no git
0.1.0.dev0             in a copy of the files alone, as in `Dockerfile`
"""

import re
import subprocess
from pathlib import Path

FIRST = "0.1.0"
TAG = re.compile(r"v(\d+\.\d+\.\d+)-(\d+)-(g[0-9a-f]+)")


def version(root: Path) -> str:
    """Return the version of the files in a folder."""
    if (root / "PKG-INFO").exists():
        found = re.search(r"^Version: (.+)$", (root / "PKG-INFO").read_text(encoding="utf-8"), re.MULTILINE)
        if found is not None:
            return found[1]
    if not (root / ".git").exists():
        return f"{FIRST}.dev0"
    tagged = TAG.fullmatch(git(root, "describe", "--tags", "--long", "--abbrev=7", "--match", "v[0-9]*"))
    if tagged is not None:
        return tagged[1] if tagged[2] == "0" else f"{tagged[1]}.post{tagged[2]}+{tagged[3]}"
    count, commit = git(root, "rev-list", "--count", "HEAD"), git(root, "rev-parse", "--short=7", "HEAD")
    return f"{FIRST}.dev{count}+g{commit}" if count and commit else f"{FIRST}.dev0"


def git(root: Path, *words: str) -> str:
    """Return what git prints, "" where it fails or is not there."""
    try:
        done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


__version__ = version(Path(__file__).parents[1])
