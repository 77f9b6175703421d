"""`onboard dashboard`: opens the wire, starts the server, prints its address."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import socket
import sys
from importlib.util import find_spec
from typing import Annotated
from urllib.parse import quote

import typer

from onboard.commands.cli import ConfigOption
from onboard.config.config import Config, load_config
from onboard.drivers.dds.participant import Wire
from onboard.system.signals import Signals
from onboard.values.errors import InputError, MissingExtraError

TOKEN = "ONBOARD_TOKEN"
SHORTEST = 16
FIRST_S = 2.0
UNREAD_S = 60.0
"""A browser that takes no byte for so long is cut off: it sleeps, or never reads."""
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def dashboard(
    config: ConfigOption = None,
    host: Annotated[str, typer.Option("--host", help="Address to listen on; 0.0.0.0 is every network.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free port.")] = 8080,
    allow_control: Annotated[
        bool, typer.Option("--allow-control", help="Accept goals, pause, resume and cancel, with a token.")
    ] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="Accept this host name of the machine too, such as robot.lan."
        ),
    ] = None,
    webhook: Annotated[
        str | None, typer.Option("--webhook", metavar="URL", help="Post each change of state to this address.")
    ] = None,
) -> None:
    """Serve one page that shows the running robot, why it stands, and its recordings, and that can always stop it."""
    loaded = load_config(config)
    if find_spec("starlette") is None or find_spec("uvicorn") is None:
        raise MissingExtraError("starlette and uvicorn", "dashboard")
    hosts = [host, *(allow_host or [])]
    for name in hosts[1:]:
        if not re.fullmatch(r"[\w.-]+", name):
            raise InputError(f"--allow-host: {name[:80]!r} is not a host name, such as robot.lan")
    token = _token() if allow_control else None
    with contextlib.closing(_listening(host, port)) as listening:
        bound = listening.getsockname()[1]
        name = f"[{host}]" if ":" in host else host
        address = f"http://{name}:{bound}/" + (f"#token={quote(token, safe='')}" if token else "")
        if host not in LOOPBACK:
            sys.stderr.write(
                f"warning: anyone who can reach {host} sees the robot and its recordings, without encryption\n"
            )
        sys.stderr.write(f"dashboard of {loaded.robot.name}: {address}\n")
        _serve(loaded, listening, hosts, token, webhook)


def _serve(config: Config, listening: socket.socket, hosts: list[str], token: str | None, webhook: str | None) -> None:
    from onboard.commands.operator.dashboard.feed import NO_RUNTIME, START, Feed
    from onboard.commands.operator.dashboard.metrics import Webhook
    from onboard.commands.operator.dashboard.orders import Orders
    from onboard.commands.operator.dashboard.recordings import Recordings
    from onboard.commands.operator.dashboard.server import Robot, Server
    from onboard.commands.operator.dashboard.stop import Stop

    hook = Webhook(webhook, config.robot.name) if webhook else None
    with Signals() as signals, contextlib.ExitStack() as held:
        wire = held.enter_context(contextlib.closing(Wire(config.dds)))
        notify = hook.note if hook else lambda status: None
        feed = held.enter_context(contextlib.closing(Feed(config, wire, notify)))
        mark = config.record.directory / f".{config.robot.name}-stop"
        stop = held.enter_context(contextlib.closing(Stop(config, wire, mark)))
        recordings = held.enter_context(contextlib.closing(Recordings(config.record.directory)))
        robot = Robot(config, feed, stop, Orders(config, wire, feed, stop), recordings, token)
        if not feed.heard(FIRST_S):
            sys.stderr.write(f"{NO_RUNTIME} yet on domain {wire.domain}, interface {config.dds.interface}. {START}\n")
        server = Server(robot, hosts)
        signals.stop_with(server.stop)
        server.run([listening])


def _token() -> str:
    """Return the token of the environment, or a new one. Raises InputError for one that can be guessed."""
    given = os.environ.get(TOKEN, "")
    if given and (len(given) < SHORTEST or not given.isascii() or not given.isprintable() or " " in given):
        raise InputError(
            f"{TOKEN}: {len(given)} characters, at least {SHORTEST} are needed, printable ones without spaces"
        )
    return given or secrets.token_urlsafe(SHORTEST)


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens. Raises InputError that names host and port."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(1e3 * UNREAD_S))
        listening.bind(address)
        listening.listen()
    except OSError as error:
        raise InputError(
            f"--host {host} --port {port}: {error.strerror or error}; choose another with --port"
        ) from error
    return listening
