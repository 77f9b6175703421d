"""The batched world: thousands of robots side by side, on a GPU or on the cores of this machine.

The kernels (`lane_kernels.py`) are the same on both. Goals may be added while the lanes drive.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import torch

from engines.train.batched import lane_kernels as kernels
from engines.train.batched import lane_sight as sight
from engines.train.batched import lane_teacher as teacher
from engines.train.batched.atlas import Atlas, GoalChunk
from engines.train.batched.config import BatchedSection
from engines.train.batched.lane_sight import FANS
from engines.train.batched.lane_values import ENDS, REACHED, Lanes, LaneState, Rules, Site, Views
from engines.train.batched.learner import Observed, Stepped
from engines.train.batched.policy import CRITIC_VALUES, STATE
from engines.train.drives.domain import Rules as TrainRules
from hil.drive.fast.limits_kernel import FastLimits
from hil.drive.fast.robot import table_of
from hil.drive.fast.tick_kernels import FIRST_TICK
from hil.drive.fast.tick_state import TickState
from hil.drive.setting import REACHED_M, goal_tick
from hil.maps.cell_kernels import chessboard_distance
from hil.physics.odometry_noise import FIX_PERIOD_S, FIX_SD, TRAINING_FIX_PERIOD_S
from hil.physics.simulated_base import NS, STEP_NS
from hil.sensors.direct_scan import looked_at
from onboard.config.plant_model import AXIS_NUMBERS
from onboard.navigation.arrival import WAIT_S
from onboard.navigation.mission import REST_DECISIONS, REST_MPS, REST_RADPS
from onboard.policy.contract import ACTIONS
from onboard.safety.limits import bounds_of
from onboard.safety.recovery import COOL_DOWN_S, HELD_S, WINDOW_S, path_m
from onboard.values.errors import InputError
from onboard.values.kernel import kernel
from onboard.values.messages import BINS, Twist

GRADED_STEPS = 4
"""Steps of the slow zone in the drives with a graded zone."""


def _ticks(seconds: float) -> float:
    return float(math.ceil(seconds * NS / STEP_NS - 1e-9))


def rules_of(rules: TrainRules, section: BatchedSection) -> Rules:
    """Return the numbers of the lanes. Raises InputError for a robot that the lanes cannot simulate."""
    setting, domain, driving = rules.robot, rules.domain, rules.driving
    config = setting.config
    goal, recovery, rates = config.goal, config.recovery, config.rates
    bounds = bounds_of(config.limits, setting.plant, config.robot.footprint, config.odometry.stale_ms)
    if not config.robot.footprint.is_round or bounds.ramp_mps2 is not None or bounds.ramp_radps2 is not None:
        raise InputError("the batched world simulates round robots without a ramp in the limits")
    if not recovery.back_off:
        raise InputError("recovery.back_off: the batched world's robots back off; set it to true, or train with drives")
    return Rules(
        cell_m=setting.world.cell_m,
        far_m=config.scan.far_m,
        every=rates.ticks_per_decision,
        settled_ticks=float(goal_tick(rates.ticks_per_decision)),
        swept_m=bounds.swept.radius_m,
        braking_mps2=bounds.braking_mps2,
        reaction_s=bounds.reaction_s,
        contact_s=bounds.time_to_contact_s,
        tolerance_m=goal.tolerance_m,
        reached_m=REACHED_M,
        confidence=goal.arrival_confidence,
        wait_ticks=_ticks(WAIT_S),
        rest_mps=REST_MPS,
        rest_radps=REST_RADPS,
        rest_decisions=float(REST_DECISIONS),
        most_ticks=_ticks(driving.max_s),
        stuck_ticks=_ticks(driving.stuck_s),
        blocked_ticks=_ticks(recovery.blocked_s),
        held_ticks=_ticks(HELD_S),
        backward_mps=recovery.backward_mps,
        backward_ticks=_ticks(recovery.backward_s),
        window_ticks=_ticks(WINDOW_S),
        cool_ticks=_ticks(COOL_DOWN_S),
        clearance_m=recovery.rear_clearance_m,
        way_m=path_m(recovery),
        sd_x=FIX_SD[0],
        sd_yaw=FIX_SD[2],
        success=section.reward.success,
        step=section.reward.step,
        contact=section.reward.contact,
        wrong=section.reward.wrong,
        plant_spread=domain.plant_spread,
        delay_low=float(domain.delay_ticks[0]),
        delay_high=float(domain.delay_ticks[1]),
        drift_low=domain.drift_scale[0],
        drift_high=domain.drift_scale[1],
        drift_paper=domain.drift_paper,
        no_fixes=domain.no_localization,
        often=domain.often_localized,
        often_low_s=FIX_PERIOD_S[0],
        often_high_s=FIX_PERIOD_S[1],
        seldom_low_s=TRAINING_FIX_PERIOD_S[0],
        seldom_high_s=TRAINING_FIX_PERIOD_S[1],
        scan_noise=domain.scan_noise,
        scan_holes=domain.scan_holes,
        graded=section.graded,
    )


def looks_of(rules: TrainRules) -> frozenset[int]:
    """Return the ticks after a decision in which a lane may ask for the obstacles near by: a new scan, or an action."""
    rates, senses, (low, high) = rules.robot.config.rates, rules.robot.senses, rules.domain.delay_ticks
    ticks = range(1, rates.ticks_per_decision + 1)
    whole = rates.ticks_per_decision % senses.depth_every == 0
    return frozenset(
        tick for tick in ticks if not whole or (tick - FIRST_TICK) % senses.depth_every == 0 or low <= tick <= high
    )


def _limits_of(rules: TrainRules, steps: int) -> FastLimits:
    setting = rules.robot
    section = setting.config.limits.model_copy(update={"slow_steps": steps})
    bounds = bounds_of(section, setting.plant, setting.config.robot.footprint, setting.config.odometry.stale_ms)
    return FastLimits(bounds, looked_at(setting.mounts, setting.config.scan))


def _ways_of(rules: TrainRules, twists: Sequence[Twist]) -> tuple[npt.NDArray[np.float64], ...]:
    """Return `Site.ways`, `ring_m` and `ring_mps`.

    Raises InputError for a robot that does not see where it drives, or may not drive as fast as the actions.
    """
    ways = np.zeros((2, len(twists), 9))
    ring_m, ring_mps = np.zeros((2, GRADED_STEPS)), np.zeros((2, GRADED_STEPS))
    for row, steps in enumerate((rules.robot.config.limits.slow_steps, GRADED_STEPS)):
        limits = _limits_of(rules, steps)
        for column, twist in enumerate(twists):
            if limits.reach_m(twist) is None:
                action, most = f"the action of {twist.v_mps:g} m/s and {twist.w_radps:g} rad/s", limits.bounds
                if not most.v_min_mps <= twist.v_mps <= most.v_max_mps or abs(twist.w_radps) > most.w_max_radps:
                    raise InputError(
                        f"the batched world needs limits as wide as the actions: {action} is beyond the robot's, "
                        f"{most.v_min_mps:g} to {most.v_max_mps:g} m/s and {most.w_max_radps:g} rad/s"
                    )
                raise InputError(f"the batched world needs cameras that see where {action} leads")
            found = limits.ways(twist)
            ways[row, column, : len(found)] = found
        for index, ring in enumerate(limits.bounds.slow):
            ring_m[row, index], ring_mps[row, index] = ring.footprint.radius_m, ring.mps
    return ways, ring_m, ring_mps


def _records(row: Any, count: int, align: bool) -> npt.NDArray[np.void]:
    """Return (count,) equal records. A GPU reads aligned records faster; the fast loop's have no such mark."""
    kind = np.dtype([(name, np.float64) for name in row._fields], align=align)
    return np.full(count, np.array(tuple(row), kind), kind)


