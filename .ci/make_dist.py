"""Build wheel and sdist twice, from two clones with other paths, times and permissions; keep them if they are the same.

    make_dist.py FOLDER      with `build` and `hatchling` in this Python; only what is committed is packed

Writes the two files and SHA256SUMS. Exit code 1: the second build differs.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MASKS = (0o022, 0o077)


def main() -> int:
    """Build, compare, keep."""
    folder = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory() as place:
        builds = [built(Path(place, f"clone-{mask:o}"), mask) for mask in MASKS]
        digests = [{file.name: digest(file) for file in files} for files in builds]
        for name in sorted(set().union(*digests)):
            if len({table.get(name, "") for table in digests}) > 1:
                sys.stderr.write(f"error: {name}: two builds differ: {[table.get(name) for table in digests]}\n")
                return 1
        folder.mkdir(parents=True, exist_ok=True)
        for file in builds[0]:
            file.replace(folder / file.name)
    text = "".join(f"{one}  {name}\n" for name, one in digests[0].items())
    (folder / "SHA256SUMS").write_text(text, encoding="utf-8")
    sys.stdout.write(f"{text}dist: built twice, the same, in {folder}\n")
    return 0


def built(clone: Path, mask: int) -> list[Path]:
    """Return wheel and sdist of a fresh clone."""
    os.umask(mask)
    subprocess.run(["git", "clone", "--quiet", "--no-local", str(ROOT), str(clone)], check=True)
    out = clone.with_name(f"{clone.name}-dist")
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(clone)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return sorted(out.iterdir())


def digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as opened:
        found = hashlib.sha256()
        while part := opened.read(1 << 20):
            found.update(part)
    return found.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
