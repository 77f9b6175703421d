"""The command `onboard-hil upper-bound`: how often an ideal pose estimate is within 0.2 m at the end of a drive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.progress import track
from rich.table import Table

from hil.commands.judge.evaluate import (
    WIDTH,
    EpisodesOption,
    MapsOption,
    MoreMapsArgument,
    SeedOption,
    SetOption,
    load_robot,
)
from hil.drive.episode_sets import COMMITTED_SET
from hil.drive.setting import REACHED_M, Setting
from hil.evaluate.campaign import noise_seed
from hil.evaluate.episode import RobotFiles
from hil.evaluate.episode_selection import Source, find_sets, given_maps, load_set
from hil.evaluate.metrics import Interval
from hil.evaluate.upper_bound.upper_bound import CASES, Ceiling, EndErrors, Ends, ceiling_of, ends_as_json, ends_of
from hil.jobs.code_digest import code_digest
from onboard import __version__
from onboard.commands.cli import STANDARD_OUTPUT, ConfigOption, JsonOption, check_json_target, write_json
from onboard.values.errors import InputError

MADE_BY = "onboard-hil upper-bound"
DRAWS = 4


def upper_bound(
    maps: MapsOption = None,
    more_maps: MoreMapsArgument = None,
    set_name: SetOption = COMMITTED_SET,
    episodes: EpisodesOption = None,
    draws: Annotated[int, typer.Option("--draws", help="Number of noise draws for each episode.")] = DRAWS,
    seed: SeedOption = 1,
    config: ConfigOption = None,
    json_file: JsonOption = None,
) -> None:
    """Print how often an ideal estimator of the pose is within 0.2 m at the end of the planner's drives."""
    check_json_target(json_file)
    if draws < 1:
        raise InputError(f"--draws {draws}: must be at least 1")
    robot = load_robot(config)
    sources = find_sets(given_maps(maps, more_maps), episodes, seed, robot.body, set_name)
    result = _result_of(sources, draws, seed)  # takes the digest of the code before the first drive
    ends = _ends(robot, sources, draws, seed)
    ceilings = {name: ceiling_of(list(end.values())) for name, end in ends.items()}
    if json_file is not None:
        write_json(json_file, result | _as_json(ceilings, ends, sources))
    console = Console(stderr=json_file == STANDARD_OUTPUT)
    if not console.is_terminal:
        console = Console(stderr=json_file == STANDARD_OUTPUT, width=WIDTH)
    console.print(_table(ceilings, sum(source.count for source in sources), draws))


def _ends(robot: RobotFiles, sources: Sequence[Source], draws: int, seed: int) -> dict[str, Ends]:
    """Return the errors of all drives by condition and episode."""
    ends: dict[str, dict[tuple[str, int], list[EndErrors]]] = {name: {} for name in CASES}
    for source in sources:
        known = load_set(source)
        setting = Setting(known.world, robot.plant, robot.body, robot.mounts, robot.config)
        numbers = track(source.indices, f"{source.name:10}", console=Console(stderr=True))
        for index in numbers:
            seeds = [noise_seed(seed, f"ceiling/{source.name}/{index}", draw) for draw in range(draws)]
            for name, ended in ends_of(setting, known.episodes[index], CASES, seeds):
                ends[name][source.name, index] = ended
    return dict(ends)


def _result_of(sources: Sequence[Source], draws: int, seed: int) -> dict[str, Any]:
    """Return version, digest of the code, sets, episodes, draws and seed as plain values."""
    return {
        "made_by": MADE_BY,
        "version": __version__,
        "code": code_digest(),
        "within_m": REACHED_M,
        "sets": [source.identity for source in sources],
        "episodes": {source.name: source.indices for source in sources},
        "draws": draws,
        "seed": seed,
    }


def _as_json(ceilings: Mapping[str, Ceiling], ends: Mapping[str, Ends], sources: Sequence[Source]) -> dict[str, Any]:
    return {
        "conditions": {name: asdict(ceiling) for name, ceiling in ceilings.items()},
        "ends": {name: ends_as_json(end, sources) for name, end in ends.items()},
    }


def _table(ceilings: Mapping[str, Ceiling], episodes: int, draws: int) -> Table:
    caption = (
        f"{episodes} episodes, {draws} draws of the noise each, along the planner's drives with perfect senses\n"
        "in brackets 95 %; cm: median error; next fix: the ideal one for who turns on the spot until a fix comes"
    )
    table = Table(title=f"within {REACHED_M} m at the end", caption=caption, box=SIMPLE, pad_edge=False)
    table.add_column("condition", no_wrap=True)
    for heading in ("ideal %", "cm", "next fix %", "own filter %", "cm"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, ceiling in ceilings.items():
        figures = [
            _percent(ceiling.ideal, ceiling.ideal_ci95),
            _cm(ceiling.ideal_median_m),
            _percent(ceiling.waited, ceiling.waited_ci95),
        ]
        figures += [_percent(ceiling.own, ceiling.own_ci95), _cm(ceiling.own_median_m)]
        table.add_row(name, *figures)
    return table


def _percent(share: float, interval: Interval | None) -> str:
    """Return a share in per cent, followed by its 95 % interval if there is an interval."""
    text = f"{100.0 * share:.1f}"
    return text if interval is None else f"{text} ({100.0 * interval[0]:.1f} to {100.0 * interval[1]:.1f})"


def _cm(metres: float) -> str:
    return f"{100.0 * metres:.1f}"
