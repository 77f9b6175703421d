"""Kernels of the batched world: many robots side by side, tick by tick from one decision to the next.

The rules' arithmetic is the runtime's (ARCHITECTURE.md), and the ticks are those of the fast loop (`hil/drive/fast`),
so that both worlds agree; `numba.cuda` compiles the same functions for a GPU (`world.py`). What a lane leaves out
against the fast loop: people, missing cameras, late fixes, outliers of fixes, obstacles seen before, and goals that are
occupied. A contact ends the drive.

`lane_values.py` has the values, `lane_sight.py` what a lane sees.

tests/engines/train/batched/test_lanes_agree.py compares a lane with a drive of the fast loop.
"""

from __future__ import annotations

import math
from typing import Any

from engines.train.batched.atlas import STEP, UNIT_M, UNREACHABLE
from engines.train.batched.lane_sight import is_clear
from engines.train.batched.lane_values import (
    BACK,
    CONTACT,
    GAVE_UP,
    LIMITS,
    REACHED,
    REAR,
    SPEED,
    STOPPED,
    STUCK,
    TIME,
    TURN_ACTION,
    Floats,
    Lanes,
    Rules,
    Site,
    Views,
    Words,
    normal,
    uniform,
)
from hil.drive.fast.limits_kernel import REACH
from hil.drive.fast.tick_kernels import (
    FIRST_TICK,
    SIM_STEP_S,
    correct_filter,
    in_start,
    note_block,
    note_progress,
    report,
    roll_on,
    turned,
)
from hil.drive.fast.tick_state import NEVER
from hil.maps.cell_kernels import circle_overlaps, floored
from hil.physics.odometry_noise import DRIFT_COVARIANCE, DRIFT_MEAN, TICKS_PER_ENVIRONMENT_STEP
from onboard.config.plant_model import AXIS_NUMBERS, step_axis
from onboard.navigation import kalman
from onboard.navigation.arrival import confidence, is_held
from onboard.navigation.mission import has_stopped, is_over
from onboard.policy.contract import STOP_ACTION
from onboard.safety.recovery import GOES_ON, backing_ends, counts, is_due, may_begin
from onboard.values.geometry import inverted, seen_from, wrap
from onboard.values.kernel import kernel

DRIFT_SD = math.sqrt(DRIFT_COVARIANCE[0][0])
DRIFT_BOTH = DRIFT_COVARIANCE[0][1] / DRIFT_SD
DRIFT_REST = math.sqrt(DRIFT_COVARIANCE[1][1] - DRIFT_BOTH * DRIFT_BOTH)
"""Cholesky factor of the drift's covariance."""
NEAR_M = 2.0
"""A stop elsewhere costs less within this distance of the goal."""

# ---- Base, wheels and fixes


@kernel
def move(s: Any, k: Any, v_command: float, w_command: float, linear: Floats, angular: Floats, site: Site) -> None:
    """Advance a round base with the second-order plant by one tick, as `tick_kernels.move` does."""
    v, dv = step_axis(v_command, s.v, s.dv, linear, SIM_STEP_S)
    w, dw = step_axis(w_command, s.w, s.dw, angular, SIM_STEP_S)
    yaw = turned(s.yaw + SIM_STEP_S * w)
    x, y = s.x_m + SIM_STEP_S * v * math.cos(yaw), s.y_m + SIM_STEP_S * v * math.sin(yaw)
    moved_m = math.hypot(s.x_m - x, s.y_m - y)
    if moved_m > 0.0 and circle_overlaps(
        x / k.cell_m, y / k.cell_m, k.radius_m / k.cell_m, site.blocked, site.blocked_gap
    ):
        if s.touching == 0.0:
            s.contacts += 1.0
            s.touching = 1.0
        x, y, v, dv, moved_m = s.x_m, s.y_m, 0.0, 0.0, 0.0
    s.x_m, s.y_m, s.yaw, s.v, s.w, s.dv, s.dw = x, y, yaw, v, w, dv, dw
    s.path_m += moved_m
    s.wheel_v, s.wheel_w = (v if moved_m > 0.0 else 0.0), w


