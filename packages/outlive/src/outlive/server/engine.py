"""The engine: what runners and people ask of it, decided, stored, and only then answered.

It has no socket and no clock of its own; `asgi` connects it to the world, a simulation to another.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from outlive.core.rows import ApprovalRow, AppRow, RunRow, SessionRow, ValueRow
from outlive.core.tables import Run
from outlive.server.book import FINAL, Book, Refusal
from outlive.server.desk import Desk
from outlive.server.events import Sent
from outlive.server.live import LiveRun, LiveSession
from outlive.server.numbers import Numbers
from outlive.server.ports import Clock, Link, SystemClock
from outlive.server.queue import Queue
from outlive.server.records import Records, gone, row_of
from outlive.server.sessions import Leases, Sessions
from outlive.server.talk import HANDLERS
from outlive.server.timer import Timer
from outlive.server.waits import Waits
from outlive.store.api import Key, Record, Store, StoreFault
from outlive.wire.native_v1 import FromRunner, Hello, Refused

__all__ = ["Engine", "Leases", "Peer", "Refusal"]

log = logging.getLogger("outlive.engine")
T = TypeVar("T")

PAGE: Final = 1000
REOPEN_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0)


class Engine:
    """Open it, connect runners, ask it for things; `close` lets go of the store."""

    def __init__(
        self, store: Store, *, clock: Clock | None = None, leases: Leases | None = None
    ) -> None:
        self.store = store
        self.clock = clock or SystemClock()
        self.leases = leases or Leases()
        self.ready = False
        """Whether it answers; not while the store is being read (again)."""
        self.fault = ""
        """Why it is not ready."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self.reading = 0
        """How often the store was read anew: what was begun before is of no more account."""
        self._watching: dict[str, list[asyncio.Future[RunRow]]] = {}
        self._make()

    def _make(self) -> None:
        self.reading += 1
        self.spawn: Callable[[Coroutine[Any, Any, None]], None] = functools.partial(
            self._spawn, self.reading
        )
        self.apps: dict[str, AppRow] = {}
        self.records = Records(self.store, functools.partial(self._failed, self.reading))
        self.numbers = Numbers(self.records, self.clock)
        self.book = Book(self.records, self.numbers)
        self.queue = Queue(self.book, self.spawn)
        self.waits = Waits(self.book, self.apps)
        self.desk = Desk(self.book)
        self.sessions = Sessions(self.book, self.queue, self.apps, self.clock, self.leases)
        self.timer = Timer(
            self.numbers, self.spawn, fire=self.waits.fire, next_due=self.store.next_due
        )
        self.book.ready = self.queue.add
        self.book.ended = self._ended
        self.book.due = self.timer.set

    # --- opening, closing, faults ---

    async def open(self) -> None:
        """Read what is open from the store; raises StoreFault, StoreBusy."""
        await self.store.open()
        await self._load()

    async def _load(self) -> None:
        await self.numbers.open()
        async for record in self._all("app"):
            self.apps[record.key] = row_of(record, AppRow)
        async for record in self._all("session"):
            self.sessions.restore(row_of(record, SessionRow), record.version)
        async for record in self._all("run", Run.QUEUED):
            self.queue.add(row_of(record, RunRow))
        for state in (Run.RUNNING, Run.CANCELLING):
            async for record in self._all("run", state):
                await self._restore(record)
        await self.records.durable()
        self.timer.set(await self.store.next_due())
        self.ready, self.fault = True, ""
        self._look()
        self.queue.pump()

    async def _all(self, kind: str, tag: str | None = None) -> Any:
        after = 0
        while page := await self.store.page(kind, tag, after, PAGE):
            after = page[-1].number
            for record in page:
                yield record

    async def _restore(self, record: Record) -> None:
        row = row_of(record, RunRow)
        session = self.sessions.all.get(row.session)
        if session is None:
            if not row.session and row.state is Run.CANCELLING:
                if not row.asleep:
                    self.queue.add(row)
                return
            # Its session ended, and the engine before it could say so for this run.
            async with self.records.deciding:
                run = LiveRun(row, record.version, None)
                run.loaded = False
                await self.book.fill(run)
                self.sessions.release(run, died=False, alone=False)
            return
        run = LiveRun(row, record.version, session)
        run.loaded = False
        run.claimed = True
        session.runs[row.id] = run
        self.book.live[row.id] = run

    def _failed(self, reading: int, fault: StoreFault) -> None:
        """Nobody can say what is stored: answer nothing, forget all, read it again."""
        if reading != self.reading or self._closed:
            return
        log.error("the store failed, reading it again: %s", fault)
        self._drop(fault)
        self.spawn(self._reopen())

    def _drop(self, fault: StoreFault) -> None:
        self.ready, self.fault = False, str(fault)
        for session in self.sessions.all.values():
            link, session.link = session.link, None
            if link is not None:
                link.close()
        for run in self.book.live.values():
            run.closing = True
        self.timer.stop()
        self.records.forget()
        self.queue.clear()
        watching, self._watching = self._watching, {}
        for future in (one for several in watching.values() for one in several):
            if not future.done():
                future.set_exception(gone())
        self._make()

    async def _reopen(self) -> None:
        attempt = 0
        while not self._closed:
            reading = self.reading
            try:
                await self.store.close()
                await self.open()
            except StoreFault as error:
                fault = error
            except Exception as error:  # there is nobody else to try again
                log.exception("a defect of the engine")
                fault = StoreFault(f"a defect of the engine: {error!r}")
            else:
                log.warning("the store is back after %d tries", attempt + 1)
                return
            if reading == self.reading:
                self._drop(fault)
            wait_s = REOPEN_S[min(attempt, len(REOPEN_S) - 1)]
            attempt += 1
            log.warning("the store is still away, next try in %s s: %s", wait_s, fault)
            await asyncio.sleep(wait_s)

    async def close(self) -> None:
        """Stop at once; runners will come back to whoever opens the store next."""
        self.ready = False
        if not self._closed:
            await self.records.settle()
        self._closed = True
        self.timer.stop()
        for session in self.sessions.all.values():
            if session.link is not None:
                session.link.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.store.close()

    def _spawn(self, reading: int, work: Coroutine[Any, Any, None]) -> None:
        """Do it beside; what goes wrong in it is the engine's defect or the store's fault."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(functools.partial(self._over, reading))

    def _over(self, reading: int, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StoreFault):
            self._failed(reading, error)
        elif error is not None:
            self.defect(reading, error)

    def defect(self, reading: int, error: BaseException) -> None:
        """What was being decided may be half in memory; the store holds whole decisions only."""
        log.error("a defect of the engine", exc_info=error)
        self._failed(reading, StoreFault(f"a defect of the engine: {error!r}"))

    def _look(self) -> None:
        if self._closed or not self.ready:
            return
        self.spawn(self.sessions.look())
        sessions = self.sessions
        every_s = min(self.leases.ttl_s / 4, 0.5)
        asyncio.get_running_loop().call_later(
            every_s, lambda: self._look() if sessions is self.sessions else None
        )

    # --- runners ---

    def connect(self, link: Link) -> Peer:
        """A runner's connection."""
        return Peer(self, link)

    def _ended(self, row: RunRow) -> None:
        for future in self._watching.pop(row.id, ()):
            if not future.done():
                future.set_result(row)
        self.queue.pump()

    # --- what people ask for ---

    async def _decided(self, decide: Callable[[], Awaitable[T]]) -> T:
        self.check_ready()
        reading = self.reading
        try:
            return await decide()
        except Refusal:
            await self.records.durable()  # the reason for it may not be, yet
            raise
        except StoreFault:
            raise
        except Exception as error:
            self.defect(reading, error)
            raise

    async def start(
        self, app: str, workflow: str, run_id: str, value: bytes
    ) -> tuple[RunRow, bool]:
        """See Desk.start."""
        return await self._decided(lambda: self.desk.start(app, workflow, run_id, value))

    async def start_new(self, app: str, workflow: str, run_id: str, value: bytes) -> RunRow:
        """See Desk.start_new."""
        return await self._decided(lambda: self.desk.start_new(app, workflow, run_id, value))

    async def run(self, run_id: str) -> RunRow:
        """A run as it is stored; raises Refusal."""
        self.check_ready()
        await self.no_lease_is_over()
        (record,) = await self.store.load([Key("run", run_id)])
        if record is None:
            raise Refusal(f"there is no run {run_id}", 404)
        row: RunRow = row_of(record, RunRow)
        if row.value_bytes:
            (value,) = await self.store.load([Key("value", run_id)])
            assert value is not None
            row.value = row_of(value, ValueRow).value
        return row

    async def no_lease_is_over(self) -> None:
        """Return when no run is stored as running whose session has ended, or has to end."""
        await self.sessions.look()
        if self.sessions.ending:
            await self.records.durable()

    async def wait(self, run_id: str, timeout_s: float) -> RunRow:
        """The run once it has ended or needs a person, or as it is when the time is over."""
        future: asyncio.Future[RunRow] = asyncio.get_running_loop().create_future()
        watching = self._watching.setdefault(run_id, [])
        watching.append(future)
        try:
            row = await self.run(run_id)
            if row.state in FINAL or row.state is Run.NEEDS_ATTENTION:
                return row
            async with asyncio.timeout(timeout_s):
                row = await future
            # What needed a person may be gone on with meanwhile; an end stays as it is.
            kept = row.state in FINAL and not row.value_bytes
            return row if kept else await self.run(run_id)
        except TimeoutError:
            return await self.run(run_id)
        finally:
            if future in watching:
                watching.remove(future)
            if not watching and self._watching.get(run_id) is watching:
                del self._watching[run_id]

    def stop_waiting(self) -> None:
        """Answer those who wait for a run's end: it is as if their time were over."""
        for futures in self._watching.values():
            for future in futures:
                if not future.done():
                    future.set_exception(TimeoutError())

    async def resume(self, run_id: str) -> RunRow:
        """See Desk.resume."""
        return await self._decided(lambda: self.desk.resume(run_id))

    async def supply(self, run_id: str, call: str, value: bytes) -> RunRow:
        """See Desk.supply."""
        return await self._decided(lambda: self.desk.supply(run_id, call, value))

    async def cancel(self, run_id: str) -> RunRow:
        """See Waits.cancel."""
        return await self._decided(lambda: self.waits.cancel(run_id))

    async def send(self, app: str, name: str, event_id: str, data: bytes) -> Sent:
        """See Events.send."""
        return await self._decided(lambda: self.waits.events.send(app, name, event_id, data))

    async def decide(
        self, approval: str, *, approved: bool, by: str, comment: str, digest: str | None
    ) -> ApprovalRow:
        """See Approvals.decide."""
        return await self._decided(
            lambda: self.waits.approvals.decide(
                approval, approved=approved, by=by, comment=comment, digest=digest
            )
        )

    async def decide_early(
        self, run_id: str, call: str, *, digest: str, approved: bool, by: str, comment: str
    ) -> None:
        """See Approvals.decide_early."""
        await self._decided(
            lambda: self.waits.approvals.decide_early(
                run_id, call, digest=digest, approved=approved, by=by, comment=comment
            )
        )

    def renew(self, session_id: str, token: str) -> float:
        """See Sessions.renew_by_warden."""
        self.check_ready()
        return self.sessions.renew_by_warden(session_id, token)

    async def dead(self, session_id: str, token: str) -> None:
        """See Sessions.dead."""
        await self._decided(lambda: self.sessions.dead(session_id, token))

    def look_at_clock(self) -> None:
        """After a jump of the clock: do what is due by it."""
        self.timer.look()

    def check_ready(self) -> None:
        """Raises Refusal while it is not."""
        if not self.ready:
            raise Refusal(f"the engine is not ready: {self.fault or 'it is starting'}", 503)


