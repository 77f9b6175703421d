"""A drive by position actions: 25 cm ahead, 10 deg left or right, stop (paper 1, its agent (a)).

Two ways to execute one. Exactly, as discrete simulators do: whatever the base, the pose is changed by the whole step in
one decision of 1/3 s, and the robot stands at the next; only what is in the way shortens it. Or as position commands
are driven on robots: after the delay a controller on the wheels' odometry drives the base there, by velocities, until
the step is made or its time is over; only then the next decision is taken, and the memory is reset by the clock so much
more rarely as a step takes longer. Neither limits nor recovery are in force.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from hil.drive.fast.course import Course, course_of
from hil.drive.fast.robot import FastRobot, time_ns
from hil.drive.fast.sensing import FastEyes, last_image
from hil.drive.robot import TICK_HZ
from hil.drive.setting import REACHED_M, Outcome, Setting, goal_request, goal_tick
from hil.evaluate.baselines.registry import make_policy
from hil.evaluate.campaign import Driven, Job
from hil.evaluate.episode import EpisodeDriver, RobotFiles, Run
from hil.evaluate.episode_selection import Source
from hil.physics.base import NS, STEP_NS, STEP_S
from hil.physics.free_space import Episode
from onboard.navigation import start_frame
from onboard.policy.contract import ACTIONS, NO_ACTION
from onboard.policy.network_policy import NetworkPolicy
from onboard.values.errors import InputError
from onboard.values.geometry import wrap
from onboard.values.interfaces import Policy
from onboard.values.messages import STOP, Observation, Pose, Twist

AHEAD, LEFT, RIGHT, HALT = range(4)
"""The four actions: the first four of the network's 28, whose other logits are never looked at."""
COUNT = 4
STEP_M, TURN_RAD = 0.25, math.radians(10.0)
MOVING_TICKS = 9
"""Of the ten ticks of an exact step the last one is at rest."""
SLOWER = 3.0
"""By velocities a step takes about so many times as long as an exact one; so do a whole drive and a memory then."""
MOST_STEP_S = 2.0
"""The controller gives a step up after so long."""
GAIN, TURN_GAIN, FASTEST_MPS, FASTEST_RADPS = 4.0, 5.0, 0.6, 1.5
"""Of the controller: speeds to the way left [1/s], and the largest."""
NEAR_M, NEAR_RAD, SLOW_MPS, SLOW_RADPS = 0.02, math.radians(2.0), 0.08, 0.3
"""A step is made when this little is left of it and the base this slow, by wheels that drift."""


class PositionDrive:
    """One drive. `observe` at rest, `act`, until it has `ended`; the same seed gives the same drive.

    ended:   "stop", "time", or the runtime's own reason to end it; "" while it goes on
    actions: (28,) how often each action was chosen
    """

    def __init__(
        self, setting: Setting, course: Course, episode: Episode, policy: Policy, seed: int, max_s: float, exact: bool
    ) -> None:
        """Stand until the first fixes have come, and take the goal. policy: only asked what it looks at.

        Raises InputError where the start is not free.
        """
        self._setting, self._episode, self._exact = setting, episode, exact
        rates = setting.config.rates
        self._delay = 0 if exact else rates.delay_ticks
        self._began = goal_tick(rates.ticks_per_decision)
        most = math.floor(max_s * NS / STEP_NS)
        self._last = self._began + most
        self.robot = FastRobot(setting, course, episode.start, seed, most)
        self._eyes = FastEyes(setting, course, policy, self.robot)
        self.ended, self.actions = "", np.zeros(len(ACTIONS), np.int64)
        self._previous, self._reset_tick = NO_ACTION, None if policy.memory_reset_s is None else self._began
        self._reset_ticks = _period_ticks(policy.memory_reset_s, exact)
        self._fresh = True
        self._take_goal()

    def _take_goal(self) -> None:
        for tick in (last_image(self._began, self._setting.senses.color_every), self._began):
            self.robot.run_to(tick, STOP)
            self._eyes.look()
        wheels, filtered, config = self.robot.wheels(), self.robot.localization(), self._setting.config
        self._start = start_frame.begin(wheels, filtered)
        request = goal_request(self._setting, self._episode, time_ns(self._began))
        self._goal_xy_m = start_frame.goal_in_start(request, self._start, wheels, filtered, config.goal, config.dds)
        self.robot.begin(self._start, self._goal_xy_m)

    def observe(self) -> tuple[Observation, bool]:
        """Return what there is to decide on, and whether the memory is to be reset before."""
        self._eyes.look()
        fresh, self._fresh = self._fresh, False
        if self._reset_tick is not None and self.robot.tick - self._reset_tick >= self._reset_ticks:
            fresh, self._reset_tick = True, self.robot.tick
        located = self.robot.located(self._start)
        observation = Observation(
            stamp_ns=time_ns(self.robot.tick),
            color=self._eyes.color(),
            scan=self._eyes.policy_scan(),
            odometry=located.raw,
            localization=located.fix,
            localization_age_ns=located.fix_age_ns,
            filtered=located.filtered,
            goal_xy_m=self._goal_xy_m,
            previous_action=self._previous,
        )
        return observation, fresh

    def act(self, action: int) -> None:
        """Make one step; the robot stands after it, or has had no more time."""
        self._previous = action
        self.actions[action] += 1
        self._run(self._delay, STOP)
        if action == HALT:
            self.ended = self.ended or "stop"
        elif self._exact:
            self._step_exactly(action)
        else:
            self._step_by_velocity(action)

    def _step_exactly(self, action: int) -> None:
        seconds = MOVING_TICKS * STEP_S
        steps = {AHEAD: Twist(STEP_M / seconds, 0.0), LEFT: Twist(0.0, TURN_RAD / seconds)}
        self._run(MOVING_TICKS, steps.get(action, Twist(0.0, -TURN_RAD / seconds)))
        self._run(1, STOP)

    def _step_by_velocity(self, action: int) -> None:
        began = self._wheels()
        for _ in range(round(MOST_STEP_S * TICK_HZ)):
            ahead_m, turned_rad = _moved(began, self._wheels())
            left_m = STEP_M - ahead_m if action == AHEAD else 0.0
            left_rad = wrap({LEFT: TURN_RAD, RIGHT: -TURN_RAD}.get(action, 0.0) - turned_rad)
            s = self.robot.state
            if self.ended or _made(left_m, left_rad, s.wheel_v, s.wheel_w):
                break
            self._run(1, Twist(_within(GAIN * left_m, FASTEST_MPS), _within(TURN_GAIN * left_rad, FASTEST_RADPS)))

    def _run(self, ticks: int, command: Twist) -> None:
        """Live so many ticks with a command, and see what there is to see, until the drive has ended."""
        if self.ended:
            return
        robot, end = self.robot, min(self.robot.tick + ticks, self._last)
        while robot.tick < end and not robot.state.refused:
            robot.run_to(self._eyes.next_tick(robot.tick, end, every_scan=False), command)
            self._eyes.look()
        if robot.state.refused:
            self.ended = robot.refusal()
        elif robot.tick >= self._last:
            self.ended = "time"

    def _wheels(self) -> Pose:
        s = self.robot.state
        return Pose(s.wheel_x_m, s.wheel_y_m, s.wheel_yaw)

    def outcome(self) -> Outcome:
        """Return how the drive has gone so far."""
        s, goal, ticks = self.robot.state, self._episode.goal_xy_m, self.robot.tick - self._began
        distance_m = math.hypot(s.x_m - goal[0], s.y_m - goal[1])
        return Outcome(
            reached=self.ended == "stop" and distance_m <= REACHED_M,
            ended=self.ended,
            contacts=int(s.contacts),
            time_s=ticks * STEP_NS / NS,
            path_m=s.path_m,
            distance_m=distance_m,
            min_clearance_m=s.clear_m,
            actions=self.actions,
            trace=self.robot.trace(ticks),
            bumps=int(s.bumps),
        )