@kernel
def tick(s: Any, k: Any, m: Any, lane: int, lanes: Lanes, rules: Rules, site: Site) -> None:
    """Advance a lane by one tick: base, wheels, filter, fix, and the pose of a new scan."""
    move(s, k, m.command_v, m.command_w, lanes.linear[lane], lanes.angular[lane], site)
    s.tick += 1.0
    base_x, base_y, base_yaw = s.drift_x_m, s.drift_y_m, s.drift_yaw
    if not report(s, k):
        first = normal(lanes.random, lane)
        part = m.drift / TICKS_PER_ENVIRONMENT_STEP
        s.drift_eps_m = part * (DRIFT_MEAN[0] + DRIFT_SD * first)
        s.drift_eps_rad = part * (DRIFT_MEAN[1] + DRIFT_BOTH * first + DRIFT_REST * normal(lanes.random, lane))
        s.drift_left = float(TICKS_PER_ENVIRONMENT_STEP)
        report(s, k)
    roll_on(s, k, base_x, base_y, base_yaw, lanes.covariance[lane])
    if (int(s.tick) - FIRST_TICK) % int(k.depth_every) == 0:
        s.seen_tick, s.seen_x_m, s.seen_y_m, s.seen_yaw = s.tick, s.x_m, s.y_m, s.yaw
    if m.next_fix == s.tick:
        draw_fix(s, m, lane, lanes, rules, site)


@kernel
def draw_fix(s: Any, m: Any, lane: int, lanes: Lanes, rules: Rules, site: Site) -> None:
    """Correct the filter by a fix taken now, and draw the time of the next one."""
    random = lanes.random
    gone_s = uniform(random, lane, m.fix_low_s, m.fix_high_s)
    m.next_fix = math.ceil(s.tick + gone_s / SIM_STEP_S)
    x = s.x_m + rules.sd_x * normal(random, lane)
    y = s.y_m + rules.sd_x * normal(random, lane)
    yaw = wrap(s.yaw + rules.sd_yaw * normal(random, lane))
    covariance = lanes.covariance[lane]
    if s.filtering == 0.0:
        s.filtering, s.filter_x_m, s.filter_y_m, s.filter_yaw = 1.0, x, y, yaw
        kalman.begin(covariance, site.fix_noise)
    else:
        correct_filter(s, covariance, x, y, yaw, site.fix_noise, lanes.work[lane])


# ---- Recovery, arrival, end of a drive


@kernel
def judge_block(s: Any, k: Any, m: Any, tries: Floats, rules: Rules) -> bool:
    """Let the recovery judge this tick; return False where it gives up (R9). What it does needs the space behind."""
    notice = False  # a contact ends the drive
    if m.backing != NEVER:
        m.action, m.due, m.stops, m.waits = float(STOP_ACTION), NEVER, 0.0, 1.0
    else:
        note_block(s, k)
        if try_is_due(s, m, s.tick, notice, rules):
            recent = 0
            for i in range(len(tries)):
                recent += counts(tries[i], s.tick, rules.window_ticks)
            if recent >= len(tries):
                return False
            for i in range(len(tries) - 1):
                tries[i] = tries[i + 1]
            tries[len(tries) - 1] = s.tick
            m.waits = 1.0
    if m.waits != 0.0 and s.seen_tick != s.tick:
        run_try(s, m, rules)
    elif s.seen_tick == s.tick and (m.waits != 0.0 or try_is_due(s, m, s.tick + k.depth_every, notice, rules)):
        m.asks = float(int(m.asks) | REAR)
    return True


@kernel
def try_is_due(s: Any, m: Any, now: float, notice: bool, rules: Rules) -> bool:
    """Return whether a try is due in a tick, if all stays as it is."""
    blocked = math.inf if s.blocked == NEVER else s.blocked
    place = math.inf if s.place == NEVER else s.place
    return is_due(
        now, blocked, place, s.best, m.rested, notice, rules.blocked_ticks, rules.held_ticks, rules.cool_ticks
    )


