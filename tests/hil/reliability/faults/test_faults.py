"""Every fault of the table, on the simulated clock: what must happen does, and no rule is broken meanwhile."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest

from hil.reliability.faults.fault import Fault
from hil.reliability.faults.inject.schedule import Planned, Scene, Schedule
from hil.reliability.faults.run.simulated import GOAL_S, ONSET_S, at, changed, drive, in_simulation
from hil.reliability.faults.table import FAULTS
from hil.reliability.faults.verdict import Mode, Status, judge
from onboard.config.config import Config
from onboard.values.messages import STOP
from tests.hil.reliability.faults.faults_rig import BY_NAME, ON_CLOCK, by_name, site
from tests.rigs.machine.processes import ROOT

ASKED = 20
"""Faults that were asked for at least."""


def test_the_table_names_each_fault_once_and_each_can_run_somewhere() -> None:
    assert len(FAULTS) >= ASKED
    assert max(Counter(fault.name for fault in FAULTS).values()) == 1
    assert all(fault.make is not None or fault.process for fault in FAULTS)
    assert all(fault.what and fault.why and fault.must.text() for fault in FAULTS)


@pytest.mark.parametrize("fault", ON_CLOCK, ids=by_name(ON_CLOCK))
def test_a_fault_comes_to_what_it_must(fault: Fault) -> None:
    verdict = in_simulation(fault, site())
    assert verdict.problems == ()
    assert verdict.status is Status.PASSED
    assert verdict.ticks > 0 or fault.name == "drive_lost"


def test_the_rule_that_each_fault_names_is_in_a_file_that_is_there() -> None:
    named = {name for fault in FAULTS for name in re.findall(r"[\w/]+/\w+\.(?:py|toml|md)", fault.why)}
    assert len(named) > 10
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_a_fault_that_only_a_process_can_have_is_not_passed_here() -> None:
    verdict = in_simulation(BY_NAME["disk_full"], site())
    assert (verdict.status, verdict.happened) == (Status.NOT_RUN, "only a real process can have it")


#   faults that must stop a robot whose commands are ramped, and one that must not
RAMPED = ["odometry_stopped", "depth_near", "override_flood", "engine_slow", "goal_nan"]


@pytest.mark.parametrize("name", RAMPED)
def test_limits_on_acceleration_hold_under_faults(name: str) -> None:
    slow = {"acceleration_mps2": 0.8, "angular_acceleration_radps2": 3.0}
    verdict = in_simulation(BY_NAME[name], site(limits=slow))
    assert verdict.problems == ()


def test_faults_overlap_and_are_over_in_their_own_time() -> None:
    """The cameras fail; while they do, the operator's commands go wild; both are over, and the robot drives on."""
    here = site()
    scene = Scene(here.config, here.mounts)
    cameras, flood = BY_NAME["cameras_gone"], BY_NAME["override_flood"]
    planned = [
        *cameras.planned(scene, at(ONSET_S)),
        Planned(flood.make(scene), at(ONSET_S + 1.0), at(ONSET_S + 1.5)),
    ]
    run = drive(here, here.config, Schedule(planned), ONSET_S + 4.0)
    run = replace(run, onset_ns=planned[0].onset_ns, end_ns=planned[0].end_ns)
    assert judge(cameras, Mode.CLOCK, run, here.config, here.plant).problems == ()
    assert any(tick.inputs.teleop is not None for tick in run.during)


def test_a_fault_may_be_planned_while_the_robot_drives() -> None:
    """As a soak does: the schedule grows, and lets go of what is over."""
    here, schedule = site(), Schedule()

    class Drawing:
        def tick(self, record: object, counters: object) -> None:
            now_ns = record.slot.start_ns
            if not schedule.coming(now_ns) and not schedule.active(now_ns) and now_ns >= at(GOAL_S + 1.0):
                made = BY_NAME["odometry_stopped"].make(Scene(here.config, here.mounts))
                schedule.add(Planned(made, now_ns + 500_000_000, now_ns + 1_000_000_000))

    run = drive(here, here.config, schedule, 6.0, listeners=[Drawing()])
    stale = [tick for tick in run.ticks if tick.reason == "stale_odometry"]
    assert len(stale) > 20
    assert all(tick.command == STOP for tick in stale)
    assert not run.ended


def test_the_same_seed_gives_the_same_verdict() -> None:
    first, again = (in_simulation(BY_NAME["depth_noise"], site()) for _ in range(2))
    assert first == again


def test_sections_of_a_fault_change_its_configuration_alone() -> None:
    config = changed(Config(), {"odometry": {"source": "pose"}})
    assert config.odometry.source == "pose"
    assert config.model_copy(update={"odometry": Config().odometry}) == Config()
