"""Faults in simulation: the whole runtime on the simulated clock, in a building, behind the proxies of the faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hil.drive.robot import Senses, SimulatedRobot
from hil.drive.sensing import (
    LIMITS_TOPIC,
    POLICY_TOPIC,
    STEP_NS,
    Cameras,
    Caster,
    SensorSource,
    SimulatedInbox,
    seen_by_cameras,
    without_cameras,
)
from hil.drive.setting import wants_color
from hil.maps.world_grid import World
from hil.physics.collision_world import body_of
from hil.physics.free_space import Episode
from hil.reliability.faults.expectations import Run, Truth
from hil.reliability.faults.fault import Fault, Need
from hil.reliability.faults.fault_proxies import FaultyClock, FaultyDrive, FaultyInbox, FaultyInference
from hil.reliability.faults.inject.schedule import Scene, Schedule
from hil.reliability.faults.verdict import Mode, Verdict, judge, not_run
from hil.sensors.direct_scan import direct_scan
from onboard.assembly.robot import build_rigs, building_of, robot_of, zones_of
from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.config.plant_model import Plant
from onboard.policy.inference import InlineInference
from onboard.recording.tick_message import imageless
from onboard.runtime import Listener, Runtime
from onboard.state import TickRecord
from onboard.system.log import unlogged
from onboard.values.clock import NS_PER_S, SimulatedClock
from onboard.values.errors import OnboardError
from onboard.values.interfaces import Policy
from onboard.values.messages import STOP, GoalRequest, Pose

GOAL_S = 0.6
"""Time of the goal: by then the first fix has arrived and the robot is localised."""
ONSET_S = 2.0
"""Onset of the fault: by then the robot drives at full speed."""
MAP, EPISODE = "gdc1", 9
"""Here the shipped policy drives at full speed without near obstacles for longer than any fault lasts. So each reaction
to a fault is visible."""
TAIL_S = 1.6
"""Duration of a run after the end of its fault."""
ROLL_S = 1.5
"""Time for which the base is observed after a run that ended early."""


@dataclass(frozen=True, slots=True)
class Site:
    """Environment and robot of a run. make_policy: returns a new policy for every run."""

    world: World
    episode: Episode
    config: Config
    mounts: Mounts
    plant: Plant
    make_policy: Callable[[Config], Policy]
    seed: int = 0


def drive(
    site: Site,
    config: Config,
    schedule: Schedule,
    until_s: float,
    *,
    color: bool = False,
    listeners: Sequence[Listener] = (),
) -> Run:
    """Drive to the goal of the episode with faults, until `until_s` after the start or an error; see `GOAL_S`.

    config: configuration of this run, which may differ from the site's. With the topics of a `Caster`
            (`without_cameras` of `hil/drive/sensing.py`) scans are cast and no depth image is rendered
    color:  whether the colour camera is rendered even if the policy does not use it

    The caller sets onset and end of the run. Raises InputError if the start is not free.
    """
    policy = site.make_policy(config)
    body = body_of(config.robot)
    senses = Senses(seed=site.seed, depth_noise=True)
    robot = SimulatedRobot(site.world, site.plant, body, site.mounts, site.episode.start, senses)
    clock = SimulatedClock()
    faulty = FaultyClock(clock, schedule)
    base = SimulatedInbox(robot, clock.now_ns(), _sensors(site, config, Cameras(robot, color or wants_color(policy))))
    inbox = FaultyInbox(base, site.mounts, config, schedule)
    inference = FaultyInference(InlineInference(policy, clock.now_ns), clock, schedule)
    places = zones_of(config), building_of(config)
    described = robot_of(config, build_rigs(config, site.mounts), site.plant, policy, *places)
    script = _Script(base, robot, Pose(*site.episode.goal_xy_m, 0.0), config.dds.map_frame, until_s)
    runtime = Runtime(described, faulty, inbox, inference, FaultyDrive(base, clock, schedule), (*listeners, script))
    script.runtime = runtime
    ended = ""
    try:
        with unlogged():
            asyncio.run(runtime.run())
    except OnboardError as error:
        ended = f"{type(error).__name__}: {error}"
        for _ in range(round(ROLL_S * NS_PER_S / STEP_NS)):
            clock.advance(STEP_NS)
            base.take(clock.now_ns())
            script.record_truth(clock.now_ns())
    finally:
        policy.close()
    return Run(script.ticks, 0, 0, ended, base.sent[-1:] == [STOP], robot.state.contacts, script.truth)


def _sensors(site: Site, config: Config, cameras: Cameras) -> SensorSource:
    """Return the sensors of a run: cameras, or directly cast scans if the configuration names their topics."""
    sections = {POLICY_TOPIC: config.scan, LIMITS_TOPIC: config.own_scan}
    cast = {
        topic: direct_scan(site.world, site.mounts, seen_by_cameras(section), "fused")
        for topic, section in sections.items()
        if section is not None and section.topic == topic
    }
    return Caster(cast, cameras, site.seed) if cast else cameras


def at(seconds: float) -> int:
    """Return a time after the start on the simulated clock [ns]."""
    return SimulatedClock().now_ns() + round(seconds * NS_PER_S)


class _Script:
    """A listener that sends the goal, keeps ticks and true states, and stops the runtime at the end."""

    runtime: Runtime

    def __init__(self, inbox: SimulatedInbox, robot: SimulatedRobot, goal: Pose, frame_id: str, until_s: float) -> None:
        self._inbox, self._robot, self._goal, self._frame_id = inbox, robot, goal, frame_id
        self._goal_ns, self._until_ns = at(GOAL_S), at(until_s)
        self._goal_sent = False
        self.ticks: list[TickRecord] = []
        self.truth: list[Truth] = []

    def tick(self, record: TickRecord, counters: object) -> None:
        """Keep the tick; send the goal or stop the runtime when it is due."""
        now_ns = record.slot.start_ns
        self.ticks.append(imageless(record))
        self.record_truth(now_ns)
        if not self._goal_sent and now_ns >= self._goal_ns:
            self._goal_sent = True
            self._inbox.requests.append(GoalRequest(now_ns, now_ns, self._frame_id, self._goal))
        if now_ns >= self._until_ns:
            self.runtime.stop()

    def record_truth(self, now_ns: int) -> None:
        """Keep the true state of the base now."""
        state = self._robot.state
        self.truth.append(Truth(now_ns, state.path_m, state.twist.v_mps))


# ---- One fault of the table on the simulated clock

ONLY_PROCESS = "it can be injected only into a real process"


def changed(config: Config, sections: Mapping[str, Mapping[str, Any]]) -> Config:
    """Return the configuration with the given values, by table."""
    tables = {name: getattr(config, name).model_copy(update=dict(values)) for name, values in sections.items()}
    return config.model_copy(update=tables)


def in_simulation(fault: Fault, site: Site) -> Verdict:
    """Run a fault on the simulated clock and return its verdict. Raises InputError if the start is not free."""
    if fault.make is None:
        return not_run(fault, Mode.CLOCK, ONLY_PROCESS)
    given = without_cameras(site.config) if Need.SCANS in fault.needs else site.config
    config = changed(given, fault.sections)
    planned = fault.planned(Scene(config, site.mounts, site.seed), at(ONSET_S))

    def driven(schedule: Schedule) -> Run:
        return drive(site, config, schedule, ONSET_S + fault.lasts_s + TAIL_S, color=Need.COLOR in fault.needs)

    run = replace(driven(Schedule(planned)), onset_ns=planned[0].onset_ns, end_ns=planned[0].end_ns)
    return judge(fault, Mode.CLOCK, run, config, site.plant, lambda: driven(Schedule()))