@kernel
def run_try(s: Any, m: Any, rules: Rules) -> None:
    """Begin or refuse the try that is due (R5, R7), go on with it or end it (R3, R4, R6, R11)."""
    m.waits = 0.0
    s.blocked = s.place = NEVER
    if m.backing == NEVER:
        if may_begin(m.rear_m, rules.way_m, rules.clearance_m):
            m.backing, m.backing_m = s.tick, s.travelled_m
            m.action, m.due, m.stops = float(STOP_ACTION), NEVER, 0.0
        else:
            m.rested = s.tick
        return
    spent, backed_m = s.tick - m.backing, s.travelled_m - m.backing_m
    if backing_ends(spent, rules.backward_ticks, backed_m, rules.way_m, m.rear_m, rules.clearance_m) != GOES_ON:
        m.backing, m.rested, m.resumed, m.fresh = NEVER, s.tick, s.tick, 1.0


@kernel
def goal_offset(s: Any, k: Any) -> tuple[float, float, float]:
    """Return the goal from the filtered pose in the start frame: x, y [m], and the pose's yaw."""
    x, y, yaw = in_start(s, k)
    return k.goal_x_m - x, k.goal_y_m - y, yaw


@kernel
def act(s: Any, k: Any, m: Any, covariance: Floats, rules: Rules) -> None:
    """Put the pending action in force: a turn in place of a stop that the arrival holds (A1 to A6)."""
    action = int(m.pending)
    m.due = NEVER
    if action == STOP_ACTION and k.anchored != 0.0 and rules.confidence > 0.0:
        dx, dy, _ = goal_offset(s, k)
        c, n = math.cos(k.start_yaw), math.sin(k.start_yaw)  # back into the map frame, the covariance's
        x, y = c * dx + n * dy, c * dy - n * dx
        found = confidence(x, y, covariance[0, 0], covariance[0, 1], covariance[1, 1], rules.tolerance_m)
        if found < rules.confidence:
            m.held = s.tick if m.held == NEVER else m.held
            if is_held(m.held, s.tick, rules.wait_ticks):
                action = TURN_ACTION
    m.action = float(action)
    m.stops = m.stops + 1.0 if action == STOP_ACTION else 0.0


@kernel
def drive_end(s: Any, k: Any, m: Any, rules: Rules, site: Site) -> float:
    """Return how the drive ended in this tick, 0 while it goes on."""
    if s.refused != 0.0:
        return SPEED
    if s.touching != 0.0:
        return CONTACT
    stopped = has_stopped(m.stops, s.wheel_v, s.wheel_w, rules.rest_decisions, rules.rest_mps, rules.rest_radps)
    if stopped and m.backing == NEVER:
        goal = site.goals[int(m.goal)]
        away_m = math.hypot(s.x_m - goal[0], s.y_m - goal[1])
        return REACHED if away_m <= rules.reached_m else STOPPED
    if s.tick - m.began >= rules.most_ticks:
        return TIME
    return STUCK if is_over(s.best, s.tick, rules.stuck_ticks) else 0.0


@kernel
def field_m(s: Any, m: Any, rules: Rules, site: Site) -> float:
    """Return the path length left; the last known one where the field has no path [m]."""
    windows, goal = site.windows, int(m.goal)
    i = (floored(s.y_m / rules.cell_m) - windows[goal, 0]) // STEP
    j = (floored(s.x_m / rules.cell_m) - windows[goal, 1]) // STEP
    if not (0 <= i < windows[goal, 2] and 0 <= j < windows[goal, 3]):
        return float(m.left_m)
    value = site.fields[windows[goal, 4] + i * windows[goal, 3] + j]
    return float(m.left_m) if value == UNREACHABLE else value * UNIT_M


# ---- A lane from decision to decision


@kernel
def command(m: Any, row: int, part: float, site: Site) -> None:
    """Set the command in force: a part of the command of a row of `ways`."""
    m.command_v, m.command_w = part * site.twists[row, 0], part * site.twists[row, 1]


