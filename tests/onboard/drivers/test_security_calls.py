"""Nothing that runs what it reads: no pickles, no shell, no eval; and dependencies are locked with their hashes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from onboard.config.toml_file import read_toml

ROOT = Path(__file__).parents[3]
PACKAGES = ("onboard", "engines", "calib", "hil")
FILES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
LOCKED_EXTRAS = ("cpu", "realsense", "serial", "secure")
NAME = re.compile(r"[A-Za-z0-9._-]+")

#   call                 what makes it harmless: a keyword and its value; None is nothing
FORBIDDEN = {
    "pickle.load": None,
    "pickle.loads": None,
    "marshal.loads": None,
    "shelve.open": None,
    "joblib.load": None,
    "eval": None,
    "exec": None,
    "os.system": None,
    "os.popen": None,
    "yaml.load": None,
    "yaml.unsafe_load": None,
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
}


def complaints(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and name of every call that could run what it reads."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name, keywords = ast.unparse(node.func), {word.arg: word.value for word in node.keywords}
        shell = keywords.get("shell")
        named = name == "get_completion_script"  # the name of a shell, for a text
        if shell is not None and not named and not (isinstance(shell, ast.Constant) and shell.value is False):
            yield node.lineno, f"{name}(shell=...)"
        if name in FORBIDDEN:
            safe = FORBIDDEN[name]
            given = keywords.get(safe[0]) if safe else None
            if safe is None or not (isinstance(given, ast.Constant) and given.value is safe[1]):
                yield node.lineno, name


def test_nothing_is_read_that_could_run():
    found = [f"{file.relative_to(ROOT)}:{line}: {what}" for file in FILES for line, what in
             complaints(ast.parse(file.read_text()))]  # fmt: skip
    assert found == []


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("pickle.loads(data)", 1),
        ("subprocess.run('ls', shell=True)", 1),
        ("subprocess.run(['ls'], shell=False)", 0),
        ("np.load(file)", 1),
        ("np.load(file, allow_pickle=False)", 0),
        ("torch.load(file, weights_only=True)", 0),
        ("torch.load(file, weights_only=False)", 1),
        ("yaml.safe_load(text)", 0),
    ],
)
def test_the_check_finds_what_it_is_for(source, count):
    assert len(list(complaints(ast.parse(source)))) == count


def locked() -> dict[str, list[str]]:
    """Return the hashes of each package in the lock, by its normalised name."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        if match := re.match(r"([A-Za-z0-9._-]+)==\S+", line):
            name = match[1].lower().replace("_", "-")
            found.setdefault(name, [])
        elif match := re.match(r"\s+--hash=(sha256:[0-9a-f]{64})", line):
            found[name].append(match[1])
    return found


def test_every_dependency_of_the_robot_is_locked_with_hashes():
    project = read_toml(ROOT / "pyproject.toml")["project"]
    wanted = [*project["dependencies"], *(
        one for extra in LOCKED_EXTRAS for one in project["optional-dependencies"][extra]
    )]  # fmt: skip
    names = {NAME.match(one)[0].lower().replace("_", "-") for one in wanted}
    assert names - set(locked()) == set(), "run `make lock`"
    assert [name for name, hashes in locked().items() if not hashes] == []


def test_the_lock_names_no_index():
    assert "://" not in (ROOT / "requirements.lock").read_text()