class Room(NamedTuple):
    """Room for goals, for the values of their distance fields, and for those of their costs to go."""

    goals: int
    values: int
    costs: int


NO_ROOM = Room(0, 0, 0)


class BatchedWorld:
    """Lanes of drives. Every goal must be there before the first `step`; later ones join with `add_goals`."""

    def __init__(
        self, rules: TrainRules, section: BatchedSection, atlas: Atlas, goals: Sequence[GoalChunk], lanes: int,
        seed: int, device: torch.device, room: Room = NO_ROOM,
    ) -> None:  # fmt: skip
        """lanes: number of drives; room: for more goals than `goals` has.

        Raises InputError for a robot that the lanes cannot simulate.
        """
        self.lanes, self.device = lanes, device
        self._rules = rules_of(rules, section)._replace(cell_m=atlas.cell_m)
        self._looks = looks_of(rules)
        self._backend: Any = _Gpu(device) if device.type == "cuda" else _Cores()
        self._count, self._filled, self._priced = 0, 0, 0
        self._site = self._made_site(rules, section, atlas, goals, room)
        self.add_goals(goals)
        self._lanes = Lanes(*(self._backend.put(lane_array) for lane_array in self._lane_arrays(rules, atlas, seed)))
        self._tensors = {name: torch.zeros(lanes, device=device) for name in Views._fields}
        self._tensors["state"] = torch.zeros((lanes, STATE), device=device)
        self._tensors["critic"] = torch.zeros((lanes, CRITIC_VALUES), device=device)
        self._scan = torch.zeros((lanes, BINS), device=device)
        self._labels: torch.Tensor | None = None
        self._views = Views(*(self._backend.view(self._tensors[name]) for name in Views._fields))
        self._codes = torch.arange(1, len(ENDS) + 1, device=device, dtype=torch.float32)
        self._totals = torch.zeros(len(ENDS), device=device, dtype=torch.float64)
        self._paths = torch.zeros(3, device=device, dtype=torch.float64)
        self._backend.start(lanes, self._count, self._lanes, self._rules, self._site, self._views)
        self._cast_scans()

    def _made_site(
        self, rules: TrainRules, section: BatchedSection, atlas: Atlas, goals: Sequence[GoalChunk], room: Room
    ) -> Site:
        setting, put, empty = rules.robot, self._backend.put, self._backend.empty
        twists = [*ACTIONS, Twist(-setting.config.recovery.backward_mps, 0.0)]
        most = len(goals) + room.goals
        self._room = Room(
            most,
            sum(goal.field.size for goal in goals) + room.values,
            sum(goal.priced.size for goal in goals) + room.costs,
        )
        ways, ring_m, ring_mps = _ways_of(rules, twists)
        if not section.limits:
            ways = np.zeros_like(ways)
        return Site(
            gap=put(atlas.gap),
            by_column=put(atlas.by_column),
            by_row=put(atlas.by_row),
            blocked=put(atlas.blocked),
            blocked_gap=put(atlas.blocked_gap),
            goals=empty((most, 2), np.float64),
            windows=empty((most, 5), np.int64),
            fields=empty((self._room.values,), np.uint16),
            starts=empty((most, len(goals[0].starts), 3), np.float64),
            costs=empty((max(1, self._room.costs),), np.uint16),
            cost_windows=empty((most, 5), np.float64),
            twists=put(np.array([(twist.v_mps, twist.w_radps) for twist in twists])),
            ways=put(ways),
            ring_m=put(ring_m),
            ring_mps=put(ring_mps),
            seen=put(looked_at(setting.mounts, setting.config.scan)),
            linear=put(setting.base_plant.linear.as_array()),
            angular=put(setting.base_plant.angular.as_array()),
            fix_noise=put(np.diag(np.square(np.array(setting.config.odometry.localization_sd)))),
        )

    def _lane_arrays(self, rules: TrainRules, atlas: Atlas, seed: int) -> tuple[npt.NDArray[Any], ...]:
        count, gpu = self.lanes, self.device.type == "cuda"
        table = table_of(rules.robot)._replace(grid_x_m=0.0, grid_y_m=0.0, grid_yaw=0.0, cell_m=atlas.cell_m)
        random = np.random.default_rng(seed).integers(2**63, size=count, dtype=np.uint64) * np.uint64(2)
        return (
            _records(TickState(), count, gpu), _records(table, count, gpu), _records(LaneState(), count, gpu),
            np.zeros((count, 5, 5)), np.zeros((count, 16, 5)), np.zeros((count, rules.robot.config.recovery.tries)),
            np.zeros((count, 3)), random,
            np.zeros((count, AXIS_NUMBERS)), np.zeros((count, AXIS_NUMBERS)),
        )  # fmt: skip

    @property
    def goals(self) -> int:
        """Number of goals."""
        return self._count

    def add_goals(self, goals: Sequence[GoalChunk]) -> None:
        """Add goals for the next drives. Those beyond the room are left out."""
        site, put = self._site, self._backend.write
        for goal in goals:
            size, costs = goal.field.size, goal.priced.size
            full = self._filled + size > self._room.values or self._priced + costs > self._room.costs
            if full or self._count >= self._room.goals:
                return
            window = np.array([[goal.row, goal.column, *goal.field.shape, self._filled]], np.int64)
            put(site.fields, self._filled, goal.field.reshape(-1))
            put(site.goals, self._count, np.array([goal.xy_m]))
            put(site.windows, self._count, window)
            put(site.starts, self._count, goal.starts[None])
            put(site.costs, self._priced, goal.priced.reshape(-1))
            put(site.cost_windows, self._count, np.array([[*goal.priced_xy_m, *goal.priced.shape, self._priced]]))
            self._count, self._filled, self._priced = self._count + 1, self._filled + size, self._priced + costs

    def observe(self) -> Observed:
        """Return what the policy sees now in each lane."""
        tensors = self._tensors
        return Observed(self._scan, tensors["state"], tensors["fresh"] > 0.0, tensors["critic"])

    def step(self, actions: torch.Tensor) -> Stepped:
        """Give each lane its action, (n,) int64, and advance it to its next decision."""
        backend, parts = self._backend, (self._lanes, self._rules, self._site)
        backend.set_actions(self.lanes, backend.view(actions), self._lanes)
        looked = False
        for tick in range(1, self._rules.every + 1):
            backend.live(self.lanes, looked, *parts)
            looked = tick in self._looks
            if looked:
                backend.near(self.lanes, *parts)
        backend.finish(self.lanes, self._count, *parts, self._views)
        self._cast_scans()
        tensors = self._tensors
        ended = tensors["ended"]
        done = ended > 0.0
        self._totals += (ended[:, None] == self._codes).sum(0)
        at_goal = (ended == REACHED).to(torch.float64)
        ratio = at_goal * tensors["length_m"] / torch.maximum(tensors["path_m"], tensors["length_m"]).clamp_min(0.1)
        fast = at_goal * (tensors["length_m"] / tensors["spent_s"].clamp_min(0.1))
        self._paths += torch.stack([ratio.sum(), fast.sum(), at_goal.sum()])
        return Stepped(tensors["reward"], done)

    def labels(self) -> torch.Tensor:
        """Return (n, 28) float32: the time to the goal [s] of each action in each lane, as the teacher sees it."""
        if self._labels is None:
            self._labels = torch.zeros((self.lanes, len(ACTIONS)), device=self.device)
        self._backend.label(self.lanes, self._lanes, self._rules, self._site, self._backend.view(self._labels))
        return self._labels

    def stats(self) -> dict[str, float]:
        """Return counts since the last call: drives and their ends; spl; mps: path length over time where reached."""
        totals, paths = self._totals.tolist(), self._paths.tolist()
        self._totals.zero_()
        self._paths.zero_()
        ends = dict(zip(ENDS, totals, strict=True))
        drives = sum(ends.values())
        numbers = {"drives": drives, **{name: value / max(drives, 1.0) for name, value in ends.items()}}
        return {**numbers, "spl": paths[0] / max(drives, 1.0), "mps": paths[1] / max(paths[2], 1.0)}

    def _cast_scans(self) -> None:
        self._backend.cast_scans(self._scan, self._lanes, self._rules, self._site)


