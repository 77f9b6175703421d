"""A runtime before a world that a test sets by hand, tick by tick, on the simulated clock; and what stands in for the
policy. Wheels follow the last command exactly; cameras see nothing until something is put before them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onboard.assembly.robot import build_rigs, session_of
from onboard.config.config import Config, PolicySection, RecordSection, ScanSection
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import load_plant
from onboard.counters import Counters
from onboard.navigation.odometry import integrate
from onboard.policy.contract import ACTIONS
from onboard.policy.inference import Inference, InferenceResult, InlineInference
from onboard.recording.recorder import Recorder, RecordQueue
from onboard.recording.tick_writer import TickRecorder
from onboard.runtime import Listener, Runtime
from onboard.safety.keepout_zones import MapZones
from onboard.state import Robot, TickRecord
from onboard.values.clock import NS_PER_S, SimulatedClock, Slot
from onboard.values.errors import EngineError
from onboard.values.interfaces import Policy
from onboard.values.messages import (
    STOP,
    ColorFrame,
    Decision,
    DepthFrame,
    Fix,
    GoalRequest,
    Inputs,
    Memory,
    Observation,
    OdometryMessage,
    Pose,
    Teleop,
    Twist,
)
from tests.rigs.machine.waiting import until

MS = 1_000_000
MOUNTS = load_mounts(Config().robot.mounts)
PLANT = load_plant(Config().robot.plant)


def plain_config(**sections: Any) -> Config:
    """Return a configuration that drives `reactive` and looks for no stairs, for tests that are about neither."""
    scan = sections.pop("scan", {})
    if isinstance(scan, dict):
        scan = ScanSection(**{"drop_m": 0.0, **scan})
    return Config(**{"policy": PolicySection(model="reactive"), "scan": scan, **sections})


SLOW = ACTIONS.index(Twist(0.3, 0.0))
FORWARD = ACTIONS.index(Twist(0.6, 0.0))
LEFT = ACTIONS.index(Twist(0.0, 1.0))
WRITTEN_S = 300.0
NEAR_MM = 101
"""Depth of a wall before the front camera that nothing may come nearer to."""


mounts_of = functools.cache(load_mounts)


@functools.cache
def rigs_of(config: str) -> tuple[Any, Any]:
    read = Config.model_validate_json(config)
    return build_rigs(read, mounts_of(read.robot.mounts))


class Puppet:
    """A policy that takes the action it is told, counts decisions in its memory, and keeps what it was given."""

    name = "puppet"

    def __init__(self, action: int | Callable[[Observation], int] = FORWARD, reset_s: float | None = None) -> None:
        self.action = action
        self.memory_reset_s = reset_s
        self.seen: list[Observation] = []
        self.remembered: list[int] = []
        self.closed = 0

    def initial_memory(self) -> Memory:
        return np.zeros((1, 1), np.float32)

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        self.seen.append(observation)
        self.remembered.append(int(memory[0, 0]))
        action = self.action(observation) if callable(self.action) else self.action
        return Decision(action, np.zeros(len(ACTIONS), np.float32)), memory + 1

    def close(self) -> None:
        self.closed += 1


class SlowInference:
    """Gives decision n back `takes_ms[n]` after it was submitted (0 when not listed) and is busy until then.

    Like the real thread it keeps a result that nobody took until the next one is done.
    broken: decision -> what the result is instead
    """

    def __init__(
        self, policy: Policy, clock: SimulatedClock, takes_ms: Mapping[int, float], broken: Mapping[int, Any]
    ) -> None:
        self._policy, self._clock, self._takes_ms, self._broken = policy, clock, takes_ms, broken
        self._running: tuple[int, InferenceResult] | None = None
        self._done: InferenceResult | None = None
        self.refused: list[int] = []

    def submit(self, number: int, observation: Observation, memory: Memory) -> bool:
        self._finish()
        if self._running is not None:
            self.refused.append(number)
            return False
        decision, after = self._policy.decide(observation, memory)
        now_ns = self._clock.now_ns()
        ready_ns = now_ns + round(self._takes_ms.get(number, 0) * MS)
        result = InferenceResult(number, decision, after, ready_ns - now_ns, finished_ns=ready_ns)
        self._running = ready_ns, replace(result, **self._broken.get(number, {}))
        return True

    def poll(self) -> InferenceResult | None:
        self._finish()
        result, self._done = self._done, None
        return result

    def close(self) -> None:
        self._policy.close()

    def _finish(self) -> None:
        if self._running is not None and self._running[0] <= self._clock.now_ns():
            self._done, self._running = self._running[1], None


class Bench:
    """The runtime with its world: set what is to happen, then `tick`.

    stuck:    the wheels stand, whatever is commanded
    reports:  whether odometry arrives
    images:   camera -> (60, 80) uint16 [mm]; one that is taken away is down
    masks:    zones of the map
    alter:    last change of the inputs before the runtime has them
    """

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        takes_ms: Mapping[int, float] | None = None,
        broken: Mapping[int, Any] | None = None,
        listeners: Sequence[Listener] = (),
        masks: MapZones | None = None,
        **sections: Any,
    ) -> None:
        self.config = plain_config(**sections)
        self.clock = SimulatedClock()
        self.policy = policy or Puppet()
        self.inference: Inference = InlineInference(self.policy, self.clock.now_ns)
        if takes_ms is not None or broken is not None:
            given = ({} if one is None else one for one in (takes_ms, broken))
            self.inference = SlowInference(self.policy, self.clock, *given)
        self.pose, self.twist = Pose(0.0, 0.0, 0.0), STOP
        self.stuck, self.reports = False, True
        depth = mounts_of(self.config.robot.mounts).depth
        self.images = {name: np.zeros((m.height, m.width), np.uint16) for name, m in depth.items()}
        self.obstacle: bool | None = None
        self.e_stop: bool | None = None
        self.teleop: Teleop | None = None
        self.alter: Callable[[Inputs], Inputs] = lambda inputs: inputs
        self.sent: list[Twist] = []
        self._goals: list[GoalRequest] = []
        self._fixes: list[Fix] = []
        self._cancel = False
        self._number, self._missed = 0, 0
        self._heard_ns = self.clock.now_ns()
        rig, limits_rig = rigs_of(self.config.model_dump_json(include={"robot", "scan", "limits_scan"}))
        memory = self.policy.initial_memory(), self.policy.memory_reset_s
        robot = Robot(self.config, rig, limits_rig, PLANT, *memory, masks)
        self.runtime = Runtime(robot, self.clock, self, self.inference, self, listeners)

    # ---- what a test does

    def tick(self, count: int = 1) -> TickRecord:
        """Live so many ticks; return the last."""
        return self.ticks(count)[-1]

    def ticks(self, count: int) -> list[TickRecord]:
        """Live so many ticks and return them."""
        return [self._tick() for _ in range(count)]

    def seconds(self, duration_s: float) -> list[TickRecord]:
        """Live so long and return the ticks."""
        return self.ticks(round(duration_s * self.config.rates.control_hz))

    def skip(self, slots: int) -> None:
        """Let the loop be blocked, so that it misses so many slots."""
        self._number += slots
        self._missed += slots

    def ask(self, x_m: float = 5.0, y_m: float = 0.0, frame: str = "base_link") -> None:
        """Let a goal arrive with the next tick."""
        now_ns = self.clock.now_ns()
        self._goals.append(GoalRequest(now_ns, now_ns, frame, Pose(x_m, y_m, 0.0)))

    def fix(self, pose: Pose, covariance: np.ndarray | None = None) -> None:
        """Let a localisation arrive with the next tick."""
        self._fixes.append(Fix(self._next_ns, self._next_ns, pose, covariance))

    def cancel(self) -> None:
        """Let a cancel arrive with the next tick."""
        self._cancel = True

    def operate(self, twist: Twist) -> None:
        """Let an operator's command arrive with the next tick."""
        self.teleop = Teleop(self._next_ns, twist)

    def wall(self, camera: str, depth_mm: int) -> None:
        """Put a wall square before a camera; 0 takes it away."""
        self.images[camera] = np.full_like(self.images[camera], depth_mm)

    def driving(self, **goal: float) -> Bench:
        """Live until the first decision has taken effect, or would have; return this."""
        self.ask(**goal)
        self.tick(1)
        self.ticks(self.config.rates.ticks_per_decision + self.config.rates.delay_ticks)
        return self

    # ---- Inbox and Drive

    def take(self, now_ns: int) -> Inputs:
        moved = STOP if self.stuck else self.twist
        self.pose = integrate(self.pose, moved, (now_ns - self._heard_ns) / NS_PER_S)
        self._heard_ns = now_ns
        odometry = (OdometryMessage(now_ns, now_ns, self.pose, moved),) if self.reports else ()
        inputs = Inputs(
            now_ns=now_ns,
            depth={name: DepthFrame(name, self._number, now_ns, image) for name, image in self.images.items()},
            odometry=odometry,
            fixes=tuple(self._fixes),
            goals=tuple(self._goals),
            cancel=self._cancel,
            obstacle=self.obstacle,
            e_stop=self.e_stop,
            teleop=self.teleop,
        )
        self._fixes, self._goals, self._cancel = [], [], False
        return self.alter(inputs)

    def send(self, command: Twist) -> None:
        self.sent.append(command)
        self.twist = command

    def close(self) -> None:
        self.send(STOP)

    @property
    def _period_ns(self) -> int:
        return round(NS_PER_S / self.config.rates.control_hz)

    @property
    def _next_ns(self) -> int:
        return NS_PER_S + self._number * self._period_ns

    def _tick(self) -> TickRecord:
        deadline_ns = self._next_ns
        self.clock.advance(max(0, deadline_ns - self.clock.now_ns()))
        slot = Slot(self._number, deadline_ns, self.clock.now_ns(), self._missed)
        self._number, self._missed = self._number + 1, 0
        return self.runtime.tick(slot)


