"""The teacher of the batched world: how long each action of a lane takes to the goal, by the true map.

It rolls out each action for one decision and a lead. The time that is left comes from the cost to go and the turn
towards the path. An action after which the robot cannot brake clear is unsafe. The policy cannot know all that the
teacher knows, so a training uses the labels beside the reward, with a weight that falls to zero (`learner.py`).

Near the goal the teacher goes by the pose that the robot believes in. So the policy learns to stop where it can know
that it is there; whether it may, the arrival decides (`onboard/navigation/arrival.py`).
"""

from __future__ import annotations

import math
from typing import Any

from engines.train.batched.atlas import PRICED_CELL_M, PRICED_M
from engines.train.batched.lane_kernels import goal_offset
from engines.train.batched.lane_values import Floats, Floats32, Lanes, Rules, Site
from hil.drive.fast.tick_kernels import SIM_STEP_S
from hil.drive.fast.tick_state import NEVER
from hil.maps.cell_kernels import circle_overlaps, floored
from onboard.config.plant_model import step_axis
from onboard.policy.contract import ACTIONS, STOP_ACTION
from onboard.values.geometry import wrap
from onboard.values.kernel import kernel

State = tuple[float, float, float, float, float, float, float]
"""x, y [m], yaw, v, w, and the rates of v and w."""
COUNT = len(ACTIONS)
UNSAFE_S = 1e6
"""The time of an unsafe action. If all actions have it, the decision is not learned from."""
KEEP_M = 0.05
"""Clearance beyond the footprint that an action and its braking keep."""
CHECK_TICKS = 3
"""Every so many ticks of an action are checked for contact."""
LEAD_S, TURN_LEAD_S = 0.35, 0.15
"""Time for which the robot is taken to go on as it does after the action."""
SPEED_MPS, TURN_S_PER_RAD, COMFORT_M, COMFORT_S = 0.85, 0.4, 0.30, 0.3
"""The time left: the path at a speed, the turn towards it, and nearness to obstacles, within the third."""
NEAR_M, TURN_FROM_M, CALM_M, OVERSHOOT_S_PER_M, STEER_S = 0.5, 0.4, 1.0, 6.0, 0.03
"""Within the first of the believed goal the path is straight. Within the second the turn costs less and less,
within the third nearness. The others: what it costs to overshoot the goal, and to turn by 1 rad/s on the way."""
ARRIVE_M, SETTLE_M, LEAVE_M, NEARER_M, REST_MPS = 0.09, 0.14, 0.17, 0.03, 0.05
"""The teacher stops by the same rule as `dynamic_window.py`, with numbers of its own."""
LOST_M, FAR = 0.5, 3.0
"""A robot that believes in a goal farther than the first from the true one is not taught, unless it is far away."""
LINGER_S, STAND_S, STOPPED_S = 0.15, 1.5, 5.0
"""What a turn in place costs, a stop elsewhere, and every other action at the goal."""


@kernel
def way_on(x: float, y: float, goal: int, site: Site) -> tuple[float, float]:
    """Return the cost to go at a place [m of free space], inf outside the field, and the direction of descent [rad]."""
    windows = site.cost_windows
    rows, columns, first = int(windows[goal, 2]), int(windows[goal, 3]), int(windows[goal, 4])
    i, j = (x - windows[goal, 0]) / PRICED_CELL_M - 0.5, (y - windows[goal, 1]) / PRICED_CELL_M - 0.5
    a, b = floored(i), floored(j)
    if not (0 <= a < rows - 1 and 0 <= b < columns - 1):
        return math.inf, 0.0
    p, q, at, costs = i - a, j - b, first + a * columns + b, site.costs
    c00, c10, c01, c11 = costs[at] * 1.0, costs[at + columns] * 1.0, costs[at + 1] * 1.0, costs[at + columns + 1] * 1.0
    di, dj = (1.0 - q) * (c10 - c00) + q * (c11 - c01), (1.0 - p) * (c01 - c00) + p * (c11 - c10)
    value = (1.0 - p) * ((1.0 - q) * c00 + q * c01) + p * ((1.0 - q) * c10 + q * c11)
    return value * PRICED_M, math.atan2(-dj, -di)


