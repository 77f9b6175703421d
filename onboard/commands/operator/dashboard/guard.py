"""Who may speak with the page's server: connections are few and must state their request in time; hosts are its own."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections import Counter
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS, MOST_OF_ADDRESS = 256, 64
"""Open connections, of all and of one address; one more closes one that waits, of the address that has most."""
REQUEST_S = 20.0
"""Longest time from the first byte of a request, or from the connection, to its end."""
HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


def crowded(addresses: Iterable[str], newest: str, most_each: int, most: int) -> str | None:
    """Return the address that has too many of something, the newest included; None where there is room."""
    count = Counter(addresses)
    if count[newest] > most_each:
        return newest
    return max(count, key=lambda one: count[one]) if count.total() > most else None


class Connection(H11Protocol):
    """A connection of uvicorn's. Its own limit would refuse the stop, too, and has no time for a request's head."""

    _since_s = 0.0
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """Close another connection where there are too many."""
        super().connection_made(transport)
        self._since_s = self.loop.time()
        self._late = self.loop.call_later(REQUEST_S, transport.abort)
        there = [one for one in self.connections if isinstance(one, Connection)]
        address = crowded((one.address for one in there), self.address, MOST_OF_ADDRESS, MOST_CONNECTIONS)
        if address is not None:
            rivals = [one for one in there if one.address == address and one is not self]
            oldest = min(rivals, key=lambda one: (one._answers, one._since_s), default=self)
            oldest.connections.discard(oldest)
            oldest.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take bytes; the request must be whole before its time is over."""
        if self._late is None:
            self._late = self.loop.call_later(REQUEST_S, self.transport.abort)
        super().data_received(data)
        if self.cycle is not None and not self.cycle.more_body:
            self._in_time()

    def send_400_response(self, msg: str) -> None:
        """Refuse a request that turned out to be none; what already handles it has nobody to answer any more."""
        if self.cycle is not None:
            self.cycle.disconnected = True
        super().send_400_response(msg)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._in_time()
        super().connection_lost(exc)

    @property
    def address(self) -> str:
        """Return the address of the other end."""
        return self.client[0] if self.client else "-"

    @property
    def _answers(self) -> bool:
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


class Guard:
    """Refuses a request for another host; adds HEADERS to each response that does not set them.

    A page elsewhere whose name is made to lead here (DNS rebinding) would count as this one. Starlette's
    `TrustedHostMiddleware` knows names alone; a robot is mostly reached by an address.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        """hosts: of the options `--host` and `--allow-host`"""
        name = socket.gethostname().lower()
        self._app = app
        self._names = {"localhost", name, f"{name}.local", *(host.lower().rstrip(".") for host in hosts)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in HEADERS if one[0] not in there)]
            await send(message)

        if scope["type"] == "http" and not self._is_ours(host := Request(scope).headers.get("host", "")):
            line = (
                f"{host[:80]!r} is not a name of this dashboard: use the address that it printed, or --allow-host NAME"
            )
            await JSONResponse({"error": line}, 421)(scope, receive, sent)
        else:
            await self._app(scope, receive, sent)

    def _is_ours(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
            if name in self._names:
                return True
            ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            return False
        return True