class Tape:
    """A listener that keeps every tick and records those that `lose` does not name.

    taken: whether the recorder took each recorded tick
    """

    def __init__(
        self,
        folder: Path,
        config: Config,
        lose: Callable[[int], bool] = lambda slot: False,
        *,
        session: Mapping[str, str] | None = None,
        wall_ns: int = 10**18,
        name: str = "robot",
        queue: RecordQueue | None = None,
        **record: Any,
    ) -> None:
        section, queue = RecordSection(directory=folder, **record), queue or RecordQueue(100_000, 256e6)
        reported = session_of(config) if session is None else session
        self.recorder = Recorder(section, name, dict(reported), wall_ns=wall_ns, now_ns=NS_PER_S, queue=queue)
        mounts = mounts_of(config.robot.mounts)
        self._writer = TickRecorder(self.recorder, config.dds, mounts, config.scan.far_m)
        self._lose = lose
        self.ticks: list[TickRecord] = []
        self.taken: list[bool] = []

    def tick(self, record: TickRecord, counters: Counters) -> None:
        self.ticks.append(record)
        if not self._lose(record.slot.number):
            self.taken.append(self._writer.record(record))

    def close(self) -> Path:
        """Finish the file, however busy the machine is, and return it; the last one where there are several."""
        until(lambda: self.recorder.stats().queued == 0, WRITTEN_S)
        self.recorder.close()
        stats = self.recorder.stats()
        assert (stats.dropped, stats.stopped, stats.last_problem) == (0, "", "")
        assert stats.file is not None
        return stats.file


