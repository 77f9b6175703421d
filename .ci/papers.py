"""Write docs/papers.md: each claim of the papers with the stored result that judges it (`make papers`)."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
TABLE, PAGE = ROOT / "docs" / "papers.toml", ROOT / "docs" / "papers.md"
HEAD = """# The four papers, claim by claim

`make papers` writes this page from `docs/papers.toml` and the stored results that it names. A verdict is computed
from the stored figure and the bounds in the table. A claim without a stored result says so. The papers' figures are of
other robots, simulators and agents.
"""


def stored(file: Path, path: list[Any]) -> Any:
    """Return the value in a JSON file (may be packed by gzip) along a path.

    A table in the path selects the row of a list that has these values.
    """
    value = json.loads(gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes())
    for key in path:
        if isinstance(key, dict):
            value = next(row for row in value if all(row[name] == wanted for name, wanted in key.items()))
        else:
            value = value[key]
    return value


def verdict(claim: Mapping[str, Any], value: Any) -> str:
    """Return whether the claim holds: `value` is true, or within `least` and `most`."""
    if isinstance(value, bool):
        return "holds" if value else "does not hold"
    if "least" not in claim and "most" not in claim:
        return "compared, not judged"
    held = claim.get("least", value) <= value <= claim.get("most", value)
    return "holds" if held else "does not hold"


def row_of(claim: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a claim: what, the paper's figure, ours, verdict with bounds and reason, command."""
    ours, said = "no stored result", claim.get("verdict", "not tried here")
    if "file" in claim:
        value = stored(ROOT / claim["file"], claim["path"])
        said = claim.get("verdict", verdict(claim, value))
        ours = (
            claim.get("form", "{:.1f}").format(claim.get("scale", 1.0) * value) if not isinstance(value, bool) else ""
        )
        figure = claim.get("figure")
        if figure:
            found = stored(ROOT / claim["file"], figure)
            ours = f"{found:.2f}" if isinstance(found, float) else str(found)
        ours += f", {claim['of']}" if "of" in claim else ""
    bounds = [f"{name.replace('_', ' ')} {claim['scale'] * claim[name] if 'scale' in claim else claim[name]:g}"
              for name in ("least", "most") if name in claim]  # fmt: skip
    said += f" ({', '.join(bounds)})" if bounds else ""
    said += f": {claim['why']}" if "why" in claim else ""
    command = f"`{claim['command']}`" if "command" in claim else ""
    command = f"the code is in commit {claim['commit']}" if "commit" in claim else command
    return claim["what"], claim.get("theirs", ""), ours, said, command


def table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (headings, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(headings), *lines[1:]])


def page() -> str:
    """Return the text of docs/papers.md."""
    content = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    parts = [HEAD.rstrip()]
    for paper in content["paper"]:
        rows = [row_of(claim) for claim in paper["claim"]]
        headings = ("claim", "the paper", "here", "verdict", "command")
        parts += [f"## {paper['title']}", table(headings, rows)]
    differs = [(row["paper"], row["theirs"], row["here"], row["reason"]) for row in content["differs"]]
    parts += ["## Differs from the papers", table(("paper", "the paper", "here", "reason"), differs)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
