"""The HTTP server of the page: what it shows, and what it says to the robot. Starlette; without a build step.

| path | what it is |
|---|---|
| `GET /`, `/*.js`, `/page.css` | the page |
| `GET /api/robot` | one snapshot |
| `GET /api/live` | server-sent events: `robot` at 5 Hz, `shape` (paths, footprint, places, masks) at 1 Hz |
| `GET /api/map.png`, `/api/keep_out.png` | obstacles of the map, and forbidden ground |
| `GET /api/reasons` | the table of reasons |
| `GET /api/recordings`, `/api/recordings/NAME`, `/api/recordings/NAME/report` | list, download, report |
| `GET /metrics` | for Prometheus |
| `POST /api/stop` | the latched stop: always there, without a token |
| `POST /api/goal`, `route`, `pause`, `resume`, `cancel` | with `--allow-control` and `Authorization: Bearer TOKEN` |
| `POST /api/pose`, `place`, `keep_out`, `recordings/NAME/keep` | likewise |
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import html
import json
import re
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as HttpRoute

from onboard.commands.operator.dashboard.feed import Feed, layer
from onboard.commands.operator.dashboard.guard import Connection, Guard, crowded
from onboard.commands.operator.dashboard.keep_out import KeepOut
from onboard.commands.operator.dashboard.metrics import metrics
from onboard.commands.operator.dashboard.orders import Operator, Orders
from onboard.commands.operator.dashboard.recordings import Recordings
from onboard.commands.operator.dashboard.route import Route
from onboard.commands.operator.dashboard.stop import Stop
from onboard.config.config import Config
from onboard.config.places import load_places, places_file
from onboard.safety.keepout_zones import DIGITS, KEEP_OUT
from onboard.values.errors import InputError, OnboardError
from onboard.values.reasons import TABLE

PAGE = Path(__file__).parent / "page"
FILES = {
    "/": ("index.html", "text/html"),
    **{f"/{name}.js": (f"{name}.js", "text/javascript") for name in ("plane", "orders", "page")},
    "/page.css": ("page.css", "text/css"),
}
PERIOD_S, SHAPE_EVERY = 0.2, 5
MOST_PAGES, MOST_OF_CLIENT = 40, 12
"""Open streams, of all and of one address; one more closes the oldest, of the address that has most."""
GRACE_S, BACKLOG = 3, 128
"""Time for requests when the server ends; and connections that may wait to be taken."""
MOST_BYTES, MOST_STROKE_BYTES = 4096, 200_000
"""Of the body of an order, and of strokes of the brush."""
STOPS = "x-stops"
"""Header of an order: the presses of the stop that its page has shown."""
REFRESH = '<meta http-equiv="refresh" content="1">'
WAITING = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>report</title>{head}
<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,"><link rel="stylesheet" href="/page.css"></head>
<body><main><section><p>{line}</p></section></main></body></html>
"""
"""The page in place of a report that is being made, or that there is not."""
READ_ONLY = "this page only reads: start it with --allow-control"
FORGED = "the token is missing or wrong: open the address that `onboard dashboard` printed"


@dataclass(eq=False, slots=True)
class Page:
    """An open page. client: its address; open: it gets events"""

    client: str
    open: bool = True