# ---- Backends: the same kernels on cores and on a GPU


@kernel(parallel=True)
def _start_all(count: int, goals: int, lanes: Lanes, rules: Rules, site: Site, views: Views) -> None:
    for lane in numba.prange(count):
        kernels.start(lane, goals, lanes, rules, site, views)


@kernel(parallel=True)
def _give_all(count: int, actions: npt.NDArray[np.int64], lanes: Lanes) -> None:
    for lane in numba.prange(count):
        kernels.set_action(lane, actions[lane], lanes)


@kernel(parallel=True)
def _live_all(count: int, looked: bool, lanes: Lanes, rules: Rules, site: Site) -> None:
    for lane in numba.prange(count):
        kernels.live(lane, looked, lanes, rules, site)


@kernel
def _near_lane(lane: int, lanes: Lanes, rules: Rules, site: Site) -> None:
    if lanes.more[lane].asks == 0.0:
        return
    for fan in range(FANS):
        found = sight.near(lane, fan, lanes, rules, site)
        for i in range(len(found)):
            lanes.near[lane, i] = min(lanes.near[lane, i], found[i])


@kernel(parallel=True)
def _near_all(count: int, lanes: Lanes, rules: Rules, site: Site) -> None:
    for lane in numba.prange(count):
        _near_lane(lane, lanes, rules, site)


