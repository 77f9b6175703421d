"""The version of a build: of the tag, of an sdist without git, of a bare copy."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.version import Version

from tests.system.test_site import script

versions = script("version")


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("no git here")
    git(tmp_path, "init", "--quiet")
    commit(tmp_path)
    return tmp_path


def git(folder: Path, *words: str) -> None:
    named = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(["git", "-C", str(folder), *named, *words], check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "commit", "--allow-empty", "--quiet", "-m", "Change")


def test_a_tag_is_the_version_and_later_commits_are_after_it(clone: Path) -> None:
    untagged = versions.version(clone)
    assert untagged.startswith("0.1.0.dev1+g")
    git(clone, "tag", "-a", "v0.2.0", "-m", "x")
    assert versions.version(clone) == "0.2.0"
    git(clone, "tag", "nightly-3")
    commit(clone)
    later = versions.version(clone)
    assert later.startswith("0.2.0.post1+g")
    assert Version(untagged) < Version("0.1.0") < Version("0.2.0") < Version(later) < Version("0.2.1")


def test_an_sdist_has_its_version_in_it_and_a_bare_copy_has_the_first(
    clone: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (clone / "PKG-INFO").write_text("Metadata-Version: 2.4\nName: onboard\nVersion: 1.2.3\n\nVersion: 9\n")
    assert versions.version(clone) == "1.2.3"
    assert versions.version(tmp_path_factory.mktemp("bare")) == "0.1.0.dev0"