def _period_ticks(memory_reset_s: float | None, exact: bool) -> float:
    """Return how often the memory is reset [ticks], after about as many decisions whichever way steps are executed."""
    return math.inf if memory_reset_s is None else round(memory_reset_s * TICK_HZ * (1.0 if exact else SLOWER))


def chosen_action(logits: npt.NDArray[np.float32]) -> int:
    """Return the best of the four actions."""
    return int(np.argmax(logits[:COUNT]))


def _moved(began: Pose, now: Pose) -> tuple[float, float]:
    """Return how far ahead of its beginning a step has come [m], and how far it has turned [rad]."""
    ahead_m = (now.x_m - began.x_m) * math.cos(began.yaw_rad) + (now.y_m - began.y_m) * math.sin(began.yaw_rad)
    return ahead_m, wrap(now.yaw_rad - began.yaw_rad)


def _made(left_m: float, left_rad: float, v_mps: float, w_radps: float) -> bool:
    near = abs(left_m) <= NEAR_M and abs(left_rad) <= NEAR_RAD
    return near and abs(v_mps) <= SLOW_MPS and abs(w_radps) <= SLOW_RADPS


def _within(value: float, most: float) -> float:
    return min(max(value, -most), most)


# ---- Episodes of a campaign driven by position actions, where `hil.evaluate` knows only velocities


class PositionEpisodes(EpisodeDriver):
    """Drives jobs as `EpisodeDriver` does. within_s: time for an episode; exact: steps are executed exactly."""

    def __init__(
        self, run: Run, robot: RobotFiles, sources: Mapping[str, Source], within_s: float, *, exact: bool
    ) -> None:
        super().__init__(run, robot, sources)
        self._within_s, self._exact = within_s, exact
        self._steps: NetworkPolicy | None = None

    def __call__(self, job: Job) -> Driven:
        """Return what came of a job. Raises OnboardError."""
        place = self._at(job.map)
        episode = place.known.episodes[job.index]
        setting = self._setting(place, episode, job.seed)
        drive = self._drive(setting, episode, job.seed)
        return Driven(self._row(job, place, episode, drive.outcome(), setting.crowd))

    def _drive(self, setting: Setting, episode: Episode, seed: int) -> PositionDrive:
        policy = self._policy_for(setting, episode)
        drive = PositionDrive(setting, course_of(setting), episode, policy, seed, self._within_s, self._exact)
        memory = policy.initial_memory()
        while not drive.ended:
            observation, fresh = drive.observe()
            decision, memory = policy.decide(observation, policy.initial_memory() if fresh else memory)
            drive.act(chosen_action(decision.logits))
        return drive

    def _policy_for(self, setting: Setting, episode: Episode) -> NetworkPolicy:
        if self._steps is None:
            policy = make_policy(self._policy, setting, episode)
            if not isinstance(policy, NetworkPolicy):
                raise InputError(f"{self._policy}: position actions need a network")
            policy.memory_reset_s = self._condition.resets_every_s(policy.memory_reset_s)
            self._steps = policy
        return self._steps