@kernel(parallel=True)
def _finish_all(count: int, goals: int, lanes: Lanes, rules: Rules, site: Site, views: Views) -> None:
    for lane in numba.prange(count):
        kernels.finish(lane, goals, lanes, rules, site, views)


@kernel(parallel=True)
def _look_all(scan: npt.NDArray[np.float32], lanes: Lanes, rules: Rules, site: Site) -> None:
    for lane in numba.prange(scan.shape[0]):
        for bin in range(scan.shape[1]):
            scan[lane, bin] = sight.seen_value(bin, lane, lanes, rules, site)


@kernel
def _label_lane(lane: int, lanes: Lanes, rules: Rules, site: Site, labels: npt.NDArray[np.float32]) -> None:
    teacher.label(lane, lanes, rules, site, labels[lane])


@kernel(parallel=True)
def _label_all(count: int, lanes: Lanes, rules: Rules, site: Site, labels: npt.NDArray[np.float32]) -> None:
    for lane in numba.prange(count):
        _label_lane(lane, lanes, rules, site, labels)


class _Cores:
    """The kernels on the cores, in numpy's memory."""

    def put(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.ascontiguousarray(array)

    def empty(self, shape: tuple[int, ...], kind: Any) -> npt.NDArray[Any]:
        return np.empty(shape, kind)

    def view(self, tensor: torch.Tensor) -> npt.NDArray[Any]:
        return tensor.detach().numpy()

    def write(self, array: npt.NDArray[Any], at: int, values: npt.NDArray[Any]) -> None:
        array[at : at + len(values)] = values

    def start(self, *arguments: Any) -> None:
        _start_all(*arguments)

    def set_actions(self, *arguments: Any) -> None:
        _give_all(*arguments)

    def live(self, *arguments: Any) -> None:
        _live_all(*arguments)

    def near(self, *arguments: Any) -> None:
        _near_all(*arguments)

    def finish(self, *arguments: Any) -> None:
        _finish_all(*arguments)

    def label(self, *arguments: Any) -> None:
        _label_all(*arguments)

    def cast_scans(self, scan: torch.Tensor, *arguments: Any) -> None:
        _look_all(scan.numpy(), *arguments)


class _Gpu:
    """The kernels on a GPU, through numba-cuda. Launches follow each other in the order of PyTorch's stream."""

    THREADS = 32
    """Lanes of a block: few, so that the lanes spread over all multiprocessors."""

    def __init__(self, device: torch.device) -> None:
        from engines.train.batched.cuda_kernels import CudaKernels

        self._kernels = CudaKernels()

    def put(self, array: npt.NDArray[Any]) -> Any:
        return self._kernels.cuda.to_device(np.ascontiguousarray(array))

    def empty(self, shape: tuple[int, ...], kind: Any) -> Any:
        return self._kernels.cuda.device_array(shape, kind)

    def view(self, tensor: torch.Tensor) -> Any:
        return self._kernels.cuda.as_cuda_array(tensor.detach(), sync=False)

    def write(self, array: Any, at: int, values: npt.NDArray[Any]) -> None:
        if len(values):
            array[at : at + len(values)].copy_to_device(np.ascontiguousarray(values))

    def start(self, count: int, *arguments: Any) -> None:
        self._kernels.start[self._blocks(count)](count, *arguments)

    def set_actions(self, count: int, *arguments: Any) -> None:
        self._kernels.set_actions[self._blocks(count)](count, *arguments)

    def live(self, count: int, *arguments: Any) -> None:
        self._kernels.live[self._blocks(count)](count, *arguments)

    def near(self, count: int, *arguments: Any) -> None:
        self._kernels.near[-(-count * FANS // 128), 128](count, *arguments)

    def finish(self, count: int, *arguments: Any) -> None:
        self._kernels.finish[self._blocks(count)](count, *arguments)

    def label(self, count: int, *arguments: Any) -> None:
        self._kernels.label[self._blocks(count)](count, *arguments)

    def cast_scans(self, scan: torch.Tensor, *arguments: Any) -> None:
        size = scan.numel()
        self._kernels.cast_scans[-(-size // 128), 128](self.view(scan), *arguments)

    def _blocks(self, count: int) -> tuple[int, int]:
        return -(-count // self.THREADS), self.THREADS


def empty_room(cell_m: float, starts: int) -> tuple[Atlas, GoalChunk]:
    """Return an atlas of one empty room of 8 m, and a goal in it: enough to compile the kernels."""
    cells = round(8.0 / cell_m)
    walls = np.zeros((cells, cells), np.bool_)
    walls[[0, -1]] = walls[:, [0, -1]] = True
    gap, masks = chessboard_distance(walls), np.zeros((cells, cells // 64 + 2), np.uint64)
    atlas = Atlas(cell_m, gap, masks, masks.copy(), walls, gap.copy(), np.zeros((1, 2), np.int64))
    field = np.zeros((cells // 2, cells // 2), np.uint16)
    costs = np.zeros((cells // 4, cells // 4), np.uint16)
    return atlas, GoalChunk(0, (4.0, 4.0), 0, 0, field, np.tile([3.0, 3.0, 1.5], (starts, 1)), costs)
