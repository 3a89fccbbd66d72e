"""The process that runs an app's workflows: one session, one link, until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import platform
import random
import signal
import socket as sockets
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from outlive.sdk import socket
from outlive.sdk.app import App
from outlive.sdk.errors import EngineRefused
from outlive.sdk.session import OnSession, Session

__all__ = ["Runner", "backoff_s"]

ENGINE: Final = "http://127.0.0.1:6770"
DRAIN_S: Final = 10.0
"""How long bodies may run on after SIGTERM."""
RECORD_S: Final = 5.0
"""How long to wait after that for their results to be recorded."""
THREADS: Final = 64
BACKOFF_S: Final = (0.05, 2.0)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_log = logging.getLogger("outlive.sdk")


def backoff_s(failures: int, rng: random.Random) -> float:
    """Seconds before the next try to connect, after that many failures in a row (from 1 on)."""
    first, most = BACKOFF_S
    return min(most, first * float(1 << min(failures - 1, 30))) * (0.5 + rng.random() / 2)


class Runner:
    """Runs the workflows of an app for an engine.

    `room` is how many runs it takes at once, `threads` how many `def` steps run at once (64),
    `name` what it is called in lists. With `replay_always` each run is replayed after each entry,
    to find code that drifts; it is slow. `supervised` says that another process renews the lease
    with what `on_session` tells, and ends this one before the lease does.
    """

    def __init__(
        self,
        app: App,
        engine: str = ENGINE,
        *,
        key: str = "",
        room: int = 1000,
        threads: int | None = None,
        name: str | None = None,
        replay_always: bool = False,
        supervised: bool = False,
        on_session: OnSession | None = None,
    ) -> None:
        for what, number in (("room", room), ("threads", THREADS if threads is None else threads)):
            if type(number) is not int or number < 1:
                raise ValueError(f"Runner {what}={number!r}: a whole number from 1 on")
        self.app = app
        self.name = name or f"{sockets.gethostname()}:{os.getpid()}"
        self._uri = socket.address(engine)
        self._key = key
        self._room = room
        self._threads = threads or THREADS
        self._replay_always = replay_always
        self._supervised = supervised
        self._on_session = on_session
        self._random = random.Random()
        self._stop: asyncio.Event | None = None
        self._stops = 0

    def on_session(self, callback: OnSession) -> OnSession:
        """Have `callback(session, token, ttl_ms)` called whenever the engine names the session.

        And with ("", "", 0) before it says goodbye: from then on there is nothing to renew.
        """
        self._on_session = callback
        return callback

    def run(self) -> None:
        """Run until SIGTERM or SIGINT; raises EngineRefused."""
        try:
            import uvloop
        except ImportError:
            asyncio.run(self.serve())
        else:
            uvloop.run(self.serve())

    def stop(self) -> None:
        """As SIGTERM: start no new body, wait for those that run, then end; twice: at once."""
        self._stops += 1
        if self._stops > 1:
            # Bodies in threads would hold up an orderly exit.
            os._exit(130)
        if self._stop is not None:
            self._stop.set()

    async def serve(self) -> None:
        """Run until `stop`, in a loop of one's own; raises EngineRefused."""
        loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._stops = 0
        threads = ThreadPoolExecutor(self._threads, thread_name_prefix="outlive")
        session = Session(
            self.app,
            loop=loop,
            threads=threads,
            clock=_clock(),
            runner=self.name,
            room=self._room,
            key=self._key,
            versions={"python": platform.python_version()},
            replay_always=self._replay_always,
            supervised=self._supervised,
            on_session=self._on_session,
        )
        handled = _SIGNALS if threading.current_thread() is threading.main_thread() else ()
        for number in handled:
            loop.add_signal_handler(number, self.stop)
        link = loop.create_task(self._dial(session))
        stopped = loop.create_task(self._stop.wait())
        try:
            await asyncio.wait({link, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not link.done():
                await self._drain(session, link)
        finally:
            session.lose()
            link.cancel()
            stopped.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({link, stopped})
            for number in handled:
                loop.remove_signal_handler(number)
            threads.shutdown(wait=False, cancel_futures=True)
        if not link.cancelled():
            link.result()

    async def _dial(self, session: Session) -> None:
        from websockets.exceptions import WebSocketException

        failures = 0
        while True:
            links = session.links
            try:
                await socket.hold(self._uri, session)
            except (OSError, TimeoutError, WebSocketException) as error:
                _log.info("no link to %s: %s", self._uri, error)
            if session.refused:
                raise EngineRefused(session.refused)
            if session.over:
                return
            failures = 1 if session.links != links else failures + 1
            await asyncio.sleep(backoff_s(failures, self._random))

    async def _drain(self, session: Session, link: asyncio.Task[None]) -> None:
        changed = asyncio.Event()
        session.changed = changed.set
        session.draining = True
        await _until(lambda: session.running == 0, changed, DRAIN_S)
        if session.welcomed:
            await _until(lambda: session.owed == 0 or not session.welcomed, changed, RECORD_S)
        if session.welcomed:
            session.bye()
            session.hang_up()
            await asyncio.wait({link}, timeout=1.0)


async def _until(holds: Callable[[], bool], changed: asyncio.Event, limit_s: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(limit_s):
            while not holds():
                changed.clear()
                await changed.wait()


def _clock() -> Callable[[], float]:
    """Seconds that go on while the machine sleeps, where the system has such a clock."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic if boot is None else lambda: time.clock_gettime(boot)