@dataclass(slots=True)
class Robot:
    """What the server speaks for. token: None without `--allow-control`; pages: that are open, the oldest first"""

    config: Config
    feed: Feed
    stop: Stop
    orders: Orders
    recordings: Recordings
    token: str | None
    route: Route = field(init=False)
    keep_out: KeepOut = field(init=False)
    pages: list[Page] = field(default_factory=list, init=False)
    _made: dict[str, tuple[float, str]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.route, self.keep_out = Route(self.feed, self.orders), KeepOut(self.config)

    def opened(self, client: str) -> Page:
        """Return a new page; close the oldest one where there are too many."""
        self.pages.append(Page(client))
        crowd = crowded((page.client for page in self.pages), client, MOST_OF_CLIENT, MOST_PAGES)
        if crowd is not None:
            self.close(next(page for page in self.pages if page.client == crowd))
        return self.pages[-1]

    def close(self, page: Page) -> None:
        """Let a page have no more events. Safe to call twice."""
        page.open = False
        with contextlib.suppress(ValueError):
            self.pages.remove(page)

    def snapshot(self) -> dict[str, Any]:
        """Return what the page draws."""
        own = {
            "stopped": self.stop.pressed,
            "stopped_by": self.stop.by,
            "presses": self.stop.presses,
            "order": self.orders.newest,
            "control": self.token is not None,
            "takes_no_pose": self.orders.takes_no_pose(),
        }
        return {**self.feed.snapshot(), **own, "route": self.route.state()}

    def shape(self) -> dict[str, Any]:
        """Return what changes rarely; reads files. problems: of the files of places and of the mask"""
        shape, problems = self.feed.shape(), []
        try:
            places = {} if self.config.map.file is None else load_places(places_file(self.config))
            shape["places"] = {name: [one.x_m, one.y_m, one.pose.yaw_rad] for name, one in places.items()}
        except OnboardError as error:
            problems.append(str(error))
        try:
            if (mask := self.keep_out.mask()) is not None:
                in_force = self.feed.values().get(KEEP_OUT) == mask.grid.digest[:DIGITS]
                effect = "" if in_force or not mask.grid.occupied.any() else self.keep_out.effect()
                shape["keep_out"] = {**layer(mask.grid), "number": mask.grid.digest[:DIGITS], "effect": effect}
        except OnboardError as error:
            problems.append(str(error))
        return {**shape, "problems": problems}

    def paint(self, table: Any, operator: Operator) -> str:
        """Paint into the keep-out mask."""
        said = self.keep_out.paint(table)
        self.orders.note("keep-out", operator)
        return said

    def event(self, name: str, make: Callable[[], Any]) -> str:
        """Return a server-sent event, made once for all pages of a period."""
        made_s, text = self._made.get(name, (-PERIOD_S, ""))
        if time.monotonic() - made_s >= 0.9 * PERIOD_S:
            text = f"event: {name}\ndata: {json.dumps(make(), separators=(',', ':'))}\n\n"
            self._made[name] = time.monotonic(), text
        return text


def app(robot: Robot, hosts: Sequence[str]) -> Starlette:
    """Return the application. hosts: names that it answers to, besides its own"""
    routes = [
        *(HttpRoute(path, _page) for path in FILES),
        HttpRoute("/api/robot", _snapshot),
        HttpRoute("/api/live", _live),
        HttpRoute("/api/map.png", _map),
        HttpRoute("/api/keep_out.png", _keep_out),
        HttpRoute("/api/reasons", _reasons),
        HttpRoute("/api/recordings", _recordings),
        HttpRoute("/api/recordings/{name}", _download),
        HttpRoute("/api/recordings/{name}/report", _report),
        HttpRoute("/api/recordings/{name}/keep", _keep, methods=["POST"]),
        HttpRoute("/metrics", _metrics),
        HttpRoute("/api/stop", _stop, methods=["POST"]),
        *(HttpRoute(f"/api/{name}", partial(_given, name), methods=["POST"]) for name in GIVEN),
    ]
    refused = {
        HTTPException: _unknown,
        InputError: _refused(400), OnboardError: _refused(503), OSError: _refused(503), ClientDisconnect: _refused(400),
    }  # fmt: skip
    made = Starlette(routes=routes, exception_handlers=refused, middleware=[Middleware(Guard, hosts=hosts)])
    made.state.robot = robot
    return made


class Server(uvicorn.Server):
    """Serves a robot's page on a socket until `should_exit` is set."""

    def __init__(self, robot: Robot, hosts: Sequence[str]) -> None:
        """hosts: of the options `--host` and `--allow-host`"""
        super().__init__(
            uvicorn.Config(
                app(robot, hosts), http=Connection, ws="none", backlog=BACKLOG, proxy_headers=False, log_level="error",
                timeout_graceful_shutdown=GRACE_S,
            )
        )  # fmt: skip
        self._robot = robot

    def stop(self) -> None:
        """End the server, from any thread or signal. Safe to call twice."""
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave the signals to the command: uvicorn would end the process before reports and wire are closed."""
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of open pages, then the server."""
        for page in [*self._robot.pages]:
            self._robot.close(page)
        await super().shutdown(sockets)


# ---- What is shown


def _robot(request: Request) -> Robot:
    robot: Robot = request.app.state.robot
    return robot


async def _page(request: Request) -> Response:
    name, kind = FILES[request.url.path]
    return FileResponse(PAGE / name, media_type=kind)


async def _snapshot(request: Request) -> Response:
    robot = _robot(request)
    return JSONResponse({**robot.snapshot(), **await run_in_threadpool(robot.shape)})


async def _live(request: Request) -> Response:
    return StreamingResponse(_events(_robot(request), _address(request)), media_type="text/event-stream")


async def _map(request: Request) -> Response:
    picture = _robot(request).feed.picture()
    return Response(picture, media_type="image/png") if picture else _error(404, "there is no map")


async def _keep_out(request: Request) -> Response:
    mask = await run_in_threadpool(_robot(request).keep_out.mask)
    return Response(mask.picture, media_type="image/png") if mask else _error(404, "there is no map")


async def _reasons(request: Request) -> Response:
    rows = [{"code": row.code, "sentence": row.general, "clears": row.clears} for row in TABLE.values()]
    return JSONResponse({"reasons": rows})


async def _metrics(request: Request) -> Response:
    robot = _robot(request)
    return PlainTextResponse(metrics(robot.feed.status(), robot.feed.values(), robot.stop.pressed))


async def _recordings(request: Request) -> Response:
    return JSONResponse(await run_in_threadpool(_robot(request).recordings.listed))


async def _download(request: Request) -> Response:
    file = await run_in_threadpool(_robot(request).recordings.path, request.path_params["name"])
    return FileResponse(file, media_type="application/octet-stream", filename=file.name)


async def _report(request: Request) -> Response:
    try:
        page = await run_in_threadpool(_robot(request).recordings.report, request.path_params["name"])
    except OnboardError as error:
        if "text/html" not in request.headers.get("accept", ""):
            raise
        status = 400 if isinstance(error, InputError) else 503
        return HTMLResponse(WAITING.format(head="", line=html.escape(str(error))), status)
    if isinstance(page, str):
        return HTMLResponse(WAITING.format(head=REFRESH, line=html.escape(page)), 202)
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox"
    return FileResponse(page, media_type="text/html", headers={"Content-Security-Policy": policy})


async def _events(robot: Robot, client: str) -> AsyncIterator[str]:
    """Yield server-sent events. A browser that does not read gets no more: nothing is queued for it."""
    page, number = robot.opened(client), 0
    try:
        while page.open:
            yield robot.event("robot", robot.snapshot)
            if number % SHAPE_EVERY == 0:
                yield await run_in_threadpool(robot.event, "shape", robot.shape)
            number += 1
            await asyncio.sleep(PERIOD_S)
    finally:
        robot.close(page)


# ---- What is ordered


async def _stop(request: Request) -> Response:
    if (wrong := _foreign(request)) is not None:
        return wrong
    robot, address = _robot(request), _address(request)
    here = f"{socket.gethostname()}:{request.scope['server'][1]}"
    robot.stop.press(f"{time.strftime('%H:%M:%S')} from {address}, on the dashboard {here}")
    robot.route.end("stop")
    robot.orders.note("stop", Operator(address, robot.stop.presses))
    return JSONResponse({"stopped": True, "live": robot.feed.live, "presses": robot.stop.presses})


async def _given(name: str, request: Request) -> Response:
    most_bytes = MOST_STROKE_BYTES if name == "keep_out" else MOST_BYTES
    return await _order(request, partial(GIVEN[name], _robot(request)), most_bytes)


async def _keep(request: Request) -> Response:
    return await _order(request, lambda *_: _robot(request).recordings.keep(request.path_params["name"]))


def _cancel(robot: Robot, _table: Any, operator: Operator) -> str:
    robot.route.end("cancelled")
    return robot.orders.give("cancel", operator)


def _goal(robot: Robot, table: Any, operator: Operator) -> str:
    return robot.orders.goal(table, operator, robot.route.give_way)


GIVEN: dict[str, Callable[[Robot, Any, Operator], str]] = {
    "pause": lambda robot, _, operator: robot.orders.give("pause", operator),
    "resume": lambda robot, _, operator: robot.orders.give("resume", operator),
    "cancel": _cancel,
    "goal": _goal,
    "route": lambda robot, table, operator: robot.route.start(table, operator),
    "pose": lambda robot, table, operator: robot.orders.pose(table, operator),
    "place": lambda robot, table, operator: robot.orders.add_place(table, operator),
    "keep_out": lambda robot, table, operator: robot.paint(table, operator),
}
"""What each order does with its body and the operator who gives it; it returns what was done."""


async def _order(request: Request, give: Callable[[Any, Operator], str], most_bytes: int = MOST_BYTES) -> Response:
    """Check token, origin and body of an order, then give it. A stop while the body arrives is newer than the order."""
    robot = _robot(request)
    if robot.token is None:
        return _error(403, READ_ONLY)
    kind, _, token = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), robot.token.encode()):
        return _error(401, FORGED)
    if (wrong := _foreign(request)) is not None:
        return wrong
    operator, body = _operator(request), b""
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            return _error(413, f"the body of this order may have at most {most_bytes} bytes")
    try:
        table = json.loads(body or b"{}")
        json.dumps(table, ensure_ascii=False).encode()  # a lone surrogate is no text
    except (ValueError, RecursionError):
        return _error(400, "the body is not JSON")
    return JSONResponse({"said": await run_in_threadpool(give, table, operator)})


