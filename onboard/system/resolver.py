"""Hosts by name, as this machine's resolver knows them, asked with patience: it may not answer for half a minute.

It is asked in a thread of its own, so that whoever waits for it can be stopped meanwhile.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NoAnswerYet
from ipaddress import AddressValueError, IPv4Address
from threading import Thread

from onboard.values.errors import ConfigError

OTHER_THAN_A_HOST = frozenset(":/,@")
"""In Cyclone's other ways to name a peer: with a port, with a transport, several. Those it judges itself."""
PATIENCE_S = 20.0
"""Longer than a resolver with two silent name servers takes by default to give up."""


class Hosts:
    """What was asked stays asked: the next question for the same host waits for the answer to the first."""

    def __init__(self) -> None:
        self._asked: dict[str, Future[str]] = {}

    def address(self, host: str, patience_s: float = PATIENCE_S) -> str:
        """Return a host's IPv4 address, "" for one that nobody knows or of which nobody has told within `patience_s`.

        An address is its own answer, and needs no resolver. Raises ConfigError for what is no host's name and will
        never be one.
        """
        if _is_address(host):
            return host
        answer = self._asked.pop(host, None) or _asked(host)
        try:
            return answer.result(patience_s)
        except NoAnswerYet:
            self._asked[host] = answer
            return ""

    def unknown(self, peers: Sequence[str], patience_s: float = PATIENCE_S) -> list[str]:
        """Return those of `dds.peers` whose host nobody knows now. Raises ConfigError as `address`."""
        return [peer for peer in peers if is_host(peer) and not self.address(peer, patience_s)]


def is_host(peer: str) -> bool:
    """Return whether a peer is named by its host alone."""
    return bool(peer) and OTHER_THAN_A_HOST.isdisjoint(peer)


def nobody_knows(peer: str) -> str:
    """Return the line about a peer whose host is not known."""
    return f"dds.peers: {peer!r} is no host that this machine knows"


def _is_address(host: str) -> bool:
    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True


def _asked(host: str) -> Future[str]:
    answer: Future[str] = Future()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, None, socket.AF_INET)
        except OSError:
            answer.set_result("")
        except ValueError:  # a name that is too long
            answer.set_exception(ConfigError(nobody_knows(host)))
        else:
            answer.set_result(str(found[0][4][0]))

    Thread(target=ask, name="resolver", daemon=True).start()
    return answer
