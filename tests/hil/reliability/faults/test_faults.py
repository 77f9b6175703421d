"""Every fault of the table, on the simulated clock: required reaction does, and no rule is broken meanwhile."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from hil.reliability.faults.fault import Fault
from hil.reliability.faults.run.simulated import changed, in_simulation
from hil.reliability.faults.table import FAULTS
from hil.reliability.faults.verdict import Status
from onboard.config.config import Config
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
    assert (verdict.status, verdict.happened) == (Status.NOT_RUN, "it can be injected only into a real process")


#   faults that must stop a robot whose commands are ramped, and one that must not
RAMPED = ["odometry_stopped", "depth_near", "override_flood", "engine_slow", "goal_nan"]


@pytest.mark.parametrize("name", RAMPED)
def test_limits_on_acceleration_hold_under_faults(name: str) -> None:
    slow = {"acceleration_mps2": 0.8, "angular_acceleration_radps2": 3.0}
    verdict = in_simulation(BY_NAME[name], site(limits=slow))
    assert verdict.problems == ()


def test_the_same_seed_gives_the_same_verdict() -> None:
    first, again = (in_simulation(BY_NAME["depth_noise"], site()) for _ in range(2))
    assert first == again


def test_sections_of_a_fault_change_its_configuration_alone() -> None:
    config = changed(Config(), {"odometry": {"source": "pose"}})
    assert config.odometry.source == "pose"
    assert config.model_copy(update={"odometry": Config().odometry}) == Config()
