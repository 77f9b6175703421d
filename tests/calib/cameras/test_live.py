"""The live session on a simulated robot whose operator does as told: it ends, and records what a calibration needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from calib.cameras.keyframes import read_session
from calib.cameras.session import STEPS, Progress, guide, recorded_session
from hil.drive.episodes import choose
from hil.drive.robot import Senses, SimulatedRobot
from hil.drive.sensing import STEP_NS, Cameras, SimulatedInbox
from hil.physics.collision_world import Body
from onboard.config.config import load_config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.values.clock import NS_PER_S
from onboard.values.errors import InputError
from onboard.values.messages import STOP, Inputs, Twist

LOADED = load_config(None)
CONFIG = LOADED.model_copy(update={"policy": LOADED.policy.model_copy(update={"model": "reactive"})})
WAYS = (STOP, Twist(0.0, 0.6), Twist(0.2, 0.0), Twist(0.0, -0.6), Twist(0.2, 0.0))
MOVE_TICKS, STAND_TICKS = 20, 40


class Operator:
    """Drives the simulated robot by what the session tells: moves for a while, stands for a while."""

    def __init__(self) -> None:
        scenario = choose("gdc1", 3, None, Body())
        robot = SimulatedRobot(
            scenario.world, load_plant(CONFIG.robot.plant), Body(), load_mounts(CONFIG.robot.mounts),
            scenario.episode.start, Senses(drift_scale=0.0, localization=False, depth_every=6),
        )  # fmt: skip
        self._inbox = SimulatedInbox(robot, NS_PER_S, Cameras(robot, color=False))
        self._ticks = 0
        self.reported: list[Progress] = []

    def take(self, now_ns: int) -> Inputs:
        step = self.reported[-1].step if self.reported else 0
        self._ticks += 1
        round_trip, moment = divmod(self._ticks, MOVE_TICKS + STAND_TICKS)
        way = WAYS[min(step, len(WAYS) - 1)]
        back = -1.0 if way.v_mps and round_trip % 2 else 1.0
        self._inbox.send(Twist(back * way.v_mps, way.w_radps) if moment < MOVE_TICKS else STOP)
        return self._inbox.take(now_ns)

    def close(self) -> None:
        self._inbox.close()


def times(seconds: float) -> Iterator[int]:
    return iter(range(NS_PER_S + STEP_NS, NS_PER_S + round(seconds * NS_PER_S), STEP_NS))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_operator_who_does_as_told_reaches_the_end(tmp_path: Path) -> None:
    operator, out = Operator(), tmp_path / "session.mcap"
    with recorded_session(CONFIG, out) as session:
        end = guide(CONFIG, operator, times(300.0), session, operator.reported.append)
    assert end.done
    assert [one.step for one in operator.reported] == sorted(one.step for one in operator.reported)
    keyframes = read_session(out, load_mounts(CONFIG.robot.mounts)).keyframes
    assert len(keyframes) >= sum(step.stops for step in STEPS)
    turned = sum(
        abs(math.remainder(b.odometry.yaw_rad - a.odometry.yaw_rad, math.tau)) for a, b in itertools.pairwise(keyframes)
    )
    assert turned > 2.0 * 6.2


def test_silence_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    class Silent:
        def take(self, now_ns: int) -> Inputs:
            return Inputs(now_ns)

        def close(self) -> None:
            """Nothing to close."""

    with (
        pytest.raises(InputError, match="no odometry for 5 s"),
        recorded_session(CONFIG, tmp_path / "session.mcap") as session,
    ):
        guide(CONFIG, Silent(), times(20.0), session, lambda _: None)
    assert list(tmp_path.iterdir()) == []
