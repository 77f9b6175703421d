"""Drives of the whole robot in real time, as `onboard-hil demo --json RESULTS/demos/MAP-SEED.json` tells them."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from engines.report.results.checks import shaped
from engines.report.results.markdown import table
from engines.report.results.result_files import DEMOS, Gathered
from engines.report.results.section import Part, lacks
from onboard.config.config import is_name
from onboard.values.errors import InputError

DEMO_HEADINGS = (
    "map", "seeds", "reached without contact", "decisions", "a drive's median decision ms",
    "a drive's 99th percentile ms", "deadlines missed", "slots missed",
)  # fmt: skip
DEMOS_NOTE = (
    "The robot's whole way in real time: the runtime and the simulated robot are processes of their own, with DDS "
    "between them. The files do not tell which engine ran the network, nor on which machine."
)
FEW = 100
"""Of so many decisions a 99th percentile lies between the two slowest."""


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
    """Return how many drives of each map reached the goal without contact, and how long decisions took.

    Raises InputError for drives of another policy than the one whose figures are quoted, as far as its name is known.
    """
    demos = demos_of(found)
    policy = None if found.headline is None else found.headline.configuration.get("policy")
    if policy is not None and is_name(policy):  # the name of a file is not that of the policy in it
        require_demos_of(policy, found)
    rows = [_row(name, list(of_map)) for name, of_map in itertools.groupby(demos, lambda demo: demo.map)]
    text = table(DEMO_HEADINGS, rows, words=2) + f"\n{DEMOS_NOTE} {_times_note(demos)}\n"
    return Part("demos", "In real time", text, [demo._asdict() for demo in demos], lacks(rows, f"{DEMOS}/*.json"))


def demos_of(found: Gathered) -> list[Demo]:
    """Return the drives, by map and seed. Raises InputError for a file that is none, and for those of two policies."""
    demos = []
    for name, told in found.demos.items():
        file = found.folder / DEMOS / f"{name}.json"
        with shaped(file, "not the result of onboard-hil demo, named MAP-SEED.json"):
            demos.append(_demo(name, told))
            if demos[-1].policy != demos[0].policy:
                raise InputError(
                    f"{file}: by {demos[-1].policy}, others by {demos[0].policy}: {DEMOS}/ is of one policy"
                )
    return sorted(demos)


def require_demos_of(policy: str, found: Gathered) -> None:
    """Raise InputError for drives of another policy than the one of this name."""
    for demo in demos_of(found)[:1]:
        if demo.policy != policy:
            raise InputError(f"{found.folder / DEMOS}: by {demo.policy}, the report is about {policy}")


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


def _times_note(demos: Sequence[Demo]) -> str:
    """Return what the times are of."""
    counts = [demo.decisions for demo in demos] or [0]
    few = ", so that its 99th percentile is nearly its slowest decision" if max(counts) <= FEW else ""
    of_each = f"A drive has {min(counts)} to {max(counts)} decisions{few}."
    return f"Times are the smallest and the largest of the drives'. {of_each}"


def _between(values: Iterable[float]) -> str:
    known = sorted(values)
    return f"{known[0]:.0f} to {known[-1]:.0f}"


def demo_commands(found: Gathered, results: str, policy: str) -> list[str]:
    """Return how the drives were made, a line a map. policy: what drove, as a command takes it."""
    return [
        f"for seed in {' '.join(str(demo.seed) for demo in of_map)}; do "
        f"onboard-hil demo --policy {shlex.quote(policy)} --map {name} --seed $seed "
        f"--json {results}/{DEMOS}/{name}-$seed.json; done"
        for name, of_map in itertools.groupby(demos_of(found), lambda demo: demo.map)
    ]
