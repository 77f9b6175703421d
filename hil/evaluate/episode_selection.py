"""Find the episodes for `--map`: committed sets by name, episode files, the operator's own maps, or folders."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hil.drive.episode_sets import COMMITTED_SET, SETS, NamedSet
from hil.drive.episodes import DENSITY, DRAWS, ORDINARY_DRAW, EpisodeSet, load_episodes, make_set
from hil.jobs.code_digest import file_digest
from hil.maps.load import MESH_SUFFIXES, ROS_SUFFIXES, files_of, load_map, map_names, without_as_is
from hil.maps.made_floor import is_made
from hil.maps.vector_map import MAX_BYTES
from hil.maps.world_grid import World
from hil.physics.collision_world import Body
from hil.physics.free_space import Episode, free_space, shortest_path
from hil.scene.furniture import DENSEST, furnish
from onboard.values.errors import InputError, naming

OWN_SPLIT = "own"
"""Split of a set whose file names no split."""
DRAWN = 25
"""Number of episodes drawn in a map without episodes, if `--episodes` is not given."""
MOST_NOISE_SEEDS = 100
EPISODES_SUFFIX = ".json"
MAP_SUFFIXES = (*ROS_SUFFIXES, EPISODES_SUFFIX, *MESH_SUFFIXES)


@dataclass(frozen=True, slots=True)
class Source:
    """Origin of the episodes of one set. A worker loads the set from it.

    place:     name of a map of a committed set, or path of an episode file; with a seed, name or path of a map
    count:     number of episodes to drive
    digest:    digest of the operator's own files; "" for files of the package
    seed:      seed of furniture, starts and goals in a map without episodes; None for a set with episodes
    drawn:     episodes drawn by that seed
    set:       name of the committed set in `episode_sets.SETS`; "" for the operator's own episodes
    of:        number of episodes in the set, over which the driven episodes are spread; 0 if all are driven
    furniture: density of the furniture placed by that seed; 0 leaves the map as it is
    draw:      rule by which the episodes were drawn, a name in `hil.drive.episodes.DRAWS`; it sets the time limit
    noise_seeds: number of noise seeds with which each episode is driven
    given_limit_s: time limit of a drive instead of the draw's
    """

    name: str
    place: str
    count: int
    digest: str = ""
    seed: int | None = None
    drawn: tuple[Episode, ...] = ()
    set: str = ""
    of: int = 0
    furniture: float = DENSITY
    draw: str = ORDINARY_DRAW
    noise_seeds: int = 1
    given_limit_s: float | None = None

    @property
    def identity(self) -> list[Any]:
        """Return plain values that identify the set: name, count, digest, seed, set; and what is not as usual.

        Not as usual: the density of furniture; then the draw and the number of noise seeds; then the time limit.
        """
        values: list[Any] = [self.name, self.count, self.digest, self.seed, self.set]
        if self.furniture != DENSITY:
            values.append(self.furniture)
        if (self.draw, self.noise_seeds) != (ORDINARY_DRAW, 1):
            values.append({"draw": self.draw, "noise_seeds": self.noise_seeds})
        if self.given_limit_s is not None:
            values.append({"limit_s": self.given_limit_s})
        return values

    @property
    def drives(self) -> int:
        """Number of drives."""
        return self.count * self.noise_seeds

    @property
    def limit_s(self) -> float:
        """Time limit of a drive."""
        return DRAWS[self.draw].limit_s if self.given_limit_s is None else self.given_limit_s

    @property
    def indices(self) -> list[int]:
        """Return the numbers of the episodes to drive."""
        return [number * (self.of or self.count) // self.count for number in range(self.count)]


def given_maps(maps: list[str] | None, more_maps: list[str] | None) -> list[str]:
    """Return all maps that the operator named. Raises InputError for maps without `--map` before them."""
    if more_maps and not maps:
        raise InputError(f"{more_maps[0]}: unexpected argument: put --map before a map")
    return [*(maps or []), *(more_maps or [])]


def find_sets(
    places: Sequence[str],
    episodes: int | None,
    seed: int,
    body: Body,
    set_name: str = COMMITTED_SET,
    furniture: float | None = None,
    draw: str | None = None,
    noise_seeds: int | None = None,
    release: bool = False,
    limit_s: float | None = None,
) -> list[Source]:
    """Return the sets for names, files and folders, without their worlds. No places: all maps of the committed set.

    Loads the operator's own files once, to report an unreachable start or goal before the first drive.
    furniture: density of furniture in maps without episodes; None for the density of committed sets
    draw:      rule for drawing episodes in maps without episodes, a name in `DRAWS`; None for the ordinary draw
    noise_seeds: number of noise seeds with which each episode is driven; None for the number of the draw
    limit_s:   time limit of a drive in maps without episodes, for a slow robot; None for that of the draw
    release:   whether these drives are those for a release, so that a sealed set may be driven
    Raises InputError, also if `set_name` names a set other than `COMMITTED_SET` and that set lacks the map.
    """
    if set_name not in SETS:
        raise InputError(f"--set {set_name}: must be one of {', '.join(SETS)}")
    if episodes is not None and episodes < 1:
        raise InputError(f"--episodes {episodes}: must be at least 1")
    if furniture is not None and not 0.0 <= furniture <= DENSEST:
        raise InputError(f"--furniture {furniture:g}: must be 0 to {DENSEST:g}")
    if draw is not None and draw not in (name for name in DRAWS if name):
        raise InputError(f"--draw {draw}: must be one of {', '.join(name for name in DRAWS if name)}")
    if noise_seeds is not None and not 1 <= noise_seeds <= MOST_NOISE_SEEDS:
        raise InputError(f"--noise-seeds {noise_seeds}: must be 1 to {MOST_NOISE_SEEDS}")
    _check_benchmark(set_name, places, release)
    named = list(places) or SETS[set_name].maps
    sources: dict[str, Source] = {}
    for place in [file for name in named for file in _files_in(name)]:
        density, rule = DENSITY if furniture is None else furniture, draw or ORDINARY_DRAW
        source = _source(place, episodes, seed, body, set_name, density, rule)
        if furniture is not None and source.seed is None:
            raise InputError(f"--furniture {furniture:g}: {place} has its own episodes, with their furniture")
        if draw is not None and source.seed is None:
            raise InputError(
                f"--draw {draw}: {place} has its own episodes; use --draw only for maps without episodes (--map FILE)"
            )
        if limit_s is not None and source.seed is None:
            raise InputError(f"--limit {limit_s:g}: {place} has its own episodes, with their time limit")
        source = replace(source, noise_seeds=noise_seeds or DRAWS[source.draw].noise_seeds, given_limit_s=limit_s)
        if source.name in sources:
            raise InputError(
                f"--map {place}: a set named {source.name} is already selected, {sources[source.name].place}"
            )
        sources[source.name] = source
    return list(sources.values())


def load_set(source: Source) -> EpisodeSet:
    """Return the episodes with their world. Raises InputError, also if a file changed since `find_sets` read it."""
    if source.digest and source.digest != _digest(Path(source.place)):
        raise InputError(f"{source.place}: has changed since the evaluation began")
    if source.seed is None:
        return load_episodes(source.place, SETS[source.set or COMMITTED_SET].folder)
    world = furnish(load_map(source.place), source.seed, source.furniture)
    return EpisodeSet(source.name, source.place, world.name, None, source.seed, world, source.drawn)


def rearranged(source: Source, known: EpisodeSet) -> World:
    """Return the building of a set with its furniture placed by another seed (Office/20-alt of paper 1)."""
    return furnish(load_map(_map_of(Path(source.place), known.map_name)), known.seed + 1, source.furniture)


def floor_plan(source: Source, known: EpisodeSet) -> World:
    """Return the building of a set without furniture."""
    return load_map(_map_of(Path(source.place), known.map_name))


def _files_in(place: str) -> list[str]:
    folder = Path(place)
    if not folder.is_dir():
        return [place]
    files = [file for file in sorted(folder.iterdir()) if file.suffix in MAP_SUFFIXES]
    if not files:
        raise InputError(f"--map {place}: the folder holds no map and no episode file ({', '.join(MAP_SUFFIXES)})")
    return [str(file) for file in files]


def _check_benchmark(set_name: str, places: Sequence[str], release: bool) -> None:
    """Raise InputError if a set is sealed, a benchmark's files changed, or a place is no map of the benchmark."""
    chosen = SETS[set_name]
    if chosen.sealed and not release:
        raise InputError(f"--set {set_name}: sealed: driven only for a release, with --release; see docs/evaluation.md")
    chosen.check(set_name)
    strangers = [place for place in places if chosen.digest and place not in chosen.maps]
    if strangers:
        raise InputError(
            f"--map {strangers[0]}: not the benchmark {set_name}, which has {', '.join(chosen.maps)}; "
            f"to draw episodes in your own map, use --draw {chosen.draw} without --set"
        )