def with_noise(inputs: Inputs, rng: np.random.Generator, nearest_mm: int, farthest_mm: int) -> Inputs:
    """Return inputs whose images are all noise, a colour image among them."""
    depth = {
        name: replace(frame, depth=rng.integers(nearest_mm, farthest_mm, frame.depth.shape, dtype=np.uint16))
        for name, frame in inputs.depth.items()
    }
    color = ColorFrame(inputs.now_ns % 1000, inputs.now_ns, rng.integers(0, 255, (144, 256, 3), dtype=np.uint8))
    return replace(inputs, depth=depth, color=color)


def wanting(*actions: int) -> Callable[[Observation], int]:
    """Return a choice that goes through the actions, then stays at the last."""
    left = list(actions)
    return lambda observation: left.pop(0) if len(left) > 1 else left[0]


def raising(message: str) -> Callable[[Observation], int]:
    """Return a choice that fails."""

    def fail(observation: Observation) -> int:
        raise EngineError(message)

    return fail


def commands(ticks: Sequence[TickRecord]) -> list[Twist]:
    return [tick.command for tick in ticks]


def sensed_slots(ticks: Sequence[TickRecord]) -> list[int]:
    return [tick.slot.number for tick in ticks if tick.sensed]


def acted_slots(ticks: Sequence[TickRecord]) -> list[int]:
    return [tick.slot.number for tick in ticks if tick.acted]


def resets(ticks: Sequence[TickRecord]) -> list[tuple[int, str]]:
    """Return (slot, why) of every decision before which the memory was reset."""
    return [(t.slot.number, t.sensed.memory_reset) for t in ticks if t.sensed and t.sensed.memory_reset]
