"""A drive without the runtime: policy and plant are stepped directly, with the constant delay between them.

The drive calls the runtime's own functions: filter, start frame, decision, mission, recovery and limits. It calls them
only in ticks in which they can change something. Compiled code (`tick_kernels.py`) simulates the ticks between.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hil.drive.fast.course import Course, course_of
from hil.drive.fast.limits_kernel import NONE
from hil.drive.fast.robot import FastRobot, time_ns
from hil.drive.fast.sensing import FastEyes, last_image
from hil.drive.fast.tick_kernels import FIRST_TICK
from hil.drive.fast.tick_state import NEVER
from hil.drive.setting import (
    MAX_S,
    REACHED_M,
    Outcome,
    Setting,
    goal_request,
    goal_tick,
    how_ended,
)
from hil.physics.free_space import Episode
from hil.physics.simulated_base import NS, STEP_NS
from onboard.navigation import mission, start_frame
from onboard.navigation.mission import REST_DECISIONS, Mission, Progress, State
from onboard.navigation.start_frame import GoalRefusedError
from onboard.perception import collision, free_ground, obstacle_memory
from onboard.perception.building.reach import Reach
from onboard.perception.free_ground import FreeGround
from onboard.perception.obstacle_memory import ObstacleMemory, Surroundings
from onboard.policy import decision
from onboard.policy.contract import ACTIONS, twist_of
from onboard.policy.decision import DecisionState, Recurrence
from onboard.policy.inference import Inference, InlineInference
from onboard.safety import limits, looking, moving, recovery
from onboard.safety.limits import LimitsState
from onboard.safety.looking import LookingState
from onboard.safety.moving import Moving
from onboard.safety.recovery import RecoveryState
from onboard.values import reasons
from onboard.values.clock import Slot
from onboard.values.errors import InputError
from onboard.values.geometry import between
from onboard.values.interfaces import Policy
from onboard.values.messages import STOP, Observation, Pose, Scan, Twist

# ---- Outcome of a drive without the runtime, at any tick

TrackedSlot = tuple[float, float, bool]
"""Error of the tracker's pose in the slot of a decision: position [m], heading [rad]; and whether it is lost."""


@dataclass(frozen=True, slots=True)
class FastOutcome(Outcome):
    """The same with the tracker's errors. tracked: empty without `map.tracker`"""

    tracked: tuple[TrackedSlot, ...] = ()


def outcome_of(
    robot: FastRobot, goal_xy_m: tuple[float, float], ended: str, ticks: int, actions: npt.NDArray[np.int64]
) -> FastOutcome:
    """Return the outcome of a drive.

    goal_xy_m: in the map frame
    ended:     end of the drive as in `Outcome.ended`, "" while the drive continues
    ticks:     ticks since the goal came
    actions:   (28,) how often the policy chose each action; not copied
    """
    s = robot.state
    distance_m = math.hypot(s.x_m - goal_xy_m[0], s.y_m - goal_xy_m[1])
    return FastOutcome(
        reached=ended == "stop" and distance_m <= REACHED_M,
        ended=ended,
        contacts=int(s.contacts),
        time_s=ticks * STEP_NS / NS,
        path_m=s.path_m,
        distance_m=distance_m,
        min_clearance_m=s.clear_m,
        actions=actions,
        trace=robot.trace(ticks),
        bumps=int(s.bumps),
        set_by_kernels=robot.poses_set,
    )


def drive_fast(setting: Setting, episode: Episode, policy: Policy, seed: int, max_s: float = MAX_S) -> FastOutcome:
    """Return the outcome of a drive without the runtime. The same seed gives the same outcome, bit for bit.

    Raises InputError if the start is not free, if the rates do not fit the simulated robot, or for zones of the map.
    """
    return FastDrive(setting, course_of(setting), episode, policy, seed, max_s).run()


def drive_tour(setting: Setting, episodes: Sequence[Episode], policy: Policy, seed: int, max_s: float) -> FastOutcome:
    """Return the outcome of a drive from the first start through all goals, up to the first that is not reached.

    max_s: for each goal. Contacts, path and clearance are those of the whole drive.
    """
    drive = FastDrive(setting, course_of(setting), episodes[0], policy, seed, max_s)
    parts = [drive.run()]
    while parts[-1].reached and len(parts) < len(episodes):
        drive.begin_next(episodes[len(parts)])
        while not drive.ended():
            drive.advance()
        parts.append(drive.outcome())
    last, times = parts[-1], np.cumsum([0.0, *(part.time_s for part in parts)])
    count = len(parts) - 1
    trace = np.concatenate([part.trace for part in parts])
    trace[:, 0] += np.repeat(times[:-1], [len(part.trace) for part in parts])
    return replace(
        last,
        ended=last.ended if last.reached else f"{last.ended}, after {count} of {len(episodes)} places",
        time_s=float(times[-1]),
        actions=np.asarray(last.actions),
        trace=trace,
    )