def _source(
    place: str, episodes: int | None, seed: int, body: Body, set_name: str, density: float, draw: str
) -> Source:
    path, chosen = Path(place), SETS[set_name]
    if path.suffix == "" and path.name in chosen.maps:
        return _some(_committed(path.name, set_name, chosen), episodes)
    if path.suffix == "":
        if set_name != COMMITTED_SET:
            raise InputError(f"--map {place}: not in the set {set_name}, which has {', '.join(chosen.maps)}")
        if path.name not in map_names() and not is_made(path.name):
            known = ", ".join([*map_names(), "made-SEED"])
            raise InputError(f"--map {place}: no such file or folder, and no map, which are {known}")
        return _drawn(Source(path.name, path.name, episodes or DRAWN, seed=seed, furniture=density, draw=draw), body)
    path = path.resolve()
    digest, listed = _digest(path), _episodes_in(path)
    if not listed:
        return _drawn(Source(path.stem, str(path), episodes or DRAWN, digest, seed, furniture=density, draw=draw), body)
    source = _some(Source(path.stem, str(path), len(listed), digest), episodes)
    _check_reachable(load_set(source), source, body)
    return source


def _committed(map_name: str, set_name: str, chosen: NamedSet) -> Source:
    rows = _episodes_in(chosen.folder / f"{map_name}{EPISODES_SUFFIX}")
    return Source(map_name, map_name, len(rows), set=set_name, draw=chosen.draw)


