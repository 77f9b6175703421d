"""For all inputs and all ends, every command is finite and within bounds, and the last command is zero."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onboard.counters import Counters
from onboard.state import TickRecord
from onboard.values.errors import DriverError, InputError
from onboard.values.messages import STOP, DepthFrame, Fix, GoalRequest, Inputs, OdometryMessage, Pose, Teleop, Twist
from tests.rigs.runtime_bench import FORWARD, MOUNTS, MS, Bench, Puppet, raising

TICKS = 50


class Script:
    """A listener that runs an action at a tick in which the robot already drives."""

    def __init__(self, happens: Callable[[Bench], Any] = lambda bench: bench.runtime.stop()) -> None:
        self.happens = happens
        self.bench: Bench | None = None
        self.ticks: list[TickRecord] = []

    def tick(self, record: TickRecord, counters: Counters) -> None:
        self.ticks.append(record)
        assert self.bench is not None
        if len(self.ticks) == TICKS:
            self.happens(self.bench)
        if len(self.ticks) == 2 * TICKS:
            self.bench.runtime.stop()


def running(script: Script) -> Bench:
    script.bench = Bench(listeners=[script])
    script.bench.ask()
    return script.bench


def fail(error: Exception) -> Callable[[Inputs], Inputs]:
    def take(inputs: Inputs) -> Inputs:
        raise error

    return take


def misfit(inputs: Inputs) -> Inputs:
    wrong = DepthFrame("front", 1, inputs.now_ns, np.zeros((3, 3), np.uint16))
    return replace(inputs, depth={**inputs.depth, "front": wrong})


def broken_listener(bench: Bench) -> None:
    raise DriverError("recorder gone")


def break_inbox(bench: Bench) -> None:
    bench.alter = fail(DriverError("link gone"))


#   what                          what happens                                                            what comes out
ENDS: list[tuple[str, Callable[[Bench], Any], type[BaseException] | None]] = [
    ("stop()", lambda bench: bench.runtime.stop(), None),
    ("the inbox fails", break_inbox, DriverError),
    ("a frame does not fit", lambda bench: setattr(bench, "alter", misfit), InputError),
    ("a listener fails", broken_listener, DriverError),
    ("the policy fails", lambda bench: setattr(bench.policy, "action", raising("gone")), None),
]


@pytest.mark.parametrize(("what", "happens", "error"), ENDS, ids=[row[0] for row in ENDS])
def test_the_last_command_is_zero(
    what: str, happens: Callable[[Bench], Any], error: type[BaseException] | None
) -> None:
    script = Script(happens)
    bench = running(script)
    if error is None:
        asyncio.run(bench.runtime.run())
    else:
        with pytest.raises(error):
            asyncio.run(bench.runtime.run())
    assert bench.sent[TICKS - 1] != STOP, "it was driving when it happened"
    assert bench.sent[-1] == STOP


def test_a_cancelled_task_sends_zero() -> None:
    async def cancelled() -> None:
        driving = asyncio.Event()
        bench = running(Script(lambda bench: driving.set()))
        task = asyncio.create_task(bench.runtime.run())
        await driving.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert bench.sent[TICKS - 1] != STOP
        assert bench.sent[-1] == STOP

    asyncio.run(cancelled())


def test_a_run_that_is_stopped_before_it_began_sends_zero_and_nothing_else() -> None:
    bench = Bench()
    bench.runtime.stop()
    asyncio.run(bench.runtime.run())
    assert bench.sent == [STOP]


def test_a_link_that_fails_is_still_asked_to_stop() -> None:
    class Failing(Bench):
        def send(self, command: Twist) -> None:
            super().send(command)
            if len(self.sent) == TICKS:
                raise DriverError("cmd_vel cannot be sent")

    bench = Failing()
    bench.ask()
    with pytest.raises(DriverError, match="cmd_vel"):
        asyncio.run(bench.runtime.run())
    assert bench.sent[-1] == STOP


def test_ticks_run_on_the_grid_of_the_configured_rate() -> None:
    script = Script()
    bench = running(script)
    asyncio.run(bench.runtime.run())
    assert [tick.slot.number for tick in script.ticks] == list(range(TICKS))
    assert {tick.slot.lateness_ns for tick in script.ticks} == {0}
    assert bench.runtime.counters.ticks == TICKS


# ---- random inputs

numbers = st.one_of(
    st.floats(-3.0, 3.0), st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308, 1e-300, 0.0, -0.0])
)
twists = st.builds(Twist, numbers, numbers)
poses = st.builds(Pose, numbers, numbers, numbers)
stamps = st.one_of(
    st.integers(-500, 500).map(lambda ms: ms * MS), st.sampled_from([-(2**62), 2**62, -3_600 * 10**9, 3_600 * 10**9])
)
images = {
    name: st.sampled_from([np.zeros((m.height, m.width), np.uint16), np.full((m.height, m.width), 300, np.uint16)])
    for name, m in MOUNTS.depth.items()
}
covariances = st.one_of(st.none(), st.lists(numbers, min_size=9, max_size=9).map(lambda v: np.array(v).reshape(3, 3)))


@st.composite
def changes(draw: st.DrawFn) -> Callable[[Inputs], Inputs]:
    """Return a random fault of a tick's inputs."""
    offset, twist, pose, word = draw(stamps), draw(twists), draw(poses), draw(st.sampled_from([None, False, True]))
    frame = draw(st.sampled_from(["odom", "map", "base_link", "mars"]))
    covariance = draw(covariances)
    depth = {name: draw(image) for name, image in images.items() if draw(st.booleans())}
    rows: list[Callable[[Inputs], Inputs]] = [
        lambda i: i,
        lambda i: replace(i, odometry=(OdometryMessage(i.now_ns + offset, i.now_ns, pose, twist),)),
        lambda i: replace(i, odometry=(OdometryMessage(i.now_ns, i.now_ns + offset, None, twist), *i.odometry)),
        lambda i: replace(i, odometry=()),
        lambda i: replace(i, fixes=(Fix(i.now_ns + offset, i.now_ns, pose, covariance),)),
        lambda i: replace(i, goals=(GoalRequest(i.now_ns + offset, i.now_ns, frame, pose),)),
        lambda i: replace(i, goals=(GoalRequest(i.now_ns, i.now_ns, "base_link", Pose(4.0, 1.0, 0.0)),)),
        lambda i: replace(i, depth={n: DepthFrame(n, 1, i.now_ns + offset, d) for n, d in depth.items()}),
        lambda i: replace(i, depth={}),
        lambda i: replace(i, teleop=Teleop(i.now_ns + offset, twist)),
        lambda i: replace(i, teleop=Teleop(i.now_ns, twist)),
        lambda i: replace(i, e_stop=word),
        lambda i: replace(i, obstacle=word),
        lambda i: replace(i, cancel=True),
    ]
    return draw(st.sampled_from(rows))


