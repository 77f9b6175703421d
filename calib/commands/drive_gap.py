"""The command `onboard-calib drive-gap`.

It shows which of the simulators says what happens. "Real" is the base with hidden effects. The policy assumes the
identified plant in every world.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress

from calib.learned.compiled_rollouts import Floats
from calib.learned.experiment import (
    CHECKPOINTS,
    EXPERIMENT_FILE,
    hidden_plant,
    load_experiment,
    pack_file,
    read_pack,
    replace_motion,
    trained_lengths,
)
from hil.drive.episodes import EpisodeSet, load_episodes
from hil.drive.fast.drive import drive_fast
from hil.drive.setting import Outcome, Setting, goal_tick
from hil.evaluate.baselines.registry import make_policy
from hil.evaluate.metrics import Interval, bootstrap, wilson
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode
from hil.physics.kernel_effects import action_of, period_ticks
from hil.physics.motion.learned import model_arrays, write_arrays
from hil.physics.state_kernels.generate import generate
from hil.physics.state_kernels.kernel_set import KernelSet
from hil.physics.state_kernels.state_table import StateTable, load_state_table
from hil.physics.state_kernels.transitions import Log, joined
from hil.reality_gap.report import check_page, put_section
from onboard.commands.cli import STANDARD_OUTPUT, JsonOption, check_json_target, markdown_table, write_json
from onboard.config.config import DEFAULT_ROBOT, Config
from onboard.config.mounts import load_mounts
from onboard.config.plant_model import MotionTable, Plant, load_plant
from onboard.policy.contract import twist_of
from onboard.values.errors import InputError
from onboard.values.interfaces import Policy
from onboard.values.messages import Decision, Memory, Observation, Twist

NAME = "drives"
LOG_SEEDS = 2
WORLD_NAMES = {
    "real": "hidden effects",
    "plain": "the default robot's plant",
    "identified": "the identified plant",
    "learned": "hybrid-dynamic 4096",
    "kernels": "plain, under kernels",
    "both": "learned, under kernels",
}


def drive_gap(
    map_name: Annotated[str, typer.Option("--map", help="Map with committed episodes.")] = "gdc1",
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of the map.")] = 8,
    seeds: Annotated[int, typer.Option(min=1, help="Drives of each episode in each world.")] = 3,
    checkpoints: Annotated[
        Path, typer.Option(help="Folder of the checkpoints.", show_default="those of the package")
    ] = CHECKPOINTS,
    json_file: JsonOption = None,
    report: Annotated[
        Path | None, typer.Option("--report", metavar="FILE.md", help="Put the table into this page.")
    ] = None,
) -> None:
    """Drive `reactive` in a "real" office and in five simulators of it, and compare their results."""
    check_json_target(json_file)
    if report is not None:
        check_page(report, NAME)
    table = load_experiment(EXPERIMENT_FILE)
    length = trained_lengths(table, table.hidden.max_length)[-1]
    office = Office(map_name, episodes, checkpoints, length)
    gaps: dict[str, Gap] = {}
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("drives", total=episodes * (3 * LOG_SEEDS + len(WORLDS) * seeds))
        for word in office.learn_kernels(LOG_SEEDS):
            progress.update(task, advance=1, description=word)
        for one in office.compare(seeds):
            if isinstance(one, dict):
                gaps = one
            else:
                progress.update(task, advance=1, description=one)
    write_json(json_file, {world: asdict(gap) for world, gap in gaps.items()})
    text = gap_table(gaps)
    if report is not None:
        command = f"onboard-calib drive-gap --map {map_name} --episodes {episodes} --seeds {seeds}"
        head = f"`{command}`: {episodes * seeds} drives in each world; brackets hold 95 % intervals."
        put_section(report, NAME, f"{head}\n\n{text}", {})
    (sys.stderr if json_file == STANDARD_OUTPUT else sys.stdout).write(f"{text}\n")


def gap_table(gaps: dict[str, Gap]) -> str:
    """Return the figures of all worlds, and their distance from the real one, as a table."""
    real = gaps[REAL]
    rows = []
    for world, gap in gaps.items():
        differences = ("", "", "")
        if world != REAL:
            differences = (
                f"{100 * abs(gap.success - real.success):.0f}",
                f"{100 * abs(gap.spl - real.spl):.1f}",
                f"{gap.path_m:.2f} ({gap.path_interval[0]:.2f} to {gap.path_interval[1]:.2f})",
            )
        rows.append((
            world, WORLD_NAMES[world],
            f"{100 * gap.success:.0f} ({100 * gap.success_interval[0]:.0f} to {100 * gap.success_interval[1]:.0f})",
            f"{100 * gap.spl:.1f} ({100 * gap.spl_interval[0]:.1f} to {100 * gap.spl_interval[1]:.1f})",
            f"{gap.contacts:.2f} ({gap.contacts_interval[0]:.2f} to {gap.contacts_interval[1]:.2f})",
            *differences,
        ))  # fmt: skip
    headings = ("world", "base", "SR [%]", "SPL [%]", "contacts a drive", "SR apart", "SPL apart", "paths apart [m]")
    return markdown_table(headings, rows, words=2)


REAL, PLAIN, IDENTIFIED, LEARNED, KERNELS, BOTH = WORLDS = (
    "real", "plain", "identified", "learned", "kernels", "both",
)  # fmt: skip
ROBOT_TABLE = Path(__file__).parents[2] / "hil" / "physics" / "state_kernels" / "robot.toml"
MODEL, LEARNED_SEED = "hybrid-dynamic", 1
FIRST_LOG_SEED = 1000
"""Seeds of the drives from which kernels are made; the judged drives have others."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One drive of one episode. positions_m: (ticks, 2); log: its transitions for kernels"""

    reached: bool
    contacts: int
    spl: float
    positions_m: Floats
    log: Log


