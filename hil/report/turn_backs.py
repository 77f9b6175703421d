"""Where the path that `reactive` plans turned back: its costmap and both paths, from a replay of the recording.

Each decision leaves the remembered cells in the policy's memory, and the path follows from them. A path turns back if
it leaves the robot the other way than the path of the decision before. The cells that are new since then show why.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hil.recordings.locate import RecordingGroup, completed, local
from hil.recordings.recording import open_recording
from hil.replay.recorded_policy import Policies
from hil.replay.sessions import SessionPlayers
from hil.replay.tick_selection import WHOLE, MissingTicks
from hil.report.timeline import Floats
from onboard.config.config import Config
from onboard.policy.dwa.cost_to_go import PATH_STEP_M, STEEP, descent
from onboard.policy.dwa.costmap import CELL_M, WayFinder
from onboard.policy.dwa.dynamic_window import unpack
from onboard.state import TickRecord
from onboard.system.log import unlogged
from onboard.values.errors import InputError
from onboard.values.messages import Pose

REACTIVE = "reactive"
AHEAD_M = 1.0
"""A path's direction is that of its place so far from the robot."""
BACK_RAD = math.radians(100.0)
"""Least angle between the directions of two paths of which the second turns back."""
MOST = 8
"""Of a session, the turns whose path grew most are shown."""
AROUND_M = 1.0
"""Shown around robot and paths, which are cut at `FAR_M`."""
FAR_M = 6.0
PX_PER_M = 40.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What a decision planned by: the robot's pose, the remembered cells, and the path (n, 2) in the start frame."""

    t_s: float
    tick: int
    episode: int
    pose: Pose
    cells: frozenset[tuple[int, int]]
    path: Floats

    @property
    def length_m(self) -> float:
        """Length of the path."""
        return PATH_STEP_M * len(self.path)


@dataclass(frozen=True, slots=True)
class TurnBack:
    """A decision whose path turned back, as a picture: `view` is the SVG's view box, the others are SVG paths [px].

    longer_m: how much longer the path became; entered, left: numbers of cells that are new, and that were seen free
    """

    t_s: float
    tick: int
    longer_m: float
    entered: int
    left: int
    view: str
    cells: str
    new: str
    before: str
    after: str
    robot: tuple[float, float, float]


def turn_backs(take: RecordingGroup) -> dict[str, list[TurnBack]]:
    """Return the turns back of each session of a recording, by its name, in the order of time.

    Raises InputError for another policy than `reactive`, and as a replay (`SessionPlayers`).
    """
    plans: dict[str, list[Plan]] = {}
    with contextlib.closing(Policies()) as policies, unlogged():
        players = SessionPlayers(policies, WHOLE)
        for source in take.sources:
            with local(source) as copy, completed(copy) as whole, open_recording(whole) as recording:
                for session in recording.sessions:
                    if session.config.policy.model != REACTIVE:
                        model = session.config.policy.model
                        raise InputError(f"{source}: its policy is {model}: --plans shows what {REACTIVE} plans")
                players.begin(source, recording)
                missing = {session.name: MissingTicks() for session in recording.sessions}
                for session, recorded, replayed, t_s in players.play(recording, missing):
                    plan = _plan(recorded, replayed, t_s, session.config)
                    if plan is not None:
                        plans.setdefault(session.name, []).append(plan)
    return {name: _turned(found) for name, found in plans.items()}


def _plan(recorded: TickRecord, replayed: TickRecord, t_s: float, config: Config) -> Plan | None:
    """Return what the decision that a tick applied planned by, None without one."""
    after, filtered = replayed.after, replayed.filtered
    if recorded.acted is None or after is None or filtered is None or not after.mission.driving:
        return None
    memory, goal = after.pilot.memory, after.mission.goal_xy_m
    if memory is None or goal is None:
        return None
    known, _ = unpack(memory)
    _, _, field = WayFinder(config.robot.footprint.half_width_m).window(known, filtered.pose, goal)
    path = descent(field, (filtered.pose.x_m, filtered.pose.y_m), goal, STEEP)
    cells = frozenset((int(a), int(b)) for a, b, _ in known.cells.tolist())
    return Plan(t_s, recorded.slot.number, replayed.episode, filtered.pose, cells, path)


def _turned(plans: list[Plan]) -> list[TurnBack]:
    """Return the turns back among the plans of a session."""
    pairs = [pair for pair in itertools.pairwise(plans) if _turns_back(*pair)]
    longest = sorted(pairs, key=lambda pair: pair[0].length_m - pair[1].length_m)[:MOST]
    return [_picture(*pair) for pair in sorted(longest, key=lambda pair: pair[0].t_s)]


def _turns_back(before: Plan, after: Plan) -> bool:
    step = round(AHEAD_M / PATH_STEP_M)
    if before.episode != after.episode or min(len(before.path), len(after.path)) <= step:
        return False
    (ax, ay), (bx, by) = (plan.path[step] - plan.path[0] for plan in (before, after))
    return abs(math.atan2(ax * by - ay * bx, ax * bx + ay * by)) > BACK_RAD


def _picture(before: Plan, after: Plan) -> TurnBack:
    """Return the picture of a turn back: x is ahead in the start frame and goes right, y goes up."""
    near = round(FAR_M / PATH_STEP_M)
    shown = np.concatenate([before.path[:near], after.path[:near]])
    low, high = shown.min(axis=0) - AROUND_M, shown.max(axis=0) + AROUND_M
    inside = [cell for cell in after.cells if (low <= _centre(cell)).all() and (_centre(cell) <= high).all()]
    new = after.cells - before.cells
    old = [cell for cell in inside if cell not in new]
    width, height = ((high - low) * PX_PER_M).tolist()
    return TurnBack(
        t_s=after.t_s, tick=after.tick, longer_m=after.length_m - before.length_m,
        entered=len(new), left=len(before.cells - after.cells),
        view=f"{low[0] * PX_PER_M:.0f} {-high[1] * PX_PER_M:.0f} {width:.0f} {height:.0f}",
        cells=_squares(old), new=_squares(new.intersection(inside)),
        before=_line(before.path[:near]), after=_line(after.path[:near]),
        robot=(after.pose.x_m * PX_PER_M, -after.pose.y_m * PX_PER_M, 90.0 - math.degrees(after.pose.yaw_rad)),
    )  # fmt: skip


def _centre(cell: tuple[int, int]) -> Floats:
    return (np.array(cell, np.float64) + 0.5) * CELL_M


def _squares(cells: Iterable[tuple[int, int]]) -> str:
    side = CELL_M * PX_PER_M
    return "".join(
        f"M{side * a:.0f} {-side * (b + 1):.0f}h{side:.0f}v{side:.0f}h-{side:.0f}z" for a, b in sorted(cells)
    )


def _line(path: Floats) -> str:
    return "M" + "L".join(f"{PX_PER_M * x:.1f} {-PX_PER_M * y:.1f}" for x, y in path.tolist())
