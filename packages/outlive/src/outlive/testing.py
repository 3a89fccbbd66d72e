"""For unit tests of workflows: the real engine and runner in one process, and a clock that jumps.

    async def test_refund():
        async with LocalEngine(app) as engine:
            run = await engine.start(refund_flow, {"id": "T-1", "cents": 4200})
            await engine.advance("1h")
            assert await run.result() == {"refund": "R-1"}

Nothing is stored and nothing listens. Bodies run for real; sleeps, time-outs, retries and waits
pass when the clock is advanced, in the order in which they were due.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, cast, overload

from outlive.client import RunNotCompleted
from outlive.core.rows import ApprovalRow, RunRow
from outlive.core.tables import Approval, Run
from outlive.sdk.app import App, Workflow
from outlive.sdk.durations import Duration, milliseconds
from outlive.sdk.session import Session
from outlive.server.engine import Engine, Leases, Peer
from outlive.server.ports import TestClock
from outlive.server.records import row_of
from outlive.server.views import run_view, steps_view
from outlive.store.memory import MemoryStore
from outlive.wire.native_v1 import ToRunner, from_engine, from_runner, packed

__all__ = ["LocalEngine", "LocalRun", "NotSettled"]

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741
C = TypeVar("C", bound=Callable[..., object])

THREADS: Final = 16
QUIET_TURNS: Final = 20
"""Turns of the loop without anything on its way, after which all is at rest."""
SETTLE_S: Final = 30.0
LEASE_S: Final = 1e9


class NotSettled(TimeoutError):
    """Runs do not come to rest: a body goes on and on."""


class LocalRun(Generic[T]):
    """A run of a LocalEngine."""

    def __init__(self, engine: LocalEngine, id: str) -> None:  # noqa: A002  the word for it
        self._engine = engine
        self.id = id

    def __repr__(self) -> str:
        return f"<run {self.id!r}>"

    async def state(self) -> Run:
        """Its state once all is at rest."""
        return (await self._row()).state

    async def result(self) -> T:
        """Its result; raises what it failed with, or RunNotCompleted if it did not end."""
        row = await self._row()
        if row.state is Run.COMPLETED:
            return cast("T", self._engine.app.codec.decode(row.value))
        if row.state is Run.FAILED:
            raise self._engine.app.codec.decode_error(row.value)
        raise RunNotCompleted(await self.shown())

    async def shown(self) -> dict[str, Any]:
        """What `outlive runs show` shows: state, why it does not move, what will move it."""
        return await run_view(self._engine.engine, await self._row())

    async def steps(self) -> list[dict[str, Any]]:
        """Its record, entry by entry."""
        return await steps_view(self._engine.engine, await self._row())

    async def cancel(self) -> None:
        """Have it cancelled."""
        await self._engine.engine.cancel(self.id)
        await self._engine.settle()

    async def _row(self) -> RunRow:
        await self._engine.settle()
        return await self._engine.engine.run(self.id)


class LocalEngine:
    """An engine with one runner of `app`; `async with` starts and ends both.

    With `replay_always` each run is replayed after each entry, and code that drifts is named.
    """

    def __init__(self, app: App, *, replay_always: bool = False) -> None:
        self.app = app
        self.clock = TestClock()
        self._replay_always = replay_always
        self._link: _Link | None = None
        self._threads = ThreadPoolExecutor(THREADS, "outlive-testing")

    async def __aenter__(self) -> Self:
        # Nobody can go missing here, and beats would come due all the time that is jumped over.
        self.engine = Engine(MemoryStore(), clock=self.clock, leases=Leases(ttl_s=LEASE_S))
        self._timers = _Timers(asyncio.get_running_loop())
        await self.engine.open()
        await self._connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._link is not None:
            self._link.end()
        await self.engine.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _connect(self) -> None:
        session = Session(
            self.app,
            loop=cast("asyncio.AbstractEventLoop", self._timers),
            threads=self._threads,
            clock=lambda: time.monotonic() + self._timers.ahead_s,
            runner="testing",
            replay_always=self._replay_always,
            supervised=True,
        )
        self._link = _Link(self.engine, session)
        self._link.begin()
        await self.settle()

    # --- what a test does ---

    @overload
    async def start(
        self, workflow: Workflow[I, T], value: I = ..., *, id: str = ""
    ) -> LocalRun[T]: ...
    @overload
    async def start(self, workflow: str, value: Any = None, *, id: str = "") -> LocalRun[Any]: ...

    async def start(
        self,
        workflow: Workflow[Any, Any] | str,
        value: Any = None,
        *,
        id: str = "",  # noqa: A002  the word for it
    ) -> LocalRun[Any]:
        """Start a run and let it go on until it ends or waits."""
        name = workflow if isinstance(workflow, str) else workflow.name
        run_id = id or secrets.token_hex(8)
        await self.engine.start(self.app.name, name, run_id, self.app.codec.encode(value, "input"))
        await self.settle()
        return LocalRun(self, run_id)

    def run(self, id: str) -> LocalRun[Any]:  # noqa: A002  as above
        """A run by its id, say of one that an event started."""
        return LocalRun(self, id)

    async def send(self, name: str, data: Any = None, *, id: str = "") -> list[LocalRun[Any]]:  # noqa: A002
        """Send an event; the runs that it started."""
        value = self.app.codec.encode(data, "data")
        sent = await self.engine.send(self.app.name, name, id or secrets.token_hex(8), value)
        await self.settle()
        return [LocalRun(self, run_id) for run_id in sent.started]

    async def questions(self) -> list[ApprovalRow]:
        """Approvals that nobody has decided."""
        await self.settle()
        page = await self.engine.store.page("approval", Approval.PENDING, 0, 1000)
        return [row_of(record, ApprovalRow) for record in page]

    async def decide(
        self, question: ApprovalRow, *, approve: bool, by: str = "test", comment: str = ""
    ) -> None:
        """Answer a question."""
        await self.engine.decide(
            question.id, approved=approve, by=by, comment=comment, digest=question.digest
        )
        await self.settle()

    async def advance(self, by: Duration) -> None:
        """Let time pass: what becomes due happens in its order, and each to its end."""
        left_ms = milliseconds(by, "advance by")
        await self.settle()
        while True:
            due = await self._next_ms()
            step_ms = left_ms if due is None else min(left_ms, max(0, due))
            self._jump(step_ms)
            left_ms -= step_ms
            await self.settle()
            if left_ms == 0 and (due is None or due > step_ms):
                return

    async def crash(self) -> None:
        """The runner dies as if killed, and another takes over what it had."""
        link = self._link
        assert link is not None, "crash: use it inside of `async with`"
        id_, token = link.session.id, link.session.token
        link.end()
        await self.engine.dead(id_, token)
        await self._connect()

    async def settle(self) -> None:
        """Return when every run has ended or waits for something that is not here."""
        end_s = time.monotonic() + SETTLE_S
        quiet = 0
        while quiet < QUIET_TURNS:
            busy = self._busy()
            quiet = 0 if busy else quiet + 1
            # A body in a thread needs the interpreter more than we do.
            bodies = self._link is not None and self._link.session.running
            await asyncio.sleep(0.0005 if bodies else 0)
            if busy and time.monotonic() > end_s:
                raise NotSettled(f"runs do not come to rest in {SETTLE_S:g} s: {busy}")

    # --- inside ---

    def _busy(self) -> str:
        link = self._link
        if link is not None:
            if link.on_its_way:
                return "messages are on their way"
            if link.session.running:
                return f"{link.session.running} bodies run"
            if link.session.owed:
                return "results are not recorded yet"
        if not self.engine.records.committer.idle:
            return "commits are on their way"
        return ""

    async def _next_ms(self) -> int | None:
        """How long until the next thing is due."""
        due = await self.engine.store.next_due()
        found = [] if due is None else [due - self.clock.wall_ms()]
        timer_s = self._timers.next_s()
        if timer_s is not None:
            found.append(int(timer_s * 1000) + 1)
        return min(found, default=None)

    def _jump(self, by_ms: int) -> None:
        self.clock.advance(by_ms)
        self._timers.jump(by_ms / 1000)
        self.engine.look_at_clock()


class _Link:
    """Both ends of a connection, in memory; frames are encoded all the same."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self.session = session
        self._loop = asyncio.get_running_loop()
        self._peer: Peer = engine.connect(self)
        self._to_runner: list[ToRunner] = []
        self._carrying = False
        self._over = False

    @property
    def on_its_way(self) -> bool:
        """Whether a message is."""
        return bool(self._to_runner) or self._carrying

    def begin(self) -> None:
        """Connect."""
        self.session.output = self._wake
        self.session.hang_up = self.end
        self.session.opened()

    def end(self) -> None:
        """Break; the session is lost."""
        if not self._over:
            self._over = True
            self.session.lose()
            self._peer.closed()

    def send(self, message: ToRunner) -> None:
        """See Link."""
        self._to_runner.append(message)
        self._wake()

    async def room(self) -> None:
        """See Link."""

    def close(self) -> None:
        """See Link."""
        self._loop.call_soon(self.end)

    def _wake(self) -> None:
        if not self._carrying:
            self._carrying = True
            self._loop.call_soon(self._carry)

    def _carry(self) -> None:
        self._carrying = False
        to_runner, self._to_runner = self._to_runner, []
        if self._over:
            return
        if to_runner:
            self.session.receive(from_engine(packed(to_runner)))
        if said := self.session.take():
            self._peer.received(from_runner(packed(said)))


