"""A rehearsal is an ordinary recording: its ticks, its images, its imperfect wheels, no true mounts."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from calib.cameras.rehearsal import Rehearsal, rehearse
from hil.recordings.recording import open_recording
from hil.recordings.ticks import ticks_of
from onboard.config.config import DEFAULT_ROBOT
from onboard.config.mounts import load_mounts
from onboard.state import TickRecord
from onboard.values.errors import InputError

TRUE = DEFAULT_ROBOT / "mounts.toml"


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Rehearsal]:
    out = tmp_path_factory.mktemp("rehearsal") / "rehearsal.mcap"
    return out, rehearse(TRUE, "home", 3, out)


@pytest.fixture(scope="module")
def ticks(rehearsed: tuple[Path, Rehearsal]) -> list[TickRecord]:
    with open_recording(rehearsed[0]) as recording:
        return list(ticks_of(recording))


def test_it_turns_and_drives_and_touches_nothing(rehearsed: tuple[Path, Rehearsal], ticks: list[TickRecord]) -> None:
    result = rehearsed[1]
    assert not result.touched
    assert result.ticks == len(ticks)
    assert result.turned_rad > 4.0 * math.pi
    assert result.driven_m > 5.0


def test_the_recorded_mounts_are_not_the_true_ones(rehearsed: tuple[Path, Rehearsal]) -> None:
    with open_recording(rehearsed[0]) as recording:
        for name, mount in load_mounts(TRUE).depth.items():
            off_m = recording.mounts.depth[name].base_from_camera[:3, 3] - mount.base_from_camera[:3, 3]
            assert 0.005 < np.linalg.norm(off_m) < 0.1


def test_a_file_that_is_there_stays(tmp_path: Path) -> None:
    out = tmp_path / "precious.mcap"
    out.write_bytes(b"precious")
    with pytest.raises(InputError, match="exists already"):
        rehearse(TRUE, "home", 3, out)
    assert out.read_bytes() == b"precious"
