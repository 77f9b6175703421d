"""Run the commands of README and docs from a wheel, outside the clone, with the extras of `make setup`.

    document_commands.py [PYTHON...]      interpreters to try; the one that runs this when none is given

A command is what stands in the document; words are added only to make it short. It fails for a command that no longer
stands there, for another exit code, and for a traceback.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MY_ROBOT = "my_robot/onboard.toml"

#   document              command, as it stands there                                     added       exit code
COMMANDS = (
    ("README.md",          "onboard-hil demo",                                            "--out demo", 0),
    ("README.md",          "onboard init my_robot",                                       "</dev/null", 0),
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
    ("docs/tools.md",      "onboard-hil view --map gdc1",                                 "",           2),
)  # fmt: skip


def main() -> int:
    """Run them in an empty folder, one after another. Exit code 1: something failed."""
    failed = 0
    for python in sys.argv[1:] or [sys.executable]:
        with tempfile.TemporaryDirectory() as place:
            folder, environment = Path(place, "work"), Path(place, "environment")
            folder.mkdir()
            for name in ("onboard", "docs"):
                (folder / name).symlink_to(ROOT / name)
            install(python, environment)
            for document, command, added, code in COMMANDS:
                words = f"run=$(ls -t recordings/*.mcap 2>/dev/null | head -1); {command} {added}"
                problem = run(document, command, f"PATH={environment / 'bin'}:$PATH; {words}", str(folder), code)
                failed += bool(problem)
                sys.stdout.write(f"{'FAILED' if problem else 'passed'}  {document}: {command} {added}\n{problem}")
                sys.stdout.flush()
    return int(failed > 0)


def install(python: str, environment: Path) -> None:
    """Make a virtual environment with nothing but this wheel and its extra."""
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    wheels = environment / "wheels"
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True)
    (wheel,) = wheels.glob("onboard-*.whl")
    subprocess.run([*pip, "install", f"onboard[cpu,realsense,serial] @ {wheel.as_uri()}"], check=True)
    shutil.rmtree(wheels)
    size = subprocess.run(["du", "-sm", str(environment)], capture_output=True, text=True, check=True).stdout.split()[0]
    version = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    sys.stdout.write(f"{version}: {size} MB installed\n")


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
