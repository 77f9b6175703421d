"""Kernels of the batched world: many robots side by side, tick by tick from one decision to the next.

This module defines little behaviour of its own. It calls the compiled ticks of the fast loop (`hil/drive/fast`), so
that both worlds agree; `numba.cuda` compiles the same functions for a GPU (`world.py`). What a lane leaves out against
the fast loop: people, missing cameras, late fixes, outliers of fixes, and goals that are occupied. A contact ends the
drive.

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
from hil.drive.fast.tick_kernels import FIRST_TICK, SIM_STEP_S, TURN, composed, report, roll_on, turned, watch, wrapped
from hil.drive.fast.tick_state import NEVER
from hil.maps.cell_kernels import circle_overlaps, floored
from hil.physics.odometry_noise import DRIFT_COVARIANCE, DRIFT_MEAN, TICKS_PER_ENVIRONMENT_STEP
from onboard.config.plant_model import step_axis
from onboard.navigation.arrival import LEAST_SD, NODES, SD_RANGE, WEIGHTS
from onboard.navigation.fix_gating import GATE
from onboard.policy.contract import STOP_ACTION
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
    """Advance a lane by one tick: progress, base, wheels, filter, fix, and the pose of a new scan."""
    if k.driving != NEVER:
        watch(s, k, True)
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
        take_fix(s, m, lane, lanes, rules)


@kernel
def take_fix(s: Any, m: Any, lane: int, lanes: Lanes, rules: Rules) -> None:
    """Correct the filter by a fix taken now, and draw the time of the next one."""
    random = lanes.random
    gone_s = uniform(random, lane, m.fix_low_s, m.fix_high_s)
    m.next_fix = math.ceil(s.tick + gone_s / SIM_STEP_S)
    x = s.x_m + rules.sd_x * normal(random, lane)
    y = s.y_m + rules.sd_x * normal(random, lane)
    yaw = wrapped(turned(s.yaw + rules.sd_yaw * normal(random, lane)))
    covariance = lanes.covariance[lane]
    if s.filtering == 0.0:
        s.filtering, s.filter_x_m, s.filter_y_m, s.filter_yaw = 1.0, x, y, yaw
        for row in range(5):
            for column in range(5):
                covariance[row, column] = 0.0
        covariance[0, 0] = covariance[1, 1] = rules.sd_x * rules.sd_x
        covariance[2, 2] = rules.sd_yaw * rules.sd_yaw
        covariance[3, 3], covariance[4, 4] = rules.scale_sd * rules.scale_sd, rules.creep_sd * rules.creep_sd
        return
    correct(s, covariance, lanes.scratch[lane], x, y, yaw, rules.sd_x * rules.sd_x, rules.sd_yaw * rules.sd_yaw)


@kernel
def correct(
    s: Any, covariance: Floats, scratch: Floats, x: float, y: float, yaw: float, place: float, heading: float
) -> None:
    """Correct the filter by a fix, as `ekf_kernel.correct_fast` does; an outlier changes nothing.

    place, heading: variances of the fix in x and y, and in yaw; scratch: (80,) of any content
    """
    a, b, c = covariance[0, 0] + place, covariance[0, 1], covariance[0, 2]
    d, e, f = covariance[1, 1] + place, covariance[1, 2], covariance[2, 2] + heading
    m0, m1, m2 = d * f - e * e, c * e - b * f, b * e - c * d
    det = a * m0 + b * m1 + c * m2
    i00, i01, i02 = m0 / det, m1 / det, m2 / det
    i11, i12, i22 = (a * f - c * c) / det, (b * c - a * e) / det, (a * d - b * b) / det
    r0, r1, r2 = x - s.filter_x_m, y - s.filter_y_m, wrapped(wrapped(yaw - s.filter_yaw))
    u0, u1, u2 = i00 * r0 + i01 * r1 + i02 * r2, i01 * r0 + i11 * r1 + i12 * r2, i02 * r0 + i12 * r1 + i22 * r2
    if r0 * u0 + r1 * u1 + r2 * u2 > GATE:
        return
    for row in range(5):
        p0, p1, p2 = covariance[row, 0], covariance[row, 1], covariance[row, 2]
        scratch[3 * row] = p0 * i00 + p1 * i01 + p2 * i02
        scratch[3 * row + 1] = p0 * i01 + p1 * i11 + p2 * i12
        scratch[3 * row + 2] = p0 * i02 + p1 * i12 + p2 * i22
    s.filter_x_m += scratch[0] * r0 + scratch[1] * r1 + scratch[2] * r2
    s.filter_y_m += scratch[3] * r0 + scratch[4] * r1 + scratch[5] * r2
    s.filter_yaw = wrapped(s.filter_yaw + scratch[6] * r0 + scratch[7] * r1 + scratch[8] * r2)
    s.scale += scratch[9] * r0 + scratch[10] * r1 + scratch[11] * r2
    s.creep += scratch[12] * r0 + scratch[13] * r1 + scratch[14] * r2
    # P - K S K^T, the same as Joseph's form for this gain; S K^T is the upper part of P.
    for row in range(5):
        for column in range(5):
            scratch[20 + 5 * row + column] = covariance[row, column] - (
                scratch[3 * row] * covariance[0, column]
                + scratch[3 * row + 1] * covariance[1, column]
                + scratch[3 * row + 2] * covariance[2, column]
            )
    for row in range(5):
        for column in range(5):
            covariance[row, column] = 0.5 * (scratch[20 + 5 * row + column] + scratch[20 + 5 * column + row])


# ---- Recovery, arrival, end of a drive


@kernel
def recover(s: Any, m: Any, rules: Rules) -> bool:
    """Run the recovery in this tick; return False where it gives up (R9). A try asks for the space behind first."""
    if m.backing != NEVER:
        backed_m = s.travelled_m - m.backing_m
        way_m = rules.backward_mps * rules.backward_ticks * SIM_STEP_S
        if s.tick - m.backing >= rules.backward_ticks or backed_m >= rules.slack * way_m:
            m.backing, m.rested, m.fresh = NEVER, s.tick, 1.0
        m.action, m.due, m.stops = float(STOP_ACTION), NEVER, 0.0
        s.blocked = s.place = NEVER
        return True
    long = s.blocked != NEVER and s.tick - s.blocked >= rules.blocked_ticks
    held = s.place != NEVER and s.tick - max(s.place, s.best) >= rules.held_ticks
    cooling = m.rested != NEVER and s.tick - m.rested < rules.cool_ticks
    if cooling or not (long or held):
        return True
    if m.try_0 != NEVER and s.tick - m.try_0 < rules.window_ticks:
        return False
    m.try_0, m.try_1, m.try_2 = m.try_1, m.try_2, s.tick
    m.rested = s.tick
    s.blocked = s.place = NEVER
    m.asks = float(int(m.asks) | REAR)
    return True


@kernel
def begin_try(s: Any, m: Any, free_m: float, rules: Rules) -> None:
    """Back off if the space behind is free (R5); a try that cannot begin counts as a try (R7)."""
    if free_m >= rules.rear_m:
        m.backing, m.backing_m = s.tick, s.travelled_m


@kernel
def goal_offset(s: Any, k: Any) -> tuple[float, float, float]:
    """Return the goal from the filtered pose in the start frame: x, y [m], and the pose's yaw."""
    if k.anchored != 0.0:
        x, y, yaw = composed(k.start_x_m, k.start_y_m, k.start_yaw, s.filter_x_m, s.filter_y_m, s.filter_yaw)
    else:
        x, y, yaw = composed(k.start_x_m, k.start_y_m, k.start_yaw, s.wheel_x_m, s.wheel_y_m, s.wheel_yaw)
    return k.goal_x_m - x, k.goal_y_m - y, yaw


