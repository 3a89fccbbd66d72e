"""What happens to a run, as commits: entries of its record, and its row when its state changes.

Nothing here waits. Whoever calls holds the run as it was decided: one that a session has, which is
in memory, or one read under `Records.deciding`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgspec

from outlive.core.rows import RunRow, ValueRow, WaitRow
from outlive.core.tables import RUN, Run, RunEvent
from outlive.server.live import LiveRun
from outlive.server.numbers import Numbers, instant
from outlive.server.records import Draft, Records, row_of
from outlive.store.api import Item, Key
from outlive.wire.native_v1 import Entry, Evict

__all__ = ["HELD", "NIL", "Book", "Refusal", "Stored", "digest_of", "wait_key"]

NIL: Final = b"\xc0"
"""The value None."""
HELD: Final = frozenset({Run.RUNNING, Run.CANCELLING})
FINAL: Final = frozenset(state for state in Run if RUN.final(state))

_pack = msgspec.msgpack.Encoder().encode


class Refusal(ValueError):
    """What was asked for cannot be done; the message is for whoever asked. `code` as in HTTP."""

    def __init__(self, message: str, code: int = 409) -> None:
        super().__init__(message)
        self.code = code


class Stored(msgspec.Struct, array_like=True, frozen=True):
    """An entry as it stands in the store."""

    kind: str
    call: str
    at_ms: int
    ok: bool
    value: bytes
    attempt: int = 0


_decode = msgspec.msgpack.Decoder(Stored).decode


@dataclass(frozen=True, slots=True)
class Fresh:
    """A run that nobody has had yet: claimed without reading it again."""

    row: RunRow
    version: int
    input: bytes


class Book:
    """The runs. `live` are those that a session has."""

    def __init__(self, records: Records, numbers: Numbers) -> None:
        self.records = records
        self.numbers = numbers
        self.live: dict[str, LiveRun] = {}
        self.fresh: dict[str, Fresh] = {}
        self.ready: Callable[[RunRow], None] = lambda _row: None
        """Told of a run that wants a worker, once that is durable."""
        self.due: Callable[[int], None] = lambda _due_ms: None
        """Told of each instant that a wait is filed under, once that is durable."""
        self.ended: Callable[[RunRow], None] = lambda _row: None
        """Told of a run whose end, or need of a person, is durable."""

    # --- reading ---

    async def run(self, run_id: str) -> LiveRun | None:
        """The run as decided; hold `deciding`."""
        return (await self.runs([run_id]))[0]

    async def runs(self, ids: list[str]) -> list[LiveRun | None]:
        """The same for many at once."""
        # What a session lets go of meanwhile stays as decided: nobody else may take it yet.
        live = {run_id: self.live[run_id] for run_id in ids if run_id in self.live}
        unknown = [Key("run", run_id) for run_id in ids if run_id not in live]
        found = dict(zip(unknown, await self.records.load(*unknown), strict=True))
        known: list[LiveRun | None] = []
        for run_id in ids:
            run = live.get(run_id)
            if run is not None:
                await self.fill(run)
            record = found.get(Key("run", run_id))
            if run is None and record is not None:
                run = LiveRun(row_of(record, RunRow), record.version, None)
            known.append(run)
        return known

    async def known(self, run_id: str) -> LiveRun:
        """The same; raises Refusal if there is none."""
        run = await self.run(run_id)
        if run is None:
            raise Refusal(f"there is no run {run_id}", 404)
        return run

    async def fill(self, run: LiveRun) -> None:
        """Read what a run's record says, once, after a restart."""
        if not run.loaded:
            bodies = await self.records.entries(run.row.no)
            if not run.loaded:
                self.absorb(run, bodies)

    @staticmethod
    def decoded(bodies: list[bytes]) -> list[Stored]:
        """Entries as they were stored."""
        return [_decode(body) for body in bodies]

    def absorb(self, run: LiveRun, bodies: list[bytes]) -> list[Stored]:
        """Take in a whole record, which begins with the input; what its entries are."""
        entries = self.decoded(bodies[1:])
        for seq, entry in enumerate(entries, 1):
            call = entry.call
            if entry.kind == "tried":
                run.tries[call] = entry.attempt
                run.again[call] = msgspec.msgpack.decode(entry.value)[0]
            elif entry.kind == "asked":
                run.waits[call] = msgspec.msgpack.decode(entry.value)[0]
            elif entry.kind == "marked":
                run.mark(call)
            elif entry.kind != "cancelling":
                if entry.ok or entry.kind == "refused":
                    run.unsettled.discard(call)
                run.calls[call] = seq
                run.waits.pop(call, None)
                run.again.pop(call, None)
        run.seq = max(run.seq, len(entries))
        run.durable = max(run.durable, len(entries))
        run.loaded = True
        return entries

    # --- writing ---

    def entry(
        self,
        draft: Draft,
        run: LiveRun,
        kind: str,
        call: str,
        *,
        ok: bool = True,
        value: bytes = NIL,
        attempt: int = 0,
        echo: bool = False,
    ) -> None:
        """Append to the record; `echo`: the runner has the value and is not sent it again."""
        run.seq = seq = run.seq + 1
        now = self.numbers.now_ms()
        row = run.row
        draft.append.append(Item(row.no, seq, _pack(Stored(kind, call, now, ok, value, attempt))))
        session = run.session
        if session is None or run.closing:
            return
        message = Entry(
            row.id, row.epoch, seq, kind, call, now, ok, b"" if echo else value, attempt
        )

        def send() -> None:
            run.durable = seq
            if run.dispatched and not run.closing and session.link is not None:
                session.link.send(message)

        draft.then.append(send)

    def expect(self, draft: Draft, run: LiveRun) -> None:
        """Make the commit only if the run's row is still what was read."""
        draft.need("run", run.row.id, run.version)

    def write(self, draft: Draft, run: LiveRun) -> None:
        """Write the row."""
        row = run.row
        row.seq = run.seq
        row.changed_ms = self.numbers.now_ms()
        self.fresh.pop(row.id, None)
        run.version = draft.put("run", row.id, run.version, row, tag=row.state.value)

    def commit(self, draft: Draft) -> None:
        """Have it written."""
        self.records.commit(draft)

    # --- moves ---

    def start(
        self,
        draft: Draft,
        *,
        run_id: str,
        app: str,
        workflow: str,
        value: bytes,
        parent: str = "",
        parent_call: str = "",
        detached: bool = False,
    ) -> RunRow:
        """Make a run that does not exist."""
        now = self.numbers.now_ms()
        row = RunRow(
            id=run_id,
            no=self.numbers.next_run(),
            app=app,
            workflow=workflow,
            input_digest=digest_of(value),
            made_ms=now,
            changed_ms=now,
            event_no=self.numbers.events,
            parent=parent,
            parent_call=parent_call,
            detached=detached,
        )
        version = draft.put("run", run_id, 0, row, tag=row.state.value)
        draft.append.append(Item(row.no, 0, value))

        def then() -> None:
            changed = self.records.coming("run", run_id)
            if not changed and len(value) <= FRESH_BYTES and len(self.fresh) < FRESH_MAX:
                self.fresh[run_id] = Fresh(row, version, value)
            self.ready(row)

        draft.then.append(then)
        return row

    def meet(self, draft: Draft, run: LiveRun, call: str, *, ok: bool, value: bytes) -> None:
        """A wait of the run is over; it is woken if it sleeps."""
        run.waits.pop(call, None)
        self.entry(draft, run, "met", call, ok=ok, value=value)
        run.calls[call] = run.seq
        self.moved(draft, run)

    def moved(self, draft: Draft, run: LiveRun) -> None:
        """After an entry was appended: wake the run, or only make sure of its version."""
        row = run.row
        if row.asleep:
            self.wake(draft, run)
        elif run.session is None or run.closing:
            self.write(draft, run)
        else:
            self.expect(draft, run)

    def wake(self, draft: Draft, run: LiveRun) -> None:
        """A run that sleeps wants a worker."""
        row = run.row
        row.asleep = False
        row.state = RUN.after(row.state, RunEvent.WAKE)
        self._forget_retry(draft, run)
        self.write(draft, run)
        draft.then.append(lambda: self.ready(row))

    def _forget_retry(self, draft: Draft, run: LiveRun) -> None:
        if run.row.retry_ms:
            run.row.retry_ms = 0
            draft.drop("wait", wait_key(run.row.id, RETRY), 1)

    def sleep_till_retry(self, draft: Draft, run: LiveRun) -> None:
        """File the run under the instant of its next attempt."""
        row = run.row
        row.retry_ms = due = instant(min(run.again.values()), 1)
        wait = WaitRow(
            run=row.id,
            call=RETRY,
            kind="retry",
            about=NIL,
            made_ms=self.numbers.now_ms(),
            due_ms=due,
        )
        draft.put("wait", wait_key(row.id, RETRY), 0, wait, due_ms=due)
        draft.then.append(lambda: self.due(due))

    def leave(self, draft: Draft, run: LiveRun, event: RunEvent, *, evict: bool = True) -> None:
        """The run moves on without its session, if it has one; write what else changed before."""
        row = run.row
        row.state = RUN.after(row.state, event)
        row.asleep = event is RunEvent.SUSPEND
        row.session = ""
        row.unsettled = len(run.unsettled)
        if len(row.value) > VALUE_INLINE:
            draft.put("value", row.id, 0, ValueRow(value=row.value))
            row.value, row.value_bytes = b"", len(row.value)
        run.closing = True
        self.write(draft, run)
        session = run.session

        def then() -> None:
            if session is not None:
                session.runs.pop(row.id, None)
                if session.alone == row.id:
                    session.alone = ""
                if self.live.get(row.id) is run:
                    del self.live[row.id]
                if evict and session.link is not None:
                    session.link.send(Evict(row.id, row.epoch))
            if row.state in FINAL or row.state is Run.NEEDS_ATTENTION:
                self.ended(row)
            elif event is RunEvent.RELEASE:
                self.ready(row)

        draft.then.append(then)

    def park(self, draft: Draft, run: LiveRun, cause: str) -> None:
        """The run waits for a person."""
        run.row.cause = cause
        self.leave(draft, run, RunEvent.PARK)

    def drop_waits(self, draft: Draft, run: LiveRun) -> None:
        """Waits that are open when a run ends."""
        for call, kind in run.waits.items():
            if kind in {"sleep", "event"}:
                draft.drop("wait", wait_key(run.row.id, call), 1)
        run.waits.clear()
        self._forget_retry(draft, run)

    def open_wait(
        self,
        draft: Draft,
        run: LiveRun,
        call: str,
        kind: str,
        about: bytes,
        *,
        due_ms: int | None,
        tag: str = "",
        stored: bool = True,
    ) -> None:
        """A wait and its entry."""
        if stored:
            wait = WaitRow(
                run=run.row.id,
                call=call,
                kind=kind,
                about=about,
                made_ms=self.numbers.now_ms(),
                due_ms=due_ms,
            )
            draft.put("wait", wait_key(run.row.id, call), 0, wait, due_ms=due_ms, tag=tag)
            if due_ms is not None:
                draft.then.append(lambda: self.due(due_ms))
        run.waits[call] = kind
        self.entry(draft, run, "asked", call, value=_pack([kind, about, due_ms]))
        self.expect(draft, run)


RETRY: Final = ""
"""The call of the wait for the next attempt: it belongs to no one call."""
VALUE_INLINE: Final = 4096
"""Bytes of a result that is kept with its run."""
FRESH_MAX: Final = 10_000
FRESH_BYTES: Final = 16_384
"""An input that is larger is read again when it is given out."""


def wait_key(run_id: str, call: str) -> str:
    """The key of a wait's record."""
    return f"{len(run_id)}:{run_id}{call}"


def digest_of(value: bytes) -> str:
    """SHA-256 of an encoded value, in hex."""
    return hashlib.sha256(value).hexdigest()