class _Timers:
    """A loop whose timers come early when time jumps; everything else is the loop's own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.ahead_s = 0.0
        self._pending: set[_Timer] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    def call_later(self, delay: float, call: C, *args: Any) -> _Timer:
        """See asyncio."""
        timer = _Timer(self, self._loop.time() + self.ahead_s + delay, call, args)
        self._pending.add(timer)
        timer.arm(delay)
        return timer

    def next_s(self) -> float | None:
        """Seconds until the next timer."""
        first = min((timer.due_s for timer in self._pending), default=None)
        return None if first is None else max(0.0, first - self._loop.time() - self.ahead_s)

    def jump(self, by_s: float) -> None:
        """Let that time pass at once."""
        self.ahead_s += by_s
        now = self._loop.time() + self.ahead_s
        for timer in sorted(self._pending, key=lambda timer: timer.due_s):
            timer.arm(max(0.0, timer.due_s - now))

    def over(self, timer: _Timer) -> None:
        """It has rung, or never will."""
        self._pending.discard(timer)


class _Timer:
    """A timer that can be moved."""

    def __init__(
        self, timers: _Timers, due_s: float, call: Callable[..., object], args: tuple[Any, ...]
    ) -> None:
        self._timers = timers
        self.due_s = due_s
        self._call = call
        self._args = args
        self._handle: asyncio.TimerHandle | asyncio.Handle | None = None

    def arm(self, delay: float) -> None:
        """Ring after that many real seconds."""
        loop = asyncio.get_running_loop()
        if self._handle is not None:
            self._handle.cancel()
        self._handle = loop.call_later(delay, self._ring) if delay else loop.call_soon(self._ring)

    def _ring(self) -> None:
        self._timers.over(self)
        self._call(*self._args)

    def cancel(self) -> None:
        """Do not ring."""
        self._timers.over(self)
        if self._handle is not None:
            self._handle.cancel()
