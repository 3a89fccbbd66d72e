"""What people and programs ask for about runs: to start one, to go on, to supply a result."""

from __future__ import annotations

import asyncio
import copy

from outlive.core.rows import RunRow
from outlive.core.tables import RUN, Run, RunEvent
from outlive.server.book import Book, Refusal, digest_of
from outlive.server.live import LiveRun
from outlive.server.records import Draft, gone, row_of
from outlive.store.api import Key

__all__ = ["Desk"]


class Desk:
    """Each answer is a row as it was decided, and is given once that is durable."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._records = book.records

    async def start(
        self, app: str, workflow: str, run_id: str, value: bytes
    ) -> tuple[RunRow, bool]:
        """Start a run once for its id; whether it is new.

        Raises Refusal if a run of that id is another workflow's or had another input.
        """
        async with self._records.deciding:
            (record,) = await self._records.load(Key("run", run_id))
            if record is None:
                draft = Draft()
                row = copy.copy(
                    self._book.start(draft, run_id=run_id, app=app, workflow=workflow, value=value)
                )
                self._book.commit(draft)
            else:
                row = row_of(record, RunRow)
                was = (row.app, row.workflow, row.input_digest)
                if was != (app, workflow, digest_of(value)):
                    raise Refusal(
                        f"run {run_id} exists with another workflow or input: ids are used once"
                    )
        await self._records.durable()
        return row, record is None

    async def start_new(self, app: str, workflow: str, run_id: str, value: bytes) -> RunRow:
        """The same for an id that was just made and that nobody can have used."""
        draft = Draft()
        row = copy.copy(
            self._book.start(draft, run_id=run_id, app=app, workflow=workflow, value=value)
        )
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        draft.then.append(lambda: None if done.done() else done.set_result(None))
        draft.dropped = lambda: None if done.done() else done.set_exception(gone())
        self._book.commit(draft)
        await done
        return row

    async def resume(self, run_id: str) -> RunRow:
        """Have a run that needs attention tried again; raises Refusal."""
        async with self._records.deciding:
            run = await self._book.known(run_id)
            if run.row.state is not Run.NEEDS_ATTENTION:
                raise Refusal(f"run {run_id} is {run.row.state} and needs no attention")
            row = self._resume(Draft(), run)
        await self._records.durable()
        return row

    def _resume(self, draft: Draft, run: LiveRun) -> RunRow:
        row = run.row
        row.state = RUN.after(row.state, RunEvent.CANCEL if row.cancelled else RunEvent.RESUME)
        row.cause, row.deaths, row.deaths_alone = "", 0, 0
        self._book.write(draft, run)
        draft.then.append(lambda: self._book.ready(row))
        self._book.commit(draft)
        return copy.copy(row)

    async def supply(self, run_id: str, call: str, value: bytes) -> RunRow:
        """Give the result of a step whose own could not be stored; raises Refusal."""
        await self._records.durable()  # what the record says is read from the store
        async with self._records.deciding:
            run = await self._book.known(run_id)
            entries = self._book.absorb(run, await self._records.entries(run.row.no))
            last = {entry.call: entry.kind for entry in entries}.get(call)
            if run.row.state is not Run.NEEDS_ATTENTION or last != "refused":
                raise Refusal(f"call {call} of run {run_id} has no result that was refused")
            draft = Draft()
            self._book.entry(draft, run, "done", call, value=value)
            row = self._resume(draft, run)
        await self._records.durable()
        return row