@kernel
def overlaps(x: float, y: float, radius_m: float, rules: Rules, site: Site) -> bool:
    """Return whether a circle overlaps an obstacle."""
    return bool(
        circle_overlaps(x / rules.cell_m, y / rules.cell_m, radius_m / rules.cell_m, site.blocked, site.blocked_gap)
    )


@kernel
def clear_m(x: float, y: float, rules: Rules, site: Site) -> float:
    """Return about how far the path is free, by the chessboard distance of cells [m]."""
    row, column = floored(y / rules.cell_m), floored(x / rules.cell_m)
    inside = 0 <= row < site.blocked_gap.shape[0] and 0 <= column < site.blocked_gap.shape[1]
    return max(0.0, site.blocked_gap[row, column] - 0.5) * rules.cell_m if inside else 0.0


@kernel
def closeness(x: float, y: float, rules: Rules, site: Site) -> float:
    """Return how near obstacles are: 1 at the limits' stop zone, 0 from `COMFORT_M` beyond."""
    return min(max(1.0 - (clear_m(x, y, rules, site) - rules.swept_m) / COMFORT_M, 0.0), 1.0)


@kernel
def braking_m(v: float, rules: Rules) -> float:
    """Return the braking distance from a speed [m]."""
    return abs(v) * rules.reaction_s + v * v / (2.0 * rules.braking_mps2)


@kernel
def time_left(
    x: float, y: float, yaw: float, rest_m: float, goal_x: float, goal_y: float, goal: int, site: Site
) -> float:
    """Return the time to the goal from a place in the atlas frame [s], inf outside the cost to go.

    rest_m: distance that the robot needs from here to stop; goal_x, goal_y: its belief of the goal
    """
    ahead_x, ahead_y = goal_x - x, goal_y - y
    goal_m = math.hypot(ahead_x, ahead_y)
    if goal_m < NEAR_M:
        way_m, angle = goal_m, math.atan2(ahead_y, ahead_x)
    else:
        way_m, angle = way_on(x, y, goal, site)
    near = min(1.0, way_m / TURN_FROM_M)
    turn = abs(wrap(angle - yaw))
    over_m = max(0.0, rest_m - way_m)
    return float(way_m / SPEED_MPS + TURN_S_PER_RAD * turn * near + OVERSHOOT_S_PER_M * over_m)


@kernel
def after(
    row: int, ticks: int, start: State, linear: Floats, angular: Floats, radius_m: float, rules: Rules, site: Site
) -> tuple[State, bool]:
    """Return the state after some ticks with a command of `Site.twists`, and whether robot and braking keep clear.

    The limits' slow zone is left out: `closeness` stands for it.
    """
    x, y, yaw, v, w, dv, dw = start
    safe, moves = True, site.twists[row, 0] > 0.0
    for tick in range(ticks):
        v, dv = step_axis(site.twists[row, 0], v, dv, linear, SIM_STEP_S)
        w, dw = step_axis(site.twists[row, 1], w, dw, angular, SIM_STEP_S)
        yaw += SIM_STEP_S * w
        x, y = x + SIM_STEP_S * v * math.cos(yaw), y + SIM_STEP_S * v * math.sin(yaw)
        if moves and tick % CHECK_TICKS == CHECK_TICKS - 1:
            safe = safe and not overlaps(x, y, radius_m, rules, site)
    if moves:
        rest_m = braking_m(v, rules)
        for part in (0.5, 1.0):
            bent, way_m = yaw + 0.5 * w * part * rest_m / max(0.2, abs(v)), part * rest_m
            safe = safe and not overlaps(x + way_m * math.cos(bent), y + way_m * math.sin(bent), radius_m, rules, site)
    return (x, y, yaw, v, w, dv, dw), safe


