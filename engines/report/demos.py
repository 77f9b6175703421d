"""Drives of the whole robot in real time, as `onboard-hil demo --json RESULTS/demos/MAP-SEED.json` tells them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from engines.report.gathered import DEMOS, Gathered
from engines.report.markdown import table
from engines.report.shapes import shaped
from engines.report.told import Part, lacks
from onboard.errors import InputError

HEADINGS = (
    "map", "seeds", "reached without contact", "decisions", "a decision, median ms", "99 % of them below ms",
    "deadlines missed", "slots missed",
)  # fmt: skip
NOTE = """
Processes of their own, DDS between them, rendered cameras with the noise of real ones, the runtime in real time: the
robot's whole way. The network runs on onnxruntime here. Times are the least and the largest of the drives'.
"""


class Demo(NamedTuple):
    """One drive. median_ms, most_ms: of what a decision took, its median and 99th percentile."""

    map: str
    seed: int
    policy: str
    good: bool
    decisions: int
    median_ms: float
    most_ms: float
    late: int
    missed: int


def demonstrations(found: Gathered) -> Part:
    """Return how many drives of each map reached the goal without contact, and how long decisions took."""
    demos = demos_of(found)
    rows = [_row(name, list(of_map)) for name, of_map in itertools.groupby(demos, lambda demo: demo.map)]
    text = table(HEADINGS, rows, words=2) + NOTE
    return Part("demos", "In real time", text, [demo._asdict() for demo in demos], lacks(rows, f"{DEMOS}/*.json"))


def demos_of(found: Gathered) -> list[Demo]:
    """Return the drives, by map and seed. Raises InputError for a file that is none, and for those of two policies."""
    demos = []
    for name, told in found.demos.items():
        file = found.folder / DEMOS / name
        with shaped(file, "not the result of onboard-hil demo, named MAP-SEED.json"):
            demos.append(_demo(file.stem, told))
            if demos[-1].policy != demos[0].policy:
                raise InputError(
                    f"{file}: by {demos[-1].policy}, others by {demos[0].policy}: {DEMOS}/ is of one policy"
                )
    return sorted(demos)


def _demo(stem: str, told: dict[str, Any]) -> Demo:
    place, seed = stem.rsplit("-", 1)
    good = told["reached"] and not told["contacts"]
    times = told["decision_ms"]
    late, missed = told["deadline_misses"], told["missed_slots"]
    return Demo(
        place, int(seed), str(told["policy"]), good, told["decisions"], times["p50"], times["p99"], late, missed
    )


def _row(name: str, demos: Sequence[Demo]) -> list[str]:
    seeds = ", ".join(str(demo.seed) for demo in demos)
    total = [
        sum(part) for part in zip(*((demo.good, demo.decisions, demo.late, demo.missed) for demo in demos), strict=True)
    ]
    good, decisions, late, missed = (f"{part:,}" for part in total)
    times = _between(demo.median_ms for demo in demos), _between(demo.most_ms for demo in demos)
    return [name, seeds, f"{good} of {len(demos)}", decisions, *times, late, missed]


def _between(values: Iterable[float]) -> str:
    known = sorted(values)
    return f"{known[0]:.0f} to {known[-1]:.0f}"


def demo_commands(found: Gathered, results: str) -> list[str]:
    """Return how the drives were made, a line a map."""
    return [
        f"for seed in {' '.join(str(demo.seed) for demo in of_map)}; do onboard-hil demo --map {name} --seed $seed "
        f"--json {results}/{DEMOS}/{name}-$seed.json; done"
        for name, of_map in itertools.groupby(demos_of(found), lambda demo: demo.map)
    ]
