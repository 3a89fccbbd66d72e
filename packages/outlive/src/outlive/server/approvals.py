"""Questions to people: asked by runs, decided once, or decided before they are asked."""

from __future__ import annotations

import msgspec

from outlive.core.keys import effect_key
from outlive.core.rows import ApprovalRow, EarlyRow, RunRow
from outlive.core.tables import APPROVAL, Approval, ApprovalEvent
from outlive.server.book import FINAL, Book, Refusal, wait_key
from outlive.server.live import LiveRun
from outlive.server.records import Draft, row_of
from outlive.store.api import Key, Record
from outlive.wire import asks
from outlive.wire.native_v1 import Ask

__all__ = ["Approvals", "approval_id"]

_pack = msgspec.msgpack.Encoder().encode


class Approvals:
    """Hold `deciding` for all but `decide` and `decide_early`, which answer once it is durable."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._records = book.records
        self._numbers = book.numbers

    async def ask(self, run: LiveRun, message: Ask, what: asks.Approve) -> None:
        """A run asks; what was decided early about just this counts."""
        key = wait_key(run.row.id, message.call)
        (record,) = await self._records.load(Key("early", key))
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
        early: EarlyRow | None = None if record is None else row_of(record, EarlyRow)
        if record is not None and early is not None and early.digest == what.digest:
            draft.drop("early", key, record.version)
            row.state = APPROVAL.after(row.state, event_of(approved=early.approved))
            row.decided_ms, row.by, row.comment = now, early.by, early.comment
            self._book.entry(draft, run, "met", message.call, value=_decision(row))
            run.calls[message.call] = run.seq
            self._book.expect(draft, run)
        else:
            self._book.open_wait(
                draft,
                run,
                message.call,
                message.kind,
                message.about,
                due_ms=self._numbers.due_ms(what.for_ms),
            )
        draft.put("approval", row.id, 0, row, tag=row.state.value)
        self._book.commit(draft)

    async def decide(
        self, approval: str, *, approved: bool, by: str, comment: str, digest: str | None = None
    ) -> ApprovalRow:
        """Decide once; raises Refusal if there is none, it is decided, or shows something else."""
        async with self._records.deciding:
            (record,) = await self._records.load(Key("approval", approval))
            if record is None:
                raise Refusal(f"there is no approval {approval}", 404)
            row: ApprovalRow = row_of(record, ApprovalRow)
            event = event_of(approved=approved)
            if not APPROVAL.allows(row.state, event):
                raise Refusal(f"approval {approval} is {row.state} already, by {row.by or 'time'}")
            if digest is not None and digest != row.digest:
                raise Refusal(f"approval {approval} is for {row.digest}, not for {digest}")
            run = await self._book.run(row.run)
            (wait,) = await self._records.load(Key("wait", wait_key(row.run, row.call)))
            if run is None or run.row.state in FINAL:
                raise Refusal(f"run {row.run} of approval {approval} has ended")
            draft = Draft()
            row = self.move(draft, record, event, by=by, comment=comment)
            if wait is not None:
                draft.drop("wait", wait.key, wait.version)
            self._book.meet(draft, run, row.call, ok=True, value=_decision(row))
            self._book.commit(draft)
        await self._records.durable()
        return row

    async def decide_early(
        self, run_id: str, call: str, *, digest: str, approved: bool, by: str, comment: str
    ) -> None:
        """Keep a decision for a question that was not asked yet; a later one replaces it."""
        async with self._records.deciding:
            key = wait_key(run_id, call)
            asked, early, run = await self._records.load(
                Key("approval", approval_id(run_id, call)), Key("early", key), Key("run", run_id)
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
            draft.put("early", key, early.version if early else 0, row, tag=run_id)
            self._book.commit(draft)
        await self._records.durable()

    def move(
        self, draft: Draft, record: Record, event: ApprovalEvent, *, by: str = "", comment: str = ""
    ) -> ApprovalRow:
        """What happens to a question that was read; raises Illegal."""
        row: ApprovalRow = row_of(record, ApprovalRow)
        row.state = APPROVAL.after(row.state, event)
        row.decided_ms, row.by, row.comment = self._numbers.now_ms(), by, comment
        draft.put("approval", row.id, record.version, row, tag=row.state.value)
        return row

    def withdraw(self, draft: Draft, approval: Record | None, wait: Record | None) -> None:
        """The run has ended, and with it its question, if that is still open."""
        if approval is not None and row_of(approval, ApprovalRow).state is Approval.PENDING:
            self.move(draft, approval, ApprovalEvent.WITHDRAW)
        if wait is not None:
            draft.drop("wait", wait.key, wait.version)


def approval_id(run_id: str, call: str) -> str:
    """The id of the question that a call of a run asks."""
    return effect_key(run_id, call)


def event_of(*, approved: bool) -> ApprovalEvent:
    """What a decision is to the question's table."""
    return ApprovalEvent.APPROVE if approved else ApprovalEvent.DENY


def _decision(row: ApprovalRow) -> bytes:
    approved = row.state is Approval.APPROVED
    return _pack({"approved": approved, "by": row.by, "comment": row.comment})
