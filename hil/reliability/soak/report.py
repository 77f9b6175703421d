"""Results of a soak: plain values, joined over its processes, and reports as Markdown and console lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hil.reliability.soak.drive import Soak
from hil.reliability.soak.resources import growth
from onboard.commands.cli import markdown_table

Result = Mapping[str, Any]

# ---- Markdown tables for `docs/reliability.md`

FIGURES = "what", "figure"
GROWTH = "process", "what", "middle third", "last third", "grown", "allowed", "an hour"


def markdown(result: Result) -> str:
    """Return two Markdown tables: the figures of all processes, and the resources of each process."""
    held = [_growth(one["seed"], row) for one in result["processes"] for row in one["growth"]]
    return f"{markdown_table(FIGURES, _figures(result), words=2)}\n\n{markdown_table(GROWTH, held, words=2)}\n"


def _growth(seed: int, row: Mapping[str, Any]) -> list[str]:
    name = row["what"] if row["held"] else f"**{row['what']} GREW**"
    numbers = (row["middle"], row["last"], row["grown"], row["allowed"], row["per_hour"])
    return [f"seed {seed}", name.replace("_", " "), *(f"{value:.1f}" for value in numbers)]


def _figures(result: Result) -> Iterator[tuple[str, str]]:
    read = result["recordings"]
    yield "robot hours", f"{result['robot_hours']:.2f}"
    yield "wall clock", f"{result['wall_s'] / 60.0:.0f} min, {len(result['processes'])} processes"
    yield "speed", f"{result['speed']:.1f} times real time"
    yield "robot seconds for each second of a processor", f"{result['per_processor_s']:.1f}"
    longest_s = max((one["robot_s"] for one in result["processes"]), default=0.0)
    yield "longest process", f"{longest_s / 3600.0:.2f} robot hours"
    yield "driven", f"{result['driven_m'] / 1000.0:.1f} km, moving {result['moving_share']:.0%} of the time"
    yield "goals", f"{result['goals']} asked, {result['reached']} reached"
    yield "faults done", f"{sum(result['faults'].values())} of {len(result['faults'])} kinds"
    yield "recoveries", f"{result['recoveries']}"
    yield "violations", f"{sum(result['violations'].values())}"
    yield (
        "contacts",
        f"{sum(result['contacts'].values())}"
        + "".join(f"; {count} {what}" for what, count in sorted(result["contacts"].items())),
    )
    yield "times that somebody walked into it", f"{result['bumps']}"
    yield "runtimes begun", f"{result['runtimes']}"
    carried = result["buildings"] - result["runtimes"]
    yield "carried into another building", f"{carried}, of these {result['stuck']} because it was stuck"
    yield (
        "recordings read",
        f"{read['files']}: {read['ticks']} ticks, {read['messages']} messages, {read['bytes'] / 1e6:.0f} MB",
    )
    yield "recordings ended by a full disk", f"{read['full_disks']}"
    yield "recordings kept for what happened in them", f"{len(read['kept'])}"


SUMMED = (
    "robot_s",
    "processor_s",
    "driven_m",
    "goals",
    "reached",
    "stuck",
    "bumps",
    "recoveries",
    "runtimes",
    "buildings",
    "ticks",
)
READ = ("files", "bytes", "messages", "ticks", "full_disks")


def result_of(soak: Soak, seed: int) -> dict[str, Any]:
    """Return the results of one process as plain values. speed: robot time divided by wall time."""
    judge, ground, read = soak.judge, soak.ground, soak.records.read
    rules = judge.rules + Counter(rule for rule, _ in soak.records.problems)
    return {
        "seed": seed,
        "robot_s": round(soak.robot_s, 3),
        "wall_s": round(soak.wall_s, 1),
        "processor_s": round(soak.processor_s, 1),
        "speed": round(soak.robot_s / soak.wall_s, 2) if soak.wall_s else 0.0,
        "ticks": judge.ticks,
        "moving_share": round(judge.moving / judge.ticks, 4) if judge.ticks else 0.0,
        "driven_m": round(ground.path_m, 1),
        "goals": soak.goals,
        "reached": soak.reached,
        "stuck": soak.stuck,
        "runtimes": judge.runtimes,
        "buildings": ground.buildings,
        "recoveries": judge.recoveries,
        "faults": dict(soak.faults),
        "violations": dict(rules),
        "broken": [asdict(one) for one in judge.broken],
        "problems": [f"{rule}: {what}" for rule, what in soak.records.problems],
        "contacts": [{**asdict(one), "what": one.what} for one in judge.contacts],
        "bumps": ground.bumps,
        "recordings": {**{name: getattr(read, name) for name in READ}, "kept": list(read.kept)},
        "growth": [{**asdict(one), "held": one.held} for one in growth(soak.samples)],
        "samples": [asdict(one) for one in soak.samples],
    }


def joined(results: Sequence[Result]) -> dict[str, Any]:
    """Return the figures of all processes together, and the results of each process."""
    wall_s = max((one["wall_s"] for one in results), default=0.0)
    summed = {name: round(sum(one[name] for one in results), 3) for name in SUMMED}
    faults, rules = Counter[str](), Counter[str]()
    for one in results:
        faults.update(one["faults"])
        rules.update(one["violations"])
    moving = sum(one["moving_share"] * one["ticks"] for one in results)
    return {
        **summed,
        "robot_hours": round(summed["robot_s"] / 3600.0, 3),
        "wall_s": wall_s,
        "speed": round(summed["robot_s"] / wall_s, 2) if wall_s else 0.0,
        "per_processor_s": round(summed["robot_s"] / summed["processor_s"], 2) if summed["processor_s"] else 0.0,
        "moving_share": round(moving / summed["ticks"], 4) if summed["ticks"] else 0.0,
        "faults": dict(sorted(faults.items())),
        "violations": dict(rules),
        "contacts": dict(Counter(contact_line(one) for result in results for one in result["contacts"])),
        "recordings": {
            **{name: sum(one["recordings"][name] for one in results) for name in READ},
            "kept": [name for one in results for name in one["recordings"]["kept"]],
        },
        "grew": [f"seed {one['seed']}: {row['what']}" for one in results for row in one["growth"] if not row["held"]],
        "processes": list(results),
    }


def passed(result: Result) -> bool:
    """Return whether the soak broke no rule and no resource grew."""
    return not result["violations"] and not result["grew"]


def contact_line(contact: Mapping[str, Any]) -> str:
    """Return the class under which a contact is counted: its description and its fault."""
    return f"{contact['what']}, under {contact['fault']}" if contact["fault"] else str(contact["what"])


def lines(result: Result) -> Iterator[str]:
    """Yield the figures as console lines."""
    yield from (f"{what}: {figure}" for what, figure in _figures(result))
    for one in result["processes"]:
        for row in one["growth"]:
            yield f"seed {one['seed']}: {growth_line(row)}"
        if not one["growth"]:
            yield f"seed {one['seed']}: too short to say whether anything grows"
    yield from (f"{rule}: {count} violations" for rule, count in result["violations"].items())
    for one in result["processes"]:
        yield from (broken_line(broken) for broken in one["broken"])
        yield from one["problems"]


def growth_line(row: Mapping[str, Any]) -> str:
    """Return the change of a resource as one line."""
    word = "" if row["held"] else "  GREW"
    return (
        f"{row['what']} {row['middle']:.1f} -> {row['last']:.1f}: {row['grown']:+.2f}, allowed {row['allowed']:.2f} "
        f"({row['per_hour']:+.2f} an hour){word}"
    )


def broken_line(broken: Mapping[str, Any]) -> str:
    """Return a broken rule as one line."""
    fault = f" under {broken['fault']}" if broken["fault"] else ""
    return f"at {broken['at_s']:.2f} s in {broken['building']}{fault}: {broken['rule']}: {broken['what']}"


def progress_line(soak: Soak, seed: int) -> str:
    """Return the progress of a soak as one line."""
    judge = soak.judge
    memory_mib = soak.samples[-1].memory_mib if soak.samples else 0.0
    return (
        f"seed {seed}: {soak.robot_s / 3600.0:.2f} h, {soak.robot_s / soak.wall_s:.1f} times real time, "
        f"{sum(soak.faults.values())} faults, {sum(judge.rules.values())} violations, {len(judge.contacts)} contacts, "
        f"{soak.records.read.files} recordings read, {memory_mib:.0f} MiB"
    )
