"""The atlas: furnished floors stacked into one grid, and an endless supply of goals on them.

The atlas frame has its origin at the corner of the atlas' cell (0, 0): x = column * cell_m, y = row * cell_m [m]. A
floor keeps the orientation of its own grid, which can be rotated to the map frame. Around every floor there is more
empty space than a scan can reach, so no robot sees another floor.

Worker processes build the floors, and then draw goals on them until they are closed. A worker draws its goals from its
own random stream. So the floors depend on the seeds only, and the order of the goals of one worker on the seed and the
number of workers; only how the goals of several workers mix depends on timing.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import queue
import threading
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from engines.train.drives.places import Building, PlacesSection, draw_drives, make_building
from hil.drive.setting import Setting
from hil.jobs.process_pool import interrupts_ignored
from hil.maps.cell_kernels import chessboard_distance
from hil.physics.contact import solid_between
from hil.physics.free_space import PASSAGE_MARGIN_M
from onboard.policy.dwa.cost_to_go import LETHAL_M, UNREACHED_M, make_prices, price_of, solve
from onboard.policy.dwa.costmap import CELL_M, COARSE
from onboard.policy.dwa.floor import floor_of
from onboard.system.threads import die_with_parent
from onboard.values.errors import ConfigError, InputError, OnboardError
from onboard.values.geometry import apply

if TYPE_CHECKING:
    from engines.train.drives.domain import Rules

PADDING_M = 10.2
"""Least empty space around a floor [m]: more than `hil.sensors.direct_scan.SCAN_RADIUS_M`."""
UNIT_M = 0.002
"""Unit of a goal's distance field [m]."""
UNREACHABLE = 65535
"""Value of a distance field without a path."""
STEP = 2
"""A value of a distance field is the mean of this many cells in both directions."""
PRICED_M, PRICED_CELL_M, PRICED_MARGIN_M = 0.005, COARSE * CELL_M, 1.0
"""Unit of the teacher's cost to go, its cells, and their margin around the distance field [m]."""
RINGS = 2
NOTHING = np.zeros((0, 0), np.uint16)
STARTS = 24
"""Starts of a goal."""
AHEAD = 4
"""Goals that a worker draws ahead of their use."""
CLOSE_S = 10.0
FLOOR_STREAM, GOAL_STREAM = 1, 2
"""Keep the random streams of floors and goals apart. Not 0: numpy takes [seed] and [seed, 0] for the same seed."""
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

Mask = npt.NDArray[np.bool_]
Packed = npt.NDArray[np.uint8]
FloorName = tuple[str, int]
"""Name of the place, and seed of its furniture."""


class Atlas(NamedTuple):
    """All floors in one grid of R rows and C columns, as `cast_sectors` and `circle_overlaps` take them.

    cell_m:      side of a cell [m]
    gap:         (R, C) uint8, chessboard distance to the nearest cell that may be solid [cells]
    by_column:   (C, R // 64 + 2) uint64; by_row: (R, C // 64 + 2) uint64; cells that the scan sees, as `bits_of`
    blocked:     (R, C) bool, `Course.blocked` of each floor; True in the padding
    blocked_gap: (R, C) uint8, chessboard distance to the nearest blocked cell [cells]
    corners:     (floors, 2) int64, row and column of each floor's first cell
    """

    cell_m: float
    gap: npt.NDArray[np.uint8]
    by_column: npt.NDArray[np.uint64]
    by_row: npt.NDArray[np.uint64]
    blocked: Mask
    blocked_gap: npt.NDArray[np.uint8]
    corners: npt.NDArray[np.int64]


class Floor(NamedTuple):
    """What the atlas needs of one floor. Masks are (rows, columns) bool, packed by `np.packbits` without axis.

    number: number of the floor in the plan
    filled: cells that may be solid (gap 0); seen: cells that the scan sees
    blocked: as in `Course`
    """

    number: int
    place: str
    cell_m: float
    shape: tuple[int, int]
    filled: Packed
    seen: Packed
    blocked: Packed


class GoalChunk(NamedTuple):
    """One goal with its distance field and its starts, in the atlas frame.

    floor:  number of the floor in the plan
    xy_m:   x, y of the goal [m]
    row, column: atlas cell of the field's first value
    field:  (rows, columns) uint16, geodesic distance, a mean of 2 x 2 cells [2 mm]; `UNREACHABLE` without a path. The
            value at x, y: [(floor(y / cell_m) - row) // 2, (floor(x / cell_m) - column) // 2]; unreachable outside
    starts: (starts, 3) float64; x, y and geodesic length [m]
    priced: (n, m) uint16, the cost to go with the prices of nearness [`PRICED_M`], on cells of `PRICED_CELL_M` along x
            and y; empty without a teacher
    priced_xy_m: corner of its first cell [m]
    """

    floor: int
    xy_m: tuple[float, float]
    row: int
    column: int
    field: npt.NDArray[np.uint16]
    starts: npt.NDArray[np.float64]
    priced: npt.NDArray[np.uint16] = NOTHING
    priced_xy_m: tuple[float, float] = (0.0, 0.0)


