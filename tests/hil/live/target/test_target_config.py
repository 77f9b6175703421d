"""The two configurations of one network: what each end says, and what the target needs beside its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from hil.commands.judge.target import (
    Network,
    desktop_section,
    target_config,
    write_target,
)
from onboard.assembly.assembly import check_files
from onboard.config.config import DEFAULT_ROBOT, Config, DdsSection, load_config
from onboard.values.errors import InputError, OnboardError
from tests.rigs.devices.small_model import small_policy_files

DEFAULT = load_config(None)
WIRED = DdsSection(interface="eth0", peers=["10.0.0.9"], domain=4)


def test_a_target_elsewhere_needs_an_interface() -> None:
    with pytest.raises(InputError, match=r"--target: over which interface\? Set --interface"):
        desktop_section(DdsSection(), Network("10.0.0.7"))


def test_the_other_end_talks_to_us_over_its_own_interface() -> None:
    given = DEFAULT.model_copy(update={"dds": WIRED})
    theirs = target_config(given, "reactive", Network("127.0.0.1", "eth0", "can0"))  # the way to it is known everywhere
    assert (theirs.dds.interface, theirs.dds.peers) == ("can0", ["127.0.0.1"])
    assert (theirs.dds.domain, theirs.dds.resend) == (4, True)
    assert (theirs.cameras.source, theirs.cameras.color, theirs.odometry.input) == ("dds", "dds", "dds")
    assert theirs.rates == given.rates, "the runtime is alone on its machine"


def written(folder: Path, config: Config) -> tuple[str, Config]:
    file = write_target(config, folder / "new" / "target.toml")
    return file.read_text(), load_config(file)


def test_of_the_default_robot_only_the_network_is_written(tmp_path: Path) -> None:
    text, read = written(tmp_path, target_config(DEFAULT, "onboard-s", Network()))
    assert [line for line in text.splitlines() if line.startswith("[")] == ["[policy]", "[dds]"]
    assert read.policy.model == "onboard-s"
    assert read.rates == DEFAULT.rates
    assert read.robot == Config().robot
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["target.toml"]


def test_files_of_ones_own_are_copied_beside_it_and_found_from_there(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    for name in ("mounts.toml", "plant.toml"):
        shutil.copy(DEFAULT_ROBOT / name, own / f"my_{name}")
    model = small_policy_files(own)
    robot: dict[str, Any] = {"name": "x", "mounts": own / "my_mounts.toml", "plant": own / "my_plant.toml"}
    given = DEFAULT.model_copy(update={"robot": DEFAULT.robot.model_copy(update=robot)})
    _, read = written(tmp_path, target_config(given, str(model), Network()))
    shutil.rmtree(own)
    check_files(read)
    assert (read.robot.name, read.robot.mounts) == ("x", tmp_path / "new" / "my_mounts.toml")
    assert Path(read.policy.model) == tmp_path / "new" / model.name


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OnboardError, match=r"file.*: cannot be written: "):
        write_target(target_config(DEFAULT, None, Network()), tmp_path / "file" / "target.toml")
