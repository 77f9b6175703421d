"""The runtime. One `tick` is the whole robot; its stages run in this order:

    take -> integrate -> fuse -> judge goals -> act -> judge the mission -> sense -> recover -> limit -> hold -> send
    -> tell

All state between two ticks is one frozen value, `RobotState` (`state.py`). A stage takes and returns the parts that its
signature names; those of one kind travel together, as a `PoseEstimate`, a `View` or a `Maneuver`. Devices, time and the
policy are objects behind protocols, so simulation and replay run the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from onboard import episode
from onboard.counters import Counters, Journal
from onboard.episode import GOAL_ACCEPTED, Answer
from onboard.navigation import ekf, gyro, heading, lost_input, map_tracking, odometry, scan_odometry, start_frame
from onboard.navigation import mission as mission_rules
from onboard.navigation.mission import LOST_INPUT_S, Mission, State
from onboard.navigation.start_frame import Start
from onboard.perception import free_ground, obstacle_memory, scan_fusion
from onboard.perception.obstacle_memory import ObstacleMemory
from onboard.perception.scan_fusion import ScanMemory
from onboard.policy import decision
from onboard.policy.contract import twist_of
from onboard.policy.decision import DecisionState, FinishedDecision, Recurrence, StartedDecision
from onboard.policy.inference import Inference
from onboard.safety import keepout_zones, looking, recovery
from onboard.safety import limits as limit_rules
from onboard.safety import moving as moving_things
from onboard.safety.limits import LimitedCommand, LimitsState, Reason
from onboard.safety.moving import Moving
from onboard.state import Conditions, Maneuver, PoseEstimate, Robot, RobotState, TickRecord, View
from onboard.values import reasons
from onboard.values.clock import NS_PER_S, Clock, Slot, grid
from onboard.values.geometry import wrap
from onboard.values.interfaces import Drive, Inbox
from onboard.values.messages import STOP, Inputs, Observation, Pose, Scan, Twist
from onboard.values.reasons import NO_REASON, Said, of_topic


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
        coverage = (robot.limits_scanner or robot.scanner).coverage
        self._bounds = limit_rules.bounds_of(
            config.limits, robot.plant, config.robot.footprint, config.odometry.stale_ms, coverage
        )
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
            estimate, refusal = self._integrate(was, inputs)
        with journal.timed("scan"):
            view = self._fuse(was, estimate, inputs)
            estimate, view = self._track(estimate, view, inputs, slot)
        with journal.timed("policy"):
            mission, start, answers = self._judge_goals(was, refusal, estimate, inputs)
            new_episode = mission.episode != was.mission.episode
            before = _begin_episode(was) if new_episode else was
            estimate = self._locate(replace(estimate, start=start, scan_odometry=before.scan_odometry), inputs)
            pilot, acted = self._act(before.pilot, slot)
            mission, pilot = self._take_effect(mission, pilot, acted, estimate, inputs)
            operator_drives = limit_rules.operator_drives(inputs.teleop, inputs.now_ns, self._bounds)
            engine_lost = decision.is_lost(pilot)
            accepted = any(verdict == GOAL_ACCEPTED for _, verdict, _ in answers)
            paused = mission.paused or (self._config.map.tracker and estimate.tracking.lost)
            conditions = Conditions(slot, inputs, accepted, operator_drives, was.lost_ns, engine_lost, paused)
            mission = self._judge_mission(mission, pilot, acted, estimate, view, conditions)
            estimate = self._match_scan(mission, pilot, estimate, view, conditions)
            moving, moved_scan = self._watch(was.moving, mission, estimate, view, conditions)
            pilot, sensed = self._sense(mission, pilot, estimate, view, conditions)
            mission = self._judge_goal_place(mission, sensed, view)
        with journal.timed("limits"):
            maneuver = self._recover(before, mission, pilot, estimate, view, conditions)
            mission, pilot = _after_recovery(mission, pilot, maneuver)
            wanted = _wanted(mission, pilot, maneuver, conditions)
            limits, limited = self._limit(was.limits, wanted, mission, estimate, view, moving, conditions)
            if maneuver.turns and limited.reason is Reason.NONE:
                limited = replace(limited, reason=Reason.LOOKING)
            lost_ns = (was.lost_ns or inputs.now_ns) if limited.reason in limit_rules.LOST else None
        with journal.timed("hold"):
            self._hold(acted, limited.twist, slot)
        with journal.timed("send"):
            self._drive.send(limited.twist)
            sent_ns = self._clock.now_ns()
        self.state = RobotState(
            wheels=estimate.wheels, localization=estimate.localization, scan_odometry=estimate.scan_odometry,
            start=estimate.start, scan_memory=view.scan_memory, limits_scan_memory=view.limits_scan_memory,
            nearby=view.nearby, ground=view.ground, mission=mission, pilot=pilot, recovery=maneuver.recovery,
            looking=maneuver.looking, limits=limits, lost_ns=lost_ns, moving=moving,
            tracking=estimate.tracking,
        )  # fmt: skip
        events = journal.note_changes(was, self.state, answers, acted, maneuver.event, limited.reason.value, inputs)
        record = self._record(self.state, estimate, view, conditions, limited)
        moved_scan = view.moved if moved_scan is None else moved_scan
        record = replace(record, sensed=sensed, acted=acted, sent_ns=sent_ns, events=events, moved_scan=moved_scan)
        self.counters.count(record, self._config.rates)
        with journal.timed("tell"):
            for listener in self._listeners:
                listener.tick(record, self.counters)
        return record

    # ---- the stages, in their order: values in, values out

    def _integrate(self, was: RobotState, inputs: Inputs) -> tuple[PoseEstimate, Said]:
        """Advance odometry and filter. Also return the reason why odometry ends a drive, or ""."""
        section, wheels = self._config.odometry, was.wheels
        if section.imu:
            wheels = replace(wheels, gyro=gyro.hear(wheels.gyro, inputs.imu, inputs.now_ns))
        for message in inputs.odometry:
            wheels = odometry.advance(wheels, message, section)
        tracking = was.tracking
        if self._config.map.tracker:
            localization = ekf.advance(was.localization, (), wheels, section)
            tracking, localization = map_tracking.begin(tracking, localization, inputs.fixes, wheels, section)
        else:
            localization = ekf.advance(was.localization, inputs.fixes, wheels, section)
        estimate = PoseEstimate(wheels, localization, was.scan_odometry, was.start, tracking)
        if wheels.refused > was.wheels.refused:
            return estimate, wheels.refusal
        wrong = wheels.agreement.contradiction or (wheels.jump if wheels.jumps > was.wheels.jumps else NO_REASON)
        return estimate, of_topic(self._odom, wrong) if wrong else NO_REASON

    def _fuse(self, was: RobotState, estimate: PoseEstimate, inputs: Inputs) -> View:
        """Return the policy's scan, and for limits and recovery a scan and what lies out of its view.

        Both scans are the same unless the configuration has a `limits_scan`.
        """
        pose, now_ns, bounds = estimate.wheels.pose, inputs.now_ns, self._bounds
        scan, scan_memory = self._robot.scanner.scan(inputs, pose, was.scan_memory)
        limits_scan, limits_scan_memory = scan, was.limits_scan_memory
        if self._robot.limits_scanner is not None:
            limits_scan, limits_scan_memory = self._robot.limits_scanner.scan(inputs, pose, limits_scan_memory)
        standing = was.limits.sent.v_mps == 0.0
        before, memory = was.scan_memory, scan_memory
        if self._robot.limits_scanner is not None:
            before, memory = was.limits_scan_memory, limits_scan_memory
        entered = self._entered(was.nearby, before, limits_scan, memory, pose, now_ns)
        nearby = obstacle_memory.advance(was.nearby, entered, pose, now_ns, bounds.remember_ns, standing)
        surroundings, ground = obstacle_memory.surroundings(nearby, limits_scan, pose), was.ground
        fresh = abs(now_ns - limits_scan.stamp_ns) <= bounds.scan_stale_ns
        if bounds.seen_free_ns > 0 and fresh:
            seen_from = obstacle_memory.pose_at(nearby.track, limits_scan.stamp_ns)
            ground = free_ground.advance(ground, limits_scan, seen_from, pose)
            unknown = free_ground.unknown(ground, limits_scan, pose, now_ns, bounds.seen_free_ns, bounds.footprint)
            surroundings = replace(surroundings, unknown=unknown)
        zone = keepout_zones.zone_of(self._robot.zones, estimate.localization)
        moved = entered if entered.stamp_ns == now_ns != limits_scan.stamp_ns else None
        return View(scan, surroundings, zone, scan_memory, limits_scan_memory, nearby, ground, moved)

    def _entered(
        self, nearby: ObstacleMemory, before: ScanMemory, scan: Scan, memory: ScanMemory, pose: Pose, now_ns: int
    ) -> Scan:
        """Return the scan for the obstacle memory, with each camera's image moved to now.

        Without a new image, or too soon after the last entry, it has the stamp of that entry: the memory ignores it.

        before: memory of the scan in the tick before
        """
        own = self._config.own_scan or self._config.scan
        if own.topic or not own.move_images or self._bounds.remember_ns == 0:
            return scan
        if before.stamp_ns == memory.stamp_ns or not obstacle_memory.is_due(nearby, now_ns):
            return replace(scan, stamp_ns=nearby.scan_ns)
        scanner = self._robot.limits_scanner or self._robot.scanner
        moved = scanner.moved(scan, memory, obstacle_memory.followed(nearby.track, now_ns, pose))
        return scan if moved is None else replace(moved, stamp_ns=now_ns)

    def _track(self, estimate: PoseEstimate, view: View, inputs: Inputs, slot: Slot) -> tuple[PoseEstimate, View]:
        """Compare the scan with the map of the building in the slots of decisions; a tracker corrects the filter.

        It takes images moved to now, and the view keeps them: also a slot without a decision is recorded and replayed.
        A robot with a `limits_scan` takes them as captured, as of its two scans only that one is recorded moved.
        """
        reach, every, section = self._robot.reach, self._config.rates.ticks_per_decision, self._config.scan
        if reach is None or slot.number % every > slot.missed:
            return estimate, view
        scan, registered, moved = view.scan, section.history > 1, None
        if section.move_images and not registered and not section.topic and self._robot.limits_scanner is None:
            moved = self._robot.scanner.moved(scan, view.scan_memory, view.nearby.track)
        if moved is not None:
            view = replace(view, moved=replace(moved, stamp_ns=inputs.now_ns))
            scan, registered = replace(moved, stamp_ns=scan.stamp_ns), True
        tracking, localization = map_tracking.advance(
            estimate.tracking, estimate.localization, scan, estimate.wheels, reach, self._config.odometry,
            tracks=self._config.map.tracker, registered=registered,
        )  # fmt: skip
        return replace(estimate, tracking=tracking, localization=localization), view

    def _judge_goals(
        self, was: RobotState, refusal: Said, estimate: PoseEstimate, inputs: Inputs
    ) -> tuple[Mission, Start | None, list[Answer]]:
        """Stop at a refusal of odometry, go on to the next goal of a sequence, pause or resume, accept the newest valid
        goal, then apply a cancel. Also answer each goal."""
        mission, start = mission_rules.stop(was.mission, refusal), was.start
        situation = episode.Situation(
            inputs.now_ns, bool(inputs.e_stop), was.limits.pressed, estimate.wheels, estimate.localization,
            inputs.battery, self._robot.reach,
        )  # fmt: skip
        located = self._locate(estimate, inputs).located if mission.then_xy_m else None
        if located is not None and mission_rules.passes(mission, located.filtered.pose, self._config.goal):
            mission, start = episode.onward(mission, located.filtered.pose, situation)
        mission = mission_rules.pause(mission, inputs.pause, inputs.now_ns)
        answers = []
        for request in inputs.goals:
            mission, start, answer = episode.judge(mission, start, request, situation, self._config)
            answers.append(answer)
        return mission_rules.cancel(mission) if inputs.cancel else mission, start, answers

    def _locate(self, estimate: PoseEstimate, inputs: Inputs) -> PoseEstimate:
        """Return the estimate with the robot's pose in the start frame; None before the first goal."""
        if estimate.start is None:
            return estimate
        wheels, localization = estimate.wheels, estimate.localization
        corrected = scan_odometry.corrected(estimate.scan_odometry, wheels.pose)
        start = start_frame.anchor(estimate.start, wheels, localization, corrected)
        located = start_frame.locate(start, wheels, localization, inputs.now_ns, corrected)
        return replace(estimate, start=start, located=located)

    def _act(self, pilot: DecisionState, slot: Slot) -> tuple[DecisionState, FinishedDecision | None]:
        """Apply the decision that is due."""
        rates = self._config.rates
        return decision.act(decision.resumed(pilot, slot, rates), slot, self._inference)

    def _take_effect(
        self,
        mission: Mission,
        pilot: DecisionState,
        acted: FinishedDecision | None,
        estimate: PoseEstimate,
        inputs: Inputs,
    ) -> tuple[Mission, DecisionState]:
        """Note a decision in the mission; a stop at an uncertain goal becomes a turn in place."""
        if acted is None or acted.decision is None:
            return mission, pilot
        twist, goal = twist_of(acted.decision), self._config.goal
        mission, twist = mission_rules.take_effect(
            mission, twist, acted.decision.left_m, estimate.start, estimate.localization, goal, inputs.now_ns
        )
        return mission, decision.replaced(pilot, twist)

    def _judge_mission(
        self,
        mission: Mission,
        pilot: DecisionState,
        acted: FinishedDecision | None,
        estimate: PoseEstimate,
        view: View,
        conditions: Conditions,
    ) -> Mission:
        """Return the mission, ended if the engine failed, inputs are lost, or at e-stop, goal or lack of progress."""
        inputs, config, lost = conditions.inputs, self._config, ""
        if estimate.located is None:
            return mission
        if conditions.lost_ns is not None:
            lost = lost_input.described(estimate.wheels, view.surroundings.scan, view.scan, config, inputs)
        situation = mission_rules.Situation(
            now_ns=inputs.now_ns,
            pose=estimate.located.filtered.pose,
            measured=estimate.located.filtered.twist,
            e_stop=bool(inputs.e_stop),
            held=conditions.held,
            lost_ns=conditions.lost_ns,
            lost=lost,
            failure=decision.failure(pilot, acted, config.rates, LOST_INPUT_S),
            battery=_empty(inputs.battery, config.limits.battery_min[1]),
            uncertain_m=estimate.located.uncertain_m,
        )
        return mission_rules.judge(mission, situation, config.goal)

    def _match_scan(
        self, mission: Mission, pilot: DecisionState, estimate: PoseEstimate, view: View, conditions: Conditions
    ) -> PoseEstimate:
        """Correct the odometry by the scan of a decision, if scan matching is on."""
        if not (self._config.odometry.scan_matching and self._senses(mission, pilot, conditions)):
            return estimate
        scan, registered = self._moved_scan(view)
        matched, localization = scan_odometry.advance(
            estimate.scan_odometry, estimate.localization, scan, estimate.wheels, registered
        )
        estimate = replace(estimate, scan_odometry=matched, localization=localization)
        return self._locate(estimate, conditions.inputs)

    def _senses(self, mission: Mission, pilot: DecisionState, conditions: Conditions) -> bool:
        """Return whether a decision begins in this slot."""
        drives = mission.state is State.NAVIGATING and not conditions.held and conditions.lost_ns is None
        return (
            drives
            and not mission.turning
            and mission.goal_xy_m is not None
            and decision.is_due(pilot, conditions.slot, self._config.rates)
        )

    def _watch(
        self, moving: Moving, mission: Mission, estimate: PoseEstimate, view: View, conditions: Conditions
    ) -> tuple[Moving, Scan | None]:
        """Return what moves by the limits' scan, at the rate of `moving.is_due`, and the scan if images were moved."""
        scan, pose, track = view.surroundings.scan, estimate.wheels.pose, view.nearby.track
        if not mission.driving:
            return moving, None
        if not (self._config.own_scan or self._config.scan).uses_cameras:
            seen_from = obstacle_memory.pose_at(track, scan.stamp_ns) if track else pose
            return moving_things.advance(moving, scan, seen_from), None
        now_ns, own = conditions.inputs.now_ns, self._robot.limits_scanner
        if not moving_things.is_due(moving, now_ns):
            return moving, None
        memory = view.scan_memory if own is None else view.limits_scan_memory
        if (moved := (own or self._robot.scanner).moved(scan, memory, track)) is None:
            return moving, None
        moved = replace(moved, stamp_ns=now_ns)
        return moving_things.advance(moving, moved, pose), moved

    def _sense(
        self, mission: Mission, pilot: DecisionState, estimate: PoseEstimate, view: View, conditions: Conditions
    ) -> tuple[DecisionState, StartedDecision | None]:
        """Start a decision in its slot, unless there is no goal, inputs are lost, the operator drives, the drive is
        paused, or the robot turns to its final heading."""
        goal, located, rates = mission.goal_xy_m, estimate.located, self._config.rates
        if mission.state is not State.NAVIGATING or conditions.held or mission.turning:
            return decision.restart(pilot), None
        if conditions.lost_ns is not None:
            return decision.hold(pilot), None
        if goal is None or located is None or not decision.is_due(pilot, conditions.slot, rates):
            return pilot, None
        observation = Observation(
            stamp_ns=conditions.inputs.now_ns,
            color=conditions.inputs.color,
            scan=keepout_zones.fenced(self._policy_scan(view), view.zone),
            odometry=located.raw,
            localization=located.fix,
            localization_age_ns=located.fix_age_ns,
            filtered=located.filtered,
            goal_xy_m=goal,
            previous_action=pilot.previous_action,
            deviations=located.deviations,
            map_from_start=None
            if estimate.tracking.lost
            else start_frame.map_from_start(estimate.start, estimate.localization),
        )
        return decision.sense(pilot, conditions.slot, observation, self._inference, rates, self._recurrence)

    def _policy_scan(self, view: View) -> Scan:
        """Return the policy's scan from the place of now, with what is known where no camera looks."""
        filled = obstacle_memory.filled(self._moved_scan(view)[0], view.surroundings.out_of_view)
        return free_ground.with_unknown_ground(filled, view.surroundings)

    def _moved_scan(self, view: View) -> tuple[Scan, bool]:
        """Return the scan and whether it is from the place of now: each camera's image is of another time."""
        section = self._config.scan
        if section.move_images and section.history == 1 and not section.topic:
            return scan_fusion.moved_to_now(view.scan, view.scan_memory, view.nearby.track), True
        return view.scan, section.history > 1

    def _judge_goal_place(self, mission: Mission, sensed: StartedDecision | None, view: View) -> Mission:
        """Return the mission, ended if a decision began and its scan shows that the goal is occupied."""
        if sensed is None:
            return mission
        pose, config = sensed.observation.filtered.pose, self._config
        radius_m, period_s = config.robot.footprint.inner_m, config.rates.ticks_per_decision / config.rates.control_hz
        return mission_rules.look_at_goal(mission, self._moved_scan(view)[0], pose, radius_m, config.goal, period_s)

    def _recover(
        self,
        before: RobotState,
        mission: Mission,
        pilot: DecisionState,
        estimate: PoseEstimate,
        view: View,
        conditions: Conditions,
    ) -> Maneuver:
        """Back off when blocked, turn to look where no camera sees ahead, or turn to the final heading.

        before: recovery and looking
        """
        inputs, wheels, located = conditions.inputs, estimate.wheels, estimate.located
        pose = located.filtered.pose if located else None
        lost = conditions.lost_ns is not None or conditions.engine_lost
        idle = not mission.driving or bool(inputs.e_stop) or lost
        situation = recovery.Situation(
            suspended=idle or conditions.held or mission.turning,
            obstacle=inputs.obstacle,
            wanted=pilot.set_point,
            measured=wheels.twist,
            travelled_m=wheels.travelled_m,
            rear_free_m=keepout_zones.free_behind_m(view.surroundings, view.zone, self._bounds.swept),
            place_m=(pose.x_m, pose.y_m) if pose else None,
            nearer_ns=mission.progress.since_ns if mission.progress else None,
        )
        recovery_state, back_off, event = recovery.advance(
            before.recovery, situation, self._config.recovery, inputs.now_ns
        )
        drives = mission.state is State.NAVIGATING and not inputs.e_stop and not conditions.held
        away_m = mission.away_m(pose)
        ahead = looking.Situation(
            active=drives
            and not mission.turning
            and not conditions.engine_lost
            and recovery_state.backing is None
            and not recovery_state.gave_up,
            near=away_m is None or away_m <= self._config.goal.tolerance_m,
            pose=wheels.pose,
            scan=view.surroundings.scan,
            ground=view.ground,
        )
        looking_state, turn = looking.advance(before.looking, ahead, self._bounds, inputs.now_ns)
        override = turn if back_off is None else back_off
        if override is None and mission.turning and mission.heading_rad is not None and pose is not None:
            override = heading.turn(wrap(mission.heading_rad - pose.yaw_rad))
        return Maneuver(recovery_state, looking_state, override, turn is not None, event)

    def _limit(
        self,
        state: LimitsState,
        wanted: Twist | None,
        mission: Mission,
        estimate: PoseEstimate,
        view: View,
        moving: Moving,
        conditions: Conditions,
    ) -> tuple[LimitsState, LimitedCommand]:
        """Limit the wanted command."""
        inputs, surroundings = conditions.inputs, view.surroundings
        situation = limit_rules.Situation(
            now_ns=inputs.now_ns,
            e_stop=inputs.e_stop,
            goal_accepted=conditions.goal_accepted,
            teleop=inputs.teleop,
            odometry_arrival_ns=estimate.wheels.fresh_ns,
            scan=surroundings.scan,
            policy_scan=view.scan,
            speed_limit_mps=inputs.speed_limit_mps,
            out_of_view=surroundings.out_of_view,
            unknown=surroundings.unknown,
            zone=view.zone,
            engine_lost=conditions.engine_lost and mission.driving,
            obstacle=inputs.obstacle,
            slot=conditions.slot.number,
            missed=conditions.slot.missed,
            paused=conditions.paused and mission.driving,
            reached=moving_things.reached(moving, estimate.wheels.pose, inputs.now_ns),
        )
        return limit_rules.limit(state, wanted, situation, self._bounds)

    def _due(self, number: int) -> bool:
        pending = self.state.pilot.pending
        return pending is not None and number >= pending.due_slot

    def _hold(self, acted: FinishedDecision | None, command: Twist, slot: Slot) -> None:
        """Let the first command of a decision wait, so that its delay from sensing is constant. A stop never waits."""
        if acted is None or acted.decision is None or command == STOP:
            return
        due_ns = acted.sensed_ns + self._config.rates.delay_ticks * self._period_ns
        self._clock.hold_until(min(due_ns, slot.start_ns + LONGEST_HOLD_NS))

    def _record(
        self, state: RobotState, estimate: PoseEstimate, view: View, conditions: Conditions, limited: LimitedCommand
    ) -> TickRecord:
        """Return the tick's inputs and results, but for its decisions and events."""
        filtered = estimate.located.filtered if estimate.located else None
        return TickRecord(
            slot=conditions.slot,
            inputs=conditions.inputs,
            odometry=state.wheels.own,
            map_from_odom=ekf.map_from_odom(state.localization, state.wheels.own_from_odom),
            filtered=filtered,
            scan=view.scan,
            limits_scan=view.surroundings.scan,
            state=state.mission.text(),
            episode=state.mission.episode,
            goal_distance_m=state.mission.away_m(filtered.pose if filtered else None),
            recovery="backing" if state.recovery.backing else "",
            wanted=limited.wanted or STOP,
            command=limited.twist,
            reason=limited.reason.value,
            stage_ns=dict(self._journal.stage_ns),
            after=state,
        )


