"""The robot. One `tick` is all of it: verbs in the order in which things happen.

    take -> integrate -> fuse -> judge goals -> act -> judge the mission -> sense -> recover -> limit -> send -> tell

Everything that lives between two ticks is one frozen value, `RobotState` (`state.py`); devices, time and the policy are
objects behind small protocols, so a simulated or recorded run goes through these same lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from onboard import episode as goals
from onboard.counters import Counters, Journal
from onboard.navigation import ekf, mission, odometry, start_frame
from onboard.navigation.mission import State
from onboard.navigation.start_frame import Located
from onboard.perception import obstacle_memory
from onboard.perception.obstacle_memory import Around
from onboard.policy import decision
from onboard.policy.decision import Acted, Recurrence, Sensed
from onboard.policy.inference import Inference
from onboard.safety import keepout_zones, limits, recovery
from onboard.safety.keepout_zones import Zone
from onboard.safety.limits import Limited
from onboard.state import Robot, RobotState, TickRecord
from onboard.values.clock import NS_PER_S, Clock, Slot, grid
from onboard.values.interfaces import Drive, Inbox
from onboard.values.messages import STOP, Inputs, Observation, Scan, Twist

__all__ = ["Listener", "Robot", "RobotState", "Runtime"]


class Listener(Protocol):
    """Who is told of every tick: the publisher, the recorder, a status line. Must not wait."""

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Take note of one tick. Raises DriverError if a link is gone."""


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
        config = robot.config
        self._robot, self._config = robot, config
        self._bounds = limits.bounds_of(
            config.limits, robot.plant, config.robot.footprint_radius_m, config.odometry.stale_ms
        )
        self._recurrence = Recurrence(robot.initial_memory, robot.memory_reset_s)
        self._clock, self._inbox, self._inference, self._drive = clock, inbox, inference, drive
        self._listeners = tuple(listeners)
        self._stopping = False
        self.state = RobotState()
        self.counters = Counters()
        self._journal = Journal(clock, self.counters)

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
        journal, before = self._journal, self.state
        journal.open(slot)
        with journal.timed("inbox"):
            inputs = self._inbox.take(slot.start_ns)
        with journal.timed("odometry"):
            state = self._integrate(before, inputs)
        with journal.timed("scan"):
            state, fused, around = self._fuse(state, inputs)
            zone = self._zone(before, state)
        with journal.timed("policy"):
            state, accepted = self._judge_goals(state, inputs)
            state, located = self._locate(state, inputs)
            state, acted = self._act(state, slot)
            state = self._judge_mission(state, inputs, located)
            fenced = keepout_zones.fenced(obstacle_memory.filled(fused, around.out_of_view), zone)
            state, sensed = self._sense(state, slot, inputs, located, fenced)
        with journal.timed("limits"):
            rear_free_m = keepout_zones.free_behind_m(around, zone, self._bounds.swept_radius_m)
            state, override = self._recover(state, inputs, rear_free_m)
            state, limited = self._limit(state, override, inputs, accepted, fused, around, zone)
        with journal.timed("send"):
            self._drive.send(limited.twist)
            sent_ns = self._clock.now_ns()
        if state.mission.text() != before.mission.text():
            journal.note("mission", state=state.mission.text())
        self.state = state
        record = TickRecord(
            slot=slot,
            inputs=inputs,
            odometry=state.wheels.motion,
            map_from_odom=ekf.map_from_odom(state.localization),
            filtered=located.filtered if located else None,
            scan=fused,
            limits_scan=around.scan,
            state=state.mission.text(),
            episode=state.mission.episode,
            goal_distance_m=state.mission.away_m(located.filtered.pose if located else None),
            sensed=sensed,
            acted=acted,
            recovery="backing" if state.recovery.backing else "",
            wanted=limited.wanted or STOP,
            command=limited.twist,
            reason=limited.reason.value,
            sent_ns=sent_ns,
            stage_ns=dict(journal.stage_ns),
            after=state,
            events=tuple(journal.events),
        )
        self.counters.count(record, self._config.rates)
        with journal.timed("tell"):
            for listener in self._listeners:
                listener.tick(record, self.counters)
        return record

    # ---- the stages, in their order -------------------------------------------------------------------------------

    def _integrate(self, state: RobotState, inputs: Inputs) -> RobotState:
        """Move the odometry and the filter on; a message that cannot be believed ends the drive with its reason."""
        section, wheels = self._config.odometry, state.wheels
        for message in inputs.odometry:
            wheels = odometry.advance(wheels, message, section)
        filtered = ekf.advance(state.localization, inputs.fixes, wheels, section)
        judged = state.mission
        if wheels.refused > state.wheels.refused:
            self._journal.fault("odometry_refused", wheels.refusal)
            judged = mission.stop(judged, wheels.refusal)
        if wheels.backward > state.wheels.backward:
            self._journal.fault("odometry_time_backward", f"{wheels.backward} messages so far")
        if filtered.refused > state.localization.refused:
            self._journal.fault("localization_refused", filtered.refusal)
        return replace(state, wheels=wheels, localization=filtered, mission=judged)

    def _fuse(self, state: RobotState, inputs: Inputs) -> tuple[RobotState, Scan, Around]:
        """Return the scan as it was seen, and what limits and recovery look at."""
        scanner, limits_scanner, pose = self._robot.scanner, self._robot.limits_scanner, state.wheels.pose
        fused, memory = scanner.scan(inputs, pose, state.scan_memory)
        state, guarded = replace(state, scan_memory=memory), fused
        if limits_scanner is not None:
            guarded, memory = limits_scanner.scan(inputs, pose, state.limits_scan_memory)
            state = replace(state, limits_scan_memory=memory)
        near = obstacle_memory.advance(state.nearby, guarded, pose, inputs.now_ns, self._bounds.remember_ns)
        return replace(state, nearby=near), fused, obstacle_memory.around(near, guarded, pose)

    def _zone(self, before: RobotState, state: RobotState) -> Zone:
        """Return what the map says of this place, and tell when its zones come into force or go out of it."""
        zone = keepout_zones.zone_of(self._robot.zones, state.localization)
        if self._robot.zones is not None and zone.in_force != ekf.tracked(before.localization):
            self._journal.note("map_zones", in_force=zone.in_force)
        return zone

    def _judge_goals(self, state: RobotState, inputs: Inputs) -> tuple[RobotState, bool]:
        """Take the newest goal that can be taken, then the cancel; return whether a goal was accepted."""
        accepted = False
        for request in inputs.goals:
            episode = state.mission.episode
            state, refusal = goals.judge(state, request, inputs, self._config)
            new = state.mission.episode != episode
            accepted = accepted or new
            asked = {"x_m": request.pose.x_m, "y_m": request.pose.y_m, "frame": request.frame_id}
            what = "goal_refused" if refusal else "goal_accepted" if new else "goal_repeated"
            self._journal.note(what, **asked, reason=refusal or "none")
        if inputs.cancel:
            state = replace(state, mission=mission.cancel(state.mission))
        return state, accepted

    def _locate(self, state: RobotState, inputs: Inputs) -> tuple[RobotState, Located | None]:
        """Return where the robot is in the start frame; None before the first goal."""
        if state.start is None:
            return state, None
        anchored = start_frame.anchor(state.start, state.wheels, state.localization)
        section, now_ns = self._config.odometry, inputs.now_ns
        return replace(state, start=anchored), start_frame.locate(
            anchored, state.wheels, state.localization, section, now_ns
        )

    def _act(self, state: RobotState, slot: Slot) -> tuple[RobotState, Acted | None]:
        """Put a decision in force that is due; a failed engine ends the drive."""
        after, acted = decision.act(
            decision.resumed(state.pilot, slot, self._config.rates), slot, self._inference, self._config.rates
        )
        judged = state.mission
        if acted is not None and acted.fault:
            self._journal.fault("engine_failed", acted.fault)
            judged = mission.stop(judged, f"engine failed: {acted.fault}")
        elif acted is not None and decision.silent_s(after, self._config.rates) >= self._config.goal.lost_input_s:
            judged = mission.stop(judged, f"engine failed: no decision for {self._config.goal.lost_input_s:g} s")
        elif acted is not None and acted.decision is not None:
            judged = mission.note_action(judged, acted.decision.action)
        return replace(state, pilot=after, mission=judged), acted

    def _judge_mission(self, state: RobotState, inputs: Inputs, located: Located | None) -> RobotState:
        """End the drive where it has ended: at the goal, without progress, e-stopped, or blind for too long."""
        if located is None:
            return state
        situation = mission.Situation(
            now_ns=inputs.now_ns,
            pose=located.filtered.pose,
            measured=state.wheels.twist,
            e_stop=bool(inputs.e_stop),
            held=self._operator_drives(inputs),
            lost_ns=state.lost_ns,
        )
        return replace(state, mission=mission.judge(state.mission, situation, self._config.goal))

    def _sense(
        self, state: RobotState, slot: Slot, inputs: Inputs, located: Located | None, fused: Scan
    ) -> tuple[RobotState, Sensed | None]:
        """Begin a decision when its slot has come. Nothing is decided while policy or inputs are out of the loop."""
        goal, rates = state.mission.goal_xy_m, self._config.rates
        if state.mission.state is not State.NAVIGATING or self._operator_drives(inputs):
            return replace(state, pilot=decision.restart(state.pilot)), None
        if state.lost_ns is not None:
            return replace(state, pilot=decision.hold(state.pilot)), None
        if goal is None or located is None or not decision.is_due(state.pilot, slot, rates):
            return state, None
        observation = Observation(
            stamp_ns=inputs.now_ns,
            color=inputs.color,
            scan=fused,
            odometry=located.raw,
            localization=located.fix,
            localization_age_ns=located.fix_age_ns,
            filtered=located.filtered,
            goal_xy_m=goal,
            previous_action=state.pilot.previous_action,
        )
        after, sensed = decision.sense(state.pilot, slot, observation, self._inference, rates, self._recurrence)
        return replace(state, pilot=after), sensed

    def _recover(self, state: RobotState, inputs: Inputs, rear_free_m: float) -> tuple[RobotState, Twist | None]:
        """Back off when blocked; return what replaces the policy's command, if anything."""
        lost = state.lost_ns is not None or decision.is_lost(state.pilot, self._config.rates)
        idle = not state.mission.driving or bool(inputs.e_stop) or lost
        situation = recovery.Situation(
            suspended=idle or self._operator_drives(inputs),
            obstacle=inputs.obstacle,
            wanted=state.pilot.set_point,
            measured=state.wheels.twist,
            travelled_m=state.wheels.travelled_m,
            rear_free_m=rear_free_m,
        )
        after, override, event = recovery.advance(state.recovery, situation, self._config.recovery, inputs.now_ns)
        state = replace(state, recovery=after)
        if event is not None:
            self._journal.note("recovery", what=event.value)
            self.counters.recoveries += event is recovery.Event.BEGAN
        if event in recovery.MEMORY_RESETS:
            state = replace(state, pilot=decision.restart(state.pilot))
        judged = mission.recovering(state.mission, after.backing is not None)
        if after.gave_up:
            judged = mission.stop(judged, after.gave_up)
        return replace(state, mission=judged), override

    def _limit(
        self, state: RobotState, wanted: Twist | None, inputs: Inputs, new: bool, fused: Scan, near: Around, zone: Zone
    ) -> tuple[RobotState, Limited]:
        """Have the last word over what policy or recovery want, and note since when inputs have been lost."""
        engine_lost = decision.is_lost(state.pilot, self._config.rates)
        if wanted is None and not engine_lost:
            wanted = state.pilot.set_point
        situation = limits.Situation(
            now_ns=inputs.now_ns,
            e_stop=inputs.e_stop,
            goal_accepted=new,
            teleop=inputs.teleop,
            odometry_arrival_ns=state.wheels.fresh_ns,
            scan=near.scan,
            policy_scan=fused,
            speed_limit_mps=inputs.speed_limit_mps,
            out_of_view=near.out_of_view,
            zone=zone,
            engine_lost=engine_lost and state.mission.driving,
            obstacle=inputs.obstacle,
        )
        latched, limited = limits.limit(
            state.limits, wanted if state.mission.driving else None, situation, self._bounds
        )
        if latched.limit_refused and not state.limits.limit_refused:
            self._journal.fault("speed_limit_refused", f"it is {inputs.speed_limit_mps}; the one before stays in force")
        lost = limited.reason in limits.LOST
        lost_ns = (state.lost_ns or inputs.now_ns) if lost else None
        if lost and state.lost_ns is None:
            self._journal.fault(limited.reason.value, "the robot stands until it is back")
        return replace(state, limits=latched, lost_ns=lost_ns), limited

    def _operator_drives(self, inputs: Inputs) -> bool:
        return limits.operator_drives(inputs.teleop, inputs.now_ns, self._bounds)
