"""Which wheels are taken, and what names a version."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

from onboard.commands.install import venv as building
from onboard.commands.install.layout import Layout
from onboard.commands.install.run_program import run_tool
from onboard.commands.install.venv import build, check_python, check_room
from onboard.commands.install.wheel import LOCK_IN_WHEEL, Choice, build_wheel, lock_of, older, read_wheel
from onboard.config.toml_file import tomllib
from onboard.values.errors import InputError
from tests.rigs.machine.install_rig import ROOT, wheel

CHOICE = Choice("cpu", None, False, Path(sys.executable))


def cut(folder: Path) -> Path:
    path = wheel(folder, "0.2.0")
    path.write_bytes(path.read_bytes()[:300])
    return path


def renamed(folder: Path) -> Path:
    return wheel(folder, "0.2.0").rename(folder / "x.whl")


#   name, how it is made, complaint
REFUSED: list[tuple[str, Callable[[Path], Path], str]] = [
    ("missing", lambda folder: folder / "none.whl", "cannot be read: No such file"),
    ("a folder", lambda folder: folder, "cannot be read: Is a directory"),
    ("cut off", cut, "is not a wheel: File is not a zip file"),
    ("without its name", renamed, "is not a wheel: Invalid wheel filename"),
    ("another package", lambda folder: wheel(folder, "1.0", name="numpy"), "is a wheel of 'numpy', not of 'onboard'"),
    ("without a unit", lambda folder: wheel(folder, "0.2.0", unit=None), "has no onboard.service"),
    ("no version", lambda folder: wheel(folder, "newest"), "is not a wheel: Invalid wheel filename"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "complaint"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_is_no_wheel_of_ours_is_refused_in_one_line(
    make: Callable[[Path], Path], complaint: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as caught:
        read_wheel(make(tmp_path), CHOICE)
    assert complaint in str(caught.value)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_same_wheel_and_choice_name_the_same_version_and_others_another(tmp_path: Path) -> None:
    path, lock = wheel(tmp_path, "0.2.0"), tmp_path / "lock.txt"
    lock.write_text("numpy==2.0 --hash=sha256:00\n")
    first = read_wheel(path, CHOICE)
    moved = tmp_path / "elsewhere" / path.name
    moved.parent.mkdir()
    shutil.copyfile(path, moved)
    assert read_wheel(moved, CHOICE).name == first.name
    assert first.name.startswith("0.2.0-")
    others = [replace(CHOICE, extras=""), replace(CHOICE, lock=lock), replace(CHOICE, system_packages=True)]
    names = {read_wheel(path, choice).name for choice in [CHOICE, *others]}
    names.add(read_wheel(wheel(tmp_path / "b", "0.2.0", "ends"), CHOICE).name)
    assert len(names) == 5


#   one       other       comes before
ORDERED = [("0.9.0", "0.10.0"), ("1.0rc1", "1.0"), ("1.0", "1.0.post1"), ("1.0.dev3", "1.0a1")]


@pytest.mark.parametrize(("one", "other"), ORDERED)
def test_releases_are_compared_as_releases(one: str, other: str) -> None:
    assert older(one, other)
    assert not older(other, one)
    assert not older(one, one)


def test_a_source_folder_without_a_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a wheel nor a source folder"):
        build_wheel(tmp_path, tmp_path)


def test_an_interpreter_that_the_service_cannot_see_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="not an executable program"):
        check_python(tmp_path / "python")
    copied = tmp_path / "python"
    shutil.copy(sys.executable, copied)
    monkeypatch.setattr(building, "HIDDEN", (tmp_path.resolve(),))
    with pytest.raises(InputError, match="which the service cannot access"):
        check_python(copied)


def test_a_disk_without_room_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "NEEDED_FREE_MB", 10**12)
    with pytest.raises(InputError, match=r"MB free, 1000000000000 MB are needed"):
        check_room(tmp_path / "not" / "there")
    layout = Layout(tmp_path)
    with pytest.raises(InputError, match="are needed"):
        build(layout, read_wheel(wheel(tmp_path, "0.2.0"), CHOICE), CHOICE)
    assert not layout.versions.exists()


def test_what_cannot_be_built_leaves_nothing(tmp_path: Path) -> None:
    layout, choice = Layout(tmp_path), replace(CHOICE, wheels=tmp_path)
    with pytest.raises(InputError, match="cannot be installed: ERROR"):
        build(layout, read_wheel(wheel(tmp_path, "0.2.0", needs="no-such-package-of-ours"), choice), choice)
    assert list(layout.versions.iterdir()) == []


RIGHT, WRONG, NOTHING = "other==1.0 --hash=sha256:{}\n", "other==1.0 --hash=sha256:" + "0" * 64 + "\n", "# nothing\n"

#   lock in the wheel   lock given   unlocked   becomes a version
LOCKS = [
    (None, None, False, True),
    (RIGHT, None, False, True),
    (WRONG, None, False, False),
    (NOTHING, None, False, False),
    (None, RIGHT, False, True),
    (None, WRONG, False, False),
    (WRONG, RIGHT, False, True),
    (RIGHT, WRONG, False, False),
    (WRONG, None, True, True),
]


@pytest.mark.parametrize(("own", "given_lock", "unlocked", "whole"), LOCKS)
def test_a_lock_lets_in_what_has_its_hash_and_nothing_else(
    own: str | None,
    given_lock: str | None,
    unlocked: bool,
    whole: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(building, "NEEDED_FREE_MB", 0)
    other = wheel(tmp_path / "others", "1.0", name="other")
    digest = hashlib.sha256(other.read_bytes()).hexdigest()
    lock, layout = tmp_path / "lock.txt", Layout(tmp_path)
    if given_lock is not None:
        lock.write_text(given_lock.format(digest))
    choice = replace(
        CHOICE, lock=lock if given_lock is not None else None, unlocked=unlocked, wheels=tmp_path / "others"
    )
    path = wheel(tmp_path, "0.2.0", needs="other", lock=None if own is None else own.format(digest))
    with nullcontext() if whole else pytest.raises(InputError, match="with the versions and hashes"):
        build(layout, read_wheel(path, choice), choice)
    assert {path.name for path in layout.versions.rglob("*.dist-info")} == (
        {"other-1.0.dist-info", "onboard-0.2.0.dist-info"} if whole else set()
    )


def test_a_lock_and_none_or_a_folder_that_is_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="use only one of them"):
        replace(CHOICE, lock=tmp_path / "lock.txt", unlocked=True)
    with pytest.raises(InputError, match=r"--wheels .*none: there is no such folder"):
        replace(CHOICE, wheels=tmp_path / "none")
    with pytest.raises(InputError, match=r"lock\.txt: cannot be read"):
        lock_of(read_wheel(wheel(tmp_path, "0.2.0"), CHOICE), replace(CHOICE, lock=tmp_path / "lock.txt"))


def test_a_wheel_that_is_damaged_inside_leaves_nothing(tmp_path: Path) -> None:
    path, layout = wheel(tmp_path, "0.2.0"), Layout(tmp_path)
    data = bytearray(path.read_bytes())
    begin = 30 + data[26]  # what the first file was deflated to
    data[begin : begin + 6] = b"\xff" * 6
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="cannot be installed: "):
        build(layout, read_wheel(path, CHOICE), CHOICE)
    assert list(layout.versions.iterdir()) == []


def test_the_lock_of_this_tree_goes_with_its_wheel() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shared = project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert PurePosixPath(f"onboard-1.data/data/{shared['requirements.lock']}").match(LOCK_IN_WHEEL)


def test_a_tool_that_takes_too_long_ends_with_all_that_it_has_started(tmp_path: Path) -> None:
    alive = tmp_path / "alive"
    child = f"while true; do touch {alive}; sleep 0.01; done"
    with pytest.raises(InputError, match=r"too slow: timed out after 0\.5 s"):
        run_tool(["sh", "-c", f"sh -c '{child}' & wait"], "too slow", 0.5)
    alive.unlink()
    with pytest.raises(InputError, match="again"):
        run_tool(["sh", "-c", "sleep 10"], "again", 0.5)
    assert not alive.exists()


def test_a_tool_sees_nothing_of_what_the_environment_says_to_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/opt/ros/humble/lib/python3.10/site-packages")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    run_tool(["sh", "-c", 'test -z "$PYTHONPATH" && test -n "$PIP_NO_INDEX"'], "it sees PYTHONPATH")