@kernel
def below(value: float) -> float:
    """Return the standard normal distribution at a value."""
    return 0.5 * (1.0 + math.erf(value / math.sqrt(2.0)))


@kernel
def axes(covariance: Floats) -> tuple[float, float, float]:
    """Return what `ekf.principal_axes` returns."""
    a, b, c = covariance[0, 0], covariance[0, 1], covariance[1, 1]
    mean, half = 0.5 * (a + c), math.hypot(0.5 * (a - c), b)
    return max(0.0, mean + half), max(0.0, mean - half), 0.5 * math.atan2(2.0 * b, a - c)


@kernel
def within(x: float, y: float, covariance: Floats, radius_m: float) -> float:
    """Return what `arrival.within` returns for an offset (x, y)."""
    large, small, angle = axes(covariance)
    c, n = math.cos(angle), math.sin(angle)
    along_m, across_m = c * x + n * y, c * y - n * x
    least_m = LEAST_SD * radius_m
    sd_m, narrow_m = max(math.sqrt(large), least_m), max(math.sqrt(small), least_m)
    low = max(-1.0, min(1.0, (-SD_RANGE * sd_m - along_m) / radius_m))
    high = max(-1.0, min(1.0, (SD_RANGE * sd_m - along_m) / radius_m))
    begin, end = math.asin(low), math.asin(high)
    total = 0.0
    for i in range(len(NODES)):
        t = 0.5 * (begin + end) + 0.5 * (end - begin) * NODES[i]
        half_m = radius_m * math.cos(t)
        off = (along_m + radius_m * math.sin(t)) / sd_m
        density = math.exp(-0.5 * off * off) / (sd_m * math.sqrt(TURN))
        total += (
            WEIGHTS[i]
            * density
            * half_m
            * (below((across_m + half_m) / narrow_m) - below((across_m - half_m) / narrow_m))
        )
    return min(1.0, 0.5 * (end - begin) * total)


