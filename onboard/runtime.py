"""The robot. One `tick` is all of it: verbs in the order in which things happen.

    take -> integrate -> fuse -> judge the mission -> decide -> recover -> limit -> send -> tell -> record

Everything that lives between two ticks is one frozen value, `RobotState`; devices, time and the policy are objects
behind small protocols, so a simulated or recorded run goes through these same lines.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from onboard import limits, localization, mission, odometry, pilot, progress, recovery, scan, start, zones
from onboard.config import Config
from onboard.counters import STAGES, Counters
from onboard.errors import InputError
from onboard.geometry import distance
from onboard.inference import Inference
from onboard.interfaces import Drive, Inbox
from onboard.limits import Limited, LimitsState
from onboard.localization import LocalizationState
from onboard.messages import STOP, DepthFrame, GoalRequest, Inputs, Memory, Observation, Pose, Scan, Twist
from onboard.mission import Mission, State
from onboard.motion import Plant
from onboard.odometry import OdometryState
from onboard.pilot import Pilot
from onboard.progress import Progress
from onboard.recovery import RecoveryState
from onboard.scan import Rig, ScanMemory
from onboard.scheduler import NS_PER_S, Clock, Slot, grid
from onboard.start import Located, Start
from onboard.tick import Acted, Sensed, TickRecord

log = structlog.get_logger()


class Listener(Protocol):
    """Who is told of every tick: the publisher, the recorder, a status line. Must not wait."""

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Take note of one tick. Raises DriverError if a link is gone."""


@dataclass(frozen=True, slots=True)
class Robot:
    """What does not change during a run.

    rig:            cameras of the scan that the policy sees; limits_rig: of the one for the limits, None is the same
    initial_memory: the policy's memory after a reset; memory_reset_s: how often, None is never
    """

    config: Config
    rig: Rig
    limits_rig: Rig | None
    plant: Plant
    initial_memory: Memory
    memory_reset_s: float | None


@dataclass(frozen=True, slots=True)
class RobotState:
    """Everything that lives between two ticks.

    lost_ns: since when an input that driving needs has been stale, None while all are fresh
    """

    wheels: OdometryState = field(default_factory=OdometryState)
    localization: LocalizationState = field(default_factory=LocalizationState)
    scan_memory: ScanMemory = field(default_factory=ScanMemory)
    limits_scan_memory: ScanMemory = field(default_factory=ScanMemory)
    mission: Mission = field(default_factory=Mission)
    start: Start | None = None
    progress: Progress | None = None
    pilot: Pilot = field(default_factory=Pilot)
    recovery: RecoveryState = field(default_factory=RecoveryState)
    limits: LimitsState = field(default_factory=LimitsState)
    lost_ns: int | None = None


