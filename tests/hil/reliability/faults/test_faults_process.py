"""Faults of the real process, over DDS on loopback: what only `onboard run` and its peers can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from hil.drive.episodes import choose
from hil.live.demo import demo_config
from hil.physics.collision_world import body_of
from hil.reliability.faults.fault import Fault
from hil.reliability.faults.run import live
from hil.reliability.faults.run.live import in_process
from hil.reliability.faults.run.processes import Drive, TooLateError
from hil.reliability.faults.run.simulated import EPISODE, MAP
from hil.reliability.faults.table import FAULTS
from hil.reliability.faults.verdict import Status
from onboard.config.config import load_config
from onboard.values.messages import Pose
from tests.rigs.network.loopback import free_domain
from tests.rigs.runtime_bench import PLANT

IN_PROCESS = [fault for fault in FAULTS if fault.process]


def test_a_fault_that_a_process_cannot_be_given_is_said(tmp_path: Path) -> None:
    other = next(fault for fault in FAULTS if not fault.process)
    verdict = in_process(other, Drive(load_config(None), [], Pose(0.0, 0.0, 0.0)), PLANT, tmp_path)
    assert verdict.status is Status.NOT_RUN
    assert "cannot be injected into a process" in verdict.happened


def test_a_robot_that_does_not_set_off_is_not_run_and_the_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a machine too busy to decide in time: the verdicts on other faults are not lost."""

    def idle(*arguments: object) -> None:
        raise TooLateError("the robot did not start to move within 60 s")

    monkeypatch.setattr(live, "_driven", idle)
    verdict = in_process(IN_PROCESS[0], Drive(load_config(None), [], Pose(0.0, 0.0, 0.0)), PLANT, tmp_path)
    assert (verdict.status, verdict.happened) == (Status.NOT_RUN, "the robot did not start to move within 60 s")


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", IN_PROCESS, ids=[fault.name for fault in IN_PROCESS])
def test_a_fault_comes_to_what_it_must_in_the_real_process(
    fault: Fault, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", str(free_domain()))
    config = demo_config(load_config(None), None)
    scenario = choose(MAP, 1, EPISODE, body_of(config.robot))
    drive = Drive(config, ["--map", MAP, "--episode", str(EPISODE)], Pose(*scenario.episode.goal_xy_m, 0.0))
    verdict = in_process(fault, drive, PLANT, tmp_path)
    assert verdict.problems == ()
    assert verdict.status is Status.PASSED
