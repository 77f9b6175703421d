"""The runtime. One `tick` is the whole robot; its stages run in this order:

    take -> integrate -> fuse -> judge goals -> act -> judge the mission -> sense -> recover -> limit -> hold -> send
    -> tell

All state between two ticks is one frozen value, `RobotState` (`state.py`). A stage takes and returns the parts that its
signature names. Devices, time and the policy are objects behind protocols, so simulation and replay run the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from onboard import episode
from onboard.counters import Counters, Journal
from onboard.episode import Answer
from onboard.navigation import ekf, lost_input, mission, odometry, scan_odometry, start_frame
from onboard.navigation.ekf import LocalizationState
from onboard.navigation.mission import LOST_INPUT_S, Mission, State
from onboard.navigation.odometry import OdometryState
from onboard.navigation.scan_odometry import ScanOdometry
from onboard.navigation.start_frame import Located, Start
from onboard.perception import free_ground, obstacle_memory
from onboard.perception.free_ground import FreeGround
from onboard.perception.obstacle_memory import Around, Nearby
from onboard.perception.scan_fusion import ScanMemory
from onboard.policy import decision
from onboard.policy.contract import twist_of
from onboard.policy.decision import Acted, DecisionState, Recurrence, Sensed
from onboard.policy.inference import Inference
from onboard.safety import keepout_zones, limits, looking, recovery
from onboard.safety.keepout_zones import Zone
from onboard.safety.limits import Limited, LimitsState, Reason
from onboard.safety.looking import LookingState
from onboard.safety.recovery import RecoveryState
from onboard.state import Robot, RobotState, TickRecord
from onboard.values.clock import NS_PER_S, Clock, Slot, grid
from onboard.values.interfaces import Drive, Inbox
from onboard.values.messages import STOP, Inputs, Observation, Pose, Scan, Twist


class Listener(Protocol):
    """Receives every tick: the publisher, the recorder, a status line. Must not wait."""

    def tick(self, record: TickRecord, counters: Counters) -> None:
        """Receive one tick. Raises DriverError if a link is gone."""


LONGEST_HOLD_NS = 15_000_000
"""A command waits at most this long after its tick's start, also if its decision sensed late."""


