"""A store that forgets when the process ends: for tests, and what the others are compared with."""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from operator import attrgetter

from outlive.store.api import Commit, Due, Key, Record, StoreFault

__all__ = ["MemoryStore"]


class MemoryStore:
    """See `Store`. What is in it outlives `close`, as a file would."""

    def __init__(self) -> None:
        self._records: dict[Key, Record] = {}
        self._entries: dict[int, list[tuple[int, bytes]]] = {}
        self._due: list[tuple[int, int, Due]] = []
        """By instant and number."""
        self._number = 0
        self._is_open = False

    async def open(self) -> None:
        """See `Store`."""
        self._is_open = True

    async def close(self) -> None:
        """See `Store`."""
        self._is_open = False

    async def apply(self, batch: Sequence[Commit]) -> Sequence[bool]:
        """See `Store`."""
        self._check_open()
        return [self._try(commit) for commit in batch]

    def _check_open(self) -> None:
        if not self._is_open:
            raise StoreFault("the store in memory is not open")

    def _try(self, commit: Commit) -> bool:
        for kind, key, version in commit.expect:
            have = self._records.get(Key(kind, key))
            if (have.version if have else 0) != version:
                return False
        if len({(run_no, seq) for run_no, seq, _ in commit.append}) < len(commit.append):
            return False
        for run_no, seq, _ in commit.append:
            entries = self._entries.get(run_no)
            at = bisect.bisect_left(entries, (seq, b"")) if entries else 0
            if entries and at < len(entries) and entries[at][0] == seq:
                return False
        for record in commit.put:
            self._put(record)
        for gone in commit.drop:
            self._unfile(self._records.pop(gone, None))
        for run_no, seq, body in commit.append:
            bisect.insort(self._entries.setdefault(run_no, []), (seq, body))
        return True

    def _put(self, record: Record) -> None:
        key = Key(record.kind, record.key)
        have = self._records.get(key)
        self._unfile(have)
        if have is None:
            self._number += 1
        made = record._replace(number=have.number if have else self._number)
        self._records[key] = made
        if made.due_ms is not None:
            bisect.insort(self._due, (made.due_ms, made.number, Due(made.due_ms, *key)))

    def _unfile(self, record: Record | None) -> None:
        if record is not None and record.due_ms is not None:
            del self._due[bisect.bisect_left(self._due, (record.due_ms, record.number))]

    async def load(self, keys: Sequence[Key]) -> list[Record | None]:
        """See `Store`."""
        self._check_open()
        return [self._records.get(key) for key in keys]

    async def entries(self, run_no: int, after: int = -1) -> list[bytes]:
        """See `Store`."""
        self._check_open()
        return [body for seq, body in self._entries.get(run_no, ()) if seq > after]

    async def due(self, until_ms: int, limit: int) -> list[Due]:
        """See `Store`."""
        self._check_open()
        return [due for due_ms, _, due in self._due[:limit] if due_ms <= until_ms]

    async def next_due(self) -> int | None:
        """See `Store`."""
        self._check_open()
        return self._due[0][0] if self._due else None

    async def page(self, kind: str, tag: str | None, after: int, limit: int) -> list[Record]:
        """See `Store`."""
        self._check_open()
        found = [
            record
            for record in self._records.values()
            if record.kind == kind and record.number > after and tag in {None, record.tag}
        ]
        return sorted(found, key=attrgetter("number"))[:limit]
