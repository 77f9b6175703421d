"""A short recorded drive, and the ticks that it is of, for comparing what readers make of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from onboard.state import TickRecord
from onboard.values.clock import NS_PER_S
from onboard.values.messages import ColorFrame, Inputs, Pose, Twist
from tests.rigs.runtime_bench import LEFT, Bench, Puppet, Tape

WALL_NS = 1_790_000_000 * NS_PER_S
FIX, GOAL = Pose(1.0, 2.0, 0.5), Pose(3.0, 4.0, 0.0)
FAR_MM = 3000
COLOR = (np.arange(144 * 256 * 3) % 251).astype(np.uint8).reshape(144, 256, 3)


@dataclass(frozen=True)
class Recorded:
    """A recording, and the ticks that it is of."""

    path: Path
    ticks: list[TickRecord]

    @property
    def times_ns(self) -> list[int]:
        """When the ticks were, in wall time."""
        return [wall_ns(tick) for tick in self.ticks]


def wall_ns(tick: TickRecord) -> int:
    """Return when a tick was, as its recording dates it."""
    return WALL_NS - NS_PER_S + tick.slot.start_ns


def record_drive(
    folder: Path, ticks: int = 90, session: Mapping[str, str] = MappingProxyType({}), **sections: Any
) -> Recorded:
    """Record an eventful drive: a fix, a goal in the map, walls in view, an operator, an e-stop at the end."""
    config = Bench(**sections).config
    given = {"robot": "robot", "configuration": config.model_dump_json(), "mounts": config.robot.mounts.read_text()}
    tape = Tape(folder, config, session={**given, **session}, wall_ns=WALL_NS)
    bench = Bench(Puppet(LEFT), listeners=[tape], **sections)
    bench.alter = _with_color
    bench.wall("front", FAR_MM)
    bench.tick(5)
    bench.fix(FIX)
    bench.tick(5)
    bench.ask(GOAL.x_m, GOAL.y_m, "map")
    bench.tick(ticks - 30)
    bench.operate(Twist(0.1, 0.2))
    bench.tick(15)
    bench.e_stop = True
    bench.tick(5)
    return Recorded(tape.close(), tape.ticks)


def _with_color(inputs: Inputs) -> Inputs:
    return replace(inputs, color=ColorFrame(inputs.now_ns % 1000, inputs.now_ns, COLOR))