@kernel
def back_off(m: Any, rules: Rules, site: Site) -> None:
    """Set the command of backing off, as the limits let it pass."""
    command(m, BACK, min(1.0, m.back_mps / rules.backward_mps), site)


@kernel
def ask_limits(s: Any, m: Any, rules: Rules, site: Site) -> None:
    """Let the limits judge the command, where it or the scan is new. The look behind judges that of backing off."""
    if m.backing != NEVER:
        m.asked = NEVER
        if m.waits == 0.0:
            back_off(m, rules, site)
        return
    row = int(m.action)
    if row == m.asked and s.seen_tick != s.tick:
        return
    m.asked = float(row)
    reach_m = site.ways[int(m.steps), row, REACH]
    if reach_m == 0.0 or is_clear(s, reach_m + rules.cell_m, rules, site):
        command(m, row, 1.0, site)
        return
    m.asks = float(int(m.asks) | LIMITS)


@kernel
def apply_nearby(s: Any, m: Any, lane: int, lanes: Lanes, rules: Rules, site: Site) -> None:
    """Take up what the look at the obstacles near by found."""
    asks = int(m.asks)
    m.asks = 0.0
    if asks & LIMITS:
        row, speed_mps = int(m.asked), lanes.near[lane, 0]
        wanted_mps = abs(site.twists[row, 0])
        command(m, row, 1.0 if wanted_mps <= speed_mps else speed_mps / wanted_mps, site)
    if asks & REAR:
        m.rear_m, m.back_mps = lanes.near[lane, 1], lanes.near[lane, 2]
        if m.waits != 0.0:
            run_try(s, m, rules)
            if m.backing != NEVER:
                back_off(m, rules, site)
            elif m.resumed == s.tick:
                command(m, STOP_ACTION, 1.0, site)


@kernel
def live(lane: int, looked: bool, lanes: Lanes, rules: Rules, site: Site) -> None:
    """Advance a lane by one tick. looked: whether `near` has run since the last call; else a lane asks again."""
    s, k, m = lanes.states[lane], lanes.tables[lane], lanes.more[lane]
    if m.end != 0.0:
        return
    if looked:
        apply_nearby(s, m, lane, lanes, rules, site)
    tick(s, k, m, lane, lanes, rules, site)
    if s.tick == m.due:
        act(s, k, m, lanes.covariance[lane], rules)
    k.wanted_v, k.wanted_w = site.twists[int(m.action), 0], site.twists[int(m.action), 1]
    note_progress(s, k)
    m.end = drive_end(s, k, m, rules, site)
    if m.end == 0.0 and not judge_block(s, k, m, lanes.tries[lane], rules):
        m.end = GAVE_UP
    if m.end != 0.0:
        m.asks = 0.0
        return
    ask_limits(s, m, rules, site)
    lanes.near[lane, 0] = lanes.near[lane, 1] = lanes.near[lane, 2] = math.inf


@kernel
def factor(random: Words, lane: int, spread: float) -> float:
    """Return a factor drawn log-uniformly from 1 - spread to 1 + spread."""
    return math.exp(uniform(random, lane, math.log(1.0 - spread), math.log(1.0 + spread)))


@kernel
def draw_robot(m: Any, lane: int, lanes: Lanes, rules: Rules, site: Site) -> bool:
    """Draw the robot of a drive, as `domain_randomization` does; return whether it gets fixes."""
    random = lanes.random
    for i in range(AXIS_NUMBERS):
        drawn = i in (0, 1, 2, 3, 6, 7)
        lanes.linear[lane, i] = site.linear[i] * (factor(random, lane, rules.plant_spread) if drawn else 1.0)
        lanes.angular[lane, i] = site.angular[i] * (factor(random, lane, rules.plant_spread) if drawn else 1.0)
    m.delay = math.floor(uniform(random, lane, rules.delay_low, rules.delay_high + 1.0))
    m.drift = 1.0
    if uniform(random, lane, 0.0, 1.0) >= rules.drift_paper:
        m.drift = uniform(random, lane, rules.drift_low, rules.drift_high)
    if uniform(random, lane, 0.0, 1.0) < rules.often:
        m.fix_low_s, m.fix_high_s = rules.often_low_s, rules.often_high_s
    else:
        m.fix_low_s, m.fix_high_s = rules.seldom_low_s, rules.seldom_high_s
    m.noise, m.holes = uniform(random, lane, 0.0, rules.scan_noise), uniform(random, lane, 0.0, rules.scan_holes)
    m.steps = 1.0 if uniform(random, lane, 0.0, 1.0) < rules.graded else 0.0
    return bool(uniform(random, lane, 0.0, 1.0) >= rules.no_fixes)


