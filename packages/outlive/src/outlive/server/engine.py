"""The engine: what runners and people ask of it, decided, stored, and only then answered.

It has no socket and no clock of its own; `asgi` connects it to the world, a simulation to another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from outlive.core.rows import ApprovalRow, AppRow, RunRow, SessionRow
from outlive.core.tables import RUN, Run, RunEvent
from outlive.server.book import FINAL, Book, Refusal
from outlive.server.live import LiveRun, LiveSession
from outlive.server.numbers import Numbers
from outlive.server.ports import Clock, Link, SystemClock
from outlive.server.queue import Queue
from outlive.server.records import Draft, Records, row_of
from outlive.server.sessions import Leases, Sessions
from outlive.server.talk import HANDLERS
from outlive.server.waits import Sent, Waits, input_differs
from outlive.store.api import Key, Record, Store, StoreFault
from outlive.wire.native_v1 import FromRunner, Hello, Refused

__all__ = ["Engine", "Leases", "Peer", "Refusal"]

log = logging.getLogger("outlive.engine")

PAGE: Final = 1000
TIMER_POLL_S: Final = 1.0
"""How soon a jump of the wall clock is noticed."""
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
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due: int | None = None
        self._firing = False
        self._closed = False
        self._watching: dict[str, list[asyncio.Future[RunRow]]] = {}
        self._make()

    def _make(self) -> None:
        self.apps: dict[str, AppRow] = {}
        self.records = Records(self.store, self._failed)
        self.numbers = Numbers(self.records, self.clock)
        self.book = Book(self.records, self.numbers)
        self.queue = Queue(self.book, self.spawn)
        self.waits = Waits(self.book, self.apps)
        self.sessions = Sessions(self.book, self.queue, self.apps, self.clock, self.leases)
        self.book.ready = self.queue.add
        self.book.ended = self._ended
        self.waits.timer_set = self.timer_set

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
        self.timer_set(await self.store.next_due())
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
        session.runs[row.id] = run
        self.book.live[row.id] = run

    def _failed(self, fault: StoreFault) -> None:
        """Nobody can say what is stored: answer nothing, forget all, read it again."""
        if not self.ready or self._closed:
            return
        self.ready, self.fault = False, str(fault)
        log.error("the store failed, reading it again: %s", fault)
        for session in self.sessions.all.values():
            if session.link is not None:
                session.link.close()
        for run in self.book.live.values():
            run.closing = True
        self.records.forget()
        self.queue.clear()
        self._make()
        self.spawn(self._reopen())

    async def _reopen(self) -> None:
        attempt = 0
        while not self._closed:
            try:
                await self.store.close()
                await self.open()
            except StoreFault as fault:
                self.fault = str(fault)
                wait = REOPEN_S[min(attempt, len(REOPEN_S) - 1)]
                attempt += 1
                log.warning("the store is still away, next try in %s s: %s", wait, fault)
                await asyncio.sleep(wait)
                self._make()
            else:
                log.warning("the store is back after %d tries", attempt + 1)
                return

    async def close(self) -> None:
        """Stop at once; runners will come back to whoever opens the store next."""
        self.ready = False
        if not self._closed:
            await self.records.settle()
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for session in self.sessions.all.values():
            if session.link is not None:
                session.link.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.store.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Do it beside; what goes wrong in it is the engine's defect or the store's fault."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, StoreFault):
            self._failed(error)
        elif error is not None:
            log.error("a defect of the engine", exc_info=error)
            # What it was deciding may be half in memory; the store holds whole decisions only.
            self._failed(StoreFault(f"a defect of the engine: {error!r}"))

    # --- time ---

    def _look(self) -> None:
        if self._closed or not self.ready:
            return
        self.spawn(self.sessions.look())
        sessions = self.sessions
        every = min(self.leases.ttl_s / 4, 0.5)
        asyncio.get_running_loop().call_later(
            every, lambda: self._look() if sessions is self.sessions else None
        )

    def timer_set(self, due_ms: int | None) -> None:
        """A wait is filed under that instant."""
        if due_ms is not None and (self._timer_due is None or due_ms < self._timer_due):
            self._timer_due = due_ms
            self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._timer_due is not None and not self._closed:
            left = (self._timer_due - self.numbers.now_ms()) / 1000
            self._timer = asyncio.get_running_loop().call_later(
                min(max(left, 0), TIMER_POLL_S), self._ring
            )

    def _ring(self) -> None:
        self._timer = None
        if self._closed or not self.ready:
            self._timer_due = None
        elif self._timer_due is not None and self._timer_due <= self.numbers.now_ms():
            if not self._firing:
                self._firing = True
                self.spawn(self._fire())
        else:
            self._arm()

    async def _fire(self) -> None:
        try:
            while await self.waits.fire(self.numbers.now_ms()):
                pass
            self._timer_due = None
            self.timer_set(await self.store.next_due())
        finally:
            self._firing = False

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

    async def start(
        self, app: str, workflow: str, run_id: str, value: bytes
    ) -> tuple[RunRow, bool]:
        """Start a run once for its id, durably; whether it is new.

        Raises Refusal if a run of that id is another workflow's or had another input.
        """
        self._check_ready()
        async with self.records.deciding:
            (record,) = await self.records.load(Key("run", run_id))
            if record is None:
                draft = Draft()
                row = self.book.start(draft, run_id=run_id, app=app, workflow=workflow, value=value)
                self.book.commit(draft)
            else:
                row = row_of(record, RunRow)
                if row.app != app or input_differs(row, workflow, value):
                    raise Refusal(
                        f"run {run_id} exists with another workflow or input: ids are used once"
                    )
        await self.records.durable()
        return row, record is None

    async def start_new(self, app: str, workflow: str, run_id: str, value: bytes) -> RunRow:
        """The same for an id that was just made and that nobody can have used."""
        self._check_ready()
        draft = Draft()
        row = self.book.start(draft, run_id=run_id, app=app, workflow=workflow, value=value)
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        draft.then.append(lambda: None if done.done() else done.set_result(None))
        draft.dropped = lambda: None if done.done() else done.set_exception(gone())
        self.book.commit(draft)
        await done
        return row

    async def run(self, run_id: str) -> RunRow:
        """A run as it is stored; raises Refusal."""
        self._check_ready()
        (record,) = await self.store.load([Key("run", run_id)])
        if record is None:
            raise Refusal(f"there is no run {run_id}", 404)
        row: RunRow = row_of(record, RunRow)
        return row

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
                return await future
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
        """Have a run that needs attention tried again; raises Refusal."""
        self._check_ready()
        async with self.records.deciding:
            run = await self.book.run(run_id)
            if run is None:
                raise Refusal(f"there is no run {run_id}", 404)
            if run.row.state is not Run.NEEDS_ATTENTION:
                raise Refusal(f"run {run_id} is {run.row.state} and needs no attention")
            self._resume(Draft(), run)
        await self.records.durable()
        return run.row

    def _resume(self, draft: Draft, run: LiveRun) -> None:
        row = run.row
        row.state = RUN.after(row.state, RunEvent.RESUME)
        row.cause, row.deaths, row.deaths_alone = "", 0, 0
        self.book.write(draft, run)
        draft.then.append(lambda: self.queue.add(row))
        self.book.commit(draft)

    async def supply(self, run_id: str, call: str, value: bytes) -> RunRow:
        """Give the result of a step whose own could not be stored; raises Refusal."""
        self._check_ready()
        async with self.records.deciding:
            run = await self.book.run(run_id)
            if run is None:
                raise Refusal(f"there is no run {run_id}", 404)
            entries = self.book.absorb(run, await self.store.entries(run.row.no))
            last = {entry.call: entry.kind for entry in entries}.get(call)
            if run.row.state is not Run.NEEDS_ATTENTION or last != "refused":
                raise Refusal(f"call {call} of run {run_id} has no result that was refused")
            draft = Draft()
            self.book.entry(draft, run, "done", call, value=value)
            self._resume(draft, run)
        await self.records.durable()
        return run.row

    async def cancel(self, run_id: str) -> RunRow:
        """See Waits.cancel."""
        self._check_ready()
        return await self.waits.cancel(run_id)

    async def send(self, app: str, name: str, event_id: str, data: bytes) -> Sent:
        """See Waits.send."""
        self._check_ready()
        return await self.waits.send(app, name, event_id, data)

    async def decide(
        self, approval: str, *, approved: bool, by: str, comment: str, digest: str | None
    ) -> ApprovalRow:
        """See Waits.decide."""
        self._check_ready()
        return await self.waits.decide(
            approval, approved=approved, by=by, comment=comment, digest=digest
        )

    async def decide_early(
        self, run_id: str, call: str, *, digest: str, approved: bool, by: str, comment: str
    ) -> None:
        """See Waits.decide_early."""
        self._check_ready()
        await self.waits.decide_early(
            run_id, call, digest=digest, approved=approved, by=by, comment=comment
        )

    def renew(self, session_id: str, token: str) -> float:
        """See Sessions.renew_by_warden."""
        self._check_ready()
        return self.sessions.renew_by_warden(session_id, token)

    async def dead(self, session_id: str, token: str) -> None:
        """See Sessions.dead."""
        self._check_ready()
        await self.sessions.dead(session_id, token)

    def look_at_clock(self) -> None:
        """After a jump of the clock: do what is due by it."""
        self._arm()

    def _check_ready(self) -> None:
        if not self.ready:
            raise Refusal(f"the engine is not ready: {self.fault or 'it is starting'}", 503)


class Peer:
    """A runner's connection, from the side of the engine. What it is told never raises."""

    def __init__(self, engine: Engine, link: Link) -> None:
        self._engine = engine
        self._link = link
        self._session: LiveSession | None = None
        self._greeted = False
        self._handlers: dict[type, Callable[[Engine, LiveSession, Any], None]] = HANDLERS

    def received(self, messages: list[FromRunner]) -> None:
        """Messages of one frame, in order."""
        for message in messages:
            session = self._session
            if session is None:
                self._greet(message)
            elif session.link is self._link:
                handler = self._handlers.get(type(message))
                if handler is None:
                    self.refuse("hello twice on one connection")
                    return
                handler(self._engine, session, message)

    def _greet(self, message: FromRunner) -> None:
        if not isinstance(message, Hello) or self._greeted:
            self.refuse("the first message is hello, and then welcome is waited for")
        elif not self._engine.ready:
            self._link.close()
        else:
            self._greeted = True
            self._engine.spawn(self._hello(message))

    async def _hello(self, message: Hello) -> None:
        try:
            self._session = await self._engine.sessions.hello(self._link, message)
        except Refusal as refusal:
            self.refuse(str(refusal))

    def refuse(self, cause: str) -> None:
        """End the connection and say why."""
        self._link.send(Refused(cause))
        self._link.close()

    def closed(self) -> None:
        """The connection is gone."""
        if self._session is not None:
            self._engine.sessions.lost(self._session, self._link)


def gone() -> StoreFault:
    """What a caller is told whose commit nobody knows of."""
    return StoreFault("the store failed before this was durable")