class FastDrive:
    """A single drive. Its stages have the names and the order of the stages of `onboard.runtime.Runtime`."""

    def __init__(
        self,
        setting: Setting,
        course: Course,
        episode: Episode,
        policy: Policy,
        seed: int,
        max_s: float,
        inference: Inference | None = None,
    ) -> None:
        """Prepare the drive. inference: runs the policy; None runs the policy inline, in the same call.

        Raises InputError if the start is not free, and for a robot with an IMU, which only the whole runtime reads.
        """
        if setting.config.odometry.imu:
            raise InputError("odometry.imu: only the whole runtime reads an IMU (evaluate --runtime)")
        self._setting, self._config, self._course, self._episode = setting, setting.config, course, episode
        self._inference = inference or InlineInference(policy, lambda: 0)
        self._recurrence = Recurrence(policy.initial_memory(), policy.memory_reset_s)
        self._most = math.floor(max_s * NS / STEP_NS)
        self._began = goal_tick(self._config.rates.ticks_per_decision)
        goal, recovering = self._config.goal, self._config.recovery
        self._timeout, self._progress_timeout = _ticks(goal.timeout_s), _ticks(goal.progress_timeout_s)
        self._blocked_ticks, self._held_ticks = _ticks(recovering.blocked_s), _ticks(recovery.HELD_S)
        self._robot = FastRobot(setting, course, episode.start, seed, self._most)
        self._eyes = FastEyes(setting, course, policy, self._robot)
        self._start = start_frame.Start(Pose(0.0, 0.0, 0.0), None)
        self._mission, self._deciding = Mission(), DecisionState()
        self._recovery, self._limits = RecoveryState(), LimitsState()
        self._nearby = ObstacleMemory()
        self._ground, self._looking = FreeGround(), LookingState()
        self._moving = Moving()
        self._recall: tuple[int, ObstacleMemory] = (0, ObstacleMemory())
        self._limited: dict[Twist, Twist] = {}
        self._command = STOP
        self._actions = np.zeros(len(ACTIONS), np.int64)
        self._touched_m: list[tuple[float, float]] = []
        self._tracked: list[TrackedSlot] = []

    @property
    def robot(self) -> FastRobot:
        """The simulated robot of this drive."""
        return self._robot

    def run(self) -> FastOutcome:
        """Stand until the first fixes have come, accept the goal, and drive to the end. Return the outcome."""
        self.begin()
        while not self.ended():
            self.advance()
        return self.outcome()

    def begin(self) -> None:
        """Stand until the first fixes have come, and accept the goal."""
        robot = self._robot
        color_tick, reach = last_image(self._began, self._setting.senses.color_every), self._setting.reach
        every = self._config.rates.ticks_per_decision
        compared = range(every, self._began + 1, every) if reach is not None else range(0)
        for tick in sorted({color_tick, self._began, *compared}):
            robot.run_to(tick, STOP)
            if self._eyes.take_images():
                self._remember()
            if reach is not None and tick in compared:
                self._track(reach)
        self._take_goal()
        self._watch()
        if self._turns_to_look():
            self._turn_to_look()

    def begin_next(self, episode: Episode) -> None:
        """Accept the goal of another episode where the robot stands after the one before."""
        every, robot = self._config.rates.ticks_per_decision, self._robot
        self._episode, self._began = episode, robot.tick + every - (robot.tick + 1) % every
        self._command = STOP
        self._deciding, self._recovery = decision.restart(self._deciding), RecoveryState()
        robot.pause()
        robot.run_to(self._began, STOP)
        robot.judge_blocked(self._recovery)
        robot.want(self._deciding.set_point)
        self._recall, self._limited = (0, ObstacleMemory()), {}
        if self._eyes.take_images():
            self._remember()
        self._take_goal()

    def advance(self) -> None:
        """Simulate through the next tick in which a value other than the robot's motion can change."""
        self._robot.run_to(self._next_tick(), self._command, self._ways())
        s = self._robot.state
        self._touched_m += [(s.touch_x_m, s.touch_y_m)] * (int(s.contacts) - len(self._touched_m))
        self._tick()

    def _take_goal(self) -> None:
        """Set the start frame and the goal in this frame, as the runtime does."""
        wheels, filtered, config = self._robot.wheels(), self._robot.localization(), self._config
        self._start = start_frame.begin(wheels, filtered)
        request = goal_request(self._setting, self._episode, time_ns(self._began))
        try:
            goal_xy_m = start_frame.goal_in_start(request, self._start, wheels, filtered, config.goal, config.dds)
        except GoalRefusedError as error:
            self._mission = mission.refuse(self._mission, error.said, time_ns(self._began))
            goal_xy_m = (0.0, 0.0)
        else:
            self._mission = mission.accept(self._mission, goal_xy_m, time_ns(self._began))
        self._robot.begin(self._start, goal_xy_m)

    def _next_tick(self) -> int:
        """Return the next tick in which a value other than the robot's motion can change."""
        robot, rates = self._robot, self._config.rates
        tick = robot.tick
        backing = self._recovery.backing is not None
        if (
            backing
            or self._turns_to_look()
            or self._mission.stops >= REST_DECISIONS
            or self._course.ramped
            or self._moves()
            or self._contact_reported()
        ):
            return tick + 1
        sense = tick + rates.ticks_per_decision - tick % rates.ticks_per_decision
        until = sense if self._deciding.pending is None else min(sense, self._deciding.pending.due_slot)
        due = [
            until,
            self._eyes.next_tick(tick, until, self._watched()),
            self._began + self._most,
            self._began + self._timeout,
            int(robot.state.best) + self._progress_timeout,
        ]
        if self._course.limits is not None:
            every = self._setting.senses.depth_every
            watch = int(robot.state.seen_tick) + every
            while not moving.is_due(self._moving, time_ns(watch)):
                watch += every
            due.append(watch)
            blocked = tick if robot.state.blocked == NEVER else int(robot.state.blocked)
            due.append(blocked + self._blocked_ticks)
            place = tick if robot.state.place == NEVER else int(robot.state.place)
            due.append(max(place, int(robot.state.best)) + self._held_ticks)
        return max(tick + 1, min(due))

    def _contact_reported(self) -> bool:
        """Return whether the base reports an obstacle to active limits: the limits must then run in every tick."""
        return self._course.limits is not None and bool(self._robot.state.touching)

    def _ways(self) -> npt.NDArray[np.float64]:
        """Return `FastLimits.ways` of the current command: the space that must stay free. Empty without limits."""
        in_force = self._course.limits
        return NONE if in_force is None else in_force.ways(self._command)

    def _free(self) -> bool:
        """Return whether the compiled ticks showed that the limits pass the current command by the newest scan."""
        return len(self._ways()) > 0 and self._setting.crowd is None and not self._robot.state.halt

    def _watched(self) -> bool:
        """Return whether every scan must be taken: the limits changed the current command, or may change it.

        False for an unchanged command without a crowd: the compiled ticks halt when the limits may change the command.
        """
        in_force, set_point = self._course.limits, self._deciding.set_point
        if in_force is None:
            return False
        reach_m = in_force.reach_m(set_point)
        return reach_m is None or self._command != set_point or (reach_m > 0.0 and self._setting.crowd is not None)

    def _tick(self) -> None:
        """Run the runtime's stages that can change something in this tick."""
        robot, slot = self._robot, _slot(self._robot.tick)
        if robot.state.refused:
            self._mission = mission.stop(self._mission, robot.refusal())
            return
        seen = self._eyes.take_images()
        if seen or self._remembers():
            self._remember()
        if seen:
            self._limited = {self._command: self._command} if self._free() else {}
        if self._setting.reach is not None and slot.number % self._config.rates.ticks_per_decision == 0:
            self._track(self._setting.reach)
        self._act(slot)
        self._judge_mission()
        if not self._mission.driving or self.ended():
            return
        self._watch()
        self._sense(slot)
        if not self._mission.driving:
            return
        override = self._recover() if self._course.limits is not None else None
        if not self._mission.driving:
            return
        turn = self._turn_to_look() if self._turns_to_look() else None
        override = turn if override is None else override
        wanted = self._deciding.set_point if override is None else override
        self._command = wanted if self._course.limits is None else self._limit(wanted)
        robot.want(self._deciding.set_point)

    def _track(self, reach: Reach) -> None:
        """Compare the newest scan with the map, and keep the tracker's error."""
        robot = self._robot
        robot.track(self._eyes.policy_scan(), reach)
        believed = robot.localization().map_from_base
        if self._config.map.tracker and believed is not None:
            off = between(robot.pose, believed)
            self._tracked.append((math.hypot(off.x_m, off.y_m), abs(off.yaw_rad), robot.tracking.lost))

    def _act(self, slot: Slot) -> None:
        """Apply a due decision; a failed engine ends the drive."""
        self._deciding, acted = decision.act(self._deciding, slot, self._inference)
        if acted is None:
            return
        if acted.fault:
            self._mission = mission.stop(self._mission, reasons.ENGINE_FAILED.say(why=acted.fault))
        elif acted.decision is not None:
            filtered, goal, now_ns = self._robot.localization(), self._config.goal, time_ns(self._robot.tick)
            before = self._progress()
            self._mission, twist = mission.take_effect(
                replace(self._mission, progress=before), twist_of(acted.decision), acted.decision.left_m, self._start,
                filtered, goal, now_ns,
            )  # fmt: skip
            if self._mission.progress is not None and self._mission.progress.since_ns != before.since_ns:
                self._robot.note_progress()
            self._deciding = decision.replaced(self._deciding, twist)
            self._actions[acted.decision.action] += 1

    def _judge_mission(self) -> None:
        """Let the mission judge the drive, only in ticks in which the mission can end."""
        robot, goal, tick = self._robot, self._config.goal, self._robot.tick
        in_time = tick < self._began + self._timeout
        nearing = tick < robot.state.best + self._progress_timeout
        if not self._mission.driving or (in_time and nearing and self._mission.stops < REST_DECISIONS):
            return
        located = self._robot.located(self._start)
        situation = mission.Situation(
            time_ns(tick), located.filtered.pose, located.filtered.twist, uncertain_m=located.uncertain_m
        )
        self._mission = mission.judge(replace(self._mission, progress=self._progress()), situation, goal)

    def _progress(self) -> Progress:
        """Return the progress before this tick."""
        s, known = self._robot.state, self._mission.progress
        nearest = Progress(s.best_m, time_ns(int(s.best)))
        return nearest if known is None else replace(known, best_m=nearest.best_m, since_ns=nearest.since_ns)

    def _sense(self, slot: Slot) -> None:
        """Begin a decision if it is due in this slot."""
        if self._mission.state is not State.NAVIGATING:
            self._deciding = decision.restart(self._deciding)
            return
        rates, goal_xy_m = self._config.rates, self._mission.goal_xy_m
        if goal_xy_m is None or not decision.is_due(self._deciding, slot, rates):
            return
        seen = self._eyes.policy_scan()
        if self._config.odometry.scan_matching:
            self._robot.match(seen, self._start)
        located = self._robot.located(self._start)
        observation = Observation(
            stamp_ns=slot.start_ns,
            color=self._eyes.color(),
            scan=self._filled(seen),
            odometry=located.raw,
            localization=located.fix,
            localization_age_ns=located.fix_age_ns,
            filtered=located.filtered,
            goal_xy_m=goal_xy_m,
            previous_action=self._deciding.previous_action,
            deviations=located.deviations,
            map_from_start=None
            if self._robot.tracking.lost
            else start_frame.map_from_start(self._start, self._robot.localization()),
        )
        self._deciding, _ = decision.sense(self._deciding, slot, observation, self._inference, rates, self._recurrence)
        pose, period_s = located.filtered.pose, rates.ticks_per_decision / rates.control_hz
        radius_m = self._config.robot.footprint.inner_m
        self._mission = mission.look_at_goal(self._mission, seen, pose, radius_m, self._config.goal, period_s)

    def _recover(self) -> Twist | None:
        """Run the recovery if the robot backs off, is blocked or held for long, touches, or a contact ends.

        Return the command that replaces the policy's command, None without a replacement.
        """
        robot, section = self._robot, self._config.recovery
        s, tick = robot.state, robot.tick
        long = s.blocked != NEVER and tick - s.blocked >= self._blocked_ticks
        held = s.place != NEVER and tick - max(s.place, s.best) >= self._held_ticks
        quiet = not s.touching and not self._recovery.noticed
        if quiet and not (long or held) and self._recovery.backing is None:
            return None
        blocked_ns = None if s.blocked == NEVER else time_ns(int(s.blocked))
        pose, now_ns = robot.located(self._start).filtered.pose, time_ns(tick)
        away_m = self._mission.away_m(pose) or 0.0
        if self._recovery.backing is None and not self._remembers():
            self._nearby = self._recalled()
        progress, _ = mission.track_progress(self._progress(), away_m, False, self._config.goal, now_ns)
        surroundings = self._surroundings()
        situation = recovery.Situation(
            suspended=False,
            obstacle=bool(s.touching),
            wanted=self._deciding.set_point,
            measured=Twist(s.wheel_v, s.wheel_w),
            travelled_m=s.travelled_m,
            rear_free_m=collision.free_behind_m(surroundings.scan, surroundings.out_of_view, self._course.bounds.swept),
            place_m=(pose.x_m, pose.y_m),
            nearer_ns=progress.since_ns,
        )
        before = replace(
            self._recovery,
            now_ns=time_ns(tick - 1),
            blocked_ns=blocked_ns,
            place_m=None if s.place == NEVER else (s.place_x_m, s.place_y_m),
            place_ns=0 if s.place == NEVER else time_ns(int(s.place)),
        )
        self._recovery, override, event = recovery.advance(before, situation, section, now_ns)
        if self._recovery.backing is None and not self._remembers():
            self._nearby = ObstacleMemory()
        robot.judge_blocked(self._recovery)
        if event in recovery.MEMORY_RESETS:
            self._deciding = decision.restart(self._deciding)
        self._mission = mission.recovering(self._mission, self._recovery.backing is not None)
        if self._recovery.gave_up:
            self._mission = mission.stop(self._mission, self._recovery.gave_up)
        return override

    def _limit(self, wanted: Twist) -> Twist:
        """Return the command after the limits. The limits run only if they may change the command."""
        in_force, eyes = self._course.limits, self._eyes
        if self._contact_reported() or self._moves() or (in_force is not None and self._recovery.backing is not None):
            return self._apply_limits(wanted)
        if in_force is None or wanted in self._limited:
            return self._limited.get(wanted, wanted)
        reach_m = in_force.reach_m(wanted)
        if reach_m is None:  # not kept for the next tick: remembered places move with the robot
            return self._apply_limits(wanted)
        if reach_m > 0.0 and eyes.may_bind(in_force.ways(wanted)):
            twist = in_force.limited(eyes.limits_scan(reach_m).ranges_m, wanted)
        else:
            twist = wanted
        if not self._course.ramped:
            self._limited[wanted] = twist
        return twist

    def _apply_limits(self, wanted: Twist) -> Twist:
        """Return the command after `onboard.safety.limits.limit`."""
        now_ns = time_ns(self._robot.tick)
        surroundings = self._surroundings()
        contact = bool(self._robot.state.touching)
        situation = limits.Situation(
            now_ns,
            None,
            False,
            None,
            now_ns,
            surroundings.scan,
            out_of_view=surroundings.out_of_view,
            unknown=surroundings.unknown,
            obstacle=contact,
            reached=moving.reached(self._moving, self._robot.wheels().pose, now_ns),
        )
        self._limits, limited = limits.limit(self._limits, wanted, situation, self._course.bounds)
        return limited.twist

    def _watch(self) -> None:
        """Take the newest scan for what moves, if it is due."""
        if self._course.limits is not None and moving.is_due(self._moving, time_ns(int(self._robot.state.seen_tick))):
            self._eyes.take_images()
            self._moving = moving.advance(self._moving, self._eyes.limits_scan(), self._robot.seen_wheels)

    def _moves(self) -> bool:
        """Return whether something moves, by the last scans."""
        return len(self._moving.places_m) > 0

    def _remembers(self) -> bool:
        """Return whether the obstacle memory can matter when the robot drives ahead."""
        in_force = self._course.limits
        return in_force is not None and in_force.remembers

    def _remember(self) -> None:
        """Add the newest scan to the obstacle memory, if the memory can matter. The limits then run in every tick."""
        eyes = self._eyes
        if self._remembers() or self._recovery.backing is not None:
            scan, remember_ns, pose = eyes.limits_scan(), self._course.bounds.remember_ns, self._odometry()
            standing = self._remembers() and self._command.v_mps == 0.0
            now_ns = time_ns(self._robot.tick)
            self._nearby = obstacle_memory.advance(self._nearby, scan, pose, now_ns, remember_ns, standing)
        if self._turns_to_look():
            pose = self._odometry()
            self._ground = free_ground.advance(self._ground, eyes.limits_scan(), pose, pose)

    def _odometry(self) -> Pose:
        """Return the pose by which obstacles and ground are remembered: the wheels', as in the runtime.

        A robot that only backs off remembers by its true pose (`_recalled`).
        """
        return self._robot.wheels().pose if self._remembers() else self._robot.pose

    def _turns_to_look(self) -> bool:
        """Return whether the robot drives over ground that was seen free a moment ago: no camera sees some of it."""
        return self._remembers() and self._course.bounds.seen_free_ns > 0

    def _turn_to_look(self) -> Twist | None:
        """Return the turn that replaces the policy's command where no camera sees ahead, None without one."""
        robot, now_ns = self._robot, time_ns(self._robot.tick)
        away_m = self._mission.away_m(robot.located(self._start).filtered.pose)
        situation = looking.Situation(
            active=self._mission.state is State.NAVIGATING and self._recovery.backing is None,
            near=away_m is None or away_m <= self._config.goal.tolerance_m,
            pose=robot.wheels().pose,
            scan=self._eyes.limits_scan(),
            ground=self._ground,
        )
        self._looking, turn = looking.advance(self._looking, situation, self._course.bounds, now_ns)
        return turn

    def _recalled(self) -> ObstacleMemory:
        """Return the obstacle memory of the scans so far, for a robot that may back off into what it saw before.

        Obstacles farther away were forgotten. Bodies are left out: they have moved.
        """
        every, remember_ns = self._setting.senses.depth_every, self._course.bounds.remember_ns
        if remember_ns == 0:
            return ObstacleMemory()
        eyes, now = self._eyes, self._robot.tick
        poses = self._robot.trace(now - self._began)[:, 1:4]
        far = np.hypot(*(poses[:, :2] - poses[-1, :2]).T) > 2.0 * obstacle_memory.REACH_M
        first = max(int(np.flatnonzero(far)[-1]) + 1 if far.any() else 0, len(poses) - remember_ns // STEP_NS)
        done, nearby = self._recall
        first, nearby = (done, nearby) if done > first else (first, ObstacleMemory())
        for row in range(first, len(poses)):
            tick = self._began + row
            if (tick - FIRST_TICK) % every == 0:
                pose = Pose(*poses[row].tolist())
                scan = eyes.scan_from(pose, tick)
                nearby = obstacle_memory.advance(nearby, scan, pose, scan.stamp_ns, remember_ns)
        self._recall = len(poses), nearby
        return nearby

    def _filled(self, scan: Scan) -> Scan:
        """Return the policy's scan with remembered obstacles and known ground out of view."""
        if not len(self._nearby.places_m) and not self._turns_to_look():
            return scan
        surroundings = self._surroundings()
        return free_ground.with_unknown_ground(obstacle_memory.filled(scan, surroundings.out_of_view), surroundings)

    def _surroundings(self) -> Surroundings:
        """Return the scan, remembered obstacles and unknown ground for limits and recovery."""
        pose, bounds, now_ns = self._odometry(), self._course.bounds, time_ns(self._robot.tick)
        surroundings = obstacle_memory.surroundings(self._nearby, self._eyes.limits_scan(), pose)
        if not self._turns_to_look():
            return surroundings
        unknown = free_ground.unknown(
            self._ground, surroundings.scan, pose, now_ns, bounds.seen_free_ns, bounds.footprint
        )
        return replace(surroundings, unknown=unknown)

    def ended(self) -> str:
        """Return the end of the drive as in `Outcome.ended`, "" while the drive continues."""
        return how_ended(self._mission) or ("time" if self._robot.tick >= self._began + self._most else "")

    def outcome(self) -> FastOutcome:
        """Return the outcome of the drive so far."""
        ticks = self._robot.tick - self._began
        drive = outcome_of(self._robot, self._episode.goal_xy_m, self.ended(), ticks, self._actions)
        return replace(drive, touched_m=tuple(self._touched_m), tracked=tuple(self._tracked))


def _ticks(seconds: float) -> int:
    """Return the number of ticks after which `seconds` may be over, at most 1 tick too small."""
    return int(seconds * NS // STEP_NS)


def _slot(tick: int) -> Slot:
    return Slot(tick, time_ns(tick), time_ns(tick), 0)
