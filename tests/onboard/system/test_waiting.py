"""Nothing waits silently: when it says for what, and when again."""

from __future__ import annotations

import pytest

from onboard.system.waiting import AGAIN_S, FIRST_S, Waiting

#   name                     missing at each second               seconds at which it says so
CASES = [
    ("soon there", {0: "scan", 9: ""}, []),
    ("for ever", {0: "scan"}, [10, 40, 70]),
    ("another thing later", {0: "scan", 20: "odometry"}, [10, 20, 50]),
    ("there in between", {0: "scan", 12: "", 15: "scan"}, [10, 25, 55]),
]


@pytest.mark.parametrize(("missing", "said_at"), [row[1:] for row in CASES], ids=[row[0] for row in CASES])
def test_it_says_what_is_missing_at_first_and_again(missing: dict[int, str], said_at: list[int]) -> None:
    assert (FIRST_S, AGAIN_S) == (10.0, 30.0)
    now_s, said = 0, []
    waiting = Waiting(lambda line: said.append((now_s, line)), lambda: float(now_s))
    what = ""
    for now_s in range(80):
        what = missing.get(now_s, what)
        waiting.note(what)
    assert [second for second, _ in said] == said_at
    assert all(line.startswith("waiting for ") for _, line in said)


def test_a_rate_in_the_text_is_no_reason_to_say_it_again() -> None:
    now_s, said = 0, []
    waiting = Waiting(said.append, lambda: float(now_s))
    for now_s in range(30):
        waited_s = waiting.note(f"{now_s} scans a second", "scan")
    assert (said, waited_s) == (["waiting for 10 s: 10 scans a second"], 29.0)