def _operator(request: Request) -> Operator:
    """Return who sends an order, with the presses of the stop that his page has shown, else those until now.

    Raises InputError for what is no count.
    """
    said = request.headers.get(STOPS)
    if said is not None and not re.fullmatch("[0-9]{1,9}", said):
        raise InputError(f"X-Stops: {said[:20]!r} is not a count of stops")
    return Operator(_address(request), _robot(request).stop.presses if said is None else int(said))


def _foreign(request: Request) -> Response | None:
    """Return the refusal of an order that the page of another site sends through somebody's browser."""
    origin = request.headers.get("origin")
    with contextlib.suppress(ValueError):  # no address at all: refused as another site's
        if origin is None or urlsplit(origin).netloc == request.headers.get("host"):
            return None
    return _error(403, f"orders from the page {(origin or '')[:80]} are not accepted")


def _address(request: Request) -> str:
    return request.client.host if request.client is not None else "-"


def _error(status: int, line: str) -> Response:
    return JSONResponse({"error": line}, status)


def _unknown(request: Request, error: Exception) -> Response:
    line = f"{request.method} {request.url.path[:80]} is not found: docs/operator.md lists the addresses"
    return _error(error.status_code if isinstance(error, HTTPException) else 404, line)


def _refused(status: int) -> Callable[[Request, Exception], Response]:
    return lambda request, error: _error(status, " ".join(str(error).split()))
