"""A whole measurement over real DDS within one process: how it ends, and that the base stands at its end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pytest

from hil.drive.robot import Senses, SimulatedRobot
from hil.live.target import phases, run
from hil.live.target.goals import Place
from hil.live.target.phases import COMPLETE, INTERRUPTED, Stage
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from onboard.config.config import RatesSection
from onboard.drivers.dds.participant import Wire
from onboard.runtime import Runtime
from onboard.values.errors import DriverError
from onboard.values.messages import Pose
from tests.hil.live.target.target_rig import target
from tests.rigs.network.loopback import SECTION, free_domain
from tests.rigs.rooms import room
from tests.rigs.runtime_bench import LEFT, MOUNTS, PLANT, Puppet

START = Pose(2.0, 2.0, 0.0)
COUNT = 12
RATES = RatesSection()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(phases, "WARM_UP", 3)
    monkeypatch.setattr(phases, "SILENT_S", 2.0)


def measured(
    happens: Callable[[run.Desktop, Runtime, Stage, int], object] = lambda *_: None, count: int = COUNT
) -> tuple[dict[str, Any], list[Stage]]:
    """Measure with a robot that turns on the spot; `happens` is called in every tick."""
    section = SECTION.model_copy(update={"domain": free_domain()})
    world = room(6.0, 6.0)
    robot = SimulatedRobot(world, PLANT, Body(), MOUNTS, START, Senses(fix_period_s=(0.1, 0.2)))
    place = Place(world, (Episode(START, (5.0, 2.0), 3.0),))
    stages: list[Stage] = []
    with contextlib.ExitStack() as held:
        wire = held.enter_context(contextlib.closing(Wire(section)))
        runtime = held.enter_context(target(section, Puppet(LEFT)))
        desktop = run.Desktop(wire, robot, MOUNTS, place, count)
        held.callback(desktop.close)

        def tell(stage: Stage, done: int) -> None:
            stages.append(stage)
            happens(desktop, runtime, stage, done)

        asyncio.run(desktop.run(tell))
        return desktop.result(RATES), list(dict.fromkeys(stages))


def test_round_trips_are_measured_and_the_base_stands() -> None:
    result, stages = measured()
    assert stages[-3:] == [Stage.WARMING, Stage.MEASURING, Stage.ENDING]
    assert (result["ended"], result["base"]["at_rest"]) == (COMPLETE, True)
    command, decision = result["depth_to_command"], result["depth_to_decision"]
    assert command["count"] >= COUNT
    assert 0.0 < command["target_mean_ms"] < command["mean_ms"]
    assert 0.0 < command["wire"]["min_ms"] <= command["min_ms"]
    assert result["pose_to_sensors"]["min_ms"] > 0.0
    assert decision["fixed_delay_ms"] == 100.0
    assert decision["min_ms"] > command["target_mean_ms"]
    assert sum(result["commands"]["by_reason"].values()) == result["load"]["ticks_target"] > 0
    assert result["base"]["goals"] >= 1


def test_interrupted_while_it_drives_it_is_stopped_first() -> None:
    turned: list[float] = []

    def happens(desktop: run.Desktop, runtime: Runtime, stage: Stage, done: int) -> None:
        turned.append(abs(runtime.state.wheels.twist.w_radps))
        if stage is Stage.MEASURING and turned[-1] > 0.5:
            desktop.session.interrupt()

    result, _ = measured(happens, count=10_000)
    assert max(turned) > 0.5
    assert (result["ended"], result["base"]["at_rest"]) == (INTERRUPTED, True)


def arguments(wire: Wire) -> tuple[Any, ...]:
    world = room(6.0, 6.0)
    robot = SimulatedRobot(world, PLANT, Body(), MOUNTS, START)
    return wire, robot, MOUNTS, Place(world, (Episode(START, (5.0, 2.0), 3.0),)), 5, RATES, lambda stage, done: None


def test_a_second_base_is_refused() -> None:
    section = SECTION.model_copy(update={"domain": free_domain()})
    with contextlib.closing(Wire(section)) as ours, contextlib.closing(Wire(section)) as theirs:
        theirs.writer("odom")
        with pytest.raises(DriverError, match="another base is on domain"):
            run.run_target(*arguments(ours))
