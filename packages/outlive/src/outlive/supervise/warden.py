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

from outlive.client import ApiRefused, Client, EngineAway, part
from outlive.supervise.children import Child, Children, boot_s, how_it_ended
from outlive.supervise.reports import Reports, Told
from outlive.supervise.worker import CANNOT_LOAD, REFUSED, Spec

__all__ = ["Options", "Warden", "confirm_death"]

log = logging.getLogger("outlive.warden")

LOOK_S: Final = 0.2
"""How often the lease is looked at: a machine that slept wakes with a lease that is over."""
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


@dataclass(slots=True)
class _Lease:
    told: Told
    until_s: float
    """When another may have the session, less a margin."""


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
        self._lease: _Lease | None = None
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
        reports = Reports(reading)
        had = False

        def read() -> None:
            nonlocal had
            for told in reports.read():
                had = True
                self._hold(told)

        loop.add_reader(reading, read)
        keeper = loop.create_task(self._keep(child))
        try:
            status = await child.ended
            read()
        finally:
            loop.remove_reader(reading)
            os.close(reading)
            keeper.cancel()
            self._child = None
            lease, self._lease = self._lease, None
        if lease is not None:
            task = loop.create_task(confirm_death(self._client, lease.told))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return status, boot_s() - child.started_s, had

    # --- the lease ---

    def _hold(self, told: Told) -> None:
        if not told.session:
            return
        # The engine counts from its answer to the worker, which came before this line.
        ttl_s = told.ttl_ms / 1000
        self._lease = _Lease(told, boot_s() + ttl_s - _margin_s(ttl_s) - _told_late_s(ttl_s))
        self._report(told)

    async def _keep(self, child: Child) -> None:
        """Renew in good time; kill when that did not work out in time."""
        renewing: asyncio.Task[None] | None = None
        due_s = 0.0
        last: Told | None = None
        try:
            while child.alive:
                lease = self._lease
                now = boot_s()
                if lease is None:
                    await self._pause(LOOK_S)
                    continue
                ttl_s = lease.told.ttl_ms / 1000
                if lease.told is not last:
                    last, due_s = lease.told, now
                if now >= lease.until_s:
                    why = "it is stopped" if child.stopped else "no renewal was acknowledged"
                    log.warning("killing worker %d before its lease ends: %s", child.pid, why)
                    child.kill()
                    await asyncio.shield(child.ended)
                    return
                if now >= due_s and not child.stopped and (renewing is None or renewing.done()):
                    due_s = now + ttl_s / 4
                    renewing = asyncio.get_running_loop().create_task(self._renew(child, lease))
                wait_s = min(LOOK_S, max(0.005, lease.until_s - now), ttl_s / 8)
                await self._pause(wait_s)
        finally:
            if renewing is not None:
                renewing.cancel()

    @staticmethod
    async def _pause(seconds: float) -> None:
        # Leases are watched by the clock, and nothing tells when a clock has come to an instant.
        await asyncio.sleep(seconds)

    async def _renew(self, child: Child, lease: _Lease) -> None:
        told = lease.told
        sent_s = boot_s()
        client = Client(self._options.engine, timeout_s=max(0.2, told.ttl_ms / 4000))
        try:
            await asyncio.to_thread(
                client.post, f"/v1/sessions/{part(told.session)}/beat", {"token": told.token}
            )
        except EngineAway as error:
            log.info("%s", error)
        except ApiRefused as error:
            # Over, and perhaps another's; unless the worker has a new one by now.
            if error.status in {403, 410} and self._lease is lease:
                log.warning("killing worker %d: %s", child.pid, error)
                child.kill()
        else:
            ttl_s = told.ttl_ms / 1000
            lease.until_s = max(lease.until_s, sent_s + ttl_s - _margin_s(ttl_s))


def _margin_s(ttl_s: float) -> float:
    """How long killing and reaping may take, with the unrest of a busy machine."""
    return min(1.0, ttl_s / 5)


def _told_late_s(ttl_s: float) -> float:
    """How old the news of a session may be; its first renewal follows at once."""
    return min(0.5, ttl_s / 5)


async def confirm_death(client: Client, told: Told) -> None:
    """Tell the engine that a worker has ended, until it knows or its lease has ended anyway."""
    end_s = boot_s() + told.ttl_ms / 1000
    wait_s = 0.01
    while boot_s() < end_s:
        try:
            await asyncio.to_thread(
                client.post, f"/v1/sessions/{part(told.session)}/dead", {"token": told.token}
            )
        except EngineAway:
            await asyncio.sleep(wait_s)
            wait_s = min(0.25, wait_s * 2)
        except ApiRefused as error:
            if error.status != 503:
                return  # it ended by itself, or this engine never had it
            await asyncio.sleep(wait_s)
        else:
            return
