"""The cache of compiled kernels: a changed callee or constant recompiles its callers; no folder, no cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from onboard.values.kernel import KEPT, SignatureFiles, cache_root, sources_digest

ROOT = Path(__file__).parents[3]
CALLEE = """
from onboard.values.kernel import kernel
from onboard.limit import LIMIT
@kernel
def inner(x):
    return x * {factor} + LIMIT
"""
CALLER = """
from onboard.callee import inner
from onboard.values.kernel import kernel
@kernel
def outer(x):
    return inner(x)
"""


def tree(folder: Path) -> Path:
    """Return a small copy of the package with a kernel that calls a kernel of another file."""
    values = folder / "onboard" / "values"
    values.mkdir(parents=True)
    for name in ("onboard/__init__.py", "onboard/values/__init__.py", "onboard/values/kernel.py"):
        shutil.copyfile(ROOT / name, folder / name)
    (folder / "onboard" / "callee.py").write_text(CALLEE.format(factor=2))
    (folder / "onboard" / "limit.py").write_text("LIMIT = 0\n")
    (folder / "onboard" / "caller.py").write_text(CALLER)
    return folder


def says(folder: Path, **environment: str) -> str:
    """Return the result of `outer(10)` in a new process."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")}
    program = "from onboard.caller import outer; print(outer(10), sum(outer.stats.cache_hits.values()))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={**inherited, "HOME": str(folder / "home"), "PYTHONPATH": str(folder), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_changed_callee_and_a_changed_constant_are_seen_by_the_caller(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    assert says(folder) == "20 0"
    assert says(folder) == "20 1", "the second process takes it from the cache"
    (folder / "onboard" / "callee.py").write_text(CALLEE.format(factor=3))
    assert says(folder) == "30 0"
    (folder / "onboard" / "limit.py").write_text("LIMIT = 5\n")
    assert says(folder) == "35 0"
    assert (folder / "home" / ".cache" / "onboard" / "numba").is_dir()


def test_the_same_sources_installed_elsewhere_later_are_not_compiled_again(tmp_path: Path) -> None:
    """`onboard install` puts each release into a folder of its own, with new times of its files."""
    first, second = tree(tmp_path / "0.1.0"), tree(tmp_path / "0.2.0")
    cache = str(tmp_path / "cache")
    os.utime(second / "onboard" / "caller.py", (1, 1))
    assert says(first, NUMBA_CACHE_DIR=cache) == "20 0"
    assert says(second, NUMBA_CACHE_DIR=cache) == "20 1"


def test_where_nothing_can_be_written_there_is_no_cache(tmp_path: Path) -> None:
    assert says(tree(tmp_path), NUMBA_CACHE_DIR="/proc/nowhere") == "20 0"


def test_each_signature_has_a_file_of_its_own_in_whatever_order_processes_write(tmp_path: Path) -> None:
    """By numba's index both of these got the number 1, and a third process ran the code of the other signature."""
    one, other = (SignatureFiles(str(tmp_path), "inner", stamp) for stamp in (5, 5))
    first, second = ("int32", "cpu"), ("int64", "cpu")
    assert one.load(first) is None
    other.save(second, "code of int64")
    one.save(first, "code of int32")
    third = SignatureFiles(str(tmp_path), "inner", 5)
    assert [third.load(key) for key in (first, second, ("int16", "cpu"))] == ["code of int32", "code of int64", None]
    assert SignatureFiles(str(tmp_path), "inner", 6).load(first) is None, "another state of the source"


@pytest.mark.parametrize("damage", ["of another signature", "empty", "zeros"])
def test_a_file_that_is_not_the_code_of_its_signature_is_compiled_anew(damage: str, tmp_path: Path) -> None:
    files = SignatureFiles(str(tmp_path), "inner", 5)
    files.save("int64", "code of int64")
    (right,) = tmp_path.iterdir()
    others = {"of another signature": right.read_bytes(), "empty": b"", "zeros": bytes(100)}
    files.save("int32", "code of int32")
    (wrong,) = set(tmp_path.iterdir()) - {right}
    wrong.write_bytes(others[damage])
    assert files.load("int32") is None
    assert files.load("int64") == "code of int64"


def test_processes_that_compile_one_cache_at_once_get_their_own_code(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    program = "from onboard.caller import outer; print([outer(k) for k in ({})])"
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(folder)}
    for orders in (("10, 1.5", "1.5, 10", "1j, 10", "10, 1j, 1.5"), ("1.5, 1j, 10",)):
        began = [
            subprocess.Popen(
                [sys.executable, "-c", program.format(order)], cwd=folder, env=environment, stdout=subprocess.PIPE
            )
            for order in orders
        ]
        said = [one.communicate()[0].decode().strip() for one in began]
        assert said == [str([2 * complex(k) if "j" in k else 2 * float(k) if "." in k else 2 * int(k)
                             for k in order.split(", ")]) for order in orders]  # fmt: skip


def test_old_folders_go_when_there_are_many(tmp_path: Path) -> None:
    folder = tree(tmp_path)
    cache = folder / "cache"
    for number in range(KEPT + 3):
        (cache / f"old{number}").mkdir(parents=True)
    says(folder, NUMBA_CACHE_DIR=str(cache))
    assert len(list(cache.iterdir())) == KEPT
    assert (cache / sources_digest(folder)).is_dir()


#   environment                                          root
ROOTS = [
    ({"NUMBA_CACHE_DIR": "/a", "HOME": "/h"},             Path("/a")),
    ({"XDG_CACHE_HOME": "/x", "HOME": "/h"},              Path("/x/onboard/numba")),
    ({"HOME": "/h"},                                      Path("/h/.cache/onboard/numba")),
    ({"NUMBA_CACHE_DIR": "", "HOME": ""},                 None),
]  # fmt: skip


@pytest.mark.parametrize(("environment", "root"), ROOTS)
def test_where_the_cache_lies(environment: dict[str, str], root: Path | None) -> None:
    assert cache_root(environment) == root


def test_the_import_leaves_scipy_out_and_a_matrix_product_still_compiles() -> None:
    program = """
import sys
import numpy as np
from onboard.values.kernel import kernel, numba
before = "scipy.linalg" in sys.modules
product = numba.njit(lambda a, b: a @ b)
print(before, product(2.0 * np.eye(2), np.ones((2, 2))).tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False [[2.0, 2.0], [2.0, 2.0]]"
