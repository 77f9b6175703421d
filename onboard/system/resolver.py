"""Resolves host names with a timeout, because this machine's resolver may block for half a minute.

A thread asks the resolver, so that a signal can still stop the waiting caller.
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
"""Characters of Cyclone's other peer formats: port, transport, list. Cyclone checks those formats itself."""
PATIENCE_S = 20.0
"""Longer than the default timeout of a resolver with two silent name servers."""


class Hosts:
    """Resolves hosts. After a timeout, the next request for the same host waits for the first request's answer."""

    def __init__(self) -> None:
        self._pending: dict[str, Future[str]] = {}

    def address(self, host: str, patience_s: float = PATIENCE_S) -> str:
        """Return a host's IPv4 address; "" if the host is unknown or the resolver does not answer in `patience_s`.

        An address needs no resolver and is returned unchanged. Raises ConfigError for an invalid host name.
        """
        if _is_address(host):
            return host
        answer = self._pending.pop(host, None) or _lookup(host)
        try:
            return answer.result(patience_s)
        except NoAnswerYet:
            self._pending[host] = answer
            return ""

    def unknown(self, peers: Sequence[str], patience_s: float = PATIENCE_S) -> list[str]:
        """Return the peers with an unknown host. Raises ConfigError like `address`."""
        return [peer for peer in peers if is_host(peer) and not self.address(peer, patience_s)]


def is_host(peer: str) -> bool:
    """Return whether a peer is a host without port or transport."""
    return bool(peer) and OTHER_THAN_A_HOST.isdisjoint(peer)


def unknown_host(peer: str) -> str:
    """Return the message for a peer with an unknown host."""
    return f"dds.peers: {peer!r}: this machine cannot resolve the host name"


def _is_address(host: str) -> bool:
    try:
        IPv4Address(host)
    except AddressValueError:
        return False
    return True


def _lookup(host: str) -> Future[str]:
    answer: Future[str] = Future()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, None, socket.AF_INET)
        except OSError:
            answer.set_result("")
        except ValueError:  # a name that is too long
            answer.set_exception(ConfigError(unknown_host(host)))
        else:
            answer.set_result(str(found[0][4][0]))

    Thread(target=ask, name="resolver", daemon=True).start()
    return answer
