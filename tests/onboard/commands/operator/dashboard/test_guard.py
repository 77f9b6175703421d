"""Connections and hosts of the page's server: a crowd keeps nobody from the stop, and only its own names are served."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from onboard.commands.operator.dashboard import guard
from onboard.commands.operator.dashboard.guard import MOST_OF_ADDRESS, crowded
from tests.rigs.machine.waiting import until
from tests.rigs.network.dashboard_rig import Server, lonely_config, serving


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(lonely_config(), tmp_path_factory.mktemp("lonely")) as started:
        yield started


def is_closed(connection: socket.socket) -> bool:
    """Return whether the other end has closed; a connection that is open has nothing to read."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_idle_connections_are_few_and_keep_nobody_from_page_and_stop(server: Server) -> None:
    with contextlib.ExitStack() as held:
        reading = held.enter_context(contextlib.closing(server.never_read()))
        until(lambda: bool(server.robot.pages))
        idle = [
            held.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            for _ in range(2 * MOST_OF_ADDRESS - 8)
        ]
        until(lambda: sum(map(is_closed, idle)) == len(idle) + 1 - MOST_OF_ADDRESS)
        assert server.ask("POST", "/api/stop")[0] == 200
        assert not is_closed(idle[-2])
        reading.setblocking(True)
        assert b"event: robot" in reading.makefile("rb").read(2000), "a page that is open stays open"


@pytest.mark.parametrize(
    "begun", [b"", b"G", b"POST /api/stop HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"]
)
def test_a_request_that_does_not_end_is_cut_off(
    server: Server, monkeypatch: pytest.MonkeyPatch, begun: bytes
) -> None:  # fmt: skip
    monkeypatch.setattr(guard, "REQUEST_S", 0.2)
    with socket.create_connection(("127.0.0.1", server.port)) as slow:
        slow.sendall(begun)
        with contextlib.suppress(ConnectionError):
            while slow.recv(1000):
                pass


def test_a_request_that_turns_out_to_be_none_gets_400_and_no_traceback(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    head = b"POST /api/stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as wrong, wrong.makefile("rb") as answer:
        wrong.sendall(head + b"ZZ\r\n")
        assert b" 400 " in answer.readline()
        answer.read()
    assert server.ask("POST", "/api/stop")[0] == 200
    assert not [record for record in caplog.records if record.exc_info]


def test_a_stream_outlasts_the_time_of_a_request(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "REQUEST_S", 2.0)
    with contextlib.closing(server.never_read()) as page, page.makefile("rb") as stream:
        end_s = time.monotonic() + 3.0
        while time.monotonic() < end_s:
            assert stream.readline() != b"", "the stream has ended"


ROOMS = [
    (["a"] * 3, "a", 2, 9, "a"),
    (["a"] * 2 + ["b"], "b", 2, 9, None),
    (["a"] * 2 + ["b"], "b", 2, 2, "a"),
    ([], "a", 2, 2, None),
]


@pytest.mark.parametrize(("there", "newest", "each", "most", "closed"), ROOMS)
def test_the_address_with_most_gives_way(
    there: list[str], newest: str, each: int, most: int, closed: str | None
) -> None:
    assert crowded(there, newest, each, most) == closed


OWN = ["127.0.0.1", "10.1.2.3:8080", "[::1]:8080", "[fe80::1]", "localhost:1", "LOCALHOST", socket.gethostname()]
FOREIGN = ["elsewhere.example", "localhost.example", "127.0.0.1.example", "", "[", "a b", "x" * 300]


@pytest.mark.parametrize("host", OWN + FOREIGN)
def test_only_its_own_names_are_served(server: Server, host: str) -> None:
    """A page elsewhere whose name is made to lead here (DNS rebinding) neither reads nor presses."""
    status, reply = server.ask("GET", "/api/robot", Host=host)
    assert (status == 200) == (host in OWN), reply
    if host not in OWN:
        assert "is not a name of this dashboard" in reply["error"]
        presses = server.stop.presses
        assert server.ask("POST", "/api/stop", Host=host, Origin=f"http://{host}")[0] == 421
        assert server.stop.presses == presses


def test_a_forwarded_address_is_not_believed(server: Server) -> None:
    server.ask("POST", "/api/stop", X_Forwarded_For="10.9.9.9")
    assert "from 127.0.0.1" in server.stop.by


def test_what_host_names_is_served() -> None:
    guarded = guard.Guard(lambda *_: None, ["127.0.0.1", "Robot.Lan."])  # type: ignore[arg-type, return-value]
    assert guarded._is_ours("robot.lan:8080")
    assert not guarded._is_ours("lan")
