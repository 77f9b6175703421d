"""Faults in a recording: the part that is chosen, what is altered there, and what cannot be."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hil.reliability.faults.expectations import Run
from hil.reliability.faults.fault import Fault, Need
from hil.reliability.faults.inject.schedule import Schedule
from hil.reliability.faults.observed_tick import is_stop
from hil.reliability.faults.run.excerpt import Excerpt, choose_excerpt
from hil.reliability.faults.run.recorded import in_recording, play
from hil.reliability.faults.run.simulated import ONSET_S, drive
from hil.reliability.faults.verdict import Status
from onboard.state import TickRecord
from onboard.values.errors import InputError
from onboard.values.messages import STOP, Twist
from tests.hil.reliability.faults.faults_rig import BY_NAME, ON_CLOCK, site
from tests.rigs.runtime_bench import FORWARD, Puppet, Tape

LASTS_S = 4.0
DRIVEN_S = 12.0
CLOSED = {Need.BASE, Need.CLOCK, Need.COLOR, Need.ALL_IMAGES, Need.SCANS}
"""What this recording cannot give: no colour camera was looked at, and its scans were made of images."""


def recorded(folder: Path, until_s: float = DRIVEN_S, **record: Any) -> tuple[Path, Run]:
    """Record a drive straight on."""
    here = site()
    tape = Tape(folder, here.config, **record)
    run = drive(here, here.config, Schedule(), until_s, listeners=[tape])
    return tape.close(), run


@pytest.fixture(scope="module")
def drove(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Run]:
    return recorded(tmp_path_factory.mktemp("drove"))


@pytest.fixture(scope="module")
def excerpt(drove: tuple[Path, Run]) -> Excerpt:
    return choose_excerpt(drove[0], LASTS_S)


def test_it_begins_where_the_robot_has_driven_for_a_second(excerpt: Excerpt, drove: tuple[Path, Run]) -> None:
    moving = [tick for tick in drove[1].ticks if not is_stop(tick)]
    onset_ns = excerpt.ticks[excerpt.onset].slot.start_ns
    assert onset_ns == pytest.approx(moving[0].slot.start_ns + 1e9, abs=70e6)
    assert excerpt.ticks[-1].slot.start_ns - onset_ns == pytest.approx(LASTS_S * 1e9, abs=70e6)


def test_without_a_fault_it_drives_as_recorded(excerpt: Excerpt) -> None:
    """Open loop, with images of decisions only: the same commands from the onset on, as nothing is near."""
    run = play(excerpt, excerpt.session.config, Puppet(FORWARD), Schedule())
    commands = [tick.command for tick in excerpt.ticks[excerpt.onset :]]
    assert [tick.command for tick in run.ticks[excerpt.onset :]] == commands
    assert set(commands) == {Twist(0.6, 0.0)}


ALTERED = {
    "camera_gone", "depth_nan", "scan_gone", "odometry_jumps", "time_backward", "localization_jump", "goal_nan",
    "engine_hangs", "e_stop",
}  # fmt: skip
"""One fault of each input of a tick. The others, whose rules a simulation shows too, are for `make test-long`."""
IN_RECORDING = [
    pytest.param(fault, id=fault.name, marks=[] if fault.name in ALTERED else pytest.mark.long) for fault in ON_CLOCK
]


@pytest.mark.parametrize("fault", IN_RECORDING)
def test_a_fault_comes_to_what_it_must_in_a_recording_too(fault: Fault, excerpt: Excerpt) -> None:
    verdict = in_recording(fault, excerpt, Puppet(FORWARD))
    if closed := [need.value for need in fault.needs if need in CLOSED]:
        assert (verdict.status, verdict.happened) == (Status.NOT_RUN, closed[0])
        return
    assert verdict.problems == ()
    assert verdict.status is Status.PASSED


def test_a_later_part_is_played_from_a_whole_state(drove: tuple[Path, Run]) -> None:
    later = choose_excerpt(drove[0], LASTS_S, from_s=6.0)
    assert later.t_s >= 6.0
    verdict = in_recording(BY_NAME["odometry_stopped"], later, Puppet(FORWARD))
    assert verdict.problems == ()


def test_what_the_recording_has_not_is_said(excerpt: Excerpt) -> None:
    def bare(tick: TickRecord) -> TickRecord:
        return replace(tick, inputs=replace(tick.inputs, fixes=()))

    without = replace(excerpt, ticks=[bare(tick) for tick in excerpt.ticks])
    verdict = in_recording(BY_NAME["localization_jump"], without, Puppet(FORWARD))
    assert (verdict.status, verdict.happened) == (Status.NOT_RUN, "it has no localisation")


def test_a_recording_in_which_nothing_drives_is_refused(tmp_path: Path) -> None:
    file, run = recorded(tmp_path, ONSET_S / 4)
    assert all(tick.command == STOP for tick in run.ticks)
    with pytest.raises(InputError, match=r"\.mcap: the robot does not drive, or not long enough, from 0 s on$"):
        choose_excerpt(file, LASTS_S)
