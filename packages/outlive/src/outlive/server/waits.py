"""What runs wait for without a worker: times, events, children, people."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from outlive.core.keys import effect_key
from outlive.core.rows import ApprovalRow, AppRow, EarlyRow, EventRow, RunRow, WaitRow
from outlive.core.tables import APPROVAL, RUN, Approval, ApprovalEvent, Run, RunEvent
from outlive.server.book import FINAL, NIL, Book, Refusal, Stored, digest_of, early_row, wait_key
from outlive.server.live import LiveRun
from outlive.server.records import Draft, row_of
from outlive.store.api import Key, Record
from outlive.wire import asks
from outlive.wire.native_v1 import Ask

__all__ = ["Sent", "Waits", "approval_id"]

PAGE: Final = 500
_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Sent:
    """An event that was sent: its id, whether it was new, and the runs that it started."""

    id: str
    new: bool
    started: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Coming:
    """What has to be known before an event is sent."""

    app: str
    name: str
    id: str
    new: bool
    version: int
    waiting: list[tuple[WaitRow, int]]
    runs: dict[str, LiveRun]


class Waits:
    """Opens waits that runs ask for, and meets them."""

    def __init__(self, book: Book, apps: dict[str, AppRow]) -> None:
        self._book = book
        self._records = book.records
        self._numbers = book.numbers
        self._apps = apps
        self.timer_set: Callable[[int], None] = lambda _due: None
        """Told of each instant that a wait is filed under, once durable."""

    # --- asked by a runner ---

    def ask(self, run: LiveRun, message: Ask) -> Coroutine[Any, Any, None] | None:
        """Decide at once, or return what still has to be awaited; raises ValueError."""
        call = message.call
        if call in run.calls or call in run.waits or call in run.asking:
            return None
        what = asks.read(message.kind, message.about)
        draft = Draft()
        if isinstance(what, asks.Sleep):
            due = self._due(what.for_ms) if what.until_ms is None else what.until_ms
            self._open(draft, run, message, due_ms=due or self._numbers.now_ms())
            self._book.commit(draft)
            return None
        if isinstance(what, asks.Mark):
            self._book.entry(draft, run, "marked", call, value=message.about)
            run.calls[call] = run.seq
            self._book.expect(draft, run)
            self._book.commit(draft)
            return None
        run.asking.add(call)
        return self._ask(run, message, what)

    async def _ask(self, run: LiveRun, message: Ask, what: asks.What) -> None:
        async with self._records.deciding:
            # Each reads first and then, unless the run has left meanwhile, decides without waiting:
            # an entry is numbered in the moment in which it is given to the committer.
            try:
                match what:
                    case asks.Event():
                        await self._ask_event(run, message, what)
                    case asks.Emit():
                        await self._emit(run, message.call, what)
                    case asks.Child():
                        await self._ask_child(run, message, what)
                    case asks.Approve():
                        await self._ask_person(run, message, what)
            finally:
                run.asking.discard(message.call)

    def _due(self, for_ms: int | None) -> int | None:
        return None if for_ms is None else self._numbers.now_ms() + max(0, for_ms)

    def _open(
        self,
        draft: Draft,
        run: LiveRun,
        message: Ask,
        *,
        due_ms: int | None,
        tag: str = "",
        stored: bool = True,
    ) -> None:
        self._book.open_wait(
            draft,
            run,
            message.call,
            message.kind,
            message.about,
            due_ms=due_ms,
            tag=tag,
            stored=stored,
        )
        if due_ms is not None:
            draft.then.append(lambda: self.timer_set(due_ms))

    async def _ask_event(self, run: LiveRun, message: Ask, what: asks.Event) -> None:
        topic = topic_of(run.row.app, what.name)
        await self._settled(topic)
        found = await self._early(run, topic, what)
        version = await self._version(topic)
        if run.closing:
            return
        draft = Draft()
        if found is not None:
            self._met_by(draft, run, message.call, found)
        else:
            draft.put("topic", topic, version, AppRow())
            self._open(draft, run, message, due_ms=self._due(what.for_ms), tag=f"event:{topic}")
        self._book.commit(draft)

    async def _early(self, run: LiveRun, topic: str, what: asks.Event) -> EventRow | None:
        after = 0
        least = max(run.row.event_no, run.row.seen.get(what.name, 0))
        while page := await self._records.page("event", topic, after, PAGE):
            after = page[-1].number
            for record in page:
                event: EventRow = row_of(record, EventRow)
                if event.number > least and matches(event.data, what.match):
                    return event
        return None

    def _met_by(self, draft: Draft, run: LiveRun, call: str, event: EventRow) -> None:
        run.row.seen[event.name] = event.number
        value = _pack({"name": event.name, "id": event.id, "data": msgspec.Raw(event.data)})
        run.waits.pop(call, None)
        self._book.entry(draft, run, "met", call, value=value)
        run.calls[call] = run.seq
        if run.row.asleep:
            self._book.moved(draft, run)
        else:
            self._book.write(draft, run)

    async def _emit(self, run: LiveRun, call: str, what: asks.Emit) -> None:
        coming = await self._read(run.row.app, what.name, what.id, sender=run)
        if run.closing:
            return
        draft = Draft()
        self._book.entry(draft, run, "emitted", call)
        run.calls[call] = run.seq
        self._book.expect(draft, run)
        self._send(draft, coming, what.data)
        self._book.commit(draft)

    async def _ask_child(self, run: LiveRun, message: Ask, what: asks.Child) -> None:
        child = effect_key(run.row.id, message.call)
        (there,) = await self._records.load(Key("run", child))
        if run.closing:
            return
        draft = Draft()
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

    async def _ask_person(self, run: LiveRun, message: Ask, what: asks.Approve) -> None:
        wait = wait_key(run.row.id, message.call)
        (early_record,) = await self._records.load(Key("early", wait))
        if run.closing:
            return
        draft = Draft()
        now = self._numbers.now_ms()
        row = ApprovalRow(
            id=approval_id(run.row.id, message.call),
            run=run.row.id,
            call=message.call,
            title=what.title,
            details=what.details,
            digest=what.digest,
            made_ms=now,
        )
        early = None if early_record is None else early_row(early_record)
        if early_record is not None and early is not None and early.digest == what.digest:
            draft.drop("early", wait, early_record.version)
            event = ApprovalEvent.APPROVE if early.approved else ApprovalEvent.DENY
            row.state = APPROVAL.after(row.state, event)
            row.decided_ms, row.by, row.comment = now, early.by, early.comment
            self._book.entry(draft, run, "met", message.call, value=_decision(row))
            run.calls[message.call] = run.seq
            self._book.expect(draft, run)
        else:
            self._open(draft, run, message, due_ms=self._due(what.for_ms))
        draft.put("approval", row.id, 0, row, tag=row.state.value)
        self._book.commit(draft)

    # --- events ---

    async def send(self, app: str, name: str, event_id: str, data: bytes) -> Sent:
        """Store an event, once for its id; wake and start what it concerns; durable on return."""
        async with self._records.deciding:
            coming = await self._read(app, name, event_id)
            draft = Draft()
            sent = self._send(draft, coming, data)
            if sent.new:
                self._book.commit(draft)
        await self._records.durable()
        return sent

    async def _read(
        self, app: str, name: str, event_id: str, sender: LiveRun | None = None
    ) -> _Coming:
        topic = topic_of(app, name)
        await self._settled(topic)
        (there,) = await self._records.load(Key("event", topic_of(topic, event_id)))
        waiting = [] if there else await self._waiting(topic)
        version = await self._version(topic)
        ids = {wait.run for wait, _ in waiting}
        runs = {run.row.id: run for run in await self._book.runs(list(ids)) if run is not None}
        if sender is not None:
            runs[sender.row.id] = sender
        return _Coming(app, name, event_id, there is None, version, waiting, runs)

    def _send(self, draft: Draft, coming: _Coming, data: bytes) -> Sent:
        if not coming.new:
            return Sent(coming.id, new=False)
        topic = topic_of(coming.app, coming.name)
        key = topic_of(topic, coming.id)
        event = EventRow(
            app=coming.app,
            name=coming.name,
            id=coming.id,
            data=data,
            at_ms=self._numbers.now_ms(),
            number=self._numbers.next_event(),
        )
        draft.put("event", key, 0, event, tag=topic)
        # Event and wait both change the topic's version, so that neither can miss the other.
        draft.put("topic", topic, coming.version, AppRow())
        started = []
        for workflow, triggers in self._workflows(coming.app):
            if coming.name in triggers:
                run_id = f"{workflow}-{effect_key(workflow, key)}"
                self._book.start(
                    draft, run_id=run_id, app=coming.app, workflow=workflow, value=data
                )
                started.append(run_id)
        met: set[str] = set()
        for wait, version in coming.waiting:
            run = coming.runs.get(wait.run)
            what = asks.read("event", wait.about)
            # What has left since it was read took its waits along; nor is one taken twice by a run.
            if run is None or wait.run in met or wait.call in run.calls or run.row.state in FINAL:
                continue
            if isinstance(what, asks.Event) and matches(data, what.match):
                met.add(wait.run)
                draft.drop("wait", wait_key(wait.run, wait.call), version)
                self._met_by(draft, run, wait.call, event)
        return Sent(coming.id, new=True, started=tuple(started))

    def _workflows(self, app: str) -> list[tuple[str, list[str]]]:
        row = self._apps.get(app)
        return [] if row is None else list(row.workflows.items())

    async def _waiting(self, topic: str) -> list[tuple[WaitRow, int]]:
        after = 0
        found = []
        while page := await self._records.page("wait", f"event:{topic}", after, PAGE):
            after = page[-1].number
            found += [(row_of(record, WaitRow), record.version) for record in page]
        return found

    async def _settled(self, topic: str) -> None:
        """Pages show what is durable: wait until all about this topic is."""
        while self._records.coming("topic", topic):
            await self._records.durable()

    async def _version(self, topic: str) -> int:
        (record,) = await self._records.load(Key("topic", topic))
        return record.version if record else 0

    # --- times ---

    async def fire(self, until_ms: int, limit: int = PAGE) -> int:
        """Meet the waits whose time has come; how many there were."""
        due = await self._records.store.due(until_ms, limit)
        if not due:
            return 0
        async with self._records.deciding:
            waits = await self._records.load(*[Key(kind, key) for _, kind, key in due])
            open_waits: list[tuple[WaitRow, Record]] = [
                (row_of(record, WaitRow), record) for record in waits if record is not None
            ]
            runs = await self._book.runs(list(dict.fromkeys(wait.run for wait, _ in open_waits)))
            by_id = {run.row.id: run for run in runs if run is not None}
            asked = [wait for wait, _ in open_waits if wait.kind == "approve"]
            people = await self._records.load(
                *[Key("approval", approval_id(wait.run, wait.call)) for wait in asked]
            )
            expired = {
                (wait.run, wait.call): record
                for wait, record in zip(asked, people, strict=True)
                if record is not None
            }
            for wait, record in open_waits:
                run = by_id.get(wait.run)
                draft = Draft()
                draft.drop("wait", record.key, record.version)
                if run is not None and run.row.state not in FINAL:
                    if wait.kind == "retry":
                        run.row.retry_ms = 0
                        self._book.wake(draft, run)
                        self._book.commit(draft)
                        continue
                    approval = expired.get((wait.run, wait.call))
                    if approval is not None:
                        self._decide(draft, approval, ApprovalEvent.EXPIRE, by="", comment="")
                    self._book.meet(draft, run, wait.call, ok=wait.kind == "sleep", value=NIL)
                self._book.commit(draft)
        await self._records.durable()
        return len(due)

    # --- people ---

    async def decide(
        self, approval: str, *, approved: bool, by: str, comment: str, digest: str | None = None
    ) -> ApprovalRow:
        """Decide once; raises Refusal if there is none, it is decided, or shows something else."""
        async with self._records.deciding:
            (record,) = await self._records.load(Key("approval", approval))
            if record is None:
                raise Refusal(f"there is no approval {approval}", 404)
            row: ApprovalRow = row_of(record, ApprovalRow)
            event = ApprovalEvent.APPROVE if approved else ApprovalEvent.DENY
            if not APPROVAL.allows(row.state, event):
                raise Refusal(f"approval {approval} is {row.state} already, by {row.by or 'time'}")
            if digest is not None and digest != row.digest:
                raise Refusal(f"approval {approval} is for {row.digest}, not for {digest}")
            run, waits = (
                await self._book.run(row.run),
                await self._records.load(Key("wait", wait_key(row.run, row.call))),
            )
            draft = Draft()
            row = self._decide(draft, record, event, by=by, comment=comment)
            if waits[0] is not None:
                draft.drop("wait", waits[0].key, waits[0].version)
            if run is None or run.row.state in FINAL:
                raise Refusal(f"run {row.run} of approval {approval} has ended")
            self._book.meet(draft, run, row.call, ok=True, value=_decision(row))
            self._book.commit(draft)
        await self._records.durable()
        return row

    def _decide(
        self, draft: Draft, record: Record, event: ApprovalEvent, *, by: str, comment: str
    ) -> ApprovalRow:
        row: ApprovalRow = row_of(record, ApprovalRow)
        row.state = APPROVAL.after(row.state, event)
        row.decided_ms, row.by, row.comment = self._numbers.now_ms(), by, comment
        draft.put("approval", row.id, record.version, row, tag=row.state.value)
        return row

    async def decide_early(
        self, run_id: str, call: str, *, digest: str, approved: bool, by: str, comment: str
    ) -> None:
        """Keep a decision for a question that was not asked yet; a later one replaces it."""
        async with self._records.deciding:
            asked, early, run = await self._records.load(
                Key("approval", approval_id(run_id, call)),
                Key("early", wait_key(run_id, call)),
                Key("run", run_id),
            )
            if asked is not None:
                raise Refusal(f"call {call} of run {run_id} was asked: decide {asked.key}")
            if run is None or row_of(run, RunRow).state in FINAL:
                raise Refusal(f"there is no open run {run_id}", 404)
            row = EarlyRow(
                digest=digest,
                approved=approved,
                by=by,
                comment=comment,
                at_ms=self._numbers.now_ms(),
            )
            draft = Draft()
            draft.put("early", wait_key(run_id, call), early.version if early else 0, row)
            self._book.commit(draft)
        await self._records.durable()

    # --- ends ---

    async def end(
        self,
        draft: Draft,
        run: LiveRun,
        event: RunEvent,
        value: bytes,
        *,
        seq: int | None = None,
    ) -> None:
        """The run's end with all that hangs on it: its questions, and a parent that waits.

        With `seq`, only if that is still its last entry: else nothing is changed.
        """
        row = run.row
        asked = [call for call, kind in run.waits.items() if kind == "approve"]
        people = await self._records.load(
            *[Key("approval", approval_id(row.id, call)) for call in asked],
            *[Key("wait", wait_key(row.id, call)) for call in asked],
        )
        parent = await self._book.run(row.parent) if row.parent and not row.detached else None
        if (run.closing and run.session is not None) or seq not in {None, run.seq}:
            return
        for approval, wait in zip(people[: len(asked)], people[len(asked) :], strict=True):
            if approval is not None and row_of(approval, ApprovalRow).state is Approval.PENDING:
                self._decide(draft, approval, ApprovalEvent.WITHDRAW, by="", comment="")
            if wait is not None:
                draft.drop("wait", wait.key, wait.version)
        row.value = value
        self._book.drop_waits(draft, run)
        self._book.leave(draft, run, event)
        if parent is not None and parent.row.state not in FINAL:
            ok = row.state is Run.COMPLETED
            self._book.meet(draft, parent, row.parent_call, ok=ok, value=value or _cancelled(row))

    async def cancel(self, run_id: str) -> RunRow:
        """Have a run cancelled, and its children; raises Refusal if there is none or it ended."""
        async with self._records.deciding:
            row = await self._cancel(run_id)
        await self._records.durable()
        return row

    async def _cancel(self, run_id: str) -> RunRow:
        run = await self._book.run(run_id)
        if run is None:
            raise Refusal(f"there is no run {run_id}", 404)
        row = run.row
        if row.state in FINAL:
            raise Refusal(f"run {run_id} has ended already: {row.state}")
        if row.state is Run.CANCELLING:
            return row
        children = await self._children(run)
        if run.closing and row.state in FINAL:
            raise Refusal(f"run {run_id} has ended already: {row.state}")
        draft = Draft()
        was = row.state
        row.state = RUN.after(row.state, RunEvent.CANCEL)
        if row.epoch == 0:
            await self.end(draft, run, RunEvent.END_CANCELLED, b"")
        else:
            self._book.entry(draft, run, "cancelling", "")
            if row.asleep:
                self._book.wake(draft, run)
            else:
                self._book.write(draft, run)
                if was is Run.NEEDS_ATTENTION:
                    draft.then.append(lambda: self._book.ready(row))
        self._book.commit(draft)
        for child in children:
            try:
                await self._cancel(child)
            except Refusal:
                continue  # it ended in between, which is as good
        return row

    async def _children(self, run: LiveRun) -> list[str]:
        asked: dict[str, str] = {}
        for body in (await self._records.entries(run.row.no))[1:]:
            entry = msgspec.msgpack.decode(body, type=Stored)
            if entry.kind == "asked" and msgspec.msgpack.decode(entry.value)[0] == "child":
                asked[entry.call] = effect_key(run.row.id, entry.call)
            elif entry.kind == "met":
                asked.pop(entry.call, None)
        return list(asked.values())


def approval_id(run_id: str, call: str) -> str:
    """The id of the question that a call of a run asks."""
    return effect_key(run_id, call)


def topic_of(app: str, name: str) -> str:
    """A name for both that no other two have."""
    return f"{len(app)}:{app}{name}"


def matches(data: bytes, match: dict[str, bytes]) -> bool:
    """Whether the members of an event's data at the dotted paths are the values given."""
    if not match:
        return True
    try:
        whole = msgspec.msgpack.decode(data)
    except msgspec.MsgspecError:
        return False
    return all(_at(whole, path.split(".")) == value for path, value in match.items())


def _at(whole: Any, path: list[str]) -> bytes | None:
    for name in path:
        if not isinstance(whole, dict) or name not in whole:
            return None
        whole = whole[name]
    return _pack(whole)


def _decision(row: ApprovalRow) -> bytes:
    approved = row.state is Approval.APPROVED
    return _pack({"approved": approved, "by": row.by, "comment": row.comment})


def _cancelled(row: RunRow) -> bytes:
    return _pack(["outlive:RunCancelled", f"run {row.id} was cancelled", None])


def input_differs(row: RunRow, workflow: str, value: bytes) -> bool:
    """Whether a run was started as something else."""
    return row.workflow != workflow or row.input_digest != digest_of(value)


def event_id_of(*parts: str) -> str:
    """An id for an event that has none: the same for the same parts."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