@dataclass(frozen=True, slots=True)
class Gap:
    """What a world says, and how far from the real one.

    success, spl, contacts: means over drives; success_interval, spl_interval, contacts_interval: 95 %
    path_m: mean distance of the paths from those of the real world with the same episode and seed [m]
    """

    success: float
    success_interval: Interval
    spl: float
    spl_interval: Interval
    contacts: float
    contacts_interval: Interval
    path_m: float
    path_interval: Interval


class RecordingPolicy:
    """A policy that notes what it decided. decided: velocity pairs, oldest first"""

    def __init__(self, inner: Policy) -> None:
        self._inner = inner
        self.name, self.memory_reset_s = inner.name, inner.memory_reset_s
        self.decided: list[Twist] = []

    def initial_memory(self) -> Memory:
        """Return the memory of the inner policy."""
        return self._inner.initial_memory()

    def decide(self, observation: Observation, memory: Memory) -> tuple[Decision, Memory]:
        """Return the decision of the inner policy, and note it."""
        decision, after = self._inner.decide(observation, memory)
        self.decided.append(twist_of(decision))
        return decision, after

    def close(self) -> None:
        """Close the inner policy."""
        self._inner.close()


class Office:
    """A furnished building with its episodes, and the worlds in it."""

    def __init__(self, name: str, episodes: int, checkpoints: Path, length: int) -> None:
        """Raises InputError or ConfigError for a map, plant or model that cannot be read."""
        self._set: EpisodeSet = load_episodes(name)
        self._episodes: Sequence[Episode] = self._set.episodes[:episodes]
        config = Config()
        identified = load_plant(checkpoints / "hidden-plant.toml")
        _, models = read_pack(pack_file(checkpoints, "hidden", LEARNED_SEED))
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "learned.npz"
        write_arrays(file, *model_arrays(models[f"{MODEL} {length}"]))
        learned = replace_motion(identified, MotionTable.model_validate({"model": MODEL, "file": str(file)}))
        mounts = load_mounts(config.robot.mounts)
        self._setting = Setting(self._set.world, identified, Body(), mounts, config)
        self._plants: dict[str, Plant] = {
            REAL: hidden_plant(), PLAIN: load_plant(DEFAULT_ROBOT / "plant.toml"), IDENTIFIED: identified,
            LEARNED: learned,
        }  # fmt: skip
        self._table = load_state_table(ROBOT_TABLE)
        self._kernels: dict[str, KernelSet] = {}

    def learn_kernels(self, seeds: int) -> Iterator[str]:
        """Make kernels against the plain plant and against the learned one; yield a word at each drive."""
        logs: dict[str, Log] = {}
        for world in (REAL, PLAIN, LEARNED):
            parts = []
            for seed in range(FIRST_LOG_SEED, FIRST_LOG_SEED + seeds):
                for episode in self._episodes:
                    parts.append(self.drive(world, episode, seed).log)
                    yield f"logs {world}"
            logs[world] = joined(parts)
        for name, simulated in ((KERNELS, PLAIN), (BOTH, LEARNED)):
            with contextlib.suppress(InputError):  # nothing diverges by more than chance: the world has no kernel
                self._kernels[name] = generate(logs[simulated], logs[REAL], self._table).kernels

    def drive(self, world: str, episode: Episode, seed: int) -> Trial:
        """Return a drive of `reactive` in a world."""
        plant = self._plants[{KERNELS: PLAIN, BOTH: LEARNED}.get(world, world)]
        setting = replace(self._setting, true_plant=plant, kernels=self._kernels.get(world))
        policy = RecordingPolicy(make_policy("reactive", setting, episode))
        outcome = drive_fast(setting, episode, policy, seed)
        spl = outcome.reached * episode.geodesic_m / max(episode.geodesic_m, outcome.path_m)
        log = _transitions(outcome, policy.decided, self._table, self._setting.config)
        return Trial(outcome.reached, outcome.contacts, float(spl), outcome.trace[:, 1:3], log)

    def compare(self, seeds: int) -> Iterator[str | dict[str, Gap]]:
        """Drive each episode with each seed in each world; yield a word at each drive, and finally the gaps."""
        trials: dict[str, list[Trial]] = {}
        for world in WORLDS:
            trials[world] = []
            for seed in range(1, seeds + 1):
                for episode in self._episodes:
                    trials[world].append(self.drive(world, episode, seed))
                    yield world
        yield {world: gap_of(trials[world], trials[REAL]) for world in WORLDS}


