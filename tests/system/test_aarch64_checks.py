"""How `.ci/aarch64` compares two machines: lengths of drives within a rounding of hypot, all else to the last bit."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / ".ci" / "aarch64_checks.py"
DRIVE: dict[str, Any] = {
    "success": True, "ended": "stop", "time_s": 10.0, "path_m": 5.480481541847062, "distance_m": 0.1,
    "min_clearance_m": 0.3, "contacts": 0, "actions": [1, 2],
}  # fmt: skip
#   other values there                    exit code
ROWS = [
    ({},                                  0),
    ({"path_m": 5.480481541847061},       0),
    ({"path_m": 5.480481551847062},       1),
    ({"path_m": None},                    1),
    ({"time_s": 10.000000000000002},      1),
    ({"ended": "time"},                   1),
    ({"actions": [1, 3]},                 1),
]  # fmt: skip


@pytest.mark.parametrize(("other", "code"), ROWS)
def test_only_lengths_may_differ_and_only_by_a_rounding(other: dict[str, Any], code: int, tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("aarch64_checks", FILE)
    assert spec is not None
    assert spec.loader is not None
    checks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checks)
    for name, drive in (("here", DRIVE), ("there", {**DRIVE, **other})):
        (tmp_path / name).write_text(json.dumps({"per_episode": [drive]}))
    assert checks.equal(str(tmp_path / "here"), str(tmp_path / "there")) == code
