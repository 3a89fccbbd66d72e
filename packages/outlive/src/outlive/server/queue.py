"""Runs that want a worker, and giving them to one.

A run that two deaths were charged to is a suspect: it is given out again only to a session that has
nothing else, so that the next death is its own or nobody's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final

from outlive.core.rows import RunRow
from outlive.core.tables import RUN, Run, RunEvent
from outlive.server.book import Book, Fresh
from outlive.server.live import LiveRun, LiveSession
from outlive.server.records import Draft, row_of
from outlive.store.api import Key
from outlive.wire.native_v1 import Dispatch, Entry

__all__ = ["Queue"]

SUSPECT: Final = 2
"""Deaths from which on a run is given out alone."""
AT_ONCE: Final = 500
"""Runs claimed with one look at the store."""
FIRST_BYTES: Final = 4 << 20
"""How much of a record travels in Dispatch; the rest follows."""
EPOCH_BITS: Final = 32


class Queue:
    """`add` what is ready; `pump` when there may be room."""

    def __init__(self, book: Book, spawn: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        self._book = book
        self._spawn = spawn
        self._ready: dict[tuple[str, str], deque[RunRow]] = {}
        self._queued: set[str] = set()
        self._pumping = False
        self._again = False
        self.sessions: Callable[[], Iterable[LiveSession]] = tuple

    def __len__(self) -> int:
        return len(self._queued)

    def __contains__(self, run_id: object) -> bool:
        return run_id in self._queued

    def clear(self) -> None:
        """Forget all: they will be read again."""
        self._ready.clear()
        self._queued.clear()

    def add(self, row: RunRow) -> None:
        """A run wants a worker, and that is durable."""
        if row.id not in self._queued:
            self._queued.add(row.id)
            self._ready.setdefault((row.app, row.workflow), deque()).append(row)
        self.pump()

    def pump(self) -> None:
        """Give out what there is room for."""
        if self._pumping:
            self._again = True
        elif self._queued:
            self._pumping = True
            self._spawn(self._pump())

    async def _pump(self) -> None:
        try:
            while True:
                self._again = False
                async with self._book.records.deciding:
                    given = await self._claim(self._pick())
                if not given and not self._again:
                    return
        finally:
            self._pumping = False

    def _pick(self) -> list[tuple[RunRow, LiveSession]]:
        """Who gets what. What is picked leaves the queue."""
        picked: list[tuple[RunRow, LiveSession]] = []
        counts = {session.id: len(session.runs) for session in self.sessions()}
        for (app, workflow), rows in self._ready.items():
            able = [s for s in self.sessions() if s.app == app and workflow in s.workflows]
            left: list[RunRow] = []
            while rows and len(picked) < AT_ONCE:
                row = rows.popleft()
                session = self._place(row, able, counts)
                if session is None:
                    left.append(row)
                    if row.deaths < SUSPECT:
                        break
                else:
                    counts[session.id] += 1
                    self._queued.discard(row.id)
                    picked.append((row, session))
            rows.extendleft(reversed(left))
        return picked

    def _place(
        self, row: RunRow, able: list[LiveSession], counts: dict[str, int]
    ) -> LiveSession | None:
        if row.deaths < SUSPECT:
            fit = [s for s in able if s.open and counts[s.id] < s.room]
            return min(fit, key=lambda s: counts[s.id]) if fit else None
        mine = [s for s in able if s.alone == row.id and s.link is not None]
        if not mine:
            free = [s for s in able if s.open]
            if not free:
                return None
            mine = [min(free, key=lambda s: counts[s.id])]
            mine[0].alone = row.id  # it takes nothing more, and this one once it has nothing left
        return mine[0] if counts[mine[0].id] == 0 else None

    async def _claim(self, picked: list[tuple[RunRow, LiveSession]]) -> int:
        book = self._book
        fresh: dict[str, Fresh] = {}
        unknown = []
        for row, _ in picked:
            known = book.fresh.pop(row.id, None)
            if known is None:
                unknown.append(Key("run", row.id))
            else:
                fresh[row.id] = known
        records = dict(zip(unknown, await book.records.load(*unknown), strict=True))
        for row, session in picked:
            known = fresh.get(row.id)
            record = records.get(Key("run", row.id))
            if known is not None:
                run = LiveRun(known.row, known.version, session)
            elif record is not None:
                run = LiveRun(row_of(record, RunRow), record.version, session)
            else:
                continue
            self._claim_one(run, session, known)
        return len(picked)

    def _claim_one(self, run: LiveRun, session: LiveSession, known: Fresh | None) -> None:
        row = run.row
        wants = row.state is Run.QUEUED or (row.state is Run.CANCELLING and not row.asleep)
        if not wants or row.session or row.id in self._book.live:
            if session.alone == row.id:
                session.alone = ""
            return
        if session.link is None or row.workflow not in session.workflows:
            self._queued.add(row.id)
            self._ready.setdefault((row.app, row.workflow), deque()).appendleft(row)
            return
        row.state = RUN.after(row.state, RunEvent.CLAIM)
        row.session = session.id
        row.versions = session.versions
        base = max(row.epoch, self._book.numbers.incarnation << EPOCH_BITS)
        row.epoch = base + 1
        run.given_at = session.heard
        session.runs[row.id] = run
        self._book.live[row.id] = run
        draft = Draft()
        self._book.write(draft, run)
        draft.then.append(lambda: setattr(run, "claimed", True))
        if known is not None:
            draft.then.append(lambda: self._send(run, session, known.input, []))
        else:
            draft.then.append(lambda: self._spawn(self.dispatch(run)))
        self._book.commit(draft)

    async def dispatch(self, run: LiveRun) -> None:
        """Send a run with its record to the session that has it."""
        session = run.session
        assert session is not None
        if session.link is not None:
            await session.link.room()
        bodies = await self._book.records.entries(run.row.no)
        while not run.closing and run.durable > len(bodies) - 1:
            bodies = await self._book.records.entries(run.row.no)
        if run.closing:
            return
        row = run.row
        stored = self._book.absorb(run, bodies)
        entries = [
            Entry(row.id, row.epoch, seq, e.kind, e.call, e.at_ms, e.ok, e.value, e.attempt)
            for seq, e in enumerate(stored, 1)
        ]
        self._send(run, session, bodies[0], entries)

    def _send(self, run: LiveRun, session: LiveSession, value: bytes, entries: list[Entry]) -> None:
        if session.link is None or run.closing:
            return
        row = run.row
        size = 0
        first = len(entries)
        for n, entry in enumerate(entries):
            size += len(entry.value) + 64
            if size > FIRST_BYTES:
                first = n
                break
        run.dispatched = run.silent = True
        run.given_at = session.heard
        session.link.send(
            Dispatch(
                row.id,
                row.epoch,
                row.workflow,
                value,
                row.made_ms,
                len(entries),
                entries[:first],
            )
        )
        for entry in entries[first:]:
            session.link.send(entry)
