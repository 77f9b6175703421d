"""Host names: known and unknown hosts, a resolver that does not answer, and its timeout."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from onboard.config.config import DdsSection, OdometrySection
from onboard.drivers.dds.domain import hold_domain
from onboard.service import stop_base
from onboard.service.stop_base import BaseLink
from onboard.system.resolver import Hosts
from onboard.values.errors import DriverError
from tests.rigs.network.loopback import free_domain

UNKNOWN_HOST = "nobody-has-this-name.invalid"
NOBODYS_DOMAIN = 230
"""Other tests take domains up to 200."""
SOON_S, LONG_S = 0.05, 60.0


class Resolver:
    """A resolver that answers on request. asked: number of requests."""

    def __init__(self) -> None:
        self.asked, self.answers = 0, threading.Event()

    def __call__(self, *_: object) -> list[tuple[object, ...]]:
        self.asked += 1
        self.answers.wait(LONG_S)
        return [(socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("192.0.2.7", 0))]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[Resolver]:
    resolver = Resolver()
    monkeypatch.setattr(socket, "getaddrinfo", resolver)
    yield resolver
    resolver.answers.set()


#   peers                                   unknown hosts
PEERS = [
    (["localhost", "127.0.0.1", ""], []),
    ([UNKNOWN_HOST], [UNKNOWN_HOST]),
    (["127.0.0.1:7410", "udp/1.2.3.4"], []),
]


@pytest.mark.parametrize(("peers", "unknown"), PEERS)
def test_who_is_known(peers: list[str], unknown: list[str]) -> None:
    assert Hosts().unknown(peers) == unknown


def test_a_resolver_that_does_not_answer_is_asked_once_and_its_late_answer_is_taken(silent: Resolver) -> None:
    hosts = Hosts()
    assert [hosts.address("base", SOON_S) for _ in range(3)] == ["", "", ""]
    silent.answers.set()
    assert (hosts.address("base", LONG_S), silent.asked) == ("192.0.2.7", 1)


def test_an_address_needs_no_resolver(silent: Resolver) -> None:
    assert Hosts().address("192.0.2.8", SOON_S) == "192.0.2.8"
    assert silent.asked == 0


def test_a_signal_ends_the_question_at_once(silent: Resolver) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    timer = threading.Timer(SOON_S, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    try:
        began_s = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            Hosts().address("base", LONG_S)
        assert time.monotonic() - began_s < LONG_S / 2
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_domain_with_an_unknown_peer_is_refused_in_one_line() -> None:
    """Without this check Cyclone would end the process."""
    with pytest.raises(DriverError, match=f"dds.peers: '{UNKNOWN_HOST}': this machine cannot resolve the host name"):
        hold_domain(NOBODYS_DOMAIN, DdsSection(peers=[UNKNOWN_HOST]))


def test_zero_is_sent_to_the_peers_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stop_base, "BASE_WAIT_S", SOON_S)
    section = DdsSection(domain=free_domain(), peers=[UNKNOWN_HOST, "localhost"])
    assert stop_base.halt(BaseLink(section, OdometrySection(), 30.0)) == 0
