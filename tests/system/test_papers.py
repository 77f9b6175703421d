"""The page of claims is what `make papers` writes, and its verdicts follow the stored figures."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("papers", ROOT / ".ci" / "papers.py")
assert SPEC is not None
assert SPEC.loader is not None
papers = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(papers)


def test_the_page_is_of_today_s_results() -> None:
    text = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert text == papers.page(), "run `make papers`"
    assert len(text.splitlines()) <= 400


#    bounds               value   verdict
VERDICTS = [
    ({"most": 0.3},       0.2,    "holds"),
    ({"most": 0.3},       0.31,   "does not hold"),
    ({"least": 94.0},     94.0,   "holds"),
    ({"least": 94.0},     93.9,   "does not hold"),
    ({},                  1.0,    "compared, not judged"),
    ({},                  True,   "holds"),
    ({},                  False,  "does not hold"),
]  # fmt: skip


@pytest.mark.parametrize(("bounds", "value", "expected"), VERDICTS)
def test_a_verdict_follows_the_figure(bounds, value, expected) -> None:
    assert papers.verdict(bounds, value) == expected


def test_a_claim_without_a_result_says_so() -> None:
    assert papers.row_of({"what": "x", "why": "no robot"})[2:4] == ("no stored result", "not tried here: no robot")