@kernel
def clear(s: Any, k: Any, m: Any, tries: Floats) -> None:
    """Reset all values of a lane that `begin` does not set."""
    s.tick = s.v = s.w = s.dv = s.dw = s.path_m = s.contacts = s.touching = s.bumps = s.bumping = 0.0
    s.drift_x_m = s.drift_y_m = s.drift_yaw = s.drift_eps_m = s.drift_eps_rad = s.drift_left = s.owing = 0.0
    s.has_odometry = s.wheel_x_m = s.wheel_y_m = s.wheel_yaw = s.wheel_v = s.wheel_w = 0.0
    s.travelled_m = s.moving_s = s.filtering = s.filter_x_m = s.filter_y_m = s.filter_yaw = s.scale = s.creep = 0.0
    s.blocked = s.place = s.best = NEVER
    s.place_x_m = s.place_y_m = s.refused = s.seen_tick = s.halt = s.reported_touching = 0.0
    k.driving, k.wanted_v, k.wanted_w, k.anchored = NEVER, 0.0, 0.0, 0.0
    m.action = m.pending = float(STOP_ACTION)
    m.asks = 0.0
    m.due = m.asked = m.held = m.backing = m.resumed = NEVER
    m.rested = -math.inf
    m.waits = 0.0
    for i in range(len(tries)):
        tries[i] = -math.inf
    m.command_v = m.command_w = m.stops = 0.0
    m.fresh = 1.0


@kernel
def begin(s: Any, k: Any, m: Any, lane: int, count: int, lanes: Lanes, rules: Rules, site: Site) -> None:
    """Draw a drive to one of the first `count` goals, and stand until its first decision."""
    random = lanes.random
    clear(s, k, m, lanes.tries[lane])
    goal = min(int(uniform(random, lane, 0.0, float(count))), count - 1)
    start = min(int(uniform(random, lane, 0.0, float(site.starts.shape[1]))), site.starts.shape[1] - 1)
    m.goal = float(goal)
    s.x_m, s.y_m = site.starts[goal, start, 0], site.starts[goal, start, 1]
    s.yaw = wrap(uniform(random, lane, -math.pi, math.pi))
    m.left_m = m.length_m = site.starts[goal, start, 2]
    fixes = draw_robot(m, lane, lanes, rules, site)
    settle(s, k, m, lane, fixes, lanes, rules, site)


@kernel
def settle(s: Any, k: Any, m: Any, lane: int, fixes: bool, lanes: Lanes, rules: Rules, site: Site) -> None:
    """Stand until the goal comes, set the start frame, and go on to the first decision."""
    m.next_fix = 1.0 if fixes else NEVER
    while s.tick < rules.settled_ticks:
        tick(s, k, m, lane, lanes, rules, site)
    goal = site.goals[int(m.goal)]
    if s.filtering != 0.0:
        x, y, yaw = s.filter_x_m, s.filter_y_m, s.filter_yaw
        k.anchored = 1.0
    else:
        x, y, yaw = s.x_m, s.y_m, s.yaw
    k.goal_x_m, k.goal_y_m, _ = seen_from(x, y, yaw, goal[0], goal[1], 0.0)
    if k.anchored == 0.0:
        x, y, yaw = s.wheel_x_m, s.wheel_y_m, s.wheel_yaw
    k.start_x_m, k.start_y_m, k.start_yaw = inverted(x, y, yaw)
    k.driving = s.best = m.began = s.tick
    s.best_m = math.hypot(k.goal_x_m, k.goal_y_m)
    m.end = 0.0
    while int(s.tick) % rules.every != 0:
        live(lane, False, lanes, rules, site)


