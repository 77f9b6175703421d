"""Say which figures in the documents are of other code than today's. Exit code 1: some are."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs" / "figures.toml"


def changed(commit: str, code: list[str]) -> list[str]:
    """Return the files of the code that are not as at a commit. Raises CalledProcessError for an unknown commit."""
    command = ["git", "diff", "--name-only", commit, "--", *code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def main() -> int:
    """Print one line for each set of figures."""
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))["figures"]
    stale = 0
    for row in rows:
        files = [name for name in changed(row["commit"], row["code"]) if name.endswith((".py", ".toml", ".json"))]
        stale += bool(files)
        said = f"{len(files):4} files changed since {row['commit']}" if files else "of today's code"
        sys.stdout.write(f"{row['of']:45} {said:36} {row['command']}\n")
    sys.stdout.write(
        f"{stale} of {len(rows)} are of other code: print them anew and write the commit into {TABLE.name}\n"
    )
    return int(stale > 0)


if __name__ == "__main__":
    sys.exit(main())
