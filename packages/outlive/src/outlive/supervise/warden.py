"""The warden: the parent of one worker, with no user code in it, that keeps its lease honest.

It renews the lease for as long as the worker's process lives and is not stopped, whatever a step
does with the interpreter in there. When no renewal was acknowledged in time it kills and reaps the
worker before the lease ends, and when the worker has ended it says so to the engine at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from outlive.client import Client
from outlive.supervise.children import Child, Children, boot_s, how_it_ended
from outlive.supervise.lease import Keeper, confirm_death
from outlive.supervise.reports import Reports, Told
from outlive.supervise.worker import CANNOT_LOAD, REFUSED, Spec

__all__ = ["Options", "Warden"]

log = logging.getLogger("outlive.warden")

DRAIN_S: Final = 20.0
"""How long a worker that was told to stop may take: its own limits, and a little."""
BACKOFF_S: Final = (0.1, 5.0)
STEADY_S: Final = 10.0
"""A worker that lived so long is started again at once."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a warden's worker is to do."""

    target: str
    engine: str
    name: str
    room: int = 1000
    threads: int = 64
    replay_always: bool = False
    log_level: str = "WARNING"


class Warden:
    """One worker at a time, started again when it ends; `stop` ends both.

    `report` is told of each session, and of each worker before it has one.
    """

    def __init__(
        self, options: Options, *, report: Callable[[Told], object] = lambda _told: None
    ) -> None:
        self._options = options
        self._report = report
        self._client = Client(options.engine, timeout_s=2.0)
        self._child: Child | None = None
        self._stopping = asyncio.Event()
        self._stops = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def stop(self) -> None:
        """Let the worker finish what runs, then end; the second time, end it at once."""
        self._stops += 1
        self._stopping.set()
        child = self._child
        if child is not None:
            if self._stops > 1:
                child.kill()
            else:
                child.send(signal.SIGCONT)
                child.send(signal.SIGTERM)
                asyncio.get_running_loop().call_later(DRAIN_S, child.kill)

    async def run(self) -> int:
        """Until `stop`, or until there is no sense in another worker; returns an exit status."""
        children = Children()
        failures = 0
        try:
            while True:
                status, lived_s, ready = await self._live(children)
                if self._stopping.is_set():
                    return 0
                if status == REFUSED or (status == CANNOT_LOAD and not ready and failures == 0):
                    return status
                failures = 1 if lived_s > STEADY_S else failures + 1
                first, most = BACKOFF_S
                wait_s = 0.0 if lived_s > STEADY_S else min(most, first * 2 ** (failures - 1))
                log.warning(
                    "worker of %s %s after %.1f s; the next one starts in %.1f s",
                    self._options.name,
                    how_it_ended(status),
                    lived_s,
                    wait_s,
                )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._stopping.wait()
                if self._stopping.is_set():
                    return 0
        finally:
            children.close()
            if self._tasks:
                await asyncio.wait(self._tasks, timeout=2.0)
            for task in self._tasks:
                task.cancel()

    async def _live(self, children: Children) -> tuple[int, float, bool]:
        """One worker's life: its status, how long it was, whether it ever had a session."""
        options = self._options
        reading, writing = os.pipe()
        spec = Spec(
            target=options.target,
            engine=options.engine,
            name=options.name,
            room=options.room,
            threads=options.threads,
            replay_always=options.replay_always,
            log_level=options.log_level,
            warden=os.getpid(),
            report=writing,
        )
        command = [sys.executable, "-m", "outlive.supervise.worker"]
        command.append(msgspec.json.encode(spec).decode())
        try:
            child = self._child = children.start(command, pass_fds=[writing])
        finally:
            os.close(writing)
        self._report(Told(child.pid))
        if self._stopping.is_set():
            child.send(signal.SIGTERM)
        loop = asyncio.get_running_loop()
        keeper = Keeper(child, options.engine)
        reports = Reports(reading)
        had = False

        def read() -> None:
            nonlocal had
            for told in reports.read():
                had = True
                if told.session:
                    keeper.hold(told)
                    self._report(told)
                else:
                    keeper.let_go()

        loop.add_reader(reading, read)
        keeping = loop.create_task(keeper.run())
        try:
            status = await child.ended
            read()
        finally:
            loop.remove_reader(reading)
            os.close(reading)
            keeping.cancel()
            self._child = None
        if keeper.told is not None:
            task = loop.create_task(confirm_death(self._client, keeper.told))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return status, boot_s() - child.started_s, had