@kernel
def act(s: Any, k: Any, m: Any, covariance: Floats, rules: Rules) -> None:
    """Put the pending action in force: a turn in place of a stop that the arrival holds (A1 to A6)."""
    action = int(m.pending)
    m.due = NEVER
    if action == STOP_ACTION and k.anchored != 0.0 and rules.confidence > 0.0:
        dx, dy, _ = goal_offset(s, k)
        c, n = math.cos(k.start_yaw), math.sin(k.start_yaw)  # back into the map frame, the covariance's
        x, y = c * dx + n * dy, c * dy - n * dx
        if math.hypot(x, y) <= rules.tolerance_m and within(x, y, covariance, rules.tolerance_m) < rules.confidence:
            if m.held == NEVER:
                m.held = s.tick
            if s.tick - m.held < rules.wait_ticks:
                action = TURN_ACTION
    m.action = float(action)
    m.stops = m.stops + 1.0 if action == STOP_ACTION else 0.0


@kernel
def judged(s: Any, k: Any, m: Any, rules: Rules, site: Site) -> float:
    """Return how the drive ended in this tick, 0 while it goes on."""
    if s.refused != 0.0:
        return SPEED
    if s.touching != 0.0:
        return CONTACT
    rests = abs(s.wheel_v) <= rules.rest_mps and abs(s.wheel_w) <= rules.rest_radps
    if rests and m.backing == NEVER and m.stops >= rules.rest_decisions:
        goal = site.goals[int(m.goal)]
        away_m = math.hypot(s.x_m - goal[0], s.y_m - goal[1])
        return REACHED if away_m <= rules.reached_m else STOPPED
    if s.tick - m.began >= rules.most_ticks:
        return TIME
    return STUCK if s.tick - s.best >= rules.stuck_ticks else 0.0


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
def ask_limits(s: Any, m: Any, rules: Rules, site: Site) -> None:
    """Let the limits judge the set point, or the recovery's command, where it or the scan is new."""
    row = BACK if m.backing != NEVER else int(m.action)
    if row == m.asked and s.seen_tick != s.tick:
        return
    m.asked = float(row)
    reach_m = site.ways[int(m.steps), row, REACH]
    if reach_m == 0.0 or is_clear(s, reach_m + rules.cell_m, rules, site):
        command(m, row, 1.0, site)
        return
    m.asks = float(int(m.asks) | LIMITS)


@kernel
def heed(s: Any, m: Any, lane: int, lanes: Lanes, rules: Rules, site: Site) -> None:
    """Take up what the look at the obstacles near by found."""
    asks = int(m.asks)
    m.asks = 0.0
    if asks & LIMITS:
        row, speed_mps = int(m.asked), lanes.near[lane, 0]
        wanted_mps = abs(site.twists[row, 0])
        command(m, row, 1.0 if wanted_mps <= speed_mps else speed_mps / wanted_mps, site)
    if asks & REAR:
        begin_try(s, m, lanes.near[lane, 1], rules)