@settings(max_examples=60)
@given(
    script=st.lists(st.tuples(changes(), st.integers(1, 25)), min_size=1, max_size=8),
    action=st.integers(0, 27),
    missed=st.integers(0, 40),
    history=st.sampled_from([1, 4]),
)
def test_whatever_comes_in_every_command_is_finite_and_within_bounds(
    script: list[tuple[Callable[[Inputs], Inputs], int]], action: int, missed: int, history: int
) -> None:
    bench = Bench(Puppet(action), scan={"history": history}).driving()
    for change, count in script:
        bench.alter = change
        bench.ticks(count)
        bench.skip(missed)
    bound = bench.config.limits
    for command in bench.sent:
        assert math.isfinite(command.v_mps)
        assert math.isfinite(command.w_radps)
        assert bound.v_min_mps <= command.v_mps <= bound.v_max_mps
        assert abs(command.w_radps) <= bound.w_max_radps
    pose = bench.runtime.state.wheels.pose
    assert math.isfinite(pose.x_m + pose.y_m + pose.yaw_rad)
    bench.alter = lambda inputs: inputs
    bench.teleop = None
    bench.e_stop = True
    assert bench.tick().command == STOP


def test_after_whatever_came_in_a_new_goal_is_driven_to() -> None:
    bench = Bench(Puppet(FORWARD)).driving()
    nan = Twist(math.nan, math.nan)
    bench.alter = lambda i: replace(i, odometry=(OdometryMessage(i.now_ns, i.now_ns, None, nan),))
    bench.seconds(1.0)
    bench.alter = lambda inputs: inputs
    bench.tick()
    assert bench.driving().tick().command == Twist(0.6, 0.0)