class Peer:
    """A runner's connection, from the side of the engine. What it is told never raises."""

    def __init__(self, engine: Engine, link: Link) -> None:
        self._engine = engine
        self._link = link
        self._session: LiveSession | None = None
        self._greeted = False
        self._over = False
        self._handlers: dict[type, Callable[[Engine, LiveSession, Any], None]] = HANDLERS

    def hurry(self) -> None:
        """It has had the time to say hello."""
        if not self._greeted and not self._over:
            self.refuse("no hello came: it is the first message, and is sent at once")

    def received(self, messages: list[FromRunner]) -> None:
        """Messages of one frame, in order."""
        for message in messages:
            session = self._session
            if self._over:
                return
            if session is None:
                self._greet(message)
            elif session.link is self._link:
                handler = self._handlers.get(type(message))
                if handler is None:
                    self.refuse("hello twice on one connection")
                    return
                try:
                    handler(self._engine, session, message)
                except Exception as error:  # noqa: BLE001  the same words would do it again
                    self.refuse(f"the engine cannot bear what was said: {error!r}")
                    self._engine.defect(self._engine.reading, error)

    def _greet(self, message: FromRunner) -> None:
        if not isinstance(message, Hello) or self._greeted:
            self.refuse("the first message is hello, and then welcome is waited for")
        elif not self._engine.ready:
            self._link.close()
        else:
            self._greeted = True
            self._engine.spawn(self._hello(message))

    async def _hello(self, message: Hello) -> None:
        sessions = self._engine.sessions
        try:
            session = await sessions.hello(self._link, message)
        except Refusal as refusal:
            self.refuse(str(refusal))
        except BaseException:
            self._link.close()
            raise
        else:
            self._session = session
            if self._over:
                sessions.lost(session, self._link)

    def refuse(self, cause: str) -> None:
        """End the connection and say why."""
        if not self._over:
            self._link.send(Refused(cause))
            self._link.close()
        self.closed()

    def closed(self) -> None:
        """The connection is gone."""
        self._over = True
        if self._session is not None:
            self._engine.sessions.lost(self._session, self._link)