def _some(source: Source, episodes: int | None) -> Source:
    if episodes is None:
        return source
    if episodes > source.count:
        raise InputError(f"--episodes {episodes}: the set {source.name} has {source.count}")
    return replace(source, count=episodes, of=source.count)


def _drawn(source: Source, body: Body) -> Source:
    made = make_set(source.place, source.seed or 0, source.count, body, density=source.furniture, draw=source.draw)
    return replace(source, drawn=made.episodes)


def _episodes_in(file: Path) -> list[Any]:
    """Return the rows of an episode file; [] for a map (a JSON map file is a list). Raises InputError."""
    if file.suffix != EPISODES_SUFFIX:
        return []
    try:
        table = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not valid JSON: {error}") from error
    if not isinstance(table, dict):
        return []
    rows = table.get("episodes")
    if not isinstance(rows, list) or not rows:
        raise InputError(f"{file}: holds no episodes")
    return rows


def _digest(file: Path) -> str:
    """Return a digest of a file and of the existing files that it names. Raises InputError."""
    with naming(file):
        if file.suffix == EPISODES_SUFFIX and file.stat().st_size > MAX_BYTES:
            raise InputError(f"{file}: {file.stat().st_size} bytes, the limit is {MAX_BYTES}")
        first, *named = files_of(file)
        return "-".join([file_digest(first), *(file_digest(one) for one in named if one.is_file())])


def _map_of(place: Path, map_name: str) -> str | Path:
    beside = place.parent / map_name
    return beside if beside.suffix and without_as_is(beside).exists() else map_name


def _check_reachable(known: EpisodeSet, source: Source, body: Body) -> None:
    """Raise InputError for the first episode without a path from start to goal, or without a positive geodesic_m."""
    space = free_space(known.world, body)
    for index in source.indices:
        episode = known.episodes[index]
        try:
            way = shortest_path(space, (episode.start.x_m, episode.start.y_m), episode.goal_xy_m)
        except InputError as error:
            raise InputError(f"{source.place}: episode {index}: {error}") from error
        if way is None:
            raise InputError(f"{source.place}: episode {index}: there is no path from its start to its goal")
        if episode.geodesic_m <= 0.0:
            raise InputError(f"{source.place}: episode {index}: geodesic_m {episode.geodesic_m} must be positive")
