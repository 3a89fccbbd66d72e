"""Records as they were decided: what is on its way to the store stands over what is in it.

Whoever reads a record to decide about it holds `deciding`, so that no decision is made about what
another is about to change; nothing waits for the disk while it is held.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import msgspec

from outlive.core.rows import pack
from outlive.server.committer import Committer
from outlive.store.api import Commit, Due, Expect, Item, Key, Record, Store, StoreFault

__all__ = ["Draft", "Records", "gone", "row_of"]


class Draft:
    """A commit in the making. Each record it changes must still have the version that was read."""

    __slots__ = ("append", "dropped", "drops", "expect", "puts", "puts_at", "then")

    def __init__(self) -> None:
        self.expect: list[Expect] = []
        self.puts: list[Record] = []
        self.puts_at: dict[tuple[str, str], int] = {}
        self.drops: list[Key] = []
        self.append: list[Item] = []
        self.then: list[Callable[[], None]] = []
        """Called in order when it is durable."""
        self.dropped: Callable[[], object] = lambda: None
        """Called if nobody will ever know."""

    def put(
        self,
        kind: str,
        key: str,
        version: int,
        row: msgspec.Struct,
        *,
        due_ms: int | None = None,
        tag: str = "",
    ) -> int:
        """Write a row whose version was `version` (0: there was none); return the new one.

        A second time in one draft it stands in for the first.
        """
        record = Record(kind, key, version + 1, pack(row), due_ms, tag)
        at = self.puts_at.setdefault((kind, key), len(self.puts))
        if at == len(self.puts):
            self.expect.append(Expect(kind, key, version))
            self.puts.append(record)
        else:
            self.puts[at] = record
        return version + 1

    def need(self, kind: str, key: str, version: int) -> None:
        """Make it only if the record still has the version."""
        if (kind, key) not in self.puts_at:
            self.expect.append(Expect(kind, key, version))

    def drop(self, kind: str, key: str, version: int) -> None:
        """Remove a record."""
        self.expect.append(Expect(kind, key, version))
        self.drops.append(Key(kind, key))


class Records:
    """Reads through what is on its way, and writes."""

    def __init__(self, store: Store, failed: Callable[[StoreFault], None]) -> None:
        self.store = store
        self.deciding = asyncio.Lock()
        self.committer = Committer(store, failed)
        self._failed = failed
        self._forgotten = False
        self._coming: dict[Key, tuple[Record | None, int]] = {}
        """Key -> the record as decided, and how many commits that change it are on their way."""

    async def load(self, *keys: Key) -> list[Record | None]:
        """The records as decided; hold `deciding`."""
        self._check()
        missing = [key for key in keys if key not in self._coming]
        # Under the lock a record can only move from here to the store, so each is seen in one.
        found: dict[Key, Record | None] = {
            key: self._coming[key][0] for key in keys if key in self._coming
        }
        if missing:
            found.update(zip(missing, await self.store.load(missing), strict=True))
            self._check()
        return [found[key] for key in keys]

    async def entries(self, run_no: int, after: int = -1) -> list[bytes]:
        """See Store: what is durable."""
        found = await self.store.entries(run_no, after)
        self._check()
        return found

    async def page(self, kind: str, tag: str | None, after: int, limit: int) -> list[Record]:
        """See Store: what is durable."""
        found = await self.store.page(kind, tag, after, limit)
        self._check()
        return found

    async def due(self, until_ms: int, limit: int) -> list[Due]:
        """See Store: what is durable."""
        found = await self.store.due(until_ms, limit)
        self._check()
        return found

    def _check(self) -> None:
        """Whoever began before a fault must not go on after it, on what another now decides."""
        if self._forgotten:
            raise gone()

    def coming(self, kind: str, key: str) -> bool:
        """Whether a change of the record is on its way."""
        return Key(kind, key) in self._coming

    async def durable(self) -> None:
        """Return when everything decided so far is durable; raises StoreFault."""
        self._check()
        if not self.committer.idle:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

            def then(_made: bool) -> None:  # noqa: FBT001  what a committer calls
                if not done.done():
                    done.set_result(None)

            def dropped() -> None:
                if not done.done():
                    done.set_exception(gone())

            self.committer.give(Commit(), then, dropped)
            await done

    async def settle(self) -> None:
        """Return when everything decided so far is durable or given up."""
        with contextlib.suppress(StoreFault):
            await self.durable()

    def commit(self, draft: Draft) -> None:
        """Have it written."""
        self._check()
        keys = []
        for record in draft.puts:
            keys.append(key := Key(record.kind, record.key))
            self._coming[key] = (record, self._coming.get(key, (None, 0))[1] + 1)
        for key in draft.drops:
            keys.append(key)
            self._coming[key] = (None, self._coming.get(key, (None, 0))[1] + 1)

        def then(made: bool) -> None:  # noqa: FBT001  what a committer calls
            for key in keys:
                record, count = self._coming[key]
                if count == 1:
                    del self._coming[key]
                else:
                    self._coming[key] = (record, count - 1)
            if not made:
                draft.dropped()
                self._failed(
                    StoreFault("the store holds another state than this engine decided on")
                )
                return
            for call in draft.then:
                call()

        self.committer.give(
            Commit(tuple(draft.expect), tuple(draft.puts), tuple(draft.drops), tuple(draft.append)),
            then,
            draft.dropped,
        )

    def forget(self) -> None:
        """Drop what is on its way: the store has to be read again, by others of this class."""
        self._forgotten = True
        self.committer.drop()
        self._coming.clear()


def gone() -> StoreFault:
    """What is told to whoever waits for a commit of which nobody knows."""
    return StoreFault("the store failed before this was durable")


def row_of(record: Record, kind: type[Any]) -> Any:
    """The row in a record."""
    return msgspec.msgpack.decode(record.body, type=kind)
