"""One worker's lease, kept honest from outside of it: renewed while it runs, or else it is ended.

The engine gives a session to another when its lease is over, so that a worker whose lease cannot be
renewed, or must not be because it is stopped, is killed before.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final, Protocol

from outlive.client import ApiRefused, Client, EngineAway, part
from outlive.supervise.children import boot_s
from outlive.supervise.reports import Told

__all__ = ["Keeper", "Process", "confirm_death"]

log = logging.getLogger("outlive.warden")

LOOK_S: Final = 0.2
"""How often the lease is looked at: a machine that slept wakes with a lease that is over."""


class Process(Protocol):
    """A worker's process, as its keeper sees it."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    @property
    def alive(self) -> bool:
        """Whether it was not seen to end."""
        ...

    @property
    def stopped(self) -> bool:
        """Whether a signal has stopped it, so that it runs nothing."""
        ...

    @property
    def ended(self) -> asyncio.Future[int]:
        """Its exit status, once it has one."""
        ...

    def kill(self) -> None:
        """SIGKILL it and what it started."""
        ...


@dataclass(slots=True)
class _Lease:
    told: Told
    until_s: float
    """When another may have the session, less a margin."""


class Keeper:
    """Keeps the lease of one process: `hold` what it says of its session, and `run` beside it."""

    def __init__(self, process: Process, engine: str) -> None:
        self._process = process
        self._engine = engine
        self._lease: _Lease | None = None
        self.told: Told | None = None
        """The last session that the process had."""

    def hold(self, told: Told) -> None:
        """The process has this session from now on."""
        self.told = told
        # The engine counts from its answer to the worker, which came before this line.
        ttl_s = told.ttl_ms / 1000
        self._lease = _Lease(told, boot_s() + ttl_s - _margin_s(ttl_s) - _told_late_s(ttl_s))

    def let_go(self) -> None:
        """It is about to say goodbye: there is nothing to renew, and it may end in peace."""
        self._lease = None

    async def run(self) -> None:
        """Renew in good time; kill when that did not work out in time. Until it has ended."""
        process = self._process
        renewing: asyncio.Task[None] | None = None
        due_s = 0.0
        last: Told | None = None
        try:
            while process.alive:
                lease = self._lease
                now = boot_s()
                if lease is None:
                    await self._pause(LOOK_S)
                    continue
                ttl_s = lease.told.ttl_ms / 1000
                if lease.told is not last:
                    last, due_s = lease.told, now
                if now >= lease.until_s:
                    why = "it is stopped" if process.stopped else "no renewal was acknowledged"
                    log.warning("killing worker %d before its lease ends: %s", process.pid, why)
                    process.kill()
                    await asyncio.shield(process.ended)
                    return
                if now >= due_s and not process.stopped and (renewing is None or renewing.done()):
                    due_s = now + ttl_s / 4
                    renewing = asyncio.get_running_loop().create_task(self._renew(lease))
                wait_s = min(LOOK_S, max(0.005, lease.until_s - now), ttl_s / 8)
                await self._pause(wait_s)
        finally:
            if renewing is not None:
                renewing.cancel()

    @staticmethod
    async def _pause(seconds: float) -> None:
        # Leases are watched by the clock, and nothing tells when a clock has come to an instant.
        await asyncio.sleep(seconds)

    async def _renew(self, lease: _Lease) -> None:
        told = lease.told
        sent_s = boot_s()
        client = Client(self._engine, timeout_s=max(0.2, told.ttl_ms / 4000))
        try:
            await asyncio.to_thread(
                client.post, f"/v1/sessions/{part(told.session)}/beat", {"token": told.token}
            )
        except EngineAway as error:
            log.info("%s", error)
        except ApiRefused as error:
            # Over, and perhaps another's; unless the worker has a new one by now.
            if error.status in {403, 410} and self._lease is lease:
                log.warning("killing worker %d: %s", self._process.pid, error)
                self._process.kill()
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