@kernel
def live(lane: int, looked: bool, lanes: Lanes, rules: Rules, site: Site) -> None:
    """Advance a lane by one tick. looked: whether `near` has run since the last call; else a lane asks again."""
    s, k, m = lanes.states[lane], lanes.tables[lane], lanes.more[lane]
    if m.end != 0.0:
        return
    if looked:
        heed(s, m, lane, lanes, rules, site)
    tick(s, k, m, lane, lanes, rules, site)
    if s.tick == m.due:
        act(s, k, m, lanes.covariance[lane], rules)
    m.end = judged(s, k, m, rules, site)
    if m.end == 0.0 and not recover(s, m, rules):
        m.end = GAVE_UP
    if m.end != 0.0:
        m.asks = 0.0
        return
    ask_limits(s, m, rules, site)
    lanes.near[lane, 0] = lanes.near[lane, 1] = math.inf
    k.wanted_v, k.wanted_w = site.twists[int(m.action), 0], site.twists[int(m.action), 1]


@kernel
def factor(random: Words, lane: int, spread: float) -> float:
    """Return a factor drawn log-uniformly from 1 - spread to 1 + spread."""
    return math.exp(uniform(random, lane, math.log(1.0 - spread), math.log(1.0 + spread)))


@kernel
def draw_robot(m: Any, lane: int, lanes: Lanes, rules: Rules, site: Site) -> bool:
    """Draw the robot of a drive, as `domain_randomization` does; return whether it gets fixes."""
    random = lanes.random
    for i in range(7):
        drawn = i in (0, 1, 2, 3, 6)
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
def clear(s: Any, k: Any, m: Any) -> None:
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
    m.due = m.asked = m.held = m.backing = m.rested = m.try_0 = m.try_1 = m.try_2 = NEVER
    m.command_v = m.command_w = m.stops = 0.0
    m.fresh = 1.0


@kernel
def begin(s: Any, k: Any, m: Any, lane: int, count: int, lanes: Lanes, rules: Rules, site: Site) -> None:
    """Draw a drive to one of the first `count` goals, and stand until its first decision."""
    random = lanes.random
    clear(s, k, m)
    goal = min(int(uniform(random, lane, 0.0, float(count))), count - 1)
    start = min(int(uniform(random, lane, 0.0, float(site.starts.shape[1]))), site.starts.shape[1] - 1)
    m.goal = float(goal)
    s.x_m, s.y_m = site.starts[goal, start, 0], site.starts[goal, start, 1]
    s.yaw = wrapped(uniform(random, lane, -math.pi, math.pi))
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
    c, n = math.cos(yaw), math.sin(yaw)
    k.goal_x_m, k.goal_y_m = c * (goal[0] - x) + n * (goal[1] - y), c * (goal[1] - y) - n * (goal[0] - x)
    if k.anchored == 0.0:
        x, y, yaw = s.wheel_x_m, s.wheel_y_m, s.wheel_yaw
        c, n = math.cos(yaw), math.sin(yaw)
    k.start_x_m, k.start_y_m, k.start_yaw = -(c * x + n * y), n * x - c * y, wrapped(-yaw)
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
        out[9], out[10] = math.sqrt(axes(covariance)[0]), math.sqrt(max(0.0, covariance[2, 2]))
    out[11], out[12] = site.twists[int(m.action), 0], site.twists[int(m.action), 1]
    hidden, goal = views.critic[lane], site.goals[int(m.goal)]
    hidden[0], hidden[1] = m.left_m / 10.0, math.log1p(m.left_m)
    hidden[2] = math.log1p(math.hypot(s.x_m - goal[0], s.y_m - goal[1]))
    hidden[3], hidden[4] = (s.tick - m.began) / rules.most_ticks, (s.tick - s.best) / rules.stuck_ticks
    hidden[5] = m.stops
    views.fresh[lane] = m.fresh


@kernel
def give(lane: int, action: int, lanes: Lanes) -> None:
    """Give a lane its action. It has no effect while the robot backs off."""
    s, m = lanes.states[lane], lanes.more[lane]
    m.sensed, m.end = s.tick, 0.0
    if m.backing == NEVER:
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
