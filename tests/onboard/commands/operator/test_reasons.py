"""`onboard reasons`: the table on a screen, as JSON, and as a page of the documents."""

from __future__ import annotations

import json

import pytest

from onboard.commands.operator.reasons import page, reasons
from onboard.values.errors import InputError
from onboard.values.reasons import TABLE
from tests.rigs.machine.processes import ROOT


def test_the_page_of_the_documents_is_what_the_command_prints() -> None:
    assert (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8") == page()


def test_a_reason_is_found_by_the_text_of_a_state(capsys: pytest.CaptureFixture[str]) -> None:
    reasons("stopped: no progress towards the goal for 30 s")
    printed = capsys.readouterr().out
    assert "no_progress" in printed
    assert TABLE["no_progress"].clears in printed
    assert "goal_late" not in printed


def test_all_reasons_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    reasons(json_file="-")
    rows = json.loads(capsys.readouterr().out)
    assert [row["code"] for row in rows] == list(TABLE)
    assert all(set(row) == {"code", "kind", "sentence", "clears"} for row in rows)


def test_an_unknown_text_is_refused() -> None:
    with pytest.raises(InputError, match=r"'warp' is not a reason; `onboard reasons` prints all codes"):
        reasons("warp")
