"""A soak's figures in Markdown, for `docs/reliability.md`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from onboard.errors import InputError

FIGURES = "| what | figure |\n| --- | --- |"
GROWTH = (
    "| process | what | middle third | last third | grown | allowed | an hour |\n"
    "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
)


def write_markdown(path: Path, result: Mapping[str, Any]) -> None:
    """Write the tables. Raises InputError where the file cannot be written."""
    try:
        path.write_text("\n".join(markdown(result)) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"--markdown {path}: cannot be written: {error.strerror}") from error


def markdown(result: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of two tables: the figures of all processes, and what each process held."""
    yield FIGURES
    for name, value in _figures(result):
        yield f"| {name} | {value} |"
    yield ""
    yield GROWTH
    for one in result["processes"]:
        for row in one["growth"]:
            name = row["what"] if row["held"] else f"**{row['what']} GREW**"
            numbers = (row["middle"], row["last"], row["grown"], row["allowed"], row["per_hour"])
            cells = " | ".join(f"{value:.1f}" for value in numbers)
            yield f"| seed {one['seed']} | {name.replace('_', ' ')} | {cells} |"


def _figures(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    read = result["recordings"]
    yield "robot hours", f"{result['robot_hours']:.2f}"
    yield "wall clock", f"{result['wall_s'] / 60.0:.0f} min, {len(result['processes'])} processes"
    yield "speed", f"{result['speed']:.1f} times real time"
    yield "robot seconds for each second of a processor", f"{result['per_processor_s']:.1f}"
    longest_s = max(one["robot_s"] for one in result["processes"])
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
