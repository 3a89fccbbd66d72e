"""What runs wait for without a worker, and how a run's end and its cancel reach others."""

from __future__ import annotations

import copy
from collections.abc import Coroutine, Mapping
from typing import Any, Final

import msgspec

from outlive.core.keys import effect_key
from outlive.core.rows import AppRow, RunRow, WaitRow
from outlive.core.tables import RUN, ApprovalEvent, Run, RunEvent
from outlive.server.approvals import Approvals, approval_id
from outlive.server.book import FINAL, NIL, Book, Refusal, Stored, wait_key
from outlive.server.events import Events
from outlive.server.live import LiveRun
from outlive.server.names import checked
from outlive.server.numbers import instant
from outlive.server.records import Draft, row_of
from outlive.store.api import Key, Record
from outlive.wire import asks
from outlive.wire.native_v1 import Ask
from outlive.wire.values import VALUE_MAX

__all__ = ["Waits"]

PAGE: Final = 500
_pack = msgspec.msgpack.Encoder().encode


class Waits:
    """Opens waits that runs ask for, and meets them."""

    def __init__(self, book: Book, apps: dict[str, AppRow]) -> None:
        self._book = book
        self._records = book.records
        self._numbers = book.numbers
        self.events = Events(book, apps)
        self.approvals = Approvals(book)

    # --- asked by a runner ---

    def ask(self, run: LiveRun, message: Ask) -> Coroutine[Any, Any, None] | None:
        """Decide at once, or return what still has to be awaited; raises ValueError."""
        call = message.call
        if call in run.asking:
            return None
        if message.kind == "mark":
            if call not in run.marks:
                self._mark(run, message)
            return None
        if call in run.calls or call in run.waits:
            return None
        what = read(message)
        if isinstance(what, asks.Sleep):
            draft = Draft()
            due_ms = self._numbers.due_ms(what.for_ms)
            if what.until_ms is not None:
                due_ms = instant(what.until_ms)
            self._open(draft, run, message, due_ms=due_ms or self._numbers.now_ms())
            self._book.commit(draft)
            return None
        run.asking.add(call)
        return self._ask(run, message, what)

    def _mark(self, run: LiveRun, message: Ask) -> None:
        read(message)
        draft = Draft()
        self._book.entry(draft, run, "marked", message.call, value=message.about)
        run.mark(message.call)
        self._book.expect(draft, run)
        self._book.commit(draft)

    async def _ask(self, run: LiveRun, message: Ask, what: asks.What) -> None:
        async with self._records.deciding:
            # Each reads first and then, unless the run has left meanwhile, decides without waiting:
            # an entry is numbered in the moment in which it is given to the committer.
            try:
                match what:
                    case asks.Event():
                        await self.events.ask(run, message, what)
                    case asks.Emit():
                        await self.events.emit(run, message.call, what)
                    case asks.Child():
                        await self._ask_child(run, message, what)
                    case asks.Approve():
                        await self.approvals.ask(run, message, what)
            finally:
                run.asking.discard(message.call)

    def _open(
        self,
        draft: Draft,
        run: LiveRun,
        message: Ask,
        *,
        due_ms: int | None,
        stored: bool = True,
    ) -> None:
        self._book.open_wait(
            draft, run, message.call, message.kind, message.about, due_ms=due_ms, stored=stored
        )

    async def _ask_child(self, run: LiveRun, message: Ask, what: asks.Child) -> None:
        child = effect_key(run.row.id, message.call)
        (there,) = await self._records.load(Key("run", child))
        if run.closing:
            return
        draft = Draft()
        if there is not None and row_of(there, RunRow).parent != run.row.id:
            cause = f"{message.call} starts run {child}, which is another's: ids are used once"
            self._book.park(draft, run, cause)
            self._book.commit(draft)
            return
        if there is None:
            self._book.start(
                draft,
                run_id=child,
                app=run.row.app,
                workflow=what.workflow,
                value=what.input,
                parent=run.row.id,
                parent_call=message.call,
                detached=what.detached,
            )
        if what.detached:
            self._book.entry(draft, run, "met", message.call, value=_pack(child))
            run.calls[message.call] = run.seq
            self._book.expect(draft, run)
        else:
            self._open(draft, run, message, due_ms=None, stored=False)
        self._book.commit(draft)

    # --- times ---

    async def fire(self, until_ms: int, limit: int = PAGE) -> int:
        """Meet the waits whose time has come; how many there were."""
        due = await self._records.due(until_ms, limit)
        if not due:
            return 0
        async with self._records.deciding:
            found = await self._records.load(*[Key(kind, key) for _, kind, key in due])
            waits: list[tuple[WaitRow, Record]] = [
                (row_of(record, WaitRow), record) for record in found if record is not None
            ]
            ids = list(dict.fromkeys(wait.run for wait, _ in waits))
            runs = {run.row.id: run for run in await self._book.runs(ids) if run is not None}
            asked = [wait for wait, _ in waits if wait.kind == "approve"]
            people = await self._records.load(
                *[Key("approval", approval_id(wait.run, wait.call)) for wait in asked]
            )
            approvals = {
                (wait.run, wait.call): record
                for wait, record in zip(asked, people, strict=True)
                if record is not None
            }
            for wait, record in waits:
                run = runs.get(wait.run)
                ended = run is None or run.row.state in FINAL
                if ended and run is not None and run.session is not None:
                    continue  # it ended while this was read, and took its waits along
                draft = Draft()
                draft.drop("wait", record.key, record.version)
                if run is not None and not ended:
                    self._time_is_over(draft, run, wait, approvals.get((wait.run, wait.call)))
                self._book.commit(draft)
        await self._records.durable()
        return len(due)

    def _time_is_over(
        self, draft: Draft, run: LiveRun, wait: WaitRow, approval: Record | None
    ) -> None:
        if wait.kind == "retry":
            run.row.retry_ms = 0
            self._book.wake(draft, run)
            return
        if approval is not None:
            self.approvals.move(draft, approval, ApprovalEvent.EXPIRE)
        self._book.meet(draft, run, wait.call, ok=wait.kind == "sleep", value=NIL)

    # --- ends ---

    async def end(self, run: LiveRun, event: RunEvent, value: bytes, *, seq: int) -> None:
        """The end of a run that a session has, if `seq` is still its last entry."""
        row = run.row
        asked = [call for call, kind in run.waits.items() if kind == "approve"]
        people = await self._records.load(
            *[Key("approval", approval_id(row.id, call)) for call in asked],
            *[Key("wait", wait_key(row.id, call)) for call in asked],
        )
        parent = await self._parent(row)
        if run.closing or seq != run.seq:
            return
        draft = Draft()
        for approval, wait in zip(people[: len(asked)], people[len(asked) :], strict=True):
            self.approvals.withdraw(draft, approval, wait)
        self._end(draft, run, event, value, parent)
        self._book.commit(draft)

    async def _parent(self, row: RunRow) -> LiveRun | None:
        """Who waits for the run's end."""
        return await self._book.run(row.parent) if row.parent and not row.detached else None

    def _end(
        self, draft: Draft, run: LiveRun, event: RunEvent, value: bytes, parent: LiveRun | None
    ) -> None:
        row = run.row
        row.value = value
        self._book.drop_waits(draft, run)
        self._book.leave(draft, run, event)
        if parent is not None and parent.row.state not in FINAL:
            ok = row.state is Run.COMPLETED
            self._book.meet(draft, parent, row.parent_call, ok=ok, value=value or _cancelled(row))

    async def cancel(self, run_id: str) -> RunRow:
        """Have a run cancelled, and its children, in one commit.

        Raises Refusal if there is none or it has ended.
        """
        async with self._records.deciding:
            first = await self._book.known(run_id)
            parent = await self._parent(first.row)
            known = {} if parent is None else {parent.row.id: parent}
            todo = {run_id: first}
            # All is read before anything is decided: runs that sessions have go on meanwhile.
            unread = [first]
            for run in unread:
                ids = [child for child in await self._children(run) if child not in todo]
                found = [child for child in await self._book.runs(ids) if child is not None]
                todo |= {child.row.id: child for child in found}
                unread += found
            if first.row.state in FINAL:
                raise Refusal(f"run {run_id} has ended already: {first.row.state}")
            draft = Draft()
            known |= todo
            for run in todo.values():
                self._cancel(draft, run, known)
            shown = copy.copy(first.row)
            self._book.commit(draft)
        await self._records.durable()
        return shown

    def _cancel(self, draft: Draft, run: LiveRun, known: Mapping[str, LiveRun]) -> None:
        row = run.row
        was = row.state
        if was in FINAL or was is Run.CANCELLING:
            return
        row.state = RUN.after(was, RunEvent.CANCEL)
        if row.epoch == 0:
            parent = None if row.detached else known.get(row.parent)
            self._end(draft, run, RunEvent.END_CANCELLED, b"", parent)
            return
        if not row.cancelled:
            row.cancelled = True
            self._book.entry(draft, run, "cancelling", "")
        if row.asleep:
            self._book.wake(draft, run)
            return
        self._book.write(draft, run)
        if was is Run.NEEDS_ATTENTION:
            draft.then.append(lambda: self._book.ready(row))

    async def _children(self, run: LiveRun) -> list[str]:
        """Ids of the runs that it has started and still waits for."""
        # What is recorded is durable or, of a run that a session has, in memory.
        calls = [call for call, kind in run.waits.items() if kind == "child"]
        asked = {call: effect_key(run.row.id, call) for call in calls}
        for body in (await self._records.entries(run.row.no))[1:]:
            entry = msgspec.msgpack.decode(body, type=Stored)
            if entry.kind == "asked" and msgspec.msgpack.decode(entry.value)[0] == "child":
                asked[entry.call] = effect_key(run.row.id, entry.call)
            elif entry.kind == "met":
                asked.pop(entry.call, None)
        return list(asked.values())


def read(message: Ask) -> asks.What:
    """What is asked for; raises ValueError."""
    if not message.call:
        raise ValueError("a call without a name")
    if len(message.about) > VALUE_MAX:
        raise ValueError(f"{len(message.about):,} bytes; the most is {VALUE_MAX:,}")
    what = asks.read(message.kind, message.about)
    if isinstance(what, asks.Event | asks.Emit):
        checked("event", what.name)
    elif isinstance(what, asks.Child):
        checked("workflow", what.workflow)
    if isinstance(what, asks.Emit):
        checked("event id", what.id)
        # It becomes a part of what others are given.
        try:
            msgspec.msgpack.decode(what.data, type=msgspec.Raw)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise ValueError(f"emit: data is no value: {error}") from None
    return what


def _cancelled(row: RunRow) -> bytes:
    return _pack(["outlive:RunCancelled", f"run {row.id} was cancelled", None])