class Plan(NamedTuple):
    """What the workers draw: the floors in order, and goals with `starts` starts each, by seed.

    priced: whether goals have a cost to go for the teacher
    """

    places: PlacesSection
    robot: Setting
    floors: tuple[FloorName, ...]
    seed: int
    starts: int
    priced: bool


# ---- Floors


def plan_floors(maps: Sequence[str], variants: int, seed: int) -> list[FloorName]:
    """Return place and furniture seed of each floor: every map `variants` times, each time in another random order."""
    from engines.train.drives.domain import furniture_seeds

    seeds = furniture_seeds([seed, FLOOR_STREAM], len(maps) * variants)
    orders = np.random.default_rng([seed, FLOOR_STREAM, 1])
    places = [maps[int(index)] for _ in range(variants) for index in orders.permutation(len(maps))]
    return list(zip(places, seeds, strict=True))


def build_floor(plan: Plan, index: int) -> tuple[Building, Floor]:
    """Return a floor of the plan, as a building and as the atlas needs it. Raises InputError as `make_building`."""
    place, seed = plan.floors[index]
    building = make_building(plan.places, place, seed, plan.robot)
    world, course = building.setting.world, building.course
    masks = (
        world.gap == 0,
        solid_between(world.low_m, world.high_m, course.scan.z_min_m, course.scan.z_max_m),
        course.blocked,
    )
    rows, columns = world.gap.shape
    return building, Floor(index, place, world.cell_m, (rows, columns), *(np.packbits(mask) for mask in masks))


def make_atlas(floors: Sequence[Floor]) -> Atlas:
    """Return the atlas of floors, one below another in this order. Raises InputError if their cells differ in size."""
    corners, shape = _layout(floors)
    blocked = _stacked([floor.blocked for floor in floors], floors, corners, np.ones(shape, np.bool_))
    by_column, by_row = _bits(_stacked([one.seen for one in floors], floors, corners, np.zeros(shape, np.bool_)))
    filled = _stacked([floor.filled for floor in floors], floors, corners, np.zeros(shape, np.bool_))
    gap, blocked_gap = chessboard_distance(filled), chessboard_distance(blocked)
    return Atlas(floors[0].cell_m, gap, by_column, by_row, blocked, blocked_gap, corners)


def _layout(floors: Sequence[Floor]) -> tuple[npt.NDArray[np.int64], tuple[int, int]]:
    """Return (floors, 2) row and column of each floor's first cell, and the shape of the atlas [cells]."""
    cell_m = floors[0].cell_m
    for floor in floors:
        if floor.cell_m != cell_m:
            raise InputError(
                f"map {floor.place}: cells of {floor.cell_m:g} m, but those of {floors[0].place} are {cell_m:g} m: "
                "maps that are trained together must have cells of one size"
            )
    padding = math.ceil(PADDING_M / cell_m)
    rows = [floor.shape[0] + padding for floor in floors]
    corners = [(padding + sum(rows[:index]), padding) for index in range(len(floors))]
    widest = max(floor.shape[1] for floor in floors)
    return np.array(corners, np.int64), (padding + sum(rows), widest + 2 * padding)


def _stacked(masks: Sequence[Packed], floors: Sequence[Floor], corners: npt.NDArray[np.int64], into: Mask) -> Mask:
    """Write the packed mask of each floor into an (R, C) mask, and return it."""
    for mask, floor, (row, column) in zip(masks, floors, corners, strict=True):
        rows, columns = floor.shape
        cells = np.unpackbits(mask, count=rows * columns).view(np.bool_)
        into[row : row + rows, column : column + columns] = cells.reshape(rows, columns)
    return into


