"""One session as arrays: observations, wanted commands and sent commands of every tick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from onboard.config.config import Config
from onboard.config.mounts import Mounts
from onboard.values.messages import GoalRequest

MOST_CHARACTERS = 300
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Ranges = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Timeline:
    """A session in columns, one row for each of its n ticks; NaN means absent.

    files, session, config, mounts: recorded files, and the record, configuration and mounts in them
    sessions:     names of all sessions in these files, including this session
    began_ns:     begin of the first tick, monotonic [ns]
    t_s:          start of a tick since the first tick [s]; late_ms: delay after its deadline [ms]
    missed:       slots skipped before it; slot: its number in the grid of ticks
    odometry:     (n, 5) x, y, yaw, v, w in the odom frame [m, rad, m/s, rad/s]
    map_from_odom: (n, 3) of the odom frame in the map frame
    wanted, command: (n, 2) v, w [m/s, rad/s]
    reason, state, recovery: text of each tick
    e_stop, obstacle: -1 not heard yet, 0, 1
    goal_distance_m: distance to the goal [m]
    sensed, acted, action: as in `tick_types.TickMessage`
    decision_ms:  time of the policy, where a decision was due; delay_ms: from sensing to the command on the wire
    stages, stage_ms: names, (n, stages) [ms]
    cameras:      whether the tick has a frame, by camera
    scans:        (n, 180) the policy's scan [m]; inf: nothing seen, NaN: no camera looks
    resets, faults, events, goals: by row, only of ticks that have any
    """

    files: tuple[Path, ...]
    session: Mapping[str, str]
    config: Config
    mounts: Mounts
    sessions: tuple[str, ...]
    began_ns: int
    t_s: Floats
    late_ms: Floats
    slot: Ints
    missed: Ints
    odometry: Floats
    map_from_odom: Floats
    wanted: Floats
    command: Floats
    reason: Sequence[str]
    state: Sequence[str]
    recovery: Sequence[str]
    e_stop: Ints
    obstacle: Ints
    episode: Ints
    goal_distance_m: Floats
    sensed: Ints
    acted: Ints
    action: Ints
    decision_ms: Floats
    delay_ms: Floats
    stages: tuple[str, ...]
    stage_ms: Floats
    cameras: Mapping[str, Flags]
    scans: Ranges
    resets: Mapping[int, str]
    faults: Mapping[int, str]
    events: Mapping[int, Sequence[str]]
    goals: Mapping[int, Sequence[GoalRequest]]

    @property
    def ticks(self) -> int:
        """Number of ticks."""
        return len(self.t_s)

    @property
    def period_s(self) -> float:
        """Configured period of the ticks [s]."""
        return 1.0 / self.config.rates.control_hz

    @property
    def took_ms(self) -> Floats:
        """Total time of the stages of each tick, without its wait for its time and what follows it [ms]."""
        works = [name not in ("hold", "tell") for name in self.stages]
        return np.asarray(np.nansum(self.stage_ms[:, works], axis=1))

    @property
    def gap(self) -> Flags:
        """(n,) whether the recording lacks ticks before this tick."""
        gap = np.zeros(self.ticks, bool)
        gap[1:] = np.diff(self.slot) > 1 + self.missed[1:]
        return gap

    def end_s(self, row: int) -> float:
        """Return the end of a tick: the start of the next tick, or one period after the last tick."""
        return float(self.t_s[row + 1] if row + 1 < self.ticks else self.t_s[row] + self.period_s)


def shown(text: str) -> str:
    """Return a recorded text on one line, without control characters, at most MOST_CHARACTERS long."""
    line = "".join(one if one.isprintable() else " " for one in text[: MOST_CHARACTERS + 1])
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"