@kernel
def present(s: Any, m: Any, linear: Floats, angular: Floats) -> State:
    """Return the state in which the lane's next decision takes effect."""
    x, y, yaw, v, w, dv, dw = s.x_m, s.y_m, s.yaw, s.v, s.w, s.dv, s.dw
    for _ in range(int(m.delay)):
        v, dv = step_axis(m.command_v, v, dv, linear, SIM_STEP_S)
        w, dw = step_axis(m.command_w, w, dw, angular, SIM_STEP_S)
        yaw += SIM_STEP_S * w
        x, y = x + SIM_STEP_S * v * math.cos(yaw), y + SIM_STEP_S * v * math.sin(yaw)
    return x, y, yaw, v, w, dv, dw


@kernel
def label(lane: int, lanes: Lanes, rules: Rules, site: Site, out: Floats32) -> None:
    """Write (28,) times to the goal [s] of the actions of a lane's next decision, `UNSAFE_S` for unsafe actions."""
    s, k, m = lanes.states[lane], lanes.tables[lane], lanes.more[lane]
    for action in range(COUNT):
        out[action] = UNSAFE_S
    if m.backing != NEVER:
        return
    dx, dy, believed = goal_offset(s, k)
    c, n = math.cos(s.yaw - believed), math.sin(s.yaw - believed)
    goal_x, goal_y, goal = s.x_m + c * dx - n * dy, s.y_m + n * dx + c * dy, int(m.goal)
    lost_m = math.hypot(goal_x - site.goals[goal, 0], goal_y - site.goals[goal, 1])
    if lost_m > LOST_M and math.hypot(dx, dy) < FAR * lost_m:
        return
    linear, angular = lanes.linear[lane], lanes.angular[lane]
    radius_m, comfort = k.radius_m + KEEP_M, min(1.0, math.hypot(dx, dy) / CALM_M)
    start = present(s, m, linear, angular)
    best_m = best_s = math.inf
    for action in range(COUNT):
        end, safe = after(action, rules.every, start, linear, angular, radius_m, rules, site)
        if not safe:
            continue
        x, y, yaw, v, w = end[0], end[1], end[2], end[3], end[4]
        away_m, rest_m, bent = math.hypot(x - goal_x, y - goal_y), braking_m(v, rules), yaw + 0.5 * LEAD_S * w
        lead_m = min(LEAD_S * v, away_m)
        x, y = x + lead_m * math.cos(bent), y + lead_m * math.sin(bent)
        close = closeness(x, y, rules, site)
        spent_s = time_left(x, y, yaw + TURN_LEAD_S * w, rest_m - lead_m, goal_x, goal_y, goal, site)
        spent_s += COMFORT_S * comfort * close * close + STEER_S * abs(site.twists[action, 1])
        if site.twists[action, 0] == 0.0:
            spent_s += STAND_S if action == STOP_ACTION else LINGER_S
        if spent_s < UNSAFE_S:
            out[action] = spent_s
            if spent_s < best_s:
                best_s, best_m = spent_s, away_m
    rest_m = braking_m(start[3], rules)
    stopping_m = math.hypot(
        start[0] + rest_m * math.cos(start[2]) - goal_x, start[1] + rest_m * math.sin(start[2]) - goal_y
    )
    _arrive(m, start[3], stopping_m, best_m, out)


@kernel
def _arrive(m: Any, v: float, stopping_m: float, best_m: float, out: Floats32) -> None:
    """Let the teacher stop at the believed goal. best_m: distance to it after the best action."""
    if m.action == STOP_ACTION or m.held != NEVER:
        arrived = stopping_m <= LEAVE_M
    else:
        arrived = stopping_m <= min(SETTLE_M if abs(v) < REST_MPS else ARRIVE_M, best_m + NEARER_M)
    if arrived:
        for action in range(COUNT):
            out[action] = STOPPED_S
        out[STOP_ACTION] = 0.0
