"""Run the commands of README and docs from a wheel, outside the clone, with the extras of `make setup`.

    document_commands.py [PYTHON...]      interpreters to try; the one that runs this when none is given

A command is what stands in the document; words are added only to make it short. It fails for a command that no longer
stands there, for another exit code, and for a traceback. A command that needs one more extra first runs without: it
must exit with 2 and name the extra.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
MY_ROBOT = "my_robot/onboard.toml"
EXTRAS = "cpu,realsense,serial,wrap"
REFUSED = 2
LIMIT_S = 1800
"""Of each command; longer is exit code 124."""
TUTORIAL, IN_TUTORIAL = "tutorial", ("docs/tutorial.md", "docs/operator.md")
"""A folder of its own, for the documents that have the tutorial's robot."""
DEPTH_PNG = "from PIL import Image; Image.new('I;16', (80, 60), 1500).save('depth.png')"

UNTIL_INTERRUPTED = "& it=$!; sleep 20; kill -INT $it; wait $it"

#   document              command, as it stands there                                     added       exit code, extra
COMMANDS = (
    ("README.md",          "onboard-hil demo",                                            "--out demo", 0, ""),
    ("README.md",          "onboard init my_robot",                                       "</dev/null", 0, ""),
    ("README.md",          f"onboard check-config --config {MY_ROBOT} --files-only",       "",           0, ""),
    ("README.md",          f"onboard cameras --config {MY_ROBOT}",                        "",           0, ""),
    ("README.md",          "onboard-hil replay $run",                                     "",           0, ""),
    ("README.md",          "onboard-hil report $run --out run.html",                      "",           0, ""),
    ("README.md",          "onboard-hil replay $run --policy onboard-s",                  "",           0, ""),
    ("docs/robot.md",      "onboard scan --mounts my_robot/mounts.toml --camera front=depth.png",
     "--plot scan.png", 0, "plots"),
    ("docs/evaluation.md", "onboard-hil evaluate --policy reactive --jobs 2 --json result.json",
     "--map home --episodes 2", 0, ""),
    ("docs/evaluation.md", "onboard-hil evaluate --policy onboard-v2 --set unseen --condition paper --jobs 2",
     "--episodes 1", 0, ""),
    ("docs/evaluation.md", "onboard-hil baselines --jobs 2 --markdown", "--map home --episodes 1", 0, ""),
    ("docs/calibration.md", "onboard-calib drive-pattern --ahead 3 --behind 2 --left 2 --right 2 --dry-run", "", 0, ""),
    ("docs/calibration.md", "onboard-calib board --squares 7x5 --square-m 0.04 --draw board.pdf", "", 0, "calib"),
    ("docs/tutorial.md",   "mkdir my_robot && cp hil/maps/data/depot.* my_robot",         "",           0, ""),
    ("docs/tutorial.md",   "onboard init my_robot --no-ask --set map.file=depot.yaml --set policy.model=mapped",
     "", 0, ""),
    ("docs/tutorial.md",   f"onboard check-config --config {MY_ROBOT} --files-only",       "",           0, ""),
    ("docs/tutorial.md",   f"onboard dashboard --config {MY_ROBOT} --allow-control", UNTIL_INTERRUPTED, 0, "dashboard"),
    ("docs/operator.md",   f"onboard dashboard --config {MY_ROBOT}",                 UNTIL_INTERRUPTED, 0, ""),
    ("docs/operator.md",   "onboard dashboard --host 0.0.0.0 --allow-control",       UNTIL_INTERRUPTED, 0, ""),
    ("docs/operator.md",   f"onboard foxglove --config {MY_ROBOT}",                  UNTIL_INTERRUPTED, 0, "foxglove"),
    ("docs/tools.md",      "onboard-hil import", "$run --config my_robot/onboard.toml --out drive.mcap", 0, "bags"),
)  # fmt: skip


def main() -> int:
    """Run them in an empty folder, one after another. Exit code 1: something failed."""
    failed = 0
    for python in sys.argv[1:] or [sys.executable]:
        with tempfile.TemporaryDirectory() as whole:
            folder, environment = Path(whole, "work"), Path(whole, "environment")
            for part in (folder, folder / TUTORIAL):
                part.mkdir()
                for name in ("onboard", "docs", "hil"):
                    (part / name).symlink_to(ROOT / name)
            wheel = install(python, environment)
            subprocess.run([str(environment / "bin" / "python"), "-c", DEPTH_PNG], cwd=folder, check=True)
            for document, command, added, code, extra in COMMANDS:
                words = f"run=$(ls -t recordings/*.mcap 2>/dev/null | head -1); {command} {added}"
                script = f"PATH={environment / 'bin'}:$PATH; {words}"
                problem, place = "", str(folder / TUTORIAL if document in IN_TUTORIAL else folder)
                if extra:
                    problem = run(document, command, script, place, REFUSED, f"onboard[{extra}]")
                    pip_install(environment, f"onboard[{extra}] @ {wheel.as_uri()}")
                problem += run(document, command, script, place, code)
                failed += bool(problem)
                sys.stdout.write(f"{'FAILED' if problem else 'passed'}  {document}: {command} {added}\n{problem}")
                sys.stdout.flush()
    return int(failed > 0)


def install(python: str, environment: Path) -> Path:
    """Make a virtual environment with nothing but this wheel and its extras; return the wheel."""
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    wheels = environment.parent / "wheels"
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(ROOT)], check=True)
    (wheel,) = wheels.glob("onboard-*.whl")
    pip_install(environment, f"onboard[{EXTRAS}] @ {wheel.as_uri()}")
    size = subprocess.run(["du", "-sm", str(environment)], capture_output=True, text=True, check=True).stdout.split()[0]
    version = subprocess.run([python, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    sys.stdout.write(f"{version}: {size} MB installed\n")
    return wheel


def pip_install(environment: Path, what: str) -> None:
    """Install as `make setup` does."""
    pip = [str(environment / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "--no-compile", what], check=True)


def run(document: str, command: str, script: str, folder: str, code: int, reported: str = "") -> str:
    """Return what went wrong, empty for nothing. reported: words that standard error must have."""
    if command not in (ROOT / document).read_text(encoding="utf-8") and command != "onboard-hil demo":
        return f"    {document} has no such command: change the table in .ci/document_commands.py\n"
    words = ["timeout", str(LIMIT_S), shutil.which("bash") or "bash", "-c", script]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == code and "Traceback" not in done.stderr and reported in done.stderr:
        return ""
    return f"    exit code {done.returncode}, expected {code} {reported}\n{done.stdout[-2000:]}{done.stderr[-4000:]}\n"


if __name__ == "__main__":
    sys.exit(main())
