"""Files that several processes write: one has a folder, or each has a file in its turn."""

from __future__ import annotations

import threading

from engines.runs.locks import in_turn


def test_who_comes_second_waits_for_the_first(tmp_path):
    file, entered, logged = tmp_path / "new" / "table.json", threading.Event(), []

    def second():
        with in_turn(file):
            logged.append("second")
            entered.set()

    thread = threading.Thread(target=second)
    with in_turn(file):
        thread.start()
        assert not entered.wait(0.2)
        logged.append("first")
    thread.join(10.0)
    assert logged == ["first", "second"]
