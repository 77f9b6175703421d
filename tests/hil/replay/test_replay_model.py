"""The recorded model at another path on a desktop."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from typer.testing import CliRunner

from hil.__main__ import app
from onboard.assembly.policies import policy_maker
from onboard.config.config import Config, PolicySection
from onboard.policy.manifest import load_manifest, save_manifest, sha256_of
from tests.rigs.devices.small_model import small_policy_files
from tests.rigs.recordings.replay_rig import recorded
from tests.rigs.runtime_bench import PLANT


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["replay", *map(str, arguments)])


def moved(model: Path, target: Path) -> Path:
    """Move a model with its manifest."""
    target.parent.mkdir(parents=True, exist_ok=True)
    save_manifest(target, load_manifest(model))
    shutil.move(model, target)
    return target


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A drive; the model that drove it, no longer where it was; and another model beside that one."""
    folder = tmp_path_factory.mktemp("places")
    (folder / "robot").mkdir()
    model = small_policy_files(folder / "robot")
    section = PolicySection(model=str(model))
    policy = policy_maker(Config(policy=section), PLANT)()
    (drive,), _ = recorded(folder / "drives", policy=policy, policy_section=section)
    policy.close()
    here = moved(model, folder / "desk" / "deep" / "mine.onnx")
    other = here.with_name("another.onnx")
    proto = onnx.load(here)
    proto.graph.name = "another"
    onnx.save(proto, other)
    save_manifest(other, load_manifest(here).model_copy(update={"sha256": sha256_of(other)}))
    return drive, here, other


def test_a_model_that_is_elsewhere_is_asked_for(places: tuple[Path, Path, Path]) -> None:
    done = run(places[0])
    assert done.exit_code == 2
    assert "the recorded model is missing: " in done.stderr
    assert done.stderr.endswith("; name its place with --model\n")


def test_a_drive_with_a_fallback_replays_bit_for_bit(tmp_path: Path) -> None:
    section = PolicySection(model=str(small_policy_files(tmp_path)), fallback="reactive")
    policy = policy_maker(Config(policy=section), PLANT)()
    (drive,), _ = recorded(tmp_path / "drives", policy=policy, policy_section=section)
    policy.close()
    done = run(drive)
    assert done.exit_code == 0, done.output
    assert ", judged bit for bit, " in done.stdout
    same = []
    for other in (section.model, section.name):
        done = run(drive, "--policy", other, "--json", "-")
        assert done.exit_code == 0, done.output
        (found,) = json.loads(done.stdout)["recordings"]
        same.append(found["agreement"])
    assert same[0] < same[1] == 1.0


@pytest.mark.parametrize("levels", [0, 1, 2])
def test_its_file_or_a_folder_with_it_replays_the_drive_whole(places: tuple[Path, Path, Path], levels: int) -> None:
    drive, here, _ = places
    done = run(drive, "--model", [here, *here.parents][levels])
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith(f"{drive}: identical, ")
    assert ", judged bit for bit, " in done.stdout


def test_another_model_is_refused_unless_it_is_meant(places: tuple[Path, Path, Path]) -> None:
    drive, _, other = places
    refused = run(drive, "--model", other)
    assert refused.exit_code == 2
    assert f"{other} is not the recorded model" in refused.stderr
    meant = run(drive, "--model", other, "--force")
    assert meant.exit_code == 0, meant.output
    assert ", judged within tolerances: other model, " in meant.stdout


def test_a_folder_without_it_says_so(places: tuple[Path, Path, Path], tmp_path: Path) -> None:
    drive, here, other = places
    shutil.copy(other, tmp_path / "another.onnx")
    save_manifest(tmp_path / "another.onnx", load_manifest(other))
    done = run(drive, "--model", tmp_path)
    assert done.exit_code == 2
    sha256 = load_manifest(here).sha256[:12]
    assert f"(sha256 {sha256}), which is not among the 1 models in {tmp_path}" in done.stderr.replace("\n", "")
    assert run(drive, "--model", tmp_path / "nothing").exit_code == 2


def test_faults_of_a_recording_find_it_too(places: tuple[Path, Path, Path]) -> None:
    drive, here, _ = places
    command = ["faults", str(drive), "--only", "odometry_stopped"]
    lost = CliRunner().invoke(app, command)
    assert str(lost.exception).endswith("; name its place with --model")
    found = CliRunner().invoke(app, [*command, "--model", str(here.parent)])
    assert "recorded model" not in found.output + str(found.exception)
    assert " 0 failed, " in found.output
