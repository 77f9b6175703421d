"""`make fuzz`: feed every parser damaged bytes for a time, keep what goes wrong, and print what was done.

    python tests/fuzz/fuzz_run.py [--seconds 600] [--json out/fuzz.json] [PARSER...]

Seconds are those that this process computed: on a machine that does nothing else, those of the clock. An input that a
parser neither reads nor refuses is shrunk and written to `tests/data/fuzz/`, from where `make test` feeds it for ever
after. Times of earlier runs in the JSON file are added up, and the parser with the least comes first.
"""

from __future__ import annotations

import argparse
import json
import logging
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import structlog
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.database import DirectoryBasedExampleDatabase

from tests.fuzz import fuzz_files, fuzz_recordings, fuzz_wire
from tests.fuzz.fuzz_parsers import Parser

PARSERS: Mapping[str, Parser] = {
    parser.name: parser for parser in (*fuzz_wire.PARSERS, *fuzz_files.PARSERS, *fuzz_recordings.PARSERS)
}
ROUND = 500
"""Examples that hypothesis draws before it begins anew with another seed."""
MOST_BYTES = 16 << 30
"""Of address space, so that a length that is believed ends in MemoryError and not the machine."""
DIGITS = 12
DATABASE = Path(".hypothesis") / "fuzz"


@dataclass
class Fuzzed:
    """What one parser was fed, in all runs: seconds of computing, examples, cases that were kept."""

    seconds: float = 0.0
    examples: int = 0
    kept: int = 0


class _Over(BaseException):
    """The time is over. No `Exception`: hypothesis would take it for a failure and shrink it."""


def fuzz(parser: Parser, seconds: float, folder: Path, first_seed: int) -> tuple[Fuzzed, str]:
    """Feed a parser for a time; return what was done and, of a fault, its traceback."""
    done, begun = Fuzzed(), time.process_time()
    drawn = parser.draw(folder)
    last = b""

    def fed(content: bytes) -> None:
        nonlocal last
        if time.process_time() - begun > seconds:
            raise _Over
        last = content
        done.examples += 1
        parser.feed(content, folder)

    crash = ""
    try:
        while True:
            first_seed += 1
            _round(first_seed, parser.name)(given(drawn)(fed))()
    except _Over:
        pass
    except Exception:  # noqa: BLE001  # whatever it is, that is what is looked for
        crash = traceback.format_exc()
        keep(parser, last)
        done.kept = 1
    done.seconds = time.process_time() - begun
    return done, crash


def _round(number: int, name: str):  # type: ignore[no-untyped-def]
    def decorate(test):  # type: ignore[no-untyped-def]
        return seed(number)(
            settings(
                max_examples=ROUND,
                deadline=None,
                derandomize=False,
                report_multiple_bugs=False,
                database=DirectoryBasedExampleDatabase(DATABASE / name.replace(" ", "-")),
                phases=(Phase.reuse, Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            )(test)
        )

    return decorate


def keep(parser: Parser, content: bytes) -> None:
    """Write an input to where the tests find it."""
    parser.kept.mkdir(parents=True, exist_ok=True)
    (parser.kept / sha256(content).hexdigest()[:DIGITS]).write_bytes(content)


def table(rows: Mapping[str, Fuzzed]) -> list[str]:
    """Return the lines of a table."""
    head = f"{'parser':28} {'seconds':>8} {'examples':>10} {'found':>6}"
    return [head, *(f"{name:28} {row.seconds:8.0f} {row.examples:10d} {row.kept:6d}" for name, row in rows.items())]


def say(*lines: str) -> None:
    """Write lines to the standard output."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz the parsers that are named, or all; return 1 when one of them went wrong."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("parsers", nargs="*", metavar="PARSER", help=", ".join(PARSERS))
    options.add_argument("--seconds", type=float, default=600.0)
    options.add_argument("--json", type=Path, default=Path("out") / "fuzz.json")
    choice = options.parse_args(arguments)
    unknown = [name for name in choice.parsers if name not in PARSERS]
    if unknown:
        options.error(f"there is no parser {unknown[0]!r}, only {', '.join(PARSERS)}")
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    before = json.loads(choice.json.read_text()) if choice.json.exists() else {}
    rows = {name: Fuzzed(**before.get(name, {})) for name in PARSERS}
    wrong = 0
    for name in sorted(choice.parsers or PARSERS, key=lambda name: rows[name].seconds):
        with tempfile.TemporaryDirectory() as folder:
            done, crash = fuzz(PARSERS[name], choice.seconds, Path(folder), rows[name].examples)
        row = rows[name]
        row.seconds, row.examples, row.kept = (
            row.seconds + done.seconds, row.examples + done.examples, row.kept + done.kept,
        )  # fmt: skip
        wrong += bool(crash)
        say(*table({name: row})[1:], *crash.splitlines())
        choice.json.parent.mkdir(parents=True, exist_ok=True)
        choice.json.write_text(json.dumps({name: asdict(row) for name, row in rows.items()}, indent=1))
    say("", *table(rows))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