def _bits(seen: Mask) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Return by_column and by_row of an (R, C) mask, as `hil.sensors.direct_scan_kernels.bits_of`."""
    rows, columns = seen.shape
    down, along = (np.packbits(seen, axis=axis, bitorder="little") for axis in (0, 1))
    return _words(down.T, rows), _words(along, columns)


def _words(packed: Packed, cells: int) -> npt.NDArray[np.uint64]:
    """Return (lines, cells // 64 + 2) words of (lines, bytes) bits of `cells` cells, lowest bit first."""
    words = np.zeros((len(packed), (cells // 64 + 2) * 8), np.uint8)
    words[:, : packed.shape[1]] = packed
    return words.view("<u8").astype(np.uint64, copy=False)


# ---- Goals


def draw_goal(plan: Plan, building: Building, index: int, rng: np.random.Generator) -> GoalChunk:
    """Return a goal on a floor, in the frame of its grid, as if its corner were the atlas' first cell.

    Raises InputError as `draw_drives`.
    """
    section = plan.places.model_copy(update={"sharing": plan.starts})
    drives, world = draw_drives(section, building, rng), building.setting.world
    goal = drives[0][1]
    field, row, column = _field(goal.field_m)
    starts = np.array(
        [(*apply(world.grid_from_map, (drive.start.x_m, drive.start.y_m)), drive.geodesic_m) for drive, _ in drives]
    )
    xy_m = apply(world.grid_from_map, goal.xy_m)
    chunk = GoalChunk(index, xy_m, goal.corner[0] + row, goal.corner[1] + column, field, starts)
    return _priced(chunk, building) if plan.priced else chunk


def _priced(goal: GoalChunk, building: Building) -> GoalChunk:
    """Return a goal with the cost to go on the part of the floor that its distance field covers."""
    world, prices = building.setting.world, make_prices(building.setting.body.half_width_m + PASSAGE_MARGIN_M, CELL_M)
    floor = floor_of(building.course.blocked.T, (0, 0), world.cell_m, prices)
    # Without closed cells a long detour would cost more than a way through the wall.
    at = [np.floor((np.arange(size) + 0.5) * world.cell_m / PRICED_CELL_M).astype(int) for size in world.gap.shape]
    passable = np.zeros(floor.coarse.shape, np.bool_)
    np.logical_or.at(passable, (at[1][None, :], at[0][:, None]), building.space.passable)
    nearness = np.where(passable, floor.coarse, prices.closed).astype(np.int16)
    cost = solve(nearness, prices, floor.corner_xy_m, PRICED_CELL_M, goal.xy_m).cost
    whole = _spread(cost, price_of(LETHAL_M - 1.0) * PRICED_CELL_M)
    rows, columns = goal.field.shape
    low = np.array([goal.column, goal.row]) * world.cell_m - PRICED_MARGIN_M
    high = np.array([goal.column + STEP * columns, goal.row + STEP * rows]) * world.cell_m + PRICED_MARGIN_M
    first = np.maximum(np.floor(low / PRICED_CELL_M).astype(int), 0)
    last = np.ceil(high / PRICED_CELL_M).astype(int)
    part = whole[first[0] : last[0], first[1] : last[1]]
    units = np.minimum(np.rint(part / PRICED_M), UNREACHABLE).astype(np.uint16)
    return goal._replace(priced=units, priced_xy_m=(first[0] * PRICED_CELL_M, first[1] * PRICED_CELL_M))


def _spread(cost: npt.NDArray[np.float32], step_m: float) -> npt.NDArray[np.float32]:
    """Return a cost to go that extends `RINGS` cells into closed ones, at `step_m` a cell: a robot may stand there."""
    for _ in range(RINGS):
        wide = np.pad(cost, 1, constant_values=UNREACHED_M)
        beside = np.minimum.reduce([wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, :-2], wide[1:-1, 2:]])
        cost = np.where(cost < UNREACHED_M, cost, np.minimum(beside + step_m, UNREACHED_M)).astype(np.float32)
    return cost


def _field(field_m: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.uint16], int, int]:
    """Return the means of blocks of a field [2 mm], without unreachable margins, and the cell of the first value."""
    rows, columns = (-(-size // STEP) for size in field_m.shape)
    whole = np.full((rows * STEP, columns * STEP), np.inf)
    whole[: field_m.shape[0], : field_m.shape[1]] = field_m
    blocks = whole.reshape(rows, STEP, columns, STEP)
    count = np.isfinite(blocks).sum(axis=(1, 3))
    reached = count > 0
    sparse = np.where(np.isfinite(blocks), blocks, 0.0).sum(axis=(1, 3)) / np.maximum(count, 1)
    down, along = np.flatnonzero(reached.any(axis=1)), np.flatnonzero(reached.any(axis=0))
    part = np.s_[down[0] : down[-1] + 1, along[0] : along[-1] + 1]
    units = np.where(reached[part], np.rint(sparse[part] / UNIT_M), UNREACHABLE).astype(np.uint16)
    return units, STEP * int(down[0]), STEP * int(along[0])


def _placed(goal: GoalChunk, corner: npt.NDArray[np.int64], cell_m: float) -> GoalChunk:
    """Return a goal of a floor's grid frame in the atlas frame."""
    row, column = int(corner[0]), int(corner[1])
    x_m, y_m = column * cell_m, row * cell_m
    return goal._replace(
        xy_m=(goal.xy_m[0] + x_m, goal.xy_m[1] + y_m),
        row=goal.row + row,
        column=goal.column + column,
        starts=goal.starts + np.array([x_m, y_m, 0.0]),
        priced_xy_m=(goal.priced_xy_m[0] + x_m, goal.priced_xy_m[1] + y_m),
    )


class _Share:
    """The floors of worker `number` of `count`: every count-th of the plan. Its goals are on each floor in turn."""

    def __init__(self, plan: Plan, number: int, count: int) -> None:
        self._plan = plan
        self.indices = range(number, len(plan.floors), count)
        self._buildings: list[tuple[int, Building]] = []
        self._rng = np.random.default_rng([plan.seed, GOAL_STREAM, number])

    def floors(self) -> Iterator[Floor]:
        """Build the floors in order."""
        for index in self.indices:
            building, floor = build_floor(self._plan, index)
            self._buildings.append((index, building))
            yield floor

    def compile(self) -> None:
        """Draw a goal on the first floor and drop it, so that all kernels are compiled and cached."""
        draw_goal(self._plan, self._buildings[0][1], 0, np.random.default_rng(0))

    def goals(self) -> Iterator[GoalChunk]:
        """Draw goals without end, in the frames of the floors' grids."""
        while True:
            for index, building in self._buildings:
                yield draw_goal(self._plan, building, index, self._rng)


# ---- Worker processes


class Generation:
    """Builds the floors of a plan and draws goals on them, in worker processes, or with 0 processes in this one.

    The workers end with the thread that makes this object. Raises ConfigError for drives too long for the fields.
    """

    def __init__(
        self, rules: Rules, floors: Sequence[FloorName], seed: int, processes: int, starts: int = STARTS,
        priced: bool = False,
    ) -> None:  # fmt: skip
        """priced: whether the goals have a cost to go for the teacher."""
        if not floors or starts < 1:
            raise ValueError("at least one floor and one start")
        _check_length(rules.places)
        self._plan = Plan(rules.places, rules.robot, tuple(floors), seed, starts, priced)
        self._floors: dict[int, Floor] = {}
        self._corners: npt.NDArray[np.int64] | None = None
        self._workers: list[_Worker] = []
        self._closed = False
        self._share = _Share(self._plan, 0, 1)
        self._goals = self._share.goals()
        if processes > 0:
            self._start(min(processes, len(floors)))

    def __enter__(self) -> Generation:
        """Return the generation."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the generation."""
        self.close()

    def atlas(self) -> Atlas:
        """Return the atlas, after all floors are built. Raises OnboardError if a worker fails."""
        self._wait_for_floors()
        return make_atlas([self._floors[index] for index in range(len(self._floors))])

    def goals(self, at_least: int | None = None) -> list[GoalChunk]:
        """Return new goals: those that are ready now, or as soon as there are `at_least`.

        The first call waits for all floors. Without processes, exactly `at_least` goals are drawn. Raises OnboardError
        if a worker fails.
        """
        corners, least = self._wait_for_floors(), at_least or 0
        drawn = self._received(least) if self._workers else [next(self._goals) for _ in range(least)]
        return [_placed(goal, corners[goal.floor], self._floors[goal.floor].cell_m) for goal in drawn]

    def close(self) -> None:
        """End the workers. Safe to call twice."""
        self._closed = True
        for worker in self._workers:
            worker.end.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join(CLOSE_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers = []

    def _start(self, count: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._compiled = compiled = context.Event()  # kept: a worker that starts later still has to find it
        with interrupts_ignored(), _one_thread():
            for number in range(count):
                here, there = context.Pipe(duplex=False)
                given = (there, os.getpid(), compiled, self._plan, number, count)
                process = context.Process(target=_work, args=given, daemon=True, name=f"goal worker {number}")
                process.start()
                there.close()
                self._workers.append(_Worker(process, here, len(range(number, len(self._plan.floors), count))))

    def _wait_for_floors(self) -> npt.NDArray[np.int64]:
        """Return (floors, 2) first cells of all floors, once they are built."""
        if self._closed:
            raise OnboardError("the generation of goals is closed")
        if self._corners is None:
            while owing := [worker for worker in self._workers if worker.owed]:
                for worker in _ready(owing, None):
                    self._take_floor(worker)
            if not self._workers:
                self._floors = {floor.number: floor for floor in self._share.floors()}
            self._corners, _ = _layout([self._floors[index] for index in range(len(self._floors))])
        return self._corners

    def _take_floor(self, worker: _Worker) -> None:
        floor = _receive(worker)
        assert isinstance(floor, Floor), "a worker sends its floors first"
        self._floors[floor.number] = floor
        worker.owed -= 1

    def _received(self, least: int) -> list[GoalChunk]:
        """Return the goals that are ready now, and wait until there are `least`."""
        goals: list[GoalChunk] = []
        most = max(least, (AHEAD + 2) * len(self._workers))
        while len(goals) < most:
            ready = _ready(self._workers, None if len(goals) < least else 0.0)
            if not ready:
                break
            for worker in ready:
                goals += _take_goals(worker)
        return goals


class _Worker:
    """A worker process, the pipe from it, the floors that it still owes, and the messages known to follow at once."""

    def __init__(self, process: SpawnProcess, end: Connection, owed: int) -> None:
        self.process, self.end, self.owed, self.following = process, end, owed, 0


def _take_goals(worker: _Worker) -> list[GoalChunk]:
    """Return all goals of a worker that has one ready."""
    goals: list[GoalChunk] = []
    while not goals or worker.following:
        goal = _receive(worker)
        assert isinstance(goal, GoalChunk), "a worker sends only goals after its floors"
        goals.append(goal)
    return goals


def _check_length(section: PlacesSection) -> None:
    most_m = (UNREACHABLE - 1) * UNIT_M
    if section.most_m > most_m:
        raise ConfigError(f"places.most_m: expected {most_m:g} or less, found {section.most_m:g}")


def _ready(workers: Sequence[_Worker], timeout_s: float | None) -> list[_Worker]:
    """Return the workers with a message or at their end; None waits for one."""
    ready = wait([worker.end for worker in workers], timeout_s)
    return [worker for worker in workers if worker.end in ready]


def _receive(worker: _Worker) -> object:
    """Return a message of a worker. Raises OnboardError that names the worker, if it failed or died."""
    try:
        message, worker.following = worker.end.recv()
    except (EOFError, OSError) as error:
        worker.process.join(CLOSE_S)
        code, name = worker.process.exitcode, worker.process.name
        if code is None or code < 0:
            raise OnboardError(f"{name} was killed: most likely the machine ran out of memory") from error
        raise OnboardError(f"{name} ended with exit code {code}, see above") from error
    if isinstance(message, str):
        raise OnboardError(f"{worker.process.name} failed: {message}")
    return message


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """Have processes that are started meanwhile use one thread in numpy. Libraries read this when they are loaded."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _Outbox:
    """Sends messages from a thread of its own, so that a worker draws up to `AHEAD` goals ahead.

    With each message goes the number of messages that wait behind it.
    """

    def __init__(self, end: Connection) -> None:
        self._end, self._gone = end, False
        self._queue: queue.Queue[object] = queue.Queue(AHEAD)
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def put(self, message: object) -> None:
        """Send a message, after at most `AHEAD` others. Raises ConnectionError when nobody reads any more."""
        self._queue.put(message)
        if self._gone:
            raise ConnectionError("the trainer is gone")

    def close(self) -> None:
        """Send what is left."""
        self._queue.put(None)
        self._thread.join()

    def _send_all(self) -> None:
        while (message := self._queue.get()) is not None:
            if not self._gone:
                try:
                    self._end.send((message, self._queue.qsize()))
                except OSError:
                    self._gone = True


def _work(end: Connection, parent: int, compiled: Event, plan: Plan, number: int, count: int) -> None:
    """Build a share of the floors, then draw goals until the trainer ends this process.

    The first worker compiles and caches all kernels before the others begin, since numba's cache takes one writer.
    """
    die_with_parent(parent)
    os.environ["NUMBA_NUM_THREADS"] = "1"
    outbox, share = _Outbox(end), _Share(plan, number, count)
    try:
        if number > 0:
            compiled.wait()
        for floor in share.floors():
            if number == 0 and not compiled.is_set():
                share.compile()  # before the floor is sent: a trainer that waits for it sees this worker fail
                compiled.set()
            outbox.put(floor)
        for goal in share.goals():
            outbox.put(goal)
    except ConnectionError:
        return
    except OnboardError as error:
        outbox.put(str(error))
    finally:
        outbox.close()
