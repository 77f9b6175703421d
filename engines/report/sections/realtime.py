"""Table of real-time drives, from `onboard-hil demo --json RESULTS/demos/MAP-SEED.json`."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from engines.report.results.checks import shaped
from engines.report.results.markdown import table
from engines.report.results.result_files import DEMOS, Gathered
from engines.report.results.section import Part
from onboard.config.pretrained import is_name
from onboard.values.errors import InputError

HEADINGS = ("map", "seeds", "reached without contact", "decisions", "median decision time ms",
            "99th percentile ms", "deadlines missed", "slots missed")  # fmt: skip
NOTE = (
    "The runtime and the simulated robot are two processes with DDS between them. Times are the least and the largest "
    "of the drives. Most drives have fewer than 100 decisions, so the 99th percentile is nearly the slowest one."
)


class Demo(NamedTuple):
    """A drive. median_ms, most_ms: median and 99th percentile of the decision time."""

    map: str
    seed: int
    policy: str
    good: bool
    decisions: int
    median_ms: float
    most_ms: float
    late: int
    missed: int


def real_time(found: Gathered) -> Part:
    """Return successes and decision times of the drives by map.

    Raises InputError for drives of another policy than the headline, if its name is known.
    """
    demos = demos_of(found)
    policy = None if found.headline is None else found.headline.configuration.get("policy")
    if policy is not None and is_name(policy):  # the name of a file is not the name of its policy
        require_demos_of(policy, found)
    rows = [_row(name, list(of_map)) for name, of_map in itertools.groupby(demos, lambda demo: demo.map)]
    text = f"{table(HEADINGS, rows, words=2)}\n{NOTE}\n"
    return Part("Real time", text, "" if rows else f"{DEMOS}/*.json")


def demos_of(found: Gathered) -> list[Demo]:
    """Return the drives by map and seed. Raises InputError for a malformed file, and for drives of two policies."""
    demos = []
    for name, result in found.demos.items():
        file = found.folder / DEMOS / f"{name}.json"
        with shaped(file, "not the result of onboard-hil demo, named MAP-SEED.json"):
            place, seed = name.rsplit("-", 1)
            times = result["decision_ms"]
            demos.append(Demo(place, int(seed), str(result["policy"]), result["reached"] and not result["contacts"],
                              result["decisions"], times["p50"], times["p99"], result["deadline_misses"],
                              result["missed_slots"]))  # fmt: skip
    for demo in demos:
        if demo.policy != demos[0].policy:
            raise InputError(f"{found.folder / DEMOS}: by {demos[0].policy} and {demo.policy}: must be of one policy")
    return sorted(demos)


def require_demos_of(policy: str, found: Gathered) -> None:
    """Raise InputError for drives of a policy with another name."""
    for demo in demos_of(found)[:1]:
        if demo.policy != policy:
            raise InputError(f"{found.folder / DEMOS}: by {demo.policy}, the report is about {policy}")


def _row(name: str, demos: list[Demo]) -> list[str]:
    total = [sum(part) for part in zip(*((one.decisions, one.late, one.missed) for one in demos), strict=True)]
    decisions, late, missed = (f"{part:,}" for part in total)
    medians, mosts = sorted(one.median_ms for one in demos), sorted(one.most_ms for one in demos)
    times = [f"{of[0]:.0f} to {of[-1]:.0f}" for of in (medians, mosts)]
    good = f"{sum(one.good for one in demos)} of {len(demos)}"
    return [name, ", ".join(str(one.seed) for one in demos), good, decisions, *times, late, missed]
