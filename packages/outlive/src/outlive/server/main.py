"""The engine's process: one store, one port, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

import uvicorn

from outlive.server.asgi import Asgi
from outlive.server.engine import Engine, Leases
from outlive.server.ports import SystemClock, TestClock
from outlive.store.open import open_store
from outlive.wire.native_v1 import FRAME_MAX

__all__ = ["CannotServe", "Options", "serve"]

GRACE_S: Final = 2
"""Seconds that requests have to end once the engine was told to stop."""
BACKLOG: Final = 4096
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
GC_THRESHOLD: Final = 50_000
"""Objects between collections: what an engine keeps for long is not garbage."""


class CannotServe(RuntimeError):
    """The engine cannot start; the message is one line with the remedy."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `outlive engine` was told."""

    store: str
    host: str = "127.0.0.1"
    port: int = 6770
    key: str = ""
    test_clock: bool = False
    leases: Leases = field(default_factory=Leases)


async def serve(options: Options, ready: Callable[[str], None]) -> None:
    """Serve until SIGTERM or SIGINT; `ready` is told the address once everything answers.

    Raises CannotServe, StoreFault and StoreBusy before that.
    """
    if not options.key and not _loopback(options.host):
        raise CannotServe(
            f"--listen {options.host} is reachable from other machines: set OUTLIVE_KEY, which "
            "runners and clients then have to give, or listen on 127.0.0.1"
        )
    listener = _listen(options.host, options.port)
    with contextlib.closing(listener):
        engine = Engine(
            open_store(options.store),
            clock=TestClock() if options.test_clock else SystemClock(),
            leases=options.leases,
        )
        await engine.open()
        gc.collect()
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 50)
        app = Asgi(engine, key=options.key)
        server = _Server(_config(app), lambda: ready(_url(listener)), engine.stop_waiting)
        try:
            await server.serve(sockets=[listener])
        finally:
            await engine.close()


class _Server(uvicorn.Server):
    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], stopping: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._ready = ready
        self._stopping = stopping

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping()
        await super().shutdown(sockets)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # The base's raises the signal again when it has served, and so ends the process before the
        # store is closed.
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in SIGNALS:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in SIGNALS:
                loop.remove_signal_handler(number)


def _config(app: Asgi) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="none",
        http="httptools",
        ws="websockets-sansio",
        ws_max_size=FRAME_MAX,
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_graceful_shutdown=GRACE_S,
    )


def _loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise CannotServe(
            f"cannot listen on {host}:{port}: {error.strerror}; is another engine there? "
            "--listen HOST:PORT chooses another address, port 0 a free one"
        ) from None
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def run(options: Options, ready: Callable[[str], None]) -> None:
    """`serve` in a loop of its own, the fastest there is."""
    try:
        import uvloop

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    with runner:
        runner.run(serve(options, ready))
