"""Look up known vulnerabilities of what a file of requirements names, and say in one line what came of it.

    audit.py PIP_AUDIT REQUIREMENTS REPORT

Exit code 0: all were looked up, and nothing is known. 1: something is known, one line each. 2: some could not be looked
up, so nothing is said of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

KNOWN, NOT_LOOKED_UP = 1, 2


def main(program: str, requirements: str, report: str) -> int:
    """Run pip-audit and judge its report."""
    words = ["--requirement", requirements, "--require-hashes", "--disable-pip", "--progress-spinner", "off"]
    Path(report).parent.mkdir(parents=True, exist_ok=True)
    Path(report).unlink(missing_ok=True)
    done = subprocess.run(
        [program, *words, "--format", "json", "--output", report], capture_output=True, text=True, check=False
    )
    if not Path(report).exists():
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        sys.stdout.write(f"audit: nothing was looked up: {last}\n")
        return NOT_LOOKED_UP
    rows = json.loads(Path(report).read_text(encoding="utf-8"))["dependencies"]
    skipped = [row["name"] for row in rows if "skip_reason" in row]
    known = [(row, one) for row in rows for one in row.get("vulns", [])]
    for row, one in known:
        fixed = ", ".join(one["fix_versions"]) or "no release"
        sys.stdout.write(f"{row['name']} {row['version']}: {one['id']}, fixed in {fixed}\n")
    looked = len(rows) - len(skipped)
    said = (
        f"{looked} of {len(rows)} packages looked up, {len(known)} vulnerabilities known"
        if looked
        else (f"none of {len(rows)} packages could be looked up: no service that knows them is reachable here")
    )
    sys.stdout.write(f"audit: {said} ({report})\n")
    return KNOWN if known else NOT_LOOKED_UP if skipped else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
