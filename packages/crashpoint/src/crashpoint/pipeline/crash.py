"""Run one entry in a world, with or without an injection, and say how it ended.

`Crasher` is the seam: killing real processes, raising in process and replaying a prefix are
different crashers under the same fold. The one here runs real processes and delivers real faults.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from crashpoint.canonical import NotCanonical, parse
from crashpoint.pipeline.contract import Launch
from crashpoint.pipeline.faults import FAULTS, Fired
from crashpoint.pipeline.points import Injection, PointSource, Reached
from crashpoint.procs.zygote import Subject, Zygote

__all__ = [
    "Basis",
    "Crashed",
    "Crasher",
    "Ended",
    "Frozen",
    "Hung",
    "NotReached",
    "Outcomes",
    "ProcessCrasher",
    "UnusableResult",
    "World",
]

RESULT_MAX: Final = 1 << 20
"""Bytes of JSON that an entry may return."""
RESULT_DEPTH_MAX: Final = 64
"""Lists and objects one inside the other in it: it stands inside observations and evidence."""
PASSED_MAX: Final = 1000
"""Points remembered of one process; more are let pass and forgotten."""
SAID_MAX: Final = 300
"""Characters of a process's last line of stderr that are kept."""


class UnusableResult(ValueError):
    """What an entry returned cannot be kept; the message says why."""


class Basis(StrEnum):
    """How a trial knows what it says."""

    KILLED = "KILLED"
    """A real process died, or was stopped, by a signal from outside."""
    REPLAYED = "REPLAYED"
    MODELLED = "MODELLED"
    IN_PROCESS = "IN_PROCESS"


@dataclass
class World:
    """What outlives a process: its state folder, its point source, its stopped predecessors."""

    state: Path
    scratch: Path
    """Output and results of each process; nothing a recovery reads."""
    ledger_socket: Path
    points: PointSource
    frozen: list[Frozen] = field(default_factory=list)
    entries: int = 0
    """Processes run so far."""


@dataclass(frozen=True)
class Ended:
    """The entry ended by itself. `code` as in `Exit`; `said` is the last line of its stderr."""

    code: int
    result: Any
    said: str
    leftovers: int
    passed: tuple[str, ...]
    """Points it passed, in order."""
    at_ns: int
    """Monotonic clock when it was seen to end."""


@dataclass(frozen=True)
class Crashed:
    """The fault was delivered; `code` is how the process ended, None while it stands frozen."""

    fired: Fired
    code: int | None
    passed: tuple[str, ...]
    """Points it passed before, in order."""
    at_ns: int
    """Monotonic clock at the fault."""


@dataclass(frozen=True)
class NotReached:
    """The entry ended before the injection's point."""

    ended: Ended


@dataclass(frozen=True)
class Hung:
    """The time limit passed first; everything was killed."""

    said: str
    passed: tuple[str, ...]


Outcomes = Ended | Crashed | NotReached | Hung


@dataclass
class Frozen:
    """A stopped process, the point it stands at, and how to watch it to its end."""

    subject: Subject
    at: Reached
    watch: Callable[[], Awaitable[Ended | Hung]]


class Crasher(Protocol):
    """Runs entries in a world."""

    basis: Basis

    async def run(
        self, world: World, launch: Launch, at: Injection | None, *, limit_s: float
    ) -> Outcomes:
        """Run one entry to its end, its crash, or the limit."""
        ...

    async def thaw(self, frozen: Frozen) -> Ended | Hung:
        """Let a frozen process go on, to its end or the limit."""
        ...

    async def dispose(self, world: World) -> None:
        """End what still stands frozen, after a trial that went wrong."""
        ...


