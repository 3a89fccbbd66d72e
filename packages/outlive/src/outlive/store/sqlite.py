"""One file: SQLite with a write-ahead log, a sync for each group of commits, one writer.

Rows are written where the engine runs and only COMMIT, which waits for the disk, in a thread. The
file is locked for as long as it is open: a second engine on it is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from outlive.store.api import Commit, Due, Key, Record, StoreBusy, StoreFault

__all__ = ["SqliteStore"]

T = TypeVar("T")

APPLICATION_ID: Final = 0x6F75746C
"""`outl`: what a file of ours says it is."""
MIGRATIONS: Final = (
    """
    CREATE TABLE records (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL,
        key TEXT NOT NULL,
        version INTEGER NOT NULL,
        body BLOB NOT NULL,
        due_ms INTEGER,
        tag TEXT NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX records_by_key ON records (kind, key);
    CREATE INDEX records_by_tag ON records (kind, tag, number);
    CREATE INDEX records_by_due ON records (due_ms) WHERE due_ms IS NOT NULL;
    CREATE TABLE entries (
        run_no INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (run_no, seq)
    ) STRICT;
    """,
)
"""Number n brings a file of version n to version n + 1. Never changed, only added to."""

VERSION_OF: Final = "SELECT version FROM records WHERE kind = ? AND key = ?"
PUT: Final = """
    INSERT INTO records (kind, key, version, body, due_ms, tag) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (kind, key) DO UPDATE SET
        version = excluded.version, body = excluded.body, due_ms = excluded.due_ms,
        tag = excluded.tag
"""
DROP: Final = "DELETE FROM records WHERE kind = ? AND key = ?"
APPEND: Final = "INSERT INTO entries (run_no, seq, body) VALUES (?, ?, ?)"
LOAD: Final = (
    "SELECT kind, key, version, body, due_ms, tag, number FROM records WHERE kind = ? AND key = ?"
)
ENTRIES: Final = "SELECT body FROM entries WHERE run_no = ? AND seq > ? ORDER BY seq"
DUE: Final = (
    "SELECT due_ms, kind, key FROM records WHERE due_ms <= ? AND due_ms IS NOT NULL "
    "ORDER BY due_ms, number LIMIT ?"
)
NEXT_DUE: Final = "SELECT min(due_ms) FROM records WHERE due_ms IS NOT NULL"
PAGE: Final = """
    SELECT kind, key, version, body, due_ms, tag, number FROM records
    WHERE kind = ? AND number > ? ORDER BY number LIMIT ?
"""
PAGE_OF_TAG: Final = """
    SELECT kind, key, version, body, due_ms, tag, number FROM records
    WHERE kind = ? AND tag = ? AND number > ? ORDER BY number LIMIT ?
"""


class SqliteStore:
    """See `Store`. `path` is the file; `vfs` another layer below SQLite, for tests."""

    def __init__(self, path: Path, *, vfs: str | None = None) -> None:
        self._path = path
        self._vfs = vfs
        self._connection: apsw.Connection | None = None
        self._lock = asyncio.Lock()
        self._thread: ThreadPoolExecutor | None = None

    async def open(self) -> None:
        """See `Store`."""
        try:
            self._connection = await asyncio.to_thread(self._connect)
        except apsw.BusyError:
            raise StoreBusy(
                f"{self._path} is open in another engine: one file has one engine; stop that one "
                "or use PostgreSQL for several"
            ) from None
        except apsw.Error as error:
            raise StoreFault(f"{self._path} cannot be opened: {error}") from error
        self._thread = ThreadPoolExecutor(1, "outlive-commit")

    def _connect(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path), vfs=self._vfs)
        try:
            # Before the first look at the file, which takes the lock that is then kept.
            connection.pragma("locking_mode", "EXCLUSIVE")
            connection.pragma("journal_mode", "WAL")
            connection.pragma("synchronous", "FULL")
            connection.pragma("cache_size", -65536)
            connection.pragma("wal_autocheckpoint", 4096)
            self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: apsw.Connection) -> None:
        with connection:
            connection.execute("CREATE TABLE IF NOT EXISTS outlive_lock (one INTEGER)")
            version = connection.pragma("user_version")
            identity = connection.pragma("application_id")
            if identity not in {0, APPLICATION_ID} or version > len(MIGRATIONS):
                raise StoreFault(
                    f"{self._path} is not this program's (application {identity}, version "
                    f"{version}; known up to {len(MIGRATIONS)}): use the outlive that made it"
                )
            for step in MIGRATIONS[version:]:
                connection.execute(step)
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", len(MIGRATIONS))

    async def close(self) -> None:
        """See `Store`."""
        async with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                await asyncio.to_thread(connection.close)
            if self._thread is not None:
                self._thread.shutdown()
                self._thread = None

    async def apply(self, batch: Sequence[Commit]) -> Sequence[bool]:
        """See `Store`."""
        async with self._lock:
            connection = self._open()
            try:
                connection.execute("BEGIN IMMEDIATE")
                made = [_try(connection, commit) for commit in batch]
                loop = asyncio.get_running_loop()
                await loop.run_in_executor(self._thread, connection.execute, "COMMIT")
            except BaseException as error:
                # Nobody can say what reached the disk; the connection is of no more use.
                self._connection = None
                connection.close(True)
                if isinstance(error, apsw.Error):
                    raise StoreFault(f"{self._path}: {error}") from error
                raise
            return made

    async def load(self, keys: Sequence[Key]) -> list[Record | None]:
        """See `Store`."""

        def read(connection: apsw.Connection) -> list[Record | None]:
            found: list[Record | None] = []
            for key in keys:
                row = next(connection.execute(LOAD, key), None)
                found.append(None if row is None else _record(row))
            return found

        return await self._read(read)

    async def entries(self, run_no: int, after: int = -1) -> list[bytes]:
        """See `Store`."""
        return await self._read(
            lambda connection: [body for (body,) in connection.execute(ENTRIES, (run_no, after))]
        )

    async def due(self, until_ms: int, limit: int) -> list[Due]:
        """See `Store`."""
        return await self._read(
            lambda connection: [Due(*row) for row in connection.execute(DUE, (until_ms, limit))]
        )

    async def next_due(self) -> int | None:
        """See `Store`."""
        return await self._read(lambda connection: next(connection.execute(NEXT_DUE))[0])

    async def page(self, kind: str, tag: str | None, after: int, limit: int) -> list[Record]:
        """See `Store`."""

        def read(connection: apsw.Connection) -> list[Record]:
            if tag is None:
                rows = connection.execute(PAGE, (kind, after, limit))
            else:
                rows = connection.execute(PAGE_OF_TAG, (kind, tag, after, limit))
            return [_record(row) for row in rows]

        return await self._read(read)

    async def _read(self, read: Callable[[apsw.Connection], T]) -> T:
        async with self._lock:  # not beside a COMMIT: what is shown is durable
            try:
                return read(self._open())
            except apsw.Error as error:
                raise StoreFault(f"{self._path}: {error}") from error

    def _open(self) -> apsw.Connection:
        if self._connection is None:
            raise StoreFault(f"{self._path} is not open")
        return self._connection


def _try(connection: apsw.Connection, commit: Commit) -> bool:
    execute = connection.execute
    for kind, key, version in commit.expect:
        row = next(execute(VERSION_OF, (kind, key)), None)
        if (0 if row is None else row[0]) != version:
            return False
    # The expectations guard most commits; a savepoint guards what only a constraint refuses.
    guarded = bool(commit.append)
    if guarded:
        execute("SAVEPOINT one")
    try:
        for record in commit.put:
            execute(PUT, record[:6])
        for gone in commit.drop:
            execute(DROP, gone)
        for item in commit.append:
            execute(APPEND, item)
    except apsw.ConstraintError:
        execute("ROLLBACK TO one")
        execute("RELEASE one")
        return False
    if guarded:
        execute("RELEASE one")
    return True


def _record(row: tuple[Any, ...]) -> Record:
    return Record(*row)
