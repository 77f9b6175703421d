"""The comparison of docs/reality-gap.md: its data, and the trainings that make its checkpoints."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from calib.dynamics.identification import identify
from calib.dynamics.motion_log import POSE_COLUMNS, MotionLog, read_logs
from calib.learned.collect import Collected, Collector, Rectangle, empty_room
from calib.learned.compiled_rollouts import Ints
from calib.learned.series import Series, series_of
from hil.physics.collision_world import Body
from hil.physics.motion.hidden_effects import load_hidden_effects
from hil.physics.motion.learned import TRANSFORMS, LearnedModel, learned_of, model_arrays, read_arrays, write_arrays
from hil.recordings.csv_table import read_csv
from onboard.config.plant_model import HIDDEN_EFFECTS, MotionTable, Plant
from onboard.config.toml_file import Positive, Section, checked, read_toml
from onboard.values.errors import InputError

EXPERIMENT_FILE = Path(__file__).parent / "experiment.toml"
CHECKPOINTS = Path(__file__).parent / "checkpoints"
PACKED = ("linear", "angular", "sizes", "weights", "own")
MOST_WORDS = 10
Share = Annotated[float, Field(gt=0.0, lt=1.0)]
Length = Annotated[int, Field(ge=1)]


class HiddenRow(Section):
    """The simulated robot's data. rectangle: x, y of two corners [m]; train, validation: shares of the rows."""

    seconds: Positive
    rectangle: Annotated[list[float], Field(min_length=4, max_length=4)]
    train: Share
    validation: Share
    max_length: Length


class HuskyRow(Section):
    """The Husky's data. train, validation: steps by their number modulo 10; all others are held out."""

    train: list[int]
    validation: list[int]
    window_rows: Length
    max_length: Length


class LossesRow(Section):
    """The comparison of losses (paper 3, Fig. 7), on the simulated robot.

    gap: of the gapped loss [steps]; neighbours: one training with the Chamfer loss for each
    """

    max_length: Length
    gap: Length
    neighbours: list[Length]


class ExperimentTable(Section):
    """The table of experiment.toml. seed: of the drive; seeds: of the trainings"""

    seed: int
    seeds: Annotated[list[int], Field(min_length=1)]
    lengths_trained: list[Length]
    hidden: HiddenRow
    husky: HuskyRow
    losses: LossesRow


def load_experiment(file: Path = EXPERIMENT_FILE) -> ExperimentTable:
    """Return the table of a file. Raises ConfigError naming file, field and limit."""
    with checked(file):
        return ExperimentTable.model_validate(read_toml(file))


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    """Rows of one robot, split. logs: what the plant is identified from; train, validation, test: (spans, 2) rows"""

    name: str
    series: Series
    logs: tuple[MotionLog, ...]
    train: Ints
    validation: Ints
    test: Ints

    @property
    def digest(self) -> str:
        """Return a digest of the rows."""
        parts = (self.series.commands, np.round(self.series.poses, 6), self.train)
        return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def hidden_plant() -> Plant:
    """Return the plant of the simulated "real" robot."""
    effects = load_hidden_effects()
    return Plant(linear=effects.linear, angular=effects.angular, motion=MotionTable(model=HIDDEN_EFFECTS))


def hidden_data(table: ExperimentTable) -> Iterator[float | Data]:
    """Yield the share driven, and finally the data of the simulated robot."""
    row, rectangle = table.hidden, Rectangle(*table.hidden.rectangle)
    collector = Collector(empty_room(rectangle), hidden_plant(), Body(), rectangle, table.seed)
    for one in collector.run(row.seconds):
        if isinstance(one, Collected):
            series = series_of([one.log])
            trained = row.train + row.validation
            spans = [series.spans(a, b) for a, b in ((0.0, row.train), (row.train, trained), (trained, 1.0))]
            yield Data("hidden", series, (until(one.log, trained),), *spans)
        else:
            yield one / row.seconds


def until(log: MotionLog, share: float) -> MotionLog:
    """Return the first rows of a log."""
    count = round(share * len(log.t_s))
    assert log.pose is not None
    return MotionLog(log.name, *(one[:count] for one in (log.t_s, log.v_cmd, log.w_cmd, log.v, log.w, log.pose)))


def husky_data(table: ExperimentTable, folder: Path) -> Data:
    """Return the windows of the Husky's steps. Raises InputError for a folder without them."""
    row = table.husky
    logs = read_logs([folder / "steps.csv"]).logs
    poses = _poses(folder / "poses.csv")
    windows, steps, begun = [], [], 0
    for step, log in enumerate(logs):
        for first in range(0, len(log.t_s) - row.window_rows + 1, row.window_rows):
            rows = slice(first, first + row.window_rows)
            pose = poses[begun + first : begun + first + row.window_rows]
            columns = (log.v_cmd[rows], log.w_cmd[rows], log.v[rows], log.w[rows], pose)
            windows.append(MotionLog(f"{log.name}.{first}", log.t_s[rows] - log.t_s[first], *columns))
            steps.append(step % MOST_WORDS)
        begun += len(log.t_s)
    series = series_of(windows)
    every, group = series.spans(0.0, 1.0), np.array(steps)
    parts = [np.isin(group, row.train), np.isin(group, row.validation)]
    learnt = [*row.train, *row.validation]
    known = tuple(log for step, log in enumerate(logs) if step % MOST_WORDS in learnt)
    return Data("husky", series, known, every[parts[0]], every[parts[1]], every[~(parts[0] | parts[1])])


def _poses(file: Path) -> np.ndarray:
    table = read_csv(file, POSE_COLUMNS)
    return np.column_stack([table.numbers(name) for name in POSE_COLUMNS])


def identified(data: Data) -> Plant:
    """Return the plant that `onboard-calib dynamics` identifies from the rows that are not held out."""
    return identify(data.logs).plant


def pack_file(folder: Path, data: str, seed: int) -> Path:
    """Return the file of all models of a seed."""
    return folder / f"{data}-{seed}.npz"


def model_name(model: str, transform: str, length: int) -> str:
    """Return the name of a model in a pack, and in the tables."""
    return f"{model} {length}" if transform == TRANSFORMS[0] else f"{model}-{transform} {length}"


def read_pack(file: Path) -> tuple[dict[str, Any], dict[str, LearnedModel]]:
    """Return what a pack says of its trainings, and its models by name. Raises InputError."""
    about, arrays = read_arrays(file)
    try:
        said, models = about["trainings"], about["models"]
        found = {
            name: learned_of(file, one, {key: arrays[f"{name}/{key}"] for key in PACKED})
            for name, one in models.items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: not a pack of `onboard-calib learned-gap --train`: no {error}") from error
    return dict(said), found


def write_pack(file: Path, trainings: Mapping[str, Any], models: Mapping[str, LearnedModel]) -> None:
    """Write all models of a seed into one file. Raises InputError."""
    parts = {name: model_arrays(one) for name, one in models.items()}
    arrays = {f"{name}/{key}": value for name, (_, own) in parts.items() for key, value in own.items()}
    about = {"trainings": trainings, "models": {name: one for name, (one, _) in parts.items()}}
    write_arrays(file, about, arrays)


def trained_lengths(table: ExperimentTable, longest: int) -> Sequence[int]:
    """Return the training lengths that are kept; the longest takes the place of all that are longer."""
    return sorted({min(length, longest) for length in table.lengths_trained})


def replace_motion(plant: Plant, motion: MotionTable | None) -> Plant:
    """Return a plant with another motion model."""
    return plant.model_copy(update={"motion": motion})