def _begin_episode(state: RobotState) -> RobotState:
    """Return the state for a new episode: without the previous episode's decisions, recovery tries and matching."""
    return replace(
        state,
        pilot=decision.begin(state.pilot),
        recovery=recovery.renewed(state.recovery),
        scan_odometry=scan_odometry.begin(state.scan_odometry),
    )


def _empty(battery: float | None, least: float) -> Said:
    """Return why a charge ends a drive, or ""."""
    if battery is None or battery >= least:
        return NO_REASON
    return reasons.BATTERY_EMPTY.say(percent=100.0 * battery, limit=100.0 * least)


def _after_recovery(mission: Mission, pilot: DecisionState, maneuver: Maneuver) -> tuple[Mission, DecisionState]:
    """Return mission and decisions after a step of the recovery, which resets the memory and may end the drive."""
    backing, gave_up = maneuver.recovery.backing is not None, maneuver.recovery.gave_up
    pilot = decision.restart(pilot) if maneuver.event in recovery.MEMORY_RESETS else pilot
    return mission_rules.stop(mission_rules.recovering(mission, backing), gave_up), pilot


def _wanted(mission: Mission, pilot: DecisionState, maneuver: Maneuver, conditions: Conditions) -> Twist | None:
    """Return the command of recovery or policy. Without a goal or an engine there is no such command."""
    if not mission.driving or (maneuver.override is None and conditions.engine_lost):
        return None
    return pilot.set_point if maneuver.override is None else maneuver.override
