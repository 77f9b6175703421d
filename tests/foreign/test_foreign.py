"""The robot in a physics engine that the project did not write: nightly, in about ten minutes (`make foreign`)."""

from __future__ import annotations

import pytest

pytest.importorskip("mujoco", reason="MuJoCo is the extra `foreign`; `make foreign` installs it")

from tests.foreign.drive import configured, drive_foreign
from tests.foreign.scenes import KINDS, scene

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]
DRIVES, SEED = 4, 1


@pytest.mark.parametrize("kind", KINDS)
def test_it_touches_nothing(kind: str) -> None:
    setting, where = configured(), scene(kind, SEED, DRIVES)
    drives = [drive_foreign(setting, where, one, SEED + number) for number, one in enumerate(where.episodes)]
    told = [(drive.ended, drive.contacts, drive.time_s) for drive in drives]
    assert sum(drive.contacts for drive in drives) == 0, told
