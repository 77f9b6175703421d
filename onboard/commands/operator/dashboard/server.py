"""The HTTP server of the page: what it shows, and what it says to the robot. Starlette; without a build step.

| path | what it is |
|---|---|
| `GET /`, `/page.js`, `/page.css` | the page |
| `GET /api/robot` | one snapshot |
| `GET /api/live` | server-sent events: `robot` at 5 Hz, `shape` (path, footprint) at 1 Hz |
| `GET /api/map.png` | obstacles of the map |
| `GET /api/recordings`, `/api/recordings/NAME`, `/api/recordings/NAME/report` | list, download, report |
| `GET /metrics` | for Prometheus |
| `POST /api/stop` | the latched stop: always there, without a token |
| `POST /api/goal`, `pause`, `resume`, `cancel` | with `--allow-control` and `Authorization: Bearer TOKEN` |
| `POST /api/recordings/NAME/keep` | likewise |
"""

from __future__ import annotations

import asyncio
import hmac
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onboard.commands.operator.dashboard.feed import Feed
from onboard.commands.operator.dashboard.metrics import metrics
from onboard.commands.operator.dashboard.orders import ORDERS, Orders, Stop
from onboard.commands.operator.dashboard.recordings import Recordings
from onboard.values.errors import InputError, OnboardError

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
}
PERIOD_S, SHAPE_EVERY = 0.2, 5
MOST_PAGES = 40
GRACE_S = 3
MOST_BYTES = 4096
"""Of the body of an order."""
HEADERS = (
    (b"content-security-policy", b"default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)
READ_ONLY = "this page only reads: start it with --allow-control"
FORGED = "the token is missing or wrong: open the address that `onboard dashboard` printed"


@dataclass(slots=True)
class Robot:
    """What the server speaks for. token: None without `--allow-control`; pages: how many are open; ended: they close"""

    feed: Feed
    stop: Stop
    orders: Orders
    recordings: Recordings
    token: str | None
    pages: int = field(default=0, init=False)
    ended: bool = field(default=False, init=False)

    def snapshot(self) -> dict[str, Any]:
        """Return what the page draws."""
        own = {"stopped": self.stop.pressed, "order": self.orders.newest, "control": self.token is not None}
        return {**self.feed.snapshot(), **own}


def app(robot: Robot) -> ASGIApp:
    """Return the application."""

    async def live(request: Request) -> Response:
        if robot.pages >= MOST_PAGES:
            return _error(503, f"{MOST_PAGES} pages are open already")
        return StreamingResponse(_events(robot), media_type="text/event-stream")

    async def stop(request: Request) -> Response:
        if (wrong := _foreign(request)) is not None:
            return wrong
        robot.stop.press()
        robot.orders.note("stop", _sender(request))
        return JSONResponse({"stopped": True, "live": robot.feed.live})

    async def goal(request: Request) -> Response:
        return await _order(robot, request, lambda table: robot.orders.goal(table, _sender(request)))

    def word(order: str) -> Callable[[Request], Awaitable[Response]]:
        async def give(request: Request) -> Response:
            return await _order(robot, request, lambda table: robot.orders.give(order, _sender(request)))

        return give

    async def listed(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(robot.recordings.listed))

    async def download(request: Request) -> Response:
        file = await run_in_threadpool(robot.recordings.path, request.path_params["name"])
        return FileResponse(file, media_type="application/octet-stream", filename=file.name)

    async def report(request: Request) -> Response:
        page = await run_in_threadpool(robot.recordings.report, request.path_params["name"])
        policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox"
        return FileResponse(page, media_type="text/html", headers={"Content-Security-Policy": policy})

    async def keep(request: Request) -> Response:
        return await _order(robot, request, lambda table: robot.recordings.keep(request.path_params["name"]))

    async def figures(request: Request) -> Response:
        return PlainTextResponse(metrics(robot.feed.status(), robot.feed.values(), robot.stop.pressed))

    async def snapshot(request: Request) -> Response:
        return JSONResponse({**robot.snapshot(), **robot.feed.shape()})

    async def building(request: Request) -> Response:
        picture = robot.feed.picture()
        return Response(picture, media_type="image/png") if picture else _error(404, "there is no map")

    async def page(request: Request) -> Response:
        name, kind = FILES[request.url.path]
        return FileResponse(PAGE / name, media_type=kind)

    routes = [
        *(Route(path, page) for path in FILES),
        Route("/api/robot", snapshot),
        Route("/api/live", live),
        Route("/api/map.png", building),
        Route("/api/recordings", listed),
        Route("/api/recordings/{name}", download),
        Route("/api/recordings/{name}/report", report),
        Route("/api/recordings/{name}/keep", keep, methods=["POST"]),
        Route("/metrics", figures),
        Route("/api/stop", stop, methods=["POST"]),
        Route("/api/goal", goal, methods=["POST"]),
        *(Route(f"/api/{order}", word(order), methods=["POST"]) for order in ORDERS),
    ]
    refused = {InputError: _refused(400), OnboardError: _refused(503)}
    return Starlette(routes=routes, exception_handlers=refused, middleware=[Middleware(_Headers)])


class Server(uvicorn.Server):
    """Serves a robot's page on a socket until SIGINT or SIGTERM."""

    def __init__(self, robot: Robot) -> None:
        super().__init__(uvicorn.Config(app(robot), log_level="warning", timeout_graceful_shutdown=GRACE_S))
        self._robot = robot

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of open pages, then the server."""
        self._robot.ended = True
        await super().shutdown(sockets)


class _Headers:
    """Adds HEADERS to each response that does not set them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                there = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(one for one in HEADERS if one[0] not in there)]
            await send(message)

        await self._app(scope, receive, sent)


async def _order(robot: Robot, request: Request, give: Callable[[Any], str]) -> Response:
    """Check token, origin and body of an order, then give it."""
    if robot.token is None:
        return _error(403, READ_ONLY)
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), robot.token.encode()):
        return _error(401, FORGED)
    if (wrong := _foreign(request)) is not None:
        return wrong
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            return _error(413, f"an order has at most {MOST_BYTES} bytes")
    try:
        table = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        return _error(400, "the body is not JSON")
    return JSONResponse({"said": await run_in_threadpool(give, table)})


async def _events(robot: Robot) -> AsyncIterator[str]:
    """Yield server-sent events. A browser that does not read gets no more: nothing is queued for it."""
    robot.pages += 1
    try:
        number = 0
        while not robot.ended:
            yield _event("robot", robot.snapshot())
            if number % SHAPE_EVERY == 0:
                yield _event("shape", robot.feed.shape())
            number += 1
            await asyncio.sleep(PERIOD_S)
    finally:
        robot.pages -= 1


def _event(name: str, value: Any) -> str:
    return f"event: {name}\ndata: {json.dumps(value, separators=(',', ':'))}\n\n"


def _foreign(request: Request) -> Response | None:
    """Return the refusal of an order that the page of another site sends through somebody's browser."""
    origin = request.headers.get("origin")
    if origin is None or urlsplit(origin).netloc == request.headers.get("host"):
        return None
    return _error(403, f"orders of the page {origin[:80]} are not taken")


def _sender(request: Request) -> str:
    return request.client.host if request.client is not None else "-"


def _error(status: int, line: str) -> Response:
    return JSONResponse({"error": line}, status)


def _refused(status: int) -> Callable[[Request, Exception], Response]:
    return lambda request, error: _error(status, " ".join(str(error).split()))
