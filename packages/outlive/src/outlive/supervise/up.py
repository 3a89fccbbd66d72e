"""`outlive up`: an engine and some wardens on one machine, each started again when it ends.

All of them end with this process, in whatever way it ends. When a warden is killed, its worker dies
with it, and we, who outlive both, tell the engine so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from outlive.client import Client
from outlive.supervise.children import Child, Children, boot_s, how_it_ended
from outlive.supervise.lease import confirm_death
from outlive.supervise.reports import Reports, Told
from outlive.supervise.worker import CANNOT_LOAD

__all__ = ["EngineOptions", "Up", "UpFailed"]

log = logging.getLogger("outlive.up")

READY_S: Final = 30.0
"""How long an engine may take to answer."""
STOP_S: Final = 25.0
"""How long all may take to end: a warden's own limit, and a little."""
BACKOFF_S: Final = (0.1, 5.0)
STEADY_S: Final = 10.0


class UpFailed(RuntimeError):
    """It cannot run; the message is one line, or empty when a child has said why."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """How the engine is started: options of `outlive engine` and where it listens."""

    host: str
    port: int
    options: list[str] = field(default_factory=list)


class Up:
    """`run` until `stop`. `say` is told what a person may want to see, a line each."""

    def __init__(
        self,
        engine: EngineOptions,
        warden: list[str],
        runners: int,
        *,
        say: Callable[[str], object],
    ) -> None:
        self._engine = engine
        self._warden = warden
        self._runners = runners
        self._say = say
        self._port = engine.port
        self._url = ""
        self._stopping = asyncio.Event()
        self._kill = asyncio.Event()
        self._failed = ""
        self._broken = False

    def stop(self) -> None:
        """Let what runs finish, then end; the second time, end at once."""
        if self._stopping.is_set():
            self._kill.set()
        self._stopping.set()

    async def run(self) -> None:
        """Until `stop`; raises UpFailed when an engine or the app cannot start at all."""
        children = Children()
        try:
            engine = await self._start_engine(children)
            loop = asyncio.get_running_loop()
            keepers = [loop.create_task(self._keep_engine(children, engine))]
            keepers += [
                loop.create_task(self._keep_warden(children, n + 1)) for n in range(self._runners)
            ]
            try:
                await self._stopping.wait()
                # Wardens first: their workers still have results to hand in.
                await self._end(keepers[1:])
                await self._end(keepers[:1])
            finally:
                for keeper in keepers:
                    keeper.cancel()
                await asyncio.gather(*keepers, return_exceptions=True)
        finally:
            children.close()
        if self._broken:
            raise UpFailed(self._failed)

    def _give_up(self, why: str) -> None:
        self._broken, self._failed = True, why
        self._stopping.set()

    async def _end(self, keepers: list[asyncio.Task[None]]) -> None:
        for keeper in keepers:
            keeper.cancel()
        if not keepers:
            return
        kill = asyncio.get_running_loop().create_task(self._kill.wait())
        all_ended = asyncio.get_running_loop().create_task(asyncio.wait(keepers))
        try:
            await asyncio.wait(
                [kill, all_ended], return_when=asyncio.FIRST_COMPLETED, timeout=STOP_S
            )
        finally:
            kill.cancel()
            all_ended.cancel()

    # --- the engine ---

    async def _start_engine(self, children: Children) -> Child:
        reading, writing = os.pipe()
        host = f"[{self._engine.host}]" if ":" in self._engine.host else self._engine.host
        command = [sys.executable, "-m", "outlive", "engine", "--listen", f"{host}:{self._port}"]
        command += [*self._engine.options, "--ready-fd", str(writing), "--parent", str(os.getpid())]
        try:
            child = children.start(command, pass_fds=[writing])
        finally:
            os.close(writing)
        try:
            url = await self._first_line(reading, child)
        finally:
            os.close(reading)
        if not url:
            status = await child.ended
            raise UpFailed("" if status == CANNOT_LOAD else f"the engine {how_it_ended(status)}")
        self._url = url
        self._port = int(url.rpartition(":")[2])
        return child

    @staticmethod
    async def _first_line(descriptor: int, child: Child) -> str:
        loop = asyncio.get_running_loop()
        come: asyncio.Future[bytes] = loop.create_future()

        def read() -> None:
            loop.remove_reader(descriptor)
            come.set_result(os.read(descriptor, 4096))

        loop.add_reader(descriptor, read)
        try:
            async with asyncio.timeout(READY_S):
                return (await come).decode().strip()
        except TimeoutError:
            child.kill()
            raise UpFailed(f"the engine was not ready after {READY_S:g} s") from None
        finally:
            loop.remove_reader(descriptor)

    async def _keep_engine(self, children: Children, child: Child) -> None:
        self._say(f"engine {self._url}, process {child.pid}")
        backoff = _Backoff()
        try:
            while True:
                status = await asyncio.shield(child.ended)
                wait_s = backoff.after(child)
                self._say(f"the engine {how_it_ended(status)}; starting it again")
                await asyncio.sleep(wait_s)
                try:
                    child = await self._start_engine(children)
                except UpFailed as error:
                    log.warning(
                        "the engine did not start: %s", str(error) or "its own line says why"
                    )
                else:
                    self._say(f"engine {self._url}, process {child.pid}")
        finally:
            await _stopped(child)

    # --- wardens ---

    async def _keep_warden(self, children: Children, number: int) -> None:
        backoff = _Backoff()
        while True:
            status, child = await self._warden_life(children, number)
            if status == CANNOT_LOAD and boot_s() - child.started_s < STEADY_S:
                self._give_up("")
                return
            wait_s = backoff.after(child)
            self._say(f"warden {number} {how_it_ended(status)}; starting it again")
            await asyncio.sleep(wait_s)

    async def _warden_life(self, children: Children, number: int) -> tuple[int, Child]:
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "outlive", "runner", *self._warden]
        command += ["--engine", self._url, "--name", f"runner-{number}"]
        command += ["--report-fd", str(writing), "--parent", str(os.getpid())]
        try:
            child = children.start(command, pass_fds=[writing])
        finally:
            os.close(writing)
        loop = asyncio.get_running_loop()
        reports = Reports(reading)
        watch = _Watch(number, child, self._say)

        def read() -> None:
            for told in reports.read():
                watch.told(told)

        loop.add_reader(reading, read)
        try:
            status = await asyncio.shield(child.ended)
            read()
            await watch.confirm(self._url)
        except asyncio.CancelledError:
            await _stopped(child)
            raise
        finally:
            loop.remove_reader(reading)
            os.close(reading)
            watch.close()
        return status, child


class _Watch:
    """A warden's present worker, watched by its process and not by its number."""

    def __init__(self, number: int, warden: Child, say: Callable[[str], object]) -> None:
        self._number = number
        self._warden = warden
        self._say = say
        self._last: Told | None = None
        self._handle: int | None = None

    def told(self, told: Told) -> None:
        """A report of the warden."""
        if self._last is None or self._last.pid != told.pid:
            self.close()
            if hasattr(os, "pidfd_open"):
                with contextlib.suppress(ProcessLookupError):
                    self._handle = os.pidfd_open(told.pid)
        if told.session and (self._last is None or self._last.session != told.session):
            self._say(
                f"runner-{self._number}: worker {told.pid} of warden {self._warden.pid} is ready"
            )
        self._last = told

    async def confirm(self, url: str) -> None:
        """The warden has ended: once its worker has as well, tell the engine."""
        if self._last is None or not self._last.session or self._handle is None:
            return
        loop = asyncio.get_running_loop()
        over = asyncio.Event()
        loop.add_reader(self._handle, over.set)
        try:
            # The kernel kills it when its parent ends; until it has, it may still act.
            async with asyncio.timeout(self._last.ttl_ms / 1000):
                await over.wait()
        except TimeoutError:
            return
        finally:
            loop.remove_reader(self._handle)
        await confirm_death(Client(url, timeout_s=2.0), self._last)

    def close(self) -> None:
        """Let go of the worker."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


class _Backoff:
    """At once after a long life, slower and slower after short ones."""

    def __init__(self) -> None:
        self._failures = 0

    def after(self, child: Child) -> float:
        """Seconds to wait before the next one."""
        if boot_s() - child.started_s > STEADY_S:
            self._failures = 0
            return 0.0
        first, most = BACKOFF_S
        self._failures += 1
        return min(most, first * 2.0 ** (self._failures - 1))


async def _stopped(child: Child) -> None:
    """Tell a child to stop, and wait for its end, however often we are told to hurry."""
    child.send(signal.SIGCONT)
    child.send(signal.SIGTERM)
    await asyncio.shield(child.ended)