class Runtime:
    """Drives the robot on a grid of ticks until `stop`. The last command is always zero."""

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
        self._bounds = limits.bounds_of(config.limits, robot.plant, config.robot.footprint, config.odometry.stale_ms)
        self._period_ns = round(NS_PER_S / config.rates.control_hz)
        self._recurrence = Recurrence(robot.initial_memory, robot.memory_reset_s)
        self._clock, self._inbox, self._inference, self._drive = clock, inbox, inference, drive
        self._listeners = tuple(listeners)
        self._stopping = False
        self.state = RobotState()
        self.counters = Counters()
        self._odom = config.dds.odometry_topic
        self._journal = Journal(clock, self.counters, robot.zones is not None, self._odom)

    def stop(self) -> None:
        """End the run after the current tick. A signal handler of the loop may call this."""
        self._stopping = True

    async def run(self, lead_ns: int = 0) -> None:
        """Tick until `stop`. The last command on the wire is zero, also after an error.

        lead_ns: how much earlier a tick begins in which a decision is due, so that its work is done when its command
                 is due; 0 on the simulated clock, where work takes no time [ns]
        """
        try:
            async for slot in grid(self._clock, self._period_ns, lambda number: lead_ns if self._due(number) else 0):
                if self._stopping:
                    return
                self.tick(slot)
        finally:
            self._drive.close()

    def tick(self, slot: Slot) -> TickRecord:
        """Run one tick and return its inputs and results."""
        journal, was = self._journal, self.state
        journal.open(slot)
        with journal.timed("inbox"):
            inputs = self._inbox.take(slot.start_ns)
        with journal.timed("odometry"):
            wheels, localization, refusal = self._integrate(was.wheels, was.localization, inputs)
        with journal.timed("scan"):
            scan, memory = self._robot.scanner.scan(inputs, wheels.pose, was.scan_memory)
            around, nearby, ground, limits_memory = self._look(scan, was, inputs, wheels.pose)
            zone = keepout_zones.zone_of(self._robot.zones, localization)
        with journal.timed("policy"):
            at = episode.Situation(inputs.now_ns, bool(inputs.e_stop), was.limits.pressed, wheels, localization)
            kept = mission.stop(was.mission, refusal)
            asked, start, answers = self._judge_goals(kept, was.start, at, inputs)
            new_episode = asked.episode != was.mission.episode
            matching = scan_odometry.begin(was.scan_odometry) if new_episode else was.scan_odometry
            start, located = self._locate(start, wheels, matching, localization, inputs.now_ns)
            deciding, acted = self._act(was.pilot, new_episode, slot)
            if acted is not None and acted.decision is not None:
                twist = twist_of(acted.decision)
                asked, twist = mission.take_effect(asked, twist, start, localization, self._config.goal, inputs.now_ns)
                deciding = decision.replaced(deciding, twist)
            lost = lost_input.described(wheels, around.scan, scan, self._config, inputs.now_ns) if was.lost_ns else ""
            judged = self._judge_mission(asked, deciding, acted, located, was.lost_ns, lost, inputs)
            if self._config.odometry.scan_matching and self._senses(deciding, judged, was.lost_ns, inputs, slot):
                matching, localization = scan_odometry.advance(
                    matching, localization, scan, wheels, registered=self._config.scan.history > 1
                )
                start, located = self._locate(start, wheels, matching, localization, inputs.now_ns)
            deciding, sensed = self._sense(deciding, judged, located, scan, around, zone, was.lost_ns, inputs, slot)
            judged = self._look_at_goal(judged, sensed, scan)
        with journal.timed("limits"):
            recovered, override, event = self._recover(
                was.recovery, new_episode, judged, deciding, wheels, located, around, zone, was.lost_ns, inputs
            )
            looks, turn = self._turn_to_look(
                was.looking, judged, recovered, deciding, wheels, located, around, ground, inputs
            )
            override = turn if override is None else override
            deciding = decision.restart(deciding) if event in recovery.MEMORY_RESETS else deciding
            ended = mission.stop(mission.recovering(judged, recovered.backing is not None), recovered.gave_up)
            latch, limited = self._limit(
                was.limits, ended, deciding, override, new_episode, wheels, scan, around, zone, inputs, slot
            )
            if turn is not None and limited.reason is Reason.NONE:
                limited = replace(limited, reason=Reason.LOOKING)
            lost_ns = (was.lost_ns or inputs.now_ns) if limited.reason in limits.LOST else None
        with journal.timed("hold"):
            self._hold(acted, limited.twist, slot)
        with journal.timed("send"):
            self._drive.send(limited.twist)
            sent_ns = self._clock.now_ns()
        self.state = RobotState(
            wheels, localization, memory, limits_memory, ended, start, deciding, recovered, nearby, latch, lost_ns,
            matching, ground, looks,
        )  # fmt: skip
        events = journal.note_changes(was, self.state, answers, acted, event, limited.reason.value, inputs)
        record = self._record(self.state, slot, inputs, located, scan, around, sensed, acted, limited, sent_ns, events)
        with journal.timed("tell"):
            for listener in self._listeners:
                listener.tick(record, self.counters)
        return record

    # ---- the stages, in their order: values in, values out

    def _integrate(
        self, wheels: OdometryState, localization: LocalizationState, inputs: Inputs
    ) -> tuple[OdometryState, LocalizationState, str]:
        """Advance odometry and filter. Also return the reason why odometry ends a drive, or ""."""
        section, was = self._config.odometry, wheels
        for message in inputs.odometry:
            wheels = odometry.advance(wheels, message, section)
        filtered = ekf.advance(localization, inputs.fixes, wheels, section)
        if wheels.refused > was.refused:
            return wheels, filtered, wheels.refusal
        wrong = wheels.agreement.contradiction or (wheels.jump if wheels.jumps > was.jumps else "")
        return wheels, filtered, f"{self._odom} {wrong}" if wrong else ""

    def _look(
        self, scan: Scan, was: RobotState, inputs: Inputs, pose: Pose
    ) -> tuple[Around, Nearby, FreeGround, ScanMemory]:
        """Return the surroundings for limits and recovery: the scan, and what is remembered outside its view.

        The scan is the policy's unless the configuration has a `limits_scan`.
        """
        memory, bounds, now_ns = was.limits_scan_memory, self._bounds, inputs.now_ns
        if self._robot.limits_scanner is not None:
            scan, memory = self._robot.limits_scanner.scan(inputs, pose, memory)
        nearby = obstacle_memory.advance(was.nearby, scan, pose, now_ns, bounds.remember_ns)
        around, ground = obstacle_memory.around(nearby, scan, pose), was.ground
        fresh = abs(now_ns - scan.stamp_ns) <= bounds.scan_stale_ns
        if bounds.seen_free_ns > 0 and fresh:
            ground = free_ground.advance(ground, scan, obstacle_memory.pose_at(nearby.track, scan.stamp_ns), pose)
            unknown = free_ground.unknown(ground, scan, pose, now_ns, bounds.seen_free_ns, bounds.footprint)
            around = replace(around, unknown=unknown)
        return around, nearby, ground, memory

    def _judge_goals(
        self, asked: Mission, start: Start | None, situation: episode.Situation, inputs: Inputs
    ) -> tuple[Mission, Start | None, list[Answer]]:
        """Accept the newest valid goal, then apply a cancel. Also return the answer to each goal."""
        answers = []
        for request in inputs.goals:
            asked, start, answer = episode.judge(asked, start, request, situation, self._config)
            answers.append(answer)
        return mission.cancel(asked) if inputs.cancel else asked, start, answers

    def _locate(
        self,
        start: Start | None,
        wheels: OdometryState,
        matching: ScanOdometry,
        localization: LocalizationState,
        now_ns: int,
    ) -> tuple[Start | None, Located | None]:
        """Return the robot's pose in the start frame; None before the first goal."""
        if start is None:
            return None, None
        place = scan_odometry.corrected(matching, wheels.pose)
        start = start_frame.anchor(start, wheels, localization, place)
        return start, start_frame.locate(start, wheels, localization, self._config.odometry, now_ns, place)

    def _act(self, deciding: DecisionState, new_episode: bool, slot: Slot) -> tuple[DecisionState, Acted | None]:
        """Apply the decision that is due. A new episode drops the decisions of the previous episode."""
        deciding, rates = decision.begin(deciding) if new_episode else deciding, self._config.rates
        return decision.act(decision.resumed(deciding, slot, rates), slot, self._inference, rates)

    def _judge_mission(
        self,
        judged: Mission,
        deciding: DecisionState,
        acted: Acted | None,
        located: Located | None,
        lost_ns: int | None,
        lost: str,
        inputs: Inputs,
    ) -> Mission:
        """Return the mission, ended if the engine failed, inputs are lost, or at e-stop, goal or lack of progress."""
        if located is None:
            return judged
        situation = mission.Situation(
            now_ns=inputs.now_ns,
            pose=located.filtered.pose,
            measured=located.filtered.twist,
            e_stop=bool(inputs.e_stop),
            held=self._operator_drives(inputs),
            lost_ns=lost_ns,
            lost=lost,
            failure=decision.failure(deciding, acted, self._config.rates, LOST_INPUT_S),
        )
        return mission.judge(judged, situation, self._config.goal)

    def _senses(
        self, deciding: DecisionState, judged: Mission, lost_ns: int | None, inputs: Inputs, slot: Slot
    ) -> bool:
        """Return whether a decision begins in this slot."""
        drives = judged.state is State.NAVIGATING and not self._operator_drives(inputs) and lost_ns is None
        return drives and judged.goal_xy_m is not None and decision.is_due(deciding, slot, self._config.rates)

    def _sense(
        self,
        deciding: DecisionState,
        judged: Mission,
        located: Located | None,
        scan: Scan,
        around: Around,
        zone: Zone,
        lost_ns: int | None,
        inputs: Inputs,
        slot: Slot,
    ) -> tuple[DecisionState, Sensed | None]:
        """Start a decision in its slot, unless there is no goal, inputs are lost or the operator drives."""
        goal, rates = judged.goal_xy_m, self._config.rates
        if judged.state is not State.NAVIGATING or self._operator_drives(inputs):
            return decision.restart(deciding), None
        if lost_ns is not None:
            return decision.hold(deciding), None
        if goal is None or located is None or not decision.is_due(deciding, slot, rates):
            return deciding, None
        observation = Observation(
            stamp_ns=inputs.now_ns,
            color=inputs.color,
            scan=keepout_zones.fenced(_told(scan, around), zone),
            odometry=located.raw,
            localization=located.fix,
            localization_age_ns=located.fix_age_ns,
            filtered=located.filtered,
            goal_xy_m=goal,
            previous_action=deciding.previous_action,
            deviations=located.deviations,
        )
        return decision.sense(deciding, slot, observation, self._inference, rates, self._recurrence)

    def _look_at_goal(self, judged: Mission, sensed: Sensed | None, scan: Scan) -> Mission:
        """Return the mission, ended if a decision began and its scan shows that the goal is occupied."""
        if sensed is None:
            return judged
        pose, config = sensed.observation.filtered.pose, self._config
        radius_m, period_s = config.robot.footprint.inner_m, config.rates.ticks_per_decision / config.rates.control_hz
        return mission.look_at_goal(judged, scan, pose, radius_m, config.goal, period_s)

    def _recover(
        self,
        state: RecoveryState,
        new_episode: bool,
        judged: Mission,
        deciding: DecisionState,
        wheels: OdometryState,
        located: Located | None,
        around: Around,
        zone: Zone,
        lost_ns: int | None,
        inputs: Inputs,
    ) -> recovery.Step:
        """Back off when blocked. Also return the command that replaces the policy's, if any, and the event."""
        lost = lost_ns is not None or decision.is_lost(deciding)
        idle = not judged.driving or bool(inputs.e_stop) or lost
        situation = recovery.Situation(
            suspended=idle or self._operator_drives(inputs),
            obstacle=inputs.obstacle,
            wanted=deciding.set_point,
            measured=wheels.twist,
            travelled_m=wheels.travelled_m,
            rear_free_m=keepout_zones.free_behind_m(around, zone, self._bounds.swept),
            place_m=(located.filtered.pose.x_m, located.filtered.pose.y_m) if located else None,
            nearer_ns=judged.progress.since_ns if judged.progress else None,
        )
        state = recovery.renewed(state) if new_episode else state
        return recovery.advance(state, situation, self._config.recovery, inputs.now_ns)

    def _turn_to_look(
        self,
        state: LookingState,
        judged: Mission,
        recovered: RecoveryState,
        deciding: DecisionState,
        wheels: OdometryState,
        located: Located | None,
        around: Around,
        ground: FreeGround,
        inputs: Inputs,
    ) -> tuple[LookingState, Twist | None]:
        """Turn to look where no camera sees ahead. Return the command that replaces the policy's, if any."""
        drives = judged.state is State.NAVIGATING and not inputs.e_stop and not self._operator_drives(inputs)
        lost = decision.is_lost(deciding)
        away_m = judged.away_m(located.filtered.pose) if located else None
        situation = looking.Situation(
            active=drives and not lost and recovered.backing is None and not recovered.gave_up,
            near=away_m is None or away_m <= self._config.goal.tolerance_m,
            pose=wheels.pose,
            scan=around.scan,
            ground=ground,
        )
        return looking.advance(state, situation, self._bounds, inputs.now_ns)

    def _limit(
        self,
        state: LimitsState,
        judged: Mission,
        deciding: DecisionState,
        override: Twist | None,
        new_episode: bool,
        wheels: OdometryState,
        scan: Scan,
        around: Around,
        zone: Zone,
        inputs: Inputs,
        slot: Slot,
    ) -> tuple[LimitsState, Limited]:
        """Limit the command of recovery or policy. Without a goal or an engine there is no such command."""
        engine_lost = decision.is_lost(deciding)
        wanted = deciding.set_point if override is None and not engine_lost else override
        situation = limits.Situation(
            now_ns=inputs.now_ns,
            e_stop=inputs.e_stop,
            goal_accepted=new_episode,
            teleop=inputs.teleop,
            odometry_arrival_ns=wheels.fresh_ns,
            scan=around.scan,
            policy_scan=scan,
            speed_limit_mps=inputs.speed_limit_mps,
            out_of_view=around.out_of_view,
            unknown=around.unknown,
            zone=zone,
            engine_lost=engine_lost and judged.driving,
            obstacle=inputs.obstacle,
            slot=slot.number,
            missed=slot.missed,
        )
        return limits.limit(state, wanted if judged.driving else None, situation, self._bounds)

    def _due(self, number: int) -> bool:
        pending = self.state.pilot.pending
        return pending is not None and number >= pending.due_slot

    def _hold(self, acted: Acted | None, command: Twist, slot: Slot) -> None:
        """Let the first command of a decision wait, so that its delay from sensing is constant. A stop never waits."""
        if acted is None or acted.decision is None or command == STOP:
            return
        due_ns = acted.sensed_ns + self._config.rates.delay_ticks * self._period_ns
        self._clock.hold_until(min(due_ns, slot.start_ns + LONGEST_HOLD_NS))

    def _record(
        self,
        state: RobotState,
        slot: Slot,
        inputs: Inputs,
        located: Located | None,
        scan: Scan,
        around: Around,
        sensed: Sensed | None,
        acted: Acted | None,
        limited: Limited,
        sent_ns: int,
        events: tuple[str, ...],
    ) -> TickRecord:
        """Return the tick's inputs and results, and add them to the counters."""
        filtered = located.filtered if located else None
        record = TickRecord(
            slot=slot,
            inputs=inputs,
            odometry=state.wheels.own,
            map_from_odom=ekf.map_from_odom(state.localization, state.wheels.own_from_odom),
            filtered=filtered,
            scan=scan,
            limits_scan=around.scan,
            state=state.mission.text(),
            episode=state.mission.episode,
            goal_distance_m=state.mission.away_m(filtered.pose if filtered else None),
            sensed=sensed,
            acted=acted,
            recovery="backing" if state.recovery.backing else "",
            wanted=limited.wanted or STOP,
            command=limited.twist,
            reason=limited.reason.value,
            sent_ns=sent_ns,
            stage_ns=dict(self._journal.stage_ns),
            after=state,
            events=events,
        )
        self.counters.count(record, self._config.rates)
        return record

    def _operator_drives(self, inputs: Inputs) -> bool:
        return limits.operator_drives(inputs.teleop, inputs.now_ns, self._bounds)


def _told(scan: Scan, around: Around) -> Scan:
    """Return the policy's scan, with remembered obstacles and known ground where no camera looks."""
    return free_ground.told(obstacle_memory.filled(scan, around.out_of_view), around)
