"""Say which share of the branches was taken, and fail below a bound.

branches.py COVERAGE_JSON PERCENT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def main(report: str, bound: str) -> int:
    """Judge the totals of `coverage json`. Exit code 1: below the bound."""
    totals = json.loads(Path(report).read_text(encoding="utf-8"))["totals"]
    taken, there = totals["covered_branches"], totals["num_branches"]
    percent = 100.0 * taken / there
    sys.stdout.write(f"branches: {taken} of {there} taken, {percent:.2f} %, at least {bound} % asked\n")
    return int(percent < float(bound))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
