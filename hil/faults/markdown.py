"""Verdicts as a table in Markdown, for `docs/reliability.md`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hil.faults.musts import During
from hil.faults.verdict import Status, Verdict
from onboard.errors import InputError

HEAD = (
    "| fault | what is done | what must happen | what stopped it | zero from tick | at the latest | from m/s | "
    "stood at tick | rolled m |"
)
RULE = "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | ---: |"


def write_markdown(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Write the table. Raises InputError where the file cannot be written."""
    try:
        path.write_text("\n".join(markdown(verdicts)) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"--markdown {path}: cannot be written: {error.strerror}") from error


def markdown(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the lines of the table. A cell is empty where there is nothing to say."""
    yield HEAD
    yield RULE
    yield from map(_row, verdicts)


def _row(one: Verdict) -> str:
    must, way = one.fault.must, one.rolled
    timed = must.during in (During.STANDS, During.NOT_FORWARD, During.SLOWS)
    cells = [f"`{one.fault.name}`", one.fault.what, must.text(), *_stopped(one)]
    cells.append("" if one.within is None or not timed else f"{one.within}")
    cells += ["", "", ""] if way is None else [f"{way.from_mps:.2f}", f"{way.ticks}", f"{way.way_m:.2f}"]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _stopped(one: Verdict) -> list[str]:
    """Return what stopped it, with the time-outs that had to pass, and from which tick on."""
    if one.status is not Status.PASSED:
        return [f"**{one.status.value}**: {'; '.join(one.problems) or one.happened}", ""]
    why = f"`{one.reason}`: {one.fault.why}" if one.reason else one.fault.why
    waits = [f"`{key}`" for key in one.fault.must.timeouts]
    return [", ".join([why, *waits]), "" if one.settled is None else f"{one.settled}"]