class ProcessCrasher:
    """Real processes forked from zygotes, real signals. `cold` starts a zygote per launch."""

    basis = Basis.KILLED

    def __init__(self, warm: Zygote, cold: Callable[[], Awaitable[Zygote]]) -> None:
        self._warm = warm
        self._cold = cold

    async def run(
        self, world: World, launch: Launch, at: Injection | None, *, limit_s: float
    ) -> Outcomes:
        """Fork, watch, and inject at the point if one is asked for. Raises ZygoteFault."""
        world.entries += 1
        output = world.scratch / f"{world.entries}"
        launch = world.points.attach(launch)
        zygote = await self._cold() if launch.cold else self._warm
        try:
            subject = await zygote.fork(
                {
                    "entry": launch.entry,
                    "args": dict(launch.args),
                    "env": {**launch.env, "CRASHPOINT_LEDGER": str(world.ledger_socket)},
                    "cwd": str(world.state),
                    "stdout": f"{output}.out",
                    "stderr": f"{output}.err",
                    "result": f"{output}.json",
                }
            )
            watch = _Watch(subject, world.points, output)
            try:
                seen = await watch.until(at, limit_s)
                if isinstance(seen, Reached):
                    return await self._inject(world, watch, seen, at, limit_s)
            except BaseException:
                await subject.release()
                raise
            await subject.release()
            if isinstance(seen, Ended) and at is not None:
                return NotReached(seen)
            return seen
        finally:
            if launch.cold:
                await zygote.close()

    async def thaw(self, frozen: Frozen) -> Ended | Hung:
        """SIGCONT, answer the waiting thread, and watch it to its end."""
        try:
            frozen.subject.thaw()
            frozen.at.release()
            return await frozen.watch()
        finally:
            await frozen.subject.release()

    async def dispose(self, world: World) -> None:
        """Kill what still stands frozen."""
        for frozen in world.frozen:
            frozen.at.release()
            await frozen.subject.release()
        world.frozen.clear()

    @staticmethod
    async def _inject(
        world: World, watch: _Watch, seen: Reached, at: Injection | None, limit_s: float
    ) -> Crashed:
        assert at is not None
        fault = FAULTS[at.fault]
        at_ns = time.monotonic_ns()
        fired = await fault.deliver(seen, watch.subject)
        if not fault.ends_process:

            async def go_on() -> Ended | Hung:
                ended = await watch.until(None, limit_s)
                assert not isinstance(ended, Reached)
                return ended

            world.frozen.append(Frozen(watch.subject, seen, go_on))
            return Crashed(fired, None, watch.passed, at_ns)
        left = await watch.subject.exit()
        await watch.subject.release()
        seen.release()
        return Crashed(fired, left.code, watch.passed, at_ns)


class _Watch:
    """Follows one subject: lets it pass points, until the one wanted, its end or the limit."""

    def __init__(self, subject: Subject, points: PointSource, output: Path) -> None:
        self.subject = subject
        self._points = points
        self._output = output
        self._passed: list[str] = []

    @property
    def passed(self) -> tuple[str, ...]:
        return tuple(self._passed)

    async def until(self, at: Injection | None, limit_s: float) -> Reached | Ended | Hung:
        exit_task = asyncio.ensure_future(self.subject.exit())
        point_task = asyncio.ensure_future(self._pass_points(at))
        both = {exit_task, point_task}
        try:
            await asyncio.wait(both, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
        if exit_task.cancelled():
            if not point_task.cancelled():
                return point_task.result()
            return Hung(self._said(), self.passed)
        left = exit_task.result()
        return Ended(
            left.code,
            self._result(),
            self._said(),
            left.leftovers,
            self.passed,
            time.monotonic_ns(),
        )

    async def _pass_points(self, at: Injection | None) -> Reached:
        async with aclosing(self._points.reached()) as arrivals:  # type: ignore[type-var]
            async for reached in arrivals:
                if at is not None and reached.point == at.point:
                    return reached
                if len(self._passed) < PASSED_MAX:
                    self._passed.append(reached.point.name)
                reached.release()
        raise AssertionError("a point source ended")

    def _result(self) -> Any:
        """None when it returned nothing, for example because it was ended by a signal."""
        try:
            with Path(f"{self._output}.json").open("rb") as file:
                text = file.read(RESULT_MAX + 1)
        except OSError:
            return None
        if not text.endswith(b"\n"):
            if len(text) <= RESULT_MAX:
                return None
            raise UnusableResult(f"what the entry returned has more than {RESULT_MAX} bytes")
        try:
            return parse(text, depth_max=RESULT_DEPTH_MAX)
        except NotCanonical as error:
            raise UnusableResult(f"what the entry returned cannot be kept: {error}") from None

    def _said(self) -> str:
        try:
            with Path(f"{self._output}.err").open("rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - 4 * SAID_MAX))
                lines = file.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return "".join(c if c.isprintable() else "\ufffd" for c in last[:SAID_MAX])
