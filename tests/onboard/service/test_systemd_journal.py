"""Events as entries of the journal: their fields, names and values by the native protocol."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from onboard.system import journald


def fields(data: bytes) -> dict[str, str]:
    """Return an entry's fields, decoded by the protocol's specification."""
    found: dict[str, str] = {}
    while data:
        line, _, data = data.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            size = int.from_bytes(data[:8], "little")
            value, data = data[8 : 8 + size], data[9 + size :]
        found[name.decode()] = value.decode(errors="replace")
    return found


def test_an_event_becomes_an_entry_with_its_fields() -> None:
    entry = fields(
        journald.entry(None, "warning", {"level": "warning", "event": "camera_lost", "camera": "rear", "n": 2})
    )
    assert entry == {
        "MESSAGE": "camera_lost camera=rear n=2",
        "PRIORITY": "4",
        "SYSLOG_IDENTIFIER": "onboard",
        "ONBOARD_EVENT": "camera_lost",
        "ONBOARD_CAMERA": "rear",
        "ONBOARD_N": "2",
    }


def test_a_traceback_goes_along_in_a_field_of_its_own() -> None:
    try:
        raise ValueError("first line\nsecond")
    except ValueError:
        entry = fields(journald.entry(None, "error", {"level": "error", "event": "broken", "exc_info": True}))
    assert entry["ONBOARD_EXCEPTION"].endswith("ValueError: first line\nsecond")
    assert "\n" not in entry["MESSAGE"]


@given(st.dictionaries(st.text(min_size=1, max_size=80), st.text(max_size=200), max_size=6), st.text())
def test_whatever_is_said_no_field_is_forged_and_every_name_is_allowed(expected: dict[str, str], event: str) -> None:
    expected = {key: value for key, value in expected.items() if key not in ("level", "event", "exc_info")}
    entry = fields(journald.entry(None, "info", {**expected, "level": "info", "event": event}))
    assert entry["PRIORITY"] == "6"
    assert entry["SYSLOG_IDENTIFIER"] == "onboard"
    assert entry["ONBOARD_EVENT"] == event.encode(errors="replace").decode()[:8192] or "EVENT" in {
        k.upper() for k in expected
    }
    for name in entry.keys() - {"MESSAGE", "PRIORITY", "SYSLOG_IDENTIFIER"}:
        assert name.startswith("ONBOARD_")
        assert len(name) <= journald.NAME_CHARACTERS


def test_only_an_output_that_is_the_journals_is_taken_for_it(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        found = os.fstat(file.fileno())
        ours = {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        assert journald.is_ours(file.fileno(), ours)
        assert not journald.is_ours(file.fileno(), {"JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino + 1}"})
        assert not journald.is_ours(file.fileno(), {})
        assert not journald.is_ours(file.fileno(), {"JOURNAL_STREAM": "nonsense"})


def test_without_a_journal_there_is_nothing_to_connect_to(tmp_path: Path) -> None:
    assert journald.connect(str(tmp_path / "no-journal")) is None


def test_a_process_that_ends_waits_until_the_journal_has_read_all_that_it_said(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "socket"))
        sending = journald.connect(str(tmp_path / "socket"))
        assert sending is not None
        try:
            assert journald.wait_until_read(sending, 0.0)
            os.write(sending, b"one")
            os.write(sending, b"two")
            assert not journald.wait_until_read(sending, 0.05)
            assert journal.recv(10) == b"one"
            assert not journald.wait_until_read(sending, 0.05)
            reads = threading.Timer(0.1, journal.recv, [10])
            reads.start()
            assert journald.wait_until_read(sending, 60.0)
            reads.join()
        finally:
            os.close(sending)
