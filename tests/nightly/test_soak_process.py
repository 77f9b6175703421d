"""A soak of the real process over DDS, in real time: what the simulated clock in one process leaves out.

`onboard run` and the simulated robot are processes, with DDS, inference thread, recorder and journal at their own
pace. The runtime's resources are measured from outside.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from itertools import cycle
from pathlib import Path

import pytest

from hil.live.demo import demo_config
from hil.live.target.goals import GoalSequence, choose_place
from hil.physics.collision_world import body_of
from hil.reliability.faults.invariants import Monitor
from hil.reliability.faults.run.live import MEDDLES
from hil.reliability.faults.run.processes import Drive, Stand
from onboard.config.config import load_config
from onboard.config.plant_model import load_plant
from onboard.drivers.dds.participant import Wire
from onboard.drivers.dds.ros_types import Bool
from onboard.values.messages import Pose
from tests.nightly.growth import Held, growth, held_by
from tests.rigs.network.loopback import free_domain

WALL_S = 60.0 * float(os.environ.get("SOAK_MINUTES", "10"))
EVERY_S, LASTS_S, LOOK_S, SAMPLE_S = 30.0, 2.0, 0.2, 5.0
NAMES = ("memory_mib", "files", "threads")
MAP = "gdc1"


def visit(stand: Stand, lasts_s: float) -> tuple[int, int]:
    """Join DDS, write to the topics that allow several writers, and leave."""
    onset_ns = time.monotonic_ns()
    somebody = Wire(stand.config.dds)
    try:
        for topic in ("e_stop", "obstacle"):
            somebody.writer(topic).write(Bool(False))
        stand.watch(lasts_s)
    finally:
        somebody.close()
    return onset_ns, time.monotonic_ns()


FAULTS = {
    "loop_blocked": MEDDLES["pause"],
    "visitor": visit,
    "override_flood": MEDDLES["flood"],
    "peer_gone": MEDDLES["peer"],
}
"""Faults in turn. Two are left out: a full disk ends the recording, and an e-stop without its sender ends the drive."""


@pytest.mark.long
@pytest.mark.timeout(4 * 3600)
def test_minutes_of_the_real_process_under_each_fault(tmp_path: Path) -> None:
    given = demo_config(load_config(None), None)
    record = given.record.model_copy(update={"directory": tmp_path / "recordings"})
    config = given.model_copy(update={"dds": given.dds.model_copy(update={"domain": free_domain()}), "record": record})
    place = choose_place(MAP, 1, body_of(config.robot))
    goals, monitor = GoalSequence(place), Monitor(config, load_plant(config.robot.plant))
    drive = Drive(config, ["--map", MAP, "--seed", "1"], Pose(*place.episodes[0].goal_xy_m, 0.0))
    stand = Stand(drive, tmp_path)
    broken, done, samples, commands = [], Counter[str](), list[Held](), 0
    try:
        stand.set_off()
        began_s, fault_s, faults = time.monotonic(), EVERY_S, cycle(FAULTS.items())
        while (wall_s := time.monotonic() - began_s) < WALL_S:
            stand.watch(LOOK_S)
            stand.runtime.check()
            ticks, stand.ticks = stand.ticks, []
            commands += len(ticks)
            broken += [violation for tick in ticks for violation in monitor.watch(tick)]
            if not samples or wall_s - samples[-1].robot_s >= SAMPLE_S:
                samples.append(held_by(stand.runtime.pid, wall_s))
            goal = goals.next_goal(stand.state, time.monotonic_ns())
            if goal is not None:
                stand.ask(Pose(*goal, 0.0), config.dds.map_frame)
            if wall_s >= fault_s:
                name, meddle = next(faults)
                fault_s += EVERY_S
                meddle(stand, LASTS_S)
                done[name] += 1
    finally:
        result = stand.end()
    assert result, "the runtime left no word at its end"
    grown = growth(samples, NAMES)
    print(f"{commands} commands, {goals.sent} goals, {goals.reached} reached; {dict(done)}", *grown, sep="\n")
    assert broken == []
    assert commands > 20 * WALL_S / 2
    assert goals.reached > 0
    assert grown
    assert [row for row in grown if not row.held] == []