def gap_of(trials: Sequence[Trial], real: Sequence[Trial]) -> Gap:
    """Return the figures of a world and those of the real one. Both have the same episodes and seeds in order."""
    success = np.array([float(trial.reached) for trial in trials])
    spl, contacts = np.array([trial.spl for trial in trials]), np.array([float(trial.contacts) for trial in trials])
    away = np.array([_distance_m(trial, other) for trial, other in zip(trials, real, strict=True)])

    def interval(values: Floats) -> Interval:
        return bootstrap(lambda drawn: drawn[0].mean(axis=1), [values], 0) or (np.nan, np.nan)

    return Gap(
        float(success.mean()), wilson(float(success.sum()), len(success)) or (0.0, 1.0),
        float(spl.mean()), interval(spl), float(contacts.mean()), interval(contacts),
        float(away.mean()), interval(away),
    )  # fmt: skip


def _distance_m(one: Trial, other: Trial) -> float:
    ticks = min(len(one.positions_m), len(other.positions_m))
    return float(np.mean(np.linalg.norm(one.positions_m[:ticks] - other.positions_m[:ticks], axis=1)))


def _transitions(outcome: Outcome, decided: Sequence[Twist], table: StateTable, config: Config) -> Log:
    """Return the transitions of a drive: the state when an action begins to act, and one period later."""
    assert table.action is not None
    rates, period = config.rates, period_ticks(table)
    begins = -goal_tick(rates.ticks_per_decision) % rates.ticks_per_decision + rates.delay_ticks
    rows = begins + period * np.arange(len(decided) + 1)
    rows = rows[rows < len(outcome.trace)]
    columns = {"x_m": 1, "y_m": 2, "yaw_rad": 3, "v_mps": 4, "w_radps": 5}
    states = outcome.trace[rows][:, [columns[name] for name in table.names]]
    count = max(len(rows) - 1, 0)
    actions = np.array([action_of(table.action, one) for one in decided[:count]], np.int64)
    return Log(states[:count], actions, np.zeros(count), states[1:], np.zeros(count, np.int64))