@kernel
def show(s: Any, k: Any, m: Any, lane: int, lanes: Lanes, rules: Rules, site: Site, views: Views) -> None:
    """Write what policy and critic see of a lane."""
    dx, dy, yaw = goal_offset(s, k)
    c, n = math.cos(yaw), math.sin(yaw)
    ahead, left = c * dx + n * dy, c * dy - n * dx
    away_m = math.hypot(ahead, left)
    out = views.state[lane]
    bearing = math.atan2(left, ahead)
    out[0], out[1], out[2] = away_m, math.cos(bearing), math.sin(bearing)
    out[3], out[4], out[5], out[6] = k.goal_x_m - dx, k.goal_y_m - dy, c, n
    out[7], out[8] = s.wheel_v, s.wheel_w
    out[9] = out[10] = 1.0
    if s.filtering != 0.0:
        covariance = lanes.covariance[lane]
        out[9] = math.sqrt(kalman.axes(covariance[0, 0], covariance[0, 1], covariance[1, 1])[0])
        out[10] = math.sqrt(max(0.0, covariance[2, 2]))
    out[11], out[12] = site.twists[int(m.action), 0], site.twists[int(m.action), 1]
    hidden, goal = views.critic[lane], site.goals[int(m.goal)]
    hidden[0], hidden[1] = m.left_m / 10.0, math.log1p(m.left_m)
    hidden[2] = math.log1p(math.hypot(s.x_m - goal[0], s.y_m - goal[1]))
    hidden[3], hidden[4] = (s.tick - m.began) / rules.most_ticks, (s.tick - s.best) / rules.stuck_ticks
    hidden[5] = m.stops
    views.fresh[lane] = m.fresh


@kernel
def set_action(lane: int, action: int, lanes: Lanes) -> None:
    """Give a lane its action. It has no effect while the robot backs off, nor in the tick in which that ends."""
    s, m = lanes.states[lane], lanes.more[lane]
    m.sensed, m.end = s.tick, 0.0
    if m.backing == NEVER and m.resumed != s.tick:
        m.fresh = 0.0
        m.pending, m.due = float(action), s.tick + m.delay


@kernel
def finish(lane: int, count: int, lanes: Lanes, rules: Rules, site: Site, views: Views) -> None:
    """Write the reward and the views of a lane at its next decision, in this drive or in the next."""
    s, k, m = lanes.states[lane], lanes.tables[lane], lanes.more[lane]
    before_m, end = m.left_m, m.end
    m.left_m = field_m(s, m, rules, site)
    reward = before_m - m.left_m - rules.step * (s.tick - m.sensed) / rules.every
    if end == REACHED:
        reward += rules.success
    elif end == CONTACT:
        reward -= rules.contact
    elif end in (STOPPED, GAVE_UP):
        reward -= rules.wrong * min(1.0, m.left_m / NEAR_M)
    views.reward[lane], views.ended[lane] = reward, end
    if end != 0.0:
        views.spent_s[lane], views.path_m[lane] = (s.tick - m.began) * SIM_STEP_S, s.path_m
        views.length_m[lane] = m.length_m
        begin(s, k, m, lane, count, lanes, rules, site)
    show(s, k, m, lane, lanes, rules, site, views)


@kernel
def start(lane: int, count: int, lanes: Lanes, rules: Rules, site: Site, views: Views) -> None:
    """Begin the first drive of a lane."""
    s, k, m = lanes.states[lane], lanes.tables[lane], lanes.more[lane]
    begin(s, k, m, lane, count, lanes, rules, site)
    views.ended[lane] = views.reward[lane] = 0.0
    show(s, k, m, lane, lanes, rules, site, views)