class Runtime:
    """Drives the robot on a grid of ticks until told to stop. The last command that it sends is always zero."""

    def __init__(
        self,
        robot: Robot,
        clock: Clock,
        inbox: Inbox,
        inference: Inference,
        drive: Drive,
        listeners: Sequence[Listener] = (),
    ) -> None:
        self._robot = robot
        self._config = robot.config
        self._bounds = limits.bounds_of(
            robot.config.limits, robot.plant, robot.config.robot.footprint_radius_m, robot.config.odometry.stale_ms
        )
        self._clock = clock
        self._inbox = inbox
        self._inference = inference
        self._drive = drive
        self._listeners = tuple(listeners)
        self._stopping = False
        self._events: list[str] = []
        self._stage_ns: dict[str, int] = {}
        self.state = RobotState()
        self.counters = Counters()

    def stop(self) -> None:
        """End the run after the tick under way. Safe from a signal handler of the loop."""
        self._stopping = True

    async def run(self) -> None:
        """Tick until `stop`. Whatever ends it, the last command on the wire is zero."""
        period_ns = round(NS_PER_S / self._config.rates.control_hz)
        try:
            async for slot in grid(self._clock, period_ns):
                if self._stopping:
                    return
                self.tick(slot)
        finally:
            self._drive.close()

    def tick(self, slot: Slot) -> TickRecord:
        """Live one tick and return what it consumed and produced."""
        self._events, self._stage_ns = [], dict.fromkeys(STAGES, 0)
        self.counters.count_slot(slot)
        state = self.state

        with self._timed("inbox"):
            inputs = self._inbox.take(slot.start_ns)
        with self._timed("odometry"):
            state = self._integrate(state, inputs)
        with self._timed("scan"):
            state, fused, guarded = self._fuse(state, inputs)
        with self._timed("policy"):
            state, accepted = self._judge_goals(state, inputs)
            located = self._locate(state, slot)
            state, acted = self._act(state, slot)
            state = self._judge_mission(state, located, inputs, slot)
            state, sensed = self._sense(state, slot, inputs, located, fused)
        with self._timed("limits"):
            state, override = self._recover(state, inputs, guarded, slot)
            wanted = self._wanted(state, override)
            state, limited = self._limit(state, wanted, inputs, accepted, guarded, slot)
        with self._timed("send"):
            self._drive.send(limited.twist)
            sent_ns = self._clock.now_ns()

        self.state = state
        record = TickRecord(
            slot=slot,
            inputs=inputs,
            odometry=state.wheels.motion,
            map_from_odom=localization.map_from_odom(state.localization),
            filtered=located.filtered if located else None,
            scan=fused,
            limits_scan=guarded,
            state=state.mission.text(),
            episode=state.mission.episode,
            goal_distance_m=_goal_distance(state.mission, located),
            sensed=sensed,
            acted=acted,
            recovery="backing" if state.recovery.backing else "",
            wanted=limited.wanted or STOP,
            command=limited.twist,
            reason=limited.reason.value,
            sent_ns=sent_ns,
            stage_ns=dict(self._stage_ns),
            events=tuple(self._events),
        )
        self.counters.count(record, self._config.rates)
        with self._timed("tell"):
            for listener in self._listeners:
                listener.tick(record, self.counters)
        return record

    # ---- the stages, in their order -------------------------------------------------------------------------------

    def _integrate(self, state: RobotState, inputs: Inputs) -> RobotState:
        """Move the odometry and the filter on; a message that cannot be believed ends the drive with its reason."""
        section, wheels = self._config.odometry, state.wheels
        for message in inputs.odometry:
            wheels = odometry.advance(wheels, message, section)
        filtered = localization.advance(state.localization, inputs.fixes, wheels, section)
        ended = state.mission
        if wheels.refused > state.wheels.refused:
            self._fault("odometry_refused", wheels.refusal)
            ended = mission.stop(ended, wheels.refusal)
        if filtered.refused > state.localization.refused:
            self._fault("localization_refused", filtered.refusal)
        if wheels.backward > state.wheels.backward:
            self._fault("odometry_time_backward", f"{wheels.backward} messages so far")
        return replace(state, wheels=wheels, localization=filtered, mission=ended)

    def _fuse(self, state: RobotState, inputs: Inputs) -> tuple[RobotState, Scan, Scan]:
        """Return the scan for the policy and the one for the limits."""
        robot, pose = self._robot, state.wheels.pose
        fused, memory = scan.fuse(of_rig(robot.rig, inputs), inputs.now_ns, pose, state.scan_memory, robot.rig)
        state = replace(state, scan_memory=memory)
        if robot.limits_rig is None:
            return state, fused, fused
        frames = of_rig(robot.limits_rig, inputs)
        guarded, memory = scan.fuse(frames, inputs.now_ns, pose, state.limits_scan_memory, robot.limits_rig)
        return replace(state, limits_scan_memory=memory), fused, guarded

    def _judge_goals(self, state: RobotState, inputs: Inputs) -> tuple[RobotState, bool]:
        """Take the newest goal that can be taken, and the cancel; return whether a goal was accepted."""
        accepted = False
        for request in inputs.goals:
            state, taken = self._judge_goal(state, request, inputs)
            accepted = accepted or taken
        if inputs.cancel and state.mission.driving:
            self._note("cancelled")
            state = replace(state, mission=mission.cancel(state.mission))
        return state, accepted

    def _judge_goal(self, state: RobotState, request: GoalRequest, inputs: Inputs) -> tuple[RobotState, bool]:
        try:
            return self._begin(state, request, inputs), True
        except InputError as error:
            self._note("goal_refused", reason=str(error))
            return replace(state, mission=mission.refuse(state.mission, str(error))), False

    def _begin(self, state: RobotState, request: GoalRequest, inputs: Inputs) -> RobotState:
        """Return the state at the start of an episode. Raises InputError with the reason of a refusal."""
        if inputs.e_stop:
            raise InputError("the e-stop is pressed")
        if state.wheels.stamp_ns is None:
            raise InputError("there is no odometry yet")
        began = start.begin(state.wheels, state.localization)
        goal = start.goal_in_start(
            request, began, state.wheels, state.localization, self._config.goal, self._config.dds
        )
        self._note("goal_accepted", x_m=round(goal[0], 3), y_m=round(goal[1], 3), frame=request.frame_id)
        return replace(
            state,
            mission=mission.accept(state.mission, goal, inputs.now_ns),
            start=began,
            progress=progress.begin(math.hypot(*goal), inputs.now_ns),
            pilot=pilot.restart(state.pilot),
            recovery=RecoveryState(),
            lost_ns=None,
        )

    def _locate(self, state: RobotState, slot: Slot) -> Located | None:
        """Return where the robot is in the start frame; None before the first goal."""
        if state.start is None:
            return None
        anchored = start.anchor(state.start, state.wheels, state.localization)
        return start.locate(anchored, state.wheels, state.localization, self._config.odometry, slot.start_ns)

    def _act(self, state: RobotState, slot: Slot) -> tuple[RobotState, Acted | None]:
        """Put a decision in force that is due; a failed engine ends the drive."""
        after, acted = pilot.act(state.pilot, slot, self._inference, self._config.rates)
        state = replace(state, pilot=after)
        if acted is None or state.mission.state is not State.NAVIGATING:
            return state, acted
        if acted.fault:
            self._fault("engine_failed", acted.fault)
            return replace(state, mission=mission.stop(state.mission, f"engine failed: {acted.fault}")), acted
        if acted.decision is not None:
            state = replace(state, mission=mission.note_action(state.mission, acted.decision.action))
        return state, acted

    def _judge_mission(self, state: RobotState, located: Located | None, inputs: Inputs, slot: Slot) -> RobotState:
        """End the drive where it has ended: at the goal, without progress, e-stopped, or blind for too long."""
        if located is None or state.start is None or not state.mission.driving:
            return state
        state = replace(state, start=start.anchor(state.start, state.wheels, state.localization))
        now_ns, section = slot.start_ns, self._config.goal
        if inputs.e_stop:
            return replace(state, mission=mission.stop(state.mission, limits.Reason.E_STOP.value))
        judged = mission.judge(state.mission, located.filtered.pose, state.wheels.twist, section, now_ns)
        if state.progress is not None and judged.driving:
            held = limits.operator_drives(inputs.teleop, now_ns, self._bounds)
            away_m = _goal_distance(judged, located) or 0.0
            onward, reason = progress.advance(state.progress, away_m, held, section, now_ns)
            state = replace(state, progress=onward)
            judged = mission.stop(judged, reason) if reason else judged
        if state.lost_ns is not None and now_ns - state.lost_ns > section.lost_input_s * NS_PER_S:
            judged = mission.stop(judged, f"input lost for {section.lost_input_s:g} s")
        if judged.state is not state.mission.state:
            self._note("mission", state=judged.text())
        return replace(state, mission=judged)

    def _sense(
        self, state: RobotState, slot: Slot, inputs: Inputs, located: Located | None, fused: Scan
    ) -> tuple[RobotState, Sensed | None]:
        """Begin a decision when its slot has come, with the memory that it is due."""
        goal, rates = state.mission.goal_xy_m, self._config.rates
        idle = state.mission.state is not State.NAVIGATING
        held = limits.operator_drives(inputs.teleop, slot.start_ns, self._bounds)
        if idle or held or goal is None or located is None or state.lost_ns is not None:
            return replace(state, pilot=pilot.restart(state.pilot)), None
        if not pilot.is_due(state.pilot, slot):
            return state, None
        reset = pilot.reset_reason(state.pilot, slot.start_ns, rates, self._robot.memory_reset_s)
        ready = state.pilot
        if reset:
            self._events.append(f"memory_reset: {reset}")
            ready = replace(ready, memory=self._robot.initial_memory, memory_since_ns=slot.start_ns)
        observation = Observation(
            stamp_ns=slot.start_ns,
            color=inputs.color,
            scan=fused,
            odometry=located.raw,
            localization=located.fix,
            localization_age_ns=located.fix_age_ns,
            filtered=located.filtered,
            goal_xy_m=goal,
            previous_action=ready.previous_action,
        )
        waiting = pilot.sense(ready, slot, observation, self._inference, rates)
        return replace(state, pilot=waiting), Sensed(waiting.decisions, observation, reset)

    def _recover(self, state: RobotState, inputs: Inputs, fused: Scan, slot: Slot) -> tuple[RobotState, Twist | None]:
        """Back off when blocked; return what replaces the policy's command, if anything."""
        held = limits.operator_drives(inputs.teleop, slot.start_ns, self._bounds)
        situation = recovery.Situation(
            suspended=not state.mission.driving or held or bool(inputs.e_stop) or state.lost_ns is not None,
            obstacle=inputs.obstacle,
            wanted=state.pilot.set_point,
            measured=state.wheels.twist,
            travelled_m=state.wheels.travelled_m,
            rear_free_m=zones.free_behind_m(fused, self._config.robot.footprint_radius_m),
        )
        after, override, event = recovery.advance(state.recovery, situation, self._config.recovery, slot.start_ns)
        state = replace(state, recovery=after)
        if event is not None:
            self._note("recovery", what=event.value)
            self.counters.recoveries += event is recovery.Event.BEGAN
        if event in recovery.MEMORY_RESETS:
            state = replace(state, pilot=pilot.restart(state.pilot))
        if after.gave_up and state.mission.driving:
            self._note("mission", state=f"stopped: {after.gave_up}")
            return replace(state, mission=mission.stop(state.mission, after.gave_up)), STOP
        return replace(state, mission=mission.recovering(state.mission, after.backing is not None)), override

    def _wanted(self, state: RobotState, override: Twist | None) -> Twist | None:
        """Return what policy or recovery want; None when nobody may."""
        if not state.mission.driving:
            return None
        return state.pilot.set_point if override is None else override

    def _limit(
        self, state: RobotState, wanted: Twist | None, inputs: Inputs, accepted: bool, fused: Scan, slot: Slot
    ) -> tuple[RobotState, Limited]:
        """Have the last word, and note since when inputs have been lost."""
        situation = limits.Situation(
            now_ns=slot.start_ns,
            e_stop=inputs.e_stop,
            goal_accepted=accepted,
            teleop=inputs.teleop,
            odometry_arrival_ns=state.wheels.arrival_ns,
            scan=fused if fused.stamp_ns > 0 else None,
        )
        latched, limited = limits.limit(state.limits, wanted, situation, self._bounds)
        lost = limited.reason in (limits.Reason.STALE_ODOMETRY, limits.Reason.STALE_SCAN)
        lost_ns = (state.lost_ns or slot.start_ns) if lost else None
        if lost and state.lost_ns is None:
            self._fault(limited.reason.value, "the robot stands until it is back")
        return replace(state, limits=latched, lost_ns=lost_ns), limited

    # ---- counting and telling -------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _timed(self, stage: str) -> Iterator[None]:
        began_ns = self._clock.now_ns()
        yield
        self._stage_ns[stage] = self._clock.now_ns() - began_ns
        self.counters.stages[stage].add(self._stage_ns[stage])

    def _note(self, event: str, **fields: object) -> None:
        self._events.append(" ".join([event, *(f"{name}={value}" for name, value in fields.items())]))
        log.info(event, **fields)

    def _fault(self, kind: str, detail: str) -> None:
        self.counters.faults[kind] += 1
        self._events.append(f"{kind}: {detail}")
        if self.counters.faults[kind] == 1 or self.counters.faults[kind] % 30 == 0:
            log.warning(kind, detail=detail, count=self.counters.faults[kind])


def of_rig(rig: Rig, inputs: Inputs) -> dict[str, DepthFrame]:
    """Return the frames of the cameras that a scan is fused from."""
    return {name: frame for name, frame in inputs.depth.items() if name in rig.views}


def _goal_distance(judged: Mission, located: Located | None) -> float | None:
    if judged.goal_xy_m is None or located is None:
        return None
    return distance(located.filtered.pose, Pose(*judged.goal_xy_m, 0.0))
