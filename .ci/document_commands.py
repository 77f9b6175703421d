"""Run the commands of README and docs in the environment that `make demo` makes: no extra beyond the documented ones.

A command is what stands in the document; words are added only to make it short. It fails for a command that no longer
stands there, for another exit code, and for a traceback.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEYOND = ("torch", "ray", "rerun", "rosbags", "pytest")
"""Packages of extras that README's commands must do without."""
MY_ROBOT = "my_robot/onboard.toml"

#   document              command, as it stands there                                     added       exit code
COMMANDS = (
    ("README.md",          "onboard-hil demo",                                            "--out demo", 0),
    ("README.md",          "cp -r onboard/config/robots/default my_robot",                "",           0),
    ("README.md",          f"onboard check-config --config {MY_ROBOT} --files-only",       "",           0),
    ("README.md",          f"onboard cameras --config {MY_ROBOT}",                        "",           0),
    ("README.md",          "onboard-hil replay $run",                                     "",           0),
    ("README.md",          "onboard-hil report $run --out run.html",                      "",           0),
    ("README.md",          "onboard-hil replay $run --policy reactive",                   "",           0),
    ("docs/evaluation.md", "onboard-hil evaluate --policy reactive --jobs 2 --json result.json",
     "--map home --episodes 2", 0),
    ("docs/evaluation.md", "onboard-hil evaluate --policy onboard-v1 --set unseen --condition paper --jobs 2",
     "--episodes 1", 0),
    ("docs/evaluation.md", "onboard-hil baselines --jobs 2 --markdown", "--map home --episodes 1", 0),
)  # fmt: skip


def main() -> int:
    """Run them in an empty folder, one after another. Exit code 1: something failed."""
    more = [name for name in BEYOND if find_spec(name)]
    if more:
        sys.stdout.write(f"this environment has more than the documented extras: {', '.join(more)}\n")
    failed = len(more) if "CI" in os.environ else 0
    bins = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        for name in ("onboard", "docs"):
            Path(folder, name).symlink_to(ROOT / name)
        for document, command, added, code in COMMANDS:
            problem = run(
                document,
                command,
                f"PATH={bins}:$PATH; run=$(ls -t recordings/*.mcap 2>/dev/null | head -1); {command} {added}",
                folder,
                code,
            )
            failed += bool(problem)
            sys.stdout.write(f"{'FAILED' if problem else 'passed'}  {document}: {command} {added}\n{problem}")
            sys.stdout.flush()
    return int(failed > 0)


def run(document: str, command: str, script: str, folder: str, code: int) -> str:
    """Return what went wrong, empty for nothing."""
    if command not in (ROOT / document).read_text(encoding="utf-8") and command != "onboard-hil demo":
        return f"    {document} has no such command: change the table in .ci/document_commands.py\n"
    done = subprocess.run(
        [shutil.which("bash") or "bash", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode == code and "Traceback" not in done.stderr:
        return ""
    return f"    exit code {done.returncode}, expected {code}\n{done.stdout[-2000:]}{done.stderr[-4000:]}\n"


if __name__ == "__main__":
    sys.exit(main())
