"""Serving an application over HTTP, from start to shutdown, and passing the socket on at a restart."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import socket
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import structlog
import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from cobblestone.domain.errors import ConfigError
from cobblestone.ops.environment import inherited_listener, notify, replace_process
from cobblestone.ops.settings import ServerSection
from cobblestone.service.context import ProcessContext
from cobblestone.service.diagnosis import readable_by_others, secret_settings
from cobblestone.service.http.connections import DrainingServer, close_silent_connections, connection_class
from cobblestone.service.http.lean import lean_connection_class
from cobblestone.service.supervision import keep_running

log = structlog.get_logger(__name__)

C = TypeVar("C", bound=ProcessContext)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(Generic[C]):
    """What runs as a service: one process with a web application and daemons."""

    running: str  #: name of the event in the log when it answers
    stopped: str  #: and when it has ended
    command: tuple[str, ...]  #: starts one; with --check it tells whether one could start
    open: Callable[[Path], AbstractContextManager[C]]  #: its folder, and all that it holds
    server: Callable[[C], ServerSection]  #: its settings: where it listens and what it accepts
    app: Callable[[C], Starlette]  #: made by `application`
    daemons: Callable[[C], AbstractAsyncContextManager[None]]  #: while requests are answered


def run_service(
    service: Service[C],
    root: Path,
    *,
    host: str | None = None,
    port: int | None = None,
    ready: Callable[[C], None] | None = None,
    **said: object,
) -> None:
    """Open a service, serve it until it is told to stop (SIGINT, SIGTERM), and replace the process on SIGHUP.

    ``host`` and ``port`` replace those of the settings; a socket that a service manager or the process before this one holds is
    taken instead.  ``ready`` tells people that it runs; the log says so with ``said``.

    Raises:
        ConfigError: the folder or its settings are wrong, or the address is in use or not ours.
        Busy: another process has it open.
    """
    inherited = inherited_listener()
    with service.open(root) as ctx:
        server = service.server(ctx)
        ctx.started = ctx.clock()
        for found in readable_by_others(root, secret_settings(root)):
            log.warning("secret_readable_by_others", file=str(root / found.kind), advice="chmod 600")
        tune_gc()
        with contextlib.ExitStack() as stack:
            listener = stack.enter_context(
                inherited
                or bind_socket(server.host if host is None else host, server.port if port is None else port)
            )
            ctx.listens = listener.getsockname()[:2]
            # The server closes its own copy as soon as it ends; in this one connections wait for the next process.
            held = stack.enter_context(listener.dup())
            runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
            if again := runner.run(_serve(service, ctx, listener, root.resolve(), ready, said)):
                stack.pop_all()
    if again:
        replace_process(held)


async def _serve(
    service: Service[C],
    ctx: C,
    listener: socket.socket,
    root: Path,
    ready: Callable[[C], None] | None,
    said: Mapping[str, object],
) -> bool:
    """Answer requests until a signal ends it; return whether to start again."""
    folder, settings = str(root), service.server(ctx)
    server = _http_server(service, ctx, settings, folder)
    async with service.daemons(ctx):
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        guard = asyncio.create_task(
            keep_running("guard", partial(close_silent_connections, server, settings.idle_seconds)),
            name="guard",
        )
        while not server.started and not serving.done():  # noqa: ASYNC110  # uvicorn offers no event for it
            await asyncio.sleep(0.01)
        server.listen_to_signals()
        if ready is not None:  # first: people read this one
            with contextlib.suppress(OSError):  # it cannot be read, on a full disk for example
                ready(ctx)
        log.info(
            service.running, url=ctx.master_url, folder=folder, **said, port=ctx.listens[1], pid=os.getpid()
        )
        notify("READY=1")
        try:
            await serving
        finally:
            guard.cancel()
            notify("RELOADING=1" if server.restart else "STOPPING=1")
    log.info(service.stopped, folder=folder)
    return server.restart


def _http_server(service: Service[C], ctx: C, settings: ServerSection, folder: str) -> DrainingServer:
    """Return the server of a service's application, which asks a new process whether it could take over."""
    app = service.app(ctx)
    connections: type[asyncio.Protocol] = connection_class(settings.max_connections)
    busy: Mapping[str, ASGIApp] = app.state.busy
    if busy:
        apps = {path: _behind_proxies(each, settings.trusted_proxies) for path, each in busy.items()}
        connections = lean_connection_class(connections, apps)
    config = uvicorn.Config(
        app,
        http=connections,
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=max(1, int(settings.drain_seconds)),
        lifespan="off",
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=settings.trusted_proxies,
    )
    check = (*service.command, "--check", folder)
    return DrainingServer(config, ctx, drain_seconds=settings.drain_seconds, check=check)


def _behind_proxies(app: ASGIApp, trusted: str) -> ASGIApp:
    """Return an application that recovers the sender of requests through trusted proxies."""
    if not trusted:
        return app
    # The two libraries describe the same interface with types of their own.
    told = cast("ASGIApp", ProxyHeadersMiddleware(cast("Any", app), trusted_hosts=trusted))

    async def choose(scope: Scope, receive: Receive, send: Send) -> None:
        for name, _ in scope["headers"]:
            if name.startswith(b"x-forwarded-"):
                await told(scope, receive, send)
                return
        await app(scope, receive, send)

    return choose


def bind_socket(host: str, port: int) -> socket.socket:
    """Open the listening socket.

    Raises:
        ConfigError: the address is in use or not ours; the text says what to do.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"Cannot listen on {host}:{port}: {error.strerror}. Stop the program that uses it, or change [server] port"
            " (and project.url) in the settings."
        ) from error
    return listener


def tune_gc() -> None:
    """Make the garbage collector ignore objects made before the start, and run less often.

    Requests and batches make many small values that die by themselves; searching them for cycles over and over costs a
    sixth of the validator's time.  Each search stops all threads, so it is not over too many: half a millisecond.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 10, 1_000)
